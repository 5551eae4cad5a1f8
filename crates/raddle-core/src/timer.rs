//! The timer: one thread, started on first use, that does things when it is time.
//!
//! What it does may be to run a continuation that waits. All other timers would wait with it, and it may be for one of
//! them. So before the thread blocks there ([`about_to_block`]), or runs a task that it waits for ([`makes_way`]), it starts
//! another in its place, and leaves when it is through with that one thing. The last that there may be has such things done
//! elsewhere ([`is_last`]). Where the system refuses another, all timers wait; it is asked again by whoever sets a timer, and by
//! the one that waits.
//!
//! Timeouts are in a tree by time, so that adding and cancelling one are logarithmic and a cancelled one is gone
//! at once. A million of them take some hundred bytes each and no processor time while they wait.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::ptr;
use std::time::Duration;

use raddle_sync::atomic::{AtomicPtr, Ordering};
use raddle_sync::sync::{Condvar, Mutex, MutexGuard};
use raddle_sync::time::Instant;
use raddle_sync::{fork, start, thread};

use crate::panics::{contain, discard};

type Action = Box<dyn FnOnce() + Send>;

/// When, and which of those of the same time.
type Key = (Instant, u64);

#[derive(Default)]
struct Timer {
    timeouts: BTreeMap<Key, Action>,
    next: u64,
    /// How many threads there are: one that does all, and those that are blocked.
    threads: usize,
    /// The one that does all: how many have been started until it was.
    serves: u64,
    /// It is blocked, and the system has refused another.
    refused: bool,
}

/// What all threads share. In the child of a fork the threads are the parent's, and so are what they had to do and, may be,
/// the lock: the child has one of its own.
#[derive(Default)]
struct Shared {
    timer: Mutex<Timer>,
    changed: Condvar,
    /// The process it is of: see `raddle_sync::fork`.
    generation: u32,
}

/// So many threads at most, if what may block can be done elsewhere.
const MOST_THREADS: usize = 256;

raddle_sync::thread_local! {
    /// Which of the timer's threads this one is, if as far as it knows all timers wait for what it is at; else 0.
    static HOLDS_UP: Cell<u64> = const { Cell::new(0) };
}

raddle_sync::thread_local! {
    /// There can be no other thread for the timers.
    static IS_LAST: Cell<bool> = const { Cell::new(false) };
}

/// Leaked. No `Once`: forked while another thread is within, it would be locked in the child for ever.
#[cfg(not(raddle_model))]
static SHARED: AtomicPtr<Shared> = AtomicPtr::new(ptr::null_mut());

#[cfg(raddle_model)]
raddle_sync::lazy_static! {
    static SHARED: AtomicPtr<Shared> = AtomicPtr::new(ptr::null_mut());
}

impl Shared {
    fn get() -> &'static Shared {
        fork::init();
        // ORD: Acquire pairs with the Release below: it is complete.
        let mut shared = SHARED.load(Ordering::Acquire);
        loop {
            // SAFETY: null, or leaked below.
            match unsafe { shared.as_ref() } {
                Some(shared) if shared.generation == fork::generation() => return shared,
                _ => {}
            }
            let new = Shared { generation: fork::generation(), ..Shared::default() };
            let new = ptr::from_mut(Box::leak(Box::new(new)));
            // ORD: Release, Acquire: as above.
            match SHARED.compare_exchange(shared, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => shared = new,
                Err(other) => {
                    // SAFETY: leaked just now, and nobody knows it.
                    drop(unsafe { Box::from_raw(new) });
                    shared = other;
                }
            }
        }
    }

    /// Nothing is left half done under the lock.
    fn lock(&self) -> MutexGuard<'_, Timer> {
        self.timer.lock()
    }

    /// Waits until something has changed, or so long.
    #[cfg(not(raddle_shuttle))]
    fn wait<'a>(&'a self, timer: MutexGuard<'a, Timer>, time: Duration) -> MutexGuard<'a, Timer> {
        self.changed.wait_timeout(timer, time).0
    }

    /// The time may be over at any moment, but not never.
    #[cfg(raddle_shuttle)]
    fn wait<'a>(&'a self, timer: MutexGuard<'a, Timer>, time: Duration) -> MutexGuard<'a, Timer> {
        drop(timer);
        raddle_sync::time::may_pass(time);
        self.lock()
    }
}

/// Something to be done, unless this is dropped before.
#[derive(Debug)]
pub(crate) struct Timeout(Key);

impl Drop for Timeout {
    fn drop(&mut self) {
        let action = Shared::get().lock().timeouts.remove(&self.0);
        // What it holds is the user's.
        discard(action);
    }
}

impl Timeout {
    /// It is done in any case.
    pub(crate) fn detach(self) {
        std::mem::forget(self);
    }
}

/// Calls `action` at that time, on the timer's thread.
pub(crate) fn at(deadline: Instant, action: impl FnOnce() + Send + 'static) -> io::Result<Timeout> {
    let shared = Shared::get();
    let mut timer = shared.lock();
    if timer.threads == 0 {
        timer.start()?;
    } else if timer.refused {
        // Not to be had yet: then this one is late as the others are.
        let _ = timer.start();
    }
    let key = (deadline, timer.next);
    timer.next += 1;
    timer.timeouts.insert(key, Box::new(action));
    let first = timer.timeouts.first_key_value().is_some_and(|(&first, _)| first == key);
    drop(timer);
    if first {
        shared.changed.notify_one();
    }
    Ok(Timeout(key))
}

impl Timer {
    /// One more thread, which does all from now on.
    fn start(&mut self) -> io::Result<()> {
        let me = self.serves + 1;
        let builder = thread::Builder::new().name("raddle-timer".into());
        start(builder, Box::new(move || run(me)))?;
        self.serves = me;
        self.refused = false;
        self.threads += 1;
        Ok(())
    }
}

/// To be called by a thread before it blocks, whichever it is.
#[inline]
pub(crate) fn about_to_block() {
    if HOLDS_UP.with(Cell::get) != 0 {
        make_way();
    }
}

/// Whether all timers wait for this thread.
#[inline]
pub(crate) fn is_held_up() -> bool {
    HOLDS_UP.with(Cell::get) != 0
}

/// To be called by a thread before it runs what may take long, or wait for a timer. False: all timers would wait for that.
#[inline]
pub(crate) fn makes_way() -> bool {
    about_to_block();
    !is_held_up()
}

/// Whether this is the timer's thread and there can be no other: what may block is to be done elsewhere.
pub(crate) fn is_last() -> bool {
    IS_LAST.with(Cell::get)
}

#[cold]
fn make_way() {
    let mut timer = Shared::get().lock();
    // Somebody who set a timer may have started one meanwhile.
    if timer.serves != HOLDS_UP.with(Cell::get) || timer.start().is_ok() {
        HOLDS_UP.with(|holds| holds.set(0));
    } else {
        timer.refused = true;
    }
}

/// The life of the timer's thread of this number.
fn run(mut me: u64) {
    let shared = Shared::get();
    let mut timer = shared.lock();
    loop {
        let now = Instant::now();
        match timer.timeouts.first_entry() {
            None => timer = shared.changed.wait(timer),
            Some(first) if first.key().0 <= now => {
                let action = first.remove();
                IS_LAST.with(|last| last.set(timer.threads >= MOST_THREADS));
                drop(timer);
                HOLDS_UP.with(|holds| holds.set(me));
                contain(action);
                HOLDS_UP.with(|holds| holds.set(0));
                timer = shared.lock();
                if timer.serves != me {
                    if !timer.refused {
                        // There is another in its place.
                        timer.threads -= 1;
                        return;
                    }
                    // That one is held up, and no third is to be had.
                    timer.serves += 1;
                    me = timer.serves;
                }
                timer.refused = false;
            }
            Some(first) => {
                let left = first.key().0 - now;
                timer = shared.wait(timer, left);
            }
        }
    }
}

/// At the end of a model: what there is to do by now is done, the rest is dropped, and the threads leave.
#[cfg(raddle_shuttle)]
pub(crate) fn end() {
    let shared = Shared::get();
    while shared.lock().threads > 0 {
        // Whoever does it takes it that there is another in its place.
        if let Ok(timeout) = at(Instant::now(), || shared.lock().serves += 1) {
            timeout.detach();
        }
        thread::yield_now();
    }
    let rest = std::mem::take(&mut shared.lock().timeouts);
    drop(rest);
}
