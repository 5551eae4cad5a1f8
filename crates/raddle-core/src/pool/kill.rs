//! `kill_all`: the futures of a pool.

use crate::depth;
use crate::pool::Pool;
use crate::pool::registry::Registry;
use crate::queue::Task;

/// Kills what is queued and what runs: not what a worker holds that has taken it out of a queue and not listed it yet, since
/// whoever takes a task tells nobody of it. No code of the user's runs while a task that may not be killed is in no queue, nor
/// under a lock; and what the end of one leads to, which may wait for another, runs when all have ended.
pub(crate) fn kill_all(registry: &Registry) -> usize {
    registry.assert_here();
    depth::at_limit(|| kill_each(registry))
}

/// As [`Pool::kill_all`], of several pools as if they were one: what follows the tasks of one may wait for those of another.
#[doc(hidden)]
pub fn kill_all_of<'a>(pools: impl Iterator<Item = &'a Pool>) -> usize {
    let pools: Vec<&Registry> = pools.map(Pool::registry).collect();
    pools.iter().for_each(|registry| registry.assert_here());
    depth::at_limit(|| pools.into_iter().map(kill_each).sum())
}

fn kill_each(registry: &Registry) -> usize {
    let mut queued = Vec::new();
    // No more than lies there now: what runs may queue as fast, until it is killed below.
    let mut rest = registry.injector.len();
    while let Some(batch) = (rest > 0).then(|| registry.injector.take::<64>()).flatten() {
        let before = queued.len();
        queued.extend(batch.tagged());
        rest = rest.saturating_sub(queued.len() - before);
    }
    for ring in registry.memories.iter().map(|memory| &memory.ring) {
        queued.extend(ring.drain().take(ring.len()));
    }
    let (mortal, others): (Vec<_>, Vec<_>) =
        queued.into_iter().partition(|(task, _)| kill_of(task).is_some());
    registry.inject_again(others);
    let mut killed: Vec<Task> = mortal.iter().map(|(task, _)| *task).filter(kill).collect();
    for memory in registry.memories.iter() {
        memory.running.for_each(|task| {
            // It runs, so its closure is not dropped here.
            if kill(&task) {
                killed.push(task);
            }
        });
    }
    for task in &killed {
        // SAFETY: killed by us and not resolved, so it is alive.
        let complete_killed = unsafe { task.as_ref() }.vtable.complete_killed;
        // SAFETY: as above, and we are its producer.
        unsafe { complete_killed(*task) };
    }
    // Void by now, and let go of by whoever finds them.
    registry.inject_again(mortal);
    killed.len() + registry.gate.kill_suspended()
}

fn kill_of(task: &Task) -> Option<unsafe fn(Task) -> bool> {
    // SAFETY: out of a queue, or listed as running: alive.
    unsafe { task.as_ref() }.vtable.kill
}

fn kill(task: &Task) -> bool {
    // SAFETY: as above.
    kill_of(task).is_some_and(|kill| unsafe { kill(*task) })
}
