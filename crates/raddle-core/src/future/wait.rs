//! Blocking on a node.

use std::ptr::NonNull;
use std::time::{Duration, Instant};

use raddle_sync::atomic::{AtomicUsize, Ordering, fence};
use raddle_sync::sync::Mutex;

use crate::future::ears;
use crate::future::node::{self, Head, NodeRef, VTable};
use crate::future::state::{Attach, State};
use crate::future::then::attach;
use crate::future::walk;
use crate::latch::Latch;

/// A waiting thread, as a node that is told: on the thread's own stack.
#[repr(C)]
struct Waiting {
    head: Head,
    latch: Latch,
}

impl Waiting {
    const VTABLE: &'static VTable = &VTable {
        slot: 0,
        free: |_| unreachable!("lives on a stack"),
        step: |node, _| node::never(node),
        wake: |node| {
            // SAFETY: told by the producer, once, while the thread waits for the latch (F2).
            let latch = unsafe { &raw const (*node.cast::<Waiting>().as_ptr()).latch };
            // SAFETY: as above; the thread may go on at once (L1).
            unsafe { Latch::set(latch) };
        },
        visit: None,
        adapts: false,
        relink: None,
        assist: None,
        kill: None,
    };
}

raddle_sync::lazy_static! {
    /// Workers that wait for futures that were made of others. When such a future becomes another one, what is upstream
    /// of it may be a task that has not started, and nobody but them there to run it.
    static WORKERS: Workers = Workers::default();
}

#[derive(Default)]
struct Workers {
    /// How many they are.
    count: AtomicUsize,
    entries: Mutex<Vec<Entry>>,
}

/// Whom to wake, and what he waits for.
struct Entry {
    waiting: NonNull<Head>,
    node: NodeRef,
}

// SAFETY: who waits takes his entry out before he goes.
unsafe impl Send for Entry {}

/// Has workers look again what is upstream of what they wait for.
pub(super) fn nudge() {
    // Either who waits sees what has changed, or this sees him: the other fence is in `block`.
    fence(Ordering::SeqCst);
    if WORKERS.count.load(Ordering::Relaxed) != 0 {
        nudge_all();
    }
}

#[cold]
fn nudge_all() {
    for Entry { waiting, node } in &*WORKERS.entries.lock() {
        // SAFETY: its consumer waits.
        let state = unsafe { node.state() };
        // Detached by this, so it is this thread's to tell.
        if state.detach(crate::future::ears::behind).is_some() {
            // SAFETY: he cannot go before his entry is out.
            unsafe { walk::wake(*waiting) };
        }
    }
}

/// Nobody is to wait for what this thread has put off, or for timers, meanwhile.
pub(super) fn about_to_wait() {
    walk::flush();
    host::about_to_block();
}

/// Blocks until the node is done, or the time has come; a worker helps meanwhile. Or until it is nudged, if it asks for
/// that; `ready` is asked, when it can be nudged, whether it need not block.
///
/// # Safety
///
/// The caller is the consumer of the node.
pub(super) unsafe fn block(
    node: NodeRef,
    deadline: Option<Instant>,
    nudged: bool,
    ready: impl FnOnce() -> bool,
) {
    let waiting = Waiting {
        head: Head { state: State::new(), vtable: Waiting::VTABLE },
        latch: Latch::new(host::parker()),
    };
    about_to_wait();
    // Of the whole of it, not of the head alone.
    let me: NonNull<Head> = NonNull::from(&waiting).cast();
    // Attached first: who nudges detaches.
    // SAFETY: contract.
    if unsafe { attach(node, me, Attach::Waiter) }.is_err() {
        return;
    }
    // SAFETY: the consumer keeps the node alive.
    let state = unsafe { node.state() };
    let entry = nudged.then(|| Listed::new(me, node));
    let told = if nudged && ready() { false } else { host::wait(&waiting.latch, deadline) };
    if !told && state.detach(ears::behind).is_none() {
        // Being told this very moment: not to leave before.
        waiting.latch.wait();
    }
    drop(entry);
    let _ = &waiting.head;
}

/// An entry among the workers that wait.
struct Listed(NonNull<Head>);

impl Listed {
    fn new(waiting: NonNull<Head>, node: NodeRef) -> Listed {
        let mut entries = WORKERS.entries.lock();
        entries.push(Entry { waiting, node });
        WORKERS.count.store(entries.len(), Ordering::Relaxed);
        drop(entries);
        // Pairs with that in `nudge`.
        fence(Ordering::SeqCst);
        Listed(waiting)
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        let mut entries = WORKERS.entries.lock();
        entries.retain(|entry| entry.waiting != self.0);
        WORKERS.count.store(entries.len(), Ordering::Relaxed);
    }
}

/// Blocks for good.
pub(super) fn forever() -> ! {
    about_to_wait();
    let latch = Latch::new(host::parker());
    loop {
        host::wait(&latch, None);
    }
}

/// Blocks for so long.
pub(super) fn idle(time: Duration) {
    about_to_wait();
    host::wait(&Latch::new(host::parker()), Instant::now().checked_add(time));
}

/// How a thread waits: a worker helps meanwhile.
#[cfg(not(any(raddle_loom, raddle_shuttle)))]
pub(super) mod host {
    use std::ptr::NonNull;

    pub(crate) use crate::future::timer::about_to_block;
    use crate::job::{TaskHeader, TaskVTable};
    use crate::pool::{self, Pool, Worker};
    pub(crate) use crate::pool::{current_parker as parker, wait_for_future as wait};
    pub(crate) use raddle_sync::stack::remaining as stack_left;

    /// Whether this thread can run tasks.
    pub(crate) fn is_worker() -> bool {
        Worker::here().is_some()
    }

    /// Something that another thread is to do: a task that is nobody's future, and is not killed.
    #[repr(C)]
    struct Chore {
        header: TaskHeader,
        work: Box<dyn FnOnce() + Send>,
    }

    const CHORE: &TaskVTable = &TaskVTable {
        run: |task, _| {
            // SAFETY: such a task, from its queue: once.
            let chore = unsafe { Box::from_raw(task.cast::<Chore>().as_ptr()) };
            (chore.work)();
        },
        kill: |_| false,
        bury: |_| (),
    };

    /// Has another thread call `work`, which does not unwind: one of the pool that this thread works for, from outside one
    /// of the global pool.
    pub(crate) fn hand_over(work: Box<dyn FnOnce() + Send>) {
        let shared = match Worker::here() {
            Some(region) => region.shared(),
            None => match std::panic::catch_unwind(Pool::global) {
                Ok(pool) => pool.shared(),
                // It could not be built, which has been reported.
                Err(_) => return work(),
            },
        };
        let chore = Box::new(Chore { header: TaskHeader::new(CHORE), work });
        pool::queue(shared, NonNull::from(Box::leak(chore)).cast());
    }
}

#[cfg(any(raddle_loom, raddle_shuttle))]
pub(super) mod host {
    use std::time::Instant;

    use raddle_sync::parker::Parker;

    use crate::latch::Latch;

    pub(crate) fn parker() -> &'static Parker {
        Box::leak(Box::default())
    }

    pub(crate) fn is_worker() -> bool {
        false
    }

    pub(crate) fn about_to_block() {}

    /// Models have stacks of their own.
    pub(crate) fn stack_left() -> usize {
        usize::MAX
    }

    /// There is no pool: at once.
    pub(crate) fn hand_over(work: Box<dyn FnOnce() + Send>) {
        work();
    }

    /// Under a model a time limit is over at once.
    pub(crate) fn wait(latch: &Latch, deadline: Option<Instant>) -> bool {
        if deadline.is_none() {
            latch.wait();
        }
        deadline.is_none()
    }
}
