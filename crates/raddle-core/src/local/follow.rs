//! What else follows tasks: state of other libraries that belongs to a thread and should belong to a task.
//!
//! Such state changes without our knowledge, so what a task is to take along has to be asked for when it
//! is made. For tasks and continuations that is one look at [`active`]. A fork must not even have that: once
//! something follows tasks, each fork stack is kept open (see `fork_stack`), so that all pushes and pops take
//! their slow paths, and those see to it.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::OnceLock;

#[cfg(not(any(raddle_loom, raddle_shuttle)))]
use raddle_sync::atomic::{AtomicBool, Ordering};

use crate::panics::discard;

/// State of a thread that is to follow tasks: made known by [`follow`].
///
/// What tasks see of other libraries' thread-locals (the current span of a tracing library, its context) is that
/// of the thread which happens to run them. A `Follow` says how to take such state along: whenever a task is
/// forked, spawned or attached, [`capture`](Follow::capture) is called where that is done, and
/// [`enter`](Follow::enter) around the task, if it is run by other code than that which made it.
///
/// Panics of these functions are reported by the panic hook and go no further. Should they fork or spawn
/// themselves, nothing follows those tasks.
pub trait Follow: Send + Sync + 'static {
    /// What a task takes along.
    type State: Send + Sync + 'static;
    /// Undoes what [`enter`](Follow::enter) did when it is dropped, on the same thread. Guards are dropped
    /// in the reverse order of entering.
    type Guard: 'static;

    /// What a task made now takes along; none if there is nothing.
    fn capture(&self) -> Option<Self::State>;

    /// Puts the state in place of what this thread has, or hides what the thread has if there is none: what runs
    /// next has nothing to do with the code that waits here for it.
    fn enter(&self, state: Option<&Self::State>) -> Self::Guard;
}

type State = Box<dyn Any + Send + Sync>;

trait Erased: Send + Sync {
    fn capture(&self) -> Option<State>;
    fn enter(&self, state: Option<&(dyn Any + Send + Sync)>) -> Box<dyn Any>;
}

impl<F: Follow> Erased for F {
    fn capture(&self) -> Option<State> {
        Some(Box::new(Follow::capture(self)?))
    }

    fn enter(&self, state: Option<&(dyn Any + Send + Sync)>) -> Box<dyn Any> {
        Box::new(Follow::enter(self, state.and_then(|state| state.downcast_ref())))
    }
}

const MOST: usize = 8;

static FOLLOWERS: [OnceLock<Box<dyn Erased>>; MOST] = [const { OnceLock::new() }; MOST];
/// In models nothing follows tasks.
#[cfg(not(any(raddle_loom, raddle_shuttle)))]
static ACTIVE: AtomicBool = AtomicBool::new(false);
/// See [`on_activation`].
#[cfg(not(any(raddle_loom, raddle_shuttle)))]
static HEED: OnceLock<fn()> = OnceLock::new();

/// Has some state of threads follow all tasks that are made from now on, in all pools, until the program ends.
///
/// From then on a fork costs some 50 ns and what the captures take; until then, nothing.
///
/// The feature `tracing` does this for the spans of the crate `tracing`. The example `opentelemetry` of the crate
/// `raddle` does it for contexts of OpenTelemetry.
///
/// ```
/// use std::cell::Cell;
/// use raddle::{Follow, follow, spawn};
///
/// thread_local! { static REQUEST: Cell<u32> = const { Cell::new(0) }; }
///
/// struct Request;
/// struct Back(u32);
///
/// impl Follow for Request {
///     type State = u32;
///     type Guard = Back;
///     fn capture(&self) -> Option<u32> {
///         Some(REQUEST.get())
///     }
///     fn enter(&self, state: Option<&u32>) -> Back {
///         Back(REQUEST.replace(state.copied().unwrap_or(0)))
///     }
/// }
///
/// impl Drop for Back {
///     fn drop(&mut self) {
///         REQUEST.set(self.0);
///     }
/// }
///
/// follow(Request);
/// REQUEST.set(7);
/// assert_eq!(spawn(|| REQUEST.get()).wait().unwrap(), 7);
/// ```
///
/// # Panics
///
/// If there are eight already.
pub fn follow(what: impl Follow) {
    let mut what: Box<dyn Erased> = Box::new(what);
    for place in &FOLLOWERS {
        match place.set(what) {
            Ok(()) => return activate(),
            Err(taken) => what = taken,
        }
    }
    panic!("raddle: no more than {MOST} things can follow tasks");
}

raddle_sync::thread_local! {
    /// A follower is being called, which may fork and spawn itself: nothing follows that.
    static CALLING: Cell<bool> = const { Cell::new(false) };
}

/// Calls a follower, which may panic.
fn call<R>(f: impl FnOnce() -> R) -> Option<R> {
    CALLING.with(|calling| calling.set(true));
    let result = panic::catch_unwind(AssertUnwindSafe(f)).map_err(discard).ok();
    CALLING.with(|calling| calling.set(false));
    result
}

/// `heed` is called on each thread from which something is made to follow tasks, for the forks that it has. Pools say
/// so before they have threads.
#[cfg(not(raddle_loom))]
pub(crate) fn on_activation(heed: fn()) {
    #[cfg(not(raddle_shuttle))]
    let _ = HEED.set(heed);
    #[cfg(raddle_shuttle)]
    let _ = heed;
}

/// From now on tasks are asked what they take along.
pub(crate) fn activate() {
    #[cfg(not(any(raddle_loom, raddle_shuttle)))]
    {
        // ORD: whoever does not know that this was called before need not know it yet.
        ACTIVE.store(true, Ordering::Relaxed);
        if let Some(heed) = HEED.get() {
            heed();
        }
    }
}

/// Whether anything follows tasks.
#[inline(always)]
pub(crate) fn active() -> bool {
    #[cfg(not(any(raddle_loom, raddle_shuttle)))]
    return ACTIVE.load(Ordering::Relaxed);
    #[cfg(any(raddle_loom, raddle_shuttle))]
    false
}

fn followers() -> impl Iterator<Item = &'static dyn Erased> {
    #[cfg(all(feature = "tracing", not(raddle_loom)))]
    let ours = std::iter::once::<&dyn Erased>(&super::tracing::Spans);
    #[cfg(not(all(feature = "tracing", not(raddle_loom))))]
    let ours = std::iter::empty();
    ours.chain(FOLLOWERS.iter().map_while(|place| place.get().map(|follower| &**follower)))
}

/// What a task takes along: what each follower has captured.
pub(crate) struct Captured(Vec<Option<State>>);

/// What a task that is made now takes along. Does not unwind.
pub(crate) fn capture() -> Option<Captured> {
    if !active() || CALLING.with(Cell::get) {
        return None;
    }
    let states: Vec<_> = followers().map(|follower| call(|| follower.capture())?).collect();
    states.iter().any(Option::is_some).then_some(Captured(states))
}

impl Drop for Captured {
    fn drop(&mut self) {
        self.0.drain(..).for_each(drop_theirs);
    }
}

/// Drops what is a follower's, which may be within the call of another.
fn drop_theirs<T>(theirs: T) {
    let calling = CALLING.with(|calling| calling.replace(true));
    discard(theirs);
    CALLING.with(|c| c.set(calling));
}

impl fmt::Debug for Captured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Captured").field(&self.0.len()).finish()
    }
}

/// Has the thread back what it had when it is dropped.
#[must_use]
pub(crate) struct Entered {
    _guards: Option<Guards>,
}

impl Entered {
    /// Enters what a task took along, or hides what the thread has. Does not unwind.
    #[inline]
    pub(crate) fn by<'a>(captured: impl FnOnce() -> Option<&'a Captured>) -> Entered {
        Entered { _guards: if active() { Guards::enter(captured()) } else { None } }
    }
}

/// In the order of entering.
struct Guards(Vec<Box<dyn Any>>);

impl Guards {
    #[cold]
    fn enter(captured: Option<&Captured>) -> Option<Guards> {
        if CALLING.with(Cell::get) {
            return None;
        }
        let state = |i: usize| captured?.0.get(i)?.as_deref();
        let enter = |(i, follower): (usize, &dyn Erased)| call(|| follower.enter(state(i)));
        Some(Guards(followers().enumerate().filter_map(enter).collect()))
    }
}

impl Drop for Guards {
    #[cold]
    fn drop(&mut self) {
        while let Some(guard) = self.0.pop() {
            drop_theirs(guard);
        }
    }
}

/// What a fork takes along, while it may be stolen: instead of a context word, a pointer to this
/// with [`TAG`] set.
#[derive(Debug)]
pub(crate) struct ForkCapture {
    context: usize,
    captured: Captured,
}

/// Frames and capture are aligned.
const TAG: usize = 1;

impl ForkCapture {
    pub(crate) fn new(context: usize, captured: Captured) -> Box<ForkCapture> {
        Box::new(ForkCapture { context, captured })
    }

    /// What the fork holds.
    pub(crate) fn word(&self) -> usize {
        (self as *const ForkCapture).expose_provenance() | TAG
    }

    /// The context of a fork from what it holds, and what else it took along.
    ///
    /// # Safety
    ///
    /// By the fork's thief, before it sets `done`.
    pub(crate) unsafe fn open<'a>(word: usize) -> (usize, Option<&'a Captured>) {
        if word & TAG == 0 {
            return (word, None);
        }
        let capture = std::ptr::with_exposed_provenance::<ForkCapture>(word & !TAG);
        // SAFETY: the fork's owner keeps it until the fork is over (contract).
        let capture = unsafe { &*capture };
        (capture.context, Some(&capture.captured))
    }
}
