//! Two sorted runs become one.
//!
//! - **ME1** A [`Merge`] owns the elements of its runs, and as many places behind `to`, in other memory. When it is dropped,
//!   each of the elements has been copied to one of the places. It writes nothing else.

use std::cmp::Ordering;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;

use crate::par::drive::Work;

/// From here on two parts of a block are merged in turn: so neither waits for its own comparisons.
const IN_TURN: usize = 64;

/// A merge in progress (ME1).
pub(super) struct Merge<'a, T, F> {
    left: Run<T>,
    right: Run<T>,
    to: *mut T,
    compare: &'a F,
    memory: PhantomData<&'a mut T>,
}

/// Elements in a row.
struct Run<T> {
    first: *const T,
    len: usize,
}

// SAFETY: ME1: it is the only user of that memory.
unsafe impl<T: Send, F: Sync> Send for Merge<'_, T, F> {}

/// Copies what lies in `from`.
///
/// # Safety
///
/// The copies take the place of the originals.
pub(super) unsafe fn copy<T>(from: &[MaybeUninit<T>], to: &mut [MaybeUninit<T>]) {
    assert_eq!(from.len(), to.len());
    // SAFETY: of that length, and `to` is borrowed mutably, so apart.
    unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to.as_mut_ptr(), from.len()) };
}

impl<T> Run<T> {
    /// Takes away the first elements.
    fn take(&mut self, count: usize) -> Run<T> {
        assert!(count <= self.len);
        let front = Run { first: self.first, len: count };
        // SAFETY: at most one past its elements.
        self.first = unsafe { self.first.add(count) };
        self.len -= count;
        front
    }
}

impl<'a, T, F: Fn(&T, &T) -> Ordering> Merge<'a, T, F> {
    /// Merges what lies before and behind `middle`.
    ///
    /// # Safety
    ///
    /// All of `from` is filled, and is not used again unless nothing in `to` is.
    pub(super) unsafe fn new(
        from: &'a mut [MaybeUninit<T>],
        middle: usize,
        to: &'a mut [MaybeUninit<T>],
        compare: &'a F,
    ) -> Self {
        assert!(from.len() == to.len() && middle <= from.len());
        let mut right = Run { first: from.as_ptr().cast(), len: from.len() };
        let left = right.take(middle);
        Merge { left, right, to: to.as_mut_ptr().cast(), compare, memory: PhantomData }
    }

    fn len(&self) -> usize {
        self.left.len + self.right.len
    }

    /// Cuts off what comes first: so many elements.
    fn cut(&mut self, count: usize) -> Self {
        // How many of them are of the left run: so many that the next one there comes after the last of the others.
        let mut low = count.saturating_sub(self.right.len);
        let mut high = count.min(self.left.len);
        while low < high {
            let middle = low.midpoint(high);
            // SAFETY: below `high`, so within the left run.
            let left = unsafe { self.left.first.add(middle) };
            // SAFETY: at least `low`, so at most the right run's length are others, and more than none.
            let right = unsafe { self.right.first.add(count - middle - 1) };
            if self.is_right_first(left, right) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        let to = self.to;
        // SAFETY: within its places, or one past them.
        self.to = unsafe { self.to.add(count) };
        let (left, right) = (self.left.take(low), self.right.take(count - low));
        Merge { left, right, to, compare: self.compare, memory: PhantomData }
    }

    #[inline(always)]
    fn is_right_first(&self, left: *const T, right: *const T) -> bool {
        // SAFETY: the caller's, of the left run (ME1).
        let left = unsafe { &*left };
        // SAFETY: likewise, of the right one.
        let right = unsafe { &*right };
        (self.compare)(right, left).is_lt()
    }

    /// Moves one element. Both runs must have one.
    #[inline(always)]
    fn step(&mut self) {
        let right_first = self.is_right_first(self.left.first, self.right.first);
        let from = if right_first { self.right.first } else { self.left.first };
        // SAFETY: ME1: an element of its runs, and a place that is left.
        unsafe { ptr::copy_nonoverlapping(from, self.to, 1) };
        let (left, right) = (usize::from(!right_first), usize::from(right_first));
        // SAFETY: at most one past the run, as are those below.
        self.left.first = unsafe { self.left.first.add(left) };
        // SAFETY: as above.
        self.right.first = unsafe { self.right.first.add(right) };
        // SAFETY: as above, of the places.
        self.to = unsafe { self.to.add(1) };
        self.left.len -= left;
        self.right.len -= right;
    }

    /// How many steps are certain to find an element in both runs.
    fn sure(&self) -> usize {
        self.left.len.min(self.right.len)
    }

    /// Moves all there are.
    fn complete(mut self) {
        while self.sure() > 0 {
            for _ in 0..self.sure() {
                self.step();
            }
        }
        // The rest of one run: see `drop`.
    }

    /// As `complete`, two halves in turn.
    fn complete_in_turn(mut self) {
        let mut front = self.cut(self.len() / 2);
        loop {
            let sure = front.sure().min(self.sure());
            if sure == 0 {
                break;
            }
            for _ in 0..sure {
                front.step();
                self.step();
            }
        }
        front.complete();
        self.complete();
    }
}

impl<T, F> Drop for Merge<'_, T, F> {
    fn drop(&mut self) {
        for run in [&self.left, &self.right] {
            // SAFETY: ME1: as many places are left as elements.
            unsafe { ptr::copy_nonoverlapping(run.first, self.to, run.len) };
            // SAFETY: within its places, or one past them.
            self.to = unsafe { self.to.add(run.len) };
        }
    }
}

impl<T: Send, F: Fn(&T, &T) -> Ordering + Sync> Work for Merge<'_, T, F> {
    type Output = ();

    const LEAST: usize = 4_096;
    const FIRST: usize = 512;
    const MOST: usize = 4_096;

    fn left(&self) -> usize {
        self.len()
    }

    fn advance(&mut self, count: usize) {
        let block = self.cut(count);
        if count < IN_TURN { block.complete() } else { block.complete_in_turn() }
    }

    fn split(mut self, at: usize) -> (Self, Self) {
        (self.cut(at), self)
    }

    fn finish(self) {}

    fn combine((): (), (): ()) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    type Pair = (Box<u32>, usize);
    type Compare<'a> = dyn Fn(&Pair, &Pair) -> Ordering + Sync + 'a;

    fn pairs(left: usize, right: usize, values: u32) -> Vec<Pair> {
        let run = |count: usize, seed: usize| {
            let mut run: Vec<u32> =
                (0..count).map(|i| ((i * 7_919 + seed) % 1_009) as u32 % values).collect();
            run.sort();
            run
        };
        let all = run(left, 0).into_iter().chain(run(right, 500));
        all.zip(0..).map(|(value, place)| (Box::new(value), place)).collect()
    }

    /// Merges the elements as `steps` says, and gives them back; whether a comparison has panicked.
    fn merged(
        mut from: Vec<Pair>,
        middle: usize,
        panics_at: usize,
        steps: impl FnOnce(Merge<'_, Pair, &Compare<'_>>),
    ) -> (Vec<Pair>, bool) {
        let count = from.len();
        let mut to: Vec<Pair> = Vec::with_capacity(count);
        let calls = AtomicUsize::new(0);
        let compare = |a: &Pair, b: &Pair| {
            if calls.fetch_add(1, Relaxed) + 1 == panics_at {
                resume_unwind(Box::new("expected"));
            }
            a.0.cmp(&b.0)
        };
        let compare: &Compare<'_> = &compare;
        // SAFETY: they are the places' from now on.
        unsafe { from.set_len(0) };
        let places = &mut from.spare_capacity_mut()[..count];
        // SAFETY: filled, and `from` is empty.
        let merge =
            unsafe { Merge::new(places, middle, &mut to.spare_capacity_mut()[..count], &compare) };
        let panicked = catch_unwind(AssertUnwindSafe(|| steps(merge))).is_err();
        // SAFETY: ME1: the merge has been dropped.
        unsafe { to.set_len(count) };
        (to, panicked)
    }

    const SIZES: [(usize, usize); 8] =
        [(0, 0), (0, 3), (3, 0), (1, 1), (5, 2), (40, 100), (100, 1), (90, 90)];

    #[test]
    fn merges_are_stable_however_they_are_cut() {
        for (left, right) in SIZES {
            for (values, block, eighths) in
                [(1, 1, 4), (4, 7, 5), (4, 7, 3), (1_009, 64, 6), (1_009, 1_000, 8), (1, 9, 0)]
            {
                let pairs = pairs(left, right, values);
                let mut expected: Vec<(u32, usize)> =
                    pairs.iter().map(|pair| (*pair.0, pair.1)).collect();
                expected.sort();
                let (result, panicked) = merged(pairs, left, usize::MAX, |merge| {
                    let at = merge.left() * eighths / 8;
                    let (front, back) = merge.split(at);
                    assert_eq!((front.left(), back.left()), (at, left + right - at));
                    for mut part in [back, front] {
                        while part.left() > 0 {
                            part.advance(block.min(part.left()));
                        }
                        part.finish();
                    }
                });
                assert!(!panicked);
                assert!(result.iter().map(|pair| (*pair.0, pair.1)).eq(expected));
            }
        }
    }

    #[test]
    fn after_a_panic_each_element_is_there_once() {
        for (left, right) in SIZES {
            for panics_at in (1..220).step_by(if cfg!(miri) { 23 } else { 1 }) {
                let (mut result, _) = merged(pairs(left, right, 1_009), left, panics_at, |merge| {
                    let half = merge.left() / 2;
                    let (mut front, mut back) = merge.split(half);
                    back.advance(back.left() / 2);
                    front.advance(front.left());
                    back.advance(back.left());
                });
                result.sort_by_key(|pair| pair.1);
                assert!(result.iter().map(|pair| pair.1).eq(0..left + right));
            }
        }
    }
}
