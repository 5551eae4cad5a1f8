//! What happened in a parallel region, and where its time went.
//!
//! An [`Event`] is 16 bytes; a [`Trace`] holds one list of them per worker and the two clock readings
//! that turn its time stamps into nanoseconds; [`Trace::phases`] splits each region's time into five
//! phases. No pool is needed: a trace can be recorded by raddle, read from bytes, or made by hand.
//!
//! ```
//! use raddle_trace::{ClockPair, Event, EventKind::*, Lane, Trace};
//! use std::time::Duration;
//!
//! // One tick is 10 ns. The submitter hands task 1 to a worker and waits for it.
//! let mut trace = Trace::new(ClockPair { tsc: 0, nanos: 0 }, ClockPair { tsc: 1000, nanos: 10_000 });
//! trace.lanes.push(Lane::new("submitter", vec![Event::new(100, Submit, 1), Event::new(900, Waited, 1)]));
//! trace.lanes.push(Lane::new("worker 0", vec![Event::new(160, Exec, 1), Event::new(850, Executed, 1)]));
//!
//! let region = &trace.phases()[0];
//! assert_eq!(region.first_handoff, Duration::from_nanos(600));
//! assert_eq!(region.full_parallelism, Duration::from_nanos(6900)); // one worker, so its whole run
//! assert_eq!(region.result_handoff, Duration::from_nanos(500));
//! assert_eq!(region.total, Duration::from_nanos(8000));
//! ```

#![forbid(unsafe_code)]

mod event;
mod phases;
mod trace;

pub use event::{Event, EventKind, UnknownKind};
pub use phases::Phases;
pub use trace::{ClockPair, Lane, Trace};
