//! Parallel loops, collections, scans and sorts on slices and ranges: `raddle::par`.
//!
//! For those who want one dependency, and no trait to learn: each function takes a slice or a range and closures, is over
//! when it returns, and does what its sequential namesake does, in the same order of items.
//!
//! ```
//! use raddle::par;
//!
//! let mut heights = par::map_collect(0..10_000_u64, |i| i * 7_919 % 10_007);
//! par::for_each(&mut heights, |h| *h += 1);
//! par::sort_unstable(&mut heights);
//! let sum = par::map_reduce(&heights, 0, |&h| h, |a, b| a + b);
//! assert_eq!((heights[0], heights[9_999], sum), (1, 10_007, 50_046_578));
//! assert_eq!(par::find_any(&heights, |&h| h > 10_006), Some(&10_007));
//! ```
//!
//! | for | functions |
//! |---|---|
//! | effects | [`for_each`], [`for_each_indexed`], [`for_each_in`], [`chunks_mut`], [`chunks_mut_indexed`], [`zip`] |
//! | new collections | [`map_collect`], [`filter`], [`filter_map`] |
//! | one value | [`map_reduce`], [`find_any`], [`any`], [`all`] |
//! | prefixes | [`inclusive_scan`], [`exclusive_scan`] |
//! | order | [`sort`], [`sort_by`], [`sort_by_key`], [`sort_unstable`], [`sort_unstable_by`], [`sort_unstable_by_key`] |
//!
//! # Where it runs
//!
//! Within a pool (in [`Pool::run`](crate::Pool::run), in a task, in another of these calls) it runs there; from outside in
//! the global pool, where the caller takes part. On a pool of one thread it is the sequential loop.
//!
//! # How it splits
//!
//! By who asks. A loop goes on sequentially, a few items at a time, and looks whether some thread has nothing to do
//! ([`Worker::should_fork`](crate::Worker::should_fork)). Only then, or when but a few are left, it forks about half of what is left. So
//! there is no grain to choose, a loop costs about what it costs sequentially when all threads are busy, and items of very different
//! lengths balance out. The calls within one look cannot be shared: some 512 items at most, and while items take next to nothing half of
//! what is left.
//! Few items, fewer than 64 or 16 for each thread, are shared at once, as each may be a long one; of more, the first are done to see
//! whether there are microseconds of work left, as to share less takes longer than to do it.
//! Where every fork is recorded ([`TraceLevel::Tasks`](crate::trace::TraceLevel::Tasks)), a loop forks without being asked, down to pieces
//! of some microseconds: so the recording tells what more threads would find to do.
//!
//! So items must not wait for each other: whether two run at once depends on who has nothing to do.
//!
//! # Panics
//!
//! If a closure panics, the panic goes on in the caller once all that runs has ended; other items may or may not have been visited by
//! then. Nothing leaks and nothing is dropped twice: results made so far are dropped, slices hold each of their elements
//! once, sorts leave them in some order.

mod collect;
mod drive;
mod each;
mod items;
mod reduce;
mod scan;
mod sort;

pub use self::{
    collect::{filter, filter_map, map_collect},
    each::{chunks_mut, chunks_mut_indexed, for_each, for_each_in, for_each_indexed, zip},
    items::{Integer, Items},
    reduce::{Identity, all, any, find_any, map_reduce},
    scan::{exclusive_scan, inclusive_scan},
    sort::{sort, sort_by, sort_by_key, sort_unstable, sort_unstable_by, sort_unstable_by_key},
};
