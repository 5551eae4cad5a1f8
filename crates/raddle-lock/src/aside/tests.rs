use super::*;
use crate::core::Gain;
use crate::queue::{HAND_OFF, WAITING};
use raddle_sync::strand;
use raddle_sync::time::Instant;
use std::time::Duration;
use std::{ptr, thread};

/// Holds a lock for which so many wait, and lets go of it: the first is awake, and the lock thin.
fn aside<const N: usize>(core: &Core) -> (&'static Entry, [Node; N]) {
    core.acquire::<false>();
    let (entry, nodes) = (core.inflate_held(), [(); N].map(|()| Node::new()));
    (entry, nodes)
}

/// As that, with the nodes where they stay.
fn set_aside(core: &Core, entry: &'static Entry, nodes: &[Node]) {
    nodes.iter().for_each(|node| entry.inner.lock().lock.push_back(node));
    entry.update(Ordering::Relaxed, |state| state | QUEUED);
    core.release::<false>();
    assert_eq!(core.word.load(Ordering::Relaxed), ASIDE);
    assert!(is_on_duty(core) && nodes[0].signalled() == WAKE);
}

/// Whether somebody will look after those who wait by itself.
fn is_on_duty(core: &Core) -> bool {
    let mut bucket = pending::bucket(core.address());
    let entry = bucket.find().filter(|pending| pending.armed == NOBODY);
    entry.is_some_and(|pending| pending.entry.state.load(Ordering::Relaxed) & (WOKEN | LAZY) != 0)
}

fn is_wanted(core: &Core) -> bool {
    matches!(view(core.word.load(Ordering::Relaxed)), View::Aside { wanted: true, .. })
}

fn is_over(core: &Core) -> bool {
    core.word.load(Ordering::Relaxed) == FREE && pending::bucket(core.address()).find().is_none()
}

/// As a strand that has got the lock by its entry.
fn release(core: &Core, entry: &Entry) {
    entry.own(strand::token());
    // SAFETY: just taken.
    strand::with_local(|local| unsafe { local.hold_slow(core.address()) });
    core.release::<false>();
}

#[test]
fn whoever_runs_finds_the_lock_thin() {
    let core = Core::new();
    let (entry, nodes) = aside::<1>(&core);
    set_aside(&core, entry, &nodes);
    for _ in 0..3 {
        core.acquire::<false>();
        assert_eq!(core.word.load(Ordering::Relaxed), ASIDE | strand::token());
        assert!(!core.try_awake(entry, crate::spin::Spin::short()) && core.is_wanted());
        core.release::<false>();
    }
    assert!(core.try_awake(entry, crate::spin::Spin::short()));
    release(&core, entry);
    assert!(is_over(&core));
}

/// A1: else nobody would look after those who are left.
#[test]
fn whoever_gives_up_wakes_the_next() {
    for lazy in [false, true] {
        let core = Core::new();
        let (entry, nodes) = aside::<3>(&core);
        set_aside(&core, entry, &nodes);
        core.acquire::<false>();
        for node in &nodes {
            assert_eq!(node.signalled(), WAKE);
            let mark = if lazy { LAZY } else { 0 };
            if lazy {
                let step = core.go_back(entry, node, LAZY);
                assert!(matches!(step, Step::Done(false)) && node.signalled() == WAITING);
            }
            assert!(is_on_duty(&core));
            assert_eq!(core.give_up(entry, node, mark), Some(Gain::Nothing));
        }
        assert!(!is_on_duty(&core) && !core.is_wanted());
        core.release::<false>();
        assert!(is_over(&core));
    }
}

/// A1: before it sleeps until it is told, it sees to it that it is.
#[test]
fn whoever_wants_the_lock_tells_its_owner() {
    let core = Core::new();
    let (entry, nodes) = aside::<2>(&core);
    set_aside(&core, entry, &nodes);
    core.acquire::<false>();
    assert!(matches!(core.go_back(entry, &nodes[0], WANT), Step::Done(false)));
    assert!(!is_on_duty(&core) && is_wanted(&core));
    core.release::<false>();
    assert_eq!((nodes[0].signalled(), nodes[1].signalled()), (HAND_OFF, WAITING));
    release(&core, entry);
    assert_eq!(nodes[1].signalled(), WAKE);
    assert_eq!(core.give_up(entry, &nodes[1], 0), Some(Gain::Nothing));
    assert!(is_over(&core));
}

/// Also at the last moment.
#[test]
fn whoever_wants_a_free_lock_takes_it() {
    let core = Core::new();
    let (entry, nodes) = aside::<1>(&core);
    set_aside(&core, entry, &nodes);
    assert!(matches!(core.go_back(entry, &nodes[0], WANT), Step::Lock));
    release(&core, entry);
    assert!(is_over(&core));
}

#[test]
fn a_fair_unlock_hands_over() {
    let core = Core::new();
    let (entry, nodes) = aside::<1>(&core);
    set_aside(&core, entry, &nodes);
    core.acquire::<false>();
    core.release_fair::<false>();
    assert!(core.is_locked() && entry.state.load(Ordering::Relaxed) & HANDED != 0);
    assert!(core.try_awake(entry, crate::spin::Spin::short()));
    release(&core, entry);
    assert!(is_over(&core));
}

/// A4
#[test]
fn a_hash_is_left_with_the_entry() {
    for held in [false, true] {
        for given_up in [false, true] {
            let core = Core::new();
            let (entry, nodes) = aside::<1>(&core);
            set_aside(&core, entry, &nodes);
            if held {
                core.acquire::<false>();
            }
            let hash = core.with_aside(|entry| {
                entry.restore.store(word::hashed(5), Ordering::Relaxed);
                word::identity(word::hashed(5))
            });
            assert_eq!(is_wanted(&core), held);
            if given_up {
                assert_eq!(core.give_up(entry, &nodes[0], 0), Some(Gain::Nothing));
            }
            if held {
                core.release::<false>();
            }
            if !given_up {
                assert!(core.try_awake(entry, crate::spin::Spin::short()));
                release(&core, entry);
            }
            assert_eq!(view(core.word.load(Ordering::Relaxed)), View::Hashed);
            assert_eq!(Some(core.identity_hash()), hash);
            assert!(pending::bucket(core.address()).find().is_none());
        }
    }
}

/// P3: an entry that stays for a hash may outlive a lock whose guard was forgotten, and is nobody's trouble.
#[test]
fn a_forgotten_guard_leaves_an_entry_that_harms_nobody() {
    let mut core = Core::new();
    let (entry, nodes) = aside::<1>(&core);
    set_aside(&core, entry, &nodes);
    core.acquire::<false>();
    let hashed = |entry: &Entry| entry.restore.store(word::hashed(5), Ordering::Relaxed);
    assert!(core.with_aside(hashed).is_some() && is_wanted(&core));
    assert_eq!(core.give_up(entry, &nodes[0], 0), Some(Gain::Nothing));
    assert_eq!(core.word.load(Ordering::Relaxed), strand::token());
    let moved = Box::new(std::mem::replace(&mut core, Core::new()));
    thread::scope(|s| {
        let other = s.spawn(|| {
            let soon = Instant::now() + Duration::from_millis(1);
            (moved.acquire_until::<false>(Some(soon)), moved.identity_hash())
        });
        assert!(!other.join().unwrap().0);
    });
    // What lies there now.
    core.acquire::<false>();
    thread::scope(|s| {
        let soon = Instant::now() + Duration::from_millis(1);
        let core = &core;
        let other = s.spawn(move || core.acquire_until::<false>(Some(soon)));
        assert!(!other.join().unwrap());
    });
    core.release::<false>();
    assert!(!core.is_locked());
    moved.release::<false>();
}

/// Leaves an entry under a lock's address, for the running strand, that is not the lock's.
fn leave_stale(core: &Core) -> &'static Entry {
    let (stale, me) = (table::take(), strand::token());
    slot::arm_quietly(me);
    pending::bucket(core.address()).leave(stale, me);
    stale
}

fn is_dead(entry: &Entry) -> bool {
    entry.state.load(Ordering::Relaxed) & DEAD != 0
}

/// P4: it took that for its own, and gave back the entry of a lock that was held.
#[test]
fn whoever_gives_up_takes_no_other_locks_entry_for_its_own() {
    let core = Core::new();
    let (entry, _) = aside::<0>(&core);
    let stale = leave_stale(&core);
    thread::scope(|s| {
        let soon = Instant::now() + Duration::from_millis(1);
        let core = &core;
        let other = s.spawn(move || core.acquire_until::<false>(Some(soon)));
        assert!(!other.join().unwrap());
    });
    assert!(!is_dead(entry) && !is_dead(stale) && core.is_held());
    core.release::<false>();
    assert!(!core.is_locked());
    assert!(pending::bucket(core.address()).remove().is_some_and(|left| ptr::eq(left, stale)));
    table::give_back(stale);
}

/// P4: two lay there, and the wrong one was found.
#[test]
fn an_entry_is_set_aside_in_the_stead_of_a_stale_one() {
    let core = Core::new();
    let (entry, nodes) = aside::<2>(&core);
    let stale = leave_stale(&core);
    set_aside(&core, entry, &nodes);
    assert!(is_dead(stale));
    assert!(core.try_awake(entry, crate::spin::Spin::short()));
    release(&core, entry);
    assert_eq!(nodes[1].signalled(), WAKE);
    assert!(core.try_awake(entry, crate::spin::Spin::short()));
    release(&core, entry);
    assert!(is_over(&core));
}

#[test]
fn a_strand_without_an_id_takes_the_entry() {
    let core = Core::new();
    let (entry, nodes) = aside::<1>(&core);
    set_aside(&core, entry, &nodes);
    let me = crate::word::MAX_OWNER + 1;
    assert!(core.inflate_free(ASIDE, me) && !is_on_duty(&core));
    assert_eq!(entry.owner.load(Ordering::Relaxed), me);
    assert!(!core.try_awake(entry, crate::spin::Spin::short()));
    release(&core, entry);
    assert!(core.try_awake(entry, crate::spin::Spin::short()));
    release(&core, entry);
    assert!(is_over(&core));
}

/// A2: as in the child of a fork.
#[test]
fn where_nobody_is_on_duty_the_owner_is_told() {
    let core = Core::new();
    let (entry, nodes) = aside::<1>(&core);
    set_aside(&core, entry, &nodes);
    core.acquire::<false>();
    entry.update(Ordering::Relaxed, |state| state & !WOKEN);
    thread::scope(|s| {
        let core = &core;
        let other = s.spawn(|| {
            core.acquire::<false>();
            core.release::<false>();
        });
        while !is_wanted(core) {
            thread::yield_now();
        }
        core.release::<false>();
        other.join().unwrap();
    });
    assert!(!core.is_locked());
}

/// With threads: each of them is on duty at some time, and nobody is left.
#[test]
fn everybody_gets_a_lock_that_one_takes_all_the_time() {
    const ROUNDS: usize = if cfg!(miri) { 3 } else { 300 };
    let mutex = crate::Mutex::new(0_usize);
    thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                for round in 0..ROUNDS {
                    let limit = std::time::Duration::from_micros(round as u64 % 200);
                    let timed = || mutex.try_lock_for(limit).filter(|_| round % 2 == 0);
                    *std::iter::repeat_with(timed)
                        .take(round)
                        .flatten()
                        .next()
                        .unwrap_or_else(|| mutex.lock()) += 1;
                }
            });
        }
        while *mutex.lock() < 4 * ROUNDS {}
    });
    assert_eq!(mutex.into_inner(), 4 * ROUNDS);
}
