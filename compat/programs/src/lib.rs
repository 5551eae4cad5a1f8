//! Programs that know rayon alone, and what tests of others need of it.
//!
//! `rayon-programs NAME` runs one of [`PROGRAMS`] or of [`OF_ISSUES`]; [`calls`] is there to be measured. On raddle all of them
//! end, those of rayon's issues with `RADDLE_WAITS=substitute`; on rayon's own scheduler those hang, or overflow a stack.

mod bridges;
mod calls;
mod forks;
mod issues;
mod meet;

use std::hint::black_box;

use rayon::prelude::*;

pub use self::calls::calls;
pub use self::issues::OF_ISSUES;
pub use self::meet::{alone, on_each_thread};

/// A program, and its name.
pub type Program = (&'static str, fn());

/// All but those of [`OF_ISSUES`].
pub const PROGRAMS: &[Program] = &[
    ("leaves", leaves),
    ("forks", forks::forks),
    ("meet", || on_each_thread(|| ())),
    ("calls", calls),
    ("bridges", bridges::bridges),
];

/// The program of a name.
pub fn program(name: &str) -> Option<fn()> {
    let mut all = PROGRAMS.iter().chain(OF_ISSUES);
    all.find(|(its, _)| *its == name).map(|(_, program)| *program)
}

/// Leaves of a fraction of a microsecond, so many that a trace with every fork says what bounds them, and so few that a busy machine
/// leaves the program alone for so long. On one thread, too, they are forked, down to twenty.
fn leaves() {
    let leaf = |i: u32| (0..200).map(|n| black_box(n ^ i)).sum::<u32>();
    let each: Vec<u32> = (0..2_000_u32).into_par_iter().with_max_len(20).map(leaf).collect();
    assert_eq!(each.len(), 2_000);
}
