//! Scope locals: what the code that runs now inherited from the code that forked, spawned or
//! attached it.
//!
//! One word per thread, the *context*: null, or a pointer to a [`Frame`], which holds the values
//! of all locals that are bound, in slots by key. To bind is to copy the frame with one slot changed, on
//! the stack; to read is to load the context and a slot, however deep the bindings nest. A fork carries
//! the word of the code that forked it; the thief of a fork runs it under that word and puts its own back
//! afterwards. Run in place, a fork touches nothing. That is what makes inheritance free: the frame is on
//! the stack of code that outlives all forks made within it.
//!
//! What may outlive its spawner (spawned tasks, continuations) takes a [`Snapshot`] along: a frame on the
//! heap that shares the values, made once for each frame that is asked for one.
//!
//! A frame also names the running task, for [`killed`](crate::killed).
//!
//! The flat frame is .NET's `AsyncLocal` map without the map; the word in every job is how rustc's thread
//! pool keeps its context; that inheriting replaces all bindings is how the JDK's `ScopedValue` does it.
//!
//! # Invariants
//!
//! - **X1** While a word is the context of a thread, or of a fork or scope that has not ended, its frame
//!   lives: it is on the stack of a function that has not returned, or in a snapshot that is held.
//! - **X2** A slot of a frame points to a value of its key's type, or is null. It lives as long as the frame: it
//!   is borrowed by whoever bound it, or shared by whoever holds the frame.
//! - **X3** The context is changed back before what it pointed to goes. So no code of the user's, `Drop`
//!   included, runs while the context points to what is being dropped.

mod block;
mod follow;
mod frame;
mod key;
#[cfg(not(raddle_loom))]
mod scoped;
mod snapshot;
#[cfg(all(feature = "tracing", not(raddle_loom)))]
pub(crate) mod tracing;
#[cfg(not(raddle_loom))]
pub(crate) mod within;

use std::cell::Cell;
use std::ptr;

#[cfg(not(raddle_loom))]
pub(crate) use self::follow::on_activation;
pub(crate) use self::follow::{Captured, Entered, ForkCaptures, open_fork};
#[cfg(not(raddle_loom))]
pub use self::follow::{Follow, follow};
pub(crate) use self::follow::{active as is_followed, capture as capture_followed};
pub(crate) use self::frame::Frame;
#[cfg(not(raddle_loom))]
pub use self::scoped::{Binding, BindingRef, Bindings, ScopeLocal};
pub use self::snapshot::Snapshot;
pub(crate) use self::snapshot::{Capture, Context};

raddle_sync::thread_local! {
    /// Where the context of this thread is: in the region of the worker that it is, or null.
    static PLACE: Cell<*const Cell<usize>> = const { Cell::new(ptr::null()) };
}
raddle_sync::thread_local! {
    /// The context of a thread that is no worker.
    static OWN: Cell<usize> = const { Cell::new(0) };
}

/// The context of the running code.
#[inline(always)]
pub(crate) fn current() -> usize {
    // SAFETY: set by `enter`, to a place that lives until it is set back.
    match unsafe { PLACE.with(Cell::get).as_ref() } {
        Some(place) => place.get(),
        None => OWN.with(Cell::get),
    }
}

/// A thread, while it lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thread(*const Cell<usize>);

impl Thread {
    const NONE: Thread = Thread(ptr::null());

    #[inline(always)]
    fn current() -> Thread {
        Thread(OWN.with(ptr::from_ref))
    }

    #[inline(always)]
    fn is_current(self) -> bool {
        ptr::eq(self.0, Thread::current().0)
    }
}

/// Where the context of this thread is, while no place is entered or left.
#[derive(Clone, Copy)]
struct Place(*const Cell<usize>);

impl Place {
    #[inline(always)]
    fn here() -> Place {
        let place = PLACE.with(Cell::get);
        Place(if place.is_null() { OWN.with(ptr::from_ref) } else { place })
    }

    #[inline(always)]
    fn context(&self) -> &Cell<usize> {
        // SAFETY: as in `current`.
        unsafe { &*self.0 }
    }
}

/// From now on the context of this thread is in `place`. To be called again with what it returns before
/// the place goes.
pub(crate) fn enter(place: *const Cell<usize>) -> *const Cell<usize> {
    PLACE.with(|p| p.replace(place))
}

/// Whether the running code has no context, and nothing follows it.
#[inline(always)]
pub(crate) fn is_outside() -> bool {
    current() == 0 && !is_followed()
}

/// Calls `f`, which does not unwind, in no context.
pub(crate) fn outside<R>(f: impl FnOnce() -> R) -> R {
    let _entered = Entered::by(|| None);
    // SAFETY: none.
    let _restore = unsafe { Restore::after(0) };
    f()
}

/// What code that is attached or spawned now takes along.
#[inline(always)]
pub(crate) fn capture() -> Context {
    // SAFETY: X1.
    let frame = unsafe { Frame::of_word(current()) };
    // As in a task that was spawned where nothing is bound.
    let nothing = frame.is_none_or(Frame::binds_nothing) && !is_followed();
    if nothing { Context::default() } else { capture_all() }
}

#[cold]
#[inline(never)]
fn capture_all() -> Context {
    let context = match current() {
        0 => Context::default(),
        // SAFETY: X1.
        word => unsafe { Frame::of_word(word) }.map_or_else(Context::default, Frame::capture),
    };
    if is_followed() { context.with_captured(capture_followed()) } else { context }
}

/// Puts a context back, also when a panic passes.
pub(crate) struct Restore {
    place: Place,
    before: usize,
}

impl Restore {
    /// Makes `context` current until this is dropped.
    ///
    /// # Safety
    ///
    /// X1. Whatever place is entered meanwhile is left again.
    #[inline(always)]
    pub(crate) unsafe fn after(context: usize) -> Restore {
        // SAFETY: contract.
        unsafe { Restore::at(Place::here(), context) }
    }

    /// The same for a thread that knows its place: it was entered last.
    ///
    /// # Safety
    ///
    /// As [`Restore::after`]; the place lives as long as this.
    #[inline(always)]
    pub(crate) unsafe fn within(place: *const Cell<usize>, context: usize) -> Restore {
        debug_assert!(ptr::eq(place, PLACE.with(Cell::get)));
        // SAFETY: contract.
        unsafe { Restore::at(Place(place), context) }
    }

    /// The same for this thread's place.
    ///
    /// # Safety
    ///
    /// As [`Restore::after`].
    #[inline(always)]
    unsafe fn at(place: Place, context: usize) -> Restore {
        let before = place.context().replace(context);
        Restore { place, before }
    }
}

impl Drop for Restore {
    #[inline(always)]
    fn drop(&mut self) {
        self.place.context().set(self.before);
    }
}
