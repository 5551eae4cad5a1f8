//! Children of a process that is busy with locks. A test program of its own: a process forks as a whole.

#![cfg(all(target_os = "linux", not(any(miri, raddle_model))))]

use raddle_lock::{Condvar, Mutex, MutexGuard, ObjectHeader, OnceLock, ReentrantLock, RwLock};
use raddle_sync::parker;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// As many as there are buckets, some times over.
const MANY: usize = 2_048;
const SHORT: Duration = Duration::from_micros(60);

/// Locks of all kinds, for a few threads.
#[derive(Default)]
struct Mix {
    mutexes: [Mutex<u64>; 3],
    changed: Condvar,
    lock: ReentrantLock<()>,
    header: ObjectHeader,
    shared: RwLock<(u64, u64)>,
    once: Mutex<std::sync::Arc<OnceLock<u64>>>,
}

impl Mix {
    fn step(&self, random: &mut u64) {
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        let at = (*random >> 40) as usize % 3;
        match (*random >> 20) % 10 {
            0 => *self.mutexes[at].lock() += 1,
            1 => {
                if let Some(mut guard) = self.mutexes[at].try_lock_for(SHORT) {
                    *guard += 1;
                    thread::yield_now();
                    MutexGuard::unlock_fair(guard);
                }
            }
            2 => {
                let mut guard = self.mutexes[0].lock();
                _ = self.changed.wait_for(&mut guard, SHORT);
            }
            3 => _ = self.changed.notify_all(),
            4 => {
                let _outer = self.lock.lock();
                let _inner = self.lock.lock();
                thread::yield_now();
            }
            5 => {
                let mut guard = self.header.lock();
                self.header.identity_hash();
                if self.header.wait_for(&mut guard, SHORT).timed_out() {
                    self.header.notify_all();
                }
            }
            6 | 7 => {
                for _ in 0..100 {
                    let pair = self.shared.read();
                    assert_eq!(pair.0, pair.1);
                }
            }
            8 => {
                let Some(mut pair) = self.shared.try_write_for(SHORT) else { return };
                pair.0 += 1;
                thread::yield_now();
                pair.1 += 1;
            }
            _ => {
                let once = std::sync::Arc::clone(&*self.once.lock());
                once.get_or_init(|| {
                    thread::yield_now();
                    7
                });
                *self.once.lock() = std::sync::Arc::default();
            }
        }
    }
}

/// Forks; how the child ended, 0 if well. It has five minutes.
fn in_child(f: impl FnOnce()) -> i32 {
    // SAFETY: the C library has its own mutexes whole in a child, and so have the locks that are tested. Nothing else is
    // relied upon.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: no memory is touched.
        unsafe { libc::alarm(300) };
        let code = if catch_unwind(AssertUnwindSafe(f)).is_ok() { 0 } else { 101 };
        // SAFETY: ends the process.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: our child.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    status
}

#[test]
fn a_child_has_the_use_of_what_others_do_not_hold() {
    const CHILDREN: usize = 100;
    let (busy, idle) = (Mix::default(), Mix::default());
    let mine: Vec<(Mutex<u64>, Condvar, RwLock<u64>)> =
        (0..MANY).map(|_| Default::default()).collect();
    // What this thread holds and others sleep for.
    let (held, header, read) = (Mutex::new(0), ObjectHeader::new(), RwLock::new(0));
    let (gate, opened) = (Mutex::new(false), Condvar::new());
    let (made, stop) = (OnceLock::new(), AtomicBool::new(false));
    let (sleepers, making) = (std::sync::Mutex::new(Vec::new()), AtomicBool::new(false));
    (0..5_000).for_each(|_| drop(read.read())); // so that readers are published
    let mut guards = Some((held.lock(), header.lock(), read.read()));
    let hash = header.identity_hash();
    let sleeps = || sleepers.lock().unwrap().push(parker::current());
    let mut failed = Vec::new();
    thread::scope(|s| {
        for n in 1..5 {
            let (busy, stop) = (&busy, &stop);
            s.spawn(move || {
                let mut random = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(n);
                while !stop.load(Relaxed) {
                    busy.step(&mut random);
                }
            });
        }
        s.spawn(|| {
            sleeps();
            *held.lock() += 1;
        });
        s.spawn(|| {
            sleeps();
            drop(header.lock());
        });
        s.spawn(|| {
            sleeps();
            *read.write() += 1;
        });
        for _ in 0..2 {
            s.spawn(|| {
                let mut open = gate.lock();
                sleeps();
                opened.wait_while(&mut open, |open| !*open);
            });
        }
        s.spawn(|| {
            made.get_or_init(|| {
                making.store(true, Relaxed);
                while !stop.load(Relaxed) {
                    thread::sleep(Duration::from_millis(1));
                }
                1
            });
        });
        while sleepers.lock().unwrap().len() < 5 || !making.load(Relaxed) {
            thread::yield_now();
        }
        let all_asleep = sleepers.lock().unwrap().clone();
        for sleeper in all_asleep {
            while !sleeper.is_parked() {
                thread::yield_now();
            }
        }
        drop(gate.lock());

        for n in 0..CHILDREN {
            let status = in_child(|| {
                drop(guards.take());
                thread::scope(|s| {
                    for n in 1..4 {
                        let (idle, mine) = (&idle, &mine);
                        let (held, header, read) = (&held, &header, &read);
                        s.spawn(move || {
                            let mut random = 0xD1B5_4A32_D192_ED03_u64.wrapping_mul(n);
                            for (mutex, condition, shared) in mine {
                                *mutex.lock() += 1;
                                condition.notify_one();
                                let before = *shared.read();
                                *shared.write() = before + 1;
                            }
                            for _ in 0..100 {
                                idle.step(&mut random);
                                *held.lock() += 1;
                                assert!(*read.read() <= 300);
                                *read.write() += 1;
                                let mut guard = header.lock();
                                _ = header.wait_for(&mut guard, SHORT);
                                header.notify_one();
                            }
                        });
                    }
                    // Of those of the parent who wait here none is woken, nor in the way.
                    let opener = s.spawn(|| {
                        while *gate.lock() || !opened.notify_one() {
                            thread::yield_now();
                        }
                        *gate.lock() = true;
                        opened.notify_all();
                    });
                    let mut open = gate.lock();
                    opened.wait_while(&mut open, |open| !*open);
                    drop(open);
                    opener.join().unwrap();
                });
                assert!(mine.iter().all(|(mutex, ..)| *mutex.lock() == 3));
                assert_eq!((*held.lock(), *read.read()), (300, 300));
                assert_eq!(header.identity_hash(), hash);
                assert_eq!(*made.get_or_init(|| 2), 2);
                // And a grandchild.
                assert_eq!(in_child(|| *held.lock() += 1), 0);
            });
            if status != 0 {
                failed.push((n, status));
                break; // and let the others go
            }
        }
        stop.store(true, Relaxed);
        drop(guards.take());
        *gate.lock() = true;
        assert_eq!(opened.notify_all(), 2, "the parent is what it was");
    });
    assert_eq!(failed, [], "children that hung, or died, and how");
    assert_eq!((*held.lock(), *read.read(), made.get()), (1, 1, Some(&1)));
}
