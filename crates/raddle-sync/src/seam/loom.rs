//! The seam under loom: every allowed execution of a small model.

/// Atomic integers, flags and pointers, as loom models them.
pub mod atomic {
    pub use loom::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering,
        fence,
    };
}

/// The cell that shared mutable memory lives in, with every access checked.
pub mod cell {
    pub use loom::cell::UnsafeCell;
}

/// Starting and yielding the model's threads.
pub mod thread {
    pub use loom::thread::{Builder, JoinHandle, spawn, yield_now};
}

/// Hints to the processor; here a yield, for a spin that waits for another thread.
pub mod hint {
    pub use loom::hint::spin_loop;
}
