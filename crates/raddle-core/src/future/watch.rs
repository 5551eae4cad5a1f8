//! Attaching to a future that one keeps.

use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::future::failure::Failure;
use crate::future::handle::{Future, Now, Pending};
use crate::future::interrupt_node::InterruptNode;
use crate::future::node::{self, Head, NodeRef, VTable};
use crate::future::state::{Attach, Refused, State, Vacant};
use crate::future::then::attach;
use crate::future::walk;
use crate::memory;
use crate::panics::{contain, discard};

/// Whoever is told that one of the futures that it watches is done.
pub(crate) trait Watch: Send + Sync + 'static {
    /// Called once for each, on the thread that completed it, holding nothing. May be late: the future may
    /// have been taken away meanwhile.
    fn told(self: Arc<Self>, index: usize);

    /// Called instead where that future has become one that is never done. What watches nothing else goes with that.
    fn left(self: Arc<Self>) {}

    /// Whether somebody has, or may have, a future that is made of those; who has none at the moment has none that was made before.
    fn leads_on(&self) -> bool {
        true
    }
}

/// Calls `told`, which may drop the last of what is a user's.
pub(crate) fn tell(watch: Arc<dyn Watch>, index: usize) {
    contain(|| watch.told(index));
}

/// A future, and the promise to be told when it is done.
pub(crate) struct Watched<T>(Pending<T>);

/// What is attached. Freed by whoever tells it, or by whoever detaches it.
#[repr(C)]
struct Part {
    head: Head,
    owner: Arc<dyn Watch>,
    index: usize,
}

/// One for all, by whose address parts are known.
static VTABLE: VTable = VTable {
    has_slot: false,
    free: |_| unreachable!("is freed by whoever tells or detaches it"),
    class: None,
    linked: None,
    step: node::never_in_walk,
    forsaken: Some(|node, walk| {
        // Who watches the node where the walk is frees it, and drops what is the user's (T6).
        walk.is_nowhere();
        // SAFETY: F2: told once, by whoever found it.
        unsafe { walk::tell(NodeRef::headed(node), Part::leave) };
        None
    }),
    wake: |node| {
        // A combination may be what the next one watches.
        // SAFETY: F2: told once, by whoever found it.
        unsafe { walk::tell(NodeRef::headed(node), Part::tell) };
    },
    visit: None,
    adapts: false,
    links: false,
    assist: None,
    kill: None,
};

/// Whether a future is watched, and nobody has a future that is made of it.
///
/// # Safety
///
/// By the producer of its node.
pub(crate) unsafe fn leads_nowhere(node: NodeRef) -> bool {
    // SAFETY: contract: alive.
    let state = unsafe { node.state() };
    // SAFETY: E1: attached, so there is one.
    let next_of = |interrupt_node| unsafe { InterruptNode::next(interrupt_node) };
    // SAFETY: it stays while it is looked at.
    let owner = state.look_at_waiter(next_of, |waiter| unsafe { Part::owner_of(waiter) }).flatten();
    let nowhere = owner.as_ref().is_some_and(|owner| !owner.leads_on());
    // It may be over since, and what it holds is the user's.
    discard(owner);
    nowhere
}

impl Part {
    /// Who is to be told, if this is a part.
    ///
    /// # Safety
    ///
    /// Of what is attached, and stays until this returns.
    unsafe fn owner_of(waiter: NonNull<Head>) -> Option<Arc<dyn Watch>> {
        // SAFETY: contract.
        if !ptr::eq(unsafe { waiter.as_ref() }.table(), &VTABLE) {
            return None;
        }
        // SAFETY: it is a part.
        Some(Arc::clone(&unsafe { waiter.cast::<Part>().as_ref() }.owner))
    }

    /// # Safety
    ///
    /// A part that was found by who completed.
    unsafe fn tell(node: NodeRef) {
        let Some(node) = node.head() else { unreachable!("parts have a head") };
        // SAFETY: contract.
        let (owner, index) = unsafe { Part::dismantle(node) };
        tell(owner, index);
    }

    /// # Safety
    ///
    /// A part that was found by whoever has left for good.
    unsafe fn leave(node: NodeRef) {
        let Some(node) = node.head() else { unreachable!("parts have a head") };
        // SAFETY: contract.
        let (owner, _) = unsafe { Part::dismantle(node) };
        contain(|| owner.left());
    }

    /// # Safety
    ///
    /// Not attached any more.
    unsafe fn dismantle(node: NonNull<Head>) -> (Arc<dyn Watch>, usize) {
        // Without the drop of its fields: `ManuallyDrop` is transparent.
        let part = node.cast::<ManuallyDrop<Part>>();
        let fields = part.cast::<Part>().as_ptr();
        // SAFETY: contract.
        let owner = unsafe { &raw const (*fields).owner };
        // SAFETY: contract.
        let owner = unsafe { owner.read() };
        // SAFETY: contract.
        let index = unsafe { (*fields).index };
        // SAFETY: contract; what it held has been taken out.
        unsafe { memory::free(part) };
        (owner, index)
    }
}

impl<T> Watched<T> {
    /// Has `owner` told when the future is done; gives the result if it is done already.
    pub(crate) fn new(
        future: Pending<T>,
        owner: Arc<dyn Watch>,
        index: usize,
    ) -> Result<Watched<T>, Result<T, Failure>> {
        let head = Head { state: State::new(), vtable: &VTABLE };
        let part = memory::allocate(ManuallyDrop::new(Part { head, owner, index })).cast();
        // SAFETY: this is the consumer.
        match unsafe { attach(future.node(), Vacant::UNSEEN, part, Attach::Part) } {
            Ok(()) => Ok(Watched(future)),
            Err(refused) => {
                // SAFETY: it was not attached.
                discard(unsafe { Part::dismantle(part) });
                match refused {
                    Refused::Done(outcome) => Err(future.take_done(outcome)),
                    // There is nobody to tell.
                    Refused::Never => Ok(Watched(future)),
                    Refused::Taken => unreachable!("this is the only one"),
                }
            }
        }
    }

    /// Whether the future will never be done: nobody is told.
    pub(crate) fn is_never(&self) -> bool {
        // SAFETY: the consumer keeps the node alive.
        unsafe { self.0.node().state() }.is_never()
    }

    /// The future itself, for a look.
    pub(crate) fn pending(&self) -> &Pending<T> {
        &self.0
    }

    /// The future; nobody is told any more, unless that is happening right now.
    pub(crate) fn release(self) -> Future<T> {
        Future::from_pending(self.detached())
    }

    /// The same, without a look at whether it is done.
    pub(crate) fn detached(self) -> Pending<T> {
        self.detach();
        // SAFETY: read once, `self` is not dropped.
        unsafe { ptr::read(&ManuallyDrop::new(self).0) }
    }

    /// What it has come to, for the one that is told of it.
    pub(crate) fn told(self) -> Now<T> {
        let pending = self.detached();
        match pending.outcome() {
            Some(outcome) => Now::Done(pending.take_done(outcome)),
            None => Now::Pending(pending),
        }
    }

    fn detach(&self) {
        // SAFETY: the consumer keeps the node alive.
        let state = unsafe { self.0.node().state() };
        if let Some(part) = state.detach(crate::future::interrupt_node::behind) {
            // SAFETY: detached.
            discard(unsafe { Part::dismantle(part) });
        }
    }
}

impl<T> Drop for Watched<T> {
    fn drop(&mut self) {
        self.detach();
    }
}
