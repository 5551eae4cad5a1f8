//! Three stages for each text, a future for each stage: a stage is spawned before its input is there
//! and waits for it. Waiting inside the pool starves nobody: the waiting thread runs the stage it
//! waits for, or has another thread work in its place.
//!
//! `cargo run --release -p raddle --example pipeline_of_futures`

use std::num::ParseIntError;

use raddle::{Failure, FailureKind, Future, spawn};

/// Stage 1: what a slow disk or network would give.
fn fetch(number: usize) -> String {
    match number {
        3 => String::from("7, 3, oops"),
        5 => panic!("page {number} is torn"),
        _ => (0..=number).map(|i| (i * i).to_string()).collect::<Vec<_>>().join(", "),
    }
}

/// Stage 2.
fn parse(text: &str) -> Result<Vec<u64>, ParseIntError> {
    text.split(',').map(|field| field.trim().parse()).collect()
}

/// Stage 3.
fn mean(numbers: &[u64]) -> f64 {
    numbers.iter().sum::<u64>() as f64 / numbers.len() as f64
}

/// All three. A failure of one stage is that of the stages after it.
fn pipeline(number: usize) -> Future<Result<f64, Failure>> {
    let text = spawn(move || fetch(number));
    let numbers = spawn(move || Ok::<_, Failure>(parse(&text.wait()?)?));
    spawn(move || Ok(mean(&numbers.wait()??)))
}

fn main() {
    let results: Vec<_> = (0..8).map(pipeline).collect();
    for (number, result) in results.into_iter().enumerate() {
        // The outer result is that of the last future, the inner one what its closure returned.
        match result.wait().unwrap_or_else(Err) {
            Ok(mean) => println!("page {number}: the mean is {mean:.2}"),
            Err(failure) if failure.kind() == FailureKind::Panicked => {
                println!("page {number}: {failure}");
            }
            Err(failure) => println!("page {number}: not a list of numbers: {failure}"),
        }
    }
}
