//! Values whose drop may panic where nothing may.

use std::panic::{self, AssertUnwindSafe};

/// Drops a value; a panic of its `Drop` has been reported by the panic hook and goes no further.
pub(crate) fn discard<T>(value: T) {
    if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(|| drop(value))) {
        // Its own `Drop` might panic again, and so on: better a leak than an abort.
        std::mem::forget(payload);
    }
}
