//! The clock that stamps events.

use std::sync::OnceLock;
use std::time::Instant;

use raddle_trace::ClockPair;

fn epoch() -> Instant {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    *EPOCH.get_or_init(Instant::now)
}

/// Both clocks, as near to one moment as three tries get.
pub(crate) fn pair() -> ClockPair {
    let nanos = || epoch().elapsed().as_nanos() as u64;
    let tries = (0..3).map(|_| {
        let (before, nanos, after) = (now(), nanos(), now());
        (
            after.saturating_sub(before),
            ClockPair { tsc: before + (after - before.min(after)) / 2, nanos },
        )
    });
    tries.min_by_key(|pair| pair.0).map_or(ClockPair { tsc: 0, nanos: 0 }, |pair| pair.1)
}

/// The processor's time stamp counter where it runs evenly, otherwise the system's clock.
#[inline]
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) fn now() -> u64 {
    use raddle_sync::atomic::{AtomicU8, Ordering};
    /// 0: not known yet, 1: use the counter, 2: do not.
    static COUNTER: AtomicU8 = AtomicU8::new(0);
    // ORD: whoever finds out finds the same.
    match COUNTER.load(Ordering::Relaxed) {
        1 => counter(),
        2 => epoch().elapsed().as_nanos() as u64,
        _ => {
            COUNTER.store(if is_invariant() { 1 } else { 2 }, Ordering::Relaxed);
            now()
        }
    }
}

#[inline(always)]
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has it, and no system that this runs on forbids it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cold]
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn is_invariant() -> bool {
    #[allow(unused_unsafe, reason = "it is safe in newer versions of Rust")]
    // SAFETY: every x86-64 processor has it.
    let cpuid = |leaf| unsafe { std::arch::x86_64::__cpuid(leaf) };
    cpuid(0x8000_0000).eax >= 0x8000_0007 && cpuid(0x8000_0007).edx & (1 << 8) != 0
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(crate) fn now() -> u64 {
    epoch().elapsed().as_nanos() as u64
}

/// The processor time that this thread has had, in tenths of a microsecond: it wraps round after some minutes. None where
/// the system does not say.
#[cfg(all(unix, not(miri)))]
pub(crate) fn thread_time() -> Option<u32> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is there to be written.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    (failed == 0).then(|| ((time.tv_sec as u64) * 10_000_000 + (time.tv_nsec as u64) / 100) as u32)
}

#[cfg(not(all(unix, not(miri))))]
pub(crate) fn thread_time() -> Option<u32> {
    None
}
