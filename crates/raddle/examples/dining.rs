//! Philosophers who dine: monitors of four bytes, inside and outside the pool.
//!
//! ```console
//! $ cargo run --release -p raddle --example dining
//! ```

use raddle::lock::{Condvar, Mutex, ObjectHeader, stats};
use std::time::Duration;

const SEATS: usize = 5;
const MEALS: u32 = 10_000;

fn main() {
    // A fork is nothing but its header.
    let forks = [const { ObjectHeader::new() }; SEATS];
    let eaten = Mutex::new([0; SEATS]);

    // Each takes the fork of lower number first, so nobody waits in a circle.
    std::thread::scope(|s| {
        for seat in 0..SEATS {
            let (forks, eaten) = (&forks, &eaten);
            s.spawn(move || {
                let (left, right) = (seat, (seat + 1) % SEATS);
                for _ in 0..MEALS {
                    let _first = forks[left.min(right)].lock();
                    let _second = forks[left.max(right)].lock();
                    eaten.lock()[seat] += 1;
                }
            });
        }
    });
    println!("meals: {:?}", eaten.lock());

    // A condition: the cook rings once the soup is ready.
    let (ready, bell) = (Mutex::new(false), Condvar::new());
    let patient = Duration::from_secs(10);
    let (_, soup) = raddle::join(
        || {
            *ready.lock() = true;
            bell.notify_all();
        },
        || {
            let mut guard = ready.lock();
            let result = bell.wait_while_for(&mut guard, |ready| !*ready, patient);
            !result.timed_out()
        },
    );
    println!("soup: {soup}");

    let stats = stats();
    println!("{} inflations, {} fat now, {} parks", stats.inflations, stats.fat_live, stats.parks);
    assert!(eaten.lock().iter().all(|&meals| meals == MEALS));
    assert_eq!(stats.fat_live, 0);
}
