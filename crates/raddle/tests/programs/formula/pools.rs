//! Pools that live as long as a formula.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use raddle::{BroadcastContext, FailureKind, Pool, Waits};

use super::{Context, eval, sum};
use crate::ir::{Formula, Manner};
use crate::rng::mix;
use crate::world::builder;

/// A pool that is dropped while it has something to do: all of that is done before the drop returns.
pub(super) fn own_pool(
    context: Context,
    manner: Manner,
    threads: usize,
    count: usize,
    task: &'static Formula,
    given: u64,
) -> u64 {
    let mut builder = builder(threads);
    if manner == Manner::Host {
        builder = builder.waits(Waits::Host);
    }
    let pool: Pool = builder.build().unwrap();
    let done = Arc::new(AtomicU64::new(0));
    let mut kept = Vec::new();
    for index in 0..count {
        let done = done.clone();
        let future = pool.spawn(move || {
            context.count();
            if manner == Manner::Broadcast && index % 4 == 0 {
                called_on_all(context, threads, &raddle::broadcast(on_each));
            }
            let value = eval(context, task, mix(given, index as u64), None);
            done.fetch_add(1, SeqCst);
            value
        });
        if index % 2 == 0 {
            kept.push((index, future));
        }
        if manner == Manner::Broadcast && index == count / 2 {
            called_on_all(context, threads, &pool.broadcast(on_each));
        }
    }
    drop(pool);
    if done.load(SeqCst) != count as u64 {
        context.world.complain(format!("a pool was gone with {done:?} of {count} tasks done"));
    }
    sum(kept.into_iter().map(|(index, future)| (index, context.good("own pool", future.wait()))))
}

fn on_each(thread: BroadcastContext) -> usize {
    let (index, one) = raddle::join(|| thread.index(), || 1);
    index + one
}

fn called_on_all(context: Context, threads: usize, results: &[usize]) {
    if !results.iter().copied().eq(1..=threads) {
        context.world.complain(format!("a broadcast to {threads} threads came to {results:?}"));
    }
}

/// As many tasks are killed as the call says, the others are done, and no closure is left.
pub(super) fn kill_all(
    context: Context,
    threads: usize,
    at_once: bool,
    count: usize,
    task: &'static Formula,
    given: u64,
) -> u64 {
    let context = Context { counted: false, ..context };
    let pool = builder(threads).build().unwrap();
    let captured = Arc::new(());
    let spawn = |index: usize| {
        let captured = captured.clone();
        pool.spawn(move || {
            let _captured = captured;
            eval(context, task, mix(given, index as u64), None)
        })
    };
    let futures: Vec<_> = (0..count).map(spawn).collect();
    if !at_once {
        futures[0].wait_ref();
    }
    let told = pool.kill_all();
    let mut killed = 0;
    for future in futures {
        match future.wait() {
            Err(failure) if failure.kind() == FailureKind::Killed => killed += 1,
            result => drop(context.good("kill_all", result)),
        }
    }
    drop(pool);
    if killed != told || Arc::strong_count(&captured) != 1 {
        context
            .world
            .complain(format!("{killed} of {count} were killed, not {told}: {captured:?}"));
    }
    mix(given, 0xdead)
}
