//! The pool of raddle: fork/join, scopes, spawned futures, sleeping and waking.
//!
//! Most programs use this through the crate `raddle`, which has the tutorial.
//!
//! Each floor names those beneath it, and none above: `cargo xtask rooms` sees to that.
//!
//! ```text
//!            compat                      what drop-ins for other libraries call
//!         /     |      \
//!   join  scope  trace      spawn        what users call
//!         \     |           /    |
//!          \    |      future    |        a value that will be there
//!           \   |     /          |
//!              pool                       workers, guests, spare threads; what waits run
//!               |
//!             local                       the context of the running code
//!               |
//!  fork_stack  queue  latch  places       one protocol each, model-checked
//!   count  claim  running  record  depth
//!   balance  mail  job
//! ```
//!
//! Under `--cfg raddle_loom` the crate is the protocols, `local`, `future` and the pool's gate, together with the models that check them;
//! under `--cfg raddle_shuttle` it is all but `par` and `compat`.

#![cfg_attr(
    raddle_model,
    allow(
        dead_code,
        unreachable_pub,
        unused_imports,
        missing_docs,
        reason = "the models do not call everything that the pool calls, and export nothing"
    )
)]

#[cfg(not(target_pointer_width = "64"))]
compile_error!(
    "raddle-core needs 64-bit pointers, as its queues' and counters' words have two halves"
);

mod balance;
mod count;
mod depth;
mod drops;
mod fork_stack;
mod future;
mod job;
mod latch;
#[cfg(raddle_model)]
mod ledger;
mod local;
mod mail;
#[cfg(not(raddle_model))]
mod memory;
mod panics;
#[cfg(not(raddle_model))]
pub mod par;
mod places;
mod queue;
mod record;
mod spawn;
mod timer;

#[cfg(raddle_model)]
use self::ledger as memory;
/// What the gate names of a pool.
#[cfg(all(test, raddle_loom))]
use self::models::gate::pool;

#[cfg(all(test, raddle_model))]
mod models;

#[cfg(not(raddle_model))]
pub mod compat;
#[cfg(not(raddle_loom))]
mod join;
#[cfg(not(raddle_loom))]
mod pool;
#[cfg(not(raddle_loom))]
mod scope;
#[cfg(not(raddle_loom))]
pub mod trace;

/// For tests.
#[cfg(not(raddle_model))]
#[doc(hidden)]
pub use self::memory::live as live_nodes;
/// The rules of waking and searching, for the simulation in `bench`.
#[cfg(not(raddle_loom))]
#[doc(hidden)]
pub use self::pool::policy;
/// For the environments of `raddle-remote`.
#[cfg(not(raddle_loom))]
#[doc(hidden)]
pub use self::{future::Helper, pool::kill_all_of, spawn::interrupt_process};
#[cfg(not(raddle_loom))]
pub use self::{
    future::{
        AsCompleted, CancelOnDrop, Failure, FailureKind, Future, Interrupt, Killed, Producer,
        Promise, Retry, Selected, Shared, SharedPromise, StaticFailure, as_completed, collect,
        collect_map, collect_results, first, fold, join_all, retry, select, tail_loop, times,
        traverse, traverse_sequentially, wait_all, wait_any, while_do, window,
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
