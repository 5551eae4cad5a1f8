//! Prefixes.
//!
//! With `n` threads a slice is cut into `n + 1` blocks. First one block is scanned, and the others are combined, each by
//! itself; the last need not be. Then all but the first are scanned, each from what lies before it. So an element is combined
//! twice, but for those of the first block and the last.

use std::mem;
use std::panic::Location;

use crate::par::drive::enter;
use crate::par::each::{each_at, indexed};
use crate::pool::recorder::Place;

/// Fewer elements are scanned in place.
const LEAST: usize = 512;

struct Block<'a, T> {
    elements: &'a mut [T],
    /// What all before it come to.
    start: Option<T>,
    /// What its own come to.
    total: Option<T>,
}

/// The blocks for so many threads: at least two.
fn blocks<T>(data: &mut [T], threads: usize) -> Vec<Block<'_, T>> {
    let size = data.len().div_ceil(threads + 1);
    data.chunks_mut(size).map(|elements| Block { elements, start: None, total: None }).collect()
}

fn inclusive<T>(data: &mut [T], op: &impl Fn(&T, &T) -> T) {
    for i in 1..data.len() {
        data[i] = op(&data[i - 1], &data[i]);
    }
}

fn exclusive<T>(data: &mut [T], start: T, op: &impl Fn(&T, &T) -> T) -> T {
    data.iter_mut().fold(start, |before, element| {
        let next = op(&before, element);
        *element = before;
        next
    })
}

fn total<T>(data: &[T], op: &impl Fn(&T, &T) -> T) -> Option<T> {
    let [first, second, rest @ ..] = data else { return None };
    let mut total = op(first, second);
    for element in rest {
        // If the drop of what was there panics, the new one is dropped with it; what a closure returns would not be.
        total = op(&total, element);
    }
    Some(total)
}

/// Replaces each element by what `op` makes of all up to it: from the front, `data[i]` becomes `op(&data[i - 1], &data[i])`.
///
/// `op` must be associative. It is called up to twice for an element, so `n` threads take `2 / (n + 1)` of the sequential
/// loop's time at best: two threads two thirds.
///
/// # Panics
///
/// If `op` does: some elements are replaced by then, and others are not.
///
/// ```
/// let mut numbers = [1, 2, 3, 4];
/// raddle::par::inclusive_scan(&mut numbers, |a, b| a + b);
/// assert_eq!(numbers, [1, 3, 6, 10]);
/// ```
#[doc(alias = "prefix_sum", alias = "cumsum", alias = "scan")]
#[track_caller]
pub fn inclusive_scan<T, F>(data: &mut [T], op: F)
where
    T: Send + Sync,
    F: Fn(&T, &T) -> T + Sync,
{
    if data.len() < LEAST {
        return inclusive(data, &op);
    }
    let place = Location::caller();
    enter(place, |worker| {
        if worker.num_threads() == 1 {
            return inclusive(data, &op);
        }
        let mut blocks = blocks(data, worker.num_threads());
        let all_but_last = blocks.len() - 1;
        each_at(place, indexed(&mut blocks[..all_but_last]), |(index, block)| {
            if index == 0 {
                inclusive(block.elements, &op);
            } else {
                block.total = total(block.elements, &op);
            }
        });
        let (first, rest) = blocks.split_first_mut().expect("two blocks at least");
        let last = first.elements.last().expect("no block is empty");
        for next in 1..rest.len() {
            let Block { start, total, elements } = &rest[next - 1];
            let total = total.as_ref().unwrap_or(&elements[0]);
            rest[next].start = Some(op(start.as_ref().unwrap_or(last), total));
        }
        each_at(place, &mut *rest, |block| {
            let start = block.start.as_ref().unwrap_or(last);
            block.elements[0] = op(start, &block.elements[0]);
            inclusive(block.elements, &op);
        });
    });
}

/// Replaces each element by what `op` makes of `start` and all before it, and returns what it makes of `start` and all. So
/// `data[0]` becomes `start`.
///
/// `op` must be associative. Costs as [`inclusive_scan`].
///
/// # Panics
///
/// If `op` does: some elements are replaced by then, and others are not.
///
/// ```
/// let mut sizes = [3, 1, 4];
/// let end = raddle::par::exclusive_scan(&mut sizes, 0, |a, b| a + b);
/// assert_eq!((sizes, end), ([0, 3, 4], 8));
/// ```
#[track_caller]
pub fn exclusive_scan<T, F>(data: &mut [T], start: T, op: F) -> T
where
    T: Send + Sync,
    F: Fn(&T, &T) -> T + Sync,
{
    let end = exclusive_at(Location::caller(), data, start, &op);
    // Should it panic, the result is still dropped: what is being returned would be lost.
    drop(op);
    end
}

fn exclusive_at<T, F>(place: Place, data: &mut [T], start: T, op: &F) -> T
where
    T: Send + Sync,
    F: Fn(&T, &T) -> T + Sync,
{
    if data.len() < LEAST {
        return exclusive(data, start, op);
    }
    enter(place, |worker| {
        if worker.num_threads() == 1 {
            return exclusive(data, start, op);
        }
        let mut blocks = blocks(data, worker.num_threads());
        let all_but_last = blocks.len() - 1;
        blocks[0].start = Some(start);
        let scan = |block: &mut Block<'_, T>| {
            let start = block.start.take().expect("set before");
            block.total = Some(exclusive(block.elements, start, op));
        };
        each_at(place, indexed(&mut blocks[..all_but_last]), |(index, block)| {
            if index == 0 {
                scan(block);
            } else {
                block.total = total(block.elements, op);
            }
        });
        let (first, rest) = blocks.split_first_mut().expect("two blocks at least");
        rest[0].start = mem::take(&mut first.total);
        for next in 1..rest.len() {
            let Block { start, total, elements } = &rest[next - 1];
            let start = start.as_ref().expect("set before");
            let total = total.as_ref().unwrap_or(&elements[0]);
            rest[next].start = Some(op(start, total));
        }
        each_at(place, &mut *rest, scan);
        rest.last_mut().and_then(|block| block.total.take()).expect("scanned")
    })
}
