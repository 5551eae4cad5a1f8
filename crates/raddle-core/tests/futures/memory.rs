//! Loops in constant memory, races that leave nothing.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use raddle_core::{
    Future, Pool, Promise, Shared, collect, collect_map, first, select, spawn, tail_loop, times,
    while_do,
};

use crate::support::{Account, Counted, on_small_stack, scaled};

const TEN_MILLION: usize = 10_000_000;
/// What threads may keep for later: free blocks, 8 MiB of them for all, and queues that have grown.
const SLACK: isize = (8 << 20) + (256 << 10);

fn constant(account: &'static Account, f: impl FnOnce() + Send + 'static) {
    let growth = account.growth(|| on_small_stack(f));
    assert!(growth < SLACK, "{growth} bytes");
}

// --- recursion in tail position ---

#[test]
fn a_recursion_on_constants() {
    fn down(n: usize) -> Future<usize> {
        if n == 0 { Future::ready(0) } else { Future::ready(n - 1).flat_map(down) }
    }
    let account = Account::open();
    constant(account, || assert_eq!(down(TEN_MILLION).wait().unwrap(), 0));
}

#[test]
fn a_recursion_by_rescue_and_transform() {
    fn down(n: usize) -> Future<usize> {
        let next = move || down(n - 1);
        match n % 3 {
            _ if n == 0 => Future::ready(0),
            0 => Future::failed(std::fmt::Error).rescue(move |_| next()),
            1 => Future::ready(()).transform(move |_| next()),
            _ => Future::ready(()).flat_map(move |()| next()),
        }
    }
    let account = Account::open();
    constant(account, || assert_eq!(down(scaled(1_000_000)).wait().unwrap(), 0));
}

/// Completes promises on a thread of its own, as they come.
fn completer() -> (mpsc::SyncSender<Promise<()>>, thread::JoinHandle<()>) {
    let (send, receive) = mpsc::sync_channel::<Promise<()>>(64);
    let account = Account::current();
    let thread = thread::spawn(move || {
        Account::enter(account);
        receive.into_iter().for_each(|promise| promise.set(()));
    });
    (send, thread)
}

#[test]
fn a_recursion_on_promises_completed_by_another_thread() {
    fn down(n: usize, send: mpsc::SyncSender<Promise<()>>) -> Future<usize> {
        if n == 0 {
            return Future::ready(0);
        }
        let (promise, future) = Promise::new();
        // The continuation runs there, and must not wait for itself to make room.
        if let Err(mpsc::TrySendError::Full(promise)) = send.try_send(promise) {
            promise.set(());
        }
        future.flat_map(move |()| down(n - 1, send))
    }
    let account = Account::open();
    constant(account, || {
        let (send, thread) = completer();
        assert_eq!(down(TEN_MILLION, send).wait().unwrap(), 0);
        thread.join().unwrap();
    });
}

/// Completed before `flat_map` has returned, so that a turn runs within the one before: the stack is bounded, and
/// memory comes back when it is over. (It is not constant: the outer futures are linked last.)
#[test]
fn a_recursion_on_promises_completed_by_the_same_thread() {
    fn down(n: usize) -> Future<usize> {
        if n == 0 {
            return Future::ready(0);
        }
        let (promise, future) = Promise::new();
        let next = future.flat_map(move |()| down(n - 1));
        promise.set(());
        next
    }
    let account = Account::open();
    // Blocks that are free are everybody's: other tests may take those of this one, and it as many again.
    let mut kept = (0..5).map(|_| {
        let before = account.live();
        on_small_stack(|| assert_eq!(down(scaled(1_000_000)).wait().unwrap(), 0));
        account.live() - before
    });
    assert!(kept.any(|kept| kept < SLACK));
}

/// Each turn is linked to the next before what leads there is linked to it, as if another thread had been quick.
#[test]
fn a_recursion_that_is_linked_from_the_inside() {
    type Next = Arc<Mutex<Option<Promise<()>>>>;
    fn go(next: Next) -> Future<()> {
        let (now, is_now) = Promise::new();
        let (later, is_later) = Promise::new();
        *next.lock().unwrap() = Some(later);
        let future = is_now.flat_map(move |()| is_later.flat_map(move |()| go(next)));
        now.set(());
        future
    }
    let account = Account::open();
    constant(account, || {
        let next = Next::default();
        let last = go(Arc::clone(&next)).map(|()| 7);
        for turn in 0..scaled(1_000_000) {
            if turn % 1024 == 0 {
                last.interrupt("go on");
            }
            let promise = next.lock().unwrap().take();
            promise.unwrap().set(());
        }
        assert!(!last.is_done());
    });
}

#[test]
fn a_row_of_promises_that_is_linked_from_the_inside() {
    let account = Account::open();
    constant(account, || {
        let (mut promise, last) = Promise::new();
        let last = last.map(|n: u32| n + 1);
        for turn in 0..scaled(1_000_000) {
            let (inner, middle) = Promise::new();
            let (next, future) = Promise::new();
            inner.link(future);
            promise.link(middle);
            promise = next;
            if turn % 1024 == 0 {
                last.interrupt("go on");
                assert!(promise.interrupted().is_some());
            }
        }
        promise.set(7);
        assert_eq!(last.wait().unwrap(), 8);
    });
}

#[test]
fn a_recursion_on_spawned_tasks() {
    fn down(n: usize) -> Future<usize> {
        if n == 0 { Future::ready(0) } else { spawn(move || n - 1).flat_map(down) }
    }
    let account = Account::open();
    constant(account, || {
        let pool = accounted(2);
        let last = pool.spawn(|| ()).flat_map(|()| down(TEN_MILLION));
        assert_eq!(last.wait().unwrap(), 0);
    });
}

/// A pool whose workers count on this thread's account.
fn accounted(threads: usize) -> Pool {
    let account = Account::current();
    Pool::builder().threads(threads).before_start(move |_| Account::enter(account)).build().unwrap()
}

#[test]
fn a_recursion_on_linked_promises() {
    fn down(n: usize, promise: Promise<usize>) {
        if n == 0 {
            return promise.set(7);
        }
        let (next, future) = Promise::new();
        promise.link(future);
        let (go, gone) = Promise::new();
        drop(gone.map(move |()| down(n - 1, next)));
        go.set(());
    }
    let account = Account::open();
    constant(account, || {
        let (promise, future) = Promise::new();
        let last = future.map(|n| n + 1);
        down(scaled(2_000_000), promise);
        assert_eq!(last.wait().unwrap(), 8);
    });
}

#[test]
fn loops() {
    let account = Account::open();
    constant(account, || {
        let turns = scaled(1_000_000);
        let sum = tail_loop((0, 0), move |(n, sum): (usize, usize)| {
            Future::ready(if n == turns {
                ControlFlow::Break(sum)
            } else {
                ControlFlow::Continue((n + 1, sum + 1))
            })
        });
        assert_eq!(sum.wait().unwrap(), turns);

        let (send, thread) = completer();
        let turn = move || {
            let (promise, future) = Promise::new();
            if let Err(mpsc::TrySendError::Full(promise)) = send.try_send(promise) {
                promise.set(());
            }
            future
        };
        times(turns, turn).wait().unwrap();
        thread.join().unwrap();

        let pool = accounted(2);
        let mut left = turns / 4;
        let go_on = move || {
            left = left.saturating_sub(1);
            left > 0
        };
        let all = pool.spawn(|| ()).flat_map(move |()| while_do(go_on, || spawn(|| ())));
        all.wait().unwrap();
    });
}

/// A loop that somebody derives from, interrupts and asks while it runs stays as small.
#[test]
fn a_recursion_under_interrupts() {
    fn down(n: usize, send: mpsc::SyncSender<Promise<()>>) -> Future<usize> {
        if n == 0 {
            return Future::ready(0);
        }
        let (promise, future) = Promise::new();
        if let Err(mpsc::TrySendError::Full(promise)) = send.try_send(promise) {
            promise.set(());
        }
        future.flat_map(move |()| down(n - 1, send))
    }
    let account = Account::open();
    constant(account, || {
        let (send, thread) = completer();
        let last = down(scaled(1_000_000), send).map(|n| n + 1);
        while !last.is_done() {
            last.interrupt("go on");
        }
        assert_eq!(last.wait().unwrap(), 1);
        thread.join().unwrap();
    });
}

// --- races ---

/// Each of ten thousand races has a shared promise that is never completed for a loser.
fn leaves_nothing(race: impl Fn(&Shared<u32>) + Send + 'static) {
    let account = Account::open();
    on_small_stack(move || {
        let (never, future) = Promise::<u32>::new();
        let shared = future.shared();
        (0..1_000).for_each(|_| race(&shared));
        let before = account.live();
        let growth = account.growth(|| (0..10_000).for_each(|_| race(&shared)));
        // Not even the free blocks grow any more. (Nodes of the timer's tree may be another test's, and those of others this
        // one's.)
        let left = account.live() - before;
        assert!(left.abs() < 4 << 10, "{left} bytes left behind");
        assert!(growth < 16 << 10, "{growth} bytes");
        // Nobody hears of it.
        let live = Arc::new(AtomicUsize::new(0));
        let counted = Counted::new(&live);
        let told = shared.map(move |_| drop(counted));
        drop(shared);
        never.set(1);
        assert!(told.is_done());
        assert_eq!(live.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn racers_against_a_promise_that_is_never_completed() {
    leaves_nothing(|shared| {
        let (promise, quick) = Promise::new();
        let race = first([shared.future(), quick, shared.future()]);
        promise.set(1);
        assert_eq!(race.wait().unwrap(), 1);
    });
}

#[test]
fn selects_against_a_promise_that_is_never_completed() {
    leaves_nothing(|shared| {
        let (promise, quick) = Promise::new();
        let race = select([shared.future(), quick]);
        promise.set(1);
        let (winner, index, rest) = race.wait().unwrap();
        assert_eq!((winner.unwrap(), index, rest.len()), (1, 1, 1));
    });
}

#[test]
fn races_that_are_dropped_leave_nothing() {
    leaves_nothing(|shared| {
        drop(first([shared.future(), Future::never()]));
        drop(select([shared.future(), shared.future()]));
    });
}

#[test]
fn joins_that_fail_or_are_dropped_leave_nothing() {
    leaves_nothing(|shared| {
        let (promise, quick) = Promise::new();
        let join = collect([shared.future(), quick, shared.future()]);
        promise.fail(std::fmt::Error);
        assert!(join.wait().is_err());
        drop(collect([shared.future(), shared.future()]));
    });
}

#[test]
fn detours_that_are_left_leave_nothing() {
    leaves_nothing(|shared| {
        let future = shared.future().interruptible();
        future.interrupt("enough");
        assert!(future.wait().is_err());
        drop(shared.future().within(Duration::from_secs(3600)));
        drop(shared.future().interrupt_after(Duration::from_secs(3600)));
        drop(shared.future().interruptible());
    });
}

#[test]
fn adapters_that_are_left_leave_nothing() {
    leaves_nothing(|shared| {
        drop(first([shared.future().unit(), Future::never()]));
        drop(first([shared.future().lift().lower(), Future::never()]));
        drop(collect_map::<_, _, Vec<_>>([(1, shared.future()), (2, shared.future())]));
        drop(first([shared.future().on(Pool::global()), Future::never()]));
    });
}

#[test]
fn races_of_races_leave_nothing() {
    leaves_nothing(|shared| {
        let (promise, quick) = Promise::new();
        let inner = || first([shared.future().interruptible(), shared.future()]);
        let race = first([inner(), quick, inner()]);
        promise.set(3);
        assert_eq!(race.wait().unwrap(), 3);
    });
}

#[test]
fn shares_of_shares_leave_nothing() {
    leaves_nothing(|shared| {
        let (promise, quick) = Promise::new();
        let again = shared.future().shared();
        let race = first([again.future(), quick]);
        promise.set(3);
        assert_eq!(race.wait().unwrap(), 3);
        drop(again);
    });
}

#[test]
fn waits_that_time_out_leave_nothing() {
    leaves_nothing(|shared| {
        assert!(shared.future().wait_timeout(Duration::ZERO).is_err());
    });
}

#[test]
fn kills_leave_nothing() {
    leaves_nothing(|shared| {
        let race = first([shared.future(), Future::never()]);
        race.kill();
        assert!(race.wait().is_err());
        let one = shared.future();
        one.kill();
        drop(one);
    });
}
