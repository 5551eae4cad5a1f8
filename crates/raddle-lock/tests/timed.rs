//! Time limits of all kinds of locks under stress, on two to sixteen threads. Longer with `RADDLE_LOCK_SECONDS=60`: so
//! much for each number of threads.
//!
//! What may go wrong is a wake-up that goes to one whose time is over, or to nobody: so some wait without a limit, and hang
//! then. A limit that is overshot, by more than the scheduler's moods, is told of as well.

#![cfg(not(raddle_model))]

use raddle_lock::{
    Condvar, Mutex, MutexGuard, ObjectHeader, ReentrantLock, RwLock, RwLockUpgradableReadGuard,
    RwLockWriteGuard,
};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// How long each number of threads has.
fn seconds() -> f64 {
    let asked = std::env::var("RADDLE_LOCK_SECONDS").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or(if cfg!(miri) { 0.0025 } else { 0.375 })
}

/// A stream of random numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Mostly shorter than a sleep and a wake take, sometimes nothing, sometimes longer.
    fn limit(&mut self) -> Duration {
        let next = self.next();
        Duration::from_nanos(match next >> 20 & 7 {
            0 => 0,
            1 => next % 1_000_000,
            _ => next % 100_000,
        })
    }

    /// Some time inside of a lock.
    fn stay(&mut self) {
        let time = Duration::from_nanos(self.next() & 0x3FFF);
        let begun = Instant::now();
        while begun.elapsed() < time {}
    }
}

/// Has threads take steps for a while: `step(n, random)` returns how much it has added. What all have added.
fn stress(threads: u64, step: impl Fn(u64, &mut Random) -> u64 + Sync) -> u64 {
    let (stop, added) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|s| {
        for n in 0..threads {
            let (stop, added, step) = (&stop, &added, &step);
            s.spawn(move || {
                let mut random = Random((n + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
                while !stop.load(Relaxed) {
                    added.fetch_add(step(n, &mut random), Relaxed);
                }
            });
        }
        thread::sleep(Duration::from_secs_f64(seconds()));
        stop.store(true, Relaxed);
    });
    added.into_inner()
}

#[test]
fn mutexes_and_re_entrant_locks() {
    for threads in [2, 3, 8, 16] {
        let (mutex, lock) = (Mutex::new(0), ReentrantLock::new(Cell::new(0)));
        let added = stress(threads, |n, random| {
            let limit = random.limit();
            if random.next() & 3 == 0 {
                // The first never gives up.
                let guard = if n == 0 { Some(lock.lock()) } else { lock.try_lock_for(limit) };
                let Some(guard) = guard else { return 0 };
                let again = lock.try_lock_for(limit).expect("it is this strand's");
                again.set(again.get() + 1);
                random.stay();
                drop(again);
                if random.next() & 3 == 0 {
                    raddle_lock::ReentrantLockGuard::unlock_fair(guard);
                }
                return 1;
            }
            let guard = match (n, random.next() & 3) {
                (0, _) => Some(mutex.lock()),
                (_, 0) => mutex.try_lock(),
                (_, 1) => mutex.try_lock_until(Instant::now() + limit),
                _ => mutex.try_lock_for(limit),
            };
            let Some(mut guard) = guard else { return 0 };
            *guard += 1;
            random.stay();
            match random.next() & 7 {
                0 => MutexGuard::unlock_fair(guard),
                1 => MutexGuard::bump(&mut guard),
                _ => {}
            }
            1
        });
        assert_eq!(*mutex.lock() + lock.lock().get(), added, "{threads} threads");
        assert!(!mutex.is_locked() && !lock.is_locked());
    }
}

/// Tokens that some put in and others take out, if they come in time.
#[test]
fn conditions() {
    for threads in [2, 3, 8, 16] {
        let (tokens, filled, emptied) = (Mutex::new(0_u64), Condvar::new(), Condvar::new());
        let (made, taken) = (AtomicU64::new(0), AtomicU64::new(0));
        stress(threads, |n, random| {
            let limit = random.limit();
            if n % 2 == 0 {
                let mut guard = tokens.lock();
                let late = |guard: &mut _| {
                    emptied.wait_while_for(guard, |tokens| *tokens >= 3, limit).timed_out()
                };
                if late(&mut guard) {
                    return 0;
                }
                *guard += 1;
                made.fetch_add(1, Relaxed);
                match random.next() & 3 {
                    0 => _ = filled.notify_all(), // with the mutex
                    1 => {
                        drop(guard);
                        filled.notify_all();
                    }
                    _ => _ = filled.notify_one(),
                }
            } else {
                let mut guard = tokens.lock();
                let late = match random.next() & 3 {
                    0 => filled.wait_until(&mut guard, Instant::now() + limit).timed_out(),
                    _ => filled.wait_for(&mut guard, limit).timed_out(),
                };
                if *guard == 0 {
                    return 0;
                }
                let _ = late; // One that comes too late may find a token all the same.
                *guard -= 1;
                taken.fetch_add(1, Relaxed);
                drop(guard);
                emptied.notify_one();
            }
            0
        });
        let left = *tokens.lock();
        assert_eq!(made.into_inner(), taken.into_inner() + left, "{threads} threads");
        assert_eq!((filled.notify_all(), emptied.notify_all()), (0, 0), "nobody is left behind");
    }
}

#[test]
fn headers() {
    for threads in [2, 3, 8, 16] {
        let headers: [ObjectHeader; 2] = Default::default();
        headers[1].identity_hash();
        let counts = [AtomicU64::new(0), AtomicU64::new(0)];
        let added = stress(threads, |n, random| {
            let at = random.next() as usize >> 7 & 1;
            let (header, limit) = (&headers[at], random.limit());
            let guard = if n == 0 { Some(header.lock()) } else { header.try_lock_for(limit) };
            let Some(mut guard) = guard else { return 0 };
            let again = (random.next() & 3 == 0).then(|| header.lock());
            match random.next() & 7 {
                0 => header.notify_all(),
                1 | 2 => header.notify_one(),
                3 | 4 => _ = header.wait_for(&mut guard, limit),
                5 => _ = header.identity_hash(),
                _ => {}
            }
            let before = counts[at].load(Relaxed); // in two steps, under the lock
            random.stay();
            counts[at].store(before + 1, Relaxed);
            drop(again);
            1
        });
        let counts = counts.map(AtomicU64::into_inner);
        assert_eq!(counts[0] + counts[1], added, "{threads} threads");
        assert!(headers.iter().all(|header| !header.is_locked()));
    }
}

#[test]
fn readers_and_writers() {
    for threads in [2, 3, 8, 16] {
        let lock = RwLock::new((0_u64, 0_u64));
        let added = stress(threads, |n, random| {
            let limit = random.limit();
            let choice = random.next() >> 9;
            if choice % 8 < 4 {
                for _ in 0..choice % 200 {
                    // Often enough for readers to be published at times.
                    let pair = if n == 0 { Some(lock.read()) } else { lock.try_read_for(limit) };
                    assert!(pair.is_none_or(|pair| pair.0 == pair.1));
                }
                return 0;
            }
            let guard = match choice % 8 {
                4 => lock.try_upgradable_read_for(limit).and_then(|guard| {
                    random.stay();
                    RwLockUpgradableReadGuard::try_upgrade(guard).ok()
                }),
                5 => lock.try_write(),
                _ if n == 0 => Some(lock.write()),
                _ => lock.try_write_for(limit),
            };
            let Some(mut pair) = guard else { return 0 };
            pair.0 += 1;
            random.stay();
            pair.1 += 1;
            match choice >> 8 & 7 {
                0 => RwLockWriteGuard::unlock_fair(pair),
                1 => assert!(RwLockWriteGuard::downgrade(pair).0 > 0),
                _ => {}
            }
            1
        });
        assert_eq!(*lock.read(), (added, added), "{threads} threads");
        assert!(!lock.is_locked());
    }
}

/// One that tries a lock of some kind for so long, and says whether it got it.
fn try_any(
    (mutex, lock, header): &(Mutex<()>, RwLock<()>, ObjectHeader),
    which: u64,
    limit: Duration,
) -> bool {
    match which % 4 {
        0 => mutex.try_lock_for(limit).is_some(),
        1 => lock.try_read_for(limit).is_some(),
        2 => lock.try_write_for(limit).is_some(),
        _ => header.try_lock_for(limit).is_some(),
    }
}

/// Whoever waits for a lock that nobody lets go of gives up when its time is over, also among many that do.
#[test]
fn nobody_overshoots_by_far() {
    // By so much: others may have the processors meanwhile.
    const FAR: Duration = Duration::from_secs(if cfg!(miri) { 3600 } else { 10 });
    let locks = (Mutex::new(()), RwLock::new(()), ObjectHeader::new());
    locks.2.identity_hash();
    let (held, over) = (AtomicBool::new(false), AtomicU64::new(0));
    let worst = AtomicU64::new(0);
    thread::scope(|s| {
        s.spawn(|| {
            let guards = (locks.0.lock(), locks.1.write(), locks.2.lock());
            held.store(true, Relaxed);
            let begun = Instant::now();
            // For ever, as far as those are concerned that give up; the others get them, much too late.
            let long = 2 * FAR + Duration::from_secs_f64(seconds());
            while over.load(Relaxed) == 0 && begun.elapsed() < long {
                thread::sleep(Duration::from_millis(1));
            }
            drop(guards);
        });
        while !held.load(Relaxed) {
            thread::yield_now();
        }
        stress(8, |_, random| {
            let (limit, which) = (random.limit(), random.next());
            let begun = Instant::now();
            let got = try_any(&locks, which, limit);
            let took = begun.elapsed();
            assert!(took >= limit && (!got || took > FAR));
            worst.fetch_max((took - limit).as_micros() as u64, Relaxed);
            0
        });
        over.store(1, Relaxed);
    });
    let worst = Duration::from_micros(worst.into_inner());
    assert!(worst < FAR, "{worst:?} too late");
}

/// Nor does one that wants a lock which changes hands all the time: counted is what it has had of a processor, for others
/// may have that as long as they like.
#[test]
#[cfg(all(target_os = "linux", not(miri)))]
fn nobody_looks_on_for_long_while_locks_change_hands() {
    /// What this thread has had of a processor.
    fn used() -> Duration {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: writes the time that is handed in.
        assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
    for hashed in [false, true] {
        let locks = (Mutex::new(()), RwLock::new(()), ObjectHeader::new());
        if hashed {
            locks.2.identity_hash();
        }
        let worst = AtomicU64::new(0);
        stress(6, |n, random| {
            let (limit, which) = (random.limit(), random.next());
            if n < 2 {
                for _ in 0..100 {
                    drop((locks.0.lock(), locks.1.write(), locks.2.lock()));
                }
                return 0;
            }
            let begun = used();
            try_any(&locks, which, limit);
            worst.fetch_max((used() - begun).as_micros() as u64, Relaxed);
            0
        });
        let worst = Duration::from_micros(worst.into_inner());
        assert!(worst < Duration::from_millis(100), "{worst:?} of a processor");
    }
}
