//! Programs of rayon's issues end, with iterators of rayon's in the global pool: all where a thread that waits takes on only what it
//! waits for, some anyway. (`cargo xtask rayon` shows that they do not on rayon's own scheduler.)

use rayon_programs::OF_ISSUES;

use crate::{ends_well, program};

#[test]
fn programs_of_rayon_s_issues_end() {
    for (name, _) in OF_ISSUES {
        for threads in [1, 2, 8, 16] {
            ends_well(program(name, threads).env("RADDLE_WAITS", "substitute"));
        }
    }
}

/// What a thread that waits takes on by rayon's rule does not pile up on a stack either, of no matter what size: 2 MiB, as rayon's are,
/// and much less than the tasks would take.
#[test]
fn a_stack_does_not_overflow_by_stealing() {
    for bytes in [64 << 10, 512 << 10] {
        for threads in [1, 2, 8, 16] {
            // Of which a thread gets four times as much.
            let size = bytes.to_string();
            ends_well(
                program("854", threads).env("RUST_MIN_STACK", size).env_remove("RADDLE_WAITS"),
            );
        }
    }
}

/// Iterators that are slow to say what comes next are waited for, by whichever rule, and take no processor meanwhile.
#[test]
fn bridges_end_and_their_threads_sleep() {
    for waits in ["host", "substitute"] {
        for threads in [1, 2, 8] {
            ends_well(program("bridges", threads).env("RADDLE_WAITS", waits));
        }
    }
}
