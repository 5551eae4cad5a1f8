//! Whether others have the processors.
//!
//! A thread that is sent to another processor runs there within some tens of microseconds if that is idle. If somebody has it, another
//! program as a rule, it waits for the end of a time slice, which takes milliseconds, where the system might have had it run at once
//! if left alone: on the processor of its waker, say, who is about to block. And the system has it run there again and again, as
//! threads are woken where they were. So once one has waited for long it leaves that processor again, and threads are left where the
//! system puts them for a while: for longer each time, until those that are sent are prompt.
//!
//! One that yields while it waits has its processor back at once if nobody else wants that, and else after a time slice; one that sleeps
//! has it as soon as it is woken. So where others have the processors it is better to sleep.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Within this time a thread comes to run on a processor that nobody else has, unless the host has taken that away.
const PROMPT: u64 = Duration::from_micros(300).as_nanos() as u64;
/// For how long none is sent then: at first, and at most.
const PAUSES: (u64, u64) = (200 * PROMPT, 6_400 * PROMPT);

/// Of all threads: they share the processors. (No step of a model's: there it stays empty.)
pub static CROWD: Crowd = Crowd::new();

/// Whether others have the processors, by what came of waiting for one. Times are in nanoseconds, as [`now`] gives them.
#[derive(Debug)]
pub struct Crowd {
    until: AtomicU64,
    pause: AtomicU64,
}

impl Default for Crowd {
    fn default() -> Crowd {
        Crowd::new()
    }
}

impl Crowd {
    /// Nobody, as far as is known.
    pub const fn new() -> Crowd {
        Crowd { until: AtomicU64::new(0), pause: AtomicU64::new(0) }
    }

    /// Whether threads are better left where they are, and better sleep than yield.
    pub fn is_there(&self, now: u64) -> bool {
        // ORD: a hint.
        now < self.until.load(Ordering::Relaxed)
    }

    /// A thread that was sent to another processor at that time runs there now. True: it had to wait for it.
    pub(crate) fn note_arrival(&self, sent: u64, now: u64) -> bool {
        let late = self.note_wait(sent, now);
        // ORD: hints, here and below; a lost update does no harm.
        let pause = self.pause.load(Ordering::Relaxed);
        if !late && pause > 0 {
            self.pause.store(pause - pause.div_ceil(4), Ordering::Relaxed);
        }
        late
    }

    /// A thread has yielded since, for a moment as it meant. True: it did not have its processor back as soon.
    pub fn note_wait(&self, since: u64, now: u64) -> bool {
        let late = !cfg!(raddle_model) && now.saturating_sub(since) >= PROMPT;
        if late {
            let longer = (2 * self.pause.load(Ordering::Relaxed)).clamp(PAUSES.0, PAUSES.1);
            self.pause.store(longer, Ordering::Relaxed);
            self.until.store(now + longer, Ordering::Relaxed);
        }
        late
    }
}

/// In nanoseconds, since it was asked for first, or a moment before: never 0.
pub fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64 + 1
}

#[cfg(all(test, not(raddle_model)))]
mod tests {
    use super::*;

    #[test]
    fn who_waits_long_has_others_left_alone_for_longer_each_time() {
        let crowd = Crowd::new();
        let (mut now, (first, most)) = (PROMPT, PAUSES);
        assert!(!crowd.note_arrival(now - PROMPT + 1, now) && !crowd.is_there(now));
        for pause in [1, 2, 4, 8, 16, 32, 32].map(|times| times * first) {
            assert!(crowd.note_arrival(now - PROMPT, now));
            assert!(crowd.is_there(now + pause - 1));
            now += pause;
            assert!(!crowd.is_there(now));
        }
        // It gets better bit by bit, and does not stay so for good.
        crowd.note_arrival(now, now);
        crowd.note_arrival(now - PROMPT, now);
        assert!(crowd.is_there(now + most - 1));
        now += most;
        assert!((0..100).all(|_| !crowd.note_arrival(now, now)));
        assert!(!crowd.is_there(now));
        crowd.note_arrival(now - PROMPT, now);
        assert!(!crowd.is_there(now + first));
    }

    #[test]
    fn a_yield_that_lasts_tells_of_others_and_a_short_one_of_nothing() {
        let crowd = Crowd::new();
        assert!(!crowd.note_wait(1, PROMPT) && !crowd.is_there(PROMPT));
        let late = 1 + PROMPT;
        assert!(crowd.note_wait(1, late) && crowd.is_there(late + PAUSES.0 - 1));
        let later = late + PAUSES.0;
        assert!(!crowd.is_there(later));
        (0..100).for_each(|_| assert!(!crowd.note_wait(later, later)));
        assert!(crowd.note_wait(later, later + PROMPT));
        assert!(crowd.is_there(later + PROMPT + 2 * PAUSES.0 - 1));
    }
}
