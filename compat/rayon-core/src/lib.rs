//! rayon's scheduler, as [raddle](https://github.com/raddle-rs/raddle) does it.
//!
//! This package has the name, the version and the API of `rayon-core`. With
//!
//! ```toml
//! [patch.crates-io]
//! rayon-core = { git = "https://github.com/raddle-rs/raddle" }
//! ```
//!
//! in the `Cargo.toml` of a workspace, and `cargo update -p rayon-core` once, all that uses `rayon` runs on raddle.
//! The page *From rayon* among raddle's documents says what changes and what does not.
//!
//! Variables of the environment that are raddle's:
//!
//! - `RADDLE_WAITS` is `host` (rayon's rule, the default: a thread that waits takes on anything) or `substitute` (it takes on
//!   only what it waits for, and another thread takes its place).
//! - `RADDLE_TRACE` names a file into which a trace is written while the program runs, whatever ends it.
//!   `RADDLE_TRACE_LEVEL` is `tasks`, with every fork (the default), or `phase`. `RADDLE_TRACE_ROOM` is a number of events: each thread
//!   keeps so many, its newest, and they are written when the process exits, or Ctrl-C or SIGTERM ends it.
//! - `RADDLE_FENCE=portable` does without barriers on all processors (`membarrier`), and `RADDLE_AFFINITY=off` never tells a thread where
//!   to run.
//!
//! ```
//! fn sum(numbers: &[u64]) -> u64 {
//!     if numbers.len() <= 1 {
//!         return numbers.iter().sum();
//!     }
//!     let (left, right) = numbers.split_at(numbers.len() / 2);
//!     let (left, right) = rayon_core::join(|| sum(left), || sum(right));
//!     left + right
//! }
//! let numbers: Vec<u64> = (1..=1000).collect();
//! assert_eq!(sum(&numbers), 500_500);
//! ```

mod broadcast;
mod builder;
mod configuration;
mod error;
mod fifo;
mod global;
mod join;
mod scope;
mod spawn;
mod thread;
mod thread_pool;

pub use self::broadcast::{BroadcastContext, broadcast, spawn_broadcast};
pub use self::builder::ThreadPoolBuilder;
#[allow(deprecated)]
pub use self::configuration::{Configuration, initialize};
pub use self::error::ThreadPoolBuildError;
pub use self::join::{FnContext, join, join_context};
#[cfg(doctest)]
pub use self::scope::ScopesAreInvariant;
pub use self::scope::{Scope, ScopeFifo, in_place_scope, in_place_scope_fifo, scope, scope_fifo};
pub use self::spawn::{spawn, spawn_fifo};
pub use self::thread::ThreadBuilder;
pub use self::thread_pool::{
    ThreadPool, Yield, current_num_threads, current_thread_has_pending_tasks, current_thread_index,
    max_num_threads, yield_local, yield_now,
};
