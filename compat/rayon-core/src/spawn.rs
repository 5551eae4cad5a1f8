//! Tasks that nobody waits for.

use std::cell::RefCell;
use std::panic::Location;
use std::sync::Arc;

use raddle_core::Snapshot;
use raddle_core::compat::{Here, Place, Team, with_here};

use crate::fifo::Fifo;
use crate::global;

/// Runs `func` some time, in the pool that this thread works in, else in the global one. Nobody waits for it.
///
/// What a thread has spawned last it runs first, unless others have taken it.
///
/// A panic of `func` goes to the pool's [panic handler](crate::ThreadPoolBuilder::panic_handler); without one the process
/// aborts.
///
/// ```
/// let (send, receive) = std::sync::mpsc::channel();
/// rayon_core::spawn(move || send.send(7).unwrap());
/// assert_eq!(receive.recv(), Ok(7));
/// ```
#[track_caller]
pub fn spawn<F>(func: F)
where
    F: FnOnce() + Send + 'static,
{
    let place = Location::caller();
    with_here(|here| match here {
        Some(here) => here.spawn(place, func),
        None => global::team().spawn(place, func),
    })
}

/// As [`spawn`], but of what a thread has spawned so, it runs the oldest first.
#[track_caller]
pub fn spawn_fifo<F>(func: F)
where
    F: FnOnce() + Send + 'static,
{
    let place = Location::caller();
    with_here(|here| match here {
        Some(here) => spawn_fifo_here(here, place, func),
        // What comes from outside is in order anyway.
        None => global::team().spawn(place, func),
    })
}

type Entry = Box<dyn FnOnce() + Send>;
type Fifos = RefCell<Vec<(usize, Arc<Fifo<Entry>>)>>;

thread_local! {
    /// This thread's, by its part in each pool that it works in: a token runs in the pool where its entry was spawned.
    static FIFOS: Fifos = const { RefCell::new(Vec::new()) };
}

fn fifo_of(part: usize) -> Arc<Fifo<Entry>> {
    let find = |fifos: &Fifos| {
        let mut fifos = fifos.borrow_mut();
        if let Some((_, fifo)) = fifos.iter().find(|fifo| fifo.0 == part) {
            return Arc::clone(fifo);
        }
        // Without tokens, maybe of pools that have gone.
        fifos.retain(|(_, fifo)| Arc::strong_count(fifo) > 1);
        let fifo = Arc::default();
        fifos.push((part, Arc::clone(&fifo)));
        fifo
    };
    // In the destructor of another thread-local there is no order to keep any more.
    FIFOS.try_with(find).unwrap_or_default()
}

pub(crate) fn spawn_fifo_here(here: Here<'_>, place: Place, func: impl FnOnce() + Send + 'static) {
    // It may run by the token of another, but not in its context.
    let context = Snapshot::capture();
    let fifo = fifo_of(here.part());
    fifo.push(Box::new(move || context.run(func)));
    here.spawn(place, move || fifo.pop()());
}

/// As [`spawn_fifo`], in this pool.
pub(crate) fn spawn_fifo_in(team: &Team, place: Place, func: impl FnOnce() + Send + 'static) {
    with_here(|here| match here.filter(|here| here.is_of(team)) {
        Some(here) => spawn_fifo_here(here, place, func),
        None => team.spawn(place, func),
    })
}
