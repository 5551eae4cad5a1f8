//! A larger model, at random: `RUSTFLAGS="--cfg raddle_shuttle" cargo test -p raddle-lock --test shuttle`

#![cfg(raddle_shuttle)]

use raddle_lock::Mutex;
use raddle_sync::sync::Arc;
use raddle_sync::{strand, thread};

#[test]
fn many_strands_lose_no_increment() {
    shuttle::check_random(
        || {
            const THREADS: usize = 4;
            const ROUNDS: usize = 3;
            let mutex = Arc::new(Mutex::new(0));
            let threads: Vec<_> = (0..THREADS)
                .map(|_| {
                    let mutex = Arc::clone(&mutex);
                    thread::spawn(move || {
                        for _ in 0..ROUNDS {
                            // More strands than the model has ids.
                            let _foreign = strand::enter_foreign();
                            let mut value = mutex.lock();
                            let before = *value;
                            thread::yield_now();
                            *value = before + 1;
                        }
                    })
                })
                .collect();
            for thread in threads {
                thread.join().unwrap();
            }
            assert_eq!(*mutex.lock(), THREADS * ROUNDS);
        },
        1_000,
    );
}
