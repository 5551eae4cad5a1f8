//! The timer: one thread, started on first use, that does things when it is time.
//!
//! What it does may be to run a continuation that waits. All other timers would wait with it, and it may be for one of
//! them. So before the thread blocks there ([`about_to_block`]), or runs a task that it waits for ([`makes_way`]), it starts
//! another in its place, and leaves when it is through with that one thing.
//!
//! Timeouts are in a tree by time, so that adding and cancelling one are logarithmic and a cancelled one is gone
//! at once. A million of them take some hundred bytes each and no processor time while they wait.

use raddle_sync::time::Instant;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use raddle_sync::{fork, thread};

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

/// So many threads at most; then things are late.
const MOST_THREADS: usize = 256;

thread_local! {
    /// All timers wait for what this thread is at.
    static HOLDS_UP: Cell<bool> = const { Cell::new(false) };
}

/// Leaked. No `Once`: forked while another thread is within, it would be locked in the child for ever.
static SHARED: AtomicPtr<Shared> = AtomicPtr::new(ptr::null_mut());

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

    fn lock(&self) -> MutexGuard<'_, Timer> {
        // Nothing is left half done under the lock.
        self.timer.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// One more thread.
    fn start(&mut self) -> io::Result<()> {
        thread::Builder::new().name("raddle-timer".into()).spawn(run)?;
        self.threads += 1;
        Ok(())
    }
}

/// To be called by a thread before it blocks, whichever it is.
#[inline]
pub(crate) fn about_to_block() {
    if HOLDS_UP.get() {
        make_way();
    }
}

/// Whether all timers wait for this thread.
#[inline]
pub(crate) fn is_held_up() -> bool {
    HOLDS_UP.get()
}

/// To be called by a thread before it runs what may take long, or wait for a timer. False: all timers would wait for that.
#[inline]
pub(crate) fn makes_way() -> bool {
    about_to_block();
    !HOLDS_UP.get()
}

#[cold]
fn make_way() {
    let mut timer = Shared::get().lock();
    if timer.threads < MOST_THREADS && timer.start().is_ok() {
        HOLDS_UP.set(false);
    }
}

/// The life of the timer's thread.
fn run() {
    let shared = Shared::get();
    let mut timer = shared.lock();
    loop {
        let now = Instant::now();
        match timer.timeouts.first_entry() {
            None => timer = shared.changed.wait(timer).unwrap_or_else(PoisonError::into_inner),
            Some(first) if first.key().0 <= now => {
                let action = first.remove();
                drop(timer);
                HOLDS_UP.set(true);
                contain(action);
                timer = shared.lock();
                if !HOLDS_UP.replace(false) {
                    // There is another in its place.
                    timer.threads -= 1;
                    return;
                }
            }
            Some(first) => {
                let left = first.key().0 - now;
                let waited = shared.changed.wait_timeout(timer, left);
                timer = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}
