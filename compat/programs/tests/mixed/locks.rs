//! Locks of several kinds, and ways to hold them.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError, RwLock};

use raddle::lock::{ObjectHeader, ReentrantLock};

use crate::ir::Grip;

/// Those of one pool. Of each kind there are some, held in the order of their numbers.
#[derive(Default)]
pub(crate) struct Locks([Lock; crate::world::LOCKS]);

#[derive(Default)]
struct Lock {
    std: Mutex<u64>,
    std_rw: RwLock<u64>,
    mutex: raddle::lock::Mutex<u64>,
    rw: raddle::lock::RwLock<u64>,
    header: (ObjectHeader, AtomicU64),
    reentrant: ReentrantLock<Cell<u64>>,
}

static NAMES: AtomicU64 = AtomicU64::new(1);

impl Locks {
    /// Calls `f` with a lock held, and says whether another had it meanwhile.
    pub(crate) fn hold<R>(&self, index: usize, grip: Grip, f: impl FnOnce() -> R) -> (R, bool) {
        let lock = &self.0[index];
        let name = NAMES.fetch_add(1, SeqCst);
        match grip {
            Grip::Std | Grip::StdBlocking => {
                let take = || lock.std.lock().unwrap_or_else(PoisonError::into_inner);
                let mut guard = match grip {
                    Grip::StdBlocking => raddle::blocking(take),
                    _ => take(),
                };
                *guard = name;
                let result = f();
                (result, *guard != name)
            }
            Grip::StdRead => {
                let guard = lock.std_rw.read().unwrap_or_else(PoisonError::into_inner);
                let before = *guard;
                let result = f();
                (result, *guard != before)
            }
            Grip::Mutex => {
                let mut guard = lock.mutex.lock();
                *guard = name;
                let result = f();
                (result, *guard != name)
            }
            Grip::Read => {
                let guard = lock.rw.read();
                let before = *guard;
                let result = f();
                (result, *guard != before)
            }
            Grip::Write => {
                let mut guard = lock.rw.write();
                *guard = name;
                let result = f();
                (result, *guard != name)
            }
            Grip::Header => {
                let _guard = lock.header.0.lock();
                lock.header.1.store(name, SeqCst);
                let result = f();
                (result, lock.header.1.load(SeqCst) != name)
            }
            Grip::Reentrant => {
                let guard = lock.reentrant.lock();
                guard.set(name);
                let result = f();
                let again = lock.reentrant.lock();
                (result, again.get() != name)
            }
        }
    }
}
