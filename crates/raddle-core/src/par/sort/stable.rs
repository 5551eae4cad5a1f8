//! A merge sort between the slice and a buffer of its size.
//!
//! - **ST1** The elements of a piece lie in its part of the slice or in its part of the buffer. A call says where they are when
//!   it returns; when it unwinds they are in the slice.

use std::cmp::Ordering;
use std::mem::MaybeUninit;
use std::panic::{self, AssertUnwindSafe, Location};

use crate::panics::discard;
use crate::pool::Worker;
use crate::pool::recorder::Place;

use super::is_one_run;
use super::merge::{Merge, copy};
use crate::par::drive::{Before, drive, enter};

/// Fewer elements are sorted in place.
const LEAST: usize = 1_024;
/// As many levels as there are between the slice and the slice again: so pieces need not be copied.
const BACK_AND_FORTH: usize = 2;

#[track_caller]
pub(super) fn sort<T, F>(data: &mut [T], compare: &F)
where
    T: Send,
    F: Fn(&T, &T) -> Ordering + Sync,
{
    if data.len() < LEAST || size_of::<T>() == 0 {
        return data.sort_by(compare);
    }
    let place = Location::caller();
    enter(place, |worker| {
        let levels = levels(worker.num_threads(), data.len());
        if levels == 0 || is_one_run(data, compare) {
            return data.sort_by(compare);
        }
        let mut buffer = Vec::with_capacity(data.len());
        let buffer = &mut buffer.spare_capacity_mut()[..data.len()];
        Sort { place, compare }.pieces(worker, data, buffer, levels, false);
    });
}

/// How often to halve: into twice as many pieces as there are threads, so that those balance.
fn levels(threads: usize, len: usize) -> usize {
    let mut levels = 0;
    while threads > 1 && 1 << levels < 2 * threads && len >> levels >= LEAST {
        levels += BACK_AND_FORTH;
    }
    levels
}

/// What is the same for all pieces.
struct Sort<'a, F> {
    place: Place,
    compare: &'a F,
}

impl<F> Sort<'_, F> {
    /// Sorts a piece: its elements are then in the buffer, or in the slice (ST1).
    fn pieces<T>(
        &self,
        worker: &Worker,
        data: &mut [T],
        buffer: &mut [MaybeUninit<T>],
        levels: usize,
        into_buffer: bool,
    ) where
        T: Send,
        F: Fn(&T, &T) -> Ordering + Sync,
    {
        let Sort { place, compare } = *self;
        if levels == 0 {
            // An even number of levels up it was to be in the slice.
            assert!(!into_buffer);
            return data.sort_by(compare);
        }
        let middle = data.len() / 2;
        let half = |worker: &Worker, data: &mut [T], buffer: &mut [MaybeUninit<T>]| {
            let sort = || self.pieces(worker, data, buffer, levels - 1, !into_buffer);
            panic::catch_unwind(AssertUnwindSafe(sort))
        };
        let ends = {
            let (left, right) = data.split_at_mut(middle);
            let (left_buffer, right_buffer) = buffer.split_at_mut(middle);
            worker.join_at(place, |w| half(w, left, left_buffer), |w| half(w, right, right_buffer))
        };
        let data = as_places(data);
        let ends = match ends {
            (Ok(()), Ok(())) => Ok(()),
            (Ok(()), Err(payload)) => Err((0..middle, payload)),
            (Err(payload), Ok(())) => Err((middle..data.len(), payload)),
            (Err(payload), Err(other)) => {
                discard(other);
                Err((0..0, payload))
            }
        };
        if let Err((sorted, payload)) = ends {
            if !into_buffer {
                // SAFETY: ST1: this half's elements are in the buffer.
                unsafe { copy(&buffer[sorted.clone()], &mut data[sorted]) };
            }
            panic::resume_unwind(payload);
        }
        let (from, to) = if into_buffer { (data, buffer) } else { (buffer, data) };
        // SAFETY: ST1: the halves' elements are all in `from`. Should it unwind, then they are in `to`, and as they were in `from`: so
        // in the slice either way.
        drive(worker, place, unsafe { Merge::new(from, middle, to, compare) }, Before::Something);
    }
}

/// A slice as places for its elements.
fn as_places<T>(data: &mut [T]) -> &mut [MaybeUninit<T>] {
    let places = std::ptr::from_mut(data) as *mut [MaybeUninit<T>];
    // SAFETY: the same layout. What is written there in this module are elements of this very slice, and when it is
    // used again it has each of them (ST1).
    unsafe { &mut *places }
}
