//! What raddle has to tell the user, on stderr.

use std::fmt::Arguments;
use std::io::Write as _;

/// Writes a line that begins with `raddle:` to stderr, at once. Where stderr cannot be written, nothing happens: `eprintln!` would panic,
/// and most of what there is to say comes up where nothing may unwind.
///
/// ```
/// raddle_sync::say(format_args!("{} threads would do", 2));
/// ```
pub fn say(what: Arguments<'_>) {
    let _ = std::io::stderr().write_all(format!("raddle: {what}\n").as_bytes());
}

/// Calls `f` where nothing may unwind: a panic of it says why, and ends the process.
///
/// ```
/// assert_eq!(raddle_sync::unwinds_nowhere("there is a guard already", || 7), 7);
/// ```
#[inline]
pub fn unwinds_nowhere<R>(why: &'static str, f: impl FnOnce() -> R) -> R {
    struct Unwinds(&'static str);
    impl Drop for Unwinds {
        fn drop(&mut self) {
            abort(format_args!("{}", self.0));
        }
    }
    let unwinds = Unwinds(why);
    let result = f();
    std::mem::forget(unwinds);
    result
}

/// What the process ends with if a hook panics on a thread that is in some queue: it would leave its frame, and stay in the queue.
pub(crate) const HOOK: &str = "a hook of a thread that blocks has panicked";

/// The name of the calling thread, if it has one. None as well where the thread's locals are gone, as in what a C library calls at
/// its very end: the standard library panics there, which is said on stderr, and goes no further (but that a panic hook which asks for the thread,
/// as a harness of tests may, ends the process).
///
/// ```
/// let named = std::thread::Builder::new().name("weft".into());
/// let name = named.spawn(raddle_sync::thread_name).unwrap().join().unwrap();
/// assert_eq!(name.as_deref(), Some("weft"));
/// ```
pub fn thread_name() -> Option<String> {
    let asked = std::panic::catch_unwind(|| std::thread::current().name().map(str::to_owned));
    asked.unwrap_or(None)
}

/// Says why, and ends the process.
pub fn abort(why: Arguments<'_>) -> ! {
    say(why);
    std::process::abort();
}
