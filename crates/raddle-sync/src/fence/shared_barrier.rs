//! One barrier for all threads that ask for one at about the same time.
//!
//! Linux runs process-wide barriers one after the other (since 6.8 under one mutex for the whole machine), and each of them
//! interrupts all processors. So sixteen threads that ask at once would wait for sixteen barriers: each stands still for a hundred
//! microseconds and more, and with it whoever waits for it. But a barrier that began after a thread had asked, whoever runs it, is as
//! good as one of its own. So one runs at a time, and nobody waits for more than two: the one that had begun, and the next.
//! (The idea is that of a grace period of RCU: as all who wait for one share it.)
//!
//! # Invariants
//!
//! - **B3** Of barriers that are run here, the one numbered `n` begins after `begun` has become `n`, and is over before `ended`
//!   becomes `n`. Whoever asks runs a full fence and reads `begun` as `b`: so what it had stored comes, in the one order of all
//!   full fences, before the fence of any barrier above `b`, which is run between its number and the barrier. And whoever reads such a
//!   number in `ended`, by an Acquire load that pairs with the Release store, sees what the barrier made visible.
//! - **B4** Nobody relies on another thread: a thread that has looked for long, because whoever runs a barrier is stopped, or is no
//!   thread of this process, which was forked meanwhile, runs its own.

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
pub struct SharedBarrier {
    begun: AtomicUsize,
    ended: AtomicUsize,
    /// Who runs one: the process, by its generation plus one.
    holder: AtomicU32,
}

impl SharedBarrier {
    /// None has been run.
    #[cfg(not(raddle_model))]
    pub const fn new() -> SharedBarrier {
        SharedBarrier {
            begun: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            holder: AtomicU32::new(NOBODY),
        }
    }

    /// Returns when a barrier that has begun since the call is over: another thread's, or one that `issue` runs here. `generation` is
    /// [that of the process](crate::fork::generation).
    pub fn wait_or_issue(&self, generation: u32, issue: impl Fn()) {
        let begun = self.ask();
        self.wait_or_issue_since(begun, generation, issue);
    }

    /// The number of the last barrier that is not good enough.
    fn ask(&self) -> usize {
        fence(Ordering::SeqCst); // B3
        // ORD: ordered by the fences of B3.
        self.begun.load(Ordering::Relaxed)
    }

    /// As `wait_or_issue`, of the moment of that question.
    fn wait_or_issue_since(&self, begun: usize, generation: u32, issue: impl Fn()) {
        for _ in 0..LOOKS {
            // In this order: once the barrier of others is over, its place is free, too.
            if self.has_ended_after(begun) || self.try_issue(generation, begun, &issue) {
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

    /// Sees to it that one has ended after `begun`, unless another thread of this process is running one.
    fn try_issue(&self, generation: u32, begun: usize, issue: impl Fn()) -> bool {
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
        // It may have ended since the last look.
        if !self.has_ended_after(begun) {
            // ORD: ordered by the fences of B3. Only the holder writes it.
            let number = self.begun.load(Ordering::Relaxed).wrapping_add(1);
            self.begun.store(number, Ordering::Relaxed);
            fence(Ordering::SeqCst); // B3
            issue();
            // ORD: B3.
            self.ended.store(number, Ordering::Release);
        }
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
    fn all_who_ask_while_one_runs_share_the_next() {
        let shared = SharedBarrier::new();
        let issued = AtomicUsize::new(0);
        let issue = || _ = issued.fetch_add(1, Ordering::Relaxed);
        let (entered, first_runs) = mpsc::channel();
        let (let_go, gate) = mpsc::channel::<()>();
        let asked = thread::scope(|scope| {
            let shared = &shared;
            scope.spawn(move || {
                shared.wait_or_issue(0, || {
                    entered.send(()).unwrap();
                    gate.recv().unwrap();
                });
            });
            first_runs.recv().unwrap();
            // They ask while it runs, so it is none of theirs.
            let asked = [0; 4].map(|_| shared.ask());
            assert!(!shared.has_ended_after(asked[0]));
            let issued = shared.try_issue(0, asked[0], || unreachable!("one at a time"));
            assert!(!issued);
            let_go.send(()).unwrap();
            asked
        });
        for begun in asked {
            shared.wait_or_issue_since(begun, 0, issue);
            assert_eq!(issued.load(Ordering::Relaxed), 1);
        }
        // A thread that has not seen that it is over, and finds the place free.
        assert!(shared.try_issue(0, asked[0], || unreachable!("it is over")));
        // A later question has not been answered.
        shared.wait_or_issue(0, issue);
        assert_eq!(issued.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_barrier_after_the_question_will_do_and_one_before_it_will_not() {
        let shared = SharedBarrier::new();
        assert!(shared.try_issue(0, shared.ask(), || ()));
        let begun = shared.ask();
        assert!(!shared.has_ended_after(begun));
        assert!(shared.try_issue(0, begun, || assert!(!shared.has_ended_after(begun))));
        assert!(shared.has_ended_after(begun));
    }

    #[test]
    fn whoever_is_stopped_holds_up_nobody() {
        let shared = SharedBarrier::new();
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
