//! Who is told of threads that wait for locks: a recorder of traces, which knows no locks, as locks know no recorder.

use std::sync::OnceLock;

/// What is called round every sleep for a lock, on the thread that sleeps: neither may panic, nor take a lock of raddle's.
#[derive(Clone, Copy, Debug)]
pub struct LockHooks {
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
            (hooks.waits)(lock, holder().unwrap_or(0));
        }
        LockWait { hooks, lock, me }
    }
}

impl Drop for LockWait {
    fn drop(&mut self) {
        if let Some(hooks) = self.hooks {
            (hooks.awake)(self.lock, self.me);
        }
    }
}
