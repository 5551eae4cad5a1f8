//! Queues of tasks: a ring per worker, and one injector per pool.
//!
//! The **ring** is the work-stealing deque of Chase and Lev (2005): the owner pushes
//! and pops at the bottom, so that what it spawned last runs first while its data is warm; thieves
//! take from the top. A full ring moves to one of twice the size. Orderings follow Lê, Pop,
//! Cohen and Zappa Nardelli, *Correct and Efficient Work-Stealing for Weak Memory Models* (2013).
//! Each task is stored with a *tag*, which says whose it is, so that a wait can take just what it waits for
//! without touching a task that may be gone.
//!
//! The **injector** is a doubly linked list under a lock: what comes from outside, and what is to come after all
//! else. Linked both ways, so that a future that is run by a waiting thread leaves the queue at once. It keeps tags, too.
//!
//! # Invariants
//!
//! - **Q1** A slot of the ring in `[top, bottom)` holds a task; only the owner stores slots, and only
//!   at `bottom`, when `bottom - seen` is less than the buffer's length. `seen` is a `top` that the owner has loaded, and `top` only
//!   grows: so what the store overwrites lies below `seen`, and was read by whoever took it before the owner loaded that.
//!   So a thief whose compare-exchange of `top` succeeds has read the task and the tag of that position: in the newest
//!   buffer, or in an older one, whose slots are not stored to any more and hold the same.
//! - **Q2** Owner and thief race for the last task only: both order their store of one index before
//!   their load of the other by SeqCst fences (`pop_where`, `steal_where`), and the compare-exchange of `top` decides.
//! - **Q3** A task's links are read and written under the injector's lock, or before it is pushed.
//! - **Q4** Buffers live as long as the ring, outgrown ones too: all of them together are less than twice the newest. What they hold
//!   is nobody's while the ring is empty: whoever reads a slot then, or has read it before, finds `top` changed. So the owner may have them
//!   read as zeros, and their memory is the system's until the next push there.

mod injector;

use std::ptr::NonNull;

use raddle_sync::atomic::{AtomicPtr, AtomicUsize, Ordering, fence};
use raddle_sync::cell::UnsafeCell;
use raddle_sync::padded::CachePadded;
use raddle_sync::pages;

pub(crate) use self::injector::Injector;
use crate::job::TaskHeader;

/// A task as queues hold it.
pub(crate) type Task = NonNull<TaskHeader>;

/// Whose a task is: the address of a scope, or [`NOBODY`].
pub(crate) type Tag = usize;

/// The tag of tasks that no scope waits for.
pub(crate) const NOBODY: Tag = 0;

#[cfg(not(raddle_model))]
const CAPACITY: usize = 256;
#[cfg(raddle_model)]
const CAPACITY: usize = 2;
/// The memory of so many tasks, 4 MiB, is kept by a ring that is empty when its owner sleeps, waits or leaves.
pub(crate) const KEPT: usize = 1 << 18;

/// See the module.
#[derive(Debug)]
pub(crate) struct Ring {
    top: CachePadded<AtomicUsize>,
    bottom: CachePadded<AtomicUsize>,
    /// The newest buffer (Q4).
    buffer: AtomicPtr<Buffer>,
    /// A position that `top` has reached (Q1): the owner's, which need not load `top`, a word of the thieves', for each push.
    seen: AtomicUsize,
    /// Where the ring was when its memory was given back, see `last_kept`: the owner's.
    given_back: AtomicUsize,
    /// All buffers: the owner's.
    buffers: UnsafeCell<Vec<NonNull<Buffer>>>,
}

// SAFETY: `buffers` is the owner's, the rest atomic; tasks are `Send` by the contracts of those who make them.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

#[derive(Debug)]
struct Buffer(Box<[Slot]>);

#[derive(Debug)]
struct Slot {
    task: AtomicPtr<TaskHeader>,
    tag: AtomicUsize,
}

impl Buffer {
    fn allocate(len: usize) -> NonNull<Buffer> {
        let slot =
            || Slot { task: AtomicPtr::new(std::ptr::null_mut()), tag: AtomicUsize::new(NOBODY) };
        let slots = (0..len).map(|_| slot()).collect();
        NonNull::from(Box::leak(Box::new(Buffer(slots))))
    }

    fn give_back(&self) {
        let start = self.0.as_ptr().cast_mut().cast();
        // SAFETY: slots are atomics, for which zeros are no task; only the owner writes them, and it is here (Q4).
        unsafe { pages::give_back(start, size_of_val(&*self.0)) };
    }

    fn slot(&self, position: usize) -> &Slot {
        // The length is a power of two.
        &self.0[position & (self.0.len() - 1)]
    }
}

impl Ring {
    pub(crate) fn new() -> Ring {
        let buffer = Buffer::allocate(CAPACITY);
        Ring {
            top: CachePadded::new(AtomicUsize::new(0)),
            bottom: CachePadded::new(AtomicUsize::new(0)),
            buffer: AtomicPtr::new(buffer.as_ptr()),
            seen: AtomicUsize::new(0),
            given_back: AtomicUsize::new(0),
            buffers: UnsafeCell::new(vec![buffer]),
        }
    }

    #[inline]
    fn buffer(&self, ordering: Ordering) -> &Buffer {
        // SAFETY: Q4.
        unsafe { &*self.buffer.load(ordering) }
    }

    /// Owner only.
    #[inline]
    pub(crate) fn push(&self, task: Task, tag: Tag) {
        // ORD: these are the owner's own.
        let bottom = self.bottom.load(Ordering::Relaxed);
        let mut buffer = self.buffer(Ordering::Relaxed);
        if bottom.wrapping_sub(self.seen.load(Ordering::Relaxed)) >= buffer.0.len() {
            buffer = self.make_room(bottom);
        }
        let slot = buffer.slot(bottom);
        slot.task.store(task.as_ptr(), Ordering::Relaxed);
        slot.tag.store(tag, Ordering::Relaxed);
        // ORD: Release pairs with the Acquire of `bottom` in `steal_where`.
        self.bottom.store(bottom.wrapping_add(1), Ordering::Release);
    }

    /// A buffer with a slot for `bottom`: there is one if thieves have been here.
    #[cold]
    #[inline(never)]
    fn make_room(&self, bottom: usize) -> &Buffer {
        // ORD: Acquire pairs with the exchanges of `top`: what lies below has been read (Q1).
        let top = self.top.load(Ordering::Acquire);
        self.seen.store(top, Ordering::Relaxed);
        let buffer = self.buffer(Ordering::Relaxed);
        if bottom.wrapping_sub(top) < buffer.0.len() { buffer } else { self.grow(top, bottom) }
    }

    /// Moves what is in `[top, bottom)` to a buffer of twice the size.
    fn grow(&self, top: usize, bottom: usize) -> &Buffer {
        let old = self.buffer(Ordering::Relaxed);
        let new = Buffer::allocate(2 * old.0.len());
        // SAFETY: just made, and not freed before the ring (Q4).
        let buffer = unsafe { new.as_ref() };
        let mut position = top;
        while position != bottom {
            let (from, to) = (old.slot(position), buffer.slot(position));
            // ORD: the owner's own; published below.
            to.task.store(from.task.load(Ordering::Relaxed), Ordering::Relaxed);
            to.tag.store(from.tag.load(Ordering::Relaxed), Ordering::Relaxed);
            position = position.wrapping_add(1);
        }
        self.buffers.with_mut(|buffers| {
            // SAFETY: the owner's.
            unsafe { &mut *buffers }.push(new);
        });
        // ORD: the owner's own. The last of what was copied shows it.
        self.given_back.store(bottom.wrapping_sub(KEPT + 1), Ordering::Relaxed);
        // ORD: Release pairs with the Acquire in `steal_where`: the copies are complete.
        self.buffer.store(new.as_ptr(), Ordering::Release);
        buffer
    }

    /// Owner only: the newest task.
    #[cfg(raddle_model)]
    pub(crate) fn pop(&self) -> Option<Task> {
        self.pop_where(|_, _| true).ok()
    }

    /// Owner only: the newest task if it is this one.
    pub(crate) fn pop_if(&self, task: Task) -> bool {
        self.pop_where(|newest, _| newest == task.as_ptr()).is_ok()
    }

    /// Owner only: the newest task if it has this tag. Else whether there is a newest task.
    #[inline]
    pub(crate) fn pop_tagged(&self, tag: Tag) -> Result<Task, bool> {
        self.pop_where(|_, newest| newest == tag)
    }

    /// Owner only: the newest task, and its tag.
    #[inline]
    pub(crate) fn pop_with_tag(&self) -> Option<(Task, Tag)> {
        let mut tag = NOBODY;
        let task = self.pop_where(|_, newest| {
            tag = newest;
            true
        });
        Some((task.ok()?, tag))
    }

    /// The newest task if it is accepted; else whether there is one.
    #[inline]
    fn pop_where(&self, accept: impl FnOnce(*mut TaskHeader, Tag) -> bool) -> Result<Task, bool> {
        let bottom = self.bottom.load(Ordering::Relaxed);
        // ORD: a stale `top` only hides that the ring is empty, which is found out below.
        if self.top.load(Ordering::Relaxed) == bottom {
            return Err(false);
        }
        let last = bottom.wrapping_sub(1);
        // ORD: the owner's own. (A stale slot of an empty ring may be accepted too: `top` decides.)
        let slot = self.buffer(Ordering::Relaxed).slot(last);
        let task = slot.task.load(Ordering::Relaxed);
        if !accept(task, slot.tag.load(Ordering::Relaxed)) {
            return Err(true);
        }
        // ORD: Release as in `push`, whose own a thief that reads this value does not see.
        self.bottom.store(last, Ordering::Release);
        fence(Ordering::SeqCst); // Q2, pairs with the fence in `steal_where`
        let top = self.top.load(Ordering::Relaxed);
        let left = last.wrapping_sub(top) as isize;
        let mut task = NonNull::new(task).ok_or(false);
        if left <= 0 {
            // The last one, or none.
            // ORD: Q2.
            if left < 0
                || self
                    .top
                    .compare_exchange(top, top.wrapping_add(1), Ordering::SeqCst, Ordering::Relaxed)
                    .is_err()
            {
                task = Err(false);
            }
            // ORD: the owner's own word; thieves see an empty ring either way.
            self.bottom.store(bottom, Ordering::Relaxed);
        }
        task
    }

    /// The oldest task.
    #[cfg(raddle_model)]
    pub(crate) fn steal(&self) -> Option<Task> {
        self.steal_with_tag().map(|(task, _)| task)
    }

    /// The oldest task, and its tag.
    pub(crate) fn steal_with_tag(&self) -> Option<(Task, Tag)> {
        self.steal_where(|_, _| true)
    }

    /// As `steal_with_tag`, if its position is accepted: asked when all has been seen that its owner had done before it queued the task.
    pub(crate) fn steal_at(&self, accept: impl Fn(usize) -> bool) -> Option<(Task, Tag)> {
        self.steal_where(|position, _| accept(position))
    }

    /// All tasks, the oldest first, as long as there is one.
    pub(crate) fn drain(&self) -> impl Iterator<Item = (Task, Tag)> {
        std::iter::from_fn(|| self.steal_with_tag())
    }

    /// The oldest task if it has this tag.
    pub(crate) fn steal_tagged(&self, tag: Tag) -> Option<Task> {
        self.steal_where(|_, oldest| oldest == tag).map(|(task, _)| task)
    }

    fn steal_where(&self, accept: impl Fn(usize, Tag) -> bool) -> Option<(Task, Tag)> {
        loop {
            // ORD: Acquire: Q1 and the loads that follow.
            let top = self.top.load(Ordering::Acquire);
            fence(Ordering::SeqCst); // Q2, pairs with the fence in `pop_where`
            // ORD: Acquire pairs with the Release in `push`.
            let bottom = self.bottom.load(Ordering::Acquire);
            if bottom.wrapping_sub(top) as isize <= 0 {
                return None;
            }
            // ORD: Acquire pairs with the Release in `grow`.
            let slot = self.buffer(Ordering::Acquire).slot(top);
            let task = slot.task.load(Ordering::Relaxed);
            let tag = slot.tag.load(Ordering::Relaxed);
            if !accept(top, tag) {
                return None;
            }
            // ORD: Q2.
            if self
                .top
                .compare_exchange(top, top.wrapping_add(1), Ordering::SeqCst, Ordering::Relaxed)
                .is_ok()
            {
                return Some((NonNull::new(task)?, tag));
            }
        }
    }

    /// Owner only: whether the ring is empty, and much memory was used since the last [`give_back`](Ring::give_back).
    #[inline]
    pub(crate) fn keeps_much(&self) -> bool {
        // What was used since lies from there on without a gap, and slots keep what they had.
        let is_used = || !self.last_kept().task.load(Ordering::Relaxed).is_null();
        self.buffer(Ordering::Relaxed).0.len() > KEPT && self.len() == 0 && is_used()
    }

    /// A slot that shows, if it is not null, that so many after the last `give_back` were used.
    fn last_kept(&self) -> &Slot {
        // ORD: the owner's own, as all that these four use.
        let position = self.given_back.load(Ordering::Relaxed).wrapping_add(KEPT);
        self.buffer(Ordering::Relaxed).slot(position)
    }

    /// Owner only: gives the memory of a ring that is empty back to the system (Q4), if it is much. Takes milliseconds then.
    #[inline]
    pub(crate) fn give_back(&self) {
        if self.keeps_much() {
            self.give_all_back();
        }
    }

    #[cold]
    fn give_all_back(&self) {
        // Whoever took what was here has read it: pairs with the `SeqCst` exchange of `top` (Q1).
        fence(Ordering::Acquire);
        self.given_back.store(self.position(), Ordering::Relaxed);
        self.buffers.with_mut(|buffers| {
            // SAFETY: the owner's.
            let buffers = unsafe { &*buffers };
            // SAFETY: Q4.
            buffers.iter().for_each(|buffer| unsafe { buffer.as_ref() }.give_back());
        });
        // It may lie in a page that is not the buffer's alone.
        self.last_kept().task.store(std::ptr::null_mut(), Ordering::Relaxed);
    }

    /// Whether a task may be here; exact after a heavy fence.
    pub(crate) fn has_work(&self) -> bool {
        self.len() > 0
    }

    /// The position of the next task; for others than the owner a hint.
    #[inline]
    pub(crate) fn position(&self) -> usize {
        self.bottom.load(Ordering::Relaxed)
    }

    /// The position of the oldest task: a hint.
    pub(crate) fn oldest(&self) -> usize {
        self.top.load(Ordering::Relaxed)
    }

    /// Owner only: whether there are tasks from this position on.
    pub(crate) fn reaches(&self, position: usize) -> bool {
        self.position().wrapping_sub(position) as isize > 0
    }

    /// How many tasks may be here; exact for the owner while nobody steals.
    pub(crate) fn len(&self) -> usize {
        let bottom = self.bottom.load(Ordering::Relaxed);
        (bottom.wrapping_sub(self.top.load(Ordering::Relaxed)) as isize).max(0) as usize
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let buffers = self.buffers.with_mut(|buffers| {
            // SAFETY: nobody else is left.
            std::mem::take(unsafe { &mut *buffers })
        });
        for buffer in buffers {
            // SAFETY: leaked in `allocate`, and nobody reads it any more.
            drop(unsafe { Box::from_raw(buffer.as_ptr()) });
        }
    }
}

#[cfg(all(test, target_os = "linux", not(any(miri, raddle_model))))]
mod tests;
