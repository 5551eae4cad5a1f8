//! What a thread's strands hold, as they say, beside what a model says, in random programs: guards are forgotten, or dropped by
//! other strands, locks are moved and replaced, strands end with what they hold, and another thread looks in between.

#![cfg(not(raddle_model))]

use raddle_lock::{
    HeaderGuard, Mutex, MutexGuard, ObjectHeader, ReentrantLock, ReentrantLockGuard, RwLock,
    RwLockWriteGuard, set_abandon_hook,
};
use raddle_sync::strand::{self, ForeignStrand, Local};
use std::mem::{forget, replace};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

enum Lock {
    Mutex(Mutex<()>),
    Reentrant(ReentrantLock<()>),
    Header(ObjectHeader),
    Writer(RwLock<()>),
}

enum Guard {
    Mutex(MutexGuard<'static, ()>),
    Reentrant(#[allow(dead_code)] ReentrantLockGuard<'static, ()>),
    Header(HeaderGuard<'static>),
    Writer(#[allow(dead_code)] RwLockWriteGuard<'static, ()>),
}

impl Lock {
    fn new(which: u64) -> Lock {
        match which % 5 {
            0 => Lock::Mutex(Mutex::new(())),
            1 | 2 => Lock::Reentrant(ReentrantLock::new(())),
            3 => Lock::Header(ObjectHeader::new()),
            _ => Lock::Writer(RwLock::new(())),
        }
    }

    fn nests(&self) -> bool {
        matches!(self, Lock::Reentrant(_) | Lock::Header(_))
    }

    fn try_take(&'static self, limit: Option<Duration>) -> Option<Guard> {
        match (self, limit) {
            (Lock::Mutex(lock), None) => lock.try_lock().map(Guard::Mutex),
            (Lock::Mutex(lock), Some(limit)) => lock.try_lock_for(limit).map(Guard::Mutex),
            (Lock::Reentrant(lock), None) => lock.try_lock().map(Guard::Reentrant),
            (Lock::Reentrant(lock), Some(limit)) => lock.try_lock_for(limit).map(Guard::Reentrant),
            (Lock::Header(lock), None) => lock.try_lock().map(Guard::Header),
            (Lock::Header(lock), Some(limit)) => lock.try_lock_for(limit).map(Guard::Header),
            (Lock::Writer(lock), None) => lock.try_write().map(Guard::Writer),
            (Lock::Writer(lock), Some(limit)) => lock.try_write_for(limit).map(Guard::Writer),
        }
    }

    fn take(&'static self) -> Guard {
        match self {
            Lock::Mutex(lock) => Guard::Mutex(lock.lock()),
            Lock::Reentrant(lock) => Guard::Reentrant(lock.lock()),
            Lock::Header(lock) => Guard::Header(lock.lock()),
            Lock::Writer(lock) => Guard::Writer(lock.write()),
        }
    }

    fn is_locked(&self) -> bool {
        match self {
            Lock::Mutex(lock) => lock.is_locked(),
            Lock::Reentrant(lock) => lock.is_locked(),
            Lock::Header(lock) => lock.is_locked(),
            Lock::Writer(lock) => lock.is_locked(),
        }
    }

    /// `None` where it is not told.
    fn is_held(&self) -> Option<bool> {
        match self {
            Lock::Mutex(lock) => Some(lock.is_held()),
            Lock::Reentrant(lock) => Some(lock.is_held()),
            Lock::Header(lock) => Some(lock.is_held()),
            Lock::Writer(_) => None,
        }
    }
}

/// What another thread does with the lock at an address.
#[derive(Clone, Copy)]
enum Visit {
    Try,
    TryFor(Duration),
    Hash,
}

struct Elsewhere {
    ask: Sender<(Visit, usize)>,
    answer: Receiver<bool>,
}

impl Elsewhere {
    fn new() -> Elsewhere {
        let ((ask, asked), (reply, answer)) = (channel::<(Visit, usize)>(), channel());
        thread::spawn(move || {
            for (visit, address) in asked {
                // SAFETY: the asker waits for the answer.
                let lock: &'static Lock =
                    unsafe { &*std::ptr::with_exposed_provenance::<Lock>(address) };
                let got = match (visit, lock) {
                    (Visit::Hash, Lock::Header(header)) => header.identity_hash() != 1,
                    (Visit::TryFor(limit), lock) => lock.try_take(Some(limit)).is_some(),
                    (_, lock) => lock.try_take(None).is_some(),
                };
                reply.send(got).unwrap();
            }
        });
        Elsewhere { ask, answer }
    }

    fn visit(&self, visit: Visit, lock: &Lock) -> bool {
        self.ask.send((visit, std::ptr::from_ref(lock).expose_provenance())).unwrap();
        self.answer.recv().unwrap()
    }
}

/// A lock, as the model has it.
#[derive(Clone, Copy, Default)]
struct Held {
    holder: Option<usize>,
    live: u32,
    forgotten: u32,
}

impl Held {
    fn any(&self) -> bool {
        self.live + self.forgotten > 0
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

const PLACES: usize = 6;

/// Steps of one thread.
fn program(seed: u64, steps: usize) {
    let elsewhere = Elsewhere::new();
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let locks: *mut Lock =
        Box::leak((0..PLACES as u64).map(Lock::new).collect::<Vec<_>>().into_boxed_slice())
            .as_mut_ptr();
    // SAFETY: in bounds, never freed, and changed only by this thread where no guard is.
    let at = |place: usize| -> &'static Lock { unsafe { &*locks.wrapping_add(place) } };
    // SAFETY: as above.
    let change = |place: usize| -> &'static mut Lock { unsafe { &mut *locks.wrapping_add(place) } };
    let mut model = [Held::default(); PLACES];
    // What strands hold; and those that run, or lie beneath.
    let mut holds = vec![0_u32];
    let mut running = vec![0_usize];
    let mut strands: Vec<(usize, ForeignStrand)> = Vec::new();
    let mut guards: Vec<(usize, Guard)> = Vec::new();
    for step in 0..steps {
        let me = *running.last().unwrap();
        let place = random.below(PLACES as u64) as usize;
        let lock = at(place);
        let op = random.below(24);
        match op {
            0..=8 => {
                let held = &mut model[place];
                let mine = held.holder == Some(me) && held.any();
                let free = !held.any() || mine && lock.nests();
                if !free {
                    if mine && op == 0 && random.below(8) == 0 {
                        let take = AssertUnwindSafe(|| drop(lock.take()));
                        assert!(catch_unwind(take).is_err(), "{seed} {step}");
                    } else {
                        let limit = (op == 1).then(|| Duration::from_micros(20));
                        assert!(lock.try_take(limit).is_none(), "{seed} {step}");
                    }
                } else {
                    let guard = match op {
                        0..=4 => Some(lock.take()),
                        5 | 6 => lock.try_take(None),
                        _ => lock.try_take(Some(Duration::from_secs(60))),
                    };
                    let guard = guard.unwrap_or_else(|| panic!("{seed} {step}"));
                    held.holder = Some(me);
                    holds[me] += 1;
                    if random.below(7) == 0 {
                        forget(guard);
                        held.forgotten += 1;
                    } else {
                        held.live += 1;
                        guards.push((place, guard));
                    }
                }
            }
            9..=14 if !guards.is_empty() => {
                let n = random.below(guards.len() as u64) as usize;
                let (place, guard) = guards.swap_remove(n);
                match guard {
                    Guard::Mutex(guard) if op == 9 => MutexGuard::unlock_fair(guard),
                    Guard::Header(guard) if op == 9 => HeaderGuard::unlock_fair(guard),
                    guard => drop(guard),
                }
                let held = &mut model[place];
                held.live -= 1;
                holds[held.holder.unwrap()] -= 1;
            }
            15 if strands.len() < 7 => {
                strands.push((running.len(), strand::enter_foreign()));
                if random.below(3) != 0 {
                    strand::token();
                }
                running.push(holds.len());
                holds.push(0);
            }
            16 if !strands.is_empty() => {
                let last = strands.len() - 1;
                let n = if random.below(4) == 0 {
                    random.below(strands.len() as u64) as usize
                } else {
                    last
                };
                let (depth, guard) = strands.remove(n);
                drop(guard);
                running.truncate(depth);
                // The rest do nothing when they are dropped, some of them later.
                for (_, ended) in strands.split_off(n) {
                    drop(ended);
                }
            }
            17 | 18 => {
                let other = random.below(PLACES as u64) as usize;
                if other != place && model[place].live + model[other].live == 0 {
                    std::mem::swap(change(place), change(other));
                    model.swap(place, other);
                }
            }
            19 if model[place].live == 0 => {
                drop(replace(change(place), Lock::new(random.below(5))));
                model[place] = Held::default();
            }
            20 => {
                let free = elsewhere.visit(Visit::TryFor(Duration::from_micros(10)), lock);
                assert_eq!(free, !model[place].any(), "{seed} {step}");
            }
            21 => {
                if let Lock::Header(header) = lock {
                    match random.below(2) {
                        0 => _ = elsewhere.visit(Visit::Hash, lock),
                        _ => _ = header.identity_hash(),
                    }
                }
            }
            22 => {
                let header = guards.iter_mut().find(|(at, guard)| {
                    matches!(guard, Guard::Header(_)) && model[*at].holder == Some(me)
                });
                if let Some((_, Guard::Header(guard))) = header {
                    let header = HeaderGuard::header(guard);
                    assert!(header.wait_for(guard, Duration::ZERO).timed_out());
                }
            }
            23 => {
                let mutex = guards.iter_mut().find(|(at, guard)| {
                    matches!(guard, Guard::Mutex(_)) && model[*at].holder == Some(me)
                });
                if let Some((_, Guard::Mutex(guard))) = mutex {
                    MutexGuard::bump(guard);
                    MutexGuard::unlocked(guard, || ());
                }
            }
            _ => {}
        }
        let me = *running.last().unwrap();
        assert_eq!(strand::with_local(Local::holds), holds[me], "{seed} {step}: op {op}");
        for (place, held) in model.iter().enumerate() {
            let lock = at(place);
            assert_eq!(lock.is_locked(), held.any(), "{seed} {step}: op {op} {place}");
            if let Some(is_held) = lock.is_held() {
                let mine = held.any() && held.holder == Some(me);
                assert_eq!(is_held, mine, "{seed} {step}: op {op} {place}");
            }
        }
        if step % 4 == 0 {
            let free = elsewhere.visit(Visit::Try, at(place));
            assert_eq!(free, !model[place].any(), "{seed} {step}: op {op} {place}");
        }
    }
    drop(guards);
    while let Some((_, guard)) = strands.pop() {
        drop(guard);
    }
}

#[test]
fn strands_hold_what_a_model_says() {
    set_abandon_hook(Some(Arc::new(|_| ())));
    let (programs, steps) = if cfg!(miri) { (3, 60) } else { (number("PROGRAMS", 200), 400) };
    let first = number("SEED", 1);
    for seed in first..first + programs {
        thread::spawn(move || program(seed, steps)).join().unwrap();
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(format!("RADDLE_LOCK_{name}")).map_or(default, |text| text.parse().unwrap())
}
