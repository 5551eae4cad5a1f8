//! A quicksort that forks after each partition.

use std::cmp::Ordering;
use std::panic::Location;

use crate::pool::Worker;
use crate::pool::recorder::Place;

use super::is_one_run;
use crate::par::drive::enter;

/// Fewer elements are sorted in place.
const LEAST: usize = 2_048;
/// So many pieces for each thread, about.
const PIECES: usize = 8;
/// So many elements are looked at to choose one to divide by.
const SAMPLE: usize = 63;
/// So many, if there are fewer than `SMALL`: to order more would take a tenth of the time of a division.
const SMALL_SAMPLE: usize = 15;
const SMALL: usize = 32_768;
/// If less than this part lies below it, others may equal it.
const LOPSIDED: usize = 8;

#[track_caller]
pub(super) fn sort<T, F>(data: &mut [T], compare: &F)
where
    T: Send,
    F: Fn(&T, &T) -> Ordering + Sync,
{
    if data.len() < LEAST {
        return data.sort_unstable_by(compare);
    }
    let place = Location::caller();
    enter(place, |worker| {
        if worker.num_threads() == 1 {
            return data.sort_unstable_by(compare);
        }
        if is_one_run(data, compare) {
            return;
        }
        let pieces = PIECES * worker.num_threads();
        // With few threads they had better not be smaller; many want something to do.
        let smallest = if worker.num_threads() > 4 { LEAST / 2 } else { LEAST };
        let least = (data.len() / pieces).max(smallest);
        divide(worker, place, data, least, 2 * pieces.ilog2() + 2, compare);
    });
}

/// Sorts; so many levels down, or with so few elements, on this thread.
fn divide<T, F>(
    worker: &Worker,
    place: Place,
    data: &mut [T],
    least: usize,
    levels: u32,
    compare: &F,
) where
    T: Send,
    F: Fn(&T, &T) -> Ordering + Sync,
{
    if data.len() <= least || levels == 0 {
        return data.sort_unstable_by(compare);
    }
    let pivot = match data.len() {
        ..SMALL => sample::<SMALL_SAMPLE, T>(data, compare),
        _ => sample::<SAMPLE, T>(data, compare),
    };
    data.swap(0, pivot);
    let (pivot, rest) = data.split_first_mut().expect("more than a few");
    let below = partition(rest, |element| compare(element, pivot).is_lt());
    let equal = if below < rest.len() / LOPSIDED {
        partition(&mut rest[below..], |element| compare(element, pivot).is_le())
    } else {
        0
    };
    let above = below + 1 + equal;
    data.swap(0, below);
    let (front, back) = data.split_at_mut(above);
    worker.join_at(
        place,
        |w| divide(w, place, &mut front[..below], least, levels - 1, compare),
        |w| divide(w, place, back, least, levels - 1, compare),
    );
}

/// Where an element lies that is about in the middle, by so many.
fn sample<const MANY: usize, T>(data: &[T], compare: &impl Fn(&T, &T) -> Ordering) -> usize {
    let mut all: [usize; MANY] = std::array::from_fn(|i| {
        // Spread evenly, but for some bits that have no period (SplitMix64: Steele, Lea and Flood, 2014).
        let part = data.len() / MANY;
        let z = (i as u64 + data.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        i * part + (z >> 32) as usize % part
    });
    all.sort_unstable_by(|&a, &b| compare(&data[a], &data[b]));
    all[MANY / 2]
}

/// Moves what `goes_first` accepts to the front, and says how many that are.
fn partition<T>(data: &mut [T], goes_first: impl Fn(&T) -> bool) -> usize {
    let mut first = 0;
    for i in 0..data.len() {
        // Lomuto's, without a branch: if it stays behind, it changes places with another of those.
        let goes = goes_first(&data[i]);
        data.swap(first, i);
        first += usize::from(goes);
    }
    first
}
