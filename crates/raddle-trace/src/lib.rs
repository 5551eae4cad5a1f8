//! What happened in a parallel region, and where its time went.
//!
//! | to | use |
//! |---|---|
//! | hold events | [`Event`], 16 bytes; [`Lane`], those of one thread; [`Trace`], all |
//! | split a region's time into five phases | [`Trace::phases`], [`Trace::regions`] |
//! | see what each worker did | [`Trace::workers`], [`Lane::segments`] |
//! | see what wakes and steals cost | [`Trace::wakes`] |
//! | find what bounds a program, and what more processors would give | [`Trace::scale`] |
//! | find what to do about it | [`Trace::advice`], [`Trace::lengths`] |
//! | keep it | [`Trace::save`], [`Trace::load`], [`Writer`] |
//! | find why it hung | [`Trace::doctor`] |
//! | compare two | [`Trace::diff`], [`Trace::profile`], [`Trace::time_by_name`] |
//! | show it | [`Trace::summary`], [`Trace::html`], [`Trace::chrome_json`], [`Trace::perfetto`] |
//! | show it in little memory | [`Trace::write_html`], [`Trace::write_chrome_json`], [`Trace::write_perfetto`] |
//!
//! No pool is needed: a trace can be recorded by raddle, read from a file, or made by hand.
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

// Whoever builds raddle builds this crate, and few of those programs look at a trace. So all but `file` and `event` is `#[inline]`,
// private functions, too: it is compiled where it is called. `cargo xtask rooms` sees to it.

mod activity;
mod advice;
mod chrome;
mod diff;
mod doctor;
mod edges;
mod event;
pub mod file;
mod hash;
mod html;
mod lengths;
mod names;
mod nest;
mod out;
mod overview;
mod perfetto;
mod phases;
mod queues;
mod regions;
mod scale;
mod states;
mod summary;
mod trace;
mod workers;

pub use advice::Advice;
pub use diff::{Change, Diff, Profile};
pub use doctor::Diagnosis;
pub use edges::{Edge, EdgeKind, Wakes};
pub use event::{Event, EventKind, Subject, UnknownKind};
pub use file::{Damage, LoadError, Writer};
pub use lengths::Lengths;
pub use names::Named;
pub use phases::Phases;
pub use scale::{Bound, Costs, Measured, Place, Point, Refusal, RegionScale, Scale, WhatIf};
pub use states::{Segment, State};
pub use trace::{ClockPair, Lane, Trace, TraceLevel};
pub use workers::Times;
