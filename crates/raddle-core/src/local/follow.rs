//! What else follows tasks: state of other libraries that belongs to a thread and should belong to a task.
//!
//! Such state changes without our knowledge, so what a task is to take along has to be asked for when it
//! is made. For tasks and continuations that is one look at [`active`]. A fork must not even have that: once
//! something follows tasks, all pushes and pops of forks take their slow paths (see `fork_stack`), and those see
//! to it.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::ptr;
use std::sync::OnceLock;

#[cfg(not(raddle_model))]
use raddle_sync::atomic::{AtomicBool, Ordering};

#[cfg(all(feature = "tracing", not(raddle_loom)))]
use super::tracing::{Here, Moved};
use crate::panics::{contain, discard};

/// State of a thread that is to follow tasks: made known by [`follow`].
///
/// What tasks see of other libraries' thread-locals (the current span of a tracing library, its context) is that
/// of the thread which happens to run them. A `Follow` says how to take such state along: whenever a task is
/// forked, spawned or attached, [`capture`](Follow::capture) is called where that is done, and
/// [`enter`](Follow::enter) around the task, if it is run by other code than that which made it.
///
/// Panics of these functions are reported by the panic hook and go no further. Should they fork or spawn
/// themselves, nothing follows those tasks.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say what is to follow tasks",
    label = "does not implement `Follow`",
    note = "a value that every task is to inherit is bound by `raddle::scope_local!`; a `Follow` takes along state of other libraries"
)]
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
#[cfg(not(raddle_model))]
static ACTIVE: AtomicBool = AtomicBool::new(false);
/// See [`on_activation`].
#[cfg(not(raddle_model))]
static HEED: OnceLock<fn()> = OnceLock::new();

/// Has some state of threads follow all tasks that are made from now on, in all pools, until the program ends.
///
/// From then on a fork costs some 30 to 50 ns and what the captures take; until then, nothing.
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
#[track_caller]
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
#[inline]
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
    #[cfg(not(raddle_model))]
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
    #[cfg(not(raddle_model))]
    return ACTIVE.load(Ordering::Relaxed);
    #[cfg(raddle_model)]
    false
}

/// In place of spans where none are known.
#[cfg(not(all(feature = "tracing", not(raddle_loom))))]
enum Here {}

#[cfg(not(all(feature = "tracing", not(raddle_loom))))]
struct Moved;

#[cfg(not(all(feature = "tracing", not(raddle_loom))))]
impl Here {
    fn hold() -> Option<Here> {
        None
    }

    fn borrow() -> Option<Here> {
        None
    }

    fn enter(_: Option<&Here>) -> Moved {
        Moved
    }
}

fn followers() -> impl Iterator<Item = &'static dyn Erased> {
    FOLLOWERS.iter().map_while(|place| place.get().map(|follower| &**follower))
}

/// What a task takes along: its span, and what each follower has captured.
#[derive(Default)]
pub(crate) struct Captured {
    span: Option<Here>,
    states: States,
}

/// What a task that is made now takes along. Does not unwind.
pub(crate) fn capture() -> Option<Captured> {
    let mut captured = Captured::default();
    (active() && captured.fill(Here::hold)).then_some(captured)
}

impl Captured {
    /// Captures what is to follow, into an empty one; whether that is anything. Does not unwind.
    #[inline]
    fn fill(&mut self, here: impl FnOnce() -> Option<Here>) -> bool {
        if CALLING.with(Cell::get) {
            return false;
        }
        call(|| self.span = here());
        if FOLLOWERS[0].get().is_some() {
            self.ask_followers();
        }
        self.span.is_some() || !self.states.0.is_empty()
    }

    #[cold]
    fn ask_followers(&mut self) {
        for (i, follower) in followers().enumerate() {
            if let Some(state) = call(|| follower.capture()).flatten() {
                self.states.0.resize_with(i, || None);
                self.states.0.push(Some(state));
            }
        }
    }
}

/// What followers have captured, each in its place.
#[derive(Default)]
struct States(Vec<Option<State>>);

impl Drop for States {
    #[inline]
    fn drop(&mut self) {
        if !self.0.is_empty() {
            self.let_go();
        }
    }
}

impl States {
    #[cold]
    fn let_go(&mut self) {
        self.0.drain(..).for_each(|state| end_theirs(|| drop(state)));
    }
}

/// Calls what ends something of a follower's, which may be within the call of another.
pub(super) fn end_theirs(end: impl FnOnce()) {
    let calling = CALLING.with(|calling| calling.replace(true));
    contain(end);
    CALLING.with(|c| c.set(calling));
}

impl fmt::Debug for Captured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Captured").field(&self.states.0.len()).finish()
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
struct Guards {
    span: Option<Moved>,
    others: Vec<Box<dyn Any>>,
}

impl Guards {
    #[cold]
    fn enter(captured: Option<&Captured>) -> Option<Guards> {
        if CALLING.with(Cell::get) {
            return None;
        }
        let span = call(|| Here::enter(captured.and_then(|captured| captured.span.as_ref())));
        let state = |i: usize| captured?.states.0.get(i)?.as_deref();
        let enter = |(i, follower): (usize, &dyn Erased)| call(|| follower.enter(state(i)));
        let others = followers().enumerate().filter_map(enter).collect();
        Some(Guards { span, others })
    }
}

impl Drop for Guards {
    #[cold]
    fn drop(&mut self) {
        while let Some(guard) = self.others.pop() {
            end_theirs(|| drop(guard));
        }
        end_theirs(|| _ = self.span.take());
    }
}

/// What a fork takes along, while it may be stolen: instead of a context word it holds a pointer to this, with [`TAG`]
/// set.
#[derive(Debug, Default)]
struct ForkCapture {
    slot: usize,
    context: usize,
    captured: Captured,
}

/// Frames and captures are aligned.
const TAG: usize = 1;

/// The context of a fork from what it holds, and what else it took along.
///
/// # Safety
///
/// By the fork's thief, before it sets `done`.
pub(crate) unsafe fn open_fork<'a>(word: usize) -> (usize, Option<&'a Captured>) {
    if word & TAG == 0 {
        return (word, None);
    }
    let capture = ptr::with_exposed_provenance::<ForkCapture>(word & !TAG);
    // SAFETY: the fork's owner keeps it until the fork is over (contract).
    let capture = unsafe { &*capture };
    (capture.context, Some(&capture.captured))
}

/// What the forks of a worker have taken along, oldest first. It stays where it is until the fork is over.
#[derive(Debug, Default)]
pub(crate) struct ForkCaptures {
    #[expect(clippy::vec_box, reason = "thieves have pointers to them")]
    places: Vec<Box<ForkCapture>>,
    /// So many of the places are in use.
    used: usize,
}

impl ForkCaptures {
    /// Captures what the fork of a slot takes along, which is above all others here; what the fork is to hold. It ends before
    /// the code that makes it goes on, and so before its span is left.
    #[inline]
    pub(crate) fn push(&mut self, slot: usize, context: usize) -> usize {
        if self.used == self.places.len() {
            self.grow();
        }
        let place = &mut *self.places[self.used];
        (place.slot, place.context) = (slot, context);
        if !place.captured.fill(Here::borrow) {
            return context;
        }
        self.used += 1;
        ptr::from_ref(place).expose_provenance() | TAG
    }

    #[cold]
    fn grow(&mut self) {
        self.places.push(Box::default());
    }

    /// Takes the newest out, if it is of this slot or one above.
    #[inline]
    pub(crate) fn pop(&mut self, slot: usize) -> Option<Captured> {
        let last = self.used.checked_sub(1)?;
        let place = self.places.get_mut(last).filter(|place| place.slot >= slot)?;
        self.used = last;
        Some(mem::take(&mut place.captured))
    }
}
