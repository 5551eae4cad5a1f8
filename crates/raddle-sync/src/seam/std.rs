//! The seam's real side: `std`.

/// Atomic integers, flags and pointers.
pub mod atomic {
    pub use std::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering,
        fence,
    };
}

/// The cell that shared mutable memory lives in.
pub mod cell {
    pub use crate::seam::plain_cell::UnsafeCell;
}

/// Starting and yielding threads.
pub mod thread {
    pub use std::thread::{
        Builder, JoinHandle, available_parallelism, current, sleep, spawn, yield_now,
    };
}

/// Hints to the processor.
pub mod hint {
    pub use std::hint::spin_loop;
}
