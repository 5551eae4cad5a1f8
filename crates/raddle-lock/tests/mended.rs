//! What once was wrong with locks, and would be again without what mends it. The deadlock hook has a program of its own.

#![cfg(not(raddle_model))]

use raddle_lock::{Condvar, Mutex, MutexGuard, ObjectHeader, RawThinLock};
use raddle_sync::strand;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// How long each number of threads has: more with `RADDLE_LOCK_SECONDS=60`.
fn seconds() -> f64 {
    let asked = std::env::var("RADDLE_LOCK_SECONDS").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or(if cfg!(miri) { 0.0025 } else { 0.375 })
}

/// The unlock takes a waiter out of the queue and signals it; the waiter's time may be over in between. It then returned,
/// and its frame was written to.
#[test]
fn timed_locks_give_up_or_are_woken_but_not_both() {
    for threads in [2, 3, 8, 16] {
        let mutex = Arc::new(Mutex::new(0_u64));
        let (stop, got) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let workers: Vec<_> = (0..threads)
            .map(|n: u64| {
                let (mutex, stop, got) = (Arc::clone(&mutex), Arc::clone(&stop), Arc::clone(&got));
                thread::spawn(move || {
                    let mut random = (n + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                    while !stop.load(Relaxed) {
                        random ^= random << 13;
                        random ^= random >> 7;
                        random ^= random << 17;
                        // One among them waits for ever, and shows a wake-up that is lost.
                        let limit = Duration::from_micros(random % 120);
                        let guard = match n {
                            0 => Some(mutex.lock()),
                            _ => mutex.try_lock_for(limit),
                        };
                        let Some(mut guard) = guard else { continue };
                        *guard += 1;
                        got.fetch_add(1, Relaxed);
                        let begun = Instant::now();
                        while begun.elapsed() < Duration::from_nanos(random >> 8 & 0x7FFF) {}
                        if random & 1 << 50 != 0 {
                            MutexGuard::unlock_fair(guard);
                        }
                    }
                })
            })
            .collect();
        thread::sleep(Duration::from_secs_f64(seconds()));
        stop.store(true, Relaxed);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        assert_eq!(*mutex.lock(), got.load(Relaxed));
    }
}

/// A guard that one strand has made and another, above it on the same thread, would release and take back: the lock would
/// then be the other's.
#[test]
fn a_guard_is_not_taken_back_by_a_strand_above() {
    let (mutex, condition) = (Mutex::new(0), Condvar::new());
    let mut guard = mutex.lock();
    {
        let _foreign = strand::enter_foreign();
        let panics = |f: &mut dyn FnMut()| catch_unwind(AssertUnwindSafe(f)).is_err();
        assert!(panics(&mut || MutexGuard::unlocked(&mut guard, || ())));
        assert!(panics(&mut || _ = condition.wait_for(&mut guard, Duration::ZERO)));
    }
    assert!(mutex.is_held());
    MutexGuard::unlocked(&mut guard, || assert!(!mutex.is_locked()));
    *guard += 1;
    let other = strand::enter_foreign();
    drop(guard); // but let go of, by whomever
    drop(other);
    thread::scope(|s| s.spawn(|| assert_eq!(*mutex.lock(), 1)).join().unwrap());
}

/// What another thread says.
fn elsewhere<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    thread::scope(|s| s.spawn(f).join().unwrap())
}

/// Nor is one of which somebody waits for the lock, by `bump`.
#[test]
fn a_guard_is_not_handed_on_by_a_strand_above() {
    let (mutex, api) = (Mutex::new(0), lock_api::Mutex::<RawThinLock, _>::new(0));
    let (mut guard, mut api_guard) = (mutex.lock(), api.lock());
    thread::scope(|s| {
        const LONG: Duration = Duration::from_secs(60);
        s.spawn(|| assert!(mutex.try_lock_for(LONG).is_some()));
        s.spawn(|| assert!(api.try_lock_for(LONG).is_some()));
        let above = strand::enter_foreign();
        // As soon as that one sleeps.
        let panics = |f: &mut dyn FnMut()| {
            let end = Instant::now() + LONG / 4;
            while catch_unwind(AssertUnwindSafe(&mut *f)).is_ok() {
                assert!(Instant::now() < end, "a strand above has handed the lock on");
                thread::yield_now();
            }
        };
        panics(&mut || MutexGuard::bump(&mut guard));
        panics(&mut || lock_api::MutexGuard::bump(&mut api_guard));
        drop(above);
        assert!(mutex.is_held() && elsewhere(|| api.try_lock().is_none()));
        drop((guard, api_guard));
    });
}

/// `unlocked` of `lock_api` knows no owner: the lock is then the other strand's, whose guard it is not. Whoever drops that lets
/// go of it, also when that strand has ended.
#[test]
fn a_guard_of_lock_api_that_a_strand_above_takes_back_is_let_go_of() {
    for ends in [false, true] {
        let mutex = lock_api::Mutex::<RawThinLock, _>::new(0);
        let mut guard = mutex.lock();
        let above = strand::enter_foreign();
        lock_api::MutexGuard::unlocked(&mut guard, || assert!(!mutex.is_locked()));
        assert!(elsewhere(|| mutex.try_lock().is_none()));
        let above = if ends { None } else { Some(above) };
        drop(guard);
        assert!(elsewhere(|| mutex.try_lock().is_some()));
        drop(above);
    }
}

/// The levels of a nest are counted with the strand that holds it, also if another lets go of them.
#[test]
fn a_nest_is_let_go_of_level_by_level_by_a_strand_above() {
    let header = ObjectHeader::new();
    let guards = [header.lock(), header.lock(), header.lock()];
    let is_free = || thread::scope(|s| s.spawn(|| header.try_lock().is_some()).join().unwrap());
    let _foreign = strand::enter_foreign();
    for guard in guards {
        assert!(!is_free());
        drop(guard);
    }
    assert!(is_free());
}

/// The first unlock of a process registered the barrier, for milliseconds, while it held the lock. The first lock does, before
/// anybody waits for it; then a pair takes as long as ever.
#[test]
#[cfg(all(target_os = "linux", not(miri)))]
fn the_first_unlock_of_a_process_is_no_longer_than_others() {
    const ROLE: &str = "RADDLE_TEST_FIRST_UNLOCK";
    if std::env::var_os(ROLE).is_some() {
        let mutex = Mutex::new(0);
        let first = Instant::now();
        let guard = mutex.lock();
        let begun = Instant::now();
        drop(guard);
        let end = Instant::now();
        drop(mutex.lock());
        let (lock, unlock, pair) = (begun - first, end - begun, end.elapsed());
        println!("took {} {} {} ns.", lock.as_nanos(), unlock.as_nanos(), pair.as_nanos());
        return;
    }
    // Again and again, because a test's thread is often put off.
    let run = || {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_first_unlock_of_a_process_is_no_longer_than_others"])
            .args(["--nocapture"])
            .env(ROLE, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let numbers = said.split("took ").nth(1).expect("it says how long").split(' ');
        let times = numbers.map_while(|number| number.parse::<u64>().ok()).collect::<Vec<_>>();
        <[u64; 3]>::try_from(times).expect("it says how long the three took")
    };
    let begun = Instant::now();
    // The first lock, its unlock, and the next pair, in nanoseconds.
    let limits = [100_000_000, 200_000, 200_000];
    let mut best = [u64::MAX; 3];
    while best.iter().zip(limits).any(|(best, limit)| *best >= limit) {
        run().into_iter().zip(&mut best).for_each(|(time, best)| *best = time.min(*best));
        assert!(begun.elapsed() < Duration::from_secs(300), "{best:?} ns");
    }
}

/// `try_lock` spun for as long as another strand, on the same processor but of a lower priority, was about to make a lock
/// thin, and one with a limit until that was over.
#[test]
#[cfg(all(target_os = "linux", not(miri)))]
fn who_only_tries_does_not_wait_for_a_lower_priority() {
    use std::sync::atomic::AtomicUsize;
    fn pin() {
        // SAFETY: an array of integers.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: the first processor is one.
        unsafe { libc::CPU_SET(0, &mut set) };
        // SAFETY: reads a set of that size; if it fails there is less to be seen.
        unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) };
    }
    /// What this thread has had of a processor: others may take it, also from who goes before all of this program's.
    fn used() -> Duration {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: writes the time that is handed in.
        assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
    let headers: Vec<ObjectHeader> = (0..100_000).map(|_| ObjectHeader::new()).collect();
    let (at, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|s| {
        s.spawn(|| {
            pin();
            while !stop.load(Relaxed) {
                for (n, header) in headers.iter().enumerate() {
                    header.identity_hash();
                    at.store(n, Relaxed);
                    drop(header.lock());
                }
            }
        });
        let worst = s.spawn(|| {
            pin();
            let priority = libc::sched_param { sched_priority: 50 };
            // SAFETY: reads the structure. Who may not do that has nothing to test.
            if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &priority) } != 0 {
                eprintln!("not tested: a thread here may not go before others");
                return Duration::ZERO;
            }
            let end = Instant::now() + Duration::from_secs_f64(4.0 * seconds());
            let mut worst = Duration::ZERO;
            while Instant::now() < end {
                thread::sleep(Duration::from_micros(30));
                let header = &headers[at.load(Relaxed)];
                let begun = used();
                drop(header.try_lock());
                let tried = used();
                drop(header.try_lock_for(Duration::from_millis(1)));
                worst = worst.max(tried - begun).max(used() - tried);
            }
            worst
        });
        let worst = worst.join().unwrap();
        stop.store(true, Relaxed);
        assert!(worst < Duration::from_millis(500), "{worst:?}");
    });
}

/// A signal handler that releases a lock of its own, between the two looks of a release beneath it, made that one
/// invisible to a contender.
#[test]
#[cfg(all(target_os = "linux", not(miri)))]
fn a_lock_in_a_signal_handler_leaves_the_release_beneath_as_it_was() {
    static OWN: Mutex<u64> = Mutex::new(0);
    static RUNS: AtomicBool = AtomicBool::new(true);
    extern "C" fn handler(_signal: libc::c_int) {
        // Only one thread gets the signal, and nobody else wants this lock.
        if let Some(mut count) = OWN.try_lock() {
            *count += 1;
        }
    }
    // SAFETY: the handler touches words only, and takes a lock that nobody waits for.
    unsafe { libc::signal(libc::SIGUSR1, handler as *const () as libc::sighandler_t) };
    let mutex = Mutex::new(0_u64);
    // SAFETY: no arguments, no effects.
    let me = unsafe { libc::pthread_self() } as usize;
    thread::scope(|s| {
        s.spawn(move || {
            while RUNS.load(Relaxed) {
                // SAFETY: that thread waits for this one to end.
                unsafe { libc::pthread_kill(me as libc::pthread_t, libc::SIGUSR1) };
                std::hint::spin_loop();
            }
        });
        let other = s.spawn(|| {
            let mut count = 0;
            while RUNS.load(Relaxed) {
                *mutex.lock() += 1; // sleeps for ever if its wake-up is lost
                count += 1;
                thread::yield_now();
            }
            count
        });
        let end = Instant::now() + Duration::from_secs_f64(4.0 * seconds());
        let mut count = 0;
        while Instant::now() < end {
            let mut guard = mutex.lock();
            *guard += 1;
            count += 1;
            if count % 64 == 0 {
                thread::yield_now(); // so that the other comes to sleep
            }
        }
        RUNS.store(false, Relaxed);
        count += other.join().unwrap();
        assert_eq!(*mutex.lock(), count);
    });
}
