//! Larger models, at random: `RUSTFLAGS="--cfg raddle_model --cfg raddle_shuttle" cargo test -p raddle-lock --test shuttle`

#![cfg(raddle_shuttle)]

use raddle_lock::{
    Condvar, Mutex, MutexGuard, ObjectHeader, OnceLock, RawRwLock, RwLock,
    RwLockUpgradableReadGuard, RwLockWriteGuard,
};
use raddle_sync::sync::Arc;
use raddle_sync::{strand, thread};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

/// So many, or as many as `RADDLE_SHUTTLE` says if it is set.
fn schedules(usual: usize) -> usize {
    let set = std::env::var("RADDLE_SHUTTLE").ok().and_then(|many| many.parse().ok());
    set.unwrap_or(usual)
}

#[test]
fn many_strands_lose_no_increment() {
    // Each strand lets go of what it has taken.
    strand::set_abandon_hook(Some(std::sync::Arc::new(|abandoned| panic!("{abandoned}"))));
    shuttle::check_random(
        || {
            const THREADS: usize = 4;
            const ROUNDS: usize = 3;
            let mutex = Arc::new(Mutex::new(0));
            let threads: Vec<_> = (0..THREADS)
                .map(|n| {
                    let mutex = Arc::clone(&mutex);
                    thread::spawn(move || {
                        for round in 0..ROUNDS {
                            // More strands than the model has ids.
                            let _foreign = strand::enter_foreign();
                            let mut value = mutex.lock();
                            let before = *value;
                            thread::yield_now();
                            *value = before + 1;
                            if (n + round) % 3 == 0 {
                                MutexGuard::unlock_fair(value);
                            }
                        }
                    })
                })
                .collect();
            for thread in threads {
                thread.join().unwrap();
            }
            assert_eq!(*mutex.lock(), THREADS * ROUNDS);
        },
        schedules(1_000),
    );
}

#[test]
fn monitors_mix_levels_hashes_waits_and_notifications() {
    shuttle::check_random(
        || {
            let headers = Arc::new([ObjectHeader::new(), ObjectHeader::new()]);
            let tokens = Arc::new(Mutex::new(0_u32));
            let threads: Vec<_> = (0..4)
                .map(|n| {
                    let (headers, tokens) = (Arc::clone(&headers), Arc::clone(&tokens));
                    thread::spawn(move || {
                        let hashes = [headers[0].identity_hash(), headers[1].identity_hash()];
                        for round in 0..2 {
                            let header = &headers[(n + round) % 2];
                            let mut guard = header.lock();
                            let inner = [header.lock(), header.lock()];
                            if n % 2 == 0 {
                                // Takes a token; whoever makes one notifies every header.
                                while *tokens.lock() == 0 {
                                    header.wait(&mut guard);
                                }
                                *tokens.lock() -= 1;
                            } else {
                                drop(inner);
                                drop(guard);
                                *tokens.lock() += 1;
                                for header in headers.iter() {
                                    let _guard = header.lock();
                                    header.notify_all();
                                }
                            }
                        }
                        assert_eq!(hashes, [0, 1].map(|n| headers[n].identity_hash()));
                    })
                })
                .collect();
            for thread in threads {
                thread.join().unwrap();
            }
            assert_eq!(*tokens.lock(), 0);
            assert!(headers.iter().all(|header| !header.is_locked()));
        },
        schedules(1_000),
    );
}

#[test]
fn a_bounded_queue_passes_everything_on() {
    shuttle::check_random(
        || {
            let shared = Arc::new((Mutex::new(Vec::new()), Condvar::new(), Condvar::new()));
            let mut threads = Vec::new();
            for n in 0..2 {
                let producer = Arc::clone(&shared);
                threads.push(thread::spawn(move || {
                    let (queue, filled, emptied) = &*producer;
                    for item in 0..3 {
                        let mut queue = queue.lock();
                        emptied.wait_while(&mut queue, |queue| !queue.is_empty());
                        queue.push(n * 3 + item);
                        filled.notify_one();
                    }
                }));
                let consumer = Arc::clone(&shared);
                threads.push(thread::spawn(move || {
                    let (queue, filled, emptied) = &*consumer;
                    for _ in 0..3 {
                        let mut queue = queue.lock();
                        filled.wait_while(&mut queue, |queue| queue.is_empty());
                        queue.pop();
                        emptied.notify_all();
                    }
                }));
            }
            for thread in threads {
                thread.join().unwrap();
            }
            assert!(shared.0.lock().is_empty());
        },
        schedules(1_000),
    );
}

#[test]
fn timed_and_other_locks_lose_no_increment() {
    shuttle::check_random(
        || {
            const THREADS: usize = 4;
            let shared = Arc::new((Mutex::new(0), ObjectHeader::new()));
            let threads: Vec<_> = (0..THREADS)
                .map(|n| {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || {
                        let mut added = 0;
                        for round in 0..3 {
                            let limit = Duration::from_micros(60 * (n as u64 + 1));
                            let guard = match n {
                                0 => Some(shared.0.lock()),
                                _ => shared.0.try_lock_for(limit),
                            };
                            if let Some(mut value) = guard {
                                let before = *value;
                                thread::yield_now();
                                *value = before + 1;
                                added += 1;
                                if (n + round) % 2 == 0 {
                                    MutexGuard::unlock_fair(value);
                                }
                            }
                            if let Some(_guard) = shared.1.try_lock_for(limit) {
                                let _again = shared.1.lock();
                                thread::yield_now();
                            }
                        }
                        added
                    })
                })
                .collect();
            let added: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
            assert_eq!(*shared.0.lock(), added);
            assert!(!shared.1.is_locked());
        },
        schedules(3_000),
    );
}

/// Readers and writers whose limits may be over at any time; what is left of it lets in whoever comes.
#[test]
fn readers_and_writers_give_up_or_come_in() {
    shuttle::check_random(
        || {
            const THREADS: usize = 4;
            let lock = Arc::new(RwLock::new((0, 0)));
            let threads: Vec<_> = (0..THREADS)
                .map(|n| {
                    let lock = Arc::clone(&lock);
                    thread::spawn(move || {
                        let limit = Duration::from_micros(60 * (n as u64 + 1));
                        let mut added = 0;
                        for round in 0..3 {
                            if (n + round) % 2 == 0 {
                                let pair = if n == 0 {
                                    Some(lock.read())
                                } else {
                                    lock.try_read_for(limit)
                                };
                                if let Some(pair) = pair {
                                    // So long that a writer's limit may be over.
                                    (0..8).for_each(|_| thread::yield_now());
                                    assert_eq!(pair.0, pair.1);
                                }
                            }
                            let guard = match (n, round) {
                                (0, _) => Some(lock.write()),
                                (_, 1) => lock.try_upgradable_read_for(limit).and_then(|guard| {
                                    RwLockUpgradableReadGuard::try_upgrade(guard).ok()
                                }),
                                _ => lock.try_write_for(limit),
                            };
                            let Some(mut pair) = guard else { continue };
                            pair.0 += 1;
                            thread::yield_now();
                            pair.1 += 1;
                            added += 1;
                            match (n + round) % 3 {
                                0 => RwLockWriteGuard::unlock_fair(pair),
                                1 => drop(RwLockWriteGuard::downgrade(pair)),
                                _ => drop(pair),
                            }
                        }
                        added
                    })
                })
                .collect();
            let added: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
            assert_eq!(*lock.read(), (added, added));
            assert!(lock.try_write().is_some());
        },
        schedules(3_000),
    );
}

/// Who came while a writer had claimed the lock is woken by nobody else.
#[test]
fn a_writer_that_gives_up_lets_in_those_that_waited_for_it() {
    shuttle::check_random(
        || {
            let lock = Arc::new(RwLock::new(0));
            let start = |f: fn(&RwLock<u32>)| {
                let lock = Arc::clone(&lock);
                thread::spawn(move || f(&lock))
            };
            let threads = [
                start(|lock| {
                    let value = lock.read();
                    (0..60).for_each(|_| thread::yield_now());
                    drop(value);
                }),
                start(|lock| drop(lock.try_write_for(Duration::from_micros(60)))),
                start(|lock| *lock.write() += 1),
                start(|lock| drop(lock.read())),
            ];
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(*lock.read(), 1);
        },
        schedules(3_000),
    );
}

/// Initialisers that fail, because the limit of their lock is over: the next one that asks tries again.
#[test]
fn a_value_is_made_by_one_whose_time_is_not_over() {
    shuttle::check_random(
        || {
            let shared = Arc::new((OnceLock::new(), Mutex::new(0)));
            let threads: Vec<_> = (0..3)
                .map(|n| {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || {
                        let (once, made) = &*shared;
                        let make = || {
                            let guard = match n {
                                0 => Some(made.lock()), // This one never fails.
                                _ => made.try_lock_for(Duration::from_micros(60)),
                            };
                            // Silently.
                            let mut made =
                                guard.unwrap_or_else(|| resume_unwind(Box::new("on purpose")));
                            thread::yield_now();
                            *made += 1;
                            *made
                        };
                        *made.lock() += 0;
                        catch_unwind(AssertUnwindSafe(|| *once.get_or_init(make))).ok()
                    })
                })
                .collect();
            let holder = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let _held = shared.1.lock();
                    thread::yield_now();
                })
            };
            holder.join().unwrap();
            let got: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            assert_eq!(got[0], Some(1));
            assert!(got.into_iter().flatten().all(|value| value == 1));
            assert_eq!(*shared.1.lock(), 1);
        },
        schedules(3_000),
    );
}

/// Guards that do not know where they are published, some of them let go of by another strand than their own.
#[test]
fn readers_and_writers_of_lock_api_take_nothing_off_others() {
    shuttle::check_random(
        || {
            let lock = Arc::new(lock_api::RwLock::<RawRwLock, _>::new((0, 0)));
            let threads: Vec<_> = (0..3)
                .map(|n| {
                    let lock = Arc::clone(&lock);
                    thread::spawn(move || {
                        let holds = || strand::with_local(strand::Local::holds);
                        for round in 0..3 {
                            let mut read = lock.read();
                            thread::yield_now();
                            assert_eq!(read.0, read.1);
                            lock_api::RwLockReadGuard::bump(&mut read);
                            assert_eq!(read.0, read.1);
                            let above = ((n + round) % 3 == 0).then(strand::enter_foreign);
                            drop(read);
                            drop(above);
                            assert_eq!(holds(), 0);
                            let mut pair = lock.write();
                            *pair = (pair.0 + 1, pair.1 + 1);
                            lock_api::RwLockWriteGuard::bump(&mut pair);
                            pair.0 += 1;
                            thread::yield_now();
                            pair.1 = pair.0;
                            if round == 1 {
                                drop(lock_api::RwLockWriteGuard::downgrade(pair));
                            } else {
                                drop(pair);
                            }
                            assert_eq!(holds(), 0);
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(*lock.read(), (18, 18));
            assert!(!lock.is_locked());
        },
        schedules(3_000),
    );
}
