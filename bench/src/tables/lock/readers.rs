//! Locks that are read by several at once.

use std::{
    hint::black_box,
    sync::{Barrier, PoisonError},
    thread,
    time::Instant,
};

use raddle::lock;

use crate::{args::Settings, harness::Contender};

pub(super) const READ: &str = "read and unlock, nobody else";
pub(super) const WRITE: &str = "write and unlock, nobody else";
pub(super) const TWO: &str = "read and unlock, two threads at once";

/// A readers-writer lock round a number.
pub(super) trait Shared: Send + Sync + Default + 'static {
    const NAME: &str;
    fn read(&self) -> u32;
    fn write(&self);
}

macro_rules! shared {
    ($($name:literal: $kind:ident = $t:ty, $unwrap:expr;)*) => { $(
        #[derive(Default)]
        pub(super) struct $kind($t);

        impl Shared for $kind {
            const NAME: &str = $name;

            #[inline(always)]
            fn read(&self) -> u32 {
                *$unwrap(black_box(&self.0).read())
            }

            #[inline(always)]
            fn write(&self) {
                *$unwrap(black_box(&self.0).write()) += 1;
            }
        }
    )* };
}

shared! {
    "raddle RwLock": Raddle = lock::RwLock<u32>, std::convert::identity;
    "parking_lot": ParkingLot = parking_lot::RwLock<u32>, std::convert::identity;
    "std": Std = std::sync::RwLock<u32>, |guard: Result<_, PoisonError<_>>| {
        guard.unwrap_or_else(PoisonError::into_inner)
    };
}

/// Nanoseconds per operation of each of so many threads, of which every `often`th is a write; 0: none is.
fn each<S: Shared>(lock: &S, threads: usize, times: u32, often: u32) -> f64 {
    (0..10_000).for_each(|_| _ = lock.read()); // as often as one that is read often
    let go = || {
        let start = Instant::now();
        for n in 1..=times {
            if often != 0 && n % often == 0 {
                lock.write();
            } else {
                black_box(lock.read());
            }
        }
        start.elapsed().as_nanos() as f64 / f64::from(times)
    };
    if threads == 1 {
        return go();
    }
    let barrier = Barrier::new(threads);
    let all = thread::scope(|s| {
        let threads: Vec<_> = (0..threads)
            .map(|_| {
                s.spawn(|| {
                    lock.read();
                    barrier.wait();
                    go()
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().expect("no panic")).collect::<Vec<_>>()
    });
    all.iter().sum::<f64>() / threads as f64
}

pub(super) fn mixed_section(often: u32, threads: usize) -> String {
    format!("a write in {often} reads, {}", super::count(threads, "thread"))
}

pub(super) fn rows(settings: &Settings) -> Vec<Contender> {
    let times = settings.size(1_000_000, 1_000);
    fn all<S: Shared>(times: u32) -> Vec<Contender> {
        let row = |section: String, threads, often| {
            Contender::new(section, S::NAME, move || each(&S::default(), threads, times, often))
        };
        let mut all = vec![row(READ.into(), 1, 0), row(WRITE.into(), 1, 1), row(TWO.into(), 2, 0)];
        for often in [10, 100, 1000] {
            all.extend([1, 2].map(|threads| row(mixed_section(often, threads), threads, often)));
        }
        all
    }
    [all::<Raddle>(times), all::<ParkingLot>(times), all::<Std>(times)]
        .into_iter()
        .flatten()
        .collect()
}
