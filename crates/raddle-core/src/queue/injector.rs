//! The injector: see [`queue`](super).

use raddle_sync::atomic::{AtomicUsize, Ordering};
use raddle_sync::padded::CachePadded;
use raddle_sync::sync::Mutex;

use super::{NOBODY, Tag, Task};
use crate::job::Links;

/// Added to tags in the injector, where scopes' addresses are even.
const LINKED: usize = 1;

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
    /// How many of them are a scope's.
    tagged: usize,
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

    /// Adds tasks that no scope waits for at the end, in their order.
    pub(crate) fn push(&self, tasks: impl IntoIterator<Item = Task>) {
        self.push_tagged(tasks.into_iter().map(|task| (task, NOBODY)));
    }

    /// Adds tasks at the end, in their order.
    pub(crate) fn push_tagged(&self, tasks: impl IntoIterator<Item = (Task, Tag)>) {
        let mut list = self.list.lock();
        let mut count = 0;
        for (task, tag) in tasks {
            debug_assert!(tag & LINKED == 0);
            list.tagged += usize::from(tag != NOBODY);
            let links = Links { linked: tag | LINKED, previous: list.last, next: None };
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
        self.take_at_most(|| N)
    }

    /// As `take`, `most` at most, and one at least: asked when nobody can queue.
    pub(crate) fn take_at_most<const N: usize>(
        &self,
        most: impl FnOnce() -> usize,
    ) -> Option<Batch<N>> {
        if self.len() == 0 {
            return None;
        }
        let mut list = self.list.lock();
        let len = self.len().div_ceil(2).min(N).min(most().max(1));
        let mut batch = Batch { tasks: [None; N], len };
        for place in &mut batch.tasks[..batch.len] {
            let Some(task) = list.first else { unreachable!("len counts the list") };
            *place = Some((task, self.unlink(&mut list, task)));
        }
        Some(batch)
    }

    /// Takes the oldest task.
    pub(crate) fn take_one(&self) -> Option<(Task, Tag)> {
        self.take::<1>()?.tagged().next()
    }

    /// The address of the oldest task, or 0.
    pub(crate) fn first(&self) -> usize {
        if self.len() == 0 { 0 } else { self.list.lock().first.map_or(0, |task| task.addr().get()) }
    }

    /// Takes the newest task.
    pub(crate) fn take_newest(&self) -> Option<(Task, Tag)> {
        if self.len() == 0 {
            return None;
        }
        let mut list = self.list.lock();
        let task = list.last?;
        Some((task, self.unlink(&mut list, task)))
    }

    /// Takes the oldest task of this tag. Walks past those before it.
    pub(crate) fn take_tagged(&self, tag: Tag) -> Option<Task> {
        if self.len() == 0 {
            return None;
        }
        let mut list = self.list.lock();
        let mut next = list.first.filter(|_| list.tagged > 0);
        while let Some(task) = next {
            let (linked, after) = with_links(task, |own| (own.linked, own.next));
            if linked == tag | LINKED {
                self.unlink(&mut list, task);
                return Some(task);
            }
            next = after;
        }
        None
    }

    /// Takes this task out if it is still here.
    ///
    /// # Safety
    ///
    /// The task must be alive, and if it is in any injector, in this one.
    pub(crate) unsafe fn remove(&self, task: Task) -> bool {
        let mut list = self.list.lock();
        let linked = with_links(task, |own| own.linked) != 0;
        if linked {
            self.unlink(&mut list, task);
        }
        linked
    }

    /// Says with which tag it was there.
    fn unlink(&self, list: &mut List, task: Task) -> Tag {
        let links = with_links(task, std::mem::take);
        let tag = links.linked & !LINKED;
        list.tagged -= usize::from(tag != NOBODY);
        match links.previous {
            Some(previous) => with_links(previous, |own| own.next = links.next),
            None => list.first = links.next,
        }
        match links.next {
            Some(next) => with_links(next, |own| own.previous = links.previous),
            None => list.last = links.previous,
        }
        // ORD: as in `push_tagged`.
        self.len.store(self.len.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        tag
    }
}

/// Tasks taken from the injector, oldest first.
#[derive(Debug)]
pub(crate) struct Batch<const N: usize> {
    tasks: [Option<(Task, Tag)>; N],
    len: usize,
}

impl<const N: usize> Batch<N> {
    #[cfg(raddle_model)]
    pub(crate) fn into_iter(self) -> impl DoubleEndedIterator<Item = Task> {
        self.tagged().map(|(task, _)| task)
    }

    pub(crate) fn tagged(self) -> impl DoubleEndedIterator<Item = (Task, Tag)> {
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
