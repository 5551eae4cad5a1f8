//! Everything at once, on real threads.

#![cfg(not(raddle_model))]

mod common;

#[test]
fn a_mix_of_everything_counts_right() {
    common::mix(8, 4_000);
}

#[test]
fn two_threads_mix_closely() {
    common::mix(2, 8_000);
}
