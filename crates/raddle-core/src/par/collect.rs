//! Loops that make vectors.
//!
//! - **CO1** A [`Run`] owns the first `done` of its `room` places, which lie in the spare room of a vector that outlives it; no
//!   other run has any of its places. Dropped, it drops what it owns.

use std::marker::PhantomData;
use std::mem::{self, MaybeUninit};
use std::ptr;
use std::slice;

use crate::par::drive::{Work, run};
use crate::par::items::{Divide, Items};

/// Places for results in a row, filled from the front (CO1).
struct Run<'a, R> {
    start: *mut R,
    room: usize,
    done: usize,
    places: PhantomData<&'a mut [MaybeUninit<R>]>,
}

// SAFETY: CO1: it is the only owner of its places, as a `&mut [MaybeUninit<R>]` is.
unsafe impl<R: Send> Send for Run<'_, R> {}

impl<'a, R> Run<'a, R> {
    fn new(places: &'a mut [MaybeUninit<R>]) -> Run<'a, R> {
        let room = places.len();
        Run { start: places.as_mut_ptr().cast(), room, done: 0, places: PhantomData }
    }

    /// Fills the next `count` places with what comes of as many items: a loop that compilers see through, with the count in a
    /// register where `f` cannot panic.
    #[inline]
    fn fill<I>(&mut self, count: usize, items: impl Iterator<Item = I>, f: impl Fn(I) -> R) {
        assert!(count <= self.room - self.done);
        // SAFETY: at most one past its places.
        let vacant = unsafe { self.start.add(self.done) };
        // SAFETY: CO1: its own, and borrowed as long as `self` is.
        let vacant = unsafe { slice::from_raw_parts_mut(vacant.cast(), count) };
        let mut filled = Filled { done: &mut self.done, new: 0 };
        for (place, item) in vacant.iter_mut().zip(items) {
            MaybeUninit::write(place, f(item));
            filled.new += 1;
        }
    }

    /// Cuts off the places from `at` on, none of which is filled.
    fn split(mut self, at: usize) -> (Self, Self) {
        assert!((self.done..=self.room).contains(&at));
        // SAFETY: at most one past its places.
        let start = unsafe { self.start.add(at) };
        let back = Run { start, room: self.room - at, done: 0, places: PhantomData };
        self.room = at;
        (self, back)
    }

    /// Both, which lie side by side and are full, as one.
    fn append(mut self, back: Self) -> Self {
        assert!(self.is_full() && back.is_full());
        assert!(ptr::eq(self.start.wrapping_add(self.room), back.start));
        self.room += back.room;
        self.done += back.done;
        mem::forget(back);
        self
    }

    fn is_full(&self) -> bool {
        self.done == self.room
    }
}

/// Counts what is filled also if a panic ends it.
struct Filled<'a> {
    done: &'a mut usize,
    new: usize,
}

impl Drop for Filled<'_> {
    fn drop(&mut self) {
        *self.done += self.new;
    }
}

impl<R> Drop for Run<'_, R> {
    fn drop(&mut self) {
        let all = ptr::slice_from_raw_parts_mut(self.start, self.done);
        // SAFETY: CO1.
        unsafe { all.drop_in_place() };
    }
}

struct Collect<'a, 'f, P, R, F> {
    parts: P,
    results: Run<'a, R>,
    f: &'f F,
}

impl<'a, P, R, F> Work for Collect<'a, '_, P, R, F>
where
    P: Divide,
    R: Send,
    F: Fn(P::Item) -> R + Sync,
{
    type Output = Run<'a, R>;

    #[inline]
    fn left(&self) -> usize {
        self.parts.len()
    }

    #[inline]
    fn advance(&mut self, count: usize) {
        self.results.fill(count, self.parts.take(count).iter(), self.f);
    }

    fn split(self, at: usize) -> (Self, Self) {
        let (front, back) = self.parts.split(at);
        let done = self.results.done;
        let (results, rest) = self.results.split(done + at);
        let front = Collect { parts: front, results, f: self.f };
        (front, Collect { parts: back, results: rest, f: self.f })
    }

    fn finish(self) -> Run<'a, R> {
        self.results
    }

    fn combine(front: Run<'a, R>, back: Run<'a, R>) -> Run<'a, R> {
        front.append(back)
    }
}

/// A vector of what `f` makes of each item, in their order, perhaps made in parallel.
///
/// Costs one allocation, and writes each result once, where it stays. For its effects alone: if `f` returns nothing, nothing is
/// allocated.
///
/// # Panics
///
/// If `f` does: results made so far are dropped. If the vector is larger than memory can be; where there is not so much, the process
/// aborts, as elsewhere.
///
/// ```
/// use raddle::par;
///
/// assert_eq!(par::map_collect(0..5, |i| i * i), [0, 1, 4, 9, 16]);
/// assert_eq!(par::map_collect(&["warp", "weft"], |word| word.to_uppercase()), ["WARP", "WEFT"]);
/// ```
#[doc(alias = "par_iter", alias = "into_par_iter")]
#[track_caller]
pub fn map_collect<I, R, F>(items: I, f: F) -> Vec<R>
where
    I: Items,
    R: Send,
    F: Fn(I::Item) -> R + Sync,
{
    let parts = items.parts();
    let count = parts.len();
    let mut all = Vec::with_capacity(count);
    let results = Run::new(&mut all.spare_capacity_mut()[..count]);
    let full = run(Collect { parts, results, f: &f });
    // Should it panic, the results are still dropped: what is being returned would be lost.
    drop(f);
    assert!(full.room == count && full.is_full());
    mem::forget(full);
    // SAFETY: CO1: they all are filled, and nobody else's any more.
    unsafe { all.set_len(count) };
    all
}

struct Filter<'f, P, R, F> {
    parts: P,
    results: Vec<R>,
    f: &'f F,
}

impl<P, R, F> Work for Filter<'_, P, R, F>
where
    P: Divide,
    R: Send,
    F: Fn(P::Item) -> Option<R> + Sync,
{
    type Output = Vec<R>;

    #[inline]
    fn left(&self) -> usize {
        self.parts.len()
    }

    #[inline]
    fn advance(&mut self, count: usize) {
        // In a local variable its length is in a register.
        let mut results = mem::take(&mut self.results);
        for item in self.parts.take(count).iter() {
            if let Some(result) = (self.f)(item) {
                results.push(result);
            }
        }
        self.results = results;
    }

    fn split(self, at: usize) -> (Self, Self) {
        let (front, back) = self.parts.split(at);
        let back = Filter { parts: back, results: Vec::new(), f: self.f };
        (Filter { parts: front, ..self }, back)
    }

    fn finish(self) -> Vec<R> {
        self.results
    }

    fn combine(mut front: Vec<R>, mut back: Vec<R>) -> Vec<R> {
        if front.is_empty() {
            return back;
        }
        front.append(&mut back);
        front
    }
}

/// A vector of what `f` makes of the items for which it makes something, in their order, perhaps made in parallel.
///
/// Results that another thread has made are moved: once for each fork that was taken, of those that lie within each other.
///
/// # Panics
///
/// If `f` does: results made so far are dropped. If a range has more than [`usize::MAX`] integers.
///
/// ```
/// use raddle::par;
///
/// let numbers = par::filter_map(&["1", "one", "2"], |text| text.parse::<u32>().ok());
/// assert_eq!(numbers, [1, 2]);
/// ```
#[track_caller]
pub fn filter_map<I, R, F>(items: I, f: F) -> Vec<R>
where
    I: Items,
    R: Send,
    F: Fn(I::Item) -> Option<R> + Sync,
{
    let results = run(Filter { parts: items.parts(), results: Vec::new(), f: &f });
    drop(f); // As in `map_collect`.
    results
}

/// A vector of the items that `f` accepts, in their order: integers of a range, or references to elements.
///
/// # Panics
///
/// If `f` does. If a range has more than [`usize::MAX`] integers.
///
/// ```
/// use raddle::par;
///
/// assert_eq!(par::filter(0..10, |n| n % 3 == 0), [0, 3, 6, 9]);
/// assert_eq!(par::filter(&["warp", "and", "weft"], |word| word.len() == 4), [&"warp", &"weft"]);
/// ```
#[track_caller]
pub fn filter<I, F>(items: I, f: F) -> Vec<I::Item>
where
    I: Items<Item: Copy + Send>,
    F: Fn(I::Item) -> bool + Sync,
{
    filter_map(items, move |item| f(item).then_some(item))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::rc::Rc;

    /// A loop cut at `at`, of which both parts do so much before they are dropped.
    fn cut(count: usize, at: usize, done: (usize, usize)) {
        let value = Rc::new(());
        let mut all = Vec::with_capacity(count);
        let mut front = Run::new(&mut all.spare_capacity_mut()[..count]);
        let before = at.min(done.0);
        front.fill(before, 0..before, |_| Rc::clone(&value));
        let (mut front, mut back) = front.split(at);
        front.fill(done.0 - before, before..done.0, |_| Rc::clone(&value));
        back.fill(done.1, 0..done.1, |_| Rc::clone(&value));
        assert_eq!(Rc::strong_count(&value), 1 + done.0 + done.1);
        if done == (at, count - at) {
            let full = front.append(back);
            assert!(full.is_full() && full.room == count);
            mem::forget(full);
            // SAFETY: all are filled.
            unsafe { all.set_len(count) };
            assert_eq!(Rc::strong_count(&value), 1 + all.len());
        } else {
            drop((back, front));
            assert_eq!(Rc::strong_count(&value), 1);
        }
        drop(all);
        assert_eq!(Rc::strong_count(&value), 1);
    }

    #[test]
    fn what_is_filled_is_dropped_once() {
        for count in 0..6 {
            for at in 0..=count {
                for front in 0..=at {
                    (0..=count - at).for_each(|back| cut(count, at, (front, back)));
                }
            }
        }
    }

    #[test]
    fn no_more_than_there_is_room_for() {
        let mut places = [MaybeUninit::uninit(), MaybeUninit::uninit()];
        let mut run = Run::new(&mut places[..1]);
        run.fill(1, 0..9, Box::new);
        assert!(catch_unwind(AssertUnwindSafe(|| run.fill(1, 0..1, Box::new))).is_err());
        assert_eq!(run.done, 1);
    }

    #[test]
    fn what_was_filled_before_a_panic_is_dropped() {
        let value = Rc::new(());
        let mut places: Vec<_> = (0..9).map(|_| MaybeUninit::uninit()).collect();
        let mut run = Run::new(&mut places);
        let make = |i| if i < 5 { Rc::clone(&value) } else { panic!("at {i}") };
        assert!(catch_unwind(AssertUnwindSafe(|| run.fill(9, 0..9, make))).is_err());
        assert_eq!((run.done, Rc::strong_count(&value)), (5, 6));
        drop(run);
        assert_eq!(Rc::strong_count(&value), 1);
    }

    #[test]
    fn values_without_size_are_counted() {
        let mut all = Vec::with_capacity(3);
        let mut run = Run::new(&mut all.spare_capacity_mut()[..3]);
        run.fill(3, 0..3, drop);
        assert!(run.is_full());
        mem::forget(run);
        // SAFETY: all are filled.
        unsafe { all.set_len(3) };
        assert_eq!(all, [(); 3]);
    }
}
