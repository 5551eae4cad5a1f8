//! Models of the fork stack: an owner in `Worker::join`, against thieves.
//!
//! Two threads: explored with at most four preemptions; three threads: with two. Throughout, one
//! worker counts as searching, so that the owner shares when it is asked.

use std::sync::Arc;

use raddle_sync::thread;

use crate::models::rig::Rig;
use crate::models::{Tally, check};

const OWNER: usize = 0;
const THIEF: usize = 1;

/// What the owner's thread does, against what each thief does.
fn race(preemptions: usize, owner: fn(&Rig, &Tally), forks: u32, thieves: &'static [fn(&Rig)]) {
    race_on(preemptions, || Rig::new(2), owner, forks, thieves);
}

fn race_on(
    preemptions: usize,
    rig: fn() -> Rig,
    owner: fn(&Rig, &Tally),
    forks: u32,
    thieves: &'static [fn(&Rig)],
) {
    check(preemptions, move || {
        let rig = Arc::new(rig());
        // Nobody is interested in this one, so that the next are private.
        rig.join(OWNER, 0, &Tally::default(), || {});
        rig.sleep.add_searcher();
        let ran = Tally::default();
        let thieves: Vec<_> = thieves
            .iter()
            .map(|&thief| {
                let rig = Arc::clone(&rig);
                thread::spawn(move || thief(&rig))
            })
            .collect();
        owner(&rig, &ran);
        for thief in thieves {
            thief.join().unwrap();
        }
        assert_eq!(ran.count(), forks, "each job ran once");
        assert!(!rig.has_work());
    });
}

// --- owners ---

fn one(rig: &Rig, ran: &Tally) {
    rig.join(OWNER, 0, ran, || {});
}

fn two_nested(rig: &Rig, ran: &Tally) {
    rig.join(OWNER, 0, ran, || rig.join(OWNER, 1, ran, || {}));
}

/// The slot of the first fork is used again.
fn one_after_another(rig: &Rig, ran: &Tally) {
    one(rig, ran);
    one(rig, ran);
}

/// The upper slot is used twice while the lower is taken.
fn again_above(rig: &Rig, ran: &Tally) {
    rig.join(OWNER, 0, ran, || {
        rig.join(OWNER, 1, ran, || {});
        rig.join(OWNER, 1, ran, || {});
    });
}

// --- thieves ---

fn steals(rig: &Rig) {
    rig.steal(THIEF, OWNER);
}

fn steals_twice(rig: &Rig) {
    rig.steal(THIEF, OWNER);
    rig.steal(THIEF, OWNER);
}

fn asks_and_steals(rig: &Rig) {
    rig.regions[OWNER].fork.request();
    rig.steal(THIEF, OWNER);
}

fn escalates(rig: &Rig) {
    rig.dislodge(THIEF, OWNER);
}

fn escalates_and_steals_twice(rig: &Rig) {
    rig.dislodge(THIEF, OWNER);
    rig.steal(THIEF, OWNER);
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

// --- with a stack that stays open ---

fn open_from(slot: usize) -> Rig {
    Rig::new(2).open_from(slot)
}

/// All forks are seen to before a thief has them.
fn opens_and_forks(rig: &Rig, ran: &Tally) {
    rig.stay_open(OWNER, 0);
    two_nested(rig, ran);
}

/// The lower one need not be, and may be under way to a thief.
fn opens_within_a_fork(rig: &Rig, ran: &Tally) {
    rig.join(OWNER, 0, ran, || {
        rig.stay_open(OWNER, 1);
        rig.join(OWNER, 1, ran, || {});
    });
}

#[test]
fn forks_on_an_open_stack_against_two_steals() {
    race_on(3, || open_from(0), opens_and_forks, 2, &[steals_twice]);
}

#[test]
fn forks_on_an_open_stack_against_an_escalation() {
    race_on(3, || open_from(0), opens_and_forks, 2, &[escalates_and_steals_twice]);
}

#[test]
fn a_stack_that_opens_against_an_escalation() {
    race_on(3, || open_from(1), opens_within_a_fork, 2, &[escalates_and_steals_twice]);
}

// --- without a process-wide fence ---

fn portable() -> Rig {
    Rig::new(2).portable()
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

fn recorded() -> Rig {
    Rig::new(2).recorded(true)
}

fn not_yet_recorded() -> Rig {
    Rig::new(2).recorded(false)
}

fn switches_and_steals(rig: &Rig) {
    rig.regions[OWNER].fork.set_recorded(true);
    rig.regions[OWNER].fork.request();
    rig.steal(THIEF, OWNER);
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
