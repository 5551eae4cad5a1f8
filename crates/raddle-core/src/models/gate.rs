//! Models of the gate (`pool::gate`, as it is; round it a pool of which only its memory matters): guests and visitors that come
//! and go against the end of their pool, and against the next pool that the gate is given to.
//!
//! A pool that is freed while somebody is inside (G1), or a memory that two guests are in, is a race, which loom reports; an end
//! that oversleeps the last guest's leaving is a deadlock. Two or three threads, explored with four preemptions.
//!
//! What each fails without: that a guest, and a visitor, is counted; that whoever closes waits, and that the last to leave tells it; that
//! closing takes the pointer away; the generation, and that each pool has one of its own; that a guest takes the bit of its memory, and
//! gives it back last; that the end of its stay is noted under the lock; that a gate which is opened again is not closing; that what is
//! suspended is listed by generation.

pub(crate) mod pool;

use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use raddle_sync::thread;

use crate::models::{Tally, check};
use crate::pool::gate::{PoolRef, Suspended};
use crate::pool::registry::Registry;

/// Comes in as a guest if it can, uses the pool, and goes.
fn visit_as_guest(home: PoolRef, registry: &Registry) -> bool {
    let guest = home.enter(Location::caller());
    if let Some(guest) = &guest {
        assert!(registry.has(guest.worker()));
        registry.touch();
    }
    guest.is_some()
}

/// As above, and is no guest.
fn visit(home: PoolRef, registry: &Registry) -> bool {
    let seen = home.with((), |there, ()| {
        assert!(std::ptr::eq(there, registry));
        there.touch();
    });
    seen.is_ok()
}

/// The end of a pool.
fn end(registry: &Registry) {
    registry.gate.close();
    registry.free();
}

type Party = fn(PoolRef, &Registry) -> bool;

/// All race with the end of the pool, which has memory for so many guests: those who come too late stay outside.
fn against_the_end(preemptions: usize, guests: usize, parties: &'static [Party]) {
    check(preemptions, move || {
        let registry = Registry::open(guests);
        let home = registry.gate.home();
        let threads: Vec<_> = parties
            .iter()
            .map(|party| {
                let registry = Arc::clone(&registry);
                thread::spawn(move || party(home, &registry))
            })
            .collect();
        end(&registry);
        assert!(!visit_as_guest(home, &registry), "it is closed");
        for thread in threads {
            let _ = thread.join().unwrap();
        }
    });
}

#[test]
fn a_guest_against_the_end() {
    against_the_end(4, 1, &[visit_as_guest]);
}

#[test]
fn a_visitor_against_the_end() {
    against_the_end(4, 1, &[visit]);
}

#[test]
fn a_question_against_the_end() {
    against_the_end(4, 1, &[|home, _| home.has_nobody_for_more()]);
}

/// The end is told by whoever leaves last.
#[test]
fn a_guest_and_a_visitor_against_the_end() {
    against_the_end(4, 1, &[visit_as_guest, visit]);
}

#[test]
fn two_guests_against_the_end() {
    against_the_end(4, 2, &[visit_as_guest, visit_as_guest]);
}

/// There is memory for so many, and each of them has it to itself; whether `both` come in.
fn two_guests_beside_each_other(guests: usize, both: bool) {
    check(4, move || {
        let registry = Registry::open(guests);
        let home = registry.gate.home();
        let other = Arc::clone(&registry);
        let thread = thread::spawn(move || visit_as_guest(home, &other));
        let mine = visit_as_guest(home, &registry);
        let theirs = thread.join().unwrap();
        assert!(mine || theirs, "there is room for one in any case");
        assert!(mine && theirs || !both, "there is room for both");
        // All that they took is there again.
        for _ in 0..2 {
            assert!(visit_as_guest(home, &registry));
        }
        end(&registry);
    });
}

#[test]
fn two_guests_of_whom_one_has_room() {
    two_guests_beside_each_other(1, false);
}

#[test]
fn two_guests_that_both_have_room() {
    two_guests_beside_each_other(2, true);
}

/// A guest that the pool has no place for takes nothing along.
#[test]
fn a_guest_without_a_place_against_the_end() {
    check(4, || {
        let registry = Registry::open(1);
        let home = registry.gate.home();
        registry.has_place.store(false, Ordering::Relaxed);
        let other = Arc::clone(&registry);
        let thread = thread::spawn(move || assert!(!visit_as_guest(home, &other)));
        end(&registry);
        thread.join().unwrap();
    });
}

/// The gate is the next pool's, while somebody knows the first one by it: it meets that, or nobody.
#[test]
fn one_who_knows_a_pool_against_its_end_and_the_next() {
    check(4, || {
        let first = Registry::open(1);
        let home = first.gate.home();
        let theirs = Arc::clone(&first);
        let late = thread::spawn(move || {
            let _ = visit(home, &theirs);
            let _ = visit_as_guest(home, &theirs);
            theirs
        });
        let second = recycled(&first);
        let again = second.gate.home();
        assert!(!again.is_of(&first) && again.is_of(&second));
        assert!(visit_as_guest(again, &second) && visit(again, &second));
        end(&second);
        drop(late.join().unwrap());
    });
}

/// The end of a pool, and the next one, which has its gate.
fn recycled(first: &Registry) -> Arc<Registry> {
    end(first);
    first.recycle();
    Registry::open(1)
}

/// What a pool drives that is suspended: killed once, unless it is over.
#[derive(Default)]
struct Driven {
    over: AtomicBool,
    killed: Tally,
}

impl Suspended for Driven {
    fn kill(&self) -> bool {
        let kills = !self.over.swap(true, Ordering::Relaxed);
        if kills {
            self.killed.add();
        }
        kills
    }
}

/// What is suspended is killed at the end of its pool, unless it is over by then, and not by the next pool's.
#[test]
fn something_suspended_against_the_end_and_the_next() {
    check(4, || {
        let registry = Registry::open(1);
        let home = registry.gate.home();
        let (stays, ends): (Arc<Driven>, Arc<Driven>) = Default::default();
        let weak: Weak<Driven> = Arc::downgrade(&stays);
        let _ = home.enlist(weak);
        let theirs = Arc::clone(&ends);
        let thread = thread::spawn(move || {
            let weak: Weak<Driven> = Arc::downgrade(&theirs);
            let number = home.enlist(weak);
            let over = !theirs.over.swap(true, Ordering::Relaxed);
            home.discharge(number);
            over
        });
        end(&registry);
        let killed = registry.gate.kill_suspended();
        assert_eq!(stays.killed.count(), 1);
        let over = thread.join().unwrap();
        assert_eq!(ends.killed.count() == 0, over);
        assert_eq!(killed, if over { 1 } else { 2 });
        // What comes after the end is for nobody else to kill.
        let late = Arc::new(Driven::default());
        let weak: Weak<Driven> = Arc::downgrade(&late);
        let _ = home.enlist(weak);
        registry.recycle();
        assert_eq!(Registry::open(1).gate.kill_suspended(), 0);
        assert_eq!(late.killed.count(), 0);
    });
}
