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
    use std::cell::Cell;
    use std::io;
    use std::num::NonZero;

    use shuttle::rand::Rng;
    pub use shuttle::thread::{current, sleep, yield_now};

    thread_local! {
        static REFUSED: Cell<u32> = const { Cell::new(0) };
    }

    /// From now on so many of a hundred threads that a [`Builder`] is to start are refused, on this thread of the system.
    pub fn refuse(percent: u32) {
        REFUSED.set(percent);
    }

    /// As [`std::thread::available_parallelism`].
    pub fn available_parallelism() -> io::Result<NonZero<usize>> {
        Ok(NonZero::new(2).expect("it is two"))
    }

    /// As [`std::thread::Builder`].
    #[derive(Debug)]
    pub struct Builder(shuttle::thread::Builder);

    impl Builder {
        /// As of `std`.
        #[allow(clippy::new_without_default, reason = "as of `std`")]
        pub fn new() -> Builder {
            Builder(shuttle::thread::Builder::new())
        }

        /// As of `std`.
        #[must_use]
        pub fn name(self, name: String) -> Builder {
            Builder(self.0.name(name))
        }

        /// The models' threads have one size of stack.
        #[must_use]
        pub fn stack_size(self, _: usize) -> Builder {
            self
        }

        /// As of `std`, unless it is refused.
        pub fn spawn<F, T>(self, f: F) -> io::Result<JoinHandle<T>>
        where
            F: FnOnce() -> T + Send + 'static,
            T: Send + 'static,
        {
            let percent = REFUSED.get();
            if percent > 0 && shuttle::rand::thread_rng().gen_range(0..100) < percent {
                return Err(io::Error::from(io::ErrorKind::WouldBlock));
            }
            self.0.spawn(f).map(JoinHandle)
        }
    }

    /// As [`std::thread::JoinHandle`].
    #[derive(Debug)]
    pub struct JoinHandle<T>(shuttle::thread::JoinHandle<T>);

    impl<T> JoinHandle<T> {
        /// As of `std`.
        pub fn join(self) -> std::thread::Result<T> {
            self.0.join()
        }

        /// As of `std`.
        pub fn thread(&self) -> &shuttle::thread::Thread {
            self.0.thread()
        }

        /// Nobody can tell.
        pub fn is_finished(&self) -> bool {
            false
        }
    }

    /// As [`std::thread::spawn`].
    pub fn spawn<F, T>(f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        JoinHandle(shuttle::thread::spawn(f))
    }
}

/// Hints to the processor; here a yield, for a spin that waits for another thread.
pub mod hint {
    pub use shuttle::hint::spin_loop;
}
