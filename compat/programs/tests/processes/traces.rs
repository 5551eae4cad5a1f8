//! A program that knows rayon alone is recorded as it is.

use std::path::{Path, PathBuf};

use raddle::trace::{self, EventKind, Lane, Refusal, Trace};

use self::steady::at_a_steady_pace;
use crate::{ends_well, program};

#[path = "../../../rayon-core/tests/steady/mod.rs"]
mod steady;

/// A folder of this test's, which goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

fn record(name: &str, file: &Path, threads: usize) -> Trace {
    let mut command = program(name, threads);
    ends_well(command.env("RADDLE_TRACE", file).env_remove("RADDLE_TRACE_LEVEL"));
    Trace::load(file).unwrap()
}

#[test]
fn every_thread_of_the_global_pool_is_in_the_trace() {
    let folder = Folder::new("raddle-programs-lanes");
    let trace = record("meet", &folder.0.join("trace"), 3);
    let runs = |lane: &&Lane| lane.events.iter().any(|event| event.kind == EventKind::Exec);
    let lanes: Vec<_> = trace.lanes.iter().filter(runs).map(|lane| &*lane.name).collect();
    assert_eq!(lanes, ["rayon-0", "rayon-1", "rayon-2"]);
}

#[test]
fn what_bounds_an_iterator_is_read_from_the_trace() {
    let folder = Folder::new("raddle-programs-scale");
    let recorded = |threads| record("leaves", &folder.0.join("trace"), threads);
    // On a machine that has other things to do it may be refused for that.
    let of_two = recorded(2).scale(&[]);
    assert!(matches!(of_two, Ok(_) | Err(Refusal::Preempted(_))), "{of_two:?}");
    // A hundred leaves and more that know nothing of each other.
    let of_one = at_a_steady_pace(recorded(1)).scale(&[]).unwrap();
    assert!(of_one.bound() > 10.0, "they depend on each other: {of_one:?}");
    assert!(!of_one.verdict().is_empty());
}

#[test]
fn forks_have_the_lines_of_the_program() {
    let folder = Folder::new("raddle-programs-places");
    let trace = record("forks", &folder.0.join("trace"), 2);
    let places = |file: &str| trace.places.iter().filter(|place| place.contains(file)).count();
    // The join, the scope or its task, the task.
    assert!(places("src/forks.rs") >= 3, "{:?}", trace.places);
    assert_eq!((places("compat/join.rs"), places("rayon-core/src")), (0, 0), "{:?}", trace.places);
    // An iterator's join is called by rayon.
    let trace = record("leaves", &folder.0.join("trace"), 2);
    let of_rayon = |place: &String| place.contains("rayon-1") && place.contains("plumbing");
    assert!(trace.places.iter().any(of_rayon), "{:?}", trace.places);
}
