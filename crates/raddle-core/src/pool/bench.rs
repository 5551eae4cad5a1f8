//! The bench: while a guest works, one thread of the pool sits out, so that no region is worked on by
//! more threads than the pool has. The reserve sits there as well: threads that play while others sleep until a
//! future is done ([`PoolBuilder::compensate`](crate::PoolBuilder::compensate)).
//!
//! Guest number `g` (counted from 1) benches thread `threads - g`; the gate's lock orders guests. A
//! thread that works when it is asked to sit out finishes its job first, helping nobody but its own.
//!
//! | state    | meaning                                                         |
//! |----------|-----------------------------------------------------------------|
//! | `PLAYS`  | as any worker                                                   |
//! | `ASKED`  | to sit out as soon as it has nothing on its hands               |
//! | `OUT`    | asleep without a bit among the sleepers, so nobody claims it    |
//!
//! # Invariants
//!
//! - **B1** `OUT` is entered by the thread itself, or by a guest that took the thread's bit, and left
//!   only under the lock, which every change of a state holds.
//! - **B2** A thread that is `OUT` sleeps, or has gone, or will see to its state before it does anything
//!   else: for when its guest leaves it is put among the sleepers, whom others may claim.

use raddle_sync::atomic::{AtomicU8, Ordering, fence};
use raddle_sync::spin::Backoff;
use raddle_sync::sync::Mutex;

use crate::pool::shared::{Shared, Waker};
use crate::sleep::Sleep;

const PLAYS: u8 = 0;
const ASKED: u8 = 1;
const OUT: u8 = 2;

/// See the module.
#[derive(Debug)]
pub(crate) struct Benches {
    lock: Mutex<()>,
    states: Box<[AtomicU8]>,
}

impl Benches {
    /// For so many threads that play, and so many that sit out until they are called.
    pub(crate) fn new(threads: usize, reserve: usize) -> Benches {
        let states = std::iter::repeat_n(PLAYS, threads).chain(std::iter::repeat_n(OUT, reserve));
        Benches { lock: Mutex::new(()), states: states.map(AtomicU8::new).collect() }
    }

    /// How many of these threads are not `OUT`.
    pub(crate) fn playing(&self, threads: std::ops::Range<usize>) -> usize {
        if threads.is_empty() {
            return 0;
        }
        let _guard = self.lock.lock();
        let out = |state: &&AtomicU8| state.load(Ordering::Relaxed) != OUT;
        self.states[threads].iter().filter(out).count()
    }

    /// Whether a thread is to sit out: a hint, `sit_out` decides.
    pub(crate) fn is_asked(&self, thread: usize) -> bool {
        // ORD: a hint.
        self.states[thread].load(Ordering::Relaxed) != PLAYS
    }

    pub(crate) fn is_out(&self, thread: usize) -> bool {
        let _guard = self.lock.lock();
        // ORD: B1, here and below: the lock orders.
        self.states[thread].load(Ordering::Relaxed) == OUT
    }

    fn set(&self, thread: usize, state: u8) {
        self.states[thread].store(state, Ordering::Relaxed);
    }

    /// The thread itself sits down, if it is asked to.
    pub(crate) fn sit_out(&self, thread: usize) -> bool {
        if !self.is_asked(thread) {
            return false;
        }
        let _guard = self.lock.lock();
        let asked = self.states[thread].load(Ordering::Relaxed) != PLAYS;
        if asked {
            self.set(thread, OUT);
        }
        asked
    }

    /// The thread has found work at the last moment. True: it counts as a searcher. False: it was sent
    /// out in that very moment.
    pub(crate) fn stay_awake(&self, sleep: &Sleep, thread: usize) -> bool {
        let _guard = self.lock.lock();
        let plays = !self.is_caught_out(thread);
        if plays {
            sleep.stay_awake(thread);
        }
        plays
    }

    /// The thread is awake. True: it was claimed, and counts as a searcher.
    pub(crate) fn rise(&self, sleep: &Sleep, thread: usize) -> bool {
        let _guard = self.lock.lock();
        !self.is_caught_out(thread) && !sleep.rise(thread)
    }

    /// Whether a thread that is awake is `OUT`. If so it no longer is (B2), though it is to sit down
    /// again. Under the lock.
    fn is_caught_out(&self, thread: usize) -> bool {
        let out = self.states[thread].load(Ordering::Relaxed) == OUT;
        if out {
            self.set(thread, ASKED);
        }
        out
    }

    /// A guest has come: `thread` is to sit out.
    pub(crate) fn ask(&self, shared: &Shared, thread: usize) {
        let guard = self.lock.lock();
        self.set(thread, if shared.sleep.rise(thread) { OUT } else { ASKED });
        drop(guard);
        // If it is just looking for work, then until it has seen that it was asked.
        fence(Ordering::SeqCst);
        let mut backoff = Backoff::new();
        // ORD: Acquire pairs with the Release at the end of a hunt.
        while shared.regions[thread].hunting.load(Ordering::Acquire) {
            backoff.spin();
        }
    }

    /// The guest has gone: `thread` may play.
    pub(crate) fn release(&self, shared: &Shared, thread: usize) {
        let guard = self.lock.lock();
        let was_out = self.states[thread].load(Ordering::Relaxed) == OUT;
        self.set(thread, PLAYS);
        if !was_out {
            return;
        }
        let before = shared.sleep.unbench(thread);
        drop(guard);
        // If nobody searches and nobody else sleeps, then nobody has asked those who work, threads or
        // other guests, for attention on this sleeper's behalf (S1).
        let unasked = before.searching() == 0 && before.sleeping() == 0;
        if unasked && shared.crew() > 1 && shared.look_around() {
            shared.wake_one(Waker::Idle);
        }
    }
}
