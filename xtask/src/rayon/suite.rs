//! rayon-core's unit tests, through its public API. Generated: see `xtask/src/rayon.rs`.

#![allow(warnings)]

pub use rayon_core::*;

pub mod docs;
#[cfg(test)]
mod stops;
#[cfg(test)]
mod test;

/// What the tests use of rayon-core's insides.
#[cfg(test)]
pub(crate) mod unwind {
    use std::panic::{catch_unwind, AssertUnwindSafe};

    pub(crate) fn halt_unwinding<R>(f: impl FnOnce() -> R) -> std::thread::Result<R> {
        catch_unwind(AssertUnwindSafe(f))
    }
}

/// As above.
#[cfg(test)]
pub(crate) mod registry {
    pub(crate) fn in_worker<R: Send>(f: impl FnOnce((), ()) -> R + Send) -> R {
        crate::scope(|_| f((), ()))
    }
}

#[cfg(test)]
#[path = ""]
mod tests_of_broadcast {
    #[path = "broadcast/test.rs"]
    mod test;
}

#[cfg(test)]
#[path = ""]
mod tests_of_join {
    #[allow(unused_imports)]
    use crate::*;
    #[path = "join/test.rs"]
    mod test;
}

#[cfg(test)]
#[path = ""]
mod tests_of_scope {
    #[path = "scope/test.rs"]
    mod test;
}

#[cfg(test)]
#[path = ""]
mod tests_of_spawn {
    #[allow(unused_imports)]
    use crate::*;
    #[path = "spawn/test.rs"]
    mod test;
}

#[cfg(test)]
#[path = ""]
mod tests_of_thread_pool {
    #[path = "thread_pool/test.rs"]
    mod test;
}
