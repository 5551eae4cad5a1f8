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

/// Calls a hook on a thread that is in some queue: unwinding would take it out of its frame, and leave it in the queue.
#[inline]
pub(crate) fn unwinds_nowhere(hook: impl FnOnce()) {
    struct Unwinds;
    impl Drop for Unwinds {
        fn drop(&mut self) {
            abort(format_args!("a hook of a thread that blocks has panicked"));
        }
    }
    let unwinds = Unwinds;
    hook();
    std::mem::forget(unwinds);
}

/// Says why, and ends the process.
pub fn abort(why: Arguments<'_>) -> ! {
    say(why);
    std::process::abort();
}
