//! Models of a victim that helps its thief: it sleeps until the fork is done, or the thief forks (W1 in `pool::wait`).
//!
//! Of what the thief forks here nobody but the victim can run the first job, without which the thief does not go on: a
//! wake-up that is lost is a deadlock, which loom reports. The steps are those of `await_goal`, `sleep_apart` and
//! `pool::forks` where nobody else is there to wake.

use std::sync::Arc;

use raddle_sync::atomic::Ordering;
use raddle_sync::thread;

use crate::fork_stack::{Steal, Thief};
use crate::job::{ForkHeader, ForkJob, RunOn};
use crate::latch;
use crate::models::fork_stack::Stack;
use crate::models::{Tally, check};

/// What the thief does in the fork that it has stolen.
type Body = fn(&Stack, &Tally);

/// The stolen fork: the thief, and what it does.
type Job = ForkJob<(Arc<Stack>, Tally, Body), ()>;

unsafe fn run_job(header: *const ForkHeader, _: RunOn) {
    // SAFETY: the victims of these models fork only such jobs.
    let job = unsafe { &*header.cast::<Job>() };
    // SAFETY: J1: the caller has stolen it.
    unsafe { job.run_stolen(|(stack, ran, body)| body(&stack, &ran)) };
}

/// The victim's life from its fork on: as `join`, where a thief has the fork for certain.
fn wait_for(thief: &Stack, victim: &Stack) {
    let slot = &victim.slots[0];
    slot.mark_waiting();
    while !latch::is_set(&slot.done) {
        if help(thief, victim) || !latch::prepare_sleep(&slot.done) || must_stay(thief, victim) {
            continue;
        }
        victim.parker.park();
    }
    victim.fork.reset(slot);
}

/// As `leapfrog`. True: it has run something.
fn help(thief: &Stack, victim: &Stack) -> bool {
    let slot = &victim.slots[0];
    let word = slot.thief.load(Ordering::Relaxed);
    let Some(signed) = Thief::unpack(word) else { return false };
    let still = || !latch::is_set(&slot.done) && slot.thief.load(Ordering::Relaxed) == word;
    loop {
        match thief.fork.steal_above(signed.floor, still) {
            Steal::Job(job, index) => {
                thief.run_stolen(job, index);
                return true;
            }
            Steal::Retry => thread::yield_now(),
            Steal::Empty => return false,
            // As `dislodge`.
            Steal::Private => {
                if !(still() && thief.fork.escalate()) {
                    return false;
                }
            }
        }
    }
}

/// As `thief_has_work`.
fn must_stay(thief: &Stack, victim: &Stack) -> bool {
    let signed = Thief::unpack(victim.slots[0].thief.load(Ordering::Relaxed));
    let stays = signed.is_none_or(|signed| thief.fork.watch(signed.floor));
    if stays {
        // The thief is in the midst of something.
        thread::yield_now();
    }
    stays
}

/// A victim that waits for its fork, which the thief has and which forks: `forks` jobs in all.
fn apart(preemptions: usize, stack: fn() -> Stack, forks: u32, body: Body) {
    check(preemptions, move || {
        let victim = Arc::new(stack());
        let thief = stack().serving(Arc::clone(&victim));
        // Nobody is interested in this one, so that the thief's next are private.
        thief.join_while(false, 0, &Tally::default(), || {});
        let (thief, ran) = (Arc::new(thief), Tally::default());
        let job = Job::new((Arc::clone(&thief), ran.clone(), body), 0, run_job);
        // The first push is public.
        assert!(victim.fork.push(&victim.slots[0], job.header()));
        victim.fork.publish(&victim.slots[0], 0);
        let Steal::Job(stolen, 0) = victim.fork.steal() else { unreachable!("it is public") };
        let (stolen, owner) = (Stolen(stolen), Arc::clone(&victim));
        let runs = thread::spawn(move || {
            let signed = Thief { worker: 1, floor: 0 }.pack();
            owner.slots[0].thief.store(signed, Ordering::Relaxed);
            owner.run_stolen(stolen.take(), 0);
        });
        wait_for(&thief, &victim);
        // SAFETY: J2: the thief is done.
        unsafe { job.take_result() }.expect("the job does not panic");
        runs.join().unwrap();
        assert_eq!(ran.count(), forks, "each job ran once");
        assert!(!thief.fork.has_work());
    });
}

/// A job on its way to its thief.
struct Stolen(*mut ForkHeader);

// SAFETY: it is one thread's, then another's.
unsafe impl Send for Stolen {}

impl Stolen {
    fn take(self) -> *mut ForkHeader {
        self.0
    }
}

/// The first half of a fork that only the victim can run: it lasts until that has been run.
fn until_stolen(thief: &Stack) {
    let slot = &thief.slots[0];
    while !latch::is_set(&slot.done) {
        if latch::prepare_sleep(&slot.done) {
            thief.parker.park();
        }
    }
}

fn forks(thief: &Stack, ran: &Tally) {
    thief.join_while(false, 0, ran, || until_stolen(thief));
}

/// A fork that either can run, and then one that only the victim can.
fn forks_again(thief: &Stack, ran: &Tally) {
    thief.join_while(false, 0, ran, || {});
    forks(thief, ran);
}

/// When the victim has run its fork, the thief forks once more above it.
fn forks_within(thief: &Stack, ran: &Tally) {
    thief.join_while(false, 0, ran, || {
        until_stolen(thief);
        thief.join_while(false, 1, ran, || {});
    });
}

fn portable() -> Stack {
    Stack::new().portable()
}

#[test]
fn a_fork_against_a_victim_that_falls_asleep() {
    apart(3, Stack::new, 1, forks);
}

#[test]
fn a_fork_after_a_pop_against_a_victim_that_falls_asleep() {
    apart(3, Stack::new, 2, forks_again);
}

#[test]
fn forks_within_forks_against_a_victim_that_falls_asleep() {
    apart(2, Stack::new, 2, forks_within);
}

#[test]
fn a_portable_fork_against_a_victim_that_falls_asleep() {
    apart(3, portable, 1, forks);
}
