//! The pool of raddle: fork/join, scopes, spawned futures, sleeping and waking.
//!
//! Most programs use this through the crate `raddle`, which has the tutorial.
//!
//! Bottom up, arrows pointing down only:
//!
//! ```text
//!   join  scope  spawn        what users call
//!     \     |    /  \
//!       pool         future   workers and guests; a value that will be there
//!         |             |
//!       sleep           |     who searches, who sleeps
//!      /  |  \          |
//!  deque queue latch  state  claim    one protocol each, model-checked
//!      \  |
//!       job   local            what is run, and its context
//! ```
//!
//! Under `--cfg raddle_loom` and `--cfg raddle_shuttle` the crate is the bottom row only, together
//! with the models that check it.

#![cfg_attr(
    any(raddle_loom, raddle_shuttle),
    allow(dead_code, reason = "the models do not call everything that the pool calls")
)]

mod deque;
mod future;
mod job;
mod latch;
mod queue;
mod record;
mod sleep;
mod spawn;

#[cfg(all(test, any(raddle_loom, raddle_shuttle)))]
mod models;

#[cfg(not(any(raddle_loom, raddle_shuttle)))]
mod join;
#[cfg(not(any(raddle_loom, raddle_shuttle)))]
mod local;
#[cfg(not(any(raddle_loom, raddle_shuttle)))]
mod panics;
#[cfg(not(any(raddle_loom, raddle_shuttle)))]
mod pool;
#[cfg(not(any(raddle_loom, raddle_shuttle)))]
mod scope;
#[cfg(not(any(raddle_loom, raddle_shuttle)))]
pub mod trace;

/// The rules of waking and searching, for the simulation in `bench`.
#[cfg(not(any(raddle_loom, raddle_shuttle)))]
#[doc(hidden)]
pub use self::pool::policy;
#[cfg(not(any(raddle_loom, raddle_shuttle)))]
pub use self::{
    future::failure::{Failure, FailureKind},
    future::{Future, Killed},
    join::join,
    pool::{Pool, PoolBuildError, PoolBuilder, ThreadName, Worker},
    scope::{Scope, scope},
    spawn::{Outcome, TaskId, killed, spawn},
};
