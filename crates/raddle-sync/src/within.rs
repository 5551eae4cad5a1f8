//! What the running code is within, such as the making of a value: known also to the forks and the tasks of scopes that it
//! waits for, whichever threads run them, but not to what it only starts.
//!
//! This crate knows of one thread only. Whoever brings forks along says how they inherit.

use std::cell::Cell;
use std::ptr;
use std::sync::OnceLock;

/// How forks inherit what the code that forks is within.
#[derive(Clone, Copy, Debug)]
pub struct Inheritance {
    /// What the running code is within, or null.
    pub current: fn() -> *const (),
    /// Calls the closure, once, within what the pointer points to.
    pub run: fn(*const (), &mut dyn FnMut()),
}

// One for the process, of the standard library under models too.
static HOOKS: OnceLock<Inheritance> = OnceLock::new();

crate::thread_local! {
    /// As long as nobody has said how forks inherit.
    static CURRENT: Cell<*const ()> = const { Cell::new(ptr::null()) };
}

/// Sets how forks inherit, once; later calls change nothing.
///
/// # Safety
///
/// What `current` gives is the pointer of the innermost [`run`] that has not returned, or null.
pub unsafe fn set_inheritance(hooks: Inheritance) {
    let _ = HOOKS.set(hooks);
}

/// What the running code is within: the pointer of the innermost [`run`], which has not returned, or null.
pub fn current() -> *const () {
    match HOOKS.get() {
        Some(hooks) => (hooks.current)(),
        None => CURRENT.with(Cell::get),
    }
}

/// Calls `f` within what the pointer points to.
///
/// # Safety
///
/// Whoever has set what [`current`] gives reads it: the pointer is null, or to what they take it for, until `f` has returned.
///
/// ```
/// use raddle_sync::within;
/// let outer = 5;
/// // SAFETY: nobody here reads it.
/// let inside = unsafe { within::run((&raw const outer).cast(), within::current) };
/// assert!(std::ptr::eq(inside.cast(), &outer) && within::current().is_null());
/// ```
pub unsafe fn run<R>(what: *const (), f: impl FnOnce() -> R) -> R {
    struct Restore(*const ());
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.with(|current| current.set(self.0));
        }
    }
    match HOOKS.get() {
        Some(hooks) => {
            let (mut f, mut result) = (Some(f), None);
            (hooks.run)(what, &mut || result = f.take().map(|f| f()));
            result.expect("called once")
        }
        None => {
            let _restore = Restore(CURRENT.with(|current| current.replace(what)));
            f()
        }
    }
}
