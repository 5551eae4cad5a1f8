//! The same without a process-wide barrier: `RADDLE_FENCE=portable`, which is read once per process.

#![cfg(not(raddle_model))]

mod common;

#[test]
fn without_the_barrier_a_mix_of_everything_counts_right() {
    // SAFETY: this program's only test, at its start: no other thread reads or writes the environment.
    unsafe { std::env::set_var("RADDLE_FENCE", "portable") };
    let header = raddle_lock::ObjectHeader::new();
    drop(header.lock());
    assert!(!raddle_sync::fence::process_wide());
    common::mix(6, 4_000);
    assert_eq!(raddle_lock::stats().switches, 0);
}
