//! Of which environments the code that a thread runs is a task, or follows one: to wait for all of those would be to wait for itself.

use std::cell::RefCell;

thread_local! {
    static WITHIN: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Calls `f`, which is such code of the environment of this key.
pub(crate) fn within<R>(key: usize, f: impl FnOnce() -> R) -> R {
    struct Left;
    impl Drop for Left {
        fn drop(&mut self) {
            _ = WITHIN.try_with(|keys| keys.borrow_mut().pop());
        }
    }
    // A thread that ends may have an environment among its locals, and none of these any more: hence `try_with`.
    _ = WITHIN.try_with(|keys| keys.borrow_mut().push(key));
    let _left = Left;
    f()
}

pub(crate) fn is_within(key: usize) -> bool {
    WITHIN.try_with(|keys| keys.borrow().contains(&key)).unwrap_or(false)
}
