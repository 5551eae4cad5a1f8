//! Who completes a future against who consumes it, on two threads, many times in all combinations.

use std::hint;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use raddle_core::{Failure, FailureKind, Future, Promise, first, select};

use crate::support::{Account, Counted, scaled};

type Live = Arc<AtomicUsize>;
type End = Result<(), FailureKind>;
type Produce = fn(Promise<Counted>, &Live);
type Consume = fn(Future<Counted>) -> Option<Result<Counted, Failure>>;

/// What the producer does, and how the future ends by that.
const PRODUCERS: &[(&str, Produce, End)] = &[
    ("set", |p, live| p.set(Counted::new(live)), Ok(())),
    ("fail", |p, _| p.fail(Failure::message("no")), Err(FailureKind::Error)),
    ("drop", |p, _| drop(p), Err(FailureKind::Broken)),
    ("link to what is done", |p, live| p.link(Future::ready(Counted::new(live))), Ok(())),
    (
        "link, then set",
        |p, live| {
            let (inner, source) = Promise::new();
            p.link(source.map(|value| value));
            inner.set(Counted::new(live));
        },
        Ok(()),
    ),
    (
        "link twice, then drop",
        |p, _| {
            let (outer, between) = Promise::new();
            let (inner, source) = Promise::new();
            p.link(between);
            outer.link(source);
            drop::<Promise<Counted>>(inner);
        },
        Err(FailureKind::Broken),
    ),
    (
        "ask, then set",
        |p, live| {
            let _either = (p.interrupted(), p.is_abandoned());
            p.set(Counted::new(live));
        },
        Ok(()),
    ),
];

/// What the consumer does; the result, if it takes it.
const CONSUMERS: &[(&str, Consume)] = &[
    ("wait", |f| Some(f.wait())),
    ("map", |f| Some(f.map(|value| value).wait())),
    ("flat_map", |f| Some(f.flat_map(Future::ready).wait())),
    ("flat_map to pending", |f| {
        let (promise, future) = Promise::new();
        let next = f.flat_map(|value| future.map(|()| value));
        promise.set(());
        Some(next.wait())
    }),
    ("flat_map to it", |f| {
        let (promise, future) = Promise::new();
        let next = future.flat_map(|()| f);
        next.interrupt("early");
        promise.set(());
        Some(next.wait())
    }),
    ("wait_timeout", |mut f| {
        loop {
            match f.wait_timeout(Duration::from_micros(1)) {
                Ok(result) => return Some(result),
                Err(again) => f = again,
            }
        }
    }),
    ("one wait_timeout, then drop", |f| f.wait_timeout(Duration::ZERO).ok()),
    ("drop", |f| {
        drop(f);
        None
    }),
    ("map, then drop", |f| {
        drop(f.map(drop));
        None
    }),
    ("interrupt", |f| {
        f.interrupt("stop");
        Some(f.wait())
    }),
    ("interrupt what was made of it", |f| {
        let next = f.map(|value| value).flat_map(Future::ready);
        next.interrupt("stop");
        next.interrupt("stop, please");
        Some(next.wait())
    }),
    ("interrupt, then drop", |f| {
        f.interrupt("stop");
        None
    }),
    ("kill", |f| {
        f.kill();
        Some(f.wait())
    }),
    ("kill what was made of it", |f| {
        let next = f.flat_map(Future::ready).ensure(|| ());
        next.kill();
        Some(next.wait())
    }),
    ("kill, then drop", |f| {
        f.map(|value| value).kill();
        None
    }),
    ("first", |f| Some(first([Future::never(), f]).wait())),
    ("first, then drop", |f| {
        drop(first([f, Future::never()]));
        None
    }),
    ("select a loser", |f| {
        let (promise, other) = Promise::new();
        let race = select([f, other]);
        drop(promise);
        let (winner, index, mut rest) = race.wait().unwrap();
        if index == 0 { Some(winner) } else { Some(rest.remove(0).wait()) }
    }),
    ("zip", |f| Some(f.zip(Future::ready(())).map(|(value, ())| value).wait())),
    ("shared", |f| {
        let shared = f.map(Arc::new).shared();
        let (one, other) = (shared.future(), shared.future());
        drop(one);
        drop(shared);
        // The producer may still hold a share of the value.
        other.wait().err().map(Err)
    }),
    ("interruptible", |f| {
        let detour = f.interruptible();
        detour.interrupt("enough");
        let result = detour.wait();
        // That ended it, or the producer was first.
        result
            .map(Some)
            .unwrap_or_else(|failure| {
                assert_ne!(failure.kind(), FailureKind::Killed);
                None
            })
            .map(Ok)
    }),
];

/// Pairs of ends that are handed out at once, so that threads are seldom waited for.
const BATCH: usize = 210;

/// For so long a kill that is in time may be waited for.
const HANGS: Duration = Duration::from_secs(300);

type Batch = (Vec<Promise<Counted>>, usize);

/// A little time, never the same.
fn dawdle(seed: &mut u32) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    (0..*seed % 64).for_each(|_| hint::spin_loop());
}

#[test]
fn completing_races_with_consuming() {
    let live = Live::default();
    let account = Account::open();
    let start = Arc::new(Barrier::new(2));
    let (hand, handed) = mpsc::sync_channel::<Batch>(1);
    let producer = {
        let (live, start) = (live.clone(), start.clone());
        thread::spawn(move || {
            Account::enter(Some(account));
            let mut seed = 1;
            for (promises, offset) in handed {
                start.wait();
                for (index, promise) in promises.into_iter().enumerate() {
                    dawdle(&mut seed);
                    PRODUCERS[(offset + index) % PRODUCERS.len()].1(promise, &live);
                }
                // Everything is over.
                start.wait();
            }
        })
    };
    let (mut seed, mut killed, mut steady) = (7, 0, None);
    let batches = scaled(200_000).div_ceil(BATCH).max(20);
    let begun = Instant::now();
    for batch in 0.. {
        // Kills are in time if the two meet: some more until they have.
        if batch >= batches && (killed > 0 || begun.elapsed() > HANGS) {
            break;
        }
        let (promises, futures): (Vec<_>, Vec<_>) = (0..BATCH).map(|_| Promise::new()).unzip();
        hand.send((promises, batch)).unwrap();
        start.wait();
        for (index, future) in futures.into_iter().enumerate() {
            let (did, _, end) = PRODUCERS[(batch + index) % PRODUCERS.len()];
            let (does, consume) = CONSUMERS[index % CONSUMERS.len()];
            dawdle(&mut seed);
            let Some(result) = consume(future) else { continue };
            let got = result.map(drop).map_err(|failure| failure.kind());
            if does.starts_with("kill") && got == Err(FailureKind::Killed) {
                killed += 1;
            } else {
                assert_eq!(got, end, "{did}, {does}");
            }
        }
        start.wait();
        assert_eq!(live.load(Ordering::SeqCst), 0, "values born and not dropped");
        if batch == batches / 4 {
            steady = Some(account.live());
        }
    }
    drop(hand);
    producer.join().unwrap();
    assert!(killed > 0, "no kill was ever in time");
    let grown = account.live() - steady.expect("there are more than four");
    // Threads of other tests may have taken blocks that this one has paid for: as many as all may keep for each other, twice.
    assert!(grown < 256 << 10, "{grown} bytes left behind");
}
