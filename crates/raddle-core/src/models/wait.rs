//! Models of waiting: for a thief, apart from those whom anybody may wake (W1), and by running one's
//! own forks.
//!
//! Of what a thief forks here nobody but the victim can run the first job, without which the thief does
//! not go on: a lost wake-up is a deadlock, which loom reports. Explored with at most three
//! preemptions.

use std::sync::Arc;

use raddle_sync::{hint, thread};

use crate::models::rig::{Body, Place, Rig, Waits};
use crate::models::{Tally, check};

const OWNER: usize = 0;
const THIEF: usize = 1;

// --- apart ---

/// A victim that waits for its fork, which the thief has and which forks: `forks` jobs in all.
fn apart(preemptions: usize, rig: fn() -> Rig, forks: u32, body: Body) {
    check(preemptions, move || {
        let rig = Arc::new(rig());
        // Nobody is interested in this one, so that the thief's next are private.
        rig.join(THIEF, 0, &Tally::default(), || {});
        let ran = Tally::default();
        let mut thief = None;
        let place = Place { rig: &rig, me: OWNER, at: 0 };
        rig.join_of(place, &ran, body, Waits::Helping, || {
            // The first push is public.
            let loot = Place { rig: &rig, me: THIEF, at: 0 }.loot(OWNER);
            let rig = Arc::clone(&rig);
            thief = Some(thread::spawn(move || Place { rig: &rig, me: THIEF, at: 0 }.run(loot)));
        });
        thief.unwrap().join().unwrap();
        assert_eq!(ran.count(), forks, "each job ran once");
        assert!(!rig.has_work());
    });
}

/// A fork that only the victim can run.
fn forks(Place { rig, me, at }: Place<'_>, ran: &Tally) {
    rig.join(me, at, ran, || rig.long_leaf(me, at));
}

/// A fork that either can run, and then one that only the victim can.
fn forks_again(place: Place<'_>, ran: &Tally) {
    place.rig.join(place.me, place.at, ran, || {});
    forks(place, ran);
}

fn portable() -> Rig {
    Rig::new(2).portable()
}

#[test]
fn a_fork_against_a_victim_that_falls_asleep() {
    apart(3, || Rig::new(2), 2, forks);
}

#[test]
fn a_fork_after_a_pop_against_a_victim_that_falls_asleep() {
    apart(2, || Rig::new(2), 3, forks_again);
}

#[test]
fn portable_fork_against_a_victim_that_falls_asleep() {
    apart(3, portable, 2, forks);
}

// --- by running one's own forks ---

/// An owner with two forks, of this `body`, that waits until both have run: `forks` jobs in all.
fn own(preemptions: usize, rig: fn() -> Rig, body: Body, forks: u32, thieves: &'static [fn(&Rig)]) {
    check(preemptions, move || {
        let rig = Arc::new(rig());
        // Nobody is interested in this one, so that the next are private.
        rig.join(OWNER, 0, &Tally::default(), || {});
        let ran = Tally::default();
        let thieves: Vec<_> = thieves
            .iter()
            .map(|&thief| {
                let rig = Arc::clone(&rig);
                thread::spawn(move || thief(&rig))
            })
            .collect();
        let place = |at| Place { rig: &rig, me: OWNER, at };
        rig.join_of(place(0), &ran, body, Waits::Helping, || {
            rig.join_of(place(1), &ran, body, Waits::Helping, || {
                while ran.count() < forks {
                    if !rig.own_fork(OWNER, 2) {
                        hint::spin_loop();
                    }
                }
            });
        });
        for thief in thieves {
            thief.join().unwrap();
        }
        assert_eq!(ran.count(), forks, "each job ran once");
        assert!(!rig.has_work());
    });
}

fn is_a_leaf(_: Place<'_>, _: &Tally) {}

fn forks_one(Place { rig, me, at }: Place<'_>, ran: &Tally) {
    rig.join(me, at, ran, || {});
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

#[test]
fn own_forks_against_two_steals() {
    own(2, || Rig::new(2), is_a_leaf, 2, &[steals_twice]);
}

#[test]
fn own_forks_against_a_request() {
    own(2, || Rig::new(2), is_a_leaf, 2, &[asks_and_steals]);
}

#[test]
fn own_forks_against_an_escalation() {
    own(2, || Rig::new(2), is_a_leaf, 2, &[escalates]);
}

#[test]
fn own_forks_that_fork_against_an_escalation() {
    own(1, || Rig::new(2), forks_one, 4, &[escalates]);
}

#[test]
fn portable_own_forks_against_two_steals() {
    own(1, portable, is_a_leaf, 2, &[steals_twice]);
}
