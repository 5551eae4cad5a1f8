//! `kill_all`: every future of a pool.

use crate::pool::shared::Shared;
use crate::queue::Task;
use crate::spawn::running::Running;

/// Kills what is queued and what runs. No code of the user's runs while a task that may not be killed is in no queue, nor
/// under a lock.
pub(crate) fn kill_all(shared: &Shared) -> usize {
    let mut queued = Vec::new();
    while let Some(batch) = shared.injector.take::<64>() {
        queued.extend(batch.into_iter());
    }
    for region in shared.regions.iter() {
        queued.extend(std::iter::from_fn(|| region.ring.steal()));
    }
    let (mortal, others): (Vec<Task>, Vec<Task>) =
        queued.into_iter().partition(|task| kill_of(task).is_some());
    shared.inject_again(others);
    let mut killed: Vec<Task> = mortal.iter().copied().filter(kill).collect();
    for region in shared.regions.iter() {
        Running::for_each(&region.running, |task| {
            // It runs, so its closure is not dropped here.
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
    // Void by now, and let go of by whoever finds them.
    shared.inject_again(mortal);
    killed.len()
}

fn kill_of(task: &Task) -> Option<unsafe fn(Task) -> bool> {
    // SAFETY: out of a queue, or listed as running: alive.
    unsafe { task.as_ref() }.vtable.kill
}

fn kill(task: &Task) -> bool {
    // SAFETY: as above.
    kill_of(task).is_some_and(|kill| unsafe { kill(*task) })
}
