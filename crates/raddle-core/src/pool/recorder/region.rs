//! Regions: what a guest's stay is in a trace, and what users mark.

use std::cell::Cell;

use raddle_sync::atomic::Ordering;
use raddle_trace::{EventKind, Subject};

use super::{Place, RECORDING, places};
use crate::pool::clock;
use crate::pool::worker::Worker;
use crate::pool::worker_memory::WorkerMemory;

thread_local! {
    /// The name that this thread's next regions get, counted from 1; 0: none.
    static NAME: Cell<u16> = const { Cell::new(0) };
}

/// The names that were given to regions, by all pools.
pub(super) static NAMES: std::sync::Mutex<Vec<&'static str>> = std::sync::Mutex::new(Vec::new());

/// The number of a name, from 1 on; 0 if there are too many.
fn name_number(name: &'static str) -> u16 {
    number_in(&mut NAMES.lock().unwrap_or_else(|e| e.into_inner()), name)
}

/// No more names are kept than there are numbers: a trace with more could not be written.
fn number_in(names: &mut Vec<&'static str>, name: &'static str) -> u16 {
    if let Some(at) = names.iter().position(|&known| known == name) {
        return u16::try_from(at + 1).unwrap_or(0);
    }
    let number = u16::try_from(names.len() + 1).unwrap_or(0);
    if number != 0 {
        names.push(name);
    }
    number
}

/// A region that a guest's stay is, from `tsc` on: at this place, if it is one of the program's.
#[cfg_attr(target_os = "linux", unsafe(link_section = "raddle_enter"))]
pub(crate) fn begin_region(
    memory: &WorkerMemory,
    tsc: u64,
    place: Option<Place>,
) -> Option<(Subject, u32)> {
    if !memory.lane.is_on() {
        return None;
    }
    let key = memory.registry().recorder.region_key();
    let now = clock::now();
    let since = if tsc == 0 { now } else { tsc };
    memory.lane.note_at(since, EventKind::Submit, NAME.get().into(), key);
    let place = place.map_or(0, places::number);
    memory.lane.note_at(now, EventKind::Exec, place.into(), key);
    memory.lane.note_strand();
    Some(key)
}

/// Marks what follows as a region of a trace, until the guard is dropped.
///
/// On a thread that works in a pool that records it is a region of its own, with phases of its own. On
/// a thread from outside it gives its name to the regions that the thread enters meanwhile. Otherwise it
/// does next to nothing.
///
/// ```
/// use raddle::{Pool, trace, trace::TraceLevel};
///
/// let pool = Pool::builder().threads(2).trace(TraceLevel::Phase).build()?;
/// {
///     let _region = trace::region("twins");
///     pool.run(|worker| worker.join(|_| (), |_| ()));
/// }
/// pool.run(|_| drop(trace::region("inside")));
/// let phases = pool.trace().phases();
/// let names: Vec<_> = phases.iter().map(|region| region.name.as_deref()).collect();
/// assert_eq!(names, [Some("twins"), None, Some("inside")]);
/// # Ok::<(), raddle::PoolBuildError>(())
/// ```
#[track_caller]
pub fn region(name: &'static str) -> RegionGuard {
    // ORD: a hint.
    if RECORDING.load(Ordering::Relaxed) == 0 {
        return RegionGuard { what: Marked::Nothing, _not_send: std::marker::PhantomData };
    }
    let number = name_number(name);
    let what = match Worker::here() {
        Some(memory) if memory.lane.is_on() => {
            let key = memory.registry().recorder.region_key();
            memory.lane.note(EventKind::Submit, number.into(), key);
            let place = places::number(std::panic::Location::caller());
            memory.lane.note(EventKind::Exec, place.into(), key);
            Marked::Inside(memory, key)
        }
        Some(_) => Marked::Nothing,
        None => Marked::Outside(NAME.replace(number)),
    };
    RegionGuard { what, _not_send: std::marker::PhantomData }
}

/// Ends a [`region`] when it is dropped.
#[derive(Debug)]
#[must_use = "the region ends when this is dropped"]
pub struct RegionGuard {
    what: Marked,
    _not_send: std::marker::PhantomData<*const ()>,
}

#[derive(Debug)]
enum Marked {
    Nothing,
    /// The name before.
    Outside(u16),
    Inside(*const WorkerMemory, (Subject, u32)),
}

impl Drop for RegionGuard {
    fn drop(&mut self) {
        match self.what {
            Marked::Nothing => {}
            Marked::Outside(before) => NAME.set(before),
            Marked::Inside(memory, key) => {
                // Kept beyond the pool's code, or dropped on a stay later than its own: nothing to end.
                if let Some(here) = Worker::here().filter(|here| std::ptr::eq(*here, memory)) {
                    here.lane.note(EventKind::Executed, 0, key);
                    here.lane.note(EventKind::Waited, 0, key);
                }
            }
        }
    }
}

#[cfg(all(test, not(raddle_model)))]
mod tests {
    use super::*;

    #[test]
    fn names_that_have_no_number_are_not_kept() {
        let mut names = vec!["old"; usize::from(u16::MAX) - 1];
        assert_eq!(number_in(&mut names, "last"), u16::MAX);
        assert_eq!(
            (number_in(&mut names, "one too many"), number_in(&mut names, "another")),
            (0, 0)
        );
        assert_eq!((number_in(&mut names, "last"), number_in(&mut names, "old")), (u16::MAX, 1));
        assert_eq!(names.len(), usize::from(u16::MAX));
    }
}
