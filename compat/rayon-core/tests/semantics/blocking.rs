//! Threads that block where nobody sees it.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};

use crate::{block_until, pool};

#[test]
fn a_wait_takes_on_anything_by_default() {
    // What a stolen fork waits for lies in the queue of the thread that waits for that fork.
    let pool = pool(2);
    let (stolen, done) = (AtomicBool::new(false), Arc::new((Mutex::new(false), Condvar::new())));
    pool.install(|| {
        let set = Arc::clone(&done);
        rayon_core::spawn(move || {
            *set.0.lock().unwrap() = true;
            set.1.notify_all();
        });
        rayon_core::join(
            || block_until(&stolen),
            || {
                stolen.store(true, SeqCst);
                let locked = done.0.lock().unwrap();
                let _set = done.1.wait_while(locked, |set| !*set).unwrap();
            },
        );
    });
}
