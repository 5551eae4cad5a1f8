//! Who runs what first.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
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

/// What one sets and others block for, as code does that knows nothing of pools.
#[derive(Clone, Default)]
struct Flag(Arc<AtomicBool>);

impl Flag {
    fn set(&self) {
        self.0.store(true, SeqCst);
    }

    fn wait(&self) {
        block_until(&self.0);
    }

    fn sets(&self) -> impl FnOnce() + Send + 'static {
        let flag = self.clone();
        move || flag.set()
    }

    fn waits(&self) -> impl FnOnce() + Send + 'static {
        let flag = self.clone();
        move || flag.wait()
    }
}

/// Returns once all other threads of the pool block for the flag.
fn occupy_others(free: &Flag) {
    let busy: Vec<_> = (1..rayon_core::current_num_threads()).map(|_| Flag::default()).collect();
    for busy in &busy {
        let (is_busy, waits) = (busy.sets(), free.waits());
        rayon_core::spawn(|| {
            is_busy();
            waits();
        });
    }
    busy.iter().for_each(Flag::wait);
}

/// Spawns from a thread that is none of the pool's.
fn spawn_from_outside(pool: &ThreadPool, task: impl FnOnce() + Send + 'static) {
    std::thread::scope(|scope| _ = scope.spawn(|| pool.spawn(task)));
}

/// Very often, on one of two threads; where others want the processors each time takes some milliseconds.
fn very_often(f: impl Fn() + Sync) {
    let since = Instant::now();
    let mut rounds = (0..100_000).take_while(|_| since.elapsed() < Duration::from_secs(5));
    pool(2).install(|| rounds.by_ref().for_each(|_| f()));
}

#[test]
fn thieves_take_what_is_oldest_be_it_a_task_or_a_fork() {
    let pool = pool(2);
    for _ in 0..200 {
        let (free, set) = (Flag::default(), Flag::default());
        pool.install(|| {
            occupy_others(&free);
            rayon_core::spawn(set.sets());
            let first = || {
                free.set();
                set.wait();
            };
            rayon_core::join(first, || set.wait());
        });
    }
}

#[test]
fn thieves_take_an_older_fork_before_a_task() {
    let pool = pool(2);
    for _ in 0..200 {
        pool.install(a_fork_sets_what_a_younger_task_waits_for);
    }
}

fn a_fork_sets_what_a_younger_task_waits_for() {
    let set = Flag::default();
    let first = || {
        rayon_core::spawn(set.waits());
        set.wait();
    };
    rayon_core::join(first, || set.set());
}

#[test]
fn who_looks_while_both_are_queued_takes_the_task_first() {
    very_often(|| {
        let set = Flag::default();
        rayon_core::spawn(set.sets());
        rayon_core::join(|| set.wait(), || set.wait());
    });
}

#[test]
fn who_looks_while_both_are_queued_takes_the_older_fork_first() {
    very_often(a_fork_sets_what_a_younger_task_waits_for);
}

#[test]
fn who_waits_for_a_thief_takes_its_older_task_before_its_fork() {
    let pool = pool(2);
    for _ in 0..200 {
        let (forked, set) = (Flag::default(), Flag::default());
        let stolen = || {
            rayon_core::spawn(set.sets());
            let first = || {
                forked.set();
                set.wait();
            };
            rayon_core::join(first, || set.wait());
        };
        pool.install(|| rayon_core::join(|| forked.wait(), stolen));
    }
}

#[test]
fn who_has_just_ended_a_task_takes_a_fork_before_what_comes_from_outside() {
    let pool = pool(2);
    for _ in 0..200 {
        let (free, set) = (Flag::default(), Flag::default());
        pool.install(|| {
            occupy_others(&free);
            // All others are busy: the next fork is for this thread alone.
            rayon_core::join(|| (), || ());
            let first = || {
                spawn_from_outside(&pool, set.waits());
                free.set();
                set.wait();
            };
            rayon_core::join(first, || set.set());
        });
    }
}

#[test]
fn of_two_thieves_neither_takes_what_comes_from_outside() {
    let pool = pool(3);
    for _ in 0..1000 {
        let (free, set) = (Flag::default(), Flag::default());
        pool.install(|| {
            occupy_others(&free);
            rayon_core::join(|| (), || ());
            let first = || {
                rayon_core::spawn(set.sets());
                spawn_from_outside(&pool, set.waits());
                free.set();
                set.wait();
            };
            rayon_core::join(first, || set.wait());
        });
    }
}

#[test]
fn thieves_see_what_is_oldest_however_much_there_is() {
    let (free, set) = (Flag::default(), Flag::default());
    pool(2).install(|| {
        occupy_others(&free);
        rayon_core::spawn(set.sets());
        (0..150_000).for_each(|_| rayon_core::spawn(|| ()));
        let first = || {
            free.set();
            set.wait();
        };
        rayon_core::join(first, || set.wait());
    });
}

/// The most tasks among which raddle's thieves still tell what is older.
#[test]
fn thieves_see_that_a_fork_is_older_than_many_tasks() {
    let (free, set) = (Flag::default(), Flag::default());
    pool(2).install(|| {
        occupy_others(&free);
        let first = || {
            rayon_core::spawn(set.waits());
            (1..131_071).for_each(|_| rayon_core::spawn(|| ()));
            free.set();
            set.wait();
        };
        rayon_core::join(first, || set.set());
    });
}

#[test]
fn what_a_thread_has_forked_comes_before_broadcasts() {
    let set = Flag::default();
    pool(1).install(|| {
        let first = || _ = rayon_core::broadcast(|_| set.wait());
        rayon_core::join(first, || set.set());
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
