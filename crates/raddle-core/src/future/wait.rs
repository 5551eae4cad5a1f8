//! Blocking on a node.

use raddle_sync::time::Instant;
use std::ptr::NonNull;
use std::time::Duration;

use crate::depth;
use crate::future::interrupt_node;
use crate::future::node::{self, Head, NodeRef, VTable};
use crate::future::state::{Attach, Refused, State, Vacant};
use crate::future::then::attach;
use crate::latch::Latch;

/// A waiting thread, as a node that is told: on the thread's own stack.
#[repr(C)]
struct Waiting {
    head: Head,
    latch: Latch,
}

impl Waiting {
    const VTABLE: &'static VTable = &VTable {
        has_slot: false,
        free: |_| unreachable!("lives on a stack"),
        class: None,
        linked: None,
        step: node::never_in_walk,
        forsaken: None,
        wake: |node| {
            // SAFETY: told by the producer, once, while the thread waits for the latch (F2).
            let latch = unsafe { &raw const (*node.cast::<Waiting>().as_ptr()).latch };
            // SAFETY: as above; the thread may go on at once (L1).
            unsafe { Latch::set(latch) };
        },
        visit: None,
        adapts: false,
        links: false,
        assist: None,
        kill: None,
    };
}

/// Records the time in which a thread wants a future's result.
pub(super) struct Touch(Option<u32>);

impl Touch {
    #[inline]
    pub(super) fn begin(node: Option<NodeRef>) -> Touch {
        Touch(host::touched(node))
    }
}

impl Drop for Touch {
    #[inline]
    fn drop(&mut self) {
        if let Some(key) = self.0 {
            host::touch_ends(key);
        }
    }
}

/// Blocks until the node is done, or the time has come, or that to look again, or for a little while if somebody else waits for
/// it.
///
/// # Safety
///
/// The caller is the consumer of the node.
pub(super) unsafe fn block(node: NodeRef, deadline: Option<Instant>, look_again: Option<Instant>) {
    let waiting = Waiting {
        head: Head { state: State::new(), vtable: Waiting::VTABLE },
        latch: Latch::new(host::parker()),
    };
    // Of the whole of it, not of the head alone.
    let me: NonNull<Head> = NonNull::from(&waiting).cast();
    // SAFETY: contract.
    match unsafe { attach(node, Vacant::UNSEEN, me, Attach::Waiter) } {
        Ok(()) => {}
        Err(Refused::Taken) => return rest(),
        Err(Refused::Done(_) | Refused::Never) => return,
    }
    // SAFETY: the consumer keeps the node alive.
    let state = unsafe { node.state() };
    if !host::wait(&waiting.latch, deadline, look_again)
        && state.detach(interrupt_node::behind).is_none()
    {
        // Being told this very moment: not to leave before.
        waiting.latch.wait();
    }
    let _ = &waiting.head;
}

/// How long whoever cannot be told waits before it looks again.
const LOOK: Duration = Duration::from_millis(1);

/// Blocks for good.
pub(super) fn forever() -> ! {
    depth::flush();
    let latch = Latch::new(host::parker());
    loop {
        host::wait(&latch, None, None);
    }
}

/// Waits a little, as without a limit.
pub(super) fn rest() {
    depth::flush();
    host::wait(&Latch::new(host::parker()), None, Instant::now().checked_add(LOOK));
}

/// Blocks for so long.
pub(super) fn idle(time: Duration) {
    depth::flush();
    host::wait(&Latch::new(host::parker()), Instant::now().checked_add(time), None);
}

/// What is recorded of something that is done, as events have it.
#[derive(Clone, Copy)]
pub(super) enum Part {
    /// All that is waited for.
    All = 0,
    /// One of several that are wanted.
    One = 1,
    /// The last of them, so that what follows comes after all.
    Last = 2,
    /// Nobody wants them any more.
    Left = 3,
}

/// How a thread waits: a worker helps meanwhile.
#[cfg(not(raddle_loom))]
pub(super) mod host {
    use std::ptr::NonNull;
    use std::thread;

    use raddle_trace::{EventKind, Subject};

    use super::Part;
    use crate::future::Waiter;
    use crate::future::node::NodeRef;
    use crate::job::{TaskHeader, TaskVTable};
    pub(in crate::future) use crate::pool::blocking;
    pub(in crate::future) use crate::pool::recorder::anybody_records as is_recorded;
    use crate::pool::recorder::{self, note_if_recording};
    pub(in crate::future) use crate::pool::vain::{limited, may_be_left_alone, nobody_comes};
    use crate::pool::yields::Why;
    use crate::pool::{self, Pool, Worker};
    pub(crate) use crate::pool::{
        current_parker as parker, init_blocking as watch_locks, wait_for_future as wait,
    };
    use crate::timer;

    /// As who this thread waits: it runs nothing inside of a panic, where tasks would find themselves panicking, nor while all
    /// timers wait for it; `anyway`: that has been so for a while, and late timers are better than none.
    pub(in crate::future) fn waiter(anyway: bool) -> Waiter {
        match !thread::panicking() && (timer::makes_way() || anyway) {
            true => Waiter::Patient,
            false => Waiter::Hurried,
        }
    }

    /// It is not known whether what this thread waits for comes of a task.
    pub(in crate::future) fn waits_anew() {
        if let Some(memory) = Worker::here() {
            memory.owned.wants_task.set(false);
        }
    }

    /// It comes of one that is not done.
    pub(in crate::future) fn wants_task() {
        if let Some(memory) = Worker::here() {
            memory.owned.wants_task.set(true);
        }
    }

    /// Whether this thread works for no pool.
    pub(in crate::future) fn is_outside() -> bool {
        Worker::occupied().next().is_none()
    }

    /// Whether this thread leaves to others what it waits for, unless there is nobody.
    pub(in crate::future) fn relies_on_others() -> bool {
        timer::is_held_up() || thread::panicking()
    }

    /// This thread has run something while it waits: now and then others have a turn. If the wait is `over`, it runs nothing itself.
    pub(in crate::future) fn ran_inline(over: bool) {
        if let Some(memory) = Worker::here() {
            match memory.counts_inline() && memory.others_starve() {
                true if over => memory.nap_a_turn(Why::Waits),
                true => memory.give_turn(Why::Waits),
                false => {}
            }
        }
    }

    /// Records that a result is wanted: how the future is called, if anybody records.
    #[inline]
    pub(in crate::future) fn touched(node: Option<NodeRef>) -> Option<u32> {
        if !is_recorded() {
            return None;
        }
        let key = recorder::key_of(node?.address());
        note_if_recording(EventKind::TouchBegin, 0, key);
        Some(key.1)
    }

    #[cold]
    pub(in crate::future) fn touch_ends(key: u32) {
        note_if_recording(EventKind::TouchEnd, 0, (Subject::Any, key));
    }

    /// Records, if anybody does, that what somebody waits for, or may, is about to be done, or what becomes of several that are wanted.
    pub(in crate::future) fn resolves<N>(node: *const N, part: Part) {
        note_if_recording(EventKind::Resolve, part as usize, recorder::key_of(node));
    }

    /// Records where every task is, and by workers alone: what threads from outside do is no work of a pool's, and may be much.
    fn note_here<N>(kind: EventKind, part: Part, node: *const N) {
        if let Some(memory) = Worker::here().filter(|memory| memory.lane.has_tasks()) {
            memory.lane.note(kind, part as usize, recorder::key_of(node));
        }
    }

    /// Records that what comes next here comes after something that is done.
    pub(in crate::future) fn seen<N>(node: *const N) {
        note_here(EventKind::TouchBegin, Part::All, node);
        note_here(EventKind::TouchEnd, Part::All, node);
    }

    /// Records that a node is about to be done, and that what takes its result comes next here.
    pub(in crate::future) fn goes_on<N>(node: *const N) {
        note_here(EventKind::Resolve, Part::Last, node);
    }

    /// Records that what comes after a node also comes after this: that asked for it. The last that had the node's address may have been
    /// left without a result.
    #[cold]
    #[inline(never)]
    pub(in crate::future) fn follows<N>(node: *const N) {
        note_here(EventKind::Resolve, Part::Left, node);
        note_here(EventKind::Resolve, Part::One, node);
    }

    /// Something that another thread is to do: a task that is nobody's future, and is not killed.
    #[repr(C)]
    struct Chore {
        header: TaskHeader,
        work: Box<dyn FnOnce() + Send>,
    }

    const CHORE: &TaskVTable = &TaskVTable::plain(|task, _| {
        // SAFETY: such a task, from its queue: once.
        let chore = unsafe { Box::from_raw(task.cast::<Chore>().as_ptr()) };
        (chore.work)();
    });

    /// Has another thread call `work`, which does not unwind: one of the pool that this thread works for, from outside one
    /// of the global pool.
    pub(crate) fn hand_over(work: Box<dyn FnOnce() + Send>) {
        let shared = match Worker::here() {
            Some(region) => region.registry(),
            None => match std::panic::catch_unwind(Pool::global) {
                Ok(pool) => pool.registry(),
                // It could not be built, which has been reported.
                Err(_) => return work(),
            },
        };
        if shared.is_forked() {
            // Its threads are the parent's.
            return work();
        }
        let chore = Box::new(Chore { header: TaskHeader::new(CHORE), work });
        pool::queue(shared, NonNull::from(Box::leak(chore)).cast(), None);
    }
}

#[cfg(raddle_loom)]
pub(super) mod host {
    use raddle_sync::time::Instant;

    use raddle_sync::parker::Parker;

    use super::Part;
    use crate::future::Waiter;
    use crate::future::node::NodeRef;
    use crate::latch::Latch;

    /// Models have no timer, and do not panic.
    pub(in crate::future) fn waiter(_: bool) -> Waiter {
        Waiter::Patient
    }

    pub(in crate::future) fn waits_anew() {}

    pub(in crate::future) fn wants_task() {}

    pub(in crate::future) fn relies_on_others() -> bool {
        false
    }

    pub(in crate::future) fn is_outside() -> bool {
        true
    }

    pub(in crate::future) fn nobody_comes(_: std::time::Duration, _: std::time::Duration) -> bool {
        false
    }

    pub(in crate::future) fn may_be_left_alone() -> bool {
        false
    }

    pub(in crate::future) fn limited(wait: impl FnOnce()) {
        wait();
    }

    /// Models have no pool.
    pub(in crate::future) fn blocking<R>(f: impl FnOnce() -> R) -> R {
        f()
    }

    pub(crate) fn parker() -> &'static Parker {
        Box::leak(Box::default())
    }

    pub(in crate::future) fn ran_inline(_: bool) {}

    /// Models of futures have no locks.
    pub(crate) fn watch_locks() {}

    /// Models are not recorded.
    pub(in crate::future) fn is_recorded() -> bool {
        false
    }

    pub(in crate::future) fn touched(_: Option<NodeRef>) -> Option<u32> {
        None
    }

    pub(in crate::future) fn touch_ends(_: u32) {}

    pub(in crate::future) fn resolves<N>(_: *const N, _: Part) {}

    pub(in crate::future) fn follows<N>(_: *const N) {}

    pub(in crate::future) fn seen<N>(_: *const N) {}

    pub(in crate::future) fn goes_on<N>(_: *const N) {}

    /// There is no pool: at once.
    pub(crate) fn hand_over(work: Box<dyn FnOnce() + Send>) {
        work();
    }

    /// A limit that lies ahead is over where the model lets it expire, if nobody wakes the thread before; others at once.
    pub(crate) fn wait(
        latch: &Latch,
        deadline: Option<Instant>,
        look_again: Option<Instant>,
    ) -> bool {
        match deadline {
            Some(deadline) => latch.sleep(deadline.saturating_duration_since(Instant::now())),
            None if look_again.is_none() => latch.wait(),
            None => {}
        }
        latch.is_set()
    }
}
