//! [`Future`] and [`Promise`]: a value that will be there.
//!
//! A pending future is a pointer to a *node*, one allocation that holds the state word and a slot for what the
//! producer needs now and the consumer later. Every operation on it makes one more node, which takes the
//! place of the consumer: a chain is a list of nodes that point downstream, and completing runs along it.
//!
//! ```text
//!   Promise ──▶ Root ──▶ MapNode(map) ──▶ FlatMapNode(flat_map) ◀── Future      arrows: "completes", "waits for"
//!                ▲──────────────────────┘ upstream          │
//!                                       ▲────── cell ───────┘          where interrupts go
//! ```
//!
//! | file        | what it holds                                                              |
//! |-------------|----------------------------------------------------------------------------|
//! | `state`, `consumer` | the word between producer and consumer, and what each does with it. **Start here** |
//! | `state/found` | how a future ends, how one attaches to it, and what its two parties find    |
//! | `node`, `node/reference` | what all nodes have in common; completing; how they are referred to |
//! | `life`      | for models: that nobody uses what has been freed                              |
//! | `walk`, `garbage` | running continuations, in a loop; what is freed afterwards            |
//! | `upstream`, `pinned` | the way of interrupts, against the current; tasks found there          |
//! | `upstream/locked` | what a node knows of the future that it waits for, and the lock of that |
//! | `interrupt_node`      | where a promise hears of them                                              |
//! | `then`      | nodes of `map` and its like                                                |
//! | `flat_map`  | nodes of `flat_map` and its like                                            |
//! | `link`      | nodes of linked promises                                                    |
//! | `linked`    | what these two have in common: becoming another future                       |
//! | `handle`, `pending`, `promise` | the two ends                                              |
//! | `ops`       | the operations on one future, in terms of `then` and `flat_map`                   |
//! | `op`        | what such an operation is: a closure from one result to the next, mostly          |
//! | `watch`     | attaching to a future that one keeps                                        |
//! | `all`, `race`, `shared`, `window` | several futures, or several consumers                     |
//! | `shared/consumers` | the consumers of a shared future, in the order in which they came    |
//! | `shared_promise` | a promise that several may complete                                     |
//! | `cancel`    | a future that is interrupted when it is dropped                              |
//! | `repeat`, `retry` | loops; trying again                                                  |
//! | `delay`     | futures that are done when it is time                                       |
//! | `within`    | a future that ends as another, or before                                     |
//! | `wait`      | blocking a thread                                                           |
//! | `awaiting`, `driven` | to async Rust, and from it                                       |
//! | `on`        | continuations on a pool                                                     |
//! | `failure`, `interrupt` | why there is no value; the wish that there were none                  |
//! | `failure/fixed`, `failure/known` | failures in statics; what is known of unknown types |

mod all;
#[cfg(not(raddle_loom))]
mod awaiting;
#[cfg(not(raddle_loom))]
mod cancel;
mod consumer;
#[cfg(not(raddle_loom))]
mod delay;
#[cfg(not(raddle_loom))]
mod driven;
pub(crate) mod failure;
mod flat_map;
mod garbage;
pub(crate) mod handle;
mod interrupt;
pub(crate) mod interrupt_node;
mod life;
mod link;
mod linked;
pub(crate) mod node;
#[cfg(not(raddle_loom))]
mod on;
mod op;
mod ops;
mod pending;
pub(crate) mod pinned;
mod promise;
mod race;
mod repeat;
#[cfg(not(raddle_loom))]
mod retry;
mod shared;
mod shared_promise;
pub(crate) mod state;
pub(crate) mod then;
pub(crate) mod upstream;
mod wait;
pub(crate) mod walk;
mod watch;
#[cfg(not(raddle_loom))]
mod window;
#[cfg(not(raddle_loom))]
mod within;

use std::time::Duration;

pub use self::failure::{Failure, FailureKind, StaticFailure};
pub use self::handle::Future;
pub use self::interrupt::Interrupt;
#[doc(hidden)]
pub use self::promise::Helper;
pub use self::promise::{Producer, Promise};
pub use self::shared_promise::SharedPromise;
pub use self::{
    all::{collect, collect_map, collect_results, fold, join_all, traverse},
    race::{AsCompleted, Selected, as_completed, first, select, wait_all, wait_any},
    repeat::{tail_loop, times, traverse_sequentially, while_do},
    shared::Shared,
};
#[cfg(not(raddle_loom))]
pub use self::{
    cancel::CancelOnDrop,
    retry::{Retry, retry},
    window::window,
};

/// What [`Future::kill`] came upon, or a [`Producer`] says that it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Killed {
    /// What would have produced the value had not started, and never will.
    BeforeStart,
    /// It is running; the future has failed already.
    WhileRunning,
    /// The future was done.
    TooLate,
}

/// Who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiter {
    /// A thread that runs what it waits for, if it is a worker or may become a guest.
    Patient,
    /// A thread that does not run anything: it has a deadline, or is no place for that.
    Hurried,
    /// One that has a deadline and waits in vain, as nobody else comes: see `pool::vain`.
    Late,
}

/// What came of an offer to help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Assist {
    /// There was nothing to be done: wait, if that is still needed.
    Go,
    /// Something was run.
    Ran,
    /// Something was run, and the way to what else there may be is long: look again after so long.
    Far(Duration),
    /// The waiting thread is itself running what it waits for.
    Cycle,
}
