//! Values whose drop may panic where nothing may.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};

/// A payload whose `Drop` panics with a payload whose `Drop` panics, and so on: after so many the next is
/// leaked.
const PATIENCE: usize = 16;

/// Drops a value; a panic of its `Drop` has been reported by the panic hook and goes no further.
pub(crate) fn discard<T>(value: T) {
    // Saves compiling what follows.
    if const { !std::mem::needs_drop::<T>() } {
        return;
    }
    if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(|| drop(value))) {
        discard_payload(payload);
    }
}

/// Not generic: compiled once.
#[cold]
fn discard_payload(payload: Box<dyn Any + Send>) {
    let mut dropped = Err(payload);
    for _ in 0..PATIENCE {
        let Err(payload) = dropped else { return };
        dropped = panic::catch_unwind(AssertUnwindSafe(|| drop(payload)));
    }
    std::mem::forget(dropped);
}

/// Drops values one by one: two panics at once would end the process.
pub(crate) fn discard_all(values: impl IntoIterator) {
    values.into_iter().for_each(discard);
}

/// Values that are dropped one by one, also when a panic passes.
pub(crate) struct Discarding<T>(pub(crate) Vec<T>);

impl<T> Drop for Discarding<T> {
    fn drop(&mut self) {
        discard_all(std::mem::take(&mut self.0));
    }
}

/// A value that is dropped by itself, also when a panic passes: for what is beside other values of users, of which another may panic
/// as it goes.
pub(crate) struct Apart<T>(Option<T>);

impl<T> Apart<T> {
    #[inline]
    pub(crate) fn new(value: T) -> Apart<T> {
        Apart(Some(value))
    }

    #[inline]
    pub(crate) fn get(&mut self) -> &mut T {
        self.0.as_mut().unwrap_or_else(|| unreachable!("it goes with this"))
    }

    #[inline]
    pub(crate) fn take(mut self) -> T {
        self.0.take().unwrap_or_else(|| unreachable!("it goes with this"))
    }
}

impl<T> Drop for Apart<T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(value) = self.0.take() {
            discard(value);
        }
    }
}

/// What is left of these is dropped one by one, also when a panic passes.
pub(crate) struct Rest<I: Iterator>(pub(crate) I);

impl<I: Iterator> Drop for Rest<I> {
    fn drop(&mut self) {
        discard_all(&mut self.0);
    }
}

/// Calls `f`; a panic has been reported by the panic hook and goes no further.
pub(crate) fn contain(f: impl FnOnce()) {
    if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(f)) {
        discard_payload(payload);
    }
}
