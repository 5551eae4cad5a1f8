//! Running continuations: on the thread that completes, one after the other, never one inside the
//! other without bound.
//!
//! A *walk* goes from a completed node to its continuation, runs that, which completes it, and so on, in a
//! loop. A continuation that itself completes a promise starts a walk inside the walk; when that is too deep (see `depth`), it is
//! put off. So the stack is bounded whatever the graph. What was put off runs depth first,
//! as if it were nested: what it puts off in its turn comes before what follows it. Drops come first of all. Calls of
//! closures that return futures on satisfied ones count as well: that makes `flat_map` recursion on constants a loop.
//!
//! A node that is *forsaken*, as it has become a future that is never done, leads on downstream in the same way: what is
//! attached there drops its closure, and forsakes its own.
//!
//! # Invariants
//!
//! - **T1** A node that is upstream of others is freed when the walk that passed it is over, after those
//!   downstream of it: see F3 in `state` and `upstream`.
//! - **T4** What is put off is run in its order, by one thread at a time; but for what a thread puts off as it ends, which goes
//!   to others at once. It can run on any thread (T3 of `depth`): nodes, and what they hold, are `Send`.
//! - **T5** The handlers that a signal finds, and the consumers of a shared future, are put off, each until the one before is over:
//!   one may wait for what a later one does.
//! - **T6** The walks that a thread is at are on its stack, each known until its loop is over. While one runs a closure, it is *at* a node that
//!   nobody frees meanwhile: the one before, which is done, or the closure's own. At any other time it is nowhere, or runs no code of
//!   the user's. Coroutines that go on in another order than they began may leave a thread with a walk that is on another stack, or
//!   over: whoever looks stops there.

mod deferred;
mod steps;

use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::Arc;

use self::deferred::Deferred;
pub(crate) use self::deferred::drop_later;
pub(crate) use self::steps::{Walk, passed};
use crate::depth::{self, fresh, leave, nested};
use crate::future::interrupt::Interrupt;
use crate::future::interrupt_node::{InterruptNode, Interrupts, is_interrupt_node};
use crate::future::node::{Head, NodeRef};
use crate::future::state::Ended;
use crate::future::upstream::{Combination, Found};
use crate::future::wait::host;
use crate::future::watch::Watch;
use crate::local;
use crate::panics::{contain, discard};

/// Where a walk begins: `from` is done and `node` takes its result.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Next {
    pub(crate) node: NonNull<Head>,
    pub(crate) from: NodeRef,
    pub(crate) outcome: Ended,
}

/// A thread keeps room for about so many that are put off.
const MANY: usize = 1024;

raddle_sync::thread_local! {
    static LATER: RefCell<Later> = const { RefCell::new(Later::NONE) };
}

/// This thread has put something off. Should it wait for a lock it is told, also where there has been no pool so far.
fn has_more() {
    host::watch_locks();
    depth::has_more(depth::Later { drain, hand_over });
}

/// What a thread has put off.
struct Later {
    /// By what runs now, in the order in which it was put off.
    new: Vec<Deferred>,
    /// What is to follow that: the first last.
    todo: Vec<Deferred>,
    /// Those of the new ones that go first. Empty between two calls.
    drops: Vec<Deferred>,
    /// How many times something was handed over.
    handed_over: usize,
}

impl Later {
    const NONE: Later =
        Later { new: Vec::new(), todo: Vec::new(), drops: Vec::new(), handed_over: 0 };

    /// Puts what is new before what was there.
    fn merge(&mut self) {
        // What is dropped, such as the result of a continuation that nobody wants, goes first: behind a loop by
        // completions it would pile up.
        while let Some(deferred) = self.new.pop() {
            let to = if deferred.is_drop() { &mut self.drops } else { &mut self.todo };
            to.push(deferred);
        }
        self.todo.append(&mut self.drops);
    }

    /// Gives back what much work has taken.
    fn shrink(&mut self) {
        if self.new.capacity() + self.todo.capacity() + self.drops.capacity() > MANY {
            self.new.shrink_to(MANY / 4);
            self.drops.shrink_to(MANY / 4);
            self.todo.shrink_to(MANY / 4);
        }
    }
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
        depth::turn_to_next(more);
        let _ = deferred.run();
    }
    LATER.with(|later| later.borrow_mut().shrink());
    depth::nothing_left();
}

/// Has another thread run what was put off.
fn hand_over() {
    let todo = LATER.with(|later| {
        let later = &mut *later.borrow_mut();
        later.merge();
        later.handed_over += usize::from(!later.todo.is_empty());
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
            return self.0.into_iter().rev().for_each(|deferred| _ = deferred.run());
        }
        fresh(|| {
            LATER.with(|later| later.borrow_mut().todo = self.0);
            has_more();
        });
    }
}

/// Tells `watch` of each of these now, one after the other.
pub(crate) fn tell_each(watch: &Arc<dyn Watch>, indices: &[usize]) {
    let _ = run_each(indices.iter().map(|&index| Deferred::Told(Arc::clone(watch), index)));
}

/// Calls `let_go`, then `complete`, of which neither unwinds. What the first leads to comes when the second is over, or is another
/// thread's if that waits: what is dropped may take long to go, or wait for what follows, and that for what goes. Soon if this is deep.
pub(crate) fn let_go_after(let_go: impl FnOnce(), complete: impl FnOnce()) {
    let Some(level) = depth::enter() else {
        depth::at_limit(let_go);
        return complete();
    };
    let before = LATER.try_with(|later| later.borrow().new.len()).unwrap_or_default();
    depth::at_limit(let_go);
    let put_off = LATER.try_with(|later| {
        let new = &mut later.borrow_mut().new;
        new.split_off(before.min(new.len()))
    });
    match put_off {
        Ok(put_off) if !put_off.is_empty() => _ = run_each_after(complete, put_off.into_iter()),
        _ => complete(),
    }
    leave(level);
}

/// Runs each of these now, one after the other; those that are left when one of them waits are handed over with what is put off.
/// Whether one says that something runs, or may, as nobody knows what others come to.
fn run_each(all: impl DoubleEndedIterator<Item = Deferred>) -> bool {
    run_each_after(|| (), all)
}

/// The same, when `first` is over.
fn run_each_after(first: impl FnOnce(), all: impl DoubleEndedIterator<Item = Deferred>) -> bool {
    let mut all = Some(all);
    let before = LATER.try_with(|later| {
        let later = &mut *later.borrow_mut();
        let before = (later.todo.len(), later.handed_over);
        later.todo.extend(all.take().into_iter().flatten().rev());
        before
    });
    let Ok((before, handed_over)) = before else {
        // The thread is about to end.
        first();
        return all.into_iter().flatten().fold(false, |running, one| running | one.run());
    };
    // They are put off, by what is a level deeper (T2).
    let level = depth::enter_further();
    has_more();
    first();
    let next = || {
        LATER.with(|later| {
            let todo = &mut later.borrow_mut().todo;
            if todo.len() > before { todo.pop() } else { None }
        })
    };
    let mut running = false;
    while let Some(deferred) = next() {
        running |= deferred.run();
    }
    leave(level);
    running || LATER.with(|later| later.borrow().handed_over != handed_over)
}

#[cold]
fn defer(deferred: Deferred) {
    let mut deferred = Some(deferred);
    if LATER.try_with(|later| later.borrow_mut().new.extend(deferred.take())).is_ok() {
        has_more();
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
        // SAFETY: contract.
        unsafe { Walk::begin_forsaking::<T>(node) };
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
pub(crate) fn abandon(combination: Combination) {
    nested(combination, abandon_now, |combination| defer(Deferred::Abandon(combination)));
}

fn abandon_now((inputs, key): Combination) {
    contain(|| inputs.abandoned(key));
    discard(inputs);
}

/// Drops a source of which there were several consumers: now, or soon if this is deep, because its result may own the next
/// one.
pub(crate) fn let_go_of_source(source: Arc<dyn Watch>) {
    nested(source, discard, |source| defer(Deferred::LetGoOfSource(source)));
}

/// Runs handlers and then interrupts or kills tasks that were found upstream: now, or soon if this is deep; but then kills tasks at
/// once, so that it is known what came of that. True as for [`Deferred::run`], or if others have to see to some.
pub(crate) fn interrupt(found: Found, signal: &Interrupt) -> bool {
    // Handlers first: who drives an async future says how it ends, before its polls are told.
    let hear = found.hearings.into_iter().map(Deferred::Hear);
    let end = found.tasks.into_iter().map(|task| Deferred::Interrupt(task, signal.clone()));
    let Some(level) = depth::enter() else {
        hear.for_each(defer);
        if signal.is_kill() {
            return end.fold(false, |running, one| running | one.run());
        }
        end.for_each(defer);
        return false;
    };
    let running = run_each(hear.chain(end));
    leave(level);
    running
}

/// Drops what belonged to a promise: now, or soon if this is deep, because its handler may own the next one.
pub(crate) fn let_go(interrupts: Interrupts) {
    nested(interrupts, discard, |interrupts| defer(Deferred::LetGo(interrupts)));
}

/// As [`let_go`], of a signal that nobody has heard.
#[cold]
pub(crate) fn let_go_of_signal(signal: Interrupt) {
    nested(signal, discard, |signal| defer(Deferred::LetGoOfSignal(signal)));
}

// With its parts in registers: a copy of the whole would wait for their stores.
#[inline(never)]
fn walk(node: NonNull<Head>, from: NodeRef, outcome: Ended) {
    if !local::is_outside() {
        return walk_outside(node, from, outcome);
    }
    Walk::go(node, from, outcome);
}

/// The same from within a context, or where one may be followed.
#[cold]
#[inline(never)]
fn walk_outside(node: NonNull<Head>, from: NodeRef, outcome: Ended) {
    local::outside(|| Walk::go(node, from, outcome));
}

/// Tells a waiter, which may be gone afterwards.
///
/// # Safety
///
/// It was attached, and found by completing (F2).
pub(crate) unsafe fn wake(waiter: NonNull<Head>) {
    let between = is_interrupt_node(waiter).then_some(waiter);
    // SAFETY: alive until it is told.
    let behind = between.and_then(|interrupt_node| unsafe { InterruptNode::next(interrupt_node) });
    let waiter = behind.unwrap_or(waiter);
    // SAFETY: alive until it is told.
    let head = unsafe { waiter.as_ref() };
    // SAFETY: told once.
    unsafe { (head.table().wake)(waiter) };
    if let Some(interrupt_node) = between {
        // Last, as its handler is the user's, and may wait for just that waiter as it goes.
        // SAFETY: F4: the state does not lead to it any more.
        unsafe { InterruptNode::free(interrupt_node) };
    }
}
