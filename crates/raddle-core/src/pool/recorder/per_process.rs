//! What each process has of its own: after a `fork` another thread of the parent's may have had it locked, for ever.

use std::sync::{Mutex, MutexGuard, OnceLock};

use raddle_sync::atomic::{AtomicU32, Ordering};
use raddle_sync::fork;

/// A value behind a mutex: another one in the child of a fork, where that of the parent is left alone.
pub(crate) struct PerProcess<T> {
    /// Of which process it is, and one more: see [`fork::generation`]. 0: of none yet.
    owner: AtomicU32,
    value: Mutex<T>,
    /// That of a child, which of a child's child, and so on.
    next: OnceLock<Box<PerProcess<T>>>,
}

impl<T: Default> PerProcess<T> {
    pub(crate) const fn new(value: T) -> PerProcess<T> {
        PerProcess { owner: AtomicU32::new(0), value: Mutex::new(value), next: OnceLock::new() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.of(fork::generation()).lock().unwrap_or_else(|e| e.into_inner())
    }

    fn of(&self, generation: u32) -> &Mutex<T> {
        let me = generation + 1;
        let mut one = self;
        // ORD: what belongs to the owner is behind its mutex.
        while one
            .owner
            .compare_exchange(0, me, Ordering::Relaxed, Ordering::Relaxed)
            .is_err_and(|owner| owner != me)
        {
            one = one.next.get_or_init(|| Box::new(PerProcess::new(T::default())));
        }
        &one.value
    }
}

#[cfg(all(test, not(raddle_model)))]
mod tests {
    use super::*;

    #[test]
    fn a_later_generation_begins_anew_whatever_is_locked_in_the_first() {
        static ONE: PerProcess<Vec<u32>> = PerProcess::new(Vec::new());
        let mut parents = ONE.of(0).lock().unwrap();
        parents.push(1);
        assert!(ONE.of(1).lock().unwrap().is_empty());
        ONE.of(1).lock().unwrap().push(2);
        assert!(ONE.of(2).lock().unwrap().is_empty());
        assert_eq!(
            (ONE.of(1).lock().unwrap().as_slice(), parents.as_slice()),
            (&[2][..], &[1][..])
        );
    }
}
