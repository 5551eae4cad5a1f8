//! The command line.

use std::{num::NonZero, thread, time::Duration};

use clap::{Parser, ValueEnum, builder::PossibleValuesParser};

use crate::{futures::Subject, tables};

/// Measures raddle side by side with its peers and judges the budgets.
#[derive(Debug, Parser)]
#[command(name = "raddle-bench", version)]
pub(crate) struct Args {
    /// The table to measure
    #[arg(
        value_name = "TABLE",
        value_parser = PossibleValuesParser::new(names()),
        default_value = tables::ALL
    )]
    pub(crate) table: String,

    /// Run cold regions for so many seconds, looking for a lost wake-up, and measure nothing
    #[arg(long, value_name = "S", value_parser = seconds)]
    stress: Option<f64>,

    /// Print one JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,

    /// Rounds of each group of rows (each table has its own default)
    #[arg(long, value_name = "N")]
    rounds: Option<NonZero<usize>>,

    /// Tiny sizes, a second or so per table: does everything still work?
    #[arg(long)]
    smoke: bool,

    /// The billion rounds of the lock table's seed program, instead of ten million
    #[arg(long)]
    full: bool,

    /// Workers where a table doesn't fix their number: handoff, oversubscribed, scaling
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<usize>>,

    /// Only sections whose names contain this
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) only: String,

    /// Peers on the JVM in `future`: all, the one that budgets are about, or none
    #[arg(long, value_enum, default_value_t = Peers::Judged)]
    jvm: Peers,

    /// Measure one row of `future` in this process: RUNTIME/OPERATION
    #[arg(long, hide = true, value_parser = subject)]
    pub(crate) row: Option<Subject>,

    /// Measure forks in a span, from now to the end of this process: fib(N)
    #[arg(long, hide = true)]
    pub(crate) spanned: Option<u32>,
    /// Measure regions of forte in this process: MICROSECONDS/MODE/SAMPLES/STEPS
    #[arg(long, hide = true, value_parser = region)]
    pub(crate) region: Option<tables::regions::Spec>,

    /// Start no further round of a table after this long
    #[arg(long, value_name = "S", default_value_t = 120.0, value_parser = seconds)]
    max_seconds: f64,
}

/// Which peers on the JVM.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(crate) enum Peers {
    All,
    Judged,
    None,
}

/// What the tables need to know.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) rounds: Option<usize>,
    pub(crate) smoke: bool,
    pub(crate) full: bool,
    pub(crate) threads: usize,
    pub(crate) cores: usize,
    pub(crate) max: Duration,
    pub(crate) peers: Peers,
}

impl Settings {
    /// `full`, or `tiny` in a smoke run.
    pub(crate) fn size<T>(&self, full: T, tiny: T) -> T {
        if self.smoke { tiny } else { full }
    }
}

impl Args {
    pub(crate) fn stress(&self) -> Option<Duration> {
        self.stress.map(Duration::from_secs_f64)
    }

    pub(crate) fn settings(&self) -> Settings {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        Settings {
            rounds: self.rounds.map(NonZero::get),
            smoke: self.smoke,
            full: self.full,
            threads: self.threads.map_or(cores, NonZero::get),
            cores,
            max: Duration::from_secs_f64(self.max_seconds),
            peers: self.jvm,
        }
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    tables::TABLES.iter().map(|(name, _)| *name).chain([tables::ALL])
}

fn subject(text: &str) -> Result<Subject, String> {
    Subject::parse(text).ok_or_else(|| "no such runtime, or no such operation there".into())
}

fn region(text: &str) -> Result<tables::regions::Spec, String> {
    tables::regions::Spec::parse(text).ok_or_else(|| "not a region".into())
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(s) if (0.0..1e6).contains(&s) => Ok(s),
        _ => Err("a number of seconds, 0 to 1000000".into()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn times_are_checked() {
        assert_eq!(seconds("1.5"), Ok(1.5));
        assert!(seconds("-1").is_err() && seconds("NaN").is_err() && seconds("x").is_err());
    }
}
