//! What is upstream of a future, and who goes there.
//!
//! Nodes point downstream only. A handle knows, besides its own node, the nearest node above it
//! that interrupts go through: its *cell*. Either that is its node itself, or the node's state carries it until somebody is attached
//! or the node is done. That is the root of a promise, a spawned task, or a node
//! of `flat_map`, which in its turn has an [`Upstream`]: the cell of the future it waits for. A cell is *masked* if the
//! future is masked: interrupts end there, kills and other visitors go on.
//!
//! # Invariants
//!
//! - **V1** The cell of a handle, and all that is reached from there, lives as long as the handle's node
//!   is not done (T1: a walk frees what it has passed when it is over). A visitor makes sure of
//!   that by holding up the completion of the handle's node (F3).
//! - **V2** An `Upstream` is changed, and what it led to let go, under its lock. A visitor holds the lock of
//!   one until it has that of the next.
//! - **V3** Locks are taken from downstream to upstream, and no code of the user's runs under one.
//! - **V4** Upstream of a [`Shared`](super::Shared), and of an `Upstream` that is marked so, all are marked `SHARED`: a node
//!   that becomes a future that waits for it is out of everybody's reach, unless there is a shared one downstream.

mod locked;

use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

pub(crate) use self::locked::{Locked, Upstream};
use crate::future::interrupt::Interrupt;
use crate::future::interrupt_node::{Heard, InterruptNode, Interrupts};
use crate::future::link::LinkNode;
use crate::future::node::{Ends, NodeRef};
use crate::future::pinned::Pinned;
use crate::future::promise::Helper;
use crate::future::state::Visit;
use crate::future::walk;
use crate::panics::discard;

/// A combination of several futures, as a visitor sees it.
pub(crate) trait Inputs: Send + Sync {
    /// Shows the visitor the inputs that are not done: futures that are watched, so that whoever comes from upstream does not
    /// take them for somebody's who waits for nothing (see `follow` in `linked`). The key says by which future it comes, if
    /// several are made of them.
    fn visit(&self, key: usize, visitor: &mut Visitor);

    /// The future of this key that is made of them has been dropped.
    fn abandoned(&self, _: usize) {}
}

/// A combination, and the key by which it knows the future that has led there.
pub(crate) type Combination = (Arc<dyn Inputs>, usize);

/// Somebody who goes upstream.
pub(crate) struct Visitor {
    pub(crate) purpose: Purpose,
    pub(crate) found: Found,
    /// Where to go on when the locks are released.
    todo: Vec<Combination>,
    /// Places where several ways lead to, and one has led this visitor before.
    visited: Cells,
    /// Whether it has come by futures of one input and one consumer only.
    is_straight: bool,
    /// Signals that were replaced: what they hold is the user's, and goes when no lock is held (V3).
    replaced: Vec<Interrupt>,
}

/// Where nodes are.
pub(crate) type Cells = HashSet<usize, BuildHasherDefault<ByAddress>>;

/// Addresses differ in the middle.
#[derive(Default)]
pub(crate) struct ByAddress(u64);

impl Hasher for ByAddress {
    fn write(&mut self, _: &[u8]) {
        unreachable!("addresses only")
    }

    fn write_usize(&mut self, address: usize) {
        let spread = (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ (spread >> 32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Why.
pub(crate) enum Purpose {
    /// To interrupt.
    Interrupt(Interrupt),
    /// To see whether this node is upstream, in so many steps at most.
    Find(NodeRef, usize),
    /// To say that others may follow, too, now that there is a [`Shared`](super::Shared) downstream.
    Share,
    /// To collect tasks that have not been started, for a wait to run them, and to see whether one of these cells is upstream.
    /// What is not known to have to be over before the wait is, as there is a time limit or a race between, is not shown to it.
    Gather(Cells),
}

/// What a visitor has found; to be dealt with when it is back and holds nothing.
#[derive(Default)]
pub(crate) struct Found {
    /// Those whose handlers are to be run.
    pub(crate) hearings: Vec<Interrupts>,
    /// Who can help whoever waits: of the promise that the future is made of, by nothing that has several inputs or consumers. So
    /// whatever ends the one ends the other, and all that it completes is on the way to the wait.
    pub(crate) helper: Option<Arc<dyn Helper>>,
    /// Tasks that are not done.
    pub(crate) tasks: Vec<Pinned>,
    /// The node that was looked for, or a cell.
    pub(crate) node: bool,
    /// The steps did not suffice.
    pub(crate) cut: bool,
    /// How many steps there were.
    pub(crate) steps: usize,
}

impl Found {
    /// Runs handlers, and keeps tasks from starting, or kills them: now, or soon if this is deep.
    /// True: it is a kill, and something runs, as far as that is known by now.
    pub(crate) fn interrupt(self, signal: &Interrupt) -> bool {
        (!self.hearings.is_empty() || !self.tasks.is_empty()) && walk::interrupt(self, signal)
    }

    /// Does nothing: it is too late. So the promises may be completed by now, and what their handlers hold is the user's.
    pub(crate) fn let_go(self) {
        self.hearings.into_iter().for_each(walk::let_go);
    }
}

impl fmt::Debug for Visitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Visitor").finish_non_exhaustive()
    }
}

impl Visitor {
    /// Counts inputs that are looked at, done or not.
    pub(crate) fn passes(&mut self, inputs: usize) {
        self.found.steps += inputs;
    }

    pub(crate) fn new(purpose: Purpose) -> Visitor {
        Visitor {
            purpose,
            found: Found::default(),
            todo: Vec::new(),
            visited: Cells::default(),
            is_straight: true,
            replaced: Vec::new(),
        }
    }

    /// Who made the promise of a node, or of the root that it is adapted from, and wants to know that its consumer goes.
    ///
    /// # Safety
    ///
    /// By the consumer.
    pub(crate) unsafe fn combination(ends: Ends) -> Option<Combination> {
        let node = ends.node();
        // SAFETY: the consumer keeps it alive.
        let state = unsafe { node.state() };
        let visit = state.visit()?;
        let interrupt_node = match node.is_root() {
            true => visit.interrupt_node(),
            false => {
                let root = ends.cell(visit.cell()).filter(|cell| cell.is_root());
                // SAFETY: V1: the visit holds up what follows it.
                root.and_then(|root| unsafe { root.state() }.interrupt_node())
            }
        };
        let combination = interrupt_node.and_then(|interrupt_node| {
            // SAFETY: V1: the visit holds up its producer, so it stays meanwhile (F4).
            unsafe { InterruptNode::look(interrupt_node, |heard| heard.combination()) }
        });
        state.leave(visit);
        combination
    }

    /// Goes on with combinations, holding nothing, and returns.
    pub(crate) fn finish(mut self) -> Found {
        self.is_straight = false;
        while let Some((inputs, key)) = self.todo.pop() {
            inputs.visit(key, &mut self);
            // It may be over since, and the values that it holds are the user's.
            discard(inputs);
        }
        // They may own futures, whose drops interrupt in their turn.
        std::mem::take(&mut self.replaced).into_iter().for_each(walk::let_go_of_signal);
        self.found
    }

    /// Whether the visitor comes here for the first time: where ways meet there may be many more ways than places, and
    /// some that lead round.
    pub(crate) fn is_new<P>(&mut self, place: *const P) -> bool {
        self.visited.insert(place.addr())
    }

    /// Whether this is for a wait, which runs nothing of which it might do without: nothing behind a race or a time limit.
    pub(crate) fn is_for_wait(&self) -> bool {
        matches!(self.purpose, Purpose::Gather(_))
    }

    /// The signal that this brings, if it brings one.
    pub(crate) fn signal(&self) -> Option<&Interrupt> {
        match &self.purpose {
            Purpose::Interrupt(signal) => Some(signal),
            Purpose::Find(..) | Purpose::Share | Purpose::Gather(_) => None,
        }
    }

    /// Drops a signal when nothing is locked (V3).
    pub(crate) fn let_go(&mut self, signal: Option<Interrupt>) {
        // Another of this visitor's own is not the last, and may go at once.
        let own = |signal: &Interrupt| self.signal().is_some_and(|own| own.is(signal));
        let replaced = signal.filter(|signal| !own(signal));
        self.replaced.extend(replaced);
    }

    /// Whether this ends at a mask: interrupts do, kills and all others do not.
    pub(crate) fn is_masked_out(&self) -> bool {
        matches!(&self.purpose, Purpose::Interrupt(signal) if !signal.is_kill())
    }

    /// A task is upstream.
    pub(crate) fn found_task(&mut self, pinned: Pinned) {
        self.found.tasks.push(pinned);
    }

    /// Visits what is upstream of a future that is not done.
    ///
    /// # Safety
    ///
    /// By its consumer.
    pub(crate) unsafe fn enter(&mut self, ends: Ends) {
        let node = ends.node();
        // SAFETY: the consumer keeps it alive.
        let state = unsafe { node.state() };
        let Some(mut visit) = state.visit() else { return };
        if let Some(cell) = ends.cell(visit.cell()) {
            let held = node.is_root().then_some(&mut visit);
            // SAFETY: V1.
            unsafe { self.go(cell, held) };
        }
        state.leave(visit);
    }

    /// Goes from `cell` on. `held` is the word of the cell's own state if it is a root's and has been taken away.
    ///
    /// # Safety
    ///
    /// V1 for `cell`.
    pub(crate) unsafe fn go(&mut self, cell: NodeRef, mut held: Option<&mut Visit>) {
        let mut at = cell;
        let mut lock: Option<Locked> = None;
        loop {
            if at.is_masked() && self.is_masked_out() {
                return;
            }
            at = at.node();
            self.found.steps += 1;
            // Of the first node only.
            let held = held.take();
            if let Purpose::Find(node, left) = &mut self.purpose {
                self.found.node |= *node == at;
                self.found.cut |= *left == 0;
                if self.found.node || *left == 0 {
                    return;
                }
                *left -= 1;
            }
            if let Purpose::Gather(cells) = &self.purpose {
                self.found.node |= cells.contains(&at.address().addr());
            }
            // SAFETY: V1, V2.
            let next = match unsafe { at.vtable() } {
                // SAFETY: as above.
                None => unsafe { self.root(at, held) },
                Some(vtable) => vtable.visit.zip(at.head()).and_then(|(visit, head)| {
                    // SAFETY: as above.
                    unsafe { visit(head, self) }
                }),
            };
            // The one before is let go only now (V2).
            drop(std::mem::replace(&mut lock, next));
            let Some(locked) = &mut lock else { return };
            match &self.purpose {
                Purpose::Interrupt(signal) => {
                    self.replaced.extend(locked.remember(signal.clone()));
                }
                // V4.
                Purpose::Share if locked.share() => return,
                Purpose::Share | Purpose::Find(..) | Purpose::Gather(_) => {}
            }
            match locked.cell() {
                Some(cell) => at = cell,
                None => return,
            }
        }
    }

    /// At a promise.
    unsafe fn root(&mut self, root: NodeRef, held: Option<&mut Visit>) -> Option<Locked> {
        let hears = matches!(self.purpose, Purpose::Interrupt(_));
        let gathers = self.is_for_wait();
        let interrupt_node = match held {
            Some(visit) => match visit.interrupt_node() {
                None if hears => {
                    let interrupt_node = InterruptNode::empty();
                    // SAFETY: E1.
                    visit.put_interrupt_node(interrupt_node, |next| unsafe {
                        InterruptNode::set_next(interrupt_node, next)
                    });
                    interrupt_node
                }
                interrupt_node => interrupt_node?,
            },
            // SAFETY: V1, and not done.
            None if hears => unsafe { InterruptNode::of(root) },
            // SAFETY: V1.
            None => unsafe { root.state() }.interrupt_node()?,
        };
        // At once, so that whoever links the promise meanwhile either finds the signal, or is found.
        let hear = |heard: &mut Heard| {
            let replaced = match &self.purpose {
                Purpose::Interrupt(signal) => heard.hear(signal),
                Purpose::Find(..) | Purpose::Share | Purpose::Gather(_) => None,
            };
            self.todo.extend(heard.combination());
            if gathers && self.is_straight && heard.forward.is_none() {
                // The last promise of those that are linked, so there is none yet that would be dropped here (V3).
                self.found.helper = heard.helper();
            }
            // Locked before the interrupt node is let go, so that whoever takes it out of that finds out.
            (replaced, heard.forward.map(LinkNode::lock), heard.is_handled())
        };
        // SAFETY: alive with the root, which V1, or the lock of the one before (V2), keeps until this returns.
        let (replaced, forward, is_heard) = unsafe { InterruptNode::look(interrupt_node, hear) };
        self.replaced.extend(replaced);
        // SAFETY: as above.
        if hears && is_heard && !unsafe { InterruptNode::is_over(interrupt_node) } {
            // SAFETY: as above.
            self.found.hearings.push(unsafe { InterruptNode::interrupts(interrupt_node) });
        }
        forward
    }
}
