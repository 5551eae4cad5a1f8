//! What many tasks leave.

use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use super::*;
use crate::pool::Pool;
use crate::queue::KEPT;

/// A guest's, when it leaves; a worker's, when it sleeps.
#[test]
fn no_thread_keeps_the_memory_of_a_burst() {
    let pool = Pool::builder().threads(1).build().unwrap();
    let burst = || scope(|scope| (0..=KEPT).for_each(|_| scope.spawn(|_| ())));
    let keep = || pool.registry().memories.iter().filter(|m| m.ring.keeps_much()).count();
    // Its thread takes none of the guest's.
    let [began, end] = [(); 2].map(|()| Arc::new(Barrier::new(2)));
    let (started, go) = (began.clone(), end.clone());
    let busy = pool.spawn(move || _ = (started.wait(), go.wait()));
    began.wait();
    pool.run(|_| burst());
    let kept = keep();
    end.wait();
    busy.wait().unwrap();
    assert_eq!(kept, 0, "after a guest");
    pool.spawn(burst).wait().unwrap();
    let start = Instant::now();
    while keep() > 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "a thread that sleeps keeps it");
        std::thread::yield_now();
    }
}
