//! Calls from outside that find no place: a worker runs the closure, while the caller blocks.

use std::panic::{self, AssertUnwindSafe};
use std::ptr::NonNull;
use std::sync::Arc;

use raddle_sync::atomic::Ordering;
use raddle_sync::crowd::{self, CROWD, Crowd};
use raddle_sync::time::Instant;
use raddle_sync::{start, thread};
use raddle_trace::EventKind;

use crate::job::{RunOn, TaskHeader, TaskVTable};
use crate::latch::Latch;
use crate::local::{self, Captured, Entered};
use crate::pool::policy::WATCH;
use crate::pool::recorder::task_key;
use crate::pool::wait::Goal;
use crate::pool::{Registry, Worker, blocking, current_parker, wait_for};
use crate::queue::{NOBODY, Task};

impl Registry {
    /// Has a worker call `f`, and blocks meanwhile.
    #[cold]
    pub(crate) fn call<F, R>(&self, f: F) -> R
    where
        F: FnOnce(&Worker) -> R + Send,
        R: Send,
    {
        let mut call = Call {
            header: TaskHeader::new(Call::<F, R>::VTABLE),
            latch: Latch::new(current_parker()),
            context: local::current(),
            captured: local::capture_followed(),
            closure: Some(f),
            result: None,
        };
        let task = NonNull::from(&mut call).cast::<TaskHeader>();
        self.note_here(EventKind::Submit, 0, task_key(task));
        // A worker of another pool goes on with work of that pool.
        let soon = Worker::here().is_none() && self.places.counts().free() > 0;
        // ORD: a hint for later guests: before the call is queued.
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.inject(task, NOBODY);
        // By a thread that has left, and kept the pool that it was of.
        let _late = self.is_ending().then(|| self.keep_open());
        // SAFETY: the call is this frame's.
        let latch = unsafe { &(*task.cast::<Call<F, R>>().as_ptr()).latch };
        if soon {
            watch(latch, &CROWD);
        }
        wait_for(latch, Goal::Future(latch, None));
        self.note_here(EventKind::Waited, 0, task_key(task));
        match call.result.take() {
            Some(Ok(result)) => result,
            Some(Err(payload)) => panic::resume_unwind(payload),
            None => unreachable!("the latch is set after the call"),
        }
    }
}

/// Has a thread of its own call `f`, which does not unwind, while this one waits and does no more than open its mail, if that takes
/// long. False: no such thread is to be had, and nothing was called.
pub(super) fn call_beside(name: &str, f: impl FnOnce() + Send + 'static) -> bool {
    let latch = Arc::new(Latch::new(current_parker()));
    let set = Arc::clone(&latch);
    let call = move || {
        f();
        // SAFETY: this thread has a share of it.
        unsafe { Latch::set(Arc::as_ptr(&set)) };
    };
    let builder = thread::Builder::new().name(name.into());
    let Ok(thread) = start(builder, Box::new(call)) else { return false };
    wait_for(&latch, Goal::Alone(&latch));
    // It has nothing left to do; whoever counts threads counts it no more.
    let _ = blocking(|| thread.join());
    true
}

/// Looks for a moment whether the latch is set, so that whoever sets it need not wake this thread. Meanwhile its processor is for
/// others; but not where programs wait for it, who would have it for a time slice.
fn watch(latch: &Latch, crowd: &Crowd) {
    let began = crowd::now();
    if crowd.is_there(began) {
        return;
    }
    let since = Instant::now();
    while !latch.is_set() && since.elapsed() < WATCH {
        thread::yield_now();
    }
    crowd.note_wait(began, crowd::now());
}

/// A closure whose caller blocks until a worker has called it.
#[repr(C)]
struct Call<F, R> {
    header: TaskHeader,
    latch: Latch,
    context: usize,
    captured: Option<Captured>,
    closure: Option<F>,
    result: Option<std::thread::Result<R>>,
}

impl<F, R> Call<F, R>
where
    F: FnOnce(&Worker) -> R + Send,
    R: Send,
{
    /// Plain: its caller waits for it, so it is not to be killed.
    const VTABLE: &'static TaskVTable = &TaskVTable::awaited(Self::run);

    unsafe fn run(task: Task, worker: RunOn) {
        let call = task.cast::<Self>().as_ptr();
        // SAFETY: the caller blocks until the latch is set, and does not touch the rest.
        let closure = unsafe { &mut (*call).closure }.take();
        // SAFETY: by `run`'s contract.
        let worker = unsafe { &*worker.cast::<Worker>() };
        let memory = worker.memory();
        // ORD: as where it was counted.
        worker.registry().calls.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: as above.
        memory.owned.context.set(unsafe { (*call).context });
        // SAFETY: as above.
        let captured = unsafe { &(*call).captured };
        let entered = Entered::by(|| captured.as_ref());
        let result = closure.map(|f| panic::catch_unwind(AssertUnwindSafe(|| f(worker))));
        drop(entered);
        // SAFETY: as above.
        unsafe { (*call).result = result };
        memory.note_end(task);
        // SAFETY: as above; after this the caller goes on.
        let latch = unsafe { &raw const (*call).latch };
        // SAFETY: as above.
        unsafe { Latch::set(latch) };
    }
}

#[cfg(all(test, not(raddle_model)))]
mod tests {
    use super::*;

    #[test]
    fn a_caller_watches_but_not_where_others_have_the_processors() {
        let latch = Latch::new(current_parker());
        let watched = |crowd: &Crowd| {
            let since = Instant::now();
            watch(&latch, crowd);
            since.elapsed()
        };
        assert!((0..10).all(|_| watched(&Crowd::new()) >= WATCH));

        let crowd = Crowd::new();
        assert!(crowd.note_wait(1, u64::MAX / 2) && crowd.is_there(crowd::now()));
        // One of them is not held up itself.
        assert!((0..100).any(|_| watched(&crowd) < WATCH));
    }
}
