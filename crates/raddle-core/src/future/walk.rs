//! Running continuations: on the thread that completes, one after the other, never one inside the
//! other without bound.
//!
//! A *walk* goes from a completed node to its continuation, runs that, which completes it, and so on, in a
//! loop. A continuation that itself completes a promise starts a walk inside the walk; when walks
//! are nested [`DEPTH_LIMIT`] deep, further ones are put off, and run when the outermost is over, or before
//! the thread blocks ([`flush`]). So the stack is bounded whatever the graph. What was put off runs depth first,
//! as if it were nested: what it puts off in its turn comes before what follows it. Drops come first of all. Calls of closures that return futures on satisfied ones count as well: that makes
//! `flat_map` recursion on constants a loop.
//!
//! # Invariants
//!
//! - **T1** A node that is upstream of others is freed when the walk that passed it is over, after those
//!   downstream of it: see F3 in `state` and `upstream`.
//! - **T2** A thread whose depth is 0 has put nothing off.
//! - **T3** What a thread has put off, since it began with what it is running, is run before it blocks; what is
//!   to follow is not, because that may in its turn wait for what is running.

use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::future::ears::{Ears, is_ears};
use crate::future::failure::Failure;
use crate::future::node::{self, Head, NodeRef};
use crate::future::state::Outcome;
use crate::future::upstream::Inputs;
use crate::local;

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

/// Nodes to be freed when the walk is over (T1).
#[derive(Debug, Default)]
struct Garbage {
    first: Option<Rubbish>,
    more: Vec<Rubbish>,
}

#[derive(Debug)]
struct Rubbish {
    node: NonNull<u8>,
    free: unsafe fn(NonNull<u8>),
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
    #[inline]
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

    /// Frees a node when the walk is over.
    #[inline]
    pub(crate) fn push(&mut self, node: NonNull<u8>, free: unsafe fn(NonNull<u8>)) {
        let rubbish = Rubbish { node, free };
        if self.garbage.first.is_none() {
            self.garbage.first = Some(rubbish);
        } else {
            self.garbage.more.push(rubbish);
        }
    }
}

impl Garbage {
    /// The last first: whoever goes upstream holds the lock of one until it has left the next (V2), and
    /// the lock is passed before the node is freed.
    #[inline]
    fn clear(self) {
        for Rubbish { node, free } in self.more.into_iter().rev() {
            // SAFETY: pushed by who took the result, for this moment (N3).
            unsafe { free(node) };
        }
        if let Some(Rubbish { node, free }) = self.first {
            // SAFETY: pushed by who took the result, for this moment (N3).
            unsafe { free(node) };
        }
    }
}

/// What waits for the thread to be less deep.
enum Deferred {
    Walk(Next),
    Tell(NodeRef, unsafe fn(NodeRef)),
    Drop(NodeRef, unsafe fn(NodeRef)),
    Abandon(Arc<dyn Inputs>),
}

impl Deferred {
    fn is_drop(&self) -> bool {
        matches!(self, Deferred::Drop(..) | Deferred::Abandon(_))
    }

    fn run(self) {
        match self {
            Deferred::Walk(Next { node, from, outcome }) => walk(node, from, outcome),
            // SAFETY: by who deferred it.
            Deferred::Tell(node, f) | Deferred::Drop(node, f) => unsafe { f(node) },
            Deferred::Abandon(inputs) => inputs.abandoned(),
        }
    }
}

/// How deep walks nest.
const DEPTH_LIMIT: usize = 32;
/// Set in the depth while something has been put off.
const QUEUED: usize = 1 << 31;

raddle_sync::thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}
raddle_sync::thread_local! {
    /// In the order in which it was put off.
    static QUEUE: RefCell<Vec<Deferred>> = const { RefCell::new(Vec::new()) };
}

/// Goes one level deeper; false if this is the limit. To be followed by [`leave`], which a panic does not pass.
#[inline(always)]
pub(crate) fn enter() -> bool {
    let depth = DEPTH.with(Cell::get);
    let enters = depth & !QUEUED < DEPTH_LIMIT;
    if enters {
        DEPTH.with(|d| d.set(depth + 1));
    }
    enters
}

/// Leaves a level.
#[inline(always)]
pub(crate) fn leave() {
    let after = DEPTH.with(Cell::get) - 1;
    DEPTH.with(|d| d.set(after));
    if after == QUEUED {
        drain();
    }
}

/// Calls `f` one level deeper, or `deep` if this is the limit. Neither unwinds.
#[inline(always)]
fn nested<S, R>(state: S, f: impl FnOnce(S) -> R, deep: impl FnOnce(S) -> R) -> R {
    if !enter() {
        return deep(state);
    }
    let result = f(state);
    leave();
    result
}

/// Runs what was put off, and what that puts off.
#[cold]
fn drain() {
    // The first last. Not in the queue, so that a wait within does not find what is to follow (T3).
    let mut todo = Vec::new();
    loop {
        QUEUE.with(|queue| {
            let queue = &mut *queue.borrow_mut();
            // What is dropped, such as the result of a continuation that nobody wants, goes first: behind a loop by
            // completions it would pile up.
            queue.sort_by_key(|deferred| !deferred.is_drop());
            todo.extend(queue.drain(..).rev());
        });
        DEPTH.with(|d| d.set(1));
        let Some(deferred) = todo.pop() else { break };
        deferred.run();
    }
    DEPTH.with(|d| d.set(0));
}

/// Runs what was put off, however deep this is: before the thread blocks, as it may wait for just that (T3).
pub(crate) fn flush() {
    let depth = DEPTH.with(Cell::get);
    if depth & QUEUED != 0 {
        drain();
        DEPTH.with(|d| d.set(depth & !QUEUED));
    }
}

#[cold]
fn defer(deferred: Deferred) {
    let mut deferred = Some(deferred);
    // Gone when the thread is about to end: then there is nothing outside that would run it.
    let queued = QUEUE.try_with(|queue| queue.borrow_mut().extend(deferred.take())).is_ok();
    match deferred {
        None if queued => DEPTH.with(|d| d.set(d.get() | QUEUED)),
        Some(deferred) => deferred.run(),
        None => {}
    }
}

/// Runs continuations from `next` on: now, or soon if this is deep.
#[inline]
pub(crate) fn start(next: Option<Next>) {
    if let Some(next) = next {
        nested(next, |Next { node, from, outcome }| walk(node, from, outcome), defer_walk);
    }
}

/// Runs continuations from `next` on, when this thread is less deep.
pub(crate) fn defer_walk(next: Next) {
    defer(Deferred::Walk(next));
}

/// Has `tell` called with a part of a combination: now, or soon if this is deep.
///
/// # Safety
///
/// It must be sound to call it, once, on this thread at any later time, and it must not unwind.
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
    nested(inputs, |inputs| inputs.abandoned(), |inputs| defer(Deferred::Abandon(inputs)));
}

// With its parts in registers: a copy of the whole would wait for their stores.
#[inline(never)]
fn walk(mut node: NonNull<Head>, from: NodeRef, outcome: Outcome) {
    local::outside(|| {
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
    });
}

/// Tells a waiter, which may be gone afterwards.
///
/// # Safety
///
/// It was attached, and found by completing (F2).
pub(crate) unsafe fn wake(mut waiter: NonNull<Head>) {
    if is_ears(waiter) {
        // SAFETY: alive until it is told.
        let next = unsafe { Ears::next(waiter) };
        // SAFETY: F4: the state does not lead to them any more.
        unsafe { Ears::free(waiter) };
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
