//! Waits with a time limit for which nobody comes.
//!
//! Such a wait runs nothing, which might take longer than there is time, and leaves what it waits for to other threads. If all
//! threads that the pool can have wait like that, each lets its time pass in vain, and a program that waits again whenever the
//! time is over does so for ever. So where no other thread can come, and for 100 ms nobody has worked and nothing has ended, a thread
//! runs what it waits for after all, late or not; and where the pool gets no thread in any case (see `relief` for others), or else
//! anything.
//!
//! Not only single waits that are long: loops of short ones are as common.

use std::cell::Cell;
use std::thread;
use std::time::Duration;

use raddle_sync::strand;
use raddle_sync::time::Instant;

use crate::pool::relief::STILL;
use crate::pool::worker::Worker;
use crate::pool::worker_memory::Hold;

/// For so long a thread waits in vain before it runs anything: as others do at the cap of spare threads.
const VAIN: Duration = STILL.saturating_mul(10);

/// Since when a thread has seen nobody come, and others end nothing in its pool.
#[derive(Debug, Default)]
pub(crate) struct Vain {
    progress: Cell<usize>,
    since: Cell<Option<Instant>>,
}

impl Vain {
    /// For how long it has been so by now, when a wait ends that began so long ago.
    fn look(&self, progress: usize, waited: Duration) -> Duration {
        let before = self.since.get().filter(|_| self.progress.get() == progress);
        self.progress.set(progress);
        self.since.set(before.or_else(|| Instant::now().checked_sub(waited)));
        before.map_or(waited, |since| since.elapsed())
    }
}

/// Whether nobody comes for what the calling thread has just `waited` for so long, or is about to wait for: it may run that itself.
pub(crate) fn nobody_comes(waited: Duration) -> bool {
    let Some(memory) = Worker::here() else { return false };
    let (registry, vain) = (memory.registry(), &memory.owned.vain);
    if waited.is_zero() && vain.since.get().is_none() {
        return false;
    }
    // This thread itself counts as one that works.
    if !registry.has_nobody_for_more() || registry.places.working() > 1 {
        vain.since.take();
        return false;
    }
    // What it has ended itself does no harm, and says nothing of others.
    vain.look(registry.progress().wrapping_sub(memory.progress()), waited) >= VAIN
}

/// Takes on anything that there is, if the pool gets no thread for it.
pub(crate) fn take_on_anything() {
    let Some(memory) = Worker::here() else { return };
    // What it holds may be wanted by what it would take on.
    let away = matches!(memory.owned.hold.get(), Hold::Away(_));
    let free = !away && !strand::with_local(strand::Local::thread_holds);
    // Tasks would find themselves panicking.
    let free = free && !thread::panicking();
    if free && memory.registry().may_host() && memory.has_room() {
        memory.take_on(|at| memory.find_as_host(at));
    }
}
