//! In the place of two tests of rayon-core that look at its registry: threads that end call their exit handlers.

use crate::{join, ThreadPool, ThreadPoolBuilder};
use std::sync::mpsc::{channel, Receiver};
use std::time::Duration;

const THREADS: usize = 22;

fn pool() -> (ThreadPool, Receiver<usize>) {
    let (send, receive) = channel();
    let builder = ThreadPoolBuilder::new().num_threads(THREADS);
    let builder = builder.exit_handler(move |index| send.send(index).unwrap());
    (builder.build().unwrap(), receive)
}

fn all_stop(receive: Receiver<usize>) {
    let mut stopped: Vec<_> = receive.iter().collect();
    stopped.sort();
    assert!(stopped.into_iter().eq(0..THREADS));
}

fn join_a_lot(n: usize) {
    if n > 0 {
        join(|| join_a_lot(n - 1), || join_a_lot(n - 1));
    }
}

#[test]
fn workers_stop() {
    let (pool, receive) = pool();
    pool.install(|| join_a_lot(THREADS));
    assert_eq!(pool.current_num_threads(), THREADS);
    drop(pool);
    all_stop(receive);
}

#[test]
fn sleeper_stop() {
    let (pool, receive) = pool();
    // Time for threads to fall asleep; the test holds whether they have or not.
    std::thread::sleep(Duration::from_secs(1));
    drop(pool);
    all_stop(receive);
}
