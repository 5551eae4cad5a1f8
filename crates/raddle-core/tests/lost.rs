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

use raddle_core::policy::Policy;
use raddle_core::{
    Future, Pool, PoolBuilder, Promise, Worker, blocking, broadcast, current_worker_index, join,
    spawn,
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
        let (leaves, leaving) = mpsc::channel();
        let calls = AtomicUsize::new(0);
        let hook = move || {
            if is_first(&calls) {
                leaves.send(()).unwrap();
                // Nobody sees that the letter has been sent.
                thread::sleep(3 * MOMENT);
            }
        };
        let pool = one_thread().keep_alive(SOON).on_thread_exit(hook).build().unwrap();
        leaving.recv().unwrap();
        assert_eq!(pool.broadcast(|thread| thread.index()), [0]);
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
fn an_exit_hook_that_asks_for_its_number_keeps_none() {
    ends("a pool whose thread leaves", || {
        let hook = || assert_eq!(current_worker_index(), None);
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
