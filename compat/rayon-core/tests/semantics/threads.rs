//! Threads from elsewhere, and the current one.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use rayon_core::{ThreadPoolBuilder, Yield};

#[test]
fn threads_may_come_late_or_never() {
    let threads = Arc::new(Mutex::new(Vec::new()));
    let taken = Arc::clone(&threads);
    let pool = ThreadPoolBuilder::new()
        .num_threads(4)
        .spawn_handler(move |thread| {
            taken.lock().unwrap().push(thread);
            Ok(())
        })
        .build()
        .unwrap();
    // Thread 3 never comes, 0 to 2 when there is work for them.
    let never = threads.lock().unwrap().pop().unwrap();
    let (send, receive) = channel();
    pool.spawn(move || send.send(()).unwrap());
    let first = threads.lock().unwrap().pop().unwrap();
    let one = thread::spawn(|| first.run());
    receive.recv().unwrap();
    let rest: Vec<_> =
        threads.lock().unwrap().drain(..).map(|t| thread::spawn(|| t.run())).collect();
    for _ in 0..100 {
        let meet = Barrier::new(3);
        pool.scope(|s| (0..3).for_each(|_| s.spawn(|_| _ = meet.wait())));
        pool.install(|| rayon_core::join(|| (), || ()));
    }
    drop(pool);
    one.join().unwrap();
    rest.into_iter().for_each(|thread| thread.join().unwrap());
    drop(never);
}

#[test]
fn a_broadcast_waits_for_threads_that_come_late() {
    let late = Arc::new(Mutex::new(None));
    let kept = Arc::clone(&late);
    let pool = ThreadPoolBuilder::new()
        .num_threads(2)
        .spawn_handler(move |thread| {
            if thread.index() == 1 {
                *kept.lock().unwrap() = Some(thread);
            } else {
                thread::spawn(|| thread.run());
            }
            Ok(())
        })
        .build()
        .unwrap();
    thread::scope(|s| {
        let results = s.spawn(|| pool.broadcast(|thread| thread.index()));
        let (send, receive) = channel();
        pool.spawn(move || send.send(()).unwrap());
        receive.recv().unwrap();
        let thread = late.lock().unwrap().take().unwrap();
        thread::spawn(|| thread.run());
        assert_eq!(results.join().unwrap(), [0, 1]);
    });
}

#[test]
fn the_current_thread_is_the_first_for_good() {
    thread::spawn(|| {
        let starts = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&starts);
        let pool = ThreadPoolBuilder::new()
            .num_threads(2)
            .use_current_thread()
            .start_handler(move |index| noted.lock().unwrap().push(index))
            .build()
            .unwrap();
        let me = thread::current().id();
        assert_eq!(rayon_core::current_thread_index(), Some(0));
        assert_eq!(pool.install(|| thread::current().id()), me);
        let both = pool.broadcast(|thread| (thread.index(), thread::current().id() == me));
        assert_eq!(both, [(0, true), (1, false)]);
        assert_eq!(*starts.lock().unwrap(), [1]);
        let again = ThreadPoolBuilder::new().num_threads(1).use_current_thread().build();
        assert_eq!(
            again.unwrap_err().to_string(),
            "The current thread is already part of another thread pool."
        );
        drop(pool);
        assert_eq!(rayon_core::current_thread_index(), Some(0));
    })
    .join()
    .unwrap();
}

#[test]
fn the_current_thread_alone_works_while_it_waits_or_yields() {
    thread::spawn(|| {
        let pool = ThreadPoolBuilder::new().num_threads(1).use_current_thread().build().unwrap();
        let ran = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&ran);
        pool.spawn(move || flag.store(true, SeqCst));
        assert!(!ran.load(SeqCst));
        assert_eq!(pool.yield_now(), Some(Yield::Executed));
        assert!(ran.load(SeqCst));
        let mut count = 0;
        rayon_core::scope(|s| s.spawn(|_| count += 1));
        assert_eq!(count, 1);
        // From another thread: this one does it while it waits.
        let (send, receive) = channel();
        thread::scope(|s| {
            let caller = s.spawn(|| {
                let index = pool.install(rayon_core::current_thread_index);
                send.send(index).unwrap();
            });
            while !caller.is_finished() {
                rayon_core::yield_now();
            }
        });
        assert_eq!(receive.recv().unwrap(), Some(0));
    })
    .join()
    .unwrap();
}

#[test]
fn threads_of_a_scoped_pool_borrow_and_are_waited_for() {
    let text = String::from("selvage");
    let exited = AtomicUsize::new(0);
    let length = ThreadPoolBuilder::new()
        .num_threads(3)
        .build_scoped(
            |thread| {
                assert_eq!(text, "selvage");
                thread.run();
                exited.fetch_add(1, SeqCst);
            },
            |pool| pool.install(|| text.len()),
        )
        .unwrap();
    assert_eq!((length, exited.into_inner()), (7, 3));
}
