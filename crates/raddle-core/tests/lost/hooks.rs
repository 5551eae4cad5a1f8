//! Hooks of threads that wait, fork, and reach other threads.

use raddle_core::trace::TraceLevel;
use raddle_trace::{Lane, State};

use super::*;

/// Counts threads that have gone, of those that have called `count`.
#[derive(Clone, Default)]
struct Gone(Arc<AtomicUsize>);

impl Gone {
    /// By an exit hook: the thread counts when it has left its pool.
    fn count(&self) {
        struct Goes(Gone);
        impl Drop for Goes {
            fn drop(&mut self) {
                self.0.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        thread_local! {
            static GOES: RefCell<Option<Goes>> = const { RefCell::new(None) };
        }
        GOES.with_borrow_mut(|goes| _ = goes.get_or_insert_with(|| Goes(self.clone())));
    }

    fn until(&self, threads: usize) {
        while self.0.load(Ordering::SeqCst) < threads {
            thread::yield_now();
        }
    }
}

#[test]
fn a_start_hook_waits_for_a_task() {
    ends("a start hook that waits", || {
        let calls = AtomicUsize::new(0);
        let hook = move || {
            if is_first(&calls) {
                let (promise, future) = Promise::new();
                spawn_and_wait(promise, future);
            }
        };
        let pool = Pool::builder().threads(2).on_thread_start(hook).build().unwrap();
        assert_eq!(pool.run(|_| 7), 7);
    });
}

#[test]
fn a_slow_start_hook_keeps_nobody_from_being_woken() {
    ends("a task beside a slow start hook", || {
        let (go, gate) = mpsc::channel();
        let (calls, gate) = (AtomicUsize::new(0), Mutex::new(gate));
        let hook = move || {
            if is_first(&calls) {
                gate.lock().unwrap().recv().unwrap();
            }
        };
        let policy = Policy { drowsy: Duration::ZERO, ..Policy::default() };
        let pool = Pool::builder().threads(2).policy(policy).trace(TraceLevel::Phase);
        let pool = pool.on_thread_start(hook).build().unwrap();
        // The other thread sleeps.
        let is_parked =
            |lane: &Lane| lane.segments().last().map(|s| s.state) == Some(State::Parked);
        while !pool.trace().lanes.iter().any(is_parked) {
            thread::yield_now();
        }
        drop(pool.spawn(move || go.send(()).unwrap()));
    });
}

#[test]
fn a_broadcast_reaches_a_thread_that_is_leaving() {
    ends("a broadcast to a thread that leaves", || {
        for _ in 0..TRIES {
            let (leaves, leaving) = mpsc::channel();
            let (calls, sender) = (AtomicUsize::new(0), parker::current());
            let over = Arc::<AtomicBool>::default();
            let answered = Arc::clone(&over);
            let hook = move || {
                if is_first(&calls) {
                    leaves.send(thread::current().id()).unwrap();
                    // The letter has been sent once whoever sends it waits.
                    while !(sender.is_parked() || answered.load(Ordering::SeqCst)) {
                        thread::yield_now();
                    }
                }
            };
            let pool = one_thread().keep_alive(SOON).on_thread_exit(hook).build().unwrap();
            let leaver = leaving.recv().unwrap();
            let by = pool.broadcast(|_| thread::current().id());
            over.store(true, Ordering::SeqCst);
            assert_eq!(by, [leaver], "a thread that has mail asks for another one");
        }
    });
}

#[test]
fn an_exit_hook_reaches_threads_that_have_left() {
    ends("a broadcast by the last thread of a pool", || {
        let reached = Arc::new(AtomicUsize::new(0));
        let (calls, count) = (AtomicUsize::new(0), Arc::clone(&reached));
        let gone = Gone::default();
        let hook = move || {
            if is_first(&calls) {
                gone.until(1);
                broadcast(|_| count.fetch_add(1, Ordering::SeqCst));
            } else {
                gone.count();
            }
        };
        drop(Pool::builder().threads(2).on_thread_exit(hook).build().unwrap());
        assert_eq!(reached.load(Ordering::SeqCst), 2);
    });
}

#[test]
fn exit_hooks_are_called_once_though_they_reach_each_other() {
    ends("the end of a pool whose exit hooks broadcast", || {
        for _ in 0..TRIES {
            let calls = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&calls);
            let hook = move || {
                count.fetch_add(1, Ordering::SeqCst);
                broadcast(|_| ());
            };
            drop(Pool::builder().threads(2).on_thread_exit(hook).build().unwrap());
            assert_eq!(calls.load(Ordering::SeqCst), 2);
        }
    });
}

/// What an exit hook does, in a pool whose thread leaves.
fn exit_hook_ends(builder: fn() -> PoolBuilder, hook: fn(Promise<()>, Future<()>)) {
    ends("an exit hook that waits", move || {
        let (over, end) = mpsc::channel();
        let calls = AtomicUsize::new(0);
        let hook = move || {
            if is_first(&calls) {
                let (promise, future) = Promise::new();
                hook(promise, future);
                over.send(()).unwrap();
            }
        };
        let pool = builder().keep_alive(SOON).on_thread_exit(hook).build().unwrap();
        // Nobody has asked for the forks that follow.
        in_task(&pool, || _ = join(|| (), || ()));
        end.recv().unwrap();
    });
}

#[test]
fn an_exit_hook_waits_for_its_fork() {
    exit_hook_ends(one_thread, |promise, future| {
        join(|| future.wait().unwrap(), || promise.set(()));
    });
}

#[test]
fn an_exit_hook_waits_for_a_task_where_no_thread_stands_in() {
    exit_hook_ends(|| one_thread().max_spare_threads(0), spawn_and_wait);
}

#[test]
fn an_exit_hook_gives_its_number_back() {
    ends("a pool whose thread leaves", || {
        let hook = || assert_eq!(current_worker_index(), Some(0));
        let pool = one_thread().keep_alive(SOON).on_thread_exit(hook).build().unwrap();
        while pool.live_threads() > 0 {
            thread::yield_now();
        }
        assert_eq!(pool.run(|_| current_worker_index()), Some(0));
        assert_eq!(pool.run(|_| blocking(current_worker_index)), None);
        assert_eq!(pool.run(|_| current_worker_index()), Some(0));
    });
}

/// What an exit hook does once there is nothing left to do in its pool, which has ended.
fn last_hook_ends(threads: usize, hook: fn(Promise<()>, Future<()>)) {
    for seen in [false, true] {
        ends("the exit hook of a pool that has ended", move || {
            let calls = AtomicUsize::new(0);
            let over = Arc::<AtomicBool>::default();
            let (ends, gone) = (Arc::clone(&over), Gone::default());
            let hook = move || {
                if !is_first(&calls) {
                    gone.count();
                } else {
                    // Others leave meanwhile, or have left.
                    gone.until(if seen { threads - 1 } else { 0 });
                    let (promise, future) = Promise::new();
                    hook(promise, future);
                    ends.store(true, Ordering::SeqCst);
                }
            };
            let pool = Pool::builder().threads(threads).on_thread_exit(hook).build().unwrap();
            if seen {
                in_task(&pool, || _ = join(|| (), || ()));
            }
            drop(pool);
            // What it leaves behind is over, too.
            assert!(over.load(Ordering::SeqCst), "the hook is not over");
        });
    }
}

#[test]
fn an_exit_hook_waits_for_its_fork_in_a_pool_that_has_ended() {
    for threads in [1, 2, 4] {
        last_hook_ends(threads, |promise, future| {
            join(|| future.wait().unwrap(), || promise.set(()));
        });
    }
}

#[test]
fn an_exit_hook_waits_for_a_task_in_a_pool_that_has_ended() {
    for threads in [1, 2, 4] {
        last_hook_ends(threads, spawn_and_wait);
    }
}

#[test]
fn what_an_exit_hook_spawns_is_run_though_the_pool_has_ended() {
    static LEFT: Mutex<Option<Future<()>>> = Mutex::new(None);
    for threads in [1, 2, 4] {
        last_hook_ends(threads, |_, _| *LEFT.lock().unwrap() = Some(spawn(|| ())));
        let left = LEFT.lock().unwrap().take().unwrap();
        assert!(left.wait_timeout(LONG).is_ok(), "a task that nobody runs");
    }
}

/// The later of two that an exit hook leaves behind does what the first waits for.
#[test]
fn what_an_exit_hook_spawns_may_wait_though_the_pool_has_ended() {
    for threads in [1, 2, 4] {
        for _ in 0..TRIES {
            last_hook_ends(threads, |promise, future| {
                drop(spawn(move || future.wait().unwrap()));
                drop(spawn(move || promise.set(())));
            });
        }
    }
}

/// As a thread leaves it opens its mail, which waits for what lies with the thread of the hook.
#[test]
fn an_exit_hook_reaches_threads_that_wait_as_they_leave() {
    for _ in 0..TRIES {
        last_hook_ends(2, |promise, future| {
            let future = future.shared();
            let here = thread::current().id();
            drop(spawn(move || promise.set(())));
            broadcast(|_| {
                if thread::current().id() != here {
                    future.clone().wait().unwrap();
                }
            });
        });
    }
}
