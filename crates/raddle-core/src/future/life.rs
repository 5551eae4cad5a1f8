//! Whether memory is still there, and who uses what is in it: watched under models, nothing otherwise.

#[cfg(not(raddle_model))]
pub(crate) use self::real::Life;
#[cfg(raddle_model)]
pub(crate) use self::watched::Life;

#[cfg(not(raddle_model))]
mod real {
    /// Part of what is shared by protocol. It takes no room and does nothing.
    #[derive(Debug)]
    pub(crate) struct Life;

    impl Life {
        #[inline(always)]
        pub(crate) fn new() -> Life {
            Life
        }

        /// Before each use of what this is part of.
        #[inline(always)]
        pub(crate) fn touch(&self) {}

        /// Before each use of a body or slot, which nobody else uses meanwhile.
        #[inline(always)]
        pub(crate) fn touch_body(&self) {}
    }
}

#[cfg(raddle_model)]
mod watched {
    use std::sync::atomic::{AtomicBool, Ordering};

    use raddle_sync::cell::UnsafeCell;

    /// Uses happen before the end; uses of the body happen one after the other.
    #[derive(Debug)]
    pub(crate) struct Life {
        whole: UnsafeCell<()>,
        body: UnsafeCell<()>,
        /// Beside the model: for a use that comes after the end in every order, and for shuttle.
        over: AtomicBool,
    }

    // SAFETY: there is nothing in the cells.
    unsafe impl Sync for Life {}

    impl Life {
        pub(crate) fn new() -> Life {
            let (whole, body) = (UnsafeCell::new(()), UnsafeCell::new(()));
            Life { whole, body, over: AtomicBool::new(false) }
        }

        pub(crate) fn touch(&self) {
            assert!(!self.over.load(Ordering::Relaxed), "used after it was freed");
            self.whole.with(|_| ());
        }

        pub(crate) fn touch_body(&self) {
            self.touch();
            self.body.with_mut(|_| ());
        }
    }

    impl Drop for Life {
        fn drop(&mut self) {
            // The first thing that goes wrong is the one to be reported.
            if !std::thread::panicking() {
                assert!(!self.over.swap(true, Ordering::Relaxed), "freed twice");
                self.whole.with_mut(|_| ());
            }
        }
    }
}
