//! `scope`: tasks that may borrow, because the scope does not end before they do.
//!
//! # Invariants
//!
//! - **C1** The body and every spawned task that is not over have a share of `count`. The scope returns only when
//!   there is none (CN1 in `count`).
//! - **C2** So what a task borrows (`'scope`) and the scope itself outlive the task.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::{self, AssertUnwindSafe, Location};
use std::ptr::{self, NonNull};

use raddle_sync::atomic::{AtomicPtr, Ordering};
use raddle_trace::{EventKind, Subject};

use crate::count::Count;
use crate::job::{RunOn, TaskHeader, TaskVTable};
use crate::local::{self, Context, Entered, Frame};
use crate::memory;
use crate::panics::{Apart, discard};
use crate::pool::recorder::{self, Place};
use crate::pool::wait::Goal;
use crate::pool::{self, Errand, Pool, Registry, Worker, WorkerMemory};

/// A place to spawn tasks that may borrow from outside of it: see [`scope`].
pub struct Scope<'scope> {
    registry: *const Registry,
    count: Count,
    /// The first panic of a task, boxed once more to be one word.
    panic: AtomicPtr<Box<dyn Any + Send>>,
    /// The context of the code that opened the scope, under which most of its tasks run.
    context: usize,
    /// Invariant in `'scope`: tasks may both take from it and put into it.
    _scope: PhantomData<fn(&'scope ()) -> &'scope ()>,
}

// As `Pool`.
impl std::panic::UnwindSafe for Scope<'_> {}
impl std::panic::RefUnwindSafe for Scope<'_> {}

// SAFETY: what is shared is atomic, or written before the first task is spawned.
unsafe impl Sync for Scope<'_> {}
// SAFETY: as above.
unsafe impl Send for Scope<'_> {}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("count", &self.count).finish_non_exhaustive()
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
/// ```compile_fail,E0373
/// raddle::scope(|s| {
///     let local = 1;
///     s.spawn(|_| println!("{local}"));
/// });
/// ```
#[track_caller]
pub fn scope<'scope, F, R>(f: F) -> R
where
    F: FnOnce(&Scope<'scope>) -> R,
{
    scope_at(Location::caller(), f)
}

/// As `scope`, called from `place`.
pub(crate) fn scope_at<'scope, F, R>(place: Place, f: F) -> R
where
    F: FnOnce(&Scope<'scope>) -> R,
{
    match Worker::here() {
        Some(memory) => Scope::open(memory.registry(), place, f),
        None => {
            let registry = Pool::global().registry();
            // Without a place as a guest the tasks still run, and the caller just waits for them.
            let _guest = registry.gate.home().enter(place);
            Scope::open(registry, place, f)
        }
    }
}

impl Pool {
    /// As [`scope`](crate::scope()), in this pool.
    #[track_caller]
    pub fn scope<'scope, F, R>(&self, f: F) -> R
    where
        F: FnOnce(&Scope<'scope>) -> R + Send,
        R: Send,
    {
        let place = Location::caller();
        self.run_at(place, |_| scope_at(place, f))
    }
}

impl<'scope> Scope<'scope> {
    /// A scope of this pool's; its body runs here, on one of its threads or not.
    pub(crate) fn open<F, R>(registry: &Registry, place: Place, f: F) -> R
    where
        F: FnOnce(&Scope<'scope>) -> R,
    {
        let scope = Scope {
            registry,
            count: Count::new(pool::current_parker()),
            panic: AtomicPtr::new(std::ptr::null_mut()),
            context: local::current(),
            _scope: PhantomData,
        };
        let recorded = recorder::anybody_records().then(|| Recorded::begin(&scope, place));
        let position = pool::task_position();
        let purse = pool::here(registry).map(WorkerMemory::purse);
        let outer = purse.map(|purse| purse.open(scope.count.tag()));
        let result = match panic::catch_unwind(AssertUnwindSafe(|| f(&scope))) {
            // For rayon's programs the first panic counts, whose it is.
            Err(payload) if registry.is_seated() => {
                scope.keep_panic(payload);
                None
            }
            result => Some(result),
        };
        let left = purse.zip(outer).map_or(0, |(purse, outer)| purse.close(outer));
        if !scope.count.close(left) {
            let latch = scope.count.latch();
            pool::wait_for(latch, Goal::Scope(latch, scope.count.tag(), position));
        }
        drop(recorded);
        let panic = NonNull::new(scope.panic.load(Ordering::Relaxed)).map(|payload| {
            // SAFETY: C1: all tasks are over; it came from `Box::into_raw` in `keep_panic`.
            unsafe { Box::from_raw(payload.as_ptr()) }
        });
        match (result, panic) {
            (Some(Ok(result)), None) => result,
            (Some(Err(payload)), other) => {
                discard(other);
                panic::resume_unwind(payload)
            }
            (result, Some(payload)) => {
                // It goes as the panic passes: what it is may do another thing then.
                let _result = Apart::new(result);
                panic::resume_unwind(*payload)
            }
            (None, None) => unreachable!("the panic was kept"),
        }
    }

    /// Spawns a task, which may spawn further ones through the scope it is given.
    ///
    /// Tasks run in no particular order, on any thread of the scope's pool, while the scope's body
    /// goes on. Costs one allocation; two where the spawning code has bound something that the scope's opener has not, and that has lent
    /// something by [`bind_ref`](crate::ScopeLocal::bind_ref).
    ///
    /// The task sees the scope locals that the spawning code sees. Of those bound by reference, after the scope was
    /// opened, it sees none: they may be gone before it is over.
    #[track_caller]
    pub fn spawn<F>(&self, f: F)
    where
        F: FnOnce(&Scope<'scope>) + Send + 'scope,
    {
        let registry = self.registry();
        let here = pool::here(registry);
        match here {
            Some(memory) => memory.purse().spend(&self.count),
            None => {
                // Before it counts: nobody would see to the task.
                registry.assert_here();
                self.count.add();
            }
        }
        let task = self.task(f);
        match here {
            Some(memory) => memory.queue(task, self.count.tag(), Some(Location::caller())),
            None => {
                pool::queue_last(registry, task, self.count.tag(), Some(Location::caller()));
            }
        }
    }

    /// Has each thread of the pool call `f` with its number, as a task of this scope.
    pub(crate) fn spawn_each<F>(&self, place: Place, f: F)
    where
        F: Fn(&Scope<'scope>, usize) + Send + Sync + 'scope,
    {
        // Before it counts: nobody would see to the tasks.
        self.registry().assert_here();
        self.count.add();
        match self.inherited() {
            None => self.send_errand(place, f, ()),
            Some(context) => self.send_errand(place, f, context),
        }
    }

    /// With a share of the count.
    fn send_errand<F, C>(&self, place: Place, closure: F, context: C)
    where
        F: Fn(&Scope<'scope>, usize) + Send + Sync + 'scope,
        C: Inherited + Send + Sync,
    {
        let errand = ScopeErrand { scope: self, closure, context };
        // SAFETY: C2, until its end; a scope is `Sync`, as all else is.
        unsafe { self.registry().send_errand(place, errand) };
    }

    pub(crate) fn registry(&self) -> &Registry {
        // SAFETY: C1: the pool is there while the scope is.
        unsafe { &*self.registry }
    }

    /// A task that has a share of the count already.
    fn task<F>(&self, f: F) -> NonNull<TaskHeader>
    where
        F: FnOnce(&Scope<'scope>) + Send + 'scope,
    {
        match self.inherited() {
            None => ScopeTask::allocate(self, f, ()),
            Some(context) => ScopeTask::allocate(self, f, context),
        }
    }

    /// What a task inherits that is spawned here; none: what the scope's opener has.
    #[inline]
    fn inherited(&self) -> Option<Context> {
        if local::current() == self.context && !local::is_followed() {
            return None;
        }
        // SAFETY: X1: the scope's context is that of code that waits for the task.
        Some(unsafe { Context::within(self.context) })
    }

    /// `f` in the context of a task that is spawned here, for another task of the scope to call.
    ///
    /// # Safety
    ///
    /// It is called, or dropped, before the scope is over.
    pub(crate) unsafe fn carry<F>(
        &self,
        f: F,
    ) -> impl FnOnce(&Scope<'scope>) + Send + use<'scope, F>
    where
        F: FnOnce(&Scope<'scope>) + Send + 'scope,
    {
        let (own, context) = (ptr::from_ref(self).addr(), self.inherited());
        move |scope| {
            // The context is one within this scope's.
            assert_eq!(ptr::from_ref(scope).addr(), own, "a task of another scope");
            let memory = pool::here(scope.registry()).expect("tasks run in the scope's pool");
            match &context {
                None => scope.run_part(memory, &(), || f(scope)),
                Some(context) => scope.run_part(memory, context, || f(scope)),
            }
        }
    }

    /// Calls `f`, which is part of a task, and keeps its panic.
    fn run_part(&self, memory: &WorkerMemory, context: &impl Inherited, f: impl FnOnce()) {
        context.run(self, memory, || {
            if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(f)) {
                self.keep_panic(payload);
            }
        });
    }

    fn keep_panic(&self, payload: Box<dyn Any + Send>) {
        let boxed = Box::into_raw(Box::new(payload));
        // ORD: the share that is given back afterwards publishes it.
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
}

/// Records the time of a scope.
struct Recorded {
    key: (Subject, u32),
    place: Place,
}

impl Recorded {
    #[cold]
    fn begin(scope: &Scope<'_>, place: Place) -> Recorded {
        let key = recorder::key_of(std::ptr::from_ref(scope));
        recorder::note_if_recording(EventKind::ScopeBegin, 0, key);
        Recorded { key, place }
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        recorder::note_place_if_recording(EventKind::ScopeEnd, self.place, self.key);
    }
}

/// The context of a task.
trait Inherited {
    /// Calls `f`, which does not unwind, in it.
    fn run(&self, scope: &Scope<'_>, memory: &WorkerMemory, f: impl FnOnce());
}

/// That of the scope.
impl Inherited for () {
    #[inline]
    fn run(&self, scope: &Scope<'_>, memory: &WorkerMemory, f: impl FnOnce()) {
        let _entered = Entered::by(|| None);
        // SAFETY: X1: that of code that waits for the task.
        let _restore = unsafe { memory.restore_after(scope.context) };
        f();
    }
}

/// Another one.
impl Inherited for Context {
    fn run(&self, scope: &Scope<'_>, memory: &WorkerMemory, f: impl FnOnce()) {
        let _entered = self.enter();
        // SAFETY: X1: as above.
        let claim = unsafe { Frame::of_word(scope.context) }.map_or(ptr::null(), Frame::claim);
        let frame = self.frame(claim);
        // SAFETY: X1: put back before the frame goes.
        let _restore = unsafe { memory.restore_after(frame.word()) };
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
    // The scope has promised that its tasks run: nobody kills them.
    const VTABLE: &'static TaskVTable = &TaskVTable::awaited(Self::run);

    fn allocate(scope: &Scope<'scope>, closure: F, context: C) -> NonNull<TaskHeader> {
        let header = TaskHeader::new(Self::VTABLE);
        memory::allocate(ManuallyDrop::new(Self { header, scope, closure, context })).cast()
    }

    unsafe fn run(task: NonNull<TaskHeader>, worker: RunOn) {
        let place = task.cast::<ManuallyDrop<Self>>();
        // SAFETY: made by `allocate`, and queues run a task once.
        let task = ManuallyDrop::into_inner(unsafe { place.read() });
        // SAFETY: as above; what was in it has been taken out.
        unsafe { memory::free(place) };
        let Self { scope, closure, context, .. } = task;
        // SAFETY: by `run`'s contract.
        let memory = unsafe { &*worker.cast::<Worker>() }.memory();
        // SAFETY: C2.
        let alive = unsafe { &*scope };
        note_member(scope, memory);
        alive.run_part(memory, &context, || closure(alive));
        drop(context);
        memory.note_end(place.cast());
        // SAFETY: C1: the task's share.
        unsafe { leave(scope, memory) };
    }
}

/// Records that what runs here is a task of the scope.
#[inline]
fn note_member(scope: *const Scope<'_>, memory: &WorkerMemory) {
    if memory.lane.is_on() {
        memory.lane.note(EventKind::Member, 0, recorder::key_of(scope));
    }
}

/// Gives back a share of the count.
///
/// # Safety
///
/// The caller has it (C1), and uses nothing of the scope afterwards.
#[inline]
unsafe fn leave(scope: *const Scope<'_>, memory: &WorkerMemory) {
    // SAFETY: C1.
    let count = unsafe { &raw const (*scope).count };
    // SAFETY: contract.
    unsafe { memory.purse().earn(count) };
}

/// A closure that each thread of the pool calls as a task of the scope. All have one share of the count.
struct ScopeErrand<'scope, F, C> {
    scope: *const Scope<'scope>,
    closure: F,
    context: C,
}

impl<'scope, F, C> Errand for ScopeErrand<'scope, F, C>
where
    F: Fn(&Scope<'scope>, usize) + Send + Sync + 'scope,
    C: Inherited,
{
    fn run(&self, index: usize, memory: &WorkerMemory) {
        // SAFETY: C2.
        let scope = unsafe { &*self.scope };
        note_member(scope, memory);
        scope.run_part(memory, &self.context, || (self.closure)(scope, index));
    }

    fn end(self, memory: &WorkerMemory) {
        let Self { scope, closure, context } = self;
        // SAFETY: C2.
        let alive = unsafe { &*scope };
        alive.run_part(memory, &context, || drop(closure));
        drop(context);
        // SAFETY: C1: the share of all.
        unsafe { leave(scope, memory) };
    }
}

#[cfg(all(test, not(any(miri, raddle_model))))]
mod tests;
