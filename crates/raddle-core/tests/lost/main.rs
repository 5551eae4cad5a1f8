//! Programs in which work, a wake or an end could get lost: each must end.
#![allow(missing_docs)]

mod debts;
mod ends;
mod hooks;
#[cfg(target_os = "linux")]
mod refused;
mod rests;
mod stacks;
mod wakes;

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
    FailureKind, Future, Pool, PoolBuilder, Promise, Waits, Worker, blocking, broadcast,
    current_worker_index, join, scope, spawn,
};
use raddle_sync::parker::{self, Parker};

/// Longer than any of this takes; what lasts that long hangs.
const LONG: Duration = Duration::from_secs(300);
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

/// Until a thread sleeps: the one whose parker this is, from outside.
fn until_parked(parker: &Parker) {
    while !parker.is_parked() {
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
