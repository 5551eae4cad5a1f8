//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use raddle::trace::WhatIf;

use raddle::remote::Plan;

use crate::cluster::{Init, Options};
use crate::error::Error;
use crate::input::Input;
use crate::table::Label;
use crate::trace::Level;

/// Measures this machine, or does parallel work on your data
#[derive(Debug, Parser)]
#[command(name = "raddle", version, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// Measure in two seconds, roughly, instead of ten
    #[arg(long)]
    pub(crate) quick: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

const AFTER_HELP: &str = "\
Without a command, raddle measures what forks, futures and hand-offs cost
on this machine and prints one page.

Exit code: 0 done, 2 bad input or usage, 1 any other failure.";

#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Threads to use [default: all of the machine]
    #[arg(long, global = true, value_name = "N", display_order = 100)]
    pub(crate) threads: Option<usize>,
    /// Do the work N times on one and on all threads [default: 5, or 10 s]
    #[arg(long, global = true, value_name = "N", display_order = 101)]
    pub(crate) runs: Option<usize>,
    /// Print one JSON object instead of text
    #[arg(long, global = true, display_order = 101)]
    pub(crate) json: bool,
    /// Record the run on all threads in a file, for `raddle trace`
    #[arg(long, global = true, value_name = "FILE", display_order = 102)]
    pub(crate) trace: Option<PathBuf>,
    /// How much --trace records
    #[arg(long, global = true, value_enum, value_name = "LEVEL", display_order = 103)]
    pub(crate) trace_level: Option<Level>,
    /// Events that a thread has room for at once [default: 65536]
    #[arg(long, global = true, value_name = "EVENTS", display_order = 104)]
    pub(crate) trace_room: Option<usize>,
    /// Where kmeans, knn, quantize run: threads:N, processes:N, ..
    #[arg(long, global = true, value_name = "PLAN", display_order = 105)]
    pub(crate) plan: Option<Plan>,
    /// How often a task of --plan is tried again whose worker has died
    #[arg(long, global = true, value_name = "N", display_order = 106)]
    pub(crate) retries: Option<u32>,
}

impl Common {
    /// All is done in this process, and whoever wants it elsewhere is told why.
    pub(crate) fn refuse_plan(&self, why: &str) -> Result<(), Error> {
        let option = match (&self.plan, self.retries) {
            (None, None) => return Ok(()),
            (Some(_), _) => "--plan",
            (None, Some(_)) => "--retries",
        };
        Err(Error::usage(format!("{option} is for kmeans, knn and quantize: {why}")))
    }

    /// What is done in this process is tried once.
    pub(crate) fn check_retries(&self) -> Result<(), Error> {
        match (&self.plan, self.retries) {
            (None, Some(_)) => Err(Error::usage("--retries needs --plan PLAN")),
            _ => Ok(()),
        }
    }

    /// Nothing is run here, and whoever wants it to be recorded or repeated is told why.
    pub(crate) fn refuse_run(&self, why: &str) -> Result<(), Error> {
        self.refuse_recording(why)?;
        match self.runs {
            None => Ok(()),
            Some(_) => Err(Error::usage("--runs is for `raddle run`")),
        }
    }

    /// Nothing is computed on threads here, and whoever wants some is told.
    pub(crate) fn refuse_threads(&self) -> Result<(), Error> {
        match self.threads {
            None => Ok(()),
            Some(_) => Err(Error::usage("--threads is for `raddle run` and for measuring")),
        }
    }

    /// A text is printed here, and none of these options makes it another.
    pub(crate) fn refuse_all(&self) -> Result<(), Error> {
        self.refuse_run("there is no run to record")?;
        self.refuse_plan("there is no run")?;
        self.refuse_threads()?;
        match self.json {
            false => Ok(()),
            true => Err(Error::usage("--json is for results: this prints a text")),
        }
    }

    /// The work goes to a plan's workers once, and whoever wants threads or repeated runs is told why.
    pub(crate) fn refuse_here(&self) -> Result<(), Error> {
        self.refuse_recording("what other processes do is not recorded")?;
        match (self.threads, self.runs) {
            (None, None) => Ok(()),
            (Some(_), _) => Err(Error::usage("--threads and --plan both say where tasks go")),
            (None, Some(_)) => Err(Error::usage("--runs is not for --plan, which runs once")),
        }
    }

    /// Nothing is recorded here, and whoever wants it to be is told why.
    pub(crate) fn refuse_recording(&self, why: &str) -> Result<(), Error> {
        let records =
            self.trace.is_some() || self.trace_level.is_some() || self.trace_room.is_some();
        match records {
            false => Ok(()),
            true => Err(Error::usage(format!("--trace is for `raddle run`: {why}"))),
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a workload, on your data or on made-up data
    ///
    /// Every workload runs on one thread and on all of them, several times; all
    /// results must be the same to the bit. Printed are the result, the medians
    /// of both times and the speed-up. Reading and writing files is not timed.
    /// No input and no other output is ever overwritten.
    // Without one it is said in a line which there are, in the place of a page of help.
    #[command(subcommand, verbatim_doc_comment, arg_required_else_help = false)]
    Run(Workload),
    /// Show what was recorded
    #[command(subcommand, arg_required_else_help = false)]
    Trace(TraceCommand),
    /// Say what each plan would do here, and with which workers
    Plan(PlanArgs),
    /// Print what makes a shell complete command lines of raddle
    ///
    /// For example:
    /// raddle completions bash > ~/.local/share/bash-completion/completions/raddle
    #[command(verbatim_doc_comment)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print a page of the manual
    ///
    /// For example: raddle man run sort | man -l -
    Man {
        /// The command [default: raddle itself]
        command: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// Which plans [default: sequential, threads, processes and ray:auto]
    #[arg(value_name = "PLAN")]
    pub(crate) plans: Vec<Plan>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    /// Print a table: regions and their phases, workers, wakes, advice
    #[command(after_long_help = SUMMARY_HELP)]
    Summary(ShownArgs),
    /// Say what bounds the run, and what more processors would give
    ///
    /// Needs a recording at level tasks. Work is the processor time of all
    /// tasks, span the longest way through what must follow each other. The
    /// recorded tasks are run again by a simulation of 1 to 1,024 processors.
    #[command(verbatim_doc_comment)]
    Scale(ScaleArgs),
    /// Say what each thread was doing at the end, and who waits for whom
    Doctor(ShownArgs),
    /// Compare two recordings: what got slower
    Diff(DiffArgs),
    /// Draw it as one page for a browser, with nothing else needed
    Html(DrawnArgs),
    /// Write it as JSON for Perfetto (ui.perfetto.dev) or chrome://tracing
    Chrome(DrawnArgs),
    /// Write it in Perfetto's own format: smaller, and faster to open
    Perfetto(DrawnArgs),
}

const SUMMARY_HELP: &str = "\
Of each worker, in parts of the time of the whole recording:

  busy     it ran tasks
  lost     of that: it had no processor, as far as that was recorded
  steal    it got work, or handed it over
  spin     it looked for work in vain
  wait     it waited for a task that ran elsewhere, or for a lock
  locked   of that: it was asleep for locks
  parked   it was asleep, without work or within a wait for a task

and as numbers:

  tasks    tasks and forks that it began
  stole    tasks and forks that it took from others
  woke     how often it woke another";

#[derive(Debug, Args)]
pub(crate) struct ScaleArgs {
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
    /// More recordings of the same run, whose speed-ups are shown beside
    #[arg(value_name = "MEASURED")]
    pub(crate) measured: Vec<PathBuf>,
    /// Suppose that a place, or a region, takes FACTOR
    /// times as long: `sort.rs:52=0.5`
    #[arg(long, value_name = "NAME=FACTOR", value_parser = WhatIf::parse, verbatim_doc_comment)]
    pub(crate) what_if: Vec<WhatIf>,
}

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The recording to compare with
    #[arg(value_name = "BEFORE")]
    pub(crate) before: PathBuf,
    /// The recording of which to say what got slower
    #[arg(value_name = "AFTER")]
    pub(crate) after: PathBuf,
    /// Compare what comes before the damage if a file is damaged
    /// (one that is only cut short is compared anyway)
    #[arg(long, verbatim_doc_comment)]
    pub(crate) damaged: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ShownArgs {
    /// What `raddle run --trace FILE` or `Trace::save` has written
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Show what comes before the damage if the file is damaged
    /// (one that is only cut short is shown anyway)
    #[arg(long, verbatim_doc_comment)]
    pub(crate) damaged: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DrawnArgs {
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
    /// Where to write it [- is standard output]
    #[arg(long, short, value_name = "OUT", default_value = "-")]
    pub(crate) output: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Workload {
    /// Put the rows of a CSV table into k clusters
    #[command(after_long_help = KMEANS_HELP)]
    Kmeans(KmeansArgs),
    /// Guess the label of each row of a CSV table from its neighbours
    #[command(after_long_help = KNN_HELP)]
    Knn(KnnArgs),
    /// Reduce a picture to k colours
    #[command(after_long_help = QUANTIZE_HELP)]
    Quantize(QuantizeArgs),
    /// Sort the lines of a file in the order of their bytes
    #[command(after_long_help = SORT_HELP)]
    Sort(SortArgs),
    /// Compute a Fibonacci number, forking at every call
    #[command(after_long_help = FIB_HELP)]
    Fib(FibArgs),
}

/// What k-means needs besides k, whatever it is used for.
#[derive(Debug, Args)]
pub(crate) struct LloydArgs {
    /// Seed for --init plusplus
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl LloydArgs {
    pub(crate) fn options(&self, k: usize, init: Init, max_iter: usize) -> Result<Options, Error> {
        if max_iter == 0 {
            return Err(Error::usage("--max-iter must be at least 1"));
        }
        Ok(Options { k, init, seed: self.seed, max_iter })
    }
}

#[derive(Debug, Args)]
pub(crate) struct KmeansArgs {
    #[command(flatten)]
    pub(crate) input: Input,
    /// Number of clusters
    #[arg(long, value_name = "K", default_value_t = 8)]
    pub(crate) k: usize,
    /// What the last column is; a label is left out
    #[arg(long, value_enum, default_value_t = Label::None)]
    pub(crate) label: Label,
    /// Where the centres start
    #[arg(long, value_enum, default_value_t = Init::First)]
    pub(crate) init: Init,
    /// Stop after that many assignments
    #[arg(long, value_name = "N", default_value_t = 300)]
    pub(crate) max_iter: usize,
    #[command(flatten)]
    pub(crate) lloyd: LloydArgs,
    /// Write the cluster of each row as CSV [- is standard output]
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) output: Option<PathBuf>,
}

const KMEANS_HELP: &str = "\
Lloyd's algorithm: assign each row to the nearest centre (of equally near
ones the lower), move each centre to the mean of its rows, and repeat until
no assignment changes. A centre that loses all its rows stays where it is.

  iterations   how often all rows were assigned, including the last time,
               which changed nothing (n_iter_ of scikit-learn)
  inertia      sum of the squared distances of the rows to the final
               centres they are assigned to

The output has a header and one line per row: row,cluster with rows and
clusters counted from 0, a header of the input not counted.

Input: fields separated by commas, all rows of one length, every feature a
number from -1e100 to 1e100. A first row in which no feature is a number is
a header and is skipped. Errors name FILE:LINE:COLUMN, the column being that
of the table.";

#[derive(Debug, Args)]
pub(crate) struct KnnArgs {
    #[command(flatten)]
    pub(crate) input: Input,
    /// Number of neighbours that vote
    #[arg(long, value_name = "K", default_value_t = 5)]
    pub(crate) k: usize,
    /// Where the label is; knn cannot do without
    #[arg(long, value_enum, default_value_t = Label::Last)]
    pub(crate) label: Label,
}

const KNN_HELP: &str = "\
Each row is classified by the k other rows at the smallest squared
Euclidean distance (of equally near ones the lower rows). The most frequent
label among them wins, and of equally frequent ones the one that has the
nearest member. The result says for how many rows that is their own label.

Input: fields separated by commas, all rows of one length. The last column
is the label, any text; every other is a number from -1e100 to 1e100. A first
row in which no feature is a number is a header and is skipped. Errors name
FILE:LINE:COLUMN, the column being that of the table.";

#[derive(Debug, Args)]
pub(crate) struct QuantizeArgs {
    #[command(flatten)]
    pub(crate) input: Input,
    /// Number of colours
    #[arg(long, value_name = "K", default_value_t = 16)]
    pub(crate) k: usize,
    /// Where the colours start
    #[arg(long, value_enum, default_value_t = Init::Plusplus)]
    pub(crate) init: Init,
    /// Stop after that many assignments
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) max_iter: usize,
    #[command(flatten)]
    pub(crate) lloyd: LloydArgs,
    /// Write the picture as PNG [- is standard output]
    #[arg(long, value_name = "OUT.png")]
    pub(crate) output: Option<PathBuf>,
}

const QUANTIZE_HELP: &str = "\
k-means over the pixels, red, green and blue from 0 to 255; see
raddle run kmeans --help for what is computed. The first K pixels of a
picture are mostly alike, so the colours start from a seeded k-means++.

The output is an RGB picture of at most K colours. A transparent picture is
put on white first, one turned by its EXIF data is turned upright, 16 bits a
channel become 8. With K above the number of different colours the picture
stays as it is, unless with --init first the first K pixels lack some of
them. A picture cut short is refused.";

#[derive(Debug, Args)]
pub(crate) struct SortArgs {
    #[command(flatten)]
    pub(crate) input: Input,
    /// Write the sorted lines [- is standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

const SORT_HELP: &str = "\
A stable merge sort, the same as LC_ALL=C sort -s: lines end in a newline,
all other bytes count, and a last line without a newline gets one.

All is done in this process: --plan is refused, as lines would be sent twice.";

#[derive(Debug, Args)]
pub(crate) struct FibArgs {
    /// Which number, up to 90
    #[arg(long, value_name = "N", default_value_t = 38)]
    pub(crate) n: u32,
    /// Compute numbers up to this one without forking
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) cutoff: u32,
}

const FIB_HELP: &str = "\
All is done in this process: --plan is refused, as forks are too small to be
sent.";

#[cfg(test)]
mod tests {
    use crate::command_line::command;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    fn is_narrow(command: &mut clap::Command) {
        let help = command.render_long_help().to_string();
        let wide: Vec<&str> = help.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{}: {wide:#?}", command.get_name());
        command.get_subcommands_mut().for_each(is_narrow);
    }

    #[test]
    fn no_long_help_is_wider_than_80_columns() {
        let mut program = command();
        program.build();
        is_narrow(&mut program);
    }

    #[test]
    fn workloads_say_what_a_plan_does_there() {
        let mut program = command();
        program.build();
        let run = program.find_subcommand_mut("run").unwrap();
        for workload in run.get_subcommands_mut().filter(|command| command.get_name() != "help") {
            let help = workload.render_long_help().to_string();
            assert!(help.contains("Where kmeans, knn, quantize run"), "{help}");
            let refuses = ["sort", "fib"].contains(&workload.get_name());
            assert_eq!(help.contains("--plan is refused"), refuses, "{help}");
        }
    }
}
