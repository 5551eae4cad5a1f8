//! Futures and promises, through the public API: what they mean, and what they do under stress.
//!
//! `RADDLE_STRESS=n` makes the long tests n times as long; below 1 it makes them shorter.
#![allow(missing_docs)]

mod apart;
mod async_both_ways;
mod chains;
mod conventions;
mod drops;
mod graph;
mod handlers;
mod helpers;
mod hooks;
mod interrupts;
mod itself;
mod kills;
mod memory;
mod outcomes;
mod panics;
mod races;
mod rows;
mod semantics;
mod shared;
mod stack;
mod support;
mod waits;
mod workers;
