//! Which tasks run on a worker, so that `kill_all` finds them and a cycle is seen.
//!
//! A list on the worker's stack, innermost task first, behind one word in its memory. A killer that looks at it says so,
//! and the worker waits for it before an entry goes. Tasks come and go often and killers seldom, so the
//! killer runs the heavy fence for both (see `raddle_sync::fence`).
//!
//! | step | worker                    | killer                    |
//! |------|---------------------------|---------------------------|
//! | 1    | takes an entry off         | stores `watched`          |
//! | 2    | *light fence*             | *heavy fence*             |
//! | 3    | waits while `watched`     | reads the list            |
//!
//! # Invariants
//!
//! - **U1** Entries are added and removed by the worker alone, and one that is removed stays where it is until no killer
//!   looks that may have found it: so by the table, as one of the two sees the other.
//! - **U2** A task in the list is running: its runner has not left (`RUNNER` in `claim`), so it is alive.

use std::ptr::{self, NonNull};

use raddle_sync::atomic::{AtomicBool, AtomicPtr, Ordering, fence};
use raddle_sync::fence::{heavy, light, process_wide};
use raddle_sync::spin::Backoff;

use crate::job::TaskHeader;

/// The tasks that run on a worker.
#[derive(Debug)]
pub(crate) struct List {
    innermost: AtomicPtr<Running>,
    /// A killer looks at it.
    watched: AtomicBool,
}

/// One running task.
#[derive(Debug)]
pub(crate) struct Running {
    task: NonNull<TaskHeader>,
    outer: *mut Running,
}

impl List {
    pub(crate) fn new() -> List {
        List { innermost: AtomicPtr::new(ptr::null_mut()), watched: AtomicBool::new(false) }
    }

    /// Lists `task` while `body` runs, which must not unwind.
    #[inline]
    pub(crate) fn with<R>(&self, task: NonNull<TaskHeader>, body: impl FnOnce() -> R) -> R {
        // ORD: the worker's own word.
        let outer = self.innermost.load(Ordering::Relaxed);
        let mut entry = Running { task, outer };
        // ORD: Release pairs with the Acquire in `for_each`: the entry is complete, and its task has started.
        self.innermost.store(&raw mut entry, Ordering::Release);
        let result = body();
        // ORD: Release as above, for the outer entry.
        self.innermost.store(outer, Ordering::Release);
        if process_wide() {
            light()
        } else {
            fence(Ordering::SeqCst)
        } // U1
        // ORD: Acquire pairs with the Release in `for_each`: the killer is done with the entry, and its task.
        if self.watched.load(Ordering::Acquire) {
            self.outwait();
        }
        result
    }

    #[cold]
    fn outwait(&self) {
        let mut backoff = Backoff::new();
        // ORD: as in `with`.
        while self.watched.load(Ordering::Acquire) {
            backoff.spin();
        }
    }

    /// Worker itself: whether `task` is in the list.
    pub(crate) fn contains(&self, task: NonNull<TaskHeader>) -> bool {
        let mut entry = self.innermost.load(Ordering::Relaxed);
        // SAFETY: entries are on this thread's own stack, below this frame.
        while let Some(running) = unsafe { entry.as_ref() } {
            if running.task == task {
                return true;
            }
            entry = running.outer;
        }
        false
    }

    /// Killer: shows each task of the list to `visit` while the list stands still.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(NonNull<TaskHeader>)) {
        // ORD: a hint: what begins to run now may be missed.
        if self.innermost.load(Ordering::Relaxed).is_null() {
            return;
        }
        let mut backoff = Backoff::new();
        // ORD: Acquire pairs with the Release of the killer before.
        while self.watched.swap(true, Ordering::Acquire) {
            backoff.spin();
        }
        heavy(); // U1
        // ORD: Acquire pairs with the Release in `with`.
        let mut entry = self.innermost.load(Ordering::Acquire);
        // SAFETY: U1: the entries stay while the list is watched.
        while let Some(running) = unsafe { entry.as_ref() } {
            visit(running.task);
            entry = running.outer;
        }
        // ORD: Release pairs with the Acquire in `with`.
        self.watched.store(false, Ordering::Release);
    }
}
