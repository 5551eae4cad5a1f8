//! Seats: pools whose threads come from elsewhere, for schedulers of other libraries (`compat`).
//!
//! Such a pool starts no thread for its places. Whoever has a *seat* brings a thread when it likes, and that thread is the
//! worker of that index until the pool ends. There are no guests: what comes from outside is queued, and run by one of the
//! pool's threads. And what a thread looks for has an order that programs may rely on: see `find_work`.
//!
//! # Invariants
//!
//! - **B1** A seat is given away once (`given`), so no memory has two threads. A place counts as held until its thread is there: so nobody
//!   wakes a thread that has not come.

use std::any::Any;
use std::fmt;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use raddle_sync::atomic::{AtomicBool, Ordering};

use crate::panics::discard;
use crate::pool::builder::{MOST_THREADS, SPARES, ThreadHooks, Waits};
use crate::pool::policy::Policy;
use crate::pool::recorder::Settings;
use crate::pool::registry::{Config, Registry};
use crate::pool::search::Comes;
use crate::pool::worker::Worker;
use crate::pool::worker_memory::{Hold, WorkerMemory};
use crate::spawn::hooks::Hooks;

pub(crate) const MOST_SEATS: usize = MOST_THREADS;

/// As `Policy::spin`. A thread that comes too late for one region is there for the next one: of regions of 100 us, 30 us apart,
/// with 100 % a thread sleeps after each, and rayon's programs take a tenth longer than with rayon. Where that does not pay, it is 100 %
/// (`policy::BETS`).
const SPIN: u32 = 300;

type ThreadHook = Box<dyn Fn(usize) + Send + Sync>;
type PanicHook = Box<dyn Fn(Box<dyn Any + Send>) + Send + Sync>;

/// What is called in threads that come from elsewhere.
#[derive(Default)]
pub(crate) struct SeatHooks {
    start: Option<ThreadHook>,
    exit: Option<ThreadHook>,
    /// Gets what nobody else waits for.
    panic: Option<PanicHook>,
    /// Of its own tasks a thread takes the oldest first.
    pub(crate) oldest_first: bool,
    gone: Option<fn(&Registry)>,
    /// Of each seat, whether somebody has it (B1).
    given: Box<[AtomicBool]>,
    /// How many threads have come.
    arrived: Mutex<usize>,
    came: Condvar,
}

impl fmt::Debug for SeatHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SeatHooks").finish_non_exhaustive()
    }
}

impl SeatHooks {
    pub(crate) fn new(
        start: Option<ThreadHook>,
        exit: Option<ThreadHook>,
        panic: Option<PanicHook>,
    ) -> SeatHooks {
        SeatHooks { start, exit, panic, ..SeatHooks::default() }
    }

    /// The thread has come. From the end of the hook on it counts as a searcher.
    pub(crate) fn start(&self, memory: &WorkerMemory) {
        let own = memory.index < memory.registry().threads();
        if own {
            self.arrive();
        }
        self.call(self.start.as_ref(), memory);
        if own {
            let searches = memory.registry().places.try_search(usize::MAX);
            debug_assert!(searches);
        }
    }

    pub(crate) fn has_exit(&self) -> bool {
        self.exit.is_some()
    }

    pub(crate) fn exit(&self, memory: &WorkerMemory) {
        self.call(self.exit.as_ref(), memory);
    }

    /// In the pool's own threads: a spare one has no index.
    fn call(&self, hook: Option<&ThreadHook>, memory: &WorkerMemory) {
        if let Some(hook) = hook.filter(|_| memory.index < memory.registry().threads()) {
            self.guard(|| hook(memory.index));
        }
    }

    /// Calls `f`, whose panic goes to the hook. Without one, or if it panics too, the process ends.
    pub(crate) fn guard(&self, f: impl FnOnce()) {
        let Err(payload) = panic::catch_unwind(AssertUnwindSafe(f)) else { return };
        let Some(hook) = &self.panic else {
            abort(
                "a panic in a spawned task or a thread's handler, and the pool has no panic handler",
            );
        };
        if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(|| hook(payload))) {
            discard(payload);
            abort("a panic in a pool's panic handler");
        }
    }

    fn arrive(&self) {
        *self.arrived.lock().unwrap_or_else(|e| e.into_inner()) += 1;
        self.came.notify_all();
    }
}

/// Nobody is there to take a panic.
pub(crate) fn abort(why: &str) -> ! {
    raddle_sync::abort(format_args!("{why}; aborting"));
}

/// What such a pool is to be.
pub(crate) struct SeatConfig {
    pub(crate) threads: usize,
    pub(crate) waits: Waits,
    pub(crate) stack_size: Option<usize>,
    pub(crate) trace: Settings,
    /// Called if the file to record into cannot be written: then the pool is not recorded.
    pub(crate) unwritten: fn(&Path, &io::Error),
    pub(crate) oldest_first: bool,
    pub(crate) hooks: SeatHooks,
    /// Called when the last thread and the last handle have gone.
    pub(crate) gone: fn(&Registry),
}

impl Registry {
    /// A pool without threads.
    pub(crate) fn seated(config: SeatConfig) -> io::Result<Arc<Registry>> {
        let given = (0..config.threads).map(|_| AtomicBool::new(false)).collect();
        let (oldest_first, gone) = (config.oldest_first, Some(config.gone));
        let seats = SeatHooks { oldest_first, gone, given, ..config.hooks };
        raddle_sync::fence::init();
        raddle_sync::fork::init();
        crate::pool::block::init();
        let unwritten = config.unwritten;
        let mut config = Config {
            threads: config.threads,
            names: (0..config.threads).map(|index| format!("rayon-{index}")).collect(),
            spare_names: vec!["rayon-spare".into()],
            stack_size: config.stack_size,
            keep_alive: Duration::MAX,
            spin_for: None,
            waits: config.waits,
            spares: if config.waits == Waits::Substitute { SPARES } else { 0 },
            spares_asked: false,
            hooks: Hooks::default(),
            thread_hooks: ThreadHooks::default(),
            seats: Some(seats),
            trace: config.trace,
            // Nobody comes as a guest, so to nap is of no use. What is called for comes one after the other as a rule, and
            // searchers yield meanwhile.
            policy: Policy { drowsy: Duration::ZERO, spin: SPIN, ..Policy::default() },
        };
        let recorder = match (Registry::recorder_for(&config), &config.trace.file) {
            (Err(error), Some(path)) if error.kind() != io::ErrorKind::OutOfMemory => {
                unwritten(path, &error);
                config.trace = Settings::default();
                Registry::recorder_for(&config)?
            }
            (recorder, _) => recorder?,
        };
        Registry::new(config, recorder)
    }

    /// Whether the threads come from elsewhere.
    #[inline]
    pub(crate) fn is_seated(&self) -> bool {
        self.config.seats.is_some()
    }

    /// Gives the seat of this index away (B1).
    ///
    /// # Panics
    ///
    /// If somebody has it, or there is none.
    pub(crate) fn give_seat(&self, index: usize) {
        let seats = self.config.seats.as_ref().expect("raddle's own global pool has no seats");
        assert!(index < self.threads(), "thread {index} of a pool of {}", self.threads());
        // ORD: a count of one; what the seat's thread reads it gets with the seat.
        let given = seats.given[index].swap(true, Ordering::Relaxed);
        assert!(!given, "the seat of thread {index} has been given away");
    }

    /// The calling thread is the worker of this index until the pool ends: once for each index (B1).
    ///
    /// # Panics
    ///
    /// If the thread works in a pool already.
    pub(crate) fn take_seat(&self, index: usize) {
        assert!(Worker::here().is_none(), "this thread works in a pool already");
        self.memories[index].main(Comes::Claimed);
    }

    /// The calling thread is this worker for good, though it only works while it waits (B1).
    pub(crate) fn take_seat_for_good(self: &Arc<Self>, index: usize) {
        let memory = &self.memories[index];
        memory.sit_down();
        memory.owned.for_good.set(true);
        // It remains a worker when the pool has ended.
        std::mem::forget(memory.base().enter());
        std::mem::forget(Arc::clone(self));
        if let Some(seats) = &self.config.seats {
            seats.arrive();
        }
    }

    /// Blocks until each thread has come.
    pub(crate) fn await_threads(&self) {
        let Some(seats) = &self.config.seats else { return };
        let mut arrived = seats.arrived.lock().unwrap_or_else(|e| e.into_inner());
        while *arrived < self.threads() {
            arrived = seats.came.wait(arrived).unwrap_or_else(|e| e.into_inner());
        }
    }

    /// The pool's handle is gone: its threads go when nothing is left to do. Waits for none of them. In a child of the process that
    /// has them nothing.
    pub(crate) fn let_go(&self) {
        if self.is_forked() {
            // Who was at the gate as the process forked does not leave it there.
            return;
        }
        self.gate.close();
        self.end.ask();
        self.end_if_done();
    }

    /// Calls `f`, on a worker of this pool, for nobody that waits: see [`SeatHooks::guard`].
    pub(crate) fn guard(&self, f: impl FnOnce()) {
        match &self.config.seats {
            Some(seats) => seats.guard(f),
            None => SeatHooks::default().guard(f),
        }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        if let Some(gone) = self.config.seats.as_ref().and_then(|seats| seats.gone) {
            gone(self);
        }
    }
}

impl WorkerMemory {
    /// The thread is this worker, and holds a place.
    fn sit_down(&self) {
        self.owned.hold.set(Hold::Place);
        self.fork.request();
        self.set_room();
        Worker::occupy(self);
        self.heed_followers(self.base());
    }
}
