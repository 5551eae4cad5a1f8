//! One barrier for all threads that ask for one at about the same time.
//!
//! Linux runs process-wide barriers one after the other (since 6.8 under one mutex for the whole machine), and each of them
//! interrupts all processors. So sixteen threads that ask at once would wait for sixteen barriers: each stands still for a hundred
//! microseconds and more, and with it whoever waits for it. But a barrier that began after a thread had asked, whoever runs it, is as
//! good as one of its own. So one runs at a time, and nobody waits for more than two: the one that had begun, and the next.
//! (The idea is that of a grace period in RCU, which all share who wait for it.)
//!
//! # Invariants
//!
//! - **B3** Of barriers that are run here, the one numbered `n` begins after `begun` has become `n`, and is over before `ended`
//!   becomes `n`. Whoever asks runs a full fence and reads `begun` as `b`: so what it had stored comes, in the one order of all
//!   full fences, before the fence of any barrier above `b`, which is run between its number and the barrier. And whoever reads such a
//!   number in `ended`, by an Acquire load that pairs with the Release store, sees what the barrier made visible.
//! - **B4** Nobody relies on another thread: who has looked for long, because whoever runs a barrier is stopped, or is no thread of
//!   this process, which was forked meanwhile, runs its own.

use crate::atomic::{AtomicU32, AtomicUsize, Ordering, fence};
use crate::hint;

/// So many looks whether another's barrier is over. With the pauses they take 40 to 140 us, by the processor, and two barriers of
/// a large machine less.
const LOOKS: u32 = if cfg!(raddle_model) { 2 } else { 100 };
const PAUSES: u32 = if cfg!(any(miri, raddle_model)) { 1 } else { 32 };
/// In `holder`.
const NOBODY: u32 = 0;

/// See the module.
#[derive(Debug, Default)]
pub struct Shared {
    begun: AtomicUsize,
    ended: AtomicUsize,
    /// Who runs one: the process, by its generation plus one.
    holder: AtomicU32,
}

impl Shared {
    /// None has been run.
    #[cfg(not(raddle_model))]
    pub const fn new() -> Shared {
        Shared {
            begun: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            holder: AtomicU32::new(NOBODY),
        }
    }

    /// Returns when a barrier that has begun since the call is over: another thread's, or one that `issue` runs here. `generation` is
    /// [that of the process](crate::fork::generation).
    pub fn wait_or_issue(&self, generation: u32, issue: impl Fn()) {
        fence(Ordering::SeqCst); // B3
        // ORD: ordered by the fences of B3.
        let begun = self.begun.load(Ordering::Relaxed);
        for _ in 0..LOOKS {
            if self.try_issue(generation, &issue) || self.has_ended_after(begun) {
                return;
            }
            (0..PAUSES).for_each(|_| hint::spin_loop());
        }
        issue(); // B4
    }

    /// Whether a barrier with a greater number is over (B3).
    fn has_ended_after(&self, begun: usize) -> bool {
        // ORD: Acquire pairs with the Release in `try_issue`.
        let over = self.ended.load(Ordering::Acquire).wrapping_sub(begun) as isize > 0;
        if over {
            // What follows is not to come before what the barrier ordered, on any processor.
            fence(Ordering::SeqCst);
        }
        over
    }

    /// Runs a barrier, unless another thread of this process is at it.
    fn try_issue(&self, generation: u32, issue: impl Fn()) -> bool {
        let me = generation.wrapping_add(1).max(1);
        // ORD: a hint.
        let holder = self.holder.load(Ordering::Relaxed);
        // Another generation's holder is no thread of this process (B4).
        if holder == me
            // ORD: Acquire pairs with the Release below: one barrier's numbers come after the last one's.
            || self
                .holder
                .compare_exchange(holder, me, Ordering::Acquire, Ordering::Relaxed)
                .is_err()
        {
            return false;
        }
        // ORD: ordered by the fences of B3. Only the holder writes it.
        let number = self.begun.load(Ordering::Relaxed).wrapping_add(1);
        self.begun.store(number, Ordering::Relaxed);
        fence(Ordering::SeqCst); // B3
        issue();
        // ORD: B3.
        self.ended.store(number, Ordering::Release);
        // ORD: pairs with the Acquire above.
        self.holder.store(NOBODY, Ordering::Release);
        true
    }
}

#[cfg(all(test, not(raddle_model)))]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;

    #[test]
    fn who_asks_while_one_runs_shares_the_next() {
        const THREADS: usize = 4;
        let shared = Shared::new();
        let issued = AtomicUsize::new(0);
        let (entered, first_runs) = mpsc::channel();
        let (let_go, gate) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let (shared, issued) = (&shared, &issued);
            scope.spawn(move || {
                shared.wait_or_issue(0, || {
                    issued.fetch_add(1, Ordering::Relaxed);
                    entered.send(()).unwrap();
                    gate.recv().unwrap();
                });
            });
            first_runs.recv().unwrap();
            // They ask while it runs, so it is none of theirs.
            let begun = shared.begun.load(Ordering::Relaxed);
            assert!(!shared.has_ended_after(begun));
            assert!(!shared.try_issue(0, || unreachable!("one at a time")));
            let_go.send(()).unwrap();
            for _ in 0..THREADS {
                scope.spawn(move || {
                    shared.wait_or_issue(0, || {
                        issued.fetch_add(1, Ordering::Relaxed);
                    });
                });
            }
        });
        assert!((2..=1 + THREADS).contains(&issued.load(Ordering::Relaxed)));
    }

    #[test]
    fn a_barrier_after_the_question_will_do_and_one_before_it_will_not() {
        let shared = Shared::new();
        assert!(shared.try_issue(0, || ()));
        let begun = shared.begun.load(Ordering::Relaxed);
        assert!(!shared.has_ended_after(begun));
        assert!(shared.try_issue(0, || assert!(!shared.has_ended_after(begun))));
        assert!(shared.has_ended_after(begun));
    }

    #[test]
    fn whoever_is_stopped_holds_up_nobody() {
        let shared = Shared::new();
        let issued = AtomicUsize::new(0);
        shared.holder.store(1, Ordering::Relaxed);
        let issue = || _ = issued.fetch_add(1, Ordering::Relaxed);
        // B4: a thread of this process that never goes on, and one of the process that it was forked from.
        shared.wait_or_issue(0, issue);
        assert_eq!(issued.load(Ordering::Relaxed), 1);
        assert_eq!(shared.ended.load(Ordering::Relaxed), 0);
        shared.wait_or_issue(1, issue);
        assert_eq!(issued.load(Ordering::Relaxed), 2);
        assert_eq!(shared.ended.load(Ordering::Relaxed), 1);
    }
}
