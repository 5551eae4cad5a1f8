//! The tables. Each is a file with a function that says what to measure; add new ones to `TABLES`.

use crate::{args::Settings, harness::Table};

mod future;
mod handoff;
mod idle;
mod join;
mod leaf;
mod local;
mod lock;
mod nested;
mod oversubscribed;
pub(crate) mod regions;
mod scaling;
mod service;
pub(crate) mod simulate;
mod spawn;
mod tasks;
mod trace;
mod wake;

type Make = fn(&Settings) -> Table;

/// All tables by name, in the order in which `all` measures them.
pub(crate) const TABLES: &[(&str, Make)] = &[
    ("join", join::table),
    ("handoff", handoff::table),
    ("leaf", leaf::table),
    ("spawn", spawn::table),
    ("service", service::table),
    ("tasks", tasks::table),
    ("nested", nested::table),
    ("regions", regions::table),
    ("local", local::table),
    ("future", future::table),
    ("lock", lock::table),
    ("wake", wake::table),
    ("simulate", simulate::table),
    ("trace", trace::table),
    ("idle", idle::table),
    ("oversubscribed", oversubscribed::table),
    ("scaling", scaling::table),
];

/// The name that stands for every table.
pub(crate) const ALL: &str = "all";

/// `1 thread`, `2 threads`: a count with its noun.
fn count(n: usize, noun: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{n} {noun}{s}")
}
