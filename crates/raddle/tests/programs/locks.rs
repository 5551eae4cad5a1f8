//! Locks of several kinds, each with a count of how often it was held by one strand alone.

use std::cell::Cell;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use raddle::lock::{
    Mutex, ReentrantLock, RwLock, RwLockUpgradableReadGuard as Upgradable,
    RwLockWriteGuard as Writing,
};

use crate::exec::HOUR;
use crate::ir::{Grip, LockKind};

pub(crate) struct Lock {
    core: Core,
    /// How often it was held alone, to the end.
    held: AtomicU64,
}

enum Core {
    Mutex(Mutex<u64>),
    ReadWrite(RwLock<u64>),
    Reentrant(ReentrantLock<Cell<u64>>),
    /// Of the standard library, for which threads wait in `raddle::blocking`.
    Std(std::sync::Mutex<u64>),
}

impl Lock {
    pub(crate) fn new(kind: LockKind) -> Lock {
        let core = match kind {
            LockKind::Mutex => Core::Mutex(Mutex::new(0)),
            LockKind::ReadWrite => Core::ReadWrite(RwLock::new(0)),
            LockKind::Reentrant => Core::Reentrant(ReentrantLock::new(Cell::new(0))),
            LockKind::Std => Core::Std(std::sync::Mutex::new(0)),
        };
        Lock { core, held: AtomicU64::new(0) }
    }

    /// Calls `f` while it holds the lock in such a way; says whether somebody has changed meanwhile what it guards.
    pub(crate) fn hold<R>(&self, grip: Grip, f: impl FnOnce() -> R) -> (R, bool) {
        let timely = "an hour is not over";
        match (&self.core, grip) {
            (Core::Mutex(lock), Grip::Timed) => {
                self.alone(&mut lock.try_lock_for(HOUR).expect(timely), f)
            }
            (Core::Mutex(lock), _) => self.alone(&mut lock.lock(), f),
            (Core::ReadWrite(lock), Grip::Read) => {
                let held = lock.read();
                among(|| *held, f)
            }
            (Core::ReadWrite(lock), Grip::ReadAgain) => {
                let held = lock.read();
                let _again = lock.read_recursive();
                among(|| *held, f)
            }
            (Core::ReadWrite(lock), Grip::Upgrade) => {
                let held = lock.upgradable_read();
                let before = *held;
                let (result, changed) = among(|| *held, f);
                let mut held = Upgradable::upgrade(held);
                // Nobody writes in between.
                let changed = changed || *held != before;
                self.alone(&mut held, || ());
                (result, changed)
            }
            (Core::ReadWrite(lock), Grip::Downgrade) => {
                let mut held = lock.write();
                let ((), changed) = self.alone(&mut held, || ());
                let held = Writing::downgrade(held);
                let (result, more) = among(|| *held, f);
                (result, changed || more)
            }
            (Core::ReadWrite(lock), Grip::Timed) => {
                self.alone(&mut lock.try_write_for(HOUR).expect(timely), f)
            }
            (Core::ReadWrite(lock), _) => self.alone(&mut lock.write(), f),
            (Core::Reentrant(lock), Grip::Deep(levels)) => {
                let levels: Vec<_> = (0..levels).map(|_| lock.lock()).collect();
                let (result, changed) = among(|| lock.lock().get(), f);
                lock.lock().set(lock.lock().get() + 1);
                self.held.fetch_add(1, SeqCst);
                drop(levels);
                (result, changed)
            }
            (Core::Reentrant(lock), _) => {
                let held = lock.try_lock_for(HOUR).expect(timely);
                let mut count = held.get();
                let (result, _) = self.alone(&mut count, f);
                (result, held.replace(count) + 1 != count)
            }
            (Core::Std(lock), _) => {
                let mut held =
                    raddle::blocking(|| lock.lock()).unwrap_or_else(PoisonError::into_inner);
                self.alone(&mut held, f)
            }
        }
    }

    fn alone<R>(&self, count: &mut u64, f: impl FnOnce() -> R) -> (R, bool) {
        let before = *count;
        let result = f();
        *count = before + 1;
        self.held.fetch_add(1, SeqCst);
        (result, false)
    }

    /// Whether it was always held by one alone, as far as that is seen; at the end.
    pub(crate) fn is_sound(&self) -> bool {
        let mut count = 0;
        match &self.core {
            Core::Mutex(lock) => count += *lock.lock(),
            Core::ReadWrite(lock) => count += *lock.write(),
            Core::Reentrant(lock) => count += lock.lock().get(),
            Core::Std(lock) => count += *lock.lock().unwrap_or_else(PoisonError::into_inner),
        }
        count == self.held.load(SeqCst)
    }
}

/// Calls `f` while nobody may change what `look` sees.
fn among<R>(look: impl Fn() -> u64, f: impl FnOnce() -> R) -> (R, bool) {
    let before = look();
    let result = f();
    (result, look() != before)
}
