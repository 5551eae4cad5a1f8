//! Recordings that tell nothing.

use std::fmt;

use crate::summary::{clean, lost};

/// Why a recording tells nothing about other numbers of processors.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Refusal {
    /// Forks that nobody stole are not in it.
    Level,
    /// So many events were lost.
    Lost(u64),
    /// Nothing ran in it.
    Empty,
    /// So many tasks began in it, of so many, without having been forked in it.
    Orphans(u64, u64),
    /// The part of the tasks' time in which their threads had a processor.
    Preempted(f64),
    /// Nothing has this name; these are some that there are.
    Unknown(String, Vec<String>),
    /// So many nanoseconds of work there would be with what is supposed: less than one, or more than can be counted.
    Supposed(f64),
}

impl fmt::Display for Refusal {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Level => f.write_str(
                "recorded at level phase, without the forks that nobody stole: record with --trace-level tasks \
                 (TraceLevel::Tasks; a program of rayon's without RADDLE_TRACE_LEVEL=phase)",
            ),
            Refusal::Lost(count) => write!(
                f,
                "{}, and work and span need all: record into a file while the pool runs (--trace, \
                 PoolBuilder::trace_to), or with more room (--trace-room, PoolBuilder::trace_capacity; a program of rayon's: without RADDLE_TRACE_ROOM, \
                 or with more)",
                lost(*count)
            ),
            Refusal::Empty => f.write_str("no task ran while this was recorded"),
            Refusal::Orphans(count, of) => write!(
                f,
                "{count} of {of} tasks were forked before the recording began: switch it on before the work"
            ),
            Refusal::Preempted(part) => write!(
                f,
                "tasks had a processor for only {:.0} % of their time: something else used the machine, or tasks sleep; \
                 record on a quiet machine, or with --threads 1 (a program of rayon's: RAYON_NUM_THREADS=1), \
                 which does not show what locks cost",
                part * 100.0
            ),
            Refusal::Unknown(name, known) => {
                let known: Vec<String> = known.iter().map(|known| clean(known)).collect();
                write!(f, "nothing is called '{}'; there are: {}", clean(name), known.join(", "))
            }
            Refusal::Supposed(work) if *work < 1.0 => {
                f.write_str("less than a nanosecond of work is left with what is supposed")
            }
            Refusal::Supposed(_) => {
                f.write_str("more than 584 years of work there would be with what is supposed")
            }
        }
    }
}

impl std::error::Error for Refusal {}
