//! Futexes out of mutexes and condition variables, for systems without them and for models.
//!
//! A sleeper puts a ticket into its word's bucket, under the bucket's mutex, and sleeps until the
//! ticket is gone; `wake` takes tickets out. Both the check of the word and the tickets are under the
//! mutex, which is what makes the two atomic to each other (the module's F1):
//!
//! - the sleeper's section comes first: its ticket is there for the waker to take;
//! - the waker's comes first: its change of the word, made before, happens before the check.

use crate::atomic::{AtomicU32, Ordering};
use crate::sync::{Condvar, Mutex};
use crate::time::Instant;
use std::time::Duration;

#[derive(Debug)]
struct Bucket {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
pub(crate) struct State {
    next_ticket: u64,
    /// Who sleeps, oldest first: the word's address and the sleeper's ticket.
    sleepers: Vec<(usize, u64)>,
}

impl Bucket {
    fn new() -> Bucket {
        Bucket {
            state: Mutex::new(State { next_ticket: 0, sleepers: Vec::new() }),
            changed: Condvar::new(),
        }
    }
}

pub(super) fn wait(word: &AtomicU32, expected: u32, limit: Option<Duration>) -> bool {
    let address = address_of(word);
    // A limit too far away to express is no limit.
    let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    let bucket = bucket(address);
    let mut state = bucket.state.lock();
    // ORD: `Relaxed`: the bucket's mutex orders this load against the waker's change.
    if word.load(Ordering::Relaxed) != expected {
        return true;
    }
    #[cfg(raddle_shuttle)]
    if limit.is_some() && may_expire() {
        drop(state);
        return expire(word, expected);
    }
    #[cfg(raddle_loom)]
    if limit.is_some() && crate::time::has_expired() {
        return false;
    }
    let ticket = state.next_ticket;
    state.next_ticket += 1;
    state.sleepers.push((address, ticket));
    loop {
        let remaining = deadline.map(|d| d.saturating_duration_since(Instant::now()));
        state = match remaining {
            None => bucket.changed.wait(state),
            Some(Duration::ZERO) => {
                state.sleepers.retain(|&sleeper| sleeper != (address, ticket));
                return false;
            }
            Some(remaining) => bucket.changed.wait_timeout(state, remaining).0,
        };
        if !state.sleepers.contains(&(address, ticket)) {
            return true;
        }
    }
}

/// Whether a limit is to be over before somebody wakes the sleeper, perhaps.
#[cfg(raddle_shuttle)]
fn may_expire() -> bool {
    use shuttle::rand::Rng;
    shuttle::rand::thread_rng().gen_bool(0.5)
}

/// A sleep whose limit may be over at any time.
#[cfg(raddle_shuttle)]
fn expire(word: &AtomicU32, expected: u32) -> bool {
    use shuttle::rand::Rng;
    while word.load(Ordering::Relaxed) == expected {
        if shuttle::rand::thread_rng().gen_bool(0.1) {
            return false;
        }
        crate::thread::yield_now();
    }
    true
}

pub(super) fn wake(word: &AtomicU32, n: u32) -> usize {
    let address = address_of(word);
    let bucket = bucket(address);
    let mut state = bucket.state.lock();
    let mut woken = 0;
    state.sleepers.retain(|&(sleeper, _)| {
        let taken = sleeper == address && woken < n as usize;
        woken += usize::from(taken);
        !taken
    });
    drop(state);
    if woken > 0 {
        // Sleepers of other words share the condition variable; their tickets send them back.
        bucket.changed.notify_all();
    }
    woken
}

fn address_of(word: &AtomicU32) -> usize {
    std::ptr::from_ref(word).addr()
}

#[cfg(not(raddle_model))]
const BUCKETS: usize = 64;

#[cfg(not(raddle_model))]
crate::lazy_static! {
    static TABLE: [Bucket; BUCKETS] = std::array::from_fn(|_| Bucket::new());
}

#[cfg(all(unix, not(any(miri, raddle_model))))]
pub(crate) type AllLocks = Vec<crate::sync::MutexGuard<'static, State>>;

/// Locks all buckets: for a fork.
#[cfg(all(unix, not(any(miri, raddle_model))))]
pub(crate) fn lock_all() -> AllLocks {
    TABLE.iter().map(|bucket| bucket.state.lock()).collect()
}

/// In the child of a fork, which frees nothing: the allocator may have a lock that another thread had.
#[cfg(all(unix, not(any(miri, raddle_model))))]
pub(crate) fn unlock_all(locks: AllLocks) {
    std::mem::ManuallyDrop::new(locks).drain(..).for_each(drop);
}

/// In the child of a fork, where nobody sleeps.
#[cfg(all(unix, not(any(miri, raddle_model))))]
pub(crate) fn forget_sleepers() {
    TABLE.iter().for_each(|bucket| bucket.state.lock().sleepers.clear());
}

#[cfg(not(raddle_model))]
fn bucket(address: usize) -> &'static Bucket {
    // Fibonacci hashing of the word's index: neighbouring words go to different buckets.
    let hash = (address as u64 >> 2).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    &TABLE[(hash >> 58) as usize]
}

/// Under a model each address has a bucket of its own: a shared one would make unrelated words
/// depend on each other and multiply the executions, and a hash of the address would differ from
/// one execution to the next.
#[cfg(raddle_model)]
fn bucket(address: usize) -> crate::sync::Arc<Bucket> {
    use crate::sync::Arc;
    use std::collections::HashMap;
    crate::lazy_static! {
        // The model's threads take turns on one at a time and none switches inside this lock, so it
        // may be a real one; a modelled one would only add executions.
        static TABLE: std::sync::Mutex<HashMap<usize, Arc<Bucket>>> = Default::default();
    }
    let mut table = TABLE.lock().expect("nothing panics under this lock");
    Arc::clone(table.entry(address).or_insert_with(|| Arc::new(Bucket::new())))
}
