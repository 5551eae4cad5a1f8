//! The tests of locks that `test` runs only briefly, or not in this way.

use crate::sanitize;
use crate::steps::{Outcome, cargo, outcome, worst};
use std::process::Command;

/// How long each number of threads has, in seconds, unless the environment says otherwise.
const SECONDS: (&str, &str) = ("RADDLE_LOCK_SECONDS", "20");

/// Locks under stress with limits, and what once was wrong: as they are built for debugging, optimised, and under
/// AddressSanitizer.
pub(crate) fn locks() -> Outcome {
    let mut debug = cargo();
    let mut release = cargo();
    debug.arg("test");
    release.args(["test", "--release"]);
    let mut all = vec![long(&mut debug), long(&mut release)];
    all.push(match sanitize::asan_test() {
        Ok(mut command) => long(&mut command),
        Err(missing) => missing,
    });
    worst(all)
}

fn long(command: &mut Command) -> Outcome {
    command.args(["-p", "raddle-lock", "--test", "timed", "--test", "mended"]);
    if std::env::var_os(SECONDS.0).is_none() {
        command.env(SECONDS.0, SECONDS.1);
    }
    outcome(command)
}

/// The features of the locks, optimised, for debug builds look for deadlocks anyway; and the locks that go by barriers,
/// without them.
pub(crate) fn features() -> Outcome {
    let mut features = cargo();
    features.args(["test", "--release", "-p", "raddle-lock"]);
    features.args(["--features", "serde,deadlock,arc_lock", "--lib"]);
    features.args(tests(&["deadlocks", "mutex", "once", "stress"]));
    let mut portable = cargo();
    portable.args(["test", "-p", "raddle-lock"]).args(tests(&["once", "rwlock"]));
    portable.env("RADDLE_FENCE", "portable");
    worst(vec![outcome(&mut features), outcome(&mut portable)])
}

fn tests<'a>(names: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    names.iter().flat_map(|name| ["--test", name])
}
