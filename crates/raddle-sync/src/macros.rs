//! Macros that hide what the model checkers cannot do in a `const`.

/// Declares a function that is `const` except under loom, whose primitives register themselves
/// with the running model and so cannot be built at compile time.
///
/// ```
/// # use raddle_sync::{const_fn, atomic::{AtomicU32, Ordering}};
/// struct Word(AtomicU32);
/// impl Word {
///     const_fn! {
///         /// A word of zero.
///         pub const fn new() -> Word { Word(AtomicU32::new(0)) }
///     }
/// }
/// assert_eq!(Word::new().0.load(Ordering::Relaxed), 0);
/// ```
#[cfg(not(raddle_loom))]
#[macro_export]
macro_rules! const_fn {
    ($(#[$meta:meta])* $vis:vis const fn $($rest:tt)*) => {
        $(#[$meta])* $vis const fn $($rest)*
    };
}

/// Declares a function that is `const` except under loom.
#[cfg(raddle_loom)]
#[macro_export]
macro_rules! const_fn {
    ($(#[$meta:meta])* $vis:vis const fn $($rest:tt)*) => {
        $(#[$meta])* $vis fn $($rest)*
    };
}

/// Declares a process-wide value that is built on first use; under a model checker it is built
/// anew for every execution of the model and torn down at its end, before thread-locals are.
///
/// ```
/// use raddle_sync::sync::Mutex;
/// raddle_sync::lazy_static! { static NAMES: Mutex<Vec<String>> = Mutex::new(Vec::new()); }
/// NAMES.lock().push("warp".to_string());
/// assert_eq!(NAMES.lock().len(), 1);
/// ```
#[macro_export]
macro_rules! lazy_static {
    ($(#[$meta:meta])* static $name:ident: $t:ty = $init:expr;) => {
        #[cfg(not(raddle_model))]
        $(#[$meta])*
        static $name: ::std::sync::LazyLock<$t> = ::std::sync::LazyLock::new(|| $init);
        #[cfg(raddle_loom)]
        $crate::__private::loom::lazy_static! { $(#[$meta])* static ref $name: $t = $init; }
        #[cfg(raddle_shuttle)]
        $crate::__private::shuttle::lazy_static! { $(#[$meta])* static ref $name: $t = $init; }
    };
}

/// Declares a thread-local with a `const` initialiser; under a model checker it belongs to the
/// model's thread.
///
/// ```
/// use std::cell::Cell;
/// raddle_sync::thread_local! { static DEPTH: Cell<u32> = const { Cell::new(0) }; }
/// DEPTH.with(|d| d.set(d.get() + 1));
/// assert_eq!(DEPTH.with(Cell::get), 1);
/// ```
#[macro_export]
macro_rules! thread_local {
    ($(#[$meta:meta])* $vis:vis static $name:ident: $t:ty = const { $init:expr };) => {
        #[cfg(not(raddle_model))]
        ::std::thread_local! { $(#[$meta])* $vis static $name: $t = const { $init }; }
        #[cfg(raddle_loom)]
        $crate::__private::loom::thread_local! { $(#[$meta])* $vis static $name: $t = $init; }
        #[cfg(raddle_shuttle)]
        $crate::__private::shuttle::thread_local! { $(#[$meta])* $vis static $name: $t = $init; }
    };
}
