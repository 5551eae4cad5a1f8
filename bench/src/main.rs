//! Measures raddle side by side with its peers, in interleaved rounds, and judges the budgets.
//!
//! `args` reads the command line, `tables` says what is measured, `work` holds the workloads and `loops` loops and sorts,
//! written once and instantiated for each runtime, `futures` what is done with futures, `peers`
//! makes pools, `jvm` runs peers in Java, `alloc` is the allocator, `harness` runs the rounds,
//! `report` judges and prints.

#![deny(unsafe_code)]

mod alloc;
mod args;
mod futures;
mod harness;
mod jvm;
mod locals;
mod loops;
mod machine;
mod peers;
mod regions;
mod report;
mod simulate;
mod stress;
mod tables;
mod work;

use std::io::{self, ErrorKind, Write};

use clap::Parser;

use crate::{args::Args, machine::Machine, report::Report};

fn main() -> io::Result<()> {
    match run(&Args::parse(), &mut io::stdout()) {
        // Whoever read the output has seen enough of it.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

fn run(args: &Args, out: &mut impl Write) -> io::Result<()> {
    if let Some(time) = args.stress() {
        return stress::run(time, out);
    }
    let settings = args.settings();
    if let Some(subject) = args.row {
        return Ok(serde_json::to_writer(out, &subject.measure(&settings))?);
    }
    if let Some(n) = args.spanned {
        return Ok(serde_json::to_writer(out, &locals::spanned(n))?);
    }
    if let Some(region) = args.region {
        return Ok(serde_json::to_writer(out, &region.measure())?);
    }
    let machine = Machine::read();
    if !args.json {
        writeln!(out, "{machine}\n")?;
    }
    let mut reports = Vec::new();
    for (name, table) in tables::TABLES {
        if args.table != tables::ALL && args.table != *name {
            continue;
        }
        let mut table = table(&settings);
        table.keep(&args.only);
        let report = Report::new(name, harness::run(table, &settings), &settings);
        if !args.json {
            writeln!(out, "{report}")?;
        }
        reports.push(report);
    }
    if args.json {
        writeln!(out, "{}", report::json(&machine, &settings, &reports))?;
    }
    Ok(())
}
