//! What happens when a strand ends while it still holds something.

use super::StrandId;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A strand that ended with something held, a lock whose guard was forgotten say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abandoned {
    id: Option<StrandId>,
    holds: u32,
    thread: Option<String>,
}

impl Abandoned {
    /// The strand's id, which nobody gets any more; `None` if it had none.
    pub fn id(&self) -> Option<StrandId> {
        self.id
    }

    /// How many things it held; a lock that it had taken several times counts as often.
    pub fn holds(&self) -> u32 {
        self.holds
    }

    /// The name of the thread it ran on.
    pub fn thread(&self) -> Option<&str> {
        self.thread.as_deref()
    }
}

impl fmt::Display for Abandoned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a strand ")?;
        if let Some(id) = self.id {
            write!(f, "({}) ", id.get())?;
        }
        let (locks, they) = if self.holds == 1 { ("lock", "it") } else { ("locks", "they") };
        write!(
            f,
            "on thread '{}' ended holding {} {locks}: {they} will stay locked for ever",
            self.thread.as_deref().unwrap_or("<unnamed>"),
            self.holds
        )
    }
}

/// What [`set_abandon_hook`] takes.
pub type AbandonHook = Arc<dyn Fn(&Abandoned) + Send + Sync>;

static HOOK: Mutex<Option<AbandonHook>> = Mutex::new(None);

/// Has `hook` told of every strand that ends holding a lock; `None` goes back to a line on standard
/// error. The hook runs on the thread that ends, at its very end: it must not lock anything that may
/// be held, nor count on thread-locals. A foreign strand's is told where that ends. If the hook panics the process aborts.
///
/// ```
/// use raddle_sync::strand::set_abandon_hook;
/// use std::sync::Arc;
/// set_abandon_hook(Some(Arc::new(|abandoned| eprintln!("bug: {abandoned}"))));
/// set_abandon_hook(None);
/// ```
pub fn set_abandon_hook(hook: Option<AbandonHook>) {
    // The old hook is dropped when the lock is released again.
    let _old = std::mem::replace(&mut *lock_hook(), hook);
}

pub(crate) type HookLock = MutexGuard<'static, Option<AbandonHook>>;

pub(crate) fn lock_hook() -> HookLock {
    HOOK.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cold]
pub(super) fn report(id: Option<StrandId>, holds: u32) {
    let thread = crate::thread_name();
    let abandoned = Abandoned { id, holds, thread };
    let hook = lock_hook().clone();
    // In the middle of the end of a strand, perhaps while something else unwinds.
    crate::unwinds_nowhere("the hook for abandoned strands has panicked", || match hook {
        Some(hook) => hook(&abandoned),
        None => crate::say(format_args!("{abandoned}")),
    });
}
