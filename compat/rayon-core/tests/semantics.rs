//! What programs rely on beyond types: a test for each row of what rayon-core promises or does.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use rayon_core::{ThreadPool, ThreadPoolBuilder, Yield};

fn pool(threads: usize) -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
}

/// Blocks until `flag` is set, as code does that knows nothing of pools.
fn block_until(flag: &AtomicBool) {
    while !flag.load(SeqCst) {
        thread::yield_now();
    }
}

/// Blocks, but does the pool's work.
fn yield_until(flag: &AtomicBool) {
    while !flag.load(SeqCst) {
        if rayon_core::yield_now() == Some(Yield::Idle) {
            thread::yield_now();
        }
    }
}

thread_local! {
    static MARK: Cell<usize> = const { Cell::new(0) };
}

// --- from outside ---

#[test]
fn what_comes_from_outside_runs_on_a_thread_of_the_pool() {
    let pool = ThreadPoolBuilder::new()
        .num_threads(2)
        .thread_name(|index| format!("shuttle {index}"))
        .start_handler(|index| MARK.set(index + 1))
        .build()
        .unwrap();
    let caller = thread::current().id();
    let here = || {
        assert_ne!(thread::current().id(), caller);
        let index = rayon_core::current_thread_index().unwrap();
        assert_eq!(MARK.get(), index + 1);
        assert_eq!(thread::current().name().unwrap(), format!("shuttle {index}"));
    };
    pool.install(here);
    pool.join(here, here);
    pool.scope(|_| here());
    pool.scope_fifo(|_| here());
    pool.scope(|s| s.spawn(|_| here()));
    assert_eq!(MARK.get(), 0);
}

#[test]
fn a_scope_in_place_has_its_body_on_the_caller_and_tasks_in_the_pool() {
    let pool = pool(2);
    let caller = thread::current().id();
    pool.in_place_scope(|s| {
        assert_eq!(thread::current().id(), caller);
        assert_eq!(rayon_core::current_thread_index(), None);
        s.spawn(|_| assert!(rayon_core::current_thread_index().is_some()));
    });
    pool.in_place_scope_fifo(|s| {
        assert_eq!(thread::current().id(), caller);
        s.spawn_fifo(|_| assert!(rayon_core::current_thread_index().is_some()));
    });
    rayon_core::in_place_scope(|s| {
        assert_eq!(thread::current().id(), caller);
        s.spawn(|_| assert_ne!(thread::current().id(), caller));
    });
}

#[test]
fn closures_of_scopes_in_place_need_not_be_send() {
    let local = std::rc::Rc::new(Cell::new(0));
    rayon_core::in_place_scope(|_| local.set(1));
    rayon_core::in_place_scope_fifo(|_| local.set(local.get() + 1));
    assert_eq!(local.get(), 2);
}

// --- from pool to pool ---

#[test]
fn pools_of_one_thread_call_each_other_in_turn() {
    fn descend(pools: &[ThreadPool; 2], depth: usize) -> usize {
        if depth == 0 { 0 } else { pools[depth % 2].install(|| 1 + descend(pools, depth - 1)) }
    }
    let pools = [pool(1), pool(1)];
    assert_eq!(descend(&pools, 200), 200);
}

#[test]
fn a_thread_that_calls_into_another_pool_goes_on_with_its_own() {
    let (a, b) = (pool(1), pool(1));
    let done = AtomicBool::new(false);
    a.scope(|s| {
        s.spawn(|_| done.store(true, SeqCst));
        b.install(|| block_until(&done));
    });
}

#[test]
fn other_pools_have_no_index_here() {
    let (a, b) = (pool(2), pool(2));
    a.install(|| {
        assert!(a.current_thread_index().is_some());
        assert_eq!(b.current_thread_index(), None);
        assert_eq!(b.current_thread_has_pending_tasks(), None);
        assert_eq!((b.yield_now(), b.yield_local()), (None, None));
    });
    assert_eq!(a.current_thread_index(), None);
    assert_eq!(rayon_core::current_thread_index(), None);
    assert_eq!((rayon_core::yield_now(), rayon_core::yield_local()), (None, None));
    assert_eq!(rayon_core::current_thread_has_pending_tasks(), None);
}

#[test]
fn each_index_is_one_thread_for_good() {
    const THREADS: usize = 4;
    let pool = pool(THREADS);
    let owners = Mutex::new([None; THREADS]);
    let note = || {
        let index = rayon_core::current_thread_index().unwrap();
        let owner = *owners.lock().unwrap()[index].get_or_insert(thread::current().id());
        assert_eq!(owner, thread::current().id());
    };
    fn tree(depth: usize, note: &(dyn Fn() + Sync)) {
        note();
        if depth > 0 {
            rayon_core::join(|| tree(depth - 1, note), || tree(depth - 1, note));
            note();
        }
    }
    for _ in 0..20 {
        pool.install(|| tree(8, &note));
        pool.scope(|s| (0..100).for_each(|_| s.spawn(|_| note())));
        pool.broadcast(|_| note());
    }
    let all: BTreeSet<_> = owners.lock().unwrap().iter().map(|id| format!("{id:?}")).collect();
    assert_eq!(all.len(), THREADS);
}

// --- numbers ---

#[test]
fn the_number_of_threads_is_that_of_the_pool_one_is_in() {
    let pool = pool(3);
    assert_eq!(pool.install(rayon_core::current_num_threads), 3);
    assert_eq!(pool.current_num_threads(), 3);
    assert!(rayon_core::current_num_threads() > 0);
}

#[test]
fn who_asks_for_too_many_threads_gets_the_most() {
    let mut asked = 0;
    let most = rayon_core::max_num_threads();
    let result = ThreadPoolBuilder::new()
        .num_threads(usize::MAX)
        .spawn_handler(|thread| {
            asked += 1;
            assert!(thread.index() < most);
            Ok(())
        })
        .build();
    drop(result.unwrap());
    assert_eq!(asked, most);
}

// --- migrated ---

#[test]
fn what_comes_from_outside_has_migrated() {
    let both = rayon_core::join_context(|a| a.migrated(), |b| b.migrated());
    assert_eq!(both, (true, true));
}

#[test]
fn what_runs_in_place_has_not_migrated_and_what_is_stolen_has() {
    assert_eq!(
        pool(1).install(|| rayon_core::join_context(|a| a.migrated(), |b| b.migrated())),
        (false, false)
    );
    let stolen = AtomicBool::new(false);
    let wait = |a: rayon_core::FnContext| {
        block_until(&stolen);
        a.migrated()
    };
    let both = pool(2).install(|| {
        rayon_core::join_context(wait, |b| {
            stolen.store(true, SeqCst);
            b.migrated()
        })
    });
    assert_eq!(both, (false, true));
}

#[test]
fn a_fork_that_a_yield_runs_has_migrated() {
    let ran = AtomicBool::new(false);
    let both = pool(1).install(|| {
        rayon_core::join_context(
            |a| {
                assert_eq!(rayon_core::yield_local(), Some(Yield::Executed));
                assert!(ran.load(SeqCst));
                a.migrated()
            },
            |b| {
                ran.store(true, SeqCst);
                b.migrated()
            },
        )
    });
    assert_eq!(both, (false, true));
}

// --- order ---

/// What is noted, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<i32>>>);

impl Log {
    fn note(&self, what: i32) {
        self.0.lock().unwrap().push(what);
    }

    fn all(&self) -> Vec<i32> {
        self.0.lock().unwrap().clone()
    }

    fn spawn(&self, what: i32) {
        let log = self.clone();
        rayon_core::spawn(move || log.note(what));
    }

    fn spawn_fifo(&self, what: i32) {
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

// --- broadcasts ---

#[test]
fn a_broadcast_runs_once_on_each_thread_by_index() {
    let pool = pool(7);
    for _ in 0..50 {
        let calls = AtomicUsize::new(0);
        let indices = pool.broadcast(|thread| {
            calls.fetch_add(1, SeqCst);
            assert_eq!(thread.num_threads(), 7);
            assert_eq!(rayon_core::current_thread_index(), Some(thread.index()));
            thread.index()
        });
        assert_eq!(indices, (0..7).collect::<Vec<_>>());
        assert_eq!(calls.into_inner(), 7);
    }
}

#[test]
fn a_broadcast_reaches_threads_that_wait_in_a_join() {
    let pool = pool(2);
    let stolen = AtomicBool::new(false);
    pool.install(|| {
        rayon_core::join(
            || block_until(&stolen),
            || {
                stolen.store(true, SeqCst);
                assert_eq!(rayon_core::broadcast(|thread| thread.index()), [0, 1]);
            },
        )
    });
}

#[test]
fn and_those_that_wait_in_a_scope() {
    let pool = pool(2);
    let stolen = AtomicBool::new(false);
    pool.scope(|s| {
        s.spawn(|_| {
            stolen.store(true, SeqCst);
            assert_eq!(rayon_core::broadcast(|thread| thread.index()), [0, 1]);
        });
        block_until(&stolen);
    });
}

#[test]
fn and_those_whose_first_half_has_panicked() {
    let pool = pool(2);
    let stolen = AtomicBool::new(false);
    let result = std::panic::catch_unwind(|| {
        pool.install(|| {
            rayon_core::join(
                || {
                    block_until(&stolen);
                    panic!("a");
                },
                || {
                    stolen.store(true, SeqCst);
                    rayon_core::broadcast(|thread| thread.index());
                },
            )
        })
    });
    assert_eq!(result.unwrap_err().downcast_ref::<&str>(), Some(&"a"));
}

#[test]
fn and_those_that_wait_for_another_pool() {
    let (a, b) = (pool(2), pool(1));
    let inside = AtomicBool::new(false);
    let over = AtomicBool::new(false);
    a.in_place_scope(|s| {
        s.spawn(|_| {
            b.install(|| {
                inside.store(true, SeqCst);
                block_until(&over);
            });
        });
        block_until(&inside);
        assert_eq!(a.broadcast(|thread| thread.index()), [0, 1]);
        over.store(true, SeqCst);
    });
}

#[test]
fn a_broadcast_panics_once_all_calls_are_over() {
    let pool = pool(4);
    let calls = AtomicUsize::new(0);
    let result = std::panic::catch_unwind(|| {
        pool.broadcast(|_| {
            calls.fetch_add(1, SeqCst);
            panic!("each");
        })
    });
    assert_eq!(result.unwrap_err().downcast_ref::<&str>(), Some(&"each"));
    assert_eq!(calls.into_inner(), 4);
}

#[test]
fn broadcasts_of_scopes_borrow() {
    let pool = pool(3);
    let seen = Mutex::new(Vec::new());
    pool.scope(|s| s.spawn_broadcast(|_, thread| seen.lock().unwrap().push(thread.index())));
    pool.scope_fifo(|s| s.spawn_broadcast(|_, thread| seen.lock().unwrap().push(thread.index())));
    let mut seen = seen.into_inner().unwrap();
    seen.sort_unstable();
    assert_eq!(seen, [0, 0, 1, 1, 2, 2]);
}

// --- yields, pending ---

#[test]
fn a_yield_runs_one_thing() {
    let (pool, log) = (pool(1), Log::default());
    pool.install(|| {
        assert_eq!(rayon_core::yield_now(), Some(Yield::Idle));
        assert_eq!(rayon_core::yield_local(), Some(Yield::Idle));
        log.spawn(1);
        log.spawn(0);
        assert_eq!(rayon_core::yield_local(), Some(Yield::Executed));
        assert_eq!(log.all(), [0]);
        assert_eq!(pool.yield_now(), Some(Yield::Executed));
        assert_eq!(log.all(), [0, 1]);
    });
}

#[test]
fn a_local_yield_leaves_what_comes_from_outside() {
    let pool = Arc::new(pool(1));
    let ran = Arc::new(AtomicBool::new(false));
    let (there, flag) = (Arc::clone(&pool), Arc::clone(&ran));
    pool.install(move || {
        let outside = Arc::clone(&there);
        let set = Arc::clone(&flag);
        let spawns = move || outside.spawn(move || set.store(true, SeqCst));
        thread::spawn(spawns).join().unwrap();
        assert_eq!(rayon_core::yield_local(), Some(Yield::Idle));
        assert_eq!(rayon_core::yield_now(), Some(Yield::Executed));
        assert!(flag.load(SeqCst));
    });
    drop(ran);
}

#[test]
fn forks_and_tasks_are_pending() {
    let pool = pool(1);
    pool.install(|| {
        let pending = || rayon_core::current_thread_has_pending_tasks();
        assert_eq!(pending(), Some(false));
        rayon_core::join(
            || assert_eq!(pending(), Some(true)),
            || assert_eq!(pending(), Some(false)),
        );
        rayon_core::spawn(|| ());
        assert_eq!(pool.current_thread_has_pending_tasks(), Some(true));
        rayon_core::yield_local();
        assert_eq!(pending(), Some(false));
    });
}

#[test]
fn a_thread_that_yields_makes_others_progress() {
    let pool = pool(1);
    pool.install(|| {
        let done = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&done);
        rayon_core::spawn(move || flag.store(true, SeqCst));
        yield_until(&done);
    });
}

#[test]
fn nested_scopes_see_all_that_a_thread_has_spawned() {
    // 70 deep, with more tasks in the innermost than a small queue holds.
    fn nest(depth: usize, count: &AtomicUsize) {
        rayon_core::scope(|s| {
            if depth > 0 {
                nest(depth - 1, count);
            } else {
                for _ in 0..1000 {
                    s.spawn(|_| {
                        count.fetch_add(1, SeqCst);
                    });
                }
            }
        });
    }
    let count = AtomicUsize::new(0);
    pool(1).install(|| nest(70, &count));
    assert_eq!(count.into_inner(), 1000);
}

// --- panics ---

#[test]
fn both_halves_of_a_join_run_and_the_first_panic_goes_on() {
    for threads in [1, 2] {
        let pool = pool(threads);
        let ran = AtomicBool::new(false);
        let result = std::panic::catch_unwind(|| {
            pool.join(
                || panic!("a"),
                || {
                    assert!(!thread::panicking());
                    ran.store(true, SeqCst);
                    panic!("b")
                },
            )
        });
        assert_eq!(result.unwrap_err().downcast_ref::<&str>(), Some(&"a"));
        assert!(ran.into_inner());
    }
}

#[test]
fn a_scope_panics_when_all_its_tasks_are_over() {
    let pool = pool(2);
    let over = AtomicUsize::new(0);
    let result = std::panic::catch_unwind(|| {
        pool.scope(|s| {
            s.spawn(|_| panic!("task"));
            for _ in 0..50 {
                s.spawn(|_| {
                    over.fetch_add(1, SeqCst);
                });
            }
        })
    });
    assert_eq!(result.unwrap_err().downcast_ref::<&str>(), Some(&"task"));
    assert_eq!(over.into_inner(), 50);
}

struct NotesDrop(Arc<AtomicBool>);

impl Drop for NotesDrop {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[test]
fn a_panic_handler_is_called_when_the_closure_is_gone() {
    let dropped = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&dropped);
    let (send, receive) = channel();
    let pool = ThreadPoolBuilder::new()
        .num_threads(1)
        .panic_handler(move |payload| {
            assert!(!thread::panicking());
            let text = *payload.downcast_ref::<&str>().unwrap();
            send.send((text, seen.load(SeqCst))).unwrap();
        })
        .build()
        .unwrap();
    let held = NotesDrop(Arc::clone(&dropped));
    pool.spawn(move || {
        let _held = held;
        panic!("spawned");
    });
    assert_eq!(receive.recv().unwrap(), ("spawned", true));
    pool.install(|| rayon_core::spawn_fifo(|| panic!("fifo")));
    assert_eq!(receive.recv().unwrap().0, "fifo");
    pool.spawn_broadcast(|_| panic!("broadcast"));
    assert_eq!(receive.recv().unwrap().0, "broadcast");
}

#[test]
fn a_closure_is_dropped_as_soon_as_it_has_run() {
    let dropped = Arc::new(AtomicBool::new(false));
    let pool = pool(1);
    let held = NotesDrop(Arc::clone(&dropped));
    pool.spawn(move || drop(held));
    pool.install(|| assert!(dropped.load(SeqCst)));
}

// --- building ---

#[test]
fn names_are_asked_for_just_before_threads_start() {
    let (send, receive) = channel();
    let started = send.clone();
    let pool = ThreadPoolBuilder::new()
        .num_threads(3)
        .thread_name(move |index| {
            send.send(format!("name {index}")).unwrap();
            format!("heddle {index}")
        })
        .spawn_handler(move |thread| {
            assert_eq!(thread.name(), Some(&*format!("heddle {}", thread.index())));
            started.send(format!("start {}", thread.index())).unwrap();
            thread::Builder::new().name(thread.name().unwrap().into()).spawn(|| thread.run())?;
            Ok(())
        })
        .build()
        .unwrap();
    let all: Vec<_> = receive.iter().collect();
    assert_eq!(all, ["name 0", "start 0", "name 1", "start 1", "name 2", "start 2"]);
    let name = pool.install(|| thread::current().name().map(str::to_owned));
    assert!(name.unwrap().starts_with("heddle "));
}

#[test]
fn threads_have_no_names_by_default() {
    assert_eq!(pool(1).install(|| thread::current().name().map(str::to_owned)), None);
}

#[test]
fn stacks_are_as_large_as_asked_for() {
    #[inline(never)]
    fn deep(left: usize) -> u8 {
        let filler = std::hint::black_box([1_u8; 16 << 10]);
        if left == 0 { filler[0] } else { deep(left - 1).max(filler[7]) }
    }
    let pool = ThreadPoolBuilder::new().num_threads(1).stack_size(64 << 20).build().unwrap();
    assert_eq!(pool.install(|| deep(1500)), 1);
}

#[test]
fn if_a_thread_cannot_start_those_that_were_end_with_their_handlers() {
    let (send, receive) = channel();
    let result = ThreadPoolBuilder::new()
        .num_threads(4)
        .exit_handler(move |index| send.send(index).unwrap())
        .spawn_handler(|thread| {
            if thread.index() == 2 {
                return Err(std::io::Error::other("no more"));
            }
            thread::spawn(|| thread.run());
            Ok(())
        })
        .build();
    let error = result.unwrap_err();
    assert_eq!(error.to_string(), "no more");
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "no more");
    let mut ended: Vec<_> = receive.iter().collect();
    ended.sort_unstable();
    assert_eq!(ended, [0, 1]);
}

#[test]
fn a_panic_of_a_name_goes_out_of_the_build() {
    let (send, receive) = channel();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        ThreadPoolBuilder::new()
            .num_threads(3)
            .exit_handler(move |index| send.send(index).unwrap())
            .thread_name(|index| if index == 1 { panic!("nameless") } else { String::new() })
            .build()
    }));
    assert_eq!(result.unwrap_err().downcast_ref::<&str>(), Some(&"nameless"));
    assert_eq!(receive.iter().collect::<Vec<_>>(), [0]);
}

#[test]
fn handlers_are_called_once_per_thread_even_if_the_pool_goes_at_once() {
    let (starts, exits) = (Arc::new(Mutex::new(vec![])), Arc::new(Mutex::new(vec![])));
    let (s, e) = (Arc::clone(&starts), Arc::clone(&exits));
    let (alive, gone) = channel::<()>();
    let pool = ThreadPoolBuilder::new()
        .num_threads(5)
        .start_handler(move |index| s.lock().unwrap().push(index))
        .exit_handler(move |index| {
            let _alive = &alive;
            e.lock().unwrap().push(index);
        })
        .build()
        .unwrap();
    drop(pool);
    // The handlers are dropped when the last thread is gone.
    assert_eq!(gone.recv_timeout(Duration::from_secs(60)), Err(RecvTimeoutError::Disconnected));
    for indices in [starts, exits] {
        let mut indices = indices.lock().unwrap().clone();
        indices.sort_unstable();
        assert_eq!(indices, [0, 1, 2, 3, 4]);
    }
}

#[test]
fn a_start_handler_that_blocks_holds_up_nobody_else() {
    let go = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&go);
    let pool = ThreadPoolBuilder::new()
        .num_threads(2)
        .start_handler(move |index| {
            if index == 0 {
                block_until(&gate);
            }
        })
        .build()
        .unwrap();
    for _ in 0..20 {
        assert_eq!(pool.install(rayon_core::current_thread_index), Some(1));
        thread::sleep(Duration::from_millis(1));
    }
    go.store(true, SeqCst);
}

// --- the end ---

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

// --- threads from elsewhere ---

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

// --- threads that block where nobody sees it ---

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
