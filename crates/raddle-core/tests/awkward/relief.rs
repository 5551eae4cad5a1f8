//! Threads of last resort: they come though something goes on beside those that wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use raddle_core::{Pool, Promise, spawn};

use crate::{LONG, in_time};

/// Who ends a task now and then, and waits for one that has no thread, does not keep threads of last resort from coming.
#[test]
fn what_ends_now_and_then_keeps_no_thread_from_coming() {
    beside_what_ends_every(Duration::from_millis(50));
}

/// Nor does what ends before each look.
#[test]
fn what_ends_often_keeps_no_thread_from_coming() {
    beside_what_ends_every(Duration::from_millis(2));
}

fn beside_what_ends_every(time: Duration) {
    in_time(move || {
        let pool = Arc::new(Pool::builder().threads(2).max_spare_threads(1).build().unwrap());
        let (promise, future) = Promise::<()>::new();
        let future = future.shared();
        // They wait with a limit, so they take on nothing.
        let (started, starts) = mpsc::channel();
        let waits = [(); 2].map(|()| {
            let (future, started) = (future.clone(), started.clone());
            pool.spawn(move || {
                started.send(()).unwrap();
                future.map(|()| ()).wait_timeout(LONG).is_ok()
            })
        });
        starts.iter().take(2).for_each(drop);
        let over = future.clone();
        let (ready, is_ready) = mpsc::channel::<()>();
        let busy = pool.spawn(move || {
            let mut ready = Some(ready);
            while !over.is_done() {
                spawn(|| ()).wait().unwrap();
                drop(ready.take());
                let since = Instant::now();
                while since.elapsed() < time {
                    std::hint::spin_loop();
                }
            }
        });
        let _ = is_ready.recv();
        drop(pool.spawn(move || promise.set(())));
        // As one that does not help.
        let (over, is_over) = mpsc::channel();
        let told = over.clone();
        drop(busy.on_complete(move |_| told.send(()).unwrap()));
        for wait in waits {
            let told = over.clone();
            drop(wait.on_complete(move |_| told.send(()).unwrap()));
        }
        is_over.iter().take(3).for_each(drop);
    });
}

/// Nor does somebody outside who tries again and again whether there is a taker for what he brings.
#[test]
fn what_comes_from_outside_keeps_no_thread_from_coming() {
    in_time(|| {
        let pool = Pool::builder().threads(1).max_spare_threads(1).build().unwrap();
        let (promise, future) = Promise::<()>::new();
        let future = future.shared();
        let done = Arc::new(AtomicBool::new(false));
        let (started, starts) = mpsc::channel();
        for _ in 0..2 {
            let (future, started) = (future.clone(), started.clone());
            let done = Arc::clone(&done);
            drop(pool.spawn(move || {
                started.send(()).unwrap();
                // With a limit, so it takes on nothing.
                assert!(future.map(|()| ()).wait_timeout(LONG).is_ok());
                done.store(true, Ordering::Release);
            }));
        }
        starts.iter().take(2).for_each(drop);
        drop(pool.spawn(move || promise.set(())));
        while !done.load(Ordering::Acquire) {
            drop(pool.spawn(|| ()));
            thread::yield_now();
        }
    });
}
