//! Queues of tasks: a bounded ring per worker, and one injector per pool.
//!
//! The **ring** is the work-stealing deque of Chase and Lev (2005), of fixed size: the owner pushes
//! and pops at the bottom, so that what it spawned last runs first while its data is warm; thieves
//! take from the top. A full ring moves its older half to the injector. Orderings follow Lê, Pop,
//! Cohen and Zappa Nardelli, *Correct and Efficient Work-Stealing for Weak Memory Models* (2013).
//!
//! The **injector** is a doubly linked list under a lock: what comes from outside, and what
//! overflows. Linked both ways, so that a future that is run by whoever waits for it leaves the queue
//! at once.
//!
//! # Invariants
//!
//! - **Q1** A slot of the ring in `[top, bottom)` holds a task; only the owner stores slots, and only
//!   at `bottom`, when `bottom - top < CAPACITY`. So a thief whose compare-exchange of `top` succeeds
//!   has read the task of that position.
//! - **Q2** Owner and thief race for the last task only: both order their store of one index before
//!   their load of the other by SeqCst fences, and the compare-exchange of `top` decides.
//! - **Q3** A task's links are read and written under the injector's lock, or before it is pushed.

use std::ptr::NonNull;

use crossbeam_utils::CachePadded;
use raddle_sync::atomic::{AtomicPtr, AtomicUsize, Ordering, fence};
use raddle_sync::sync::Mutex;

use crate::job::{Links, TaskHeader};

/// A task as queues hold it.
pub(crate) type Task = NonNull<TaskHeader>;

#[cfg(not(any(raddle_loom, raddle_shuttle)))]
const CAPACITY: usize = 256;
#[cfg(any(raddle_loom, raddle_shuttle))]
const CAPACITY: usize = 2;

/// See the module.
#[derive(Debug)]
pub(crate) struct Ring {
    top: CachePadded<AtomicUsize>,
    bottom: CachePadded<AtomicUsize>,
    slots: Box<[AtomicPtr<TaskHeader>]>,
}

impl Ring {
    pub(crate) fn new() -> Ring {
        Ring {
            top: CachePadded::new(AtomicUsize::new(0)),
            bottom: CachePadded::new(AtomicUsize::new(0)),
            slots: (0..CAPACITY).map(|_| AtomicPtr::new(std::ptr::null_mut())).collect(),
        }
    }

    fn slot(&self, position: usize) -> &AtomicPtr<TaskHeader> {
        &self.slots[position % CAPACITY]
    }

    /// Owner only. Gives the task back if the ring is full.
    pub(crate) fn push(&self, task: Task) -> Result<(), Task> {
        // ORD: `bottom` is the owner's own; Acquire of `top` pairs with the thieves' exchange, so
        // that the slot of a stolen task is not overwritten before it was read (Q1).
        let bottom = self.bottom.load(Ordering::Relaxed);
        let top = self.top.load(Ordering::Acquire);
        if bottom.wrapping_sub(top) >= CAPACITY {
            return Err(task);
        }
        self.slot(bottom).store(task.as_ptr(), Ordering::Relaxed);
        // ORD: Release pairs with the Acquire of `bottom` in `steal`.
        self.bottom.store(bottom.wrapping_add(1), Ordering::Release);
        Ok(())
    }

    /// Owner only: the newest task.
    pub(crate) fn pop(&self) -> Option<Task> {
        let bottom = self.bottom.load(Ordering::Relaxed);
        // ORD: a stale `top` only hides that the ring is empty, which is found out below.
        if self.top.load(Ordering::Relaxed) == bottom {
            return None;
        }
        let last = bottom.wrapping_sub(1);
        // ORD: Release as in `push`, whose own a thief that reads this value does not see.
        self.bottom.store(last, Ordering::Release);
        fence(Ordering::SeqCst); // Q2, pairs with the fence in `steal`
        let top = self.top.load(Ordering::Relaxed);
        let left = last.wrapping_sub(top) as isize;
        let mut task = NonNull::new(self.slot(last).load(Ordering::Relaxed));
        if left <= 0 {
            // The last one, or none.
            // ORD: Q2.
            if left < 0
                || self
                    .top
                    .compare_exchange(top, top.wrapping_add(1), Ordering::SeqCst, Ordering::Relaxed)
                    .is_err()
            {
                task = None;
            }
            // ORD: the owner's own word; thieves see an empty ring either way.
            self.bottom.store(bottom, Ordering::Relaxed);
        }
        task
    }

    /// Owner only: the newest task if it is this one.
    pub(crate) fn pop_if(&self, task: Task) -> bool {
        let bottom = self.bottom.load(Ordering::Relaxed);
        if self.top.load(Ordering::Relaxed) == bottom {
            return false;
        }
        // A stale slot of an empty ring may equal `task` too: `pop` decides.
        let newest = self.slot(bottom.wrapping_sub(1)).load(Ordering::Relaxed);
        newest == task.as_ptr() && self.pop().is_some()
    }

    /// The oldest task.
    pub(crate) fn steal(&self) -> Option<Task> {
        loop {
            // ORD: Acquire: Q1 and the loads that follow.
            let top = self.top.load(Ordering::Acquire);
            fence(Ordering::SeqCst); // Q2, pairs with the fence in `pop`
            // ORD: Acquire pairs with the Release in `push`.
            let bottom = self.bottom.load(Ordering::Acquire);
            if bottom.wrapping_sub(top) as isize <= 0 {
                return None;
            }
            let task = self.slot(top).load(Ordering::Relaxed);
            // ORD: Q2.
            if self
                .top
                .compare_exchange(top, top.wrapping_add(1), Ordering::SeqCst, Ordering::Relaxed)
                .is_ok()
            {
                return NonNull::new(task);
            }
        }
    }

    /// Whether a task may be here; exact after a heavy fence.
    pub(crate) fn has_work(&self) -> bool {
        let bottom = self.bottom.load(Ordering::Relaxed);
        bottom.wrapping_sub(self.top.load(Ordering::Relaxed)) as isize > 0
    }

    /// How many tasks a full ring gives to the injector.
    pub(crate) const SPILL: usize = CAPACITY / 2;
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Injector {
    list: Mutex<List>,
    /// Length of the list, for looks without the lock.
    len: CachePadded<AtomicUsize>,
}

#[derive(Debug, Default)]
struct List {
    first: Option<Task>,
    last: Option<Task>,
}

// SAFETY: tasks are `Send` by the contracts of those who make them.
unsafe impl Send for List {}

impl Injector {
    pub(crate) fn new() -> Injector {
        Injector::default()
    }

    pub(crate) fn len(&self) -> usize {
        // ORD: a hint, or ordered by the caller's fence.
        self.len.load(Ordering::Relaxed)
    }

    /// Adds tasks at the end, in their order.
    pub(crate) fn push(&self, tasks: impl IntoIterator<Item = Task>) {
        let mut list = self.list.lock();
        let mut count = 0;
        for task in tasks {
            let links = Links { linked: true, previous: list.last, next: None };
            with_links(task, |own| *own = links);
            match list.last {
                Some(last) => with_links(last, |own| own.next = Some(task)),
                None => list.first = Some(task),
            }
            list.last = Some(task);
            count += 1;
        }
        // ORD: stored under the lock; looks without it are ordered by fences.
        self.len.store(self.len.load(Ordering::Relaxed) + count, Ordering::Relaxed);
    }

    /// Takes up to `N` of the oldest tasks, but no more than half of them unless it is one.
    pub(crate) fn take<const N: usize>(&self) -> Option<Batch<N>> {
        if self.len() == 0 {
            return None;
        }
        let mut list = self.list.lock();
        let mut batch = Batch { tasks: [None; N], len: N.min(self.len().div_ceil(2)) };
        for place in &mut batch.tasks[..batch.len] {
            *place = list.first;
            let Some(task) = list.first else { unreachable!("len counts the list") };
            self.unlink(&mut list, task);
        }
        Some(batch)
    }

    /// Takes this task out if it is still here.
    ///
    /// # Safety
    ///
    /// The task must be alive, and if it is in any injector, in this one.
    pub(crate) unsafe fn remove(&self, task: Task) -> bool {
        let mut list = self.list.lock();
        let linked = with_links(task, |own| own.linked);
        if linked {
            self.unlink(&mut list, task);
        }
        linked
    }

    fn unlink(&self, list: &mut List, task: Task) {
        let links = with_links(task, std::mem::take);
        match links.previous {
            Some(previous) => with_links(previous, |own| own.next = links.next),
            None => list.first = links.next,
        }
        match links.next {
            Some(next) => with_links(next, |own| own.previous = links.previous),
            None => list.last = links.previous,
        }
        // ORD: as in `push`.
        self.len.store(self.len.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    }
}

/// Tasks taken from the injector, oldest first.
#[derive(Debug)]
pub(crate) struct Batch<const N: usize> {
    tasks: [Option<Task>; N],
    len: usize,
}

impl<const N: usize> Batch<N> {
    pub(crate) fn into_iter(self) -> impl DoubleEndedIterator<Item = Task> {
        self.tasks.into_iter().take(self.len).flatten()
    }
}

/// Works on the links of a task that is linked or being linked, under the lock (Q3).
fn with_links<R>(task: Task, work: impl FnOnce(&mut Links) -> R) -> R {
    // SAFETY: tasks in the list are alive: whoever frees one removes it first.
    let header = unsafe { task.as_ref() };
    header.links.with_mut(|links| {
        // SAFETY: Q3: the lock makes this the only reference.
        work(unsafe { &mut *links })
    })
}
