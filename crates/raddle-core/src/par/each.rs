//! Loops for their effects.

use std::panic::Location;

use crate::par::drive::{Work, run_at};
use crate::par::items::{Chunks, Divide, Items, Pairs};
use crate::pool::recorder::Place;

/// A loop that calls a closure with each item.
struct Each<'f, P, F> {
    parts: P,
    f: &'f F,
}

impl<P: Divide, F: Fn(P::Item) + Sync> Work for Each<'_, P, F> {
    type Output = ();

    #[inline]
    fn left(&self) -> usize {
        self.parts.len()
    }

    #[inline]
    fn advance(&mut self, count: usize) {
        self.parts.take(count).iter().for_each(self.f);
    }

    fn split(self, at: usize) -> (Self, Self) {
        let (front, back) = self.parts.split(at);
        (Each { parts: front, f: self.f }, Each { parts: back, f: self.f })
    }

    fn finish(self) {}

    fn combine((): (), (): ()) {}
}

#[track_caller]
fn each<P: Divide>(parts: P, f: impl Fn(P::Item) + Sync) {
    each_at(Location::caller(), parts, f);
}

/// Calls `f` with each of these, from `place`.
pub(super) fn each_at<P: Divide>(place: Place, parts: P, f: impl Fn(P::Item) + Sync) {
    run_at(place, Each { parts, f: &f });
}

/// Indices beside items.
pub(super) fn indexed<P: Divide>(parts: P) -> Pairs<<std::ops::Range<usize> as Items>::Parts, P> {
    let indices = (0..parts.len()).parts();
    Pairs(indices, parts)
}

/// Calls `f` with each element, perhaps in parallel and in any order.
///
/// Costs what the sequential loop costs, a few nanoseconds, and for every time that a thread takes part a fork.
///
/// # Panics
///
/// If `f` does; other elements may or may not have been visited.
///
/// ```
/// use raddle::par;
///
/// let mut numbers = vec![1, 2, 3];
/// par::for_each(&mut numbers, |n| *n *= 2);
/// assert_eq!(numbers, [2, 4, 6]);
/// ```
#[doc(alias = "par_iter_mut")]
#[track_caller]
pub fn for_each<T: Send, F: Fn(&mut T) + Sync>(data: &mut [T], f: F) {
    each(data, f);
}

/// As [`for_each`], with the element's index.
///
/// # Panics
///
/// If `f` does; other elements may or may not have been visited.
///
/// ```
/// use raddle::par;
///
/// let mut numbers = vec![0; 5];
/// par::for_each_indexed(&mut numbers, |i, n| *n = i * i);
/// assert_eq!(numbers, [0, 1, 4, 9, 16]);
/// ```
#[doc(alias = "enumerate")]
#[track_caller]
pub fn for_each_indexed<T: Send, F: Fn(usize, &mut T) + Sync>(data: &mut [T], f: F) {
    each(indexed(data), |(index, item)| f(index, item));
}

/// As [`for_each`], of any [`Items`]: a range's integers, or references to elements.
///
/// # Panics
///
/// If `f` does; other items may or may not have been visited. If a range has more than [`usize::MAX`] integers.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use raddle::par;
///
/// let sum = AtomicU64::new(0);
/// par::for_each_in(0..100_u64, |i| _ = sum.fetch_add(i, Ordering::Relaxed));
/// assert_eq!(sum.into_inner(), 4950);
/// ```
#[doc(alias = "parallel_for")]
#[track_caller]
pub fn for_each_in<I: Items, F: Fn(I::Item) + Sync>(items: I, f: F) {
    each(items.parts(), f);
}

/// Calls `f` with each chunk of `size` elements, perhaps in parallel and in any order; the last may be shorter.
///
/// As [`slice::chunks_mut`]. A chunk is one item: it is not split further.
///
/// # Panics
///
/// If `size` is 0. If `f` does; other chunks may or may not have been visited.
///
/// ```
/// use raddle::par;
///
/// let mut numbers = vec![3, 2, 1, 5, 4];
/// par::chunks_mut(&mut numbers, 3, |chunk| chunk.sort());
/// assert_eq!(numbers, [1, 2, 3, 4, 5]);
/// ```
#[doc(alias = "par_chunks_mut")]
#[track_caller]
pub fn chunks_mut<T: Send, F: Fn(&mut [T]) + Sync>(data: &mut [T], size: usize, f: F) {
    assert!(size > 0, "chunk size must not be zero");
    each(Chunks { slice: data, size }, f);
}

/// As [`chunks_mut`], with the chunk's index: its first element is at `index * size`.
///
/// # Panics
///
/// If `size` is 0. If `f` does; other chunks may or may not have been visited.
///
/// ```
/// use raddle::par;
///
/// let mut rows = vec![0; 6];
/// par::chunks_mut_indexed(&mut rows, 2, |row, cells| cells.fill(row));
/// assert_eq!(rows, [0, 0, 1, 1, 2, 2]);
/// ```
#[track_caller]
pub fn chunks_mut_indexed<T, F>(data: &mut [T], size: usize, f: F)
where
    T: Send,
    F: Fn(usize, &mut [T]) + Sync,
{
    assert!(size > 0, "chunk size must not be zero");
    each(indexed(Chunks { slice: data, size }), |(index, chunk)| f(index, chunk));
}

/// Calls `f` with each element of `a` and the one at the same place in `b`, as far as both go, perhaps in parallel and in
/// any order.
///
/// # Panics
///
/// If `f` does; other pairs may or may not have been visited.
///
/// ```
/// use raddle::par;
///
/// let (mut y, x) = (vec![1.0, 2.0], vec![10.0, 20.0]);
/// par::zip(&mut y, &x, |y, x| *y += 0.5 * x);
/// assert_eq!(y, [6.0, 12.0]);
/// ```
#[track_caller]
pub fn zip<A: Send, B: Sync, F: Fn(&mut A, &B) + Sync>(a: &mut [A], b: &[B], f: F) {
    let both = a.len().min(b.len());
    each(Pairs(&mut a[..both], &b[..both]), |(a, b)| f(a, b));
}
