//! The consumers of a shared future, in the order in which they came.

use crate::future::promise::Pledge;

/// A list by keys, for one or two consumers mostly: an interrupt of a graph looks at one for each of its nodes, so it is to be
/// short. Whoever leaves is looked up, and leaves a gap; when there are more of these than consumers, the list is made anew. So
/// leaving takes constant time, but for the look-up.
pub(super) struct Consumers<T> {
    /// The keys ascend.
    list: Vec<Consumer<T>>,
    gaps: usize,
    /// The key of the next.
    next: usize,
}

struct Consumer<T> {
    key: usize,
    /// Gone with the consumer.
    promise: Option<Pledge<T>>,
    wants: bool,
}

/// As many as there are room for at first.
const FEW: usize = 2;

impl<T> Consumers<T> {
    /// Of which the first key is to be this.
    pub(super) fn new(first: usize) -> Consumers<T> {
        Consumers { list: Vec::new(), gaps: 0, next: first }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.len() == self.gaps
    }

    /// The key that the next consumer gets.
    pub(super) fn next_key(&self) -> usize {
        self.next
    }

    /// One more, who wants the result.
    pub(super) fn push(&mut self, promise: Pledge<T>) {
        if self.list.capacity() == 0 {
            self.list.reserve_exact(FEW);
        }
        self.list.push(Consumer { key: self.next, promise: Some(promise), wants: true });
        self.next += 1;
    }

    fn find(&mut self, key: usize) -> Option<&mut Consumer<T>> {
        let at = self.list.binary_search_by_key(&key, |consumer| consumer.key).ok()?;
        self.list.get_mut(at).filter(|consumer| consumer.promise.is_some())
    }

    /// This consumer wants the result no more; whether it has until now. None: it has left.
    pub(super) fn give_up(&mut self, key: usize) -> Option<bool> {
        self.find(key).map(|consumer| std::mem::replace(&mut consumer.wants, false))
    }

    /// This consumer leaves: its promise, and whether it wanted the result.
    pub(super) fn remove(&mut self, key: usize) -> Option<(Pledge<T>, bool)> {
        let consumer = self.find(key)?;
        let wants = consumer.wants;
        let promise = consumer.promise.take()?;
        self.gaps += 1;
        if self.gaps > self.list.len() / 2 {
            self.list.retain(|consumer| consumer.promise.is_some());
            self.gaps = 0;
            let few = self.list.len().max(FEW);
            if self.list.capacity() / 4 > few {
                self.list.shrink_to(2 * few);
            }
        }
        Some((promise, wants))
    }

    pub(super) fn keys(&self) -> Vec<usize> {
        let there = self.list.iter().filter(|consumer| consumer.promise.is_some());
        there.map(|consumer| consumer.key).collect()
    }

    /// All of them, in the place of none.
    pub(super) fn take(&mut self) -> Consumers<T> {
        std::mem::replace(self, Consumers::new(self.next))
    }

    pub(super) fn into_promises(self) -> impl Iterator<Item = Pledge<T>> {
        self.list.into_iter().filter_map(|consumer| consumer.promise)
    }
}
