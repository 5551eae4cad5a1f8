//! One thread's sleep and wake.
//!
//! | state | meaning | `park` | `unpark` |
//! |---|---|---|---|
//! | `EMPTY` | awake, no token | `-> PARKED`, sleeps | `-> TOKEN` |
//! | `TOKEN` | awake, a token waits | `-> EMPTY`, returns | stays |
//! | `PARKED` | asleep, or about to be | | `-> TOKEN`, wakes |
//!
//! **I1** A token given is taken by the next return from `park`: an `unpark` before the `park` is not
//! lost, and several make one token.
//! **I2** What a thread did before `unpark` happens before what the parked thread does after `park`
//! takes that token.
//! **I3** Parkers are immortal: they come from a process-wide free list ([`Parker::lease`]) and are
//! never freed, so `unpark` may touch one at any time. An `unpark` that arrives after its parker was
//! given back and leased again is a spurious wake-up of the new holder, no more.

use crate::atomic::{AtomicU32, Ordering};
use crate::say::{HOOK, unwinds_nowhere};
use crate::time::Instant;
use crate::{const_fn, futex};
use std::cell::{Cell, RefCell};
use std::mem;
use std::ops::Deref;
use std::time::Duration;

const EMPTY: u32 = 0;
const TOKEN: u32 = 1;
/// `EMPTY - 1`, so that one subtraction makes both of `park`'s transitions.
const PARKED: u32 = u32::MAX;

/// A thread's place to sleep: one word.
///
/// One thread parks at a time; any number unpark. **`park` may return without a token meant for this
/// wait** (I3): callers loop over the condition they wait for.
///
/// ```
/// use raddle_sync::{atomic::{AtomicBool, Ordering}, parker};
/// use std::sync::Arc;
///
/// let done = Arc::new(AtomicBool::new(false));
/// let me = parker::current();
/// let flag = Arc::clone(&done);
/// let thread = std::thread::spawn(move || {
///     flag.store(true, Ordering::Release);
///     me.unpark();
/// });
/// while !done.load(Ordering::Acquire) {
///     me.park();
/// }
/// thread.join().unwrap();
/// ```
#[derive(Debug)]
pub struct Parker {
    state: AtomicU32,
}

impl Parker {
    const_fn! {
        /// A parker without a token. Most callers want [`current`] or [`Parker::lease`]: a parker
        /// of one's own must outlive every thread that may still be inside `unpark`.
        pub const fn new() -> Parker {
            Parker { state: AtomicU32::new(EMPTY) }
        }
    }

    /// A parker nobody else has, from the process-wide free list; given back when the lease is
    /// dropped. Costs an uncontended mutex, and an allocation if the list is empty.
    pub fn lease() -> ParkerLease {
        let free = lock_free_list().pop();
        let parker = free.unwrap_or_else(|| Box::leak(Box::new(Parker::new())));
        // ORD: `Relaxed`: whoever unparks the new holder learnt of the parker from it, later. A swap,
        // not a store, because loom does not order a plain store among the swaps of late unparks as
        // the language does, and would report lost wake-ups that cannot be.
        parker.state.swap(EMPTY, Ordering::Relaxed);
        ParkerLease { parker }
    }

    /// Sleeps until there is a token, and takes it. One read-modify-write if there is one already.
    pub fn park(&self) {
        if self.take_token_or_prepare() {
            return;
        }
        let _blocked = Blocked::new();
        loop {
            futex::wait(&self.state, PARKED, None);
            if self.take_token_after_sleep() {
                return;
            }
        }
    }

    /// As [`park`](Parker::park), for at most `limit`; true if a token was taken. A zero limit polls.
    ///
    /// ```
    /// use raddle_sync::parker::Parker;
    /// use std::time::Duration;
    /// let parker = Parker::lease();
    /// assert!(!parker.park_timeout(Duration::from_millis(1)));
    /// parker.unpark();
    /// parker.unpark(); // two make one
    /// assert!(parker.park_timeout(Duration::ZERO));
    /// assert!(!parker.park_timeout(Duration::ZERO));
    /// ```
    pub fn park_timeout(&self, limit: Duration) -> bool {
        let deadline = Instant::now().checked_add(limit);
        if self.take_token_or_prepare() {
            return true;
        }
        let _blocked = (!limit.is_zero()).then(Blocked::new);
        loop {
            let remaining = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            let timed_out =
                remaining == Some(Duration::ZERO) || !futex::wait(&self.state, PARKED, remaining);
            if timed_out {
                // ORD: Acquire pairs with the Release in `unpark` (I2).
                return self.state.swap(EMPTY, Ordering::Acquire) == TOKEN;
            }
            if self.take_token_after_sleep() {
                return true;
            }
        }
    }

    /// As [`park_timeout`](Parker::park_timeout), for one who relies on the limit: it ends under models too, where others'
    /// may not.
    pub fn nap(&self, limit: Duration) -> bool {
        if cfg!(raddle_model) {
            // As any sleep; and as long as it lasts others go on.
            if self.take_token_or_prepare() {
                return true;
            }
            let _blocked = Blocked::new();
            #[cfg(raddle_shuttle)]
            while self.state.load(Ordering::Relaxed) != TOKEN && !crate::time::may_pass(limit) {}
            #[cfg(raddle_loom)]
            crate::thread::yield_now();
            // ORD: as in `park_timeout`.
            self.state.swap(EMPTY, Ordering::Acquire) == TOKEN
        } else {
            self.park_timeout(limit)
        }
    }

    /// Leaves a token, and wakes the parked thread if it sleeps. Enters the kernel only then.
    #[inline]
    pub fn unpark(&self) {
        // ORD: Release pairs with the Acquires in `park` and `park_timeout` (I2).
        if self.state.swap(TOKEN, Ordering::Release) == PARKED {
            futex::wake(&self.state, 1);
        }
    }

    /// Whether a thread sleeps, or is about to, and nobody has woken it: a hint.
    pub fn is_parked(&self) -> bool {
        // ORD: a hint.
        self.state.load(Ordering::Relaxed) == PARKED
    }

    /// `TOKEN -> EMPTY` (true) or `EMPTY -> PARKED` (false).
    #[inline]
    fn take_token_or_prepare(&self) -> bool {
        // ORD: Acquire pairs with the Release in `unpark` (I2).
        self.state.fetch_sub(1, Ordering::Acquire) == TOKEN
    }

    /// `TOKEN -> EMPTY` (true), or the wake-up was the futex's own.
    fn take_token_after_sleep(&self) -> bool {
        // ORD: Acquire pairs with the Release in `unpark` (I2).
        self.state.compare_exchange(TOKEN, EMPTY, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}

/// What is called round every sleep in a parker, on the thread that sleeps: neither may panic, which ends the process, nor park.
#[derive(Clone, Copy, Debug)]
pub struct Hooks {
    /// The thread is about to sleep. A token may come at any time from now on.
    pub block: fn(),
    /// It is awake.
    pub unblock: fn(),
}

// One pair for the process, of the standard library under models too: it is set before anything is modelled.
static HOOKS: std::sync::OnceLock<Hooks> = std::sync::OnceLock::new();

/// Sets the hooks, once; later calls change nothing. So one who schedules threads learns of each that blocks: all blocking
/// in this crate's users ends here.
pub fn set_hooks(hooks: Hooks) {
    let _ = HOOKS.set(hooks);
}

/// A thread that sleeps, as the hooks see it.
struct Blocked(Option<Hooks>);

impl Blocked {
    fn new() -> Blocked {
        let hooks = HOOKS.get().copied();
        if let Some(hooks) = hooks {
            unwinds_nowhere(HOOK, hooks.block);
        }
        Blocked(hooks)
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        if let Some(hooks) = self.0 {
            unwinds_nowhere(HOOK, hooks.unblock);
        }
    }
}

impl Default for Parker {
    fn default() -> Parker {
        Parker::new()
    }
}

/// A [`Parker`] on loan from the free list; dropping it gives it back.
#[derive(Debug)]
pub struct ParkerLease {
    parker: &'static Parker,
}

impl ParkerLease {
    /// The parker, for others to unpark at any later time (I3).
    pub fn get(&self) -> &'static Parker {
        self.parker
    }
}

impl Deref for ParkerLease {
    type Target = Parker;

    fn deref(&self) -> &Parker {
        self.parker
    }
}

impl Drop for ParkerLease {
    fn drop(&mut self) {
        if cfg!(raddle_model) && std::thread::panicking() {
            return; // The model has failed and has no statics left; let its message through.
        }
        lock_free_list().push(self.parker);
    }
}

crate::lazy_static! {
    // A real mutex under models too: no modelled operation happens under it, and which parker a
    // thread gets makes no difference to it.
    static FREE_LIST: std::sync::Mutex<Vec<&'static Parker>> = Default::default();
}

pub(crate) type FreeListLock = std::sync::MutexGuard<'static, Vec<&'static Parker>>;

pub(crate) fn lock_free_list() -> FreeListLock {
    // A list of references is whole whatever panicked near it.
    FREE_LIST.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Gives this thread's parker back when the thread ends.
struct AtThreadEnd(RefCell<Option<ParkerLease>>);

impl Drop for AtThreadEnd {
    fn drop(&mut self) {
        if cfg!(raddle_model) {
            // A model tears its statics down before its threads' locals, the free list with them.
            mem::forget(self.0.take());
        } else {
            CURRENT.with(|current| current.set(None));
        }
    }
}

// Two variables, so that the one read on every call needs no destructor, and with it no check
// whether it still lives.
crate::thread_local! {
    static CURRENT: Cell<Option<&'static Parker>> = const { Cell::new(None) };
}
crate::thread_local! {
    static AT_THREAD_END: AtThreadEnd = const { AtThreadEnd(RefCell::new(None)) };
}

/// This thread's own parker: the same one each time, leased on the first call, given back when the
/// thread ends. Costs a thread-local read.
///
/// It is shared by all code on this thread that waits, which makes for spurious tokens: whoever
/// waits loops over its own condition. Called while the thread's locals are being destroyed it still
/// works, at the price of a parker that is not recycled.
pub fn current() -> &'static Parker {
    CURRENT.with(Cell::get).unwrap_or_else(first_use)
}

#[cold]
fn first_use() -> &'static Parker {
    let lease = Parker::lease();
    let parker = lease.get();
    let mut lease = Some(lease);
    if AT_THREAD_END.try_with(|end| end.0.replace(lease.take())).is_err() {
        // Nobody is left to give it back; giving it back now would share it.
        mem::forget(lease);
    }
    CURRENT.with(|current| current.set(Some(parker)));
    parker
}

#[cfg(all(test, not(raddle_model)))]
mod tests {
    use super::*;
    use crate::thread;

    #[test]
    fn a_token_given_early_is_kept_and_counts_once() {
        let parker = Parker::new();
        parker.unpark();
        parker.unpark();
        parker.park();
        assert!(!parker.park_timeout(Duration::from_millis(1)));
        assert_eq!(parker.state.load(Ordering::Relaxed), EMPTY);
    }

    #[test]
    fn a_huge_limit_does_not_overflow() {
        let parker = Parker::lease();
        let other = parker.get();
        let thread = thread::spawn(move || other.unpark());
        while !parker.park_timeout(Duration::MAX) {}
        thread.join().unwrap();
    }

    #[test]
    fn ping_pong_loses_no_wake_up() {
        static TURN: AtomicU32 = AtomicU32::new(0);
        const ROUNDS: u32 = 2_000;
        let play = |me: &Parker, other: &Parker, parity: u32| {
            for round in (parity..ROUNDS).step_by(2) {
                while TURN.load(Ordering::Acquire) != round {
                    me.park();
                }
                TURN.store(round + 1, Ordering::Release);
                other.unpark();
            }
        };
        let (a, b) = (Parker::lease(), Parker::lease());
        let (pa, pb) = (a.get(), b.get());
        let thread = thread::spawn(move || play(pb, pa, 1));
        play(pa, pb, 0);
        thread.join().unwrap();
        assert_eq!(TURN.load(Ordering::Relaxed), ROUNDS);
    }

    #[test]
    fn current_is_stable_and_distinct_between_living_threads() {
        let mine = current();
        assert!(std::ptr::eq(mine, current()));
        let other = thread::spawn(move || std::ptr::eq(mine, current())).join().unwrap();
        assert!(!other);
    }

    #[test]
    fn current_stays_one_parker_while_locals_are_destroyed() {
        struct Late;
        impl Drop for Late {
            fn drop(&mut self) {
                assert!(std::ptr::eq(current(), current()));
            }
        }
        crate::thread_local! { static LATE: Late = const { Late }; }
        let parker = thread::spawn(|| {
            LATE.with(|_| ()); // destroyed after, or before, the parker's own guard
            current()
        });
        parker.join().unwrap().unpark();
    }

    #[test]
    fn a_lease_given_back_is_used_again_without_its_token() {
        // Other tests share the list, so look for the address among many leases.
        let lease = Parker::lease();
        let parker = lease.get();
        lease.unpark();
        drop(lease);
        let leases: Vec<_> = (0..1_000).map(|_| Parker::lease()).collect();
        if let Some(again) = leases.iter().find(|lease| std::ptr::eq(lease.get(), parker)) {
            assert!(!again.park_timeout(Duration::ZERO));
        }
        let mut addresses: Vec<_> =
            leases.iter().map(|lease| std::ptr::from_ref(lease.get()).addr()).collect();
        addresses.sort_unstable();
        addresses.dedup();
        assert_eq!(addresses.len(), leases.len(), "two holders of one parker");
    }
}
