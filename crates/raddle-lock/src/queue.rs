//! Those who wait, in a list through their own stack frames.
//!
//! **Q1** A list is touched only under the lock that guards it. A node is in one list at most.
//! **Q2** A node in a list is alive: its strand returns only after it was signalled, which is done after
//! the node was taken out of the list, or after it took the node out itself.
//! **Q3** Whoever signals touches the node no more afterwards; the parker it then wakes is immortal.
//! **Q4** A node of a lock's queue is signalled under the lock that guards the list, with which it was taken out. So
//! under that lock a node is in a list or has its signal: no strand gives up between the two.

use crate::entry::Entry;
use raddle_sync::atomic::{AtomicU32, Ordering};
use raddle_sync::parker::{self, Parker};
use raddle_sync::time::Instant;
use std::cell::Cell;
use std::ptr;
use std::time::Duration;

/// Not signalled yet.
pub(crate) const WAITING: u32 = 0;
/// Awake: try to take the lock.
pub(crate) const WAKE: u32 = 1;
/// Awake: the lock is yours.
pub(crate) const HAND_OFF: u32 = 2;

/// One strand that waits.
pub(crate) struct Node {
    next: Cell<*const Node>,
    /// Whether it waits for a notification, and not for the lock itself. Guarded as the list is (Q1).
    pub(crate) for_notice: Cell<bool>,
    /// The entry of the lock in whose queue a notification has put it. Written before the signal, read
    /// after it.
    pub(crate) moved: Cell<Option<&'static Entry>>,
    /// Others that were notified with it and want the same mutex: it puts them into the mutex's queue when it has
    /// that. Written before the signal, read after it.
    pub(crate) others: Cell<List>,
    signal: AtomicU32,
    parker: &'static Parker,
}

impl Node {
    /// Of a thread that is about to sleep, and has none of the locks that are under a lock.
    pub(crate) fn new() -> Node {
        raddle_sync::watch::about_to_wait();
        Node {
            next: Cell::new(ptr::null()),
            for_notice: Cell::new(false),
            moved: Cell::new(None),
            others: Cell::new(List::new()),
            signal: AtomicU32::new(WAITING),
            parker: parker::current(),
        }
    }

    /// Ends the wait. The caller has taken the node out of its list (Q3), and wakes the result when it has let go of
    /// its locks.
    #[must_use]
    pub(crate) fn signal(node: *const Node, signal: u32) -> &'static Parker {
        // SAFETY: alive until it is signalled (Q2), which happens next and once.
        let this = unsafe { &*node };
        let parker = this.parker;
        // ORD: Release pairs with the Acquire in `signalled`.
        this.signal.store(signal, Ordering::Release);
        parker
    }

    /// `WAITING`, or how the wait has ended.
    pub(crate) fn signalled(&self) -> u32 {
        // ORD: Acquire pairs with the Release in `signal`: what the one who woke us did, its critical
        // section included if this is a hand-off.
        self.signal.load(Ordering::Acquire)
    }

    /// Ready to wait once more. The node is in no list.
    pub(crate) fn rearm(&self) {
        self.signal.store(WAITING, Ordering::Relaxed);
    }

    /// As [`sleep_until`](Node::sleep_until), for so long; the time is over in a model too.
    pub(crate) fn nap(&self, time: Duration) -> u32 {
        self.parker.nap(time);
        self.signalled()
    }

    /// Sleeps until the signal, or `WAITING` if the deadline is past.
    pub(crate) fn sleep_until(&self, deadline: Option<Instant>) -> u32 {
        loop {
            let signal = self.signalled();
            if signal != WAITING {
                return signal;
            }
            match deadline {
                None => self.parker.park(),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return self.signalled();
                    }
                    // The parker's word counts too: models have no clock, but time-outs that expire.
                    if !self.parker.park_timeout(left) {
                        return self.signalled();
                    }
                }
            }
        }
    }
}

/// Nodes, oldest first.
pub(crate) struct List {
    head: *const Node,
    tail: *const Node,
}

// SAFETY: the nodes are only touched by whoever holds the lock that guards the list (Q1), and are alive
// for as long as they are in it (Q2), whichever thread that is.
unsafe impl Send for List {}

impl Default for List {
    fn default() -> List {
        List::new()
    }
}

impl List {
    pub(crate) const fn new() -> List {
        List { head: ptr::null(), tail: ptr::null() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_null()
    }

    pub(crate) fn push_back(&mut self, node: *const Node) {
        // SAFETY: the caller's own node, or one just taken from a list (Q2).
        let new = unsafe { &*node };
        new.next.set(ptr::null());
        if self.head.is_null() {
            self.head = node;
        } else {
            // SAFETY: in the list, so alive (Q2).
            let last = unsafe { &*self.tail };
            last.next.set(node);
        }
        self.tail = node;
    }

    pub(crate) fn push_front(&mut self, node: &Node) {
        node.next.set(self.head);
        if self.head.is_null() {
            self.tail = node;
        }
        self.head = node;
    }

    pub(crate) fn pop_front(&mut self) -> Option<*const Node> {
        if self.head.is_null() {
            return None;
        }
        let first = self.head;
        // SAFETY: in the list, so alive (Q2).
        self.head = unsafe { &*first }.next.get();
        Some(first)
    }

    /// Takes `node` out; false if it was not in the list.
    pub(crate) fn remove(&mut self, node: &Node) -> bool {
        let mut before: *const Node = ptr::null();
        let mut at = self.head;
        while !at.is_null() {
            // SAFETY: in the list, so alive (Q2).
            let next = unsafe { &*at }.next.get();
            if ptr::eq(at, node) {
                if before.is_null() {
                    self.head = next;
                } else {
                    // SAFETY: in the list, so alive (Q2).
                    let before = unsafe { &*before };
                    before.next.set(next);
                }
                if next.is_null() {
                    self.tail = before;
                }
                return true;
            }
            (before, at) = (at, next);
        }
        false
    }
}

#[cfg(all(test, not(raddle_model)))]
mod tests {
    use super::*;

    #[test]
    fn first_in_first_out_with_removals_anywhere() {
        let nodes: Vec<Node> = (0..5).map(|_| Node::new()).collect();
        let mut list = List::new();
        nodes[1..].iter().for_each(|node| list.push_back(node));
        list.push_front(&nodes[0]);
        assert!(list.remove(&nodes[2]) && !list.remove(&nodes[2]));
        assert!(list.remove(&nodes[0]) && list.remove(&nodes[4]));
        list.push_back(&nodes[0]);
        let order: Vec<_> = std::iter::from_fn(|| list.pop_front()).collect();
        let expected: Vec<*const Node> = vec![&nodes[1], &nodes[3], &nodes[0]];
        assert_eq!(order, expected);
        assert!(list.is_empty());
    }
}
