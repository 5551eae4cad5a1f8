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

/// Says why, and ends the process.
pub fn abort(why: Arguments<'_>) -> ! {
    say(why);
    std::process::abort();
}
