//! Loops that make vectors.
//!
//! - **C1** A [`Run`] owns the first `done` of its `room` places, which lie in the spare room of a vector that outlives it; no
//!   other run has any of its places. Dropped, it drops what it owns.

use std::marker::PhantomData;
use std::mem::{self, MaybeUninit};
use std::ptr;

use crate::drive::{Work, run};
use crate::items::{Divide, Items};

/// Places for results in a row, filled from the front (C1).
struct Run<'a, R> {
    start: *mut R,
    room: usize,
    done: usize,
    places: PhantomData<&'a mut [MaybeUninit<R>]>,
}

// SAFETY: C1: it is the only owner of its places, as a `&mut [MaybeUninit<R>]` is.
unsafe impl<R: Send> Send for Run<'_, R> {}

impl<'a, R> Run<'a, R> {
    fn new(places: &'a mut [MaybeUninit<R>]) -> Run<'a, R> {
        let room = places.len();
        Run { start: places.as_mut_ptr().cast(), room, done: 0, places: PhantomData }
    }

    #[inline]
    fn push(&mut self, result: R) {
        assert!(self.done < self.room);
        // SAFETY: below `room`, so in its places (C1).
        let place = unsafe { self.start.add(self.done) };
        // SAFETY: its own, and vacant (C1).
        unsafe { place.write(result) };
        self.done += 1;
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

impl<R> Drop for Run<'_, R> {
    fn drop(&mut self) {
        let all = ptr::slice_from_raw_parts_mut(self.start, self.done);
        // SAFETY: C1.
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
        let results = &mut self.results;
        self.parts.take(count).iter().for_each(|item| results.push((self.f)(item)));
    }

    fn halve(self) -> (Self, Self) {
        let half = self.parts.len() / 2;
        let (front, back) = self.parts.split(half);
        let at = self.results.done + half;
        let (results, rest) = self.results.split(at);
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
/// If `f` does: results made so far are dropped. If the vector is too large for memory.
///
/// ```
/// use raddle::par;
///
/// assert_eq!(par::map_collect(0..5, |i| i * i), [0, 1, 4, 9, 16]);
/// assert_eq!(par::map_collect(&["warp", "weft"], |word| word.to_uppercase()), ["WARP", "WEFT"]);
/// ```
#[doc(alias = "par_iter", alias = "into_par_iter")]
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
    assert!(full.room == count && full.is_full());
    mem::forget(full);
    // SAFETY: C1: they all are filled, and nobody else's any more.
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
        self.results.extend(self.parts.take(count).iter().filter_map(self.f));
    }

    fn halve(self) -> (Self, Self) {
        let half = self.parts.len() / 2;
        let (front, back) = self.parts.split(half);
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
/// Results that another thread has made are moved once.
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
pub fn filter_map<I, R, F>(items: I, f: F) -> Vec<R>
where
    I: Items,
    R: Send,
    F: Fn(I::Item) -> Option<R> + Sync,
{
    run(Filter { parts: items.parts(), results: Vec::new(), f: &f })
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
pub fn filter<I, F>(items: I, f: F) -> Vec<I::Item>
where
    I: Items<Item: Copy + Send>,
    F: Fn(I::Item) -> bool + Sync,
{
    filter_map(items, |item| f(item).then_some(item))
}
