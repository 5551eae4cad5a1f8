//! Keeping a thread that is woken off the processor of the thread that wakes it.
//!
//! The system may wake a thread on the waker's own processor, where it then waits for the waker to
//! finish, though another processor is idle. Linux does so in virtual machines: a halted processor looks
//! like one that the host has taken away, so it is not counted as idle. Two threads that were meant to
//! work at the same time work one after the other until the system's balancing notices, milliseconds
//! later. For a moment's affinity the sleeper is told to wake elsewhere.
//!
//! ```text
//!   sleeper: lie_down, sleep
//!   waker:   confine: read the sleeper's affinity, take this processor out of it
//!            wake it: the system chooses a processor
//!            let go: affinity as it was
//!   sleeper: release: the same, if it is there before the waker has done it
//! ```
//!
//! The waker does not leave it to the sleeper: the processor that was chosen may be somebody's who does not give it up, a thread with
//! a real-time priority or a better `nice`, and then the sleeper would never run, though another is idle by now. Threads that have a
//! real-time policy themselves are left alone: for them the system looks for the processor with the least urgent work anyway.
//!
//! "As it was" is not what it may run on now: processors that come later, to the machine or to the process's share of it, are to be the
//! thread's, too. So where it may run on all that the system lets it, it is told that it may run on any.
//!
//! Where others have the processors threads are left alone for a while: see [`crowd`](crate::crowd).
//!
//! A process whose system calls are filtered may be killed for one that is not foreseen: see `permitted`.
//!
//! Only who lies can be confined. So what a thread runs between `release` and the next `lie_down` runs where the
//! user wants it, and a thread that is started there inherits that and nothing else.
//!
//! # States
//!
//! | state | meaning | who goes where |
//! |---|---|---|
//! | 0 | awake | the thread: `LYING`, `BUSY` |
//! | `LYING` | may be confined | a waker: `LYING + BUSY`; the thread: 0 |
//! | `LYING + BUSY` | being confined | that waker: `LYING`, `LYING + CONFINED`. The thread waits for it |
//! | `LYING + CONFINED` | confined | the thread: `BUSY`; the waker: `LYING + BUSY` |
//! | `BUSY` | being released, or leaving its processor | the thread: 0 |
//!
//! `LYING + BUSY` is also that of a waker that lets go: it goes on to `LYING`.
//!
//! # Invariants
//!
//! - **P1** `saved` belongs to whoever has set `BUSY`.
//! - **P2** Nobody touches a thread of another process: after `fork()` the child remembers the parent's threads, and
//!   leaves them alone because of the [generation](crate::fork).
//! - **P3** An affinity that somebody else has set since is not touched. (One that is set in the very microsecond between two calls may be.)

mod permitted;

use std::time::Duration;

use crate::atomic::{AtomicU32, Ordering};
use crate::cell::UnsafeCell;
use crate::crowd::{CROWD, Crowd, now};
use crate::fork;
use crate::spin::Backoff;

const LYING: u32 = 1;
const BUSY: u32 = 2;
const CONFINED: u32 = 4;

/// To come to run elsewhere takes some microseconds, and a time slice if somebody works there.
const LONG: u64 = Duration::from_millis(500).as_nanos() as u64;

/// Whether a thread that has left its processor had to wait for so long. (No step of a model's: there nobody leaves.)
static HOGGED: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// No processor.
const NONE: usize = usize::MAX;

/// A thread that others wake on a processor other than theirs.
#[derive(Debug)]
pub struct WakeAffinity {
    /// The thread's number in the system; 0: there is none.
    thread: AtomicU32,
    /// Which copy of the process the thread is of.
    generation: AtomicU32,
    /// See the table.
    state: AtomicU32,
    saved: UnsafeCell<Saved>,
    /// Where the thread was when it said so last, unless it has gone to sleep since. (No step of a model's.)
    processor: std::sync::atomic::AtomicUsize,
    /// When the thread was sent elsewhere, unless it has run since. (No step of a model's.)
    sent: std::sync::atomic::AtomicU64,
}

#[derive(Clone, Copy, Debug)]
struct Saved {
    /// Where the thread may run,
    allowed: sys::Set,
    /// and where it may while it is confined.
    rest: sys::Set,
    /// A set that it was allowed, and whether that is all that the system lets it have.
    known: sys::Set,
    all: bool,
}

// SAFETY: P1.
unsafe impl Sync for WakeAffinity {}
// SAFETY: P1.
unsafe impl Send for WakeAffinity {}

impl Default for WakeAffinity {
    fn default() -> WakeAffinity {
        WakeAffinity::new()
    }
}

impl WakeAffinity {
    /// Of no thread yet.
    pub fn new() -> WakeAffinity {
        let none = sys::Set::empty();
        WakeAffinity {
            thread: AtomicU32::new(0),
            generation: AtomicU32::new(0),
            state: AtomicU32::new(0),
            saved: UnsafeCell::new(Saved { allowed: none, rest: none, known: none, all: false }),
            processor: std::sync::atomic::AtomicUsize::new(NONE),
            sent: std::sync::atomic::AtomicU64::new(0),
        }
    }

    /// The calling thread is the one that others will wake.
    pub fn adopt(&self) {
        fork::init();
        permitted::find_out();
        // ORD: wakers learn of the thread by other means, which order.
        self.generation.store(fork::generation(), Ordering::Relaxed);
        self.thread.store(sys::current_thread() as u32, Ordering::Relaxed);
    }

    /// By the thread itself, before it lets others know that it sleeps: from now on until it calls
    /// [`release`](WakeAffinity::release) it may be confined.
    pub fn lie_down(&self) {
        self.note_away();
        // ORD: Release pairs with the Acquire in `confine`: `saved` is the wakers' (P1), and `thread` is this one.
        self.state.fetch_or(LYING, Ordering::Release);
    }

    /// Has the thread woken by `wake`, and not on this processor; when this returns it may run anywhere again. Costs five system
    /// calls, about a microsecond and a half. Where the system does not do that, where the thread is awake, in another process than
    /// the thread's, and for a while after such a thread had to wait for its processor this is `wake` and nothing else.
    ///
    /// The thread must be alive.
    pub fn wake(&self, wake: impl FnOnce()) {
        self.wake_in(&CROWD, wake);
    }

    fn wake_in(&self, crowd: &Crowd, wake: impl FnOnce()) {
        let confined = !crowd.is_there(now()) && self.confine();
        wake();
        if confined {
            self.let_go();
        }
    }

    /// Before the thread is woken: not on this processor. True: it is confined now.
    fn confine(&self) -> bool {
        let lies = self.state.load(Ordering::Relaxed) == LYING;
        if !lies || self.is_foreign() {
            return false;
        }
        let (lying, busy) = (LYING, LYING | BUSY);
        // ORD: Acquire pairs with the Release in `lie_down`: the sleeper is done with `saved` (P1).
        let claimed =
            self.state.compare_exchange(lying, busy, Ordering::Acquire, Ordering::Relaxed);
        if claimed.is_err() {
            return false;
        }
        // Not sooner: only now it is the one that lies, which cannot go. One that is gone may have left its number to another's.
        let thread = self.thread.load(Ordering::Relaxed) as sys::Thread;
        let confine = |(allowed, rest)| {
            self.save(allowed, rest);
            sys::set_affinity(thread, &rest)
        };
        let confined = thread != 0
            && may_move(thread)
            && sys::without_this_processor(thread).is_some_and(confine);
        let state = if confined { LYING | CONFINED } else { LYING };
        if confined {
            // ORD: read by the thread once it has released itself.
            self.sent.store(now(), Ordering::Relaxed);
        }
        // ORD: Release pairs with the Acquire in `release`: `saved` is complete (P1).
        self.state.store(state, Ordering::Release);
        confined
    }

    /// By a waker: the thread may run anywhere again, unless it has seen to that itself. It is alive yet: it does that before it goes.
    fn let_go(&self) {
        let (confined, busy) = (LYING | CONFINED, LYING | BUSY);
        // ORD: Acquire pairs with the Release in `confine`, another waker's perhaps: `saved` is complete (P1).
        let claimed =
            self.state.compare_exchange(confined, busy, Ordering::Acquire, Ordering::Relaxed);
        if claimed.is_ok() {
            self.restore(self.thread.load(Ordering::Relaxed) as sys::Thread);
            // ORD: Release pairs with the Acquire in `confine` and `release_slowly`: done with `saved` (P1).
            self.state.store(LYING, Ordering::Release);
        }
    }

    /// Called by the owner of `saved` (P1).
    fn save(&self, allowed: sys::Set, rest: sys::Set) {
        self.saved.with_mut(|saved| {
            // SAFETY: P1.
            let saved = unsafe { &mut *saved };
            (saved.allowed, saved.rest) = (allowed, rest);
        });
    }

    /// Called by the owner of `saved` (P1): the affinity of `thread` as it was.
    fn restore(&self, thread: sys::Thread) {
        self.saved.with_mut(|saved| {
            // SAFETY: P1.
            let Saved { allowed, rest, known, all } = unsafe { &mut *saved };
            let has = |set: &sys::Set| sys::affinity(thread).is_some_and(|now| now.equals(set));
            if !has(rest) {
                return; // P3
            }
            if !known.equals(allowed) {
                *known = *allowed;
                *all = sys::set_affinity(thread, &sys::Set::all()) && has(allowed);
                if *all {
                    return;
                }
            }
            sys::set_affinity(thread, &if *all { sys::Set::all() } else { *allowed });
        });
    }

    /// By the thread itself: moves it to another processor, if it runs on this one and may run elsewhere. Costs nothing if it runs
    /// elsewhere already.
    ///
    /// Nobody else can let it go, as nobody knows when the system has chosen. Should the others be those of threads that do not give
    /// them up, it takes until the system has mercy; that happens once, and then no thread of the process is moved so any more.
    pub fn avoid(&self, processor: usize) {
        // ORD: a hint.
        let hogged = HOGGED.load(Ordering::Relaxed);
        if hogged
            || CROWD.is_there(now())
            || sys::processor() != Some(processor)
            || !may_move(sys::THIS)
        {
            return;
        }
        self.leave();
    }

    /// By the thread itself: moves it to another processor than it runs on.
    #[cold]
    fn leave(&self) {
        // ORD: Acquire pairs with the Releases that end `BUSY` (P1).
        let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
        if self.is_foreign() || self.state.compare_exchange(0, BUSY, success, failure).is_err() {
            return;
        }
        if let Some((allowed, rest)) = sys::without_this_processor(sys::THIS) {
            let since = now();
            self.save(allowed, rest);
            let moved = sys::set_affinity(sys::THIS, &rest);
            let there = now();
            if moved {
                CROWD.note_arrival(since, there);
                self.restore(sys::THIS);
            }
            if there - since >= LONG {
                HOGGED.store(true, Ordering::Relaxed);
            }
        }
        // ORD: Release pairs with the Acquires that set `BUSY`: done with `saved` (P1).
        self.state.store(0, Ordering::Release);
    }

    /// By the thread itself: it is here, and others that are to work beside it should not be.
    #[inline]
    pub fn note_here(&self) {
        // ORD: a hint.
        self.processor.store(sys::processor().unwrap_or(NONE), Ordering::Relaxed);
    }

    /// By the thread itself: it sleeps, and is in nobody's way.
    pub fn note_away(&self) {
        // ORD: a hint.
        self.processor.store(NONE, Ordering::Relaxed);
    }

    /// Whether the thread said last that it is on that processor.
    pub fn is_on(&self, processor: usize) -> bool {
        // ORD: a hint.
        self.processor.load(Ordering::Relaxed) == processor
    }

    /// By the thread itself, once it is awake and before it runs anything: anywhere again.
    #[inline]
    pub fn release(&self) {
        self.note_here();
        if self.state.load(Ordering::Relaxed) != 0 {
            self.release_slowly();
            // ORD: written before the waker let go of the state.
            let sent = self.sent.swap(0, Ordering::Relaxed);
            if sent != 0 && CROWD.note_arrival(sent, now()) {
                self.leave();
                self.note_here();
            }
        }
    }

    /// By the thread itself: runs `f`, which starts a thread, as one that does not lie. What is started has its starter's affinity for
    /// good.
    pub fn upright<R>(&self, f: impl FnOnce() -> R) -> R {
        let lay = self.state.load(Ordering::Relaxed) != 0;
        self.release();
        let result = f();
        if lay {
            self.lie_down();
        }
        result
    }

    #[cold]
    fn release_slowly(&self) {
        if self.is_foreign() {
            return; // The waker that is at it may be in the parent, and this thread has a new number.
        }
        let mut backoff = Backoff::new();
        loop {
            let state = self.state.load(Ordering::Relaxed);
            if state & BUSY != 0 {
                // A waker, for two or three system calls, unless the system has stopped it, perhaps in this thread's favour.
                backoff.spin();
                continue;
            }
            let next = if state & CONFINED != 0 { BUSY } else { 0 };
            // ORD: Acquire pairs with the Release in `confine` (P1); Release with its Acquire.
            let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
            if self.state.compare_exchange(state, next, success, failure).is_err() {
                continue;
            }
            if next == BUSY {
                self.restore(sys::THIS);
                // ORD: Release pairs with the Acquire in `confine`: done with `saved` (P1).
                self.state.store(0, Ordering::Release);
            }
            return;
        }
    }

    #[cfg(test)]
    fn is_confined(&self) -> bool {
        self.state.load(Ordering::Relaxed) & CONFINED != 0
    }

    /// P2
    fn is_foreign(&self) -> bool {
        self.generation.load(Ordering::Relaxed) != fork::generation()
    }
}

/// The processor that the calling thread runs on; none if the system does not say.
#[inline]
pub fn processor() -> Option<usize> {
    sys::processor()
}

fn may_move(thread: sys::Thread) -> bool {
    permitted::is_permitted() && !sys::is_realtime(thread)
}

#[cfg(all(target_os = "linux", not(any(miri, raddle_model))))]
pub(crate) mod sys;

#[cfg(not(all(target_os = "linux", not(any(miri, raddle_model)))))]
pub(crate) mod sys {
    pub(crate) type Thread = i32;

    pub(crate) const THIS: Thread = 0;

    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Set;

    impl Set {
        pub(crate) fn empty() -> Set {
            Set
        }

        pub(crate) fn all() -> Set {
            Set
        }

        pub(crate) fn equals(&self, _other: &Set) -> bool {
            true
        }
    }

    pub(crate) fn affinity(_thread: i32) -> Option<Set> {
        None
    }

    pub(crate) fn current_thread() -> i32 {
        0
    }

    pub(crate) fn processor() -> Option<usize> {
        None
    }

    pub(crate) fn is_realtime(_thread: i32) -> bool {
        false
    }

    pub(crate) fn without_this_processor(_thread: i32) -> Option<(Set, Set)> {
        None
    }

    pub(crate) fn set_affinity(_thread: i32, _set: &Set) -> bool {
        false
    }
}

#[cfg(all(test, target_os = "linux", not(any(miri, raddle_model))))]
mod tests;
