//! The program `raddle`: measures a machine, and does parallel work on the user's data.

#![forbid(unsafe_code)]

mod args;
mod cluster;
mod command_line;
mod error;
mod files;
mod input;
mod machine;
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
mod shell;
mod table;
mod timing;
mod trace;
mod workload;

use std::process::ExitCode;

use args::{Cli, Command};
use error::Error;

fn main() -> ExitCode {
    raddle::remote::init();
    match parse().and_then(|cli| cli.as_ref().map_or(Ok(()), run)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(),
    }
}

/// The command line; none if it asked for help or the version, which have been printed.
fn parse() -> Result<Option<Cli>, Error> {
    match command_line::parse() {
        Ok(cli) => Ok(Some(cli)),
        Err(error) if error.use_stderr() => Err(Error::command_line(&error)),
        Err(help) => report::print(&help.render().to_string()).map(|()| None),
    }
}

fn run(cli: &Cli) -> Result<(), Error> {
    match &cli.command {
        None => {
            cli.common.refuse_run("measuring is not recorded")?;
            cli.common.refuse_plan("measuring is done here")?;
            measure::run(cli.quick, &cli.common)
        }
        Some(_) if cli.quick => Err(Error::usage("--quick is for measuring, without a command")),
        Some(Command::Completions { shell }) => {
            cli.common.refuse_all()?;
            shell::completions(*shell)
        }
        Some(Command::Man { command }) => {
            cli.common.refuse_all()?;
            shell::man(command)
        }
        Some(Command::Run(workload)) => workload::run(workload, &cli.common),
        Some(Command::Plan(args)) => {
            cli.common.refuse_run("there is no run to record")?;
            cli.common.refuse_threads()?;
            plan::run(args, &cli.common)
        }
        Some(Command::Trace(command)) => {
            cli.common.refuse_run("there is no run to record")?;
            cli.common.refuse_plan("there is no run")?;
            cli.common.refuse_threads()?;
            trace::run(command, cli.common.json)
        }
    }
}
