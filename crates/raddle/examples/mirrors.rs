//! Four mirrors are asked for one file, each with a time limit. The first one that has it wins, and those that are still at it
//! are told to stop.
//!
//! `cargo run --release -p raddle --example mirrors`

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use raddle::{Failure, Future, select};

struct Mirror {
    name: &'static str,
    /// How long it takes to answer, if it does.
    answers: Option<Duration>,
    has_it: bool,
    /// How long it is waited for.
    limit: Duration,
}

const fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

const MIRRORS: [Mirror; 4] = [
    Mirror { name: "torn", answers: Some(ms(1)), has_it: false, limit: ms(100) },
    Mirror { name: "asleep", answers: None, has_it: true, limit: ms(5) },
    Mirror { name: "near", answers: Some(ms(20)), has_it: true, limit: ms(60_000) },
    Mirror { name: "far", answers: Some(ms(60_000)), has_it: true, limit: ms(120_000) },
];

/// What has become of the mirrors that did not win.
pub(crate) type Log = Arc<Mutex<Vec<String>>>;

fn fetch(mirror: Mirror, log: Log) -> Future<String> {
    let Mirror { name, answers, has_it, limit } = mirror;
    // The network. An interrupt ends the delay, as it would end a request.
    let answer = answers.map_or_else(Future::never, Future::delay);
    answer
        .and_then(
            move |()| if has_it { Ok(format!("the file of {name}")) } else { Err("not here") },
        )
        .interrupt_after(limit)
        .on_failure(move |why| {
            log.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{name}: {why}"));
        })
}

/// The first value. (`first` would give the first result, be it a failure.)
fn first_value<T: Send + 'static>(racing: Vec<Future<T>>) -> Future<T> {
    select(racing).flat_map(|(winner, _, rest)| match winner {
        Err(_) if !rest.is_empty() => first_value(rest),
        result => {
            for loser in &rest {
                loser.interrupt("another was faster");
            }
            Future::from(result)
        }
    })
}

pub(crate) fn race(log: &Log) -> Future<String> {
    first_value(MIRRORS.map(|mirror| fetch(mirror, Arc::clone(log))).into())
}

fn main() -> Result<(), Failure> {
    let log = Log::default();
    println!("{}", race(&log).wait()?);
    for line in log.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        println!("{line}");
    }
    Ok(())
}
