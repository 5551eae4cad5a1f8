//! The program `raddle`: measures a machine, and does parallel work on the user's data.

#![forbid(unsafe_code)]

mod args;
mod cluster;
mod error;
mod made_up;
mod measure;
mod merge_sort;
mod output;
mod parallel;
mod picture;
mod plan;
mod points;
mod progress;
mod remote;
mod report;

mod table;
mod timing;
mod trace;
mod workload;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use error::Error;

fn main() -> ExitCode {
    raddle::remote::init();
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(),
    }
}

fn run(cli: &Cli) -> Result<(), Error> {
    match &cli.command {
        None => {
            cli.common.refuse_recording("measuring is not recorded")?;
            cli.common.refuse_plan("measuring is done here")?;
            measure::run(cli.quick, &cli.common)
        }
        Some(_) if cli.quick => Err(Error::usage("--quick is for measuring, without a command")),
        Some(Command::Run(workload)) => workload::run(workload, &cli.common),
        Some(Command::Plan(args)) => {
            cli.common.refuse_recording("there is no run to record")?;
            plan::run(args, &cli.common)
        }
        Some(Command::Trace(command)) => {
            cli.common.refuse_recording("there is no run to record")?;
            trace::run(command)
        }
    }
}
