//! Who is told of threads that wait for locks: a recorder of traces, which knows no locks, as locks know no recorder.

use std::sync::OnceLock;

use crate::say::{HOOK, unwinds_nowhere};

/// What is called round every sleep for a lock, on the thread that sleeps. None of it may panic, which ends the process; nor, but for
/// `before`, take a lock of raddle's.
#[derive(Clone, Copy, Debug)]
pub struct LockHooks {
    /// The thread may be about to sleep for a lock or a condition, and is in no queue yet.
    pub before: fn(),
    /// The thread is about to sleep for the lock at this address, which this strand holds; 0 if that is not known.
    pub waits: fn(lock: usize, holder: u32),
    /// It is awake again, as this strand.
    pub awake: fn(lock: usize, me: u32),
}

// One pair for the process, of the standard library under models too.
static HOOKS: OnceLock<LockHooks> = OnceLock::new();

/// Sets the hooks, once; later calls change nothing.
pub fn set_lock_hooks(hooks: LockHooks) {
    let _ = HOOKS.set(hooks);
}

/// The thread may be about to sleep for a lock or a condition.
#[inline]
pub fn about_to_wait() {
    if let Some(hooks) = HOOKS.get() {
        unwinds_nowhere(HOOK, || (hooks.before)());
    }
}

/// The time of a sleep for a lock.
#[derive(Debug)]
pub struct LockWait {
    hooks: Option<LockHooks>,
    lock: usize,
    me: u32,
}

impl LockWait {
    /// The strand `me` is about to sleep for the lock at this address, which `holder` gives the holder of.
    pub fn begin(lock: usize, me: u32, holder: impl FnOnce() -> Option<u32>) -> LockWait {
        let hooks = HOOKS.get().copied();
        if let Some(hooks) = hooks {
            let holder = holder().unwrap_or(0);
            unwinds_nowhere(HOOK, || (hooks.waits)(lock, holder));
        }
        LockWait { hooks, lock, me }
    }
}

impl Drop for LockWait {
    fn drop(&mut self) {
        if let Some(hooks) = self.hooks {
            unwinds_nowhere(HOOK, || (hooks.awake)(self.lock, self.me));
        }
    }
}
