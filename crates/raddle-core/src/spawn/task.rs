//! A spawned task: the node of a future, and what a queue holds, in one allocation.

use std::mem::{ManuallyDrop, needs_drop, offset_of};
use std::panic::{self, AssertUnwindSafe, Location};
use std::ptr::NonNull;

use raddle_sync::cell::UnsafeCell;
use raddle_sync::strand;
use raddle_trace::EventKind;

use crate::future::failure::Failure;
use crate::future::node::{self, Body, Ends, Head, NodeRef, VTable};
use crate::future::pinned::{PinVTable, Pinned};
use crate::future::state::{Ended, State};
use crate::future::upstream::{Locked, Visitor};
use crate::future::{Assist, Future, Interrupt, Killed, Waiter, walk};
use crate::job::{Notes, RunOn, TaskHeader, TaskVTable};
use crate::local::{self, Context, Frame};
use crate::memory;
use crate::panics::discard;
use crate::pool::recorder;
use crate::pool::{self, Pool, PoolRef, Registry, Worker};
use crate::spawn::claim::{Claim, KillOutcome, Started};
use crate::spawn::hooks::{Outcome, TaskId};

/// Runs `f` on a pool and returns the future of its result.
///
/// On a thread of a pool that is its pool, from outside the global one. Costs one allocation, of a block that was kept if there
/// is one (see [`Promise`](crate::Promise)). The last task spawned by a worker is the first that it runs itself; thieves take the oldest.
///
/// A panic of `f` becomes the future's failure. If `f` returns a `Result`, that is the value: end it with
/// [`lower`](Future::lower) for an error to be a failure. An async block that `f` returns is not run: for those there is
/// [`Future::from_async`].
///
/// ```
/// let futures: Vec<_> = (0..4_u64).map(|i| raddle::spawn(move || i * i)).collect();
/// let squares: u64 = futures.into_iter().map(|f| f.wait().unwrap()).sum();
/// assert_eq!(squares, 14);
/// ```
#[doc(alias = "future")]
#[doc(alias = "async")]
#[doc(alias = "spawn_blocking")]
#[track_caller]
pub fn spawn<F, T>(f: F) -> Future<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    match Worker::here() {
        Some(memory) => {
            let (future, task) =
                task_of(memory.registry(), pool::next_task_id(memory.registry()), f);
            pool::queue_here(memory, task, Some(Location::caller()));
            future
        }
        None => Pool::global().spawn(f),
    }
}

/// A task of this pool that has not started never will, and may lie in the ring of this very thread.
fn leave_husk(home: PoolRef) {
    if let Some(worker) = Worker::current().filter(|worker| home.is_of(worker.registry())) {
        worker.memory().leave_husk(worker);
    }
}

/// The task; `head` first, so that a pointer to one is a pointer to the other.
#[repr(C)]
struct Task<F, T> {
    head: Head,
    /// The closure until the task starts or is killed.
    body: UnsafeCell<Body<F, T>>,
    header: TaskHeader,
    claim: Claim,
    id: TaskId,
    home: PoolRef,
    /// What the task inherited.
    context: ManuallyDrop<Context>,
}

impl Pool {
    /// Runs `f` on this pool and returns the future of its result: see [`spawn`](crate::spawn()).
    #[track_caller]
    pub fn spawn<F, T>(&self, f: F) -> Future<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let registry = self.registry();
        pool::assert_takes_tasks(registry);
        let (future, task) = task_of(registry, pool::next_task_id(registry), f);
        pool::queue(registry, task, Some(Location::caller()));
        future
    }
}

type Spawned<T> = (Future<T>, NonNull<TaskHeader>);

/// A task that is still to be queued, and what hooks know it by.
pub(crate) fn task_of<F, T>(registry: &Registry, id: TaskId, f: F) -> Spawned<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    if const { node::fits::<F>() } {
        return fitting_task_of(registry, id, f);
    }
    fitting_task_of(registry, id, Box::new(f))
}

fn fitting_task_of<F, T>(registry: &Registry, id: TaskId, f: F) -> Spawned<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    node::check_slot::<T>(offset_of!(Task<F, T>, body), 0);
    let task = memory::allocate(Task::<F, T> {
        head: Head { state: State::new(), vtable: Task::<F, T>::NODE },
        body: UnsafeCell::new(Body::of(f)),
        header: TaskHeader::new(Task::<F, T>::TASK),
        claim: Claim::new(),
        id,
        home: registry.gate.home(),
        context: ManuallyDrop::new(local::capture()),
    });
    let node = NodeRef::headed(task.cast());
    // SAFETY: a fresh node whose value is a `T`, which interrupts come to.
    let future = unsafe { Future::pending(Ends::of(node)) };
    (future, Task::header_of(task))
}

impl<F, T> Task<F, T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    const NODE: &'static VTable = &VTable {
        has_slot: true,
        free: Self::free,
        class: None,
        linked: None,
        step: node::never_in_walk,
        forsaken: None,
        wake: node::never,
        visit: Some(Self::visit),
        adapts: false,
        links: false,
        assist: Some(Self::assist),
        kill: Some(Self::kill),
    };

    const PIN: &'static PinVTable = &PinVTable {
        interrupt: Self::interrupt,
        kill: Self::kill,
        assist: Self::assist,
        unpin: Self::unpin,
    };

    const TASK: &'static TaskVTable = &TaskVTable {
        kill: Some(Self::kill_queued),
        complete_killed: Self::complete_killed,
        is_void: Self::is_void,
        notes: Notes::All,
        is_awaited: Self::is_awaited,
        ..TaskVTable::plain(Self::run)
    };

    /// The part of a task that queues hold: with the right to the whole of it.
    fn header_of(task: NonNull<Self>) -> NonNull<TaskHeader> {
        // SAFETY: within the task.
        unsafe { task.byte_add(offset_of!(Self, header)) }.cast()
    }

    /// The task from the part of it that queues hold.
    unsafe fn from_header(header: NonNull<TaskHeader>) -> NonNull<Self> {
        // SAFETY: contract: it is the header of such a task.
        unsafe { header.byte_sub(offset_of!(Self, header)) }.cast()
    }

    // --- the queue's side ---

    unsafe fn run(header: NonNull<TaskHeader>, worker: RunOn) {
        // SAFETY: this table is that of such tasks.
        let task = unsafe { Self::from_header(header) };
        // SAFETY: alive: the queue's share of it is used here.
        let this = unsafe { task.as_ref() };
        // SAFETY: by `run`'s contract.
        let worker = unsafe { &*worker.cast::<Worker>() };
        let alone = this.head.state.is_dropped() && this.claim.start_alone();
        match if alone { Started::Yes } else { this.claim.start_queued() } {
            // SAFETY: started.
            Started::Yes => worker.memory().noted(header, || unsafe {
                Self::execute(task, worker, alone);
            }),
            Started::No => {}
            // SAFETY: K3.
            Started::Free => unsafe { memory::free(task) },
        }
    }

    /// Runs a task that was started, `alone` or not (K4).
    ///
    /// # Safety
    ///
    /// By who started it, on its worker.
    unsafe fn execute(task: NonNull<Self>, worker: &Worker, alone: bool) {
        // SAFETY: `RUNNER` holds it until `finish`.
        let this = unsafe { task.as_ref() };
        let hooks = &worker.registry().config.hooks;
        // SAFETY: K1.
        let closure = unsafe { this.take_closure() };
        let memory = worker.memory();
        // SAFETY: K1, as the closure.
        let context = unsafe { this.take_context() };
        let result = memory.running.with(Self::header_of(task), || {
            let entered = context.enter();
            let frame = context.frame(&this.claim);
            // SAFETY: X1: this frame's, and put back before it goes.
            let restore = unsafe { memory.restore_after(frame.word()) };
            let result = match hooks.before_start(this.id) {
                Ok(()) => panic::catch_unwind(AssertUnwindSafe(closure)),
                Err(payload) => {
                    discard(closure);
                    Err(payload)
                }
            };
            drop(restore);
            drop(entered);
            result.map_err(Failure::panicked)
        });
        drop(context);
        let alone = alone && this.claim.finish_alone();
        if alone || this.claim.finish() {
            let outcome = if result.is_ok() { Outcome::Completed } else { Outcome::Panicked };
            hooks.after_finish(this.id, outcome);
            if alone && result.is_ok() && !needs_drop::<T>() {
                // SAFETY: K4.
                unsafe { memory::free(task) };
            } else {
                // SAFETY: K2; the closure is gone.
                unsafe { Self::resolve(task, result) };
            }
        } else {
            hooks.after_finish(this.id, Outcome::Killed);
            discard(result);
            if this.claim.runner_leaves() {
                // SAFETY: K3.
                unsafe { memory::free(task) };
            }
        }
    }

    unsafe fn take_closure(&self) -> F {
        self.body.with_mut(|body| {
            // SAFETY: K1: there, and taken once.
            unsafe { body.cast::<F>().read() }
        })
    }

    unsafe fn take_context(&self) -> Context {
        // SAFETY: K1: there, and taken once.
        ManuallyDrop::into_inner(unsafe { (&raw const self.context).read() })
    }

    /// Drops what has not been run.
    unsafe fn discard_closure(&self) {
        // SAFETY: K1.
        discard(unsafe { self.take_closure() });
        // SAFETY: K1.
        discard(unsafe { self.take_context() });
    }

    /// Completes the future.
    ///
    /// # Safety
    ///
    /// By the producer (K2), with the body empty; the task may be gone afterwards.
    unsafe fn resolve(task: NonNull<Self>, result: Result<T, Failure>) {
        // SAFETY: contract.
        walk::start(unsafe { node::conclude(NodeRef::headed(task.cast()), result) });
    }

    /// Completes the future of a task that the caller has killed (K2).
    unsafe fn resolve_killed(node: NonNull<Head>) {
        if recorder::anybody_records() {
            let header = Self::header_of(node.cast());
            recorder::note_if_recording(EventKind::Kill, 0, recorder::task_key(header));
        }
        // SAFETY: contract.
        walk::start(unsafe { node::complete::<T>(NodeRef::headed(node), Ended::Killed) });
    }

    unsafe fn kill_queued(header: NonNull<TaskHeader>) -> bool {
        // SAFETY: this table is that of such tasks.
        let task = unsafe { Self::from_header(header) };
        // SAFETY: by `kill`'s contract it is alive.
        let this = unsafe { task.as_ref() };
        match this.claim.kill() {
            KillOutcome::Unstarted => {
                // SAFETY: K1.
                unsafe { this.discard_closure() };
                true
            }
            KillOutcome::Running => true,
            KillOutcome::TooLate => false,
        }
    }

    unsafe fn is_void(header: NonNull<TaskHeader>) -> bool {
        // SAFETY: this table is that of such tasks.
        let task = unsafe { Self::from_header(header) };
        // SAFETY: by `is_void`'s contract it is alive.
        !unsafe { task.as_ref() }.claim.is_queued()
    }

    unsafe fn is_awaited(header: NonNull<TaskHeader>) -> bool {
        // SAFETY: this table is that of such tasks.
        let task = unsafe { Self::from_header(header) };
        // SAFETY: by `is_awaited`'s contract it is alive.
        unsafe { task.as_ref() }.claim.is_awaited()
    }

    unsafe fn complete_killed(header: NonNull<TaskHeader>) {
        // SAFETY: this table is that of such tasks.
        let task = unsafe { Self::from_header(header) };
        // SAFETY: K2: killed by the caller, so that it is the producer.
        unsafe { Self::resolve_killed(task.cast()) };
    }

    // --- the future's side ---

    unsafe fn free(node: NonNull<Head>) {
        let task = node.cast::<Self>();
        // SAFETY: the consumer's share is used here.
        if unsafe { task.as_ref() }.claim.release() {
            // SAFETY: K3.
            unsafe { memory::free(task) };
        }
    }

    unsafe fn kill(node: NonNull<Head>) -> Killed {
        // SAFETY: the future's handle keeps it alive.
        let this = unsafe { node.cast::<Self>().as_ref() };
        let (target, home) = (NodeRef::headed(node), this.home);
        match this.claim.kill() {
            KillOutcome::Unstarted => {
                // By the future's producer, which has not left.
                this.claim.pin();
                // What the closure holds may kill the next one as it goes.
                // SAFETY: K1: once, and pinned until then.
                let let_go = || unsafe { walk::drop_node(target, Self::discard_killed) };
                // SAFETY: K2.
                walk::let_go_after(let_go, || unsafe { Self::resolve_killed(node) });
                leave_husk(home);
                Killed::BeforeStart
            }
            KillOutcome::Running => {
                // SAFETY: K2.
                unsafe { Self::resolve_killed(node) };
                Killed::WhileRunning
            }
            KillOutcome::TooLate => Killed::TooLate,
        }
    }

    /// Drops what a task that was killed would have run (K1), and unpins it.
    unsafe fn discard_killed(node: NodeRef) {
        let Some(node) = node.head() else { unreachable!("tasks have a head") };
        // SAFETY: pinned.
        let this = unsafe { node.cast::<Self>().as_ref() };
        // SAFETY: contract.
        unsafe { this.discard_closure() };
        // SAFETY: contract.
        unsafe { Self::unpin(node) };
    }

    /// A visitor finds the task: pinned, it stays until the visitor has dealt with it.
    unsafe fn visit(node: NonNull<Head>, visitor: &mut Visitor) -> Option<Locked> {
        // SAFETY: V1.
        unsafe { node.cast::<Self>().as_ref() }.claim.pin();
        visitor.found_task(Pinned { node, vtable: Self::PIN });
        None
    }

    unsafe fn unpin(node: NonNull<Head>) {
        let task = node.cast::<Self>();
        // SAFETY: pinned.
        if unsafe { task.as_ref() }.claim.unpin() {
            // SAFETY: K3.
            unsafe { memory::free(task) };
        }
    }

    /// Keeps the task from starting, or has it know that it is interrupted.
    unsafe fn interrupt(node: NonNull<Head>, interrupt: &Interrupt) {
        let task = node.cast::<Self>();
        // SAFETY: pinned.
        let this = unsafe { task.as_ref() };
        this.claim.interrupt();
        if !this.claim.start_waiting() {
            return;
        }
        let let_go = || {
            // SAFETY: K1.
            walk::drop_later(unsafe { this.take_closure() });
            // SAFETY: K1.
            unsafe { this.take_context() }.some().into_iter().for_each(walk::drop_later);
        };
        walk::let_go_after(let_go, || match this.claim.finish() {
            // SAFETY: K2; the closure has been taken out.
            true => unsafe { Self::resolve(task, Err(interrupt.clone().into())) },
            // Pinned, so this is not the last to leave.
            false => _ = this.claim.runner_leaves(),
        });
        leave_husk(this.home);
    }

    unsafe fn assist(node: NonNull<Head>, waiter: Waiter) -> Assist {
        let task = node.cast::<Self>();
        // SAFETY: the future's handle keeps it alive.
        let this = unsafe { task.as_ref() };
        let header = Self::header_of(task);
        match Worker::beneath(|registry| this.home.is_of(registry)) {
            Some(worker) => {
                let _current = worker.enter();
                let memory = worker.memory();
                let within = Frame::current_claim();
                // On this very thread, or as a fork of the task on another.
                let own = within.is_some_and(|claim| std::ptr::eq(claim, &this.claim));
                // The list is as long as tasks wait on this thread; one that nobody has started is not in it.
                if own || !this.claim.is_queued() && memory.running.contains(header) {
                    return Assist::Cycle;
                }
                let may = match waiter {
                    Waiter::Patient => true,
                    Waiter::Hurried => worker.registry().has_nobody_for_more(),
                    Waiter::Late => memory.has_waited_in_vain(),
                };
                // SAFETY: alive, on its own pool.
                let run = || unsafe { Self::run_here(task, worker) };
                if may && memory.fits_task() && run() == Assist::Ran {
                    return Assist::Ran;
                }
            }
            _ if this.claim.is_queued()
                && waiter != Waiter::Late
                && (waiter == Waiter::Patient || this.home.has_nobody_for_more()) =>
            {
                if let Some(guest) = this.home.enter_to_help() {
                    // SAFETY: alive, on its own pool.
                    if unsafe { Self::run_here(task, guest.worker()) } == Assist::Ran {
                        return Assist::Ran;
                    }
                }
            }
            _ => {}
        }
        this.claim.mark_awaited();
        Assist::Go
    }

    /// Runs the task on this worker if nobody has started it.
    ///
    /// # Safety
    ///
    /// By the consumer, on a worker of the task's pool.
    unsafe fn run_here(task: NonNull<Self>, worker: &Worker) -> Assist {
        // SAFETY: contract.
        let this = unsafe { task.as_ref() };
        let header = Self::header_of(task);
        let memory = worker.memory();
        // Another strand of work than the one that waits.
        if memory.ring.pop_if(header) {
            let _strand = strand::enter_foreign();
            memory.on_top(|| memory.run_task(header, worker));
            memory.see_to_end();
            return Assist::Ran;
        }
        if !this.claim.start_waiting() {
            return Assist::Go;
        }
        // SAFETY: alive, and if queued in an injector then in its own pool's.
        let unqueued = unsafe { worker.registry().injector.remove(header) };
        if unqueued {
            this.claim.unqueued();
        } else {
            memory.leave_husk(worker);
        }
        let _strand = strand::enter_foreign();
        // SAFETY: started.
        let run = || local::outside(|| unsafe { Self::execute(task, worker, false) });
        // Its entry in a queue is void now, and not recorded when it is come by.
        memory.on_top(|| memory.noted(header, run));
        if unqueued {
            memory.entries.settle();
            memory.see_to_end();
        }
        Assist::Ran
    }
}
