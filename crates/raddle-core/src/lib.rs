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
//!       places          |     who works, who searches, who sleeps
//!      /  |  \          |
//!  deque queue latch  state  claim    one protocol each, model-checked
//!      \  |
//!       job   local            what is run, and its context
//! ```
//!
//! Under `--cfg raddle_loom` the crate is the bottom row and `future`, together with the models that check them; under
//! `--cfg raddle_shuttle` it is all there.

#![cfg_attr(
    any(raddle_loom, raddle_shuttle),
    allow(
        dead_code,
        unreachable_pub,
        unused_imports,
        missing_docs,
        reason = "the models do not call everything that the pool calls, and export nothing"
    )
)]

mod deque;
mod future;
mod job;
mod latch;
mod local;
mod panics;
mod places;
mod queue;
mod record;
mod spawn;

#[cfg(all(test, any(raddle_loom, raddle_shuttle)))]
mod models;

#[cfg(not(raddle_loom))]
mod join;
#[cfg(not(raddle_loom))]
mod pool;
#[cfg(not(raddle_loom))]
mod scope;
#[cfg(not(raddle_loom))]
pub mod trace;

/// The rules of waking and searching, for the simulation in `bench`.
#[cfg(not(raddle_loom))]
#[doc(hidden)]
pub use self::pool::policy;
#[cfg(not(raddle_loom))]
pub use self::{
    future::{
        AsCompleted, Awaiting, Failure, FailureKind, Future, Interrupt, Killed, Promise, Selected,
        Shared, as_completed, collect, collect_results, first, fold, join_all, select, tail_loop,
        times, traverse, traverse_sequentially, wait_all, wait_any, while_do,
    },
    join::join,
    local::{Binding, BindingRef, Bindings, Follow, ScopeLocal, Snapshot, follow},
    pool::{
        BroadcastContext, CurrentPool, Pool, PoolBuildError, PoolBuilder, PoolStats, ThreadName,
        Waits, Worker, blocking, broadcast, current_num_threads, current_worker_index, yield_now,
    },
    scope::{Scope, scope},
    spawn::{Outcome, TaskId, interrupted, killed, spawn},
};
