//! The ground that raddle stands on.
//!
//! | module | what it gives |
//! |---|---|
//! | [`atomic`], [`cell`], [`hint`], [`thread`], [`sync`] | the seam: std, or a model checker's imitation of it |
//! | [`fence`] | an asymmetric fence: free on the hot side, a system call on the cold one |
//! | [`futex`] | sleep on a 32-bit word, wake those who sleep on it |
//! | [`parker`] | one thread's sleep and wake, with a token that is never lost |
//! | [`fork`] | which copy of the process this is |
//! | [`affinity`] | waking a thread on another processor than one's own |
//! | [`strand`] | small recycled ids for logical threads of execution |
//! | [`padded`] | values that share no cache line with others |
//! | [`pages`] | memory that is given back, and its addresses kept |
//! | [`spin`] | a short, bounded spin |
//! | [`time`] | the clock |
//! | [`say()`], [`abort`], [`unwinds_nowhere`], [`thread_name`] | a word to the user, which does not panic |
//! | [`stack`] | how much stack the thread has left |
//! | [`watch`] | who is told of threads that wait for locks |
//! | [`within`] | what the running code is within, such as the making of a value |
//!
//! Nothing here knows of a pool, a task or a lock.
//!
//! # The seam
//!
//! Code that models run takes its atomics, cells, threads and blocking primitives from this crate and
//! not from `std` (`cargo xtask rooms` knows the exceptions). What it gets is chosen by `cfg`:
//!
//! | `RUSTFLAGS` | backend | use |
//! |---|---|---|
//! | none | `std` | the real thing; every wrapper is inlined away |
//! | `--cfg raddle_model --cfg raddle_loom` | loom | every interleaving and every allowed reordering of a small model |
//! | `--cfg raddle_model --cfg raddle_shuttle` | shuttle | random interleavings of a larger model, sequentially consistent |
//!
//! Loom's primitives cannot be built in a `const`; [`const_fn!`], [`lazy_static!`] and
//! [`thread_local!`](crate::thread_local) hide that difference. Neither checker has a clock. Under
//! loom a wait with a time limit times out where a model lets it (`time::let_expire`); under shuttle it may at any time, and [`time::Instant`] goes on by a step
//! whenever it is read.

mod macros;
mod processors;
mod say;
mod seam;

pub mod affinity;
pub mod crowd;
pub mod fence;
pub mod fork;
pub mod futex;
pub mod padded;
pub mod pages;
pub mod parker;
pub mod spin;
pub mod stack;
pub mod strand;
pub mod sync;
pub mod time;
pub mod watch;
pub mod within;

#[cfg(all(raddle_loom, not(feature = "loom")))]
compile_error!("`--cfg raddle_loom` needs the feature `loom` of raddle-sync");
#[cfg(all(raddle_shuttle, not(feature = "shuttle")))]
compile_error!("`--cfg raddle_shuttle` needs the feature `shuttle` of raddle-sync");

pub use processors::processors;
pub use say::{abort, say, thread_name, unwinds_nowhere};
pub use seam::{atomic, cell, hint, start, thread};

/// What the exported macros expand to; not for use by name.
#[doc(hidden)]
pub mod __private {
    #[cfg(raddle_loom)]
    pub use loom;
    #[cfg(raddle_shuttle)]
    pub use shuttle;
}
