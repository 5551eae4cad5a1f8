//! Whether a file was written since this process began: what a recording finds there is then a child's that has ended, or this very process's of
//! before `exec`, which is the same process with the same start.
//!
//! A file that an earlier run left is older than the process. Of two clocks that differ, or a file that somebody else has just written, nothing
//! worse comes than a file of one's own.

use std::path::Path;

/// Whether there is something in the file that was written since. False where the system does not say.
#[cfg(target_os = "linux")]
pub(super) fn wrote_since(path: &Path) -> bool {
    let written = || {
        let file = std::fs::metadata(path).ok().filter(|file| file.is_file() && file.len() > 0)?;
        let age = age()?;
        // Of the future: another clock, or one that was put back.
        Some(file.modified().ok()?.elapsed().is_ok_and(|ago| ago < age))
    };
    written().unwrap_or(false)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn wrote_since(_: &Path) -> bool {
    false
}

/// How old this process is at least: the system counts starts in hundredths of a second.
#[cfg(target_os = "linux")]
fn age() -> Option<std::time::Duration> {
    use std::time::Duration;

    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // What comes after the name, which may have spaces: the state is the third field, and the start the 22nd.
    let start = stat.rsplit(") ").next()?.split(' ').nth(22 - 3)?.parse().ok()?;
    // A system that does not know it says 0.
    let start = Some(start).filter(|&hundredths: &u64| hundredths > 0)?;
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for a time.
    if unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut now) } != 0 {
        return None;
    }
    let now = Duration::new(now.tv_sec.try_into().ok()?, now.tv_nsec.try_into().ok()?);
    now.checked_sub(Duration::from_millis(10 * (start + 1)))
}

#[cfg(all(test, target_os = "linux", not(any(miri, raddle_model))))]
mod tests {
    use super::*;

    #[test]
    fn what_this_process_has_written_is_told_from_what_was_there() {
        let path = std::env::temp_dir().join(format!("raddle-began-{}", std::process::id()));
        // A file's time lags behind by a tick.
        while age().is_none_or(|age| age < std::time::Duration::from_millis(20)) {
            std::thread::yield_now();
        }
        assert!(!wrote_since(&path));
        std::fs::write(&path, "").unwrap();
        assert!(!wrote_since(&path), "nothing is in it");
        std::fs::write(&path, "trace").unwrap();
        assert!(wrote_since(&path));
        let file = std::fs::File::options().append(true).open(&path).unwrap();
        let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3600 * 24 * 365);
        file.set_modified(old).unwrap();
        assert!(!wrote_since(&path));
        std::fs::remove_file(&path).unwrap();
    }
}
