//! Running continuations: on the thread that completes, one after the other, never one inside the
//! other without bound.
//!
//! A *walk* goes from a completed node to its continuation, runs that, which completes it, and so on, in a
//! loop. A continuation that itself completes a promise starts a walk inside the walk; when nested walks have taken
//! [`DEEPEST`] bytes of stack, or it is nearly full, further ones are *put off*, and run when the outermost
//! is over. So the stack is bounded whatever the graph. What was put off runs depth first,
//! as if it were nested: what it puts off in its turn comes before what follows it. Drops come first of all. Calls of
//! closures that return futures on satisfied ones count as well: that makes `flat_map` recursion on constants a loop.
//!
//! What a thread has put off somebody may wait for: the thread itself, or whom it waits for. So it does not keep it while
//! it waits, and as it may be anything, it does not run it on top of its own stack either: it hands all of it over to
//! another thread ([`flush`]). A job that runs on top of a wait is not part of what waits beneath: it has a depth of its
//! own ([`fresh`]).
//!
//! A node that is *forsaken*, as it has become a future that is never done, leads on downstream in the same way: what is
//! attached there drops its closure, and forsakes its own.
//!
//! # Invariants
//!
//! - **T1** A node that is upstream of others is freed when the walk that passed it is over, after those
//!   downstream of it: see F3 in `state` and `upstream`.
//! - **T2** A thread where no walk is running has put nothing off, and where `fresh` begins nothing is put off beneath.
//! - **T3** A thread that blocks for a future, a fork, a scope, or a lock or condition of raddle's, or in `blocking`, has put nothing
//!   off: neither what it put off since it began with what it is running, nor what is to follow that. Whatever is put off can run on
//!   any thread, once: nodes, and what they hold, are `Send`.
//! - **T4** What is put off is run in its order, by one thread at a time; but for what a thread puts off as it ends, which goes
//!   to others at once.

use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::sync::Arc;

use raddle_sync::sync::Arc as SeamArc;

use crate::future::failure::Failure;
use crate::future::garbage::{Garbage, Rubbish};
use crate::future::interrupt::Interrupt;
use crate::future::interrupt_node::{InterruptNode, Interrupts, is_interrupt_node};
use crate::future::node::{self, Head, NodeRef};
use crate::future::state::Outcome;
use crate::future::upstream::{Found, Inputs};
use crate::future::wait::host;
use crate::future::watch::{self, Watch};
use crate::local;
use crate::panics::{contain, discard};

/// Where a walk begins: `from` is done and `node` takes its result.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Next {
    pub(crate) node: NonNull<Head>,
    pub(crate) from: NodeRef,
    pub(crate) outcome: Outcome,
}

/// A walk, at a node that is done.
#[derive(Debug)]
pub(crate) struct Walk {
    from: NodeRef,
    outcome: Outcome,
    garbage: Garbage,
}

impl Walk {
    /// Takes the result of the node where the walk is, for the continuation, and frees the node.
    ///
    /// # Safety
    ///
    /// Once at each node, by its continuation; it is the node of a future of `T`.
    #[inline]
    pub(crate) unsafe fn take<T>(&mut self) -> Result<T, Failure> {
        // SAFETY: contract: it is done (F1).
        let result = unsafe { self.from.take::<T>(self.outcome) };
        // SAFETY: contract: the continuation is in the consumer's place.
        unsafe { self.from.consumed::<T>(self) };
        result
    }

    /// Completes a node, and goes there if somebody takes its result.
    ///
    /// # Safety
    ///
    /// As [`node::conclude`].
    #[inline(always)]
    pub(crate) unsafe fn conclude<T>(
        &mut self,
        node: NodeRef,
        result: Result<T, Failure>,
    ) -> Option<NonNull<Head>> {
        // SAFETY: contract.
        let next = unsafe { node::conclude(node, result) }?;
        self.from = node;
        self.outcome = next.outcome;
        Some(next.node)
    }

    /// Leaves a node for good, and so on downstream.
    ///
    /// # Safety
    ///
    /// As [`node::forsake`].
    #[cold]
    pub(crate) unsafe fn forsake<T>(&mut self, node: NodeRef) {
        // SAFETY: contract.
        let mut next = unsafe { self.leave::<T>(node) };
        while let Some(node) = next {
            // SAFETY: F2: attached nodes are alive until they are told.
            let head = unsafe { node.as_ref() };
            let Some(forsaken) = head.table().forsaken else { unreachable!("it hears of that") };
            // SAFETY: told once, by who forsakes what it is attached to.
            next = unsafe { forsaken(node, self) };
        }
    }

    /// Leaves one node for good, and goes there if somebody is attached.
    ///
    /// # Safety
    ///
    /// As [`node::forsake`].
    pub(crate) unsafe fn leave<T>(&mut self, node: NodeRef) -> Option<NonNull<Head>> {
        // SAFETY: contract.
        let next = unsafe { node::forsake::<T>(node) }?;
        self.from = node;
        Some(next)
    }

    /// Frees the node where the walk is, whose slot is empty; as [`take`](Walk::take), for one that will never be done.
    ///
    /// # Safety
    ///
    /// As there.
    pub(crate) unsafe fn pass<T>(&mut self) {
        // SAFETY: contract: the continuation is in the consumer's place.
        unsafe { self.from.consumed::<T>(self) };
    }

    /// Frees a node when the walk is over.
    #[inline]
    pub(crate) fn push(&mut self, node: NonNull<u8>, free: unsafe fn(NonNull<u8>)) {
        self.garbage.push(Rubbish { node, free });
    }

    /// The same for a node of `flat_map` and its like, whose slot is empty.
    ///
    /// # Safety
    ///
    /// It is alive, and nobody else uses the slot.
    #[inline]
    pub(crate) unsafe fn push_linked(&mut self, node: NonNull<Head>) {
        // SAFETY: contract.
        unsafe { self.garbage.push_linked(node) };
    }
}

/// What waits for the thread to be less deep.
enum Deferred {
    Walk(Next),
    Tell(NodeRef, unsafe fn(NodeRef)),
    Drop(NodeRef, unsafe fn(NodeRef)),
    Abandon(Arc<dyn Inputs>),
    Told(Arc<dyn Watch>, usize),
    Interrupt(Box<(Found, Interrupt)>),
    LetGo(SeamArc<Interrupts>),
    LetGoOfSource(Arc<dyn Watch>),
    LetGoOfSignal(Interrupt),
}

impl Deferred {
    fn is_drop(&self) -> bool {
        use Deferred::{Abandon, Drop, LetGo, LetGoOfSignal, LetGoOfSource};
        matches!(self, Drop(..) | Abandon(_) | LetGo(_) | LetGoOfSource(_) | LetGoOfSignal(_))
    }

    fn run(self) {
        match self {
            Deferred::Walk(Next { node, from, outcome }) => walk(node, from, outcome),
            // SAFETY: by who deferred it.
            Deferred::Tell(node, f) | Deferred::Drop(node, f) => unsafe { f(node) },
            Deferred::Abandon(inputs) => abandon_now(inputs),
            Deferred::Told(watch, index) => watch::tell(watch, index),
            Deferred::Interrupt(both) => {
                let (found, signal) = *both;
                let _ = found.interrupt_now(&signal);
            }
            Deferred::LetGo(interrupts) => discard(interrupts),
            Deferred::LetGoOfSource(source) => discard(source),
            Deferred::LetGoOfSignal(signal) => discard(signal),
        }
    }
}

/// How much stack nested walks take, with the closures that they call. (Models have little.)
const DEEPEST: usize = if cfg!(any(raddle_loom, raddle_shuttle)) { 8 << 10 } else { 256 << 10 };
/// The same where nobody knows how much there is: on a coroutine's, or where the system does not tell.
const BLIND: usize = 16 << 10;
/// How much of it they take without a look at how much there is.
const SHALLOW: usize = 4 << 10;
/// A thread keeps room for about so many that are put off.
const MANY: usize = 1024;
/// How much stack is to be left.
const STACK_LEFT: usize = 64 << 10;

// In a floor, which is a multiple of 4:
/// Something has been put off.
const QUEUED: usize = 1;
/// The stack has been looked at: it does not get lower.
const LOOKED: usize = 2;

raddle_sync::thread_local! {
    /// The lowest place on the stack where a walk may begin, if one is running.
    static FLOOR: Cell<usize> = const { Cell::new(0) };
}
raddle_sync::thread_local! {
    static LATER: RefCell<Later> = const { RefCell::new(Later { new: Vec::new(), todo: Vec::new() }) };
}

/// What a thread has put off.
struct Later {
    /// By what runs now, in the order in which it was put off.
    new: Vec<Deferred>,
    /// What is to follow that: the first last.
    todo: Vec<Deferred>,
}

impl Later {
    /// Puts what is new before what was there.
    fn merge(&mut self) {
        // What is dropped, such as the result of a continuation that nobody wants, goes first: behind a loop by
        // completions it would pile up.
        self.new.sort_by_key(|deferred| !deferred.is_drop());
        self.todo.extend(self.new.drain(..).rev());
    }

    /// Gives back what much work has taken.
    fn shrink(&mut self) {
        if self.new.capacity() + self.todo.capacity() > MANY {
            self.new.shrink_to(MANY / 4);
            self.todo.shrink_to(MANY / 4);
        }
    }
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
    let lowest = match host::stack_left() {
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

/// Calls `f` one level deeper, or `deep` if this is the limit. Neither unwinds.
#[inline(always)]
fn nested<S, R>(state: S, f: impl FnOnce(S) -> R, deep: impl FnOnce(S) -> R) -> R {
    let Some(level) = enter() else { return deep(state) };
    let result = f(state);
    leave(level);
    result
}

/// Runs what was put off, and what that puts off.
#[cold]
fn drain() {
    loop {
        let (next, more) = LATER.with(|later| {
            let later = &mut *later.borrow_mut();
            later.merge();
            (later.todo.pop(), !later.todo.is_empty())
        });
        let Some(deferred) = next else { break };
        set_floor(here().saturating_sub(SHALLOW), if more { QUEUED } else { 0 });
        deferred.run();
    }
    LATER.with(|later| later.borrow_mut().shrink());
    FLOOR.with(|f| f.set(0));
}

/// Before the thread waits: hands over what it has put off, as somebody may wait for just that (T3).
#[inline]
pub(crate) fn flush() {
    if has_put_off() {
        hand_over();
    }
}

#[inline]
pub(crate) fn has_put_off() -> bool {
    FLOOR.with(Cell::get) & QUEUED != 0
}

#[cold]
fn hand_over() {
    FLOOR.with(|f| f.set(f.get() & !QUEUED));
    let todo = LATER.with(|later| {
        let later = &mut *later.borrow_mut();
        later.merge();
        std::mem::take(&mut later.todo)
    });
    if !todo.is_empty() {
        let load = Load(todo);
        host::hand_over(Box::new(move || load.run()));
    }
}

/// What one thread has put off, on its way to another; the first last.
struct Load(Vec<Deferred>);

// SAFETY: T3.
unsafe impl Send for Load {}

impl Load {
    fn run(self) {
        // The thread is about to end, and nobody else could be found.
        if LATER.try_with(|_| ()).is_err() {
            return self.0.into_iter().rev().for_each(Deferred::run);
        }
        fresh(|| {
            LATER.with(|later| later.borrow_mut().todo = self.0);
            FLOOR.with(|f| f.set(QUEUED));
        });
    }
}

/// Calls `f`, which does not unwind, as if nothing ran beneath: what it completes is nested in nothing, and what that puts
/// off is done when this returns. For whatever a waiting thread runs on top of its stack.
pub(crate) fn fresh<R>(f: impl FnOnce() -> R) -> R {
    // Who waits has flushed; otherwise it has now (T2).
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

/// Tells `watch` of each of these now, one after the other; those that are left when one of them waits are handed over
/// with what is put off.
pub(crate) fn tell_each(watch: &Arc<dyn Watch>, indices: &[usize]) {
    let told = |&index: &usize| Deferred::Told(Arc::clone(watch), index);
    let before = LATER.try_with(|later| {
        let todo = &mut later.borrow_mut().todo;
        let before = todo.len();
        todo.extend(indices.iter().rev().map(told));
        before
    });
    let Ok(before) = before else {
        // The thread is about to end.
        return indices.iter().for_each(|index| told(index).run());
    };
    // They are put off, by what is a level deeper (T2).
    let level = enter_anyway(here(), FLOOR.with(Cell::get));
    FLOOR.with(|f| f.set(f.get() | QUEUED));
    let next = || {
        LATER.with(|later| {
            let todo = &mut later.borrow_mut().todo;
            if todo.len() > before { todo.pop() } else { None }
        })
    };
    while let Some(deferred) = next() {
        deferred.run();
    }
    leave(level);
}

#[cold]
fn defer(deferred: Deferred) {
    let mut deferred = Some(deferred);
    if LATER.try_with(|later| later.borrow_mut().new.extend(deferred.take())).is_ok() {
        FLOOR.with(|f| f.set(f.get() | QUEUED));
    }
    // The thread is about to end, and nothing outside would run it.
    if let Some(deferred) = deferred {
        let load = Load(vec![deferred]);
        host::hand_over(Box::new(move || load.run()));
    }
}

/// Runs continuations from `next` on: now, or soon if this is deep.
#[inline]
pub(crate) fn start(next: Option<Next>) {
    if let Some(next) = next {
        nested(next, |Next { node, from, outcome }| walk(node, from, outcome), defer_walk);
    }
}

/// Leaves a node for good, on behalf of its producer, and so on downstream.
///
/// # Safety
///
/// As [`node::forsake`].
pub(crate) unsafe fn forsake<T>(node: NodeRef) {
    // What is dropped on the way may complete promises.
    let later: unsafe fn(NodeRef) = |node| {
        let mut walk = Walk { from: node, outcome: Outcome::Killed, garbage: Garbage::default() };
        // SAFETY: contract.
        unsafe { walk.forsake::<T>(node) };
        walk.garbage.clear();
    };
    // SAFETY: contract: once, whenever.
    unsafe { drop_node(node, later) };
}

/// Runs continuations from `next` on, when this thread is less deep.
pub(crate) fn defer_walk(next: Next) {
    defer(Deferred::Walk(next));
}

/// Has `tell` called with a part of a combination: now, or soon if this is deep.
///
/// # Safety
///
/// It must be sound to call it, once, on any thread at any later time, and it must not unwind.
pub(crate) unsafe fn tell(node: NodeRef, tell: unsafe fn(NodeRef)) {
    // SAFETY: contract.
    nested(node, |node| unsafe { tell(node) }, |node| defer(Deferred::Tell(node, tell)));
}

/// Calls `drop` on the node: now, or soon if this is deep.
///
/// # Safety
///
/// As for [`tell`].
pub(crate) unsafe fn drop_node(node: NodeRef, drop: unsafe fn(NodeRef)) {
    // SAFETY: contract.
    nested(node, |node| unsafe { drop(node) }, |node| defer(Deferred::Drop(node, drop)));
}

/// Tells a combination that its future has been dropped: now, or soon if this is deep.
pub(crate) fn abandon(inputs: Arc<dyn Inputs>) {
    nested(inputs, abandon_now, |inputs| defer(Deferred::Abandon(inputs)));
}

fn abandon_now(inputs: Arc<dyn Inputs>) {
    contain(|| inputs.abandoned());
    discard(inputs);
}

/// Drops a source of which there were several consumers: now, or soon if this is deep, because its result may own the next
/// one.
pub(crate) fn let_go_of_source(source: Arc<dyn Watch>) {
    nested(source, discard, |source| defer(Deferred::LetGoOfSource(source)));
}

/// Interrupts what was found upstream: now, or soon if this is deep.
pub(crate) fn interrupt(found: Found, signal: &Interrupt) -> bool {
    let later = |found| {
        defer(Deferred::Interrupt(Box::new((found, signal.clone()))));
        false
    };
    nested(found, |found| found.interrupt_now(signal), later)
}

/// Drops what belonged to a promise: now, or soon if this is deep, because its handler may own the next one.
pub(crate) fn let_go(interrupts: SeamArc<Interrupts>) {
    nested(interrupts, discard, |interrupts| defer(Deferred::LetGo(interrupts)));
}

/// As [`let_go`], of a signal that nobody has heard.
#[cold]
pub(crate) fn let_go_of_signal(signal: Interrupt) {
    nested(signal, discard, |signal| defer(Deferred::LetGoOfSignal(signal)));
}

// With its parts in registers: a copy of the whole would wait for their stores.
#[inline(never)]
fn walk(node: NonNull<Head>, from: NodeRef, outcome: Outcome) {
    if !local::is_outside() {
        return walk_outside(node, from, outcome);
    }
    walk_here(node, from, outcome);
}

/// In the context of this thread, which is none.
#[inline(always)]
fn walk_here(mut node: NonNull<Head>, from: NodeRef, outcome: Outcome) {
    let mut walk = Walk { from, outcome, garbage: Garbage::default() };
    loop {
        // SAFETY: F2: attached nodes are alive until they are told.
        let head = unsafe { node.as_ref() };
        // SAFETY: the walk is at a node that is done, and this is its continuation.
        match unsafe { (head.table().step)(node, &mut walk) } {
            Some(next) => node = next,
            None => break,
        }
    }
    walk.garbage.clear();
}

/// The same from within a context, or where one may be followed.
#[cold]
#[inline(never)]
fn walk_outside(node: NonNull<Head>, from: NodeRef, outcome: Outcome) {
    local::outside(|| walk_here(node, from, outcome));
}

/// Tells a waiter, which may be gone afterwards.
///
/// # Safety
///
/// It was attached, and found by completing (F2).
pub(crate) unsafe fn wake(mut waiter: NonNull<Head>) {
    if is_interrupt_node(waiter) {
        // SAFETY: alive until it is told.
        let next = unsafe { InterruptNode::next(waiter) };
        // SAFETY: F4: the state does not lead to it any more.
        unsafe { InterruptNode::free(waiter) };
        match next {
            Some(next) => waiter = next,
            None => return,
        }
    }
    // SAFETY: alive until it is told.
    let head = unsafe { waiter.as_ref() };
    // SAFETY: told once.
    unsafe { (head.table().wake)(waiter) };
}
