//! Recording what a pool does. The format and the analysis of traces are those of the crate
//! `raddle-trace`.
//!
//! ```
//! use raddle::{Pool, trace::TraceLevel};
//!
//! let pool = Pool::builder().threads(2).trace(TraceLevel::Phase).build()?;
//! pool.run(|worker| worker.join(|_| 1, |_| 2));
//! let trace = pool.trace();
//! assert_eq!(trace.phases().len(), 1);
//! println!("{}", trace.summary());
//! # Ok::<(), raddle::PoolBuildError>(())
//! ```

pub use raddle_trace::{Trace, TraceLevel};

pub use crate::pool::recorder::{RegionGuard, region};
