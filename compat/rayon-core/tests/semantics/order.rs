//! Who runs what first.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rayon_core::{ThreadPool, ThreadPoolBuilder, Yield};

use crate::{block_until, pool};

/// What is noted, in order.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<i32>>>);

impl Log {
    pub(crate) fn note(&self, what: i32) {
        self.0.lock().unwrap().push(what);
    }

    pub(crate) fn all(&self) -> Vec<i32> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn spawn(&self, what: i32) {
        let log = self.clone();
        rayon_core::spawn(move || log.note(what));
    }

    pub(crate) fn spawn_fifo(&self, what: i32) {
        let log = self.clone();
        rayon_core::spawn_fifo(move || log.note(what));
    }
}

/// Has the one thread of a pool do what it has queued.
fn drain(pool: &ThreadPool) {
    pool.install(|| while rayon_core::yield_local() == Some(Yield::Executed) {});
}

#[test]
fn spawned_last_is_run_first_however_many_there_are() {
    let (pool, log) = (pool(1), Log::default());
    pool.install(|| (0..1000).for_each(|i| log.spawn(i)));
    drain(&pool);
    assert_eq!(log.all(), (0..1000).rev().collect::<Vec<_>>());
}

#[test]
fn spawned_first_is_run_first_by_fifo_however_many_there_are() {
    let (pool, log) = (pool(1), Log::default());
    pool.install(|| (0..1000).for_each(|i| log.spawn_fifo(i)));
    drain(&pool);
    assert_eq!(log.all(), (0..1000).collect::<Vec<_>>());
}

#[test]
fn tokens_of_a_fifo_lie_where_they_were_spawned() {
    let (pool, log) = (pool(1), Log::default());
    pool.install(|| {
        log.spawn_fifo(1);
        log.spawn(10);
        log.spawn_fifo(2);
    });
    drain(&pool);
    assert_eq!(log.all(), [1, 10, 2]);
}

#[test]
fn what_comes_from_outside_is_run_in_order_and_after_the_thread_s_own() {
    let (pool, log) = (pool(1), Log::default());
    let (ready, go) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (own, there, gate) = (log.clone(), Arc::clone(&ready), Arc::clone(&go));
    pool.spawn(move || {
        there.store(true, SeqCst);
        block_until(&gate);
        own.spawn(1);
        own.spawn(0);
    });
    block_until(&ready);
    for i in 2..100 {
        let log = log.clone();
        pool.spawn(move || log.note(i));
    }
    go.store(true, SeqCst);
    // Behind all of them.
    pool.install(|| ());
    assert_eq!(log.all(), (0..100).collect::<Vec<_>>());
}

#[test]
fn what_the_first_half_of_a_join_spawns_runs_before_the_second_half() {
    let (pool, log) = (pool(1), Log::default());
    pool.install(|| {
        log.spawn(5);
        rayon_core::join(
            || {
                log.spawn(2);
                log.spawn(1);
                log.note(0);
            },
            || log.note(3),
        );
        log.note(4);
    });
    drain(&pool);
    assert_eq!(log.all(), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn and_so_it_is_where_joins_are_nested() {
    let (pool, log) = (pool(1), Log::default());
    pool.install(|| {
        rayon_core::join(
            || {
                rayon_core::join(
                    || {
                        log.spawn(2);
                        log.note(1);
                    },
                    || {
                        log.note(3);
                        log.spawn(4);
                    },
                );
            },
            || log.note(5),
        )
    });
    assert_eq!(log.all(), [1, 2, 3, 4, 5]);
}

#[test]
fn what_a_scope_waits_for_runs_last_in_first_out() {
    let (pool, log) = (pool(1), Log::default());
    pool.scope(|s| {
        for i in 0..100 {
            let log = &log;
            s.spawn(move |s| {
                log.note(2 * i + 1);
                s.spawn(move |_| log.note(2 * i));
            });
        }
    });
    assert_eq!(log.all(), (0..200).rev().collect::<Vec<_>>());
}

#[test]
fn tasks_of_a_fifo_scope_run_first_in_first_out_per_scope() {
    let (pool, log) = (pool(1), Log::default());
    pool.scope_fifo(|outer| {
        let log = &log;
        outer.spawn_fifo(move |_| log.note(2));
        rayon_core::scope_fifo(|inner| {
            inner.spawn_fifo(move |_| log.note(0));
            inner.spawn_fifo(move |_| log.note(1));
        });
        outer.spawn_fifo(move |_| log.note(3));
    });
    assert_eq!(log.all(), [0, 1, 2, 3]);
}

#[test]
fn a_broadcast_comes_after_the_thread_s_own() {
    let (pool, log) = (pool(1), Log::default());
    pool.install(|| {
        let noted = log.clone();
        rayon_core::spawn_broadcast(move |_| noted.note(2));
        let noted = log.clone();
        rayon_core::spawn_broadcast(move |_| noted.note(3));
        log.spawn(1);
        log.spawn(0);
        while rayon_core::yield_local() == Some(Yield::Executed) {}
    });
    assert_eq!(log.all(), [0, 1, 2, 3]);
}

#[test]
#[allow(deprecated)]
fn breadth_first_takes_the_oldest_of_its_own() {
    let pool = ThreadPoolBuilder::new().num_threads(1).breadth_first().build().unwrap();
    let log = Log::default();
    pool.install(|| (0..100).for_each(|i| log.spawn(i)));
    drain(&pool);
    assert_eq!(log.all(), (0..100).collect::<Vec<_>>());
}

#[test]
fn what_a_first_half_spawned_waits_if_the_second_half_is_over() {
    let (pool, log) = (pool(1), Log::default());
    pool.install(|| {
        let (first, second) = (log.clone(), log.clone());
        rayon_core::join(
            move || {
                assert_eq!(rayon_core::yield_local(), Some(Yield::Executed));
                first.spawn(1);
            },
            move || second.note(0),
        );
        log.note(2);
    });
    drain(&pool);
    assert_eq!(log.all(), [0, 2, 1]);
}

#[test]
fn what_a_first_half_spawned_may_wait_for_what_follows_the_join() {
    let pool = pool(1);
    let (send, receive) = std::sync::mpsc::channel();
    pool.install(|| {
        rayon_core::join(
            move || {
                assert_eq!(rayon_core::yield_local(), Some(Yield::Executed));
                rayon_core::spawn(move || receive.recv().unwrap());
            },
            || (),
        );
        send.send(()).unwrap();
    });
}

#[test]
fn thieves_take_what_is_oldest_be_it_a_task_or_a_fork() {
    let pool = pool(2);
    for _ in 0..200 {
        let [busy, free] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let set = Arc::new(AtomicBool::new(false));
        pool.install(|| {
            let (is_busy, is_free) = (Arc::clone(&busy), Arc::clone(&free));
            rayon_core::spawn(move || {
                is_busy.store(true, SeqCst);
                block_until(&is_free);
            });
            block_until(&busy);
            let sets = Arc::clone(&set);
            rayon_core::spawn(move || sets.store(true, SeqCst));
            let first = || {
                free.store(true, SeqCst);
                block_until(&set);
            };
            rayon_core::join(first, || block_until(&set));
        });
    }
}

#[test]
fn thieves_take_an_older_fork_before_a_task() {
    let pool = pool(2);
    for _ in 0..200 {
        let set = Arc::new(AtomicBool::new(false));
        pool.install(|| {
            let first = || {
                let waits = Arc::clone(&set);
                rayon_core::spawn(move || block_until(&waits));
                block_until(&set);
            };
            rayon_core::join(first, || set.store(true, SeqCst));
        });
    }
}

#[test]
fn who_looks_while_both_are_queued_takes_the_task_first() {
    let pool = pool(2);
    let since = Instant::now();
    pool.install(|| {
        // Where others want the processors each takes some milliseconds.
        for _ in (0..100_000).take_while(|_| since.elapsed() < Duration::from_secs(5)) {
            let set = Arc::new(AtomicBool::new(false));
            let sets = Arc::clone(&set);
            rayon_core::spawn(move || sets.store(true, SeqCst));
            rayon_core::join(|| block_until(&set), || block_until(&set));
        }
    });
}

#[test]
fn who_looks_while_both_are_queued_takes_the_older_fork_first() {
    let pool = pool(2);
    let since = Instant::now();
    pool.install(|| {
        // Where others want the processors each takes some milliseconds.
        for _ in (0..100_000).take_while(|_| since.elapsed() < Duration::from_secs(5)) {
            let set = Arc::new(AtomicBool::new(false));
            let first = || {
                let waits = Arc::clone(&set);
                rayon_core::spawn(move || block_until(&waits));
                block_until(&set);
            };
            rayon_core::join(first, || set.store(true, SeqCst));
        }
    });
}

#[test]
fn who_waits_for_a_thief_takes_its_older_task_before_its_fork() {
    let pool = pool(2);
    for _ in 0..200 {
        let (forked, set) = (AtomicBool::new(false), Arc::new(AtomicBool::new(false)));
        let stolen = || {
            let sets = Arc::clone(&set);
            rayon_core::spawn(move || sets.store(true, SeqCst));
            let first = || {
                forked.store(true, SeqCst);
                block_until(&set);
            };
            rayon_core::join(first, || block_until(&set));
        };
        pool.install(|| rayon_core::join(|| block_until(&forked), stolen));
    }
}

#[test]
fn who_has_just_ended_a_task_takes_a_fork_before_what_comes_from_outside() {
    let pool = pool(2);
    for _ in 0..200 {
        let [busy, free, set] = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
        pool.install(|| {
            let (is_busy, is_free) = (Arc::clone(&busy), Arc::clone(&free));
            rayon_core::spawn(move || {
                is_busy.store(true, SeqCst);
                block_until(&is_free);
            });
            block_until(&busy);
            // Nobody asks any more: the next is for this thread alone.
            rayon_core::join(|| (), || ());
            let first = || {
                let waits = Arc::clone(&set);
                let outside = || pool.spawn(move || block_until(&waits));
                std::thread::scope(|scope| _ = scope.spawn(outside));
                free.store(true, SeqCst);
                block_until(&set);
            };
            rayon_core::join(first, || set.store(true, SeqCst));
        });
    }
}

#[test]
fn of_two_thieves_neither_takes_what_comes_from_outside() {
    let pool = pool(3);
    for _ in 0..1000 {
        let [free, set] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let busy = Arc::new(AtomicUsize::new(0));
        pool.install(|| {
            for _ in 0..2 {
                let (is_busy, is_free) = (Arc::clone(&busy), Arc::clone(&free));
                rayon_core::spawn(move || {
                    is_busy.fetch_add(1, SeqCst);
                    block_until(&is_free);
                });
            }
            while busy.load(SeqCst) < 2 {
                std::thread::yield_now();
            }
            rayon_core::join(|| (), || ());
            let first = || {
                let (sets, waits) = (Arc::clone(&set), Arc::clone(&set));
                rayon_core::spawn(move || sets.store(true, SeqCst));
                let outside = || pool.spawn(move || block_until(&waits));
                std::thread::scope(|scope| _ = scope.spawn(outside));
                free.store(true, SeqCst);
                block_until(&set);
            };
            rayon_core::join(first, || block_until(&set));
        });
    }
}

#[test]
fn thieves_see_what_is_oldest_however_much_there_is() {
    let pool = pool(2);
    let [busy, free, set] = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
    pool.install(|| {
        let (is_busy, is_free) = (Arc::clone(&busy), Arc::clone(&free));
        rayon_core::spawn(move || {
            is_busy.store(true, SeqCst);
            block_until(&is_free);
        });
        block_until(&busy);
        let sets = Arc::clone(&set);
        rayon_core::spawn(move || sets.store(true, SeqCst));
        (0..150_000).for_each(|_| rayon_core::spawn(|| ()));
        let first = || {
            free.store(true, SeqCst);
            block_until(&set);
        };
        rayon_core::join(first, || block_until(&set));
    });
}

#[test]
fn what_a_thread_has_forked_comes_before_broadcasts() {
    let (pool, set) = (pool(1), AtomicBool::new(false));
    pool.install(|| {
        let first = || _ = rayon_core::broadcast(|_| block_until(&set));
        rayon_core::join(first, || set.store(true, SeqCst));
    });
}

#[test]
fn what_is_spawned_as_a_thread_ends_runs() {
    struct Late(Option<Arc<AtomicBool>>);
    impl Drop for Late {
        fn drop(&mut self) {
            let ran = self.0.take();
            rayon_core::spawn_fifo(move || ran.iter().for_each(|ran| ran.store(true, SeqCst)));
        }
    }
    thread_local!(static LATE: std::cell::RefCell<Late> = const { std::cell::RefCell::new(Late(None)) });
    let ran = Arc::new(AtomicBool::new(false));
    let here = Arc::clone(&ran);
    std::thread::spawn(move || {
        LATE.with_borrow_mut(|late| late.0 = Some(here));
        let pool = ThreadPoolBuilder::new().num_threads(2).use_current_thread().build().unwrap();
        pool.install(|| rayon_core::spawn_fifo(|| ()));
        std::mem::forget(pool);
    })
    .join()
    .unwrap();
    block_until(&ran);
}
