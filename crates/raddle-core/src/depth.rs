//! How deep a thread is in calls that nest without bound.
//!
//! A call that completes something may lead to another that does, and so on. When nested ones have taken [`DEEPEST`] bytes of
//! stack, or it is nearly full, further ones are *put off*, and run when the outermost is over: by the floor above, which
//! knows what they are ([`Later`]).
//!
//! What a thread has put off somebody may wait for: the thread itself, or whom it waits for. So it does not keep it while
//! it waits, and as it may be anything, it does not run it on top of its own stack either: it hands all of it over to
//! another thread ([`flush`]). A job that runs on top of a wait is not part of what waits beneath: it has a depth of its
//! own ([`fresh`]).
//!
//! # Invariants
//!
//! - **T2** A thread where nothing of the kind is running has put nothing off, and where `fresh` begins nothing is put off beneath.
//! - **T3** A thread that blocks for a future, a fork, a scope, or a lock or condition of raddle's, or in `blocking`, has put nothing
//!   off: neither what it put off since it began with what it is running, nor what is to follow that. Whatever is put off can run on
//!   any thread, once.

use std::cell::Cell;
use std::sync::OnceLock;

/// What a thread has put off, for those who have to see to it.
#[derive(Clone, Copy)]
pub(crate) struct Later {
    /// Runs it, and what that puts off.
    pub(crate) drain: fn(),
    /// Has another thread run it.
    pub(crate) hand_over: fn(),
}

/// Set before anything is put off.
static LATER: OnceLock<Later> = OnceLock::new();

/// How much stack nested walks take, with the closures that they call. (Models have little.)
const DEEPEST: usize = if cfg!(raddle_model) { 8 << 10 } else { 256 << 10 };
/// The same where nobody knows how much there is: on a coroutine's, or where the system does not tell.
const BLIND: usize = 16 << 10;
/// How much of it they take without a look at how much there is.
const SHALLOW: usize = 4 << 10;
/// How much stack is to be left.
const STACK_LEFT: usize = 64 << 10;

// In a floor, which is a multiple of 4:
/// Something has been put off.
const QUEUED: usize = 1;
/// The stack has been looked at: it does not get lower.
const LOOKED: usize = 2;

raddle_sync::thread_local! {
    /// The lowest place on the stack where a level may begin, if one is open.
    static FLOOR: Cell<usize> = const { Cell::new(0) };
}

/// A level of nesting. To be given to [`leave`], which a panic does not pass.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Outermost,
    Nested,
}

/// About where the stack pointer is.
#[inline(always)]
fn here() -> usize {
    let here = 0_u8;
    // Under Miri no place on the stack is below another.
    if cfg!(miri) { DEEPEST } else { (&raw const here).addr() }
}

/// Goes one level deeper; none if this is the limit.
#[inline(always)]
pub(crate) fn enter() -> Option<Level> {
    let (here, floor) = (here(), FLOOR.with(Cell::get));
    if floor & !QUEUED == 0 {
        return Some(enter_anyway(here, floor));
    }
    // Neither below the floor, nor on another stack.
    let fits = here.wrapping_sub(floor) < DEEPEST || may_dig(here, floor);
    fits.then_some(Level::Nested)
}

#[inline(always)]
fn enter_anyway(here: usize, floor: usize) -> Level {
    if floor & !QUEUED != 0 {
        return Level::Nested;
    }
    set_floor(here.saturating_sub(SHALLOW), floor & QUEUED);
    Level::Outermost
}

#[inline(always)]
fn set_floor(place: usize, flags: usize) {
    FLOOR.with(|f| f.set((place & !(QUEUED | LOOKED)).max(4) | flags));
}

/// Puts the floor as low as it may be, once; whether `here` is above that now.
#[cold]
fn may_dig(here: usize, floor: usize) -> bool {
    // On another stack it would be the end of that.
    if floor & LOOKED != 0 || floor.wrapping_sub(here) >= DEEPEST {
        return false;
    }
    let below = |depth: usize| floor.saturating_sub(depth - SHALLOW);
    let lowest = match stack_left() {
        Some(left) => below(DEEPEST).max(here.saturating_sub(left).saturating_add(STACK_LEFT)),
        None => below(BLIND),
    };
    set_floor(lowest, floor & QUEUED | LOOKED);
    here.wrapping_sub(FLOOR.with(Cell::get)) < DEEPEST
}

/// Leaves a level.
#[inline(always)]
pub(crate) fn leave(level: Level) {
    if level == Level::Outermost {
        let floor = FLOOR.with(|f| f.replace(0));
        if floor & QUEUED != 0 {
            drain();
        }
    }
}

/// One level more, whether this is the limit or not.
pub(crate) fn enter_further() -> Level {
    enter_anyway(here(), FLOOR.with(Cell::get))
}

/// Calls `f`, which does not unwind, as if this were the limit: what it completes is done at once, and what that leads to is put off
/// until `f` is over. For whoever completes several things of which one may lead to a wait for another.
pub(crate) fn at_limit<R>(f: impl FnOnce() -> R) -> R {
    let level = enter_further();
    let floor = FLOOR.with(|f| f.replace(usize::MAX & !QUEUED | f.get() & QUEUED));
    let result = f();
    FLOOR.with(|f| f.set(floor & !QUEUED | f.get() & QUEUED));
    leave(level);
    result
}

/// This thread has put something off.
pub(crate) fn has_more(later: Later) {
    LATER.get_or_init(|| later);
    FLOOR.with(|f| f.set(f.get() | QUEUED));
}

/// To be called by `drain` before it runs the next thing: as if that were the outermost. Whether there is `more` to come.
pub(crate) fn turn_to_next(more: bool) {
    set_floor(here().saturating_sub(SHALLOW), if more { QUEUED } else { 0 });
}

/// To be called by `drain` at its end.
pub(crate) fn nothing_left() {
    FLOOR.with(|f| f.set(0));
}

/// How much stack there is, if that is known.
fn stack_left() -> Option<usize> {
    // Loom's threads have stacks of their own.
    if cfg!(raddle_loom) { Some(usize::MAX) } else { raddle_sync::stack::known() }
}

/// Calls `f` one level deeper, or `deep` if this is the limit. Neither unwinds.
#[inline(always)]
pub(crate) fn nested<S, R>(state: S, f: impl FnOnce(S) -> R, deep: impl FnOnce(S) -> R) -> R {
    let Some(level) = enter() else { return deep(state) };
    let result = f(state);
    leave(level);
    result
}

/// Before the thread waits: hands over what it has put off, as somebody may wait for just that (T3).
#[inline]
pub(crate) fn flush() {
    if has_put_off() {
        hand_over();
    }
}

#[cold]
fn hand_over() {
    FLOOR.with(|f| f.set(f.get() & !QUEUED));
    if let Some(later) = LATER.get() {
        (later.hand_over)();
    }
}

#[cold]
fn drain() {
    if let Some(later) = LATER.get() {
        (later.drain)();
    }
}

#[inline]
pub(crate) fn has_put_off() -> bool {
    FLOOR.with(Cell::get) & QUEUED != 0
}

/// Calls `f`, which does not unwind, as if nothing ran beneath: what it completes is nested in nothing, and what that puts
/// off is done when this returns. For whatever a waiting thread runs on top of its stack.
pub(crate) fn fresh<R>(f: impl FnOnce() -> R) -> R {
    // A thread that waits has flushed already, any other does so now (T2).
    flush();
    let floor = FLOOR.with(|f| f.replace(0));
    let result = f();
    settle();
    FLOOR.with(|f| f.set(floor));
    result
}

/// Between two jobs that run as `f` of [`fresh`] one after the other: does what the first has put off.
#[inline]
pub(crate) fn settle() {
    if FLOOR.with(Cell::get) != 0 {
        drain();
    }
}
