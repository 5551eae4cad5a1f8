//! Waits of threads that had better run nothing meanwhile, and what is called while others wait.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use raddle_core::Future;

use crate::{LONG, busy, in_time};

/// The task waits for the next timer, and nobody but the waiting thread has the time to run it.
#[test]
fn a_task_that_a_continuation_of_a_timer_waits_for_holds_no_timer_up() {
    in_time(|| {
        let (pool, go) = busy();
        let (pool, owned) = (Arc::new(pool), go);
        let spawner = Arc::clone(&pool);
        let (send, receive) = mpsc::channel();
        let (over, is_over) = mpsc::channel();
        drop(Future::delay(Duration::from_millis(1)).map(move |()| {
            let task = spawner.spawn(move || receive.recv().unwrap());
            over.send(task.wait().unwrap()).unwrap();
        }));
        drop(Future::delay(Duration::from_millis(20)).map(move |()| send.send(7).unwrap()));
        assert_eq!(is_over.recv_timeout(LONG).expect("no timer fires any more"), 7);
        drop(owned);
    });
}
