//! Intervals that lie within each other, of which a recording may have lost beginnings and ends.

use std::hash::Hash;
use std::ops::{Deref, DerefMut};

use crate::event::{Event, EventKind, Subject};
use crate::hash::NumberMap;

/// So many are looked through before anything is counted: tasks are seldom nested as deep.
const SHALLOW: usize = 32;

/// What an end is told by.
pub(crate) trait Keyed {
    type Key: Copy + Eq + Hash;
    fn key(&self) -> Self::Key;
}

/// What has begun and has not ended, the innermost last.
///
/// An end is the innermost one's, or those within have lost theirs, and end with it: each is passed over once. An end whose beginning
/// was lost would be looked for in vain among all, time and again, so once one was, it is counted how many of each there are.
#[derive(Debug)]
pub(crate) struct Nest<T: Keyed> {
    open: Vec<T>,
    counts: Option<NumberMap<T::Key, u32>>,
}

impl<T: Keyed> Default for Nest<T> {
    #[inline]
    fn default() -> Nest<T> {
        Nest { open: Vec::new(), counts: None }
    }
}

impl<T: Keyed> Nest<T> {
    #[inline]
    pub(crate) fn push(&mut self, one: T) {
        if let Some(counts) = &mut self.counts {
            *counts.entry(one.key()).or_default() += 1;
        }
        self.open.push(one);
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        let one = self.open.pop()?;
        if let Some(counts) = &mut self.counts {
            // What there is none of is forgotten: keys may be as many as events.
            let left = counts.remove(&one.key()).unwrap_or(0).saturating_sub(1);
            if left > 0 {
                counts.insert(one.key(), left);
            }
        }
        Some(one)
    }

    /// Only so many are left.
    #[inline]
    pub(crate) fn truncate(&mut self, depth: usize) {
        match self.counts {
            None => self.open.truncate(depth),
            Some(_) => {
                while self.open.len() > depth {
                    self.pop();
                }
            }
        }
    }

    /// The place of the innermost one with this key.
    #[inline]
    pub(crate) fn innermost(&mut self, key: T::Key) -> Option<usize> {
        let near = self.open.len().saturating_sub(SHALLOW);
        let found = self.open[near..].iter().rposition(|one| one.key() == key);
        if found.is_some() || near == 0 {
            return found.map(|at| near + at);
        }
        let counts = self.counts.get_or_insert_with(|| {
            let mut counts = NumberMap::default();
            self.open.iter().for_each(|one| *counts.entry(one.key()).or_default() += 1);
            counts
        });
        if !counts.contains_key(&key) {
            return None;
        }
        self.open[..near].iter().rposition(|one| one.key() == key)
    }
}

impl<T: Keyed> Deref for Nest<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        &self.open
    }
}

impl<T: Keyed> DerefMut for Nest<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.open
    }
}

/// An interval by what begins it. A thread sleeps once at a time, and waits for one lock: these are told by their kind alone.
pub(crate) type Interval = (EventKind, (Subject, u32));

#[inline]
pub(crate) fn interval(kind: EventKind, key: (Subject, u32)) -> Interval {
    match kind {
        EventKind::Park | EventKind::LockWait => (kind, (Subject::Any, 0)),
        _ => (kind, key),
    }
}

impl Keyed for Event {
    type Key = Interval;
    #[inline]
    fn key(&self) -> Interval {
        interval(self.kind, Event::key(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Keyed for (u32, char) {
        type Key = u32;
        fn key(&self) -> u32 {
            self.0
        }
    }

    #[test]
    fn the_innermost_is_found_and_what_was_lost_is_not() {
        let mut nest = Nest::default();
        for depth in 0..100 {
            nest.push((depth % 50, 'a'));
        }
        assert_eq!(nest.innermost(99), None);
        assert!(nest.counts.is_some());
        assert_eq!((nest.innermost(49), nest.innermost(0)), (Some(99), Some(50)));
        nest.truncate(50);
        assert_eq!((nest.innermost(0), nest.len()), (Some(0), 50));
        assert_eq!(nest.pop(), Some((49, 'a')));
        assert_eq!(nest.innermost(49), None);
        nest.push((7, 'b'));
        assert_eq!(nest.innermost(7), Some(49));
        nest.truncate(0);
        assert_eq!(nest.innermost(7), None);
        assert!(nest.counts.unwrap().is_empty());
    }

    #[test]
    fn a_hundred_thousand_ends_whose_beginnings_were_lost() {
        let mut nest = Nest::default();
        for depth in 0..100_000 {
            nest.push((depth, ' '));
        }
        // Looking through all for each took half a minute.
        assert!((100_000..200_000).all(|key| nest.innermost(key).is_none()));
    }
}
