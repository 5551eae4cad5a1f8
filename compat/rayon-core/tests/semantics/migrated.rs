//! What a closure is told of where it runs.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use rayon_core::Yield;

use crate::{block_until, pool};

#[test]
fn what_comes_from_outside_has_migrated() {
    let both = rayon_core::join_context(|a| a.migrated(), |b| b.migrated());
    assert_eq!(both, (true, true));
}

#[test]
fn what_runs_in_place_has_not_migrated_and_what_is_stolen_has() {
    assert_eq!(
        pool(1).install(|| rayon_core::join_context(|a| a.migrated(), |b| b.migrated())),
        (false, false)
    );
    let stolen = AtomicBool::new(false);
    let wait = |a: rayon_core::FnContext| {
        block_until(&stolen);
        a.migrated()
    };
    let both = pool(2).install(|| {
        rayon_core::join_context(wait, |b| {
            stolen.store(true, SeqCst);
            b.migrated()
        })
    });
    assert_eq!(both, (false, true));
}

#[test]
fn a_fork_that_a_yield_runs_has_migrated() {
    let ran = AtomicBool::new(false);
    let both = pool(1).install(|| {
        rayon_core::join_context(
            |a| {
                assert_eq!(rayon_core::yield_local(), Some(Yield::Executed));
                assert!(ran.load(SeqCst));
                a.migrated()
            },
            |b| {
                ran.store(true, SeqCst);
                b.migrated()
            },
        )
    });
    assert_eq!(both, (false, true));
}
