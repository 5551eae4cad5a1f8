//! `scope`: tasks that may borrow, because the scope does not end before they do.
//!
//! # Invariants
//!
//! - **C1** `pending` counts the body and every spawned task that is not over. Whoever brings it to
//!   zero sets the latch, and touches the scope no more; the scope returns only when the latch is set,
//!   or when it brought the count to zero itself.
//! - **C2** So what a task borrows (`'scope`) and the scope itself outlive the task.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::{self, AssertUnwindSafe};
use std::ptr::{self, NonNull};

use raddle_sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::job::{RunOn, TaskHeader, TaskVTable};
use crate::latch::Latch;
use crate::local::{self, Context, Entered, Frame, Restore};
use crate::memory;
use crate::panics::discard;
use crate::pool::wait::Goal;
use crate::pool::{Pool, Registry, Worker};
use crate::queue::Tag;

/// A place to spawn tasks that may borrow from outside of it: see [`scope`].
pub struct Scope<'scope> {
    registry: *const Registry,
    pending: AtomicUsize,
    latch: Latch,
    /// The first panic of a task, boxed once more to be one word.
    panic: AtomicPtr<Box<dyn Any + Send>>,
    /// The context of the code that opened the scope, under which most of its tasks run.
    context: usize,
    /// Invariant in `'scope`: tasks may both take from it and put into it.
    _scope: PhantomData<fn(&'scope ()) -> &'scope ()>,
}

// SAFETY: what is shared is atomic, or written before the first task is spawned.
unsafe impl Sync for Scope<'_> {}
// SAFETY: as above.
unsafe impl Send for Scope<'_> {}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("pending", &self.pending).finish_non_exhaustive()
    }
}

/// Calls `f` with a [`Scope`], and returns when `f` and all tasks spawned in the scope are over.
///
/// `f` runs on the calling thread at once. On a thread of a pool the tasks go to that pool, from
/// outside to the global one, which the caller enters as by [`Pool::run`].
///
/// # Panics
///
/// A panic of `f` goes on after all tasks are over; else that of the first task that panicked.
///
/// ```
/// let mut parts = vec![0_u64; 8];
/// raddle::scope(|s| {
///     for (i, part) in parts.iter_mut().enumerate() {
///         s.spawn(move |_| *part = (i as u64).pow(2));
///     }
/// });
/// assert_eq!(parts.iter().sum::<u64>(), 140);
/// ```
///
/// What a task borrows must outlive the scope:
///
/// ```compile_fail
/// raddle::scope(|s| {
///     let local = 1;
///     s.spawn(|_| println!("{local}"));
/// });
/// ```
pub fn scope<'scope, F, R>(f: F) -> R
where
    F: FnOnce(&Scope<'scope>) -> R,
{
    match Worker::here() {
        Some(memory) => Scope::open(memory.registry(), f),
        None => {
            let registry = Pool::global().registry();
            // Without a place as a guest the tasks still run, and the caller just waits for them.
            let _guest = registry.gate.home().enter();
            Scope::open(registry, f)
        }
    }
}

impl<'scope> Scope<'scope> {
    fn open<F, R>(registry: &Registry, f: F) -> R
    where
        F: FnOnce(&Scope<'scope>) -> R,
    {
        let scope = Scope {
            registry,
            pending: AtomicUsize::new(1),
            latch: Latch::new(crate::pool::current_parker()),
            panic: AtomicPtr::new(std::ptr::null_mut()),
            context: local::current(),
            _scope: PhantomData,
        };
        let position = crate::pool::task_position();
        let result = panic::catch_unwind(AssertUnwindSafe(|| f(&scope)));
        // ORD: Acquire pairs with the Release of the tasks' decrements: what they did is visible.
        if scope.pending.fetch_sub(1, Ordering::AcqRel) != 1 {
            let goal = Goal::Scope(&scope.latch, scope.tag(), position);
            crate::pool::wait_for(&scope.latch, goal);
        }
        let panic = NonNull::new(scope.panic.load(Ordering::Relaxed)).map(|payload| {
            // SAFETY: C1: all tasks are over; it came from `Box::into_raw` in `keep_panic`.
            unsafe { Box::from_raw(payload.as_ptr()) }
        });
        match (result, panic) {
            (Ok(result), None) => result,
            (Ok(result), Some(payload)) => {
                discard(result);
                panic::resume_unwind(*payload)
            }
            (Err(payload), other) => {
                discard(other);
                panic::resume_unwind(payload)
            }
        }
    }

    /// Spawns a task, which may spawn further ones through the scope it is given.
    ///
    /// Tasks run in no particular order, on any thread of the scope's pool, while the scope's body
    /// goes on. Costs one allocation.
    ///
    /// The task sees the scope locals that the spawning code sees. Of those bound by reference, after the scope was
    /// opened, it sees none: they may be gone before it is over.
    pub fn spawn<F>(&self, f: F)
    where
        F: FnOnce(&Scope<'scope>) + Send + 'scope,
    {
        // ORD: the spawner's own share keeps the count above zero (C1).
        self.pending.fetch_add(1, Ordering::Relaxed);
        let task = if local::current() == self.context && !local::is_followed() {
            ScopeTask::allocate(self, f, ())
        } else {
            // SAFETY: X1: the scope's context is that of code that waits for the task.
            ScopeTask::allocate(self, f, unsafe { Context::within(self.context) })
        };
        // SAFETY: C1: the pool is there while the scope is.
        let registry = unsafe { &*self.registry };
        crate::pool::queue_tagged(registry, task, self.tag());
    }

    /// By which waits know the scope's tasks in queues.
    fn tag(&self) -> Tag {
        std::ptr::from_ref(self).addr()
    }

    fn keep_panic(&self, payload: Box<dyn Any + Send>) {
        let boxed = Box::into_raw(Box::new(payload));
        // ORD: the decrement of `pending` that follows publishes it.
        let kept = self.panic.compare_exchange(
            std::ptr::null_mut(),
            boxed,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        if kept.is_err() {
            // SAFETY: not kept, so still ours.
            discard(unsafe { Box::from_raw(boxed) });
        }
    }

    /// One task is over.
    ///
    /// # Safety
    ///
    /// `scope` must be valid; it may be gone afterwards.
    unsafe fn leave(scope: *const Scope<'scope>) {
        // SAFETY: valid until the count is zero (C1).
        let pending = unsafe { &(*scope).pending };
        // ORD: Release pairs with the Acquire in `open`.
        if pending.fetch_sub(1, Ordering::AcqRel) == 1 {
            // SAFETY: the scope waits for its latch (C1).
            let latch = unsafe { &raw const (*scope).latch };
            // SAFETY: as above.
            unsafe { Latch::set(latch) };
        }
    }
}

/// The context of a task.
trait Inherited {
    /// Calls `f`, which does not unwind, in it.
    fn run(&self, scope: &Scope<'_>, f: impl FnOnce());
}

/// That of the scope.
impl Inherited for () {
    fn run(&self, scope: &Scope<'_>, f: impl FnOnce()) {
        let _entered = Entered::by(|| None);
        // SAFETY: X1: that of code that waits for the task.
        let _restore = unsafe { Restore::after(scope.context) };
        f();
    }
}

/// Another one.
impl Inherited for Context {
    fn run(&self, scope: &Scope<'_>, f: impl FnOnce()) {
        let _entered = self.enter();
        // SAFETY: X1: as above.
        let claim = unsafe { Frame::of_word(scope.context) }.map_or(ptr::null(), Frame::claim);
        let frame = self.frame(claim);
        // SAFETY: X1: put back before the frame goes.
        let _restore = unsafe { Restore::after(frame.word()) };
        f();
    }
}

#[repr(C)]
struct ScopeTask<'scope, F, C> {
    header: TaskHeader,
    scope: *const Scope<'scope>,
    closure: F,
    context: C,
}

impl<'scope, F, C> ScopeTask<'scope, F, C>
where
    F: FnOnce(&Scope<'scope>) + Send + 'scope,
    C: Inherited + Send,
{
    const VTABLE: &'static TaskVTable = &TaskVTable {
        run: Self::run,
        // The scope has promised that its tasks run.
        kill: None,
        complete_killed: |_| {},
        is_void: |_| false,
    };

    fn allocate(scope: &Scope<'scope>, closure: F, context: C) -> NonNull<TaskHeader> {
        let header = TaskHeader::new(Self::VTABLE);
        memory::allocate(ManuallyDrop::new(Self { header, scope, closure, context })).cast()
    }

    unsafe fn run(task: NonNull<TaskHeader>, _: RunOn) {
        let place = task.cast::<ManuallyDrop<Self>>();
        // SAFETY: made by `allocate`, and queues run a task once.
        let task = ManuallyDrop::into_inner(unsafe { place.read() });
        // SAFETY: as above; what was in it has been taken out.
        unsafe { memory::free(place) };
        let Self { scope, closure, context, .. } = task;
        // SAFETY: C2.
        let alive = unsafe { &*scope };
        context.run(alive, || {
            if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(|| closure(alive))) {
                alive.keep_panic(payload);
            }
        });
        discard(context);
        // SAFETY: C1; nothing of the scope is used after this.
        unsafe { Scope::leave(scope) };
    }
}
