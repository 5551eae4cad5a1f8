//! `kill_all`: every future of a pool.

use crate::pool::shared::Shared;
use crate::queue::Task;
use crate::spawn::Running;

/// Kills what is queued and what runs. Futures are resolved after all locks are let go, because
/// that runs what waits for them.
pub(crate) fn kill_all(shared: &Shared) -> usize {
    let mut queued = Vec::new();
    while let Some(batch) = shared.injector.take::<64>() {
        queued.extend(batch.into_iter());
    }
    for region in &shared.regions {
        queued.extend(std::iter::from_fn(|| region.ring.steal()));
    }
    let mut killed: Vec<Task> = queued.iter().copied().filter(kill).collect();
    for region in &shared.regions {
        Running::for_each(&region.running, |task| {
            if kill(&task) {
                killed.push(task);
            }
        });
    }
    for task in &killed {
        // SAFETY: killed by us and not resolved, so it is alive.
        let bury = unsafe { task.as_ref() }.vtable.bury;
        // SAFETY: as above, and we are its producer.
        unsafe { bury(*task) };
    }
    // Back to the queue: what may not be killed runs there, the rest is let go of there.
    shared.inject(queued);
    killed.len()
}

fn kill(task: &Task) -> bool {
    // SAFETY: out of a queue, or listed as running: alive.
    let vtable = unsafe { task.as_ref() }.vtable;
    // SAFETY: as above.
    unsafe { (vtable.kill)(*task) }
}
