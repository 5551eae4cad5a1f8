//! Work and span of programs whose work and span are known.

use std::thread;
use std::time::{Duration, Instant};

use raddle_core::trace::TraceLevel;
use raddle_core::{Pool, Promise, Worker, collect};

use crate::spin;

/// Work and span of what `body` does, in microseconds; none if it had next to no processor.
fn scaled(threads: usize, body: impl Fn(&Pool)) -> Option<(f64, f64, raddle_trace::Scale)> {
    let pool = Pool::builder().threads(threads).trace(TraceLevel::Tasks).build().unwrap();
    body(&pool);
    let scale = pool.trace().scale(&[]).ok()?;
    let us = |time: Duration| time.as_nanos() as f64 / 1e3;
    Some((us(scale.work), us(scale.span), scale))
}

fn near(measured: f64, built: f64) -> bool {
    (measured / built - 1.0).abs() < 0.05
}

/// Some so many attempts in a row have a median that is as built: under tools that make everything slow, where tests are shortened,
/// one.
fn attempts() -> usize {
    let stress = std::env::var("RADDLE_STRESS").ok().and_then(|text| text.parse::<f64>().ok());
    if stress.is_some_and(|part| part < 1.0) { 1 } else { 5 }
}

/// Tries until the median of the last attempts is as built, or far too long: others use the machine too, and a thread may lose its
/// processor while it forks or waits. That one attempt comes near may be chance.
fn eventually_near(
    threads: usize,
    (work, span): (f64, f64),
    body: impl Fn(&Pool),
) -> raddle_trace::Scale {
    let (begun, mut seen) = (Instant::now(), Vec::new());
    while begun.elapsed() < Duration::from_secs(300) {
        // Whoever has not worked for a while gets a processor sooner, and for longer.
        thread::sleep(Duration::from_millis(5));
        let Some((w, s, scale)) = scaled(threads, &body) else { continue };
        seen.push((w, s));
        let last = &seen[seen.len().saturating_sub(attempts())..];
        if last.len() == attempts()
            && near(median(last, |l| l.0), work)
            && near(median(last, |l| l.1), span)
        {
            return scale;
        }
    }
    panic!(
        "built with {work} and {span}, and found last {:?}",
        &seen[seen.len().saturating_sub(20)..]
    );
}

fn median(attempts: &[(f64, f64)], of: impl Fn(&(f64, f64)) -> f64) -> f64 {
    let mut all: Vec<f64> = attempts.iter().map(of).collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn tree(worker: &Worker, leaves: u32, leaf: Duration) {
    if leaves == 1 {
        return spin(leaf);
    }
    worker.join(|w| tree(w, leaves / 2, leaf), |w| tree(w, leaves - leaves / 2, leaf));
}

#[test]
fn work_and_span_of_forks_are_as_built() {
    for threads in [1, 2] {
        eventually_near(threads, (3200.0, 400.0), |pool| pool.run(|w| tree(w, 8, us(400))));
    }
    let alone = |pool: &Pool| {
        pool.run(|w| {
            spin(us(500));
            tree(w, 8, us(100));
        });
    };
    let scale = eventually_near(1, (1300.0, 600.0), alone);
    assert!(scale.places[0].name.contains("before trace/spans.rs:"), "{:?}", scale.places);
    let tail = |pool: &Pool| {
        pool.run(|w| _ = w.join(|w| tree(w, 16, us(50)), |_| spin(us(1000))));
    };
    eventually_near(1, (1800.0, 1000.0), tail);
}

#[test]
fn work_and_span_of_scopes_and_pipelines_are_as_built() {
    let scopes = |pool: &Pool| {
        pool.scope(|s| {
            (0..20).for_each(|_| s.spawn(|_| spin(us(50))));
            s.spawn(|s| {
                spin(us(400));
                s.spawn(|_| spin(us(300)));
            });
        });
    };
    for threads in [1, 2] {
        eventually_near(threads, (1700.0, 700.0), scopes);
    }
    // Three stages, each a task that waits for the one before it.
    let pipeline = |pool: &Pool| {
        pool.run(|_| {
            let one = raddle_core::spawn(|| spin(us(300)));
            let two = raddle_core::spawn(move || {
                spin(us(100));
                one.wait().unwrap();
                spin(us(300));
            });
            let other = raddle_core::spawn(|| spin(us(600)));
            two.wait().unwrap();
            spin(us(200));
            other.wait().unwrap();
        });
    };
    for threads in [1, 2] {
        eventually_near(threads, (1500.0, 800.0), pipeline);
    }
    // From outside, with what follows a task's result.
    let chained = |pool: &Pool| {
        let first = pool.spawn(|| spin(us(400))).map(|()| spin(us(300)));
        let second = pool.spawn(|| spin(us(500)));
        first.wait().unwrap();
        second.wait().unwrap();
    };
    eventually_near(2, (1200.0, 700.0), chained);
}

/// The one who has it is seen to have it before the other comes.
#[test]
fn who_has_a_lock_that_another_waits_for_comes_before_that_one() {
    let locked = |pool: &Pool| {
        let lock = &raddle::lock::Mutex::new(());
        pool.scope(|s| {
            s.spawn(move |s| {
                let _guard = lock.lock();
                s.spawn(move |_| {
                    let _guard = lock.lock();
                    spin(us(1500));
                });
                spin(us(2000));
            });
        });
    };
    eventually_near(2, (3500.0, 3500.0), locked);
}

#[test]
fn what_follows_several_futures_comes_after_each() {
    let both = |pool: &Pool| {
        pool.run(|_| {
            let long = raddle_core::spawn(|| spin(us(800)));
            let short = raddle_core::spawn(|| spin(us(200)));
            let both = collect([long, short]).map(|_| spin(us(600)));
            let other = raddle_core::spawn(|| spin(us(100)));
            both.wait().unwrap();
            other.wait().unwrap();
        });
    };
    let zipped = |pool: &Pool| {
        let (long, short) = (pool.spawn(|| spin(us(800))), pool.spawn(|| spin(us(200))));
        long.zip(short).map(|_| spin(us(700))).wait().unwrap();
    };
    for threads in [1, 2] {
        eventually_near(threads, (1700.0, 1400.0), both);
        eventually_near(threads, (1700.0, 1500.0), zipped);
    }
}

/// What runs at a task's end was asked for by somebody who had other work before, whatever runs first here.
#[test]
fn what_is_asked_for_late_comes_after_whoever_asks_for_it() {
    let mapped = |pool: &Pool| {
        pool.run(|_| {
            let task = raddle_core::spawn(|| spin(us(100)));
            spin(us(800));
            task.map(|()| spin(us(400))).wait().unwrap();
        });
    };
    let all = |pool: &Pool| {
        pool.run(|_| {
            let two = [50, 50].map(|time| raddle_core::spawn(move || spin(us(time))));
            spin(us(800));
            collect(two).map(|_| spin(us(400))).wait().unwrap();
        });
    };
    let chained = |pool: &Pool| {
        pool.run(|_| {
            let task = raddle_core::spawn(|| spin(us(100)));
            spin(us(800));
            let next = task.flat_map(|()| raddle_core::spawn(|| spin(us(400))));
            next.wait().unwrap();
        });
    };
    for threads in [1, 2] {
        eventually_near(threads, (1300.0, 1200.0), mapped);
        eventually_near(threads, (1300.0, 1200.0), all);
        eventually_near(threads, (1300.0, 1200.0), chained);
    }
}

/// By the time that they come to ask for it.
#[test]
fn what_follows_a_result_that_is_there_comes_after_it() {
    let mapped = |pool: &Pool| {
        pool.run(|_| {
            let (promise, future) = Promise::new();
            let first = raddle_core::spawn(move || {
                spin(us(400));
                promise.set(());
            });
            let second = raddle_core::spawn(|| future.map(|()| spin(us(300))).wait().unwrap());
            first.wait().unwrap();
            second.wait().unwrap();
        });
    };
    let shared = |pool: &Pool| {
        pool.run(|_| {
            let source = raddle_core::spawn(|| spin(us(800))).shared();
            let each = [100, 600].map(|time| {
                let source = source.clone();
                raddle_core::spawn(move || {
                    source.wait().unwrap();
                    spin(us(time));
                })
            });
            each.into_iter().for_each(|task| task.wait().unwrap());
        });
    };
    eventually_near(1, (700.0, 700.0), mapped);
    eventually_near(1, (1500.0, 1400.0), shared);
}

/// Nobody has asked for it before.
#[test]
fn what_follows_a_future_that_is_done_comes_after_it() {
    let late = |pool: &Pool| {
        let (promise, future) = Promise::new();
        let future = future.map(|()| spin(us(300)));
        let task = pool.spawn(move || {
            spin(us(400));
            promise.set(());
        });
        while !future.is_done() {
            thread::yield_now();
        }
        future.wait().unwrap();
        pool.spawn(|| spin(us(200))).wait().unwrap();
        task.wait().unwrap();
    };
    eventually_near(1, (900.0, 900.0), late);
}
