//! The seam under shuttle: random interleavings, sequentially consistent.

/// Atomic integers, flags and pointers, as shuttle models them.
pub mod atomic {
    pub use shuttle::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering,
        fence,
    };
}

/// The cell that shared mutable memory lives in; shuttle does not check it.
pub mod cell {
    pub use crate::seam::plain_cell::UnsafeCell;
}

/// Starting and yielding the model's threads.
pub mod thread {
    pub use shuttle::thread::{Builder, JoinHandle, spawn, yield_now};
}

/// Hints to the processor; here a yield, for a spin that waits for another thread.
pub mod hint {
    pub use shuttle::hint::spin_loop;
}
