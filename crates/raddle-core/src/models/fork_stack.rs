//! Models of the fork stack: an owner that forks as `Worker::join` does, against thieves.
//!
//! Two threads: explored with at most four preemptions; three threads: with two. Throughout, somebody is
//! interested, so that the owner shares when it is asked.

mod loaded;

use std::cell::Cell;
use std::sync::Arc;

use raddle_sync::atomic::{Ordering, fence};
use raddle_sync::cell::UnsafeCell;
use raddle_sync::parker::Parker;
use raddle_sync::thread;

use crate::fork_stack::{ForkStack, Popped, Slot, Steal};
use crate::job::{ForkHeader, ForkJob, RunOn};
use crate::latch;
use crate::models::{Tally, check, parker};

/// A fork whose run is to be counted.
type Job = ForkJob<Tally, u32>;

/// What a thief calls.
unsafe fn run_job(header: *const ForkHeader, _: RunOn) {
    // SAFETY: all forks of these models are such jobs.
    let job = unsafe { &*header.cast::<Job>() };
    // SAFETY: J1: the caller has stolen it.
    unsafe { job.run_stolen(run) };
}

fn run(ran: Tally) -> u32 {
    ran.add();
    7
}

/// An owner's stack.
pub(super) struct Stack {
    pub(super) fork: ForkStack,
    pub(super) slots: Box<[Slot]>,
    /// Whether the fork of a slot is loaded.
    loaded: Box<[UnsafeCell<bool>]>,
    pub(super) parker: &'static Parker,
    /// Where its owner runs a stolen fork, from slot 0: whose that is.
    victim: Option<Arc<Stack>>,
    /// Forks at this slot and above are loaded.
    followed_from: usize,
    /// The owner's: forks are to be loaded from the first on that is pushed slowly.
    follows_late: Cell<bool>,
    /// Every fork is recorded, or may be.
    recorded: bool,
    /// How many threads look for work, as far as the owner knows: so many forks are to be public.
    searching: usize,
}

// SAFETY: `loaded` is the owner's, or the thief's, and `follows_late` the owner's.
unsafe impl Sync for Stack {}
// SAFETY: as above.
unsafe impl Send for Stack {}

impl Stack {
    pub(super) fn new() -> Stack {
        let slots: Box<[Slot]> = (0..4).map(|_| Slot::new()).collect();
        Stack {
            // SAFETY: the slots live as long as the stack, on the heap.
            fork: unsafe { ForkStack::new(slots.as_ptr(), slots.len(), 0) },
            loaded: slots.iter().map(|_| UnsafeCell::new(false)).collect(),
            slots,
            parker: parker(),
            victim: None,
            followed_from: usize::MAX,
            follows_late: Cell::new(false),
            recorded: false,
            searching: 0,
        }
    }

    /// Its owner runs the fork that was stolen from `victim`'s slot 0.
    pub(super) fn serving(self, victim: Arc<Stack>) -> Stack {
        Stack { victim: Some(victim), ..self }
    }

    /// As while every fork is recorded; or, if not `from_the_start`, as soon as somebody says so.
    fn recorded(mut self, from_the_start: bool) -> Stack {
        self.recorded = true;
        self.fork.set_recorded(from_the_start);
        self
    }

    /// Forks at this slot and above are to be loaded.
    fn followed_from(self, slot: usize) -> Stack {
        Stack { followed_from: slot, ..self }
    }

    /// Of any number of forks all are to be public.
    fn searched(self) -> Stack {
        Stack { searching: usize::MAX, ..self }
    }

    /// As where there is no process-wide fence.
    pub(super) fn portable(mut self) -> Stack {
        self.fork.make_portable();
        self
    }

    // --- the owner ---

    /// Forks a job at slot `at`, calls `first`, and takes the job back or waits for its thief.
    fn join(&self, at: usize, ran: &Tally, first: impl FnOnce()) {
        self.join_while(true, at, ran, first);
    }

    /// As `join`; somebody is `interested`, or not.
    pub(super) fn join_while(
        &self,
        interested: bool,
        at: usize,
        ran: &Tally,
        first: impl FnOnce(),
    ) {
        let slot = &self.slots[at];
        let job = Job::new(ran.clone(), 0, run_job);
        if self.fork.push(slot, job.header()) {
            self.pushed(slot);
        }
        first();
        let result = if self.fork.pop(slot) || self.popped(interested, slot) {
            // SAFETY: J1: the pop gave it back.
            run(unsafe { job.take_closure() })
        } else {
            self.await_thief(interested, slot);
            // SAFETY: J2: the thief is done.
            unsafe { job.take_result() }.expect("the job does not panic")
        };
        assert_eq!(result, 7);
    }

    fn pushed(&self, slot: &Slot) {
        let mut loads = self.fork.is_followed();
        if self.follows_late.get() && !loads {
            loads = self.fork.follow(slot);
            self.fork.request();
        }
        if loads {
            self.set_loaded(slot, true);
            self.fork.load(slot);
        }
        if !self.recorded && !self.fork.is_followed() || self.fork.must_settle(slot) {
            self.fork.publish(slot, self.searching);
            self.tell();
            if self.fork.public() < self.searching {
                self.fork.request();
            }
        }
    }

    /// As `WorkerMemory::tell`, with nobody else to wake.
    fn tell(&self) {
        let Some(victim) = &self.victim else { return };
        fence(Ordering::SeqCst); // W1
        if latch::is_asleep(&victim.slots[0].done) {
            victim.parker.unpark();
        }
    }

    fn popped(&self, interested: bool, slot: &Slot) -> bool {
        self.fork.unload(slot);
        let slow = self.recorded || self.fork.is_followed();
        let owned = slow && !self.fork.must_settle(slot) || {
            let asked = self.fork.is_asked();
            let wanted = interested || self.victim_waits() || asked;
            let popped = self.fork.pop_slow(slot, wanted.then_some(self.searching));
            self.stay_attentive(interested);
            if asked && !self.fork.has_public() {
                self.fork.request();
            }
            popped == Popped::Owned
        };
        if owned {
            self.set_loaded(slot, false);
        }
        owned
    }

    /// By the owner, while no thief may have the fork.
    fn set_loaded(&self, slot: &Slot, now: bool) {
        // SAFETY: contract.
        self.loaded[self.fork.index_of(slot)].with_mut(|loaded| unsafe { *loaded = now });
    }

    fn victim_waits(&self) -> bool {
        self.victim.as_ref().is_some_and(|victim| victim.slots[0].is_awaited())
    }

    fn stay_attentive(&self, interested: bool) {
        if !interested {
            self.tell();
        } else if self.fork.public() < self.searching.max(1) {
            self.fork.request();
        }
    }

    fn await_thief(&self, interested: bool, slot: &Slot) {
        slot.mark_waiting();
        while !latch::is_set(&slot.done) {
            if latch::prepare_sleep(&slot.done) {
                self.parker.park();
            }
        }
        self.fork.reset(slot);
        self.set_loaded(slot, false);
        self.stay_attentive(interested);
    }

    // --- thieves ---

    /// Runs one public job. False: there is none, or two races were lost: two thieves that try for ever
    /// keep a model from its end.
    fn steal(&self) -> bool {
        for _ in 0..2 {
            match self.fork.steal() {
                Steal::Job(job, index) => {
                    self.run_stolen(job, index);
                    return true;
                }
                Steal::Retry => {}
                Steal::Private | Steal::Empty => return false,
            }
        }
        false
    }

    /// As `steal`, but takes what is private as well, by the heavy fence.
    fn dislodge(&self) -> bool {
        self.steal() || (self.fork.escalate() && self.steal())
    }

    pub(super) fn run_stolen(&self, job: *mut ForkHeader, index: usize) {
        // SAFETY: stolen.
        let loaded = self.loaded[index].with(|loaded| unsafe { *loaded });
        assert!(loaded || index < self.followed_from, "I7");
        // SAFETY: I5: the job stays until `done` is set.
        let run = unsafe { &*job }.run;
        // SAFETY: J1: the job is ours.
        unsafe { run(job, std::ptr::null()) };
        latch::set_word(&self.fork.slot(index).done, self.parker);
    }
}

/// What the owner's thread does, against what each thief does.
fn race(preemptions: usize, owner: fn(&Stack, &Tally), forks: u32, thieves: &'static [fn(&Stack)]) {
    race_on(preemptions, || Stack::new(), owner, forks, thieves);
}

fn race_on(
    preemptions: usize,
    stack: fn() -> Stack,
    owner: fn(&Stack, &Tally),
    forks: u32,
    thieves: &'static [fn(&Stack)],
) {
    check(preemptions, move || {
        let stack = Arc::new(stack());
        // Nobody is interested in this one, so that the next are private.
        stack.join_while(false, 0, &Tally::default(), || {});
        let ran = Tally::default();
        let thieves: Vec<_> = thieves
            .iter()
            .map(|&thief| {
                let stack = Arc::clone(&stack);
                thread::spawn(move || thief(&stack))
            })
            .collect();
        owner(&stack, &ran);
        for thief in thieves {
            thief.join().unwrap();
        }
        assert_eq!(ran.count(), forks, "each job ran once");
        assert!(!stack.fork.has_work());
    });
}

// --- owners ---

fn one(stack: &Stack, ran: &Tally) {
    stack.join(0, ran, || {});
}

fn two_nested(stack: &Stack, ran: &Tally) {
    stack.join(0, ran, || stack.join(1, ran, || {}));
}

/// The slot of the first fork is used again.
fn one_after_another(stack: &Stack, ran: &Tally) {
    one(stack, ran);
    one(stack, ran);
}

/// The upper slot is used twice while the lower is taken.
fn again_above(stack: &Stack, ran: &Tally) {
    stack.join(0, ran, || {
        stack.join(1, ran, || {});
        stack.join(1, ran, || {});
    });
}

// --- thieves ---

fn steals(stack: &Stack) {
    stack.steal();
}

fn steals_twice(stack: &Stack) {
    stack.steal();
    stack.steal();
}

fn asks_and_steals(stack: &Stack) {
    stack.fork.request();
    stack.steal();
}

fn escalates(stack: &Stack) {
    stack.dislodge();
}

fn escalates_and_steals_twice(stack: &Stack) {
    stack.dislodge();
    stack.steal();
}

// --- two threads ---

#[test]
fn a_pop_against_a_steal() {
    race(4, one, 1, &[steals]);
}

#[test]
fn a_pop_against_an_escalation() {
    race(4, one, 1, &[escalates]);
}

#[test]
fn nested_pops_against_two_steals() {
    race(3, two_nested, 2, &[steals_twice]);
}

#[test]
fn nested_pops_against_a_request() {
    race(3, two_nested, 2, &[asks_and_steals]);
}

#[test]
fn nested_pops_against_an_escalation() {
    race(3, two_nested, 2, &[escalates_and_steals_twice]);
}

#[test]
fn a_slot_used_again_against_a_steal() {
    race(3, one_after_another, 2, &[steals_twice]);
}

#[test]
fn a_slot_used_again_against_an_escalation() {
    race(3, one_after_another, 2, &[escalates]);
}

#[test]
fn a_private_slot_used_again_against_an_escalation() {
    race(2, again_above, 3, &[escalates_and_steals_twice]);
}

// --- with as many public as there are ---

#[test]
fn all_are_public_against_a_request() {
    race_on(3, || Stack::new().searched(), two_nested, 2, &[asks_and_steals]);
}

#[test]
fn all_are_public_against_an_escalation() {
    race_on(2, || Stack::new().searched(), again_above, 3, &[escalates_and_steals_twice]);
}

#[test]
fn all_are_public_against_two_thieves() {
    race_on(2, || Stack::new().searched(), two_nested, 2, &[asks_and_steals, steals]);
}

// --- three threads ---

#[test]
fn two_thieves_against_a_pop() {
    race(2, one, 1, &[steals, steals]);
}

#[test]
fn a_steal_and_an_escalation_against_nested_pops() {
    race(2, two_nested, 2, &[steals, escalates]);
}

#[test]
fn two_escalations_against_nested_pops() {
    race(2, two_nested, 2, &[escalates, escalates]);
}

// --- without a process-wide fence ---

fn portable() -> Stack {
    Stack::new().portable()
}

#[test]
fn portable_nested_pops_against_two_steals() {
    race_on(3, portable, two_nested, 2, &[steals_twice]);
}

#[test]
fn portable_slot_used_again_against_a_steal() {
    race_on(3, portable, one_after_another, 2, &[steals_twice]);
}

#[test]
fn portable_two_thieves_against_a_pop() {
    race_on(2, portable, one, 1, &[steals, steals]);
}

// --- while every fork is recorded ---

fn recorded() -> Stack {
    Stack::new().recorded(true)
}

fn not_yet_recorded() -> Stack {
    Stack::new().recorded(false)
}

fn switches_and_steals(stack: &Stack) {
    stack.fork.set_recorded(true);
    stack.fork.request();
    stack.steal();
}

#[test]
fn recorded_nested_pops_against_a_request() {
    race_on(3, recorded, two_nested, 2, &[asks_and_steals]);
}

#[test]
fn recorded_nested_pops_against_an_escalation() {
    race_on(3, recorded, two_nested, 2, &[escalates_and_steals_twice]);
}

#[test]
fn recorded_two_thieves_against_a_pop() {
    race_on(2, recorded, one, 1, &[steals, escalates]);
}

#[test]
fn a_slot_used_again_while_recording_is_switched_on() {
    race_on(3, not_yet_recorded, one_after_another, 2, &[switches_and_steals]);
}
