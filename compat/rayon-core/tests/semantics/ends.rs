//! How pools end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::thread;

use rayon_core::ThreadPoolBuilder;

use crate::{block_until, pool};

#[test]
fn a_pool_is_dropped_without_a_wait_and_its_jobs_go_on_to_spawn() {
    let (send, receive) = channel();
    let go = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&go);
    let pool = pool(1);
    pool.spawn(move || {
        block_until(&gate);
        let deeper = send.clone();
        rayon_core::spawn(move || {
            rayon_core::spawn(move || deeper.send(2).unwrap());
        });
        send.send(1).unwrap();
    });
    drop(pool);
    go.store(true, SeqCst);
    assert_eq!(receive.iter().collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn a_pool_is_dropped_by_its_own_job() {
    let pool = Arc::new(pool(2));
    let (send, receive) = channel();
    let own = Arc::clone(&pool);
    let (given, take) = channel::<()>();
    pool.spawn(move || {
        let _ = take.recv();
        drop(own);
        send.send(()).unwrap();
    });
    drop(pool);
    drop(given);
    receive.recv().unwrap();
}

#[test]
fn threads_are_clean_when_the_pool_has_ended() {
    let (send, receive) = channel();
    let pool = ThreadPoolBuilder::new()
        .num_threads(2)
        .spawn_handler(move |thread| {
            let send = send.clone();
            thread::spawn(move || {
                thread.run();
                send.send(rayon_core::current_thread_index()).unwrap();
            });
            Ok(())
        })
        .build()
        .unwrap();
    pool.install(|| ());
    drop(pool);
    assert_eq!(receive.iter().collect::<Vec<_>>(), [None, None]);
}
