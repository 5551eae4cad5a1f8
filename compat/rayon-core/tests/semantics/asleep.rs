//! Which threads sleep.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// This thread, as the system's list of threads has it.
pub(crate) fn here() -> PathBuf {
    let link = std::fs::read_link("/proc/thread-self").unwrap_or_else(|_| "none".into());
    Path::new("/proc").join(link)
}

/// Blocks until a thread sleeps; where the system does not tell, for a while: should that take longer, a test shows less, and
/// passes.
pub(crate) fn until_asleep(thread: &Path) {
    let asleep = |stat: String| stat.rsplit(") ").next().is_some_and(|it| it.starts_with('S'));
    while let Ok(stat) = std::fs::read_to_string(thread.join("stat")) {
        if asleep(stat) {
            return;
        }
        thread::yield_now();
    }
    thread::sleep(Duration::from_millis(100));
}
