//! Blocking: whoever blocks gives its places to others meanwhile.
//!
//! All blocking of raddle's ends in a parker (`raddle_sync::parker`): latches of forks, scopes and futures, locks and
//! conditions. It calls the hooks here, which see to all workers that the thread is, in whichever pools. What blocks
//! elsewhere (a disk, a lock of the standard library) says so by [`blocking`].

use std::cell::Cell;
use std::sync::Once;

use raddle_sync::atomic::{Ordering, fence};
use raddle_sync::parker::{self, Hooks};
use raddle_sync::watch::{self, LockHooks};
use raddle_trace::EventKind;

use crate::depth;
use crate::local;
use crate::places::Resumed;
use crate::pool::recorder::{self, NOTHING};
use crate::pool::registry::Waker;
use crate::pool::worker::Worker;
use crate::pool::worker_memory::{Hold, WorkerMemory};
use crate::pool::{Pool, current_parker};
use crate::timer;

/// Makes the hooks known, before the first pool has a thread.
pub(crate) fn init() {
    static INIT: Once = Once::new();
    INIT.call_once(|| {
        parker::set_hooks(Hooks { block, unblock });
        local::within::init();
        watch::set_lock_hooks(LockHooks {
            before: before_lock,
            waits: note_wait,
            awake: note_awake,
        });
    });
}

/// The calling thread may be about to sleep for a lock: what it has put off is for others now, if there are any. As somebody who waits
/// for a lock it does not run it itself.
fn before_lock() {
    let alone = || match Worker::here() {
        Some(memory) => {
            let registry = memory.registry();
            let only = registry.threads() == 1 || registry.ended();
            registry.is_forked() || memory.owned.for_good.get() && only
        }
        None => Pool::global_if_built().is_some_and(|pool| pool.registry().is_forked()),
    };
    if depth::has_put_off() && !alone() {
        depth::flush();
    }
}

/// The calling thread is about to sleep for a lock.
fn note_wait(lock: usize, holder: u32) {
    for memory in Worker::occupied() {
        memory.registry().places.wants_lock();
        // Whoever waits for what this one has is told whom it waits for.
        memory.lane.note_strand();
    }
    recorder::note_if_recording(
        EventKind::LockWait,
        holder as usize,
        recorder::key_of(lock as *const u8),
    );
}

/// It is awake, and knows by now as which strand it holds locks.
fn note_awake(lock: usize, me: u32) {
    Worker::occupied().for_each(|memory| memory.registry().places.has_lock());
    recorder::note_if_recording(
        EventKind::LockHad,
        me as usize,
        recorder::key_of(lock as *const u8),
    );
}

/// The calling thread is about to block.
fn block() {
    timer::about_to_block();
    for memory in Worker::occupied() {
        match memory.owned.hold.get() {
            Hold::Place => memory.give(),
            Hold::Away(_) => memory.show(),
            _ => {}
        }
    }
}

/// The calling thread goes on.
fn unblock() {
    for memory in Worker::occupied() {
        if memory.owned.hold.get() == Hold::Given {
            memory.regain();
        }
    }
}

impl WorkerMemory {
    fn give(&self) {
        let registry = self.registry();
        self.owned.hold.set(Hold::Given);
        self.limited_wait_has_place(false);
        if !self.owned.apart.get() {
            self.lane.note(EventKind::Wait, 0, NOTHING);
        }
        // Nobody else can publish what lies here without a heavy fence.
        self.open_forks();
        registry.stats.given.add();
        self.note_nap();
        self.note_sleep([current_parker(), parker::current()]);
        if self.ring.has_work() && registry.is_crowded() {
            // Where others can take the newest of them.
            registry.inject_again(self.ring.drain());
        }
        registry.sign_off(self);
        registry.places.block(&registry.crew(Waker::Idle), self.index, self.owned.hosts.get());
    }

    /// Lets others see what this worker has forked since it gave its place away, if there is any.
    fn show(&self) {
        if self.fork.has_work() {
            self.open_forks();
            fence(Ordering::SeqCst); // S1
            self.registry().wake_if_needed(Waker::Idle);
        }
    }

    fn regain(&self) {
        let registry = self.registry();
        if !self.owned.apart.get() {
            self.lane.note(EventKind::Waited, 0, NOTHING);
        }
        if registry.is_guest(self.index) {
            registry.guests.fetch_add(1, Ordering::Relaxed);
        }
        self.note_look();
        let resumed = registry.places.resume(self.index, self.owned.hosts.take());
        let claimed = resumed == Resumed::Claimed;
        self.owned.hold.set(if claimed { Hold::Claimed } else { Hold::Place });
        self.limited_wait_has_place(true);
        if resumed == Resumed::Surplus {
            registry.stats.surplus.add();
        }
        self.note_awake();
        self.comes();
    }

    /// Makes all forks of this worker public.
    fn open_forks(&self) {
        if self.fork.has_work() {
            self.fork.open(self.base().head().slot());
        }
    }
}

/// Calls `f`, which may block elsewhere than in raddle: in a system call, or a lock of another library. A thread that
/// works for a pool gives its place in the pool to another thread meanwhile.
///
/// Costs four read-modify-writes, and a wake if there is work for another thread. Outside of pools it just calls `f`.
///
/// ```
/// use raddle::{Pool, blocking};
/// use std::sync::mpsc;
///
/// let pool = Pool::new(1)?;
/// let (send, receive) = mpsc::channel();
/// let first = pool.spawn(move || blocking(|| receive.recv().unwrap()));
/// drop(pool.spawn(move || send.send(7)));
/// assert_eq!(first.wait()?, 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "block_in_place")]
#[doc(alias = "ManagedBlocker")]
pub fn blocking<R>(f: impl FnOnce() -> R) -> R {
    depth::flush();
    block();
    let _away = Away::new();
    f()
}

raddle_sync::thread_local! {
    /// How many calls of `blocking` the thread is within.
    static CALLS: Cell<u32> = const { Cell::new(0) };
}

/// The time of a call of `blocking`. Waits within it do not take the place back when they are over, as the call may block
/// again.
struct Away(u32);

impl Away {
    fn new() -> Away {
        let call = CALLS.with(Cell::get) + 1;
        CALLS.with(|calls| calls.set(call));
        Worker::occupied().filter(|memory| memory.owned.hold.get() == Hold::Given).for_each(
            |memory| {
                memory.owned.hold.set(Hold::Away(call));
                memory.note_awake();
                // It may go on forking, though without a place nobody need ask it to (S6).
                memory.registry().places.go_away();
                memory.comes();
            },
        );
        Away(call)
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        CALLS.with(|calls| calls.set(self.0 - 1));
        Worker::occupied().filter(|memory| memory.owned.hold.get() == Hold::Away(self.0)).for_each(
            |memory| {
                memory.registry().places.come_back();
                memory.regain();
            },
        );
    }
}
