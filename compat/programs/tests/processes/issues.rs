//! Programs of rayon's issues end, with iterators of rayon's in the global pool, where a thread that waits takes on only what it
//! waits for. (`cargo xtask rayon` shows that they do not on rayon's own scheduler.)

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
