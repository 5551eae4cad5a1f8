//! Which tasks run on a worker, so that `kill_all` finds them and a cycle is seen.
//!
//! A list on the worker's stack, innermost task first, behind one word in its region. The word's
//! lowest bit is a lock that a killer takes for a moment.
//!
//! # Invariants
//!
//! - **U1** Entries are added and removed by the worker alone, and not while the word is locked.
//! - **U2** A task in the list is running: its runner has not left (`RUNNER` in `claim`), so it is alive.

use std::ptr::{self, NonNull};

use raddle_sync::atomic::{AtomicPtr, Ordering};
use raddle_sync::spin::Backoff;

use crate::job::TaskHeader;

/// One running task.
#[derive(Debug)]
#[repr(align(8))]
pub(crate) struct Running {
    task: NonNull<TaskHeader>,
    outer: *mut Running,
}

fn is_locked(word: *mut Running) -> bool {
    word.addr() & 1 != 0
}

impl Running {
    /// Lists `task` while `body` runs, which must not unwind.
    pub(crate) fn scope<R>(
        list: &AtomicPtr<Running>,
        task: NonNull<TaskHeader>,
        body: impl FnOnce() -> R,
    ) -> R {
        let mut entry = Running { task, outer: ptr::null_mut() };
        let me = &raw mut entry;
        // ORD: own word, but for a killer's lock.
        let outer = list.load(Ordering::Relaxed).map_addr(|addr| addr & !1);
        // SAFETY: not listed yet.
        unsafe { (*me).outer = outer };
        if outer.is_null() {
            // ORD: Release pairs with the Acquire of a killer's lock. An empty list is not locked.
            list.store(me, Ordering::Release);
        } else {
            Running::replace(list, outer, me);
        }
        let result = body();
        Running::replace(list, me, outer);
        result
    }

    /// Changes the word from one entry to another when it is not locked (U1).
    fn replace(list: &AtomicPtr<Running>, from: *mut Running, to: *mut Running) {
        let mut backoff = Backoff::new();
        // ORD: Release: the entry is complete. Acquire: the killer is done with it.
        while list.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            backoff.spin();
        }
    }

    /// Worker itself: whether `task` is in the list.
    pub(crate) fn contains(list: &AtomicPtr<Running>, task: NonNull<TaskHeader>) -> bool {
        let mut entry = list.load(Ordering::Relaxed).map_addr(|addr| addr & !1);
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
    pub(crate) fn for_each(list: &AtomicPtr<Running>, mut visit: impl FnMut(NonNull<TaskHeader>)) {
        let mut backoff = Backoff::new();
        let first = loop {
            let first = list.load(Ordering::Relaxed);
            if first.is_null() {
                return;
            }
            let locked = first.map_addr(|addr| addr | 1);
            // ORD: Acquire pairs with the Release of the worker's store.
            if !is_locked(first)
                && list
                    .compare_exchange(first, locked, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                break first;
            }
            backoff.spin();
        };
        let mut entry = first;
        // SAFETY: U1: the entries stay while the word is locked.
        while let Some(running) = unsafe { entry.as_ref() } {
            visit(running.task);
            entry = running.outer;
        }
        // ORD: Release pairs with the Acquire of `replace`.
        list.store(first, Ordering::Release);
    }
}
