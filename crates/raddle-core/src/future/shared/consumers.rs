//! The consumers of a shared future, in the order in which they came.

use crate::future::promise::Pledge;

/// A list by keys, for one or two consumers mostly: an interrupt of a graph looks at one for each of its nodes, so it is to be
/// short. Whoever leaves is looked up, and leaves a gap; when there are more of these than consumers, the list is made anew. So
/// leaving takes constant time on the average, but for the look-up.
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

#[cfg(all(test, not(raddle_model)))]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::future::Promise;

    /// Consumers come, change their minds and leave in any order, also twice: as in a map by keys.
    #[test]
    fn consumers_are_known_by_their_keys() {
        let mut random = 7_u64;
        let mut below = move |n: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) as usize % n
        };
        let mut consumers = Consumers::<u32>::new(3);
        let mut model = BTreeMap::new();
        for round in 0..20_000 {
            // Many for a while, then few.
            let comes = below(10) < if round / 500 % 2 == 0 { 7 } else { 3 };
            let key = 3 + below(consumers.next_key() - 1);
            if comes {
                model.insert(consumers.next_key(), true);
                consumers.push(Pledge::of(Promise::new().0));
            } else if below(3) == 0 {
                let wanted = model.get_mut(&key).map(|wants| std::mem::replace(wants, false));
                assert_eq!(consumers.give_up(key), wanted);
            } else {
                assert_eq!(consumers.remove(key).map(|(_, wants)| wants), model.remove(&key));
            }
            assert_eq!(consumers.is_empty(), model.is_empty());
            assert!(consumers.list.len() <= 2 * model.len().max(1));
            if below(100) == 0 {
                assert_eq!(consumers.keys(), model.keys().copied().collect::<Vec<_>>());
            }
        }
        let next = consumers.next_key();
        assert_eq!(consumers.take().into_promises().count(), model.len());
        assert!(consumers.is_empty() && consumers.next_key() == next);
    }
}
