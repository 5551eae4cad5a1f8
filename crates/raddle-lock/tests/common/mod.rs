//! A mix of everything that locks do, which ends in counts that must be right.

use raddle_lock::{Condvar, Mutex, MutexGuard, ObjectHeader, ReentrantLock};
use raddle_sync::{strand, thread};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

const SLOTS: usize = 3;

#[derive(Default)]
struct Shared {
    mutexes: [Mutex<(u64, u64)>; SLOTS],
    locks: [ReentrantLock<Cell<u64>>; SLOTS],
    monitors: [Monitor; SLOTS],
    queue: Mutex<VecDeque<u64>>,
    changed: Condvar,
}

/// A count under a header, which the compiler cannot know to guard it.
#[derive(Default)]
struct Monitor {
    header: ObjectHeader,
    count: Cell<u64>,
}

// SAFETY: `count` is touched only while the header is held.
unsafe impl Sync for Monitor {}

/// Has so many threads do so many rounds each.
pub(crate) fn mix(threads: usize, rounds: usize) {
    let (threads, rounds) =
        if cfg!(miri) { (threads.min(3), rounds / 400) } else { (threads, rounds) };
    let shared = Arc::new(Shared::default());
    let handles: Vec<_> = (0..threads)
        .map(|n| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || run(&shared, n as u64 + 1, rounds))
        })
        .collect();
    let done: Vec<[u64; 4]> = handles.into_iter().map(|thread| thread.join().unwrap()).collect();
    let sum = |at: usize| done.iter().map(|counts| counts[at]).sum::<u64>();
    let shared = Arc::into_inner(shared).expect("all threads are done");
    let pairs: Vec<(u64, u64)> = shared.mutexes.into_iter().map(Mutex::into_inner).collect();
    assert!(pairs.iter().all(|(a, b)| a == b), "{pairs:?}");
    assert_eq!(pairs.iter().map(|pair| pair.0).sum::<u64>(), sum(0));
    assert_eq!(shared.locks.iter().map(|lock| lock.lock().get()).sum::<u64>(), sum(1));
    assert_eq!(shared.monitors.iter().map(|monitor| monitor.count.get()).sum::<u64>(), sum(2));
    assert!(shared.monitors.iter().all(|monitor| !monitor.header.is_locked()));
    assert_eq!(sum(3), (threads * (rounds / 8)) as u64, "what was queued was taken");
    assert!(shared.queue.lock().is_empty());
}

/// Returns how often it has added where.
fn run(shared: &Shared, seed: u64, rounds: usize) -> [u64; 4] {
    let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut counts = [0; 4];
    for round in 0..rounds {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let at = (random >> 40) as usize % SLOTS;
        let foreign = (random % 5 == 0).then(strand::enter_foreign);
        match (random >> 20) % 8 {
            0 | 1 => {
                let mut guard = shared.mutexes[at].lock();
                guard.0 += 1;
                guard.1 += 1;
                counts[0] += 1;
                if random & 1 << 30 != 0 {
                    MutexGuard::unlock_fair(guard);
                }
            }
            2 => {
                let limit = Duration::from_micros(random % 100);
                if let Some(mut guard) = shared.mutexes[at].try_lock_for(limit) {
                    guard.0 += 1;
                    guard.1 += 1;
                    counts[0] += 1;
                    MutexGuard::bump(&mut guard);
                    assert_eq!(guard.0, guard.1);
                }
            }
            3 | 4 => {
                let levels = random % 3 + 1;
                let guards: Vec<_> = (0..levels).map(|_| shared.locks[at].lock()).collect();
                guards[0].set(guards[0].get() + 1);
                counts[1] += 1;
            }
            5 => {
                if let Some(guard) = shared.locks[at].try_lock() {
                    guard.set(guard.get() + 1);
                    counts[1] += 1;
                }
            }
            6 => {
                let monitor = &shared.monitors[at];
                let hash = monitor.header.identity_hash();
                let mut guard = monitor.header.lock();
                let limit = Duration::from_micros(random % 50);
                if monitor.header.wait_for(&mut guard, limit).timed_out() {
                    monitor.header.notify_one();
                }
                monitor.count.set(monitor.count.get() + 1);
                counts[2] += 1;
                assert_eq!(monitor.header.identity_hash(), hash);
            }
            _ => {
                let monitor = &shared.monitors[at];
                let _outer = monitor.header.lock();
                let _inner = monitor.header.lock();
                monitor.count.set(monitor.count.get() + 1);
                counts[2] += 1;
                monitor.header.notify_all();
            }
        }
        drop(foreign);
        if round % 8 == 7 {
            // Each puts one in and takes one out, so all come to an end.
            shared.queue.lock().push_back(random);
            shared.changed.notify_one();
            let mut queue = shared.queue.lock();
            shared.changed.wait_while(&mut queue, |queue| queue.is_empty());
            queue.pop_front();
            counts[3] += 1;
            if !queue.is_empty() {
                shared.changed.notify_one();
            }
        }
    }
    counts
}
