//! [`Future`]: a value that will be there.
//!
//! A pending future is a pointer to a *node*, one allocation that holds the state word, a table of
//! functions, and a slot for what the producer needs now and the consumer later:
//!
//! ```text
//!   Node { state, vtable, slot: union { what produces | value | failure }, .. }
//! ```
//!
//! The parties and the transitions between them are in [`state`]. A node that waits for another is
//! told by [`VTable::step`]; a thread that waits is such a node on its own stack ([`wait`]).

pub(crate) mod failure;
pub(crate) mod state;
#[cfg(not(any(raddle_loom, raddle_shuttle)))]
mod wait;

#[cfg(not(any(raddle_loom, raddle_shuttle)))]
pub use self::handle::{Future, Killed};

#[cfg(not(any(raddle_loom, raddle_shuttle)))]
mod handle;
#[cfg(not(any(raddle_loom, raddle_shuttle)))]
pub(crate) mod node;
