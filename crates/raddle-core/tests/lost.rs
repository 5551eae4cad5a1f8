//! Programs in which work, a wake or an end could get lost: each must end.
#![allow(missing_docs)]

use std::cell::RefCell;
use std::future::poll_fn;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Barrier, Mutex};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use raddle_core::compat::{Settings, Team, with_here};
use raddle_core::policy::Policy;
use raddle_core::{
    Future, Pool, PoolBuilder, Promise, Waits, Worker, blocking, broadcast, current_worker_index,
    join, spawn,
};

/// Longer than any of this takes; what lasts that long hangs.
const LONG: Duration = Duration::from_secs(60);
/// When an idle thread leaves.
const SOON: Duration = Duration::from_millis(5);
/// For others to come to rest: should that take them longer, a test shows less, and passes.
const MOMENT: Duration = Duration::from_millis(100);

/// Calls `f` on a thread of its own, so that what hangs fails.
fn ends<R: Send + 'static>(what: &str, f: impl FnOnce() -> R + Send + 'static) -> R {
    let (send, receive) = mpsc::channel();
    let thread = thread::spawn(move || send.send(f()));
    match receive.recv_timeout(LONG) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => panic!("{what} hangs"),
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Err(payload) => resume_unwind(payload),
            Ok(_) => unreachable!("it has sent its result"),
        },
    }
}

fn until(flag: &AtomicBool) {
    while !flag.load(Ordering::SeqCst) {
        thread::yield_now();
    }
}

fn one_thread() -> PoolBuilder {
    Pool::builder().threads(1)
}

/// So many times what depends on chance is tried.
const TRIES: usize = 10;

/// True for the first call.
fn is_first(calls: &AtomicUsize) -> bool {
    calls.fetch_add(1, Ordering::SeqCst) == 0
}

// --- work that lies with a thread that is blocked ---

/// What keeps the only thread busy, one short task after the other, until it is told to end.
type Busy = fn(&Pool, Arc<AtomicBool>);

fn polls_itself(pool: &Pool, done: Arc<AtomicBool>) {
    drop(pool.spawn_async(poll_fn(move |context| {
        if done.load(Ordering::SeqCst) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })));
}

fn spawns_itself(pool: &Pool, done: Arc<AtomicBool>) {
    fn again(done: Arc<AtomicBool>) {
        if !done.load(Ordering::SeqCst) {
            drop(spawn(move || again(done)));
        }
    }
    drop(pool.spawn(move || again(done)));
}

/// Whoever waits has what it waits for: in its ring, or on its stack. Others are to come for it, though they are never without
/// work of their own.
fn comes_for_the_blocked(waits: fn(&Pool, Promise<()>, Future<()>)) {
    for busy in [polls_itself as Busy, spawns_itself] {
        ends("a wait for what the waiter has", move || {
            let pool = one_thread().build().unwrap();
            let done = Arc::<AtomicBool>::default();
            busy(&pool, Arc::clone(&done));
            let (promise, future) = Promise::new();
            waits(&pool, promise, future);
            done.store(true, Ordering::SeqCst);
        });
    }
}

/// By a task, while this thread looks on.
fn in_task(pool: &Pool, f: impl FnOnce() + Send + 'static) {
    let (send, receive) = mpsc::channel();
    drop(pool.spawn(move || {
        f();
        send.send(()).unwrap();
    }));
    receive.recv().unwrap();
}

fn spawn_and_wait(promise: Promise<()>, future: Future<()>) {
    drop(spawn(move || promise.set(())));
    future.wait().unwrap();
}

#[test]
fn a_task_in_the_ring_of_a_blocked_thread_is_come_for() {
    comes_for_the_blocked(|pool, promise, future| {
        in_task(pool, || spawn_and_wait(promise, future));
    });
}

#[test]
fn a_task_in_the_ring_of_a_blocked_guest_is_come_for() {
    comes_for_the_blocked(|pool, promise, future| pool.run(|_| spawn_and_wait(promise, future)));
}

#[test]
fn a_fork_of_a_blocked_thread_is_come_for() {
    comes_for_the_blocked(|pool, promise, future| {
        in_task(pool, || {
            join(|| future.wait().unwrap(), || promise.set(()));
        });
    });
}

// --- hooks ---

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
        let pool = Pool::builder().threads(2).on_thread_start(hook).build().unwrap();
        // The other thread falls asleep.
        thread::sleep(MOMENT);
        drop(pool.spawn(move || go.send(()).unwrap()));
    });
}

#[test]
fn a_broadcast_reaches_a_thread_that_is_leaving() {
    ends("a broadcast to a thread that leaves", || {
        // Now and then the letter comes too late for the thread.
        let stayed = (0..TRIES).any(|_| {
            let (leaves, leaving) = mpsc::channel();
            let calls = AtomicUsize::new(0);
            let hook = move || {
                if is_first(&calls) {
                    leaves.send(thread::current().id()).unwrap();
                    // Nobody sees that the letter has been sent.
                    thread::sleep(3 * MOMENT);
                }
            };
            let pool = one_thread().keep_alive(SOON).on_thread_exit(hook).build().unwrap();
            let leaver = leaving.recv().unwrap();
            pool.broadcast(|_| thread::current().id()) == [leaver]
        });
        assert!(stayed, "a thread that has mail asks for another one");
    });
}

#[test]
fn an_exit_hook_reaches_threads_that_have_left() {
    ends("a broadcast by the last thread of a pool", || {
        let reached = Arc::new(AtomicUsize::new(0));
        let (calls, count) = (AtomicUsize::new(0), Arc::clone(&reached));
        let hook = move || {
            if is_first(&calls) {
                // The other thread leaves.
                thread::sleep(MOMENT);
                broadcast(|_| count.fetch_add(1, Ordering::SeqCst));
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

// --- threads that have no place, or are to give it back ---

#[test]
fn threads_that_are_in_debt_open_their_mail() {
    ends("a broadcast beside two regions", || {
        let pool = Arc::new(Pool::new(2).unwrap());
        let (go, meet) = (Arc::<AtomicBool>::default(), Arc::new(Barrier::new(3)));
        let guests = [0, 1].map(|_| {
            let (pool, go, meet) = (Arc::clone(&pool), Arc::clone(&go), Arc::clone(&meet));
            thread::spawn(move || {
                pool.run(|_| {
                    meet.wait();
                    until(&go);
                });
            })
        });
        meet.wait();
        assert_eq!(pool.broadcast(|thread| thread.index()), [0, 1]);
        go.store(true, Ordering::SeqCst);
        guests.into_iter().for_each(|guest| guest.join().unwrap());
    });
}

/// Now and then who was woken is quick enough by chance: not so often.
const ROUNDS: usize = 300;

/// About as long as a wake takes, several times.
fn work() {
    let since = Instant::now();
    while since.elapsed() < Duration::from_micros(200) {}
}

#[test]
fn guests_that_come_at_once_leave_time_for_a_task() {
    ends("a task beside guests", || {
        let pool = one_thread().build().unwrap();
        for _ in 0..ROUNDS {
            // The thread falls asleep.
            thread::sleep(SOON);
            let task = pool.spawn(|| ());
            while !task.is_done() {
                pool.run(|_| work());
            }
        }
    });
}

/// One guest after the other, until the future is done: how many.
fn guests_until(pool: &Pool, done: &Future<()>) -> usize {
    let mut guests = 0;
    while !done.is_done() {
        pool.run(|_| (0..5).for_each(|_| work()));
        guests += 1;
    }
    guests
}

/// A task begins beside guests that come at once, and has a promise set: by what lies in the thread's ring, or on its stack, as
/// the thread goes in debt. Whoever is woken for that need not be quicker than all guests.
fn leaves_time_for(what: fn(Promise<()>)) {
    for busy in [false, true] {
        let guests = ends("what a thread has beside guests", move || {
            let pool = one_thread().build().unwrap();
            let done = Arc::<AtomicBool>::default();
            if busy {
                polls_itself(&pool, Arc::clone(&done));
            }
            let guests = [(); ROUNDS / 4].map(|()| {
                let (runs, running) = mpsc::channel();
                let (promise, future) = Promise::new();
                drop(pool.spawn(move || {
                    runs.send(()).unwrap();
                    (0..3).for_each(|_| work());
                    what(promise);
                }));
                running.recv().unwrap();
                guests_until(&pool, &future)
            });
            done.store(true, Ordering::SeqCst);
            guests
        });
        assert!(guests.into_iter().all(|guests| guests < ROUNDS), "so many came first: {guests:?}");
    }
}

#[test]
fn guests_that_come_at_once_leave_time_for_what_a_task_leaves_behind() {
    leaves_time_for(|promise| drop(spawn(move || promise.set(()))));
}

#[test]
fn guests_that_come_at_once_leave_time_for_what_a_task_waits_for() {
    leaves_time_for(|promise| {
        let (inner, future) = Promise::new();
        spawn_and_wait(inner, future);
        promise.set(());
    });
}

#[test]
fn guests_that_come_at_once_leave_time_for_a_fork() {
    leaves_time_for(|promise| {
        let (inner, future) = Promise::new();
        join(|| future.wait().unwrap(), || inner.set(()));
        promise.set(());
    });
}

#[test]
fn a_thread_that_never_blocks_for_long_leaves_time_for_a_task() {
    ends("a task beside one that polls for it", || {
        let pool = one_thread().build().unwrap();
        in_task(&pool, || {
            for _ in 0..ROUNDS {
                let task = spawn(|| ());
                while !task.is_done() {
                    work();
                    blocking(|| ());
                }
            }
        });
    });
}

/// Goes on with so little stack that a wait there takes on nothing.
fn low_on_stack(worker: &Worker, f: Box<dyn FnOnce(&Worker) + '_>) {
    let space = std::hint::black_box([0_u8; 4096]);
    if raddle_sync::stack::remaining() < 200_000 {
        f(worker);
    } else {
        low_on_stack(worker, f);
    }
    std::hint::black_box(space);
}

#[test]
fn a_victim_low_on_stack_gives_its_place_to_others() {
    ends("a victim that cannot help its thief", || {
        let pool = &one_thread().build().unwrap();
        let (promise, future) = Promise::new();
        let (stolen, gate) = mpsc::channel();
        pool.run(|worker| {
            let waits = |worker: &Worker| {
                worker.join(
                    move |_| blocking(|| gate.recv().unwrap()),
                    move |worker| {
                        stolen.send(()).unwrap();
                        // The victim waits, in the only place.
                        thread::sleep(MOMENT);
                        drop(pool.spawn(move || promise.set(())));
                        worker.join(|_| future.wait().unwrap(), |_| ());
                    },
                );
            };
            low_on_stack(worker, Box::new(waits));
        });
    });
}

#[test]
fn a_fork_within_blocking_is_seen_after_a_nap() {
    let stolen = ends("a task that forks within `blocking`", || {
        let policy = Policy { drowsy: 4 * MOMENT, ..Policy::default() };
        let pool = Pool::builder().threads(2).policy(policy).build().unwrap();
        let meet = Arc::new(Barrier::new(2));
        let other = Arc::clone(&meet);
        drop(pool.spawn(move || {
            other.wait();
            other.wait();
        }));
        let (send, receive) = mpsc::channel();
        drop(pool.spawn(move || {
            meet.wait();
            // Nobody wants them, so those that follow are private.
            (0..4).for_each(|_| _ = join(|| (), || ()));
            meet.wait();
            // The other thread naps.
            thread::sleep(MOMENT);
            blocking(|| {
                // It sleeps for good.
                thread::sleep(8 * MOMENT);
                let stolen = AtomicBool::new(false);
                let looks_on = || {
                    let since = Instant::now();
                    while !stolen.load(Ordering::SeqCst) && since.elapsed() < LONG / 2 {
                        thread::yield_now();
                    }
                    stolen.load(Ordering::SeqCst)
                };
                let (stolen, ()) = join(looks_on, || stolen.store(true, Ordering::SeqCst));
                send.send(stolen).unwrap();
            });
        }));
        receive.recv().unwrap()
    });
    assert!(stolen, "nobody has come for the fork");
}

#[test]
fn nothing_runs_on_the_stack_of_a_helper_that_has_too_little() {
    ends("a waiter with little stack", || {
        let pool = one_thread().build().unwrap();
        let (started, gate) = mpsc::channel();
        drop(pool.spawn(move || {
            started.send(()).unwrap();
            // The waiter finds its task queued.
            thread::sleep(MOMENT);
        }));
        gate.recv().unwrap();
        let task = pool.spawn(thread::current);
        let waiter = thread::Builder::new().stack_size(64 << 10).spawn(move || {
            assert_ne!(task.wait().unwrap().id(), thread::current().id());
        });
        waiter.unwrap().join().unwrap();
    });
}

#[test]
fn a_guest_with_little_stack_runs_no_task_on_it() {
    ends("a guest with little stack", || {
        let pool = one_thread().build().unwrap();
        let guest = move || {
            let by = pool.run(|_| spawn(thread::current).wait().unwrap().id());
            assert_ne!(by, thread::current().id());
        };
        let guest = thread::Builder::new().stack_size(64 << 10).spawn(guest);
        guest.unwrap().join().unwrap();
    });
}

#[test]
fn a_helper_with_little_stack_comes_where_nobody_else_can() {
    ends("a waiter that the only thread waits for", || {
        let pool = one_thread().max_spare_threads(0).build().unwrap();
        let (started, gate) = mpsc::channel();
        let (send, receive) = mpsc::channel();
        drop(pool.spawn(move || {
            started.send(()).unwrap();
            blocking(|| receive.recv().unwrap());
        }));
        gate.recv().unwrap();
        let task = pool.spawn(|| ());
        let waiter = move || {
            task.wait().unwrap();
            send.send(()).unwrap();
        };
        let waiter = thread::Builder::new().stack_size(192 << 10).spawn(waiter);
        waiter.unwrap().join().unwrap();
    });
}

#[test]
fn nobody_waits_for_an_index_that_does_not_come() {
    let (within, elapsed, at_exit) = ends("a team that asks for its indices", || {
        let (send, receive) = mpsc::channel();
        let index = || with_here(|here| here.and_then(|here| here.index()));
        let on_exit = move |_| send.send(index()).unwrap();
        let settings = Settings {
            waits: Waits::Substitute,
            on_exit: Some(Box::new(on_exit)),
            ..Settings::default()
        };
        let team = Team::new(settings).unwrap();
        let seat = team.seat(0);
        let thread = thread::spawn(move || seat.run());
        let (within, elapsed) = team.call(move || {
            let since = Instant::now();
            let within = blocking(|| (0..50).find_map(|_| index()));
            (within, since.elapsed())
        });
        team.end();
        thread.join().unwrap();
        (within, elapsed, receive.recv().unwrap())
    });
    assert_eq!((within, at_exit), (None, Some(0)));
    assert!(elapsed < Duration::from_millis(500), "50 answers took {elapsed:?}");
}

// --- ends ---

#[test]
fn a_thread_that_would_search_for_ever_lets_its_pool_end() {
    ends("the end of a pool that spins", || {
        let pool = one_thread().spin_for(Duration::MAX).build().unwrap();
        drop(pool.spawn(|| thread::sleep(MOMENT)));
        drop(pool);
    });
}

/// What a thread keeps. Dropped in this order.
struct Kept {
    _pool: Arc<Pool>,
    _gone: mpsc::Sender<()>,
}

#[test]
fn a_thread_that_has_left_drops_its_pool() {
    thread_local! {
        static KEPT: RefCell<Option<Kept>> = const { RefCell::new(None) };
    }
    let pool = Arc::new(one_thread().keep_alive(SOON).build().unwrap());
    let (send, gone) = mpsc::channel();
    let kept = Kept { _pool: Arc::clone(&pool), _gone: send };
    in_task(&pool, || KEPT.set(Some(kept)));
    drop(pool);
    assert_eq!(gone.recv_timeout(LONG), Err(RecvTimeoutError::Disconnected));
}

// --- a system that refuses threads ---

/// Whether this process is the one that the test is about: the limits are the process's.
#[cfg(target_os = "linux")]
fn in_process_of_its_own(test: &str) -> bool {
    const CHILD: &str = "RADDLE_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let status = child.args(["--exact", test, "--nocapture"]).env(CHILD, "1").status().unwrap();
    assert!(status.success(), "{status}");
    false
}

/// The address space that the process may have beyond what it has.
#[cfg(target_os = "linux")]
fn limit_memory(more: Option<u64>) {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: with a struct of this frame's.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_AS, &mut limit) }, 0);
    // SAFETY: a plain call.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    limit.rlim_cur = more.map_or(limit.rlim_max, |more| pages * page + more);
    // SAFETY: with a struct of this frame's.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
}

/// A broadcast waits for a thread that the system does not give; the one that is there is woken all the same.
#[test]
#[cfg(target_os = "linux")]
fn who_waits_for_the_system_keeps_nobody_from_being_woken() {
    if !in_process_of_its_own("who_waits_for_the_system_keeps_nobody_from_being_woken") {
        return;
    }
    ends("a task beside a broadcast that waits for a thread", || {
        let stack = 256 << 20;
        let pool = Pool::builder().threads(2).stack_size(stack).keep_alive(10 * MOMENT);
        let pool = &pool.build().unwrap();
        let (go, gate) = mpsc::channel::<()>();
        drop(pool.spawn(move || gate.recv()));
        while pool.live_threads() > 1 {
            thread::yield_now();
        }
        limit_memory(Some(stack as u64 / 2));
        thread::scope(|threads| {
            let broadcast = threads.spawn(|| pool.broadcast(|thread| thread.index()));
            thread::sleep(MOMENT);
            go.send(()).unwrap();
            // The thread falls asleep.
            thread::sleep(MOMENT);
            let task = pool.spawn(|| ());
            // If it has left, nobody is there.
            while !task.is_done() && pool.live_threads() > 0 {
                thread::yield_now();
            }
            limit_memory(None);
            assert_eq!(broadcast.join().unwrap(), [0, 1]);
        });
    });
}
