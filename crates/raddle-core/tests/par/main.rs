//! Parallel loops, collections, scans and sorts, through the public API.

mod edges;
mod like_std;
mod panics;
