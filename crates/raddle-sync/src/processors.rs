//! How many processors there are for the calling thread.

use std::sync::{Mutex, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use crate::affinity::sys;

/// For so long it is taken for granted what the process's share of the machine is.
const TRUSTED: Duration = Duration::from_secs(1);

struct Known {
    /// Where a thread might run,
    allowed: sys::Set,
    /// so many there were for it,
    processors: usize,
    /// then.
    since: Instant,
}

/// As [`std::thread::available_parallelism`], and 1 where that is not known. What control groups leave to the process is read from
/// files, some twenty calls of the system; so it is at most once a second, for threads that may run on the same processors.
///
/// ```
/// assert!(raddle_sync::processors() >= 1);
/// ```
pub fn processors() -> usize {
    static KNOWN: Mutex<Option<Known>> = Mutex::new(None);
    let ask = || thread::available_parallelism().map_or(1, |n| n.get());
    let Some(allowed) = sys::affinity(sys::THIS) else { return ask() };
    // Not waited for: the one that has it may be in the parent of this process.
    let mut known = match KNOWN.try_lock() {
        Ok(known) => known,
        Err(TryLockError::Poisoned(known)) => PoisonError::into_inner(known),
        Err(TryLockError::WouldBlock) => return ask(),
    };
    let is_fresh =
        |known: &Known| known.since.elapsed() < TRUSTED && known.allowed.equals(&allowed);
    match &*known {
        Some(known) if is_fresh(known) => known.processors,
        _ => {
            let (processors, since) = (ask(), Instant::now());
            *known = Some(Known { allowed, processors, since });
            processors
        }
    }
}

#[cfg(all(test, target_os = "linux", not(any(miri, raddle_model))))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_is_confined_has_one_at_once() {
        let all = processors();
        assert_eq!(all, thread::available_parallelism().unwrap().get());
        assert_eq!(processors(), all);
        let confined = thread::spawn(|| {
            let Some((_, rest)) = sys::without_this_processor(sys::THIS) else { return };
            assert!(sys::set_affinity(sys::THIS, &rest));
            assert_eq!(processors(), thread::available_parallelism().unwrap().get());
        });
        confined.join().unwrap();
        assert_eq!(processors(), all);
    }
}
