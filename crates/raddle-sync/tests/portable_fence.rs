//! `RADDLE_FENCE=portable`, which is read once per process: hence a test program of its own.

#![cfg(not(raddle_model))]

use raddle_sync::fence;

#[test]
fn the_environment_can_forbid_the_process_wide_barrier() {
    assert!(!fence::process_wide(), "undecided is not process-wide");
    // SAFETY: this program's only test: no other thread reads or writes the environment.
    unsafe { std::env::set_var("RADDLE_FENCE", "portable") };
    assert!(!fence::init());
    assert!(!fence::process_wide());
    fence::heavy();
    // SAFETY: as above.
    unsafe { std::env::remove_var("RADDLE_FENCE") };
    assert!(!fence::init(), "decided once");
}
