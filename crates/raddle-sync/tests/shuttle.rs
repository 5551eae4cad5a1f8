//! Larger models, at random: `RUSTFLAGS="--cfg raddle_model --cfg raddle_shuttle" cargo test -p raddle-sync --test shuttle`

#![cfg(raddle_shuttle)]

use raddle_sync::atomic::{AtomicUsize, Ordering};
use raddle_sync::parker::Parker;
use raddle_sync::strand;
use raddle_sync::sync::{Arc, Mutex};
use raddle_sync::thread;
use std::collections::HashSet;

const ITERATIONS: usize = 2_000;

#[test]
fn a_ring_of_parkers_passes_a_token_round() {
    shuttle::check_random(
        || {
            const THREADS: usize = 4;
            const ROUNDS: usize = 3;
            let parkers: Vec<_> = (0..THREADS).map(|_| Parker::lease()).collect();
            let ring: Arc<Vec<&'static Parker>> =
                Arc::new(parkers.iter().map(|lease| lease.get()).collect());
            let turn = Arc::new(AtomicUsize::new(0));
            let threads: Vec<_> = (0..THREADS)
                .map(|me| {
                    let (ring, turn) = (Arc::clone(&ring), Arc::clone(&turn));
                    thread::spawn(move || {
                        for round in 0..ROUNDS {
                            while turn.load(Ordering::SeqCst) != round * THREADS + me {
                                ring[me].park();
                            }
                            turn.fetch_add(1, Ordering::SeqCst);
                            ring[(me + 1) % THREADS].unpark();
                        }
                    })
                })
                .collect();
            for thread in threads {
                thread.join().unwrap();
            }
            assert_eq!(turn.load(Ordering::SeqCst), THREADS * ROUNDS);
        },
        ITERATIONS,
    );
}

#[test]
fn strand_ids_stay_unique_when_there_are_too_few() {
    shuttle::check_random(
        || {
            let held = Arc::new(Mutex::new(HashSet::new()));
            let threads: Vec<_> = (0..5)
                .map(|_| {
                    let held = Arc::clone(&held);
                    thread::spawn(move || {
                        for _ in 0..2 {
                            let _foreign = strand::enter_foreign();
                            let Some(id) = strand::current() else {
                                continue;
                            };
                            assert!(held.lock().insert(id), "{id:?} twice");
                            thread::yield_now();
                            assert!(held.lock().remove(&id));
                        }
                    })
                })
                .collect();
            for thread in threads {
                thread.join().unwrap();
            }
        },
        ITERATIONS,
    );
}
