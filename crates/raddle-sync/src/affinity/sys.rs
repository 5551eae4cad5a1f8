//! What Linux tells of a thread's processors, and does with them.

pub(crate) type Thread = libc::pid_t;

/// The calling thread.
pub(crate) const THIS: Thread = 0;

/// A set of processors.
#[derive(Clone, Copy)]
pub(crate) struct Set(libc::cpu_set_t);

const SIZE: usize = size_of::<libc::cpu_set_t>();
/// `SCHED_DEADLINE`, whose threads may not be confined at all.
const DEADLINE: i32 = 6;
/// `SCHED_RESET_ON_FORK`, which a program's lock file may have a `libc` from before.
const RESET_ON_FORK: i32 = 0x4000_0000;

impl Set {
    pub(crate) fn empty() -> Set {
        // SAFETY: an array of integers, for which all zeroes is the empty set.
        Set(unsafe { std::mem::zeroed() })
    }

    /// All that there are, and that may come.
    pub(crate) fn all() -> Set {
        let mut all = Set::empty();
        // SAFETY: an array of integers, whose bits are the set's.
        unsafe { (&raw mut all.0).cast::<u8>().write_bytes(0xff, SIZE) };
        all
    }

    pub(crate) fn len(&self) -> usize {
        // SAFETY: an array of integers of this size, whose bits are the set's.
        let bytes = unsafe { (&raw const self.0).cast::<[u8; SIZE]>().read() };
        bytes.iter().map(|byte| byte.count_ones() as usize).sum()
    }

    /// Of these the first ones.
    #[cfg(test)]
    pub(crate) fn first(&self, most: usize) -> Set {
        let mut rest = *self;
        for cpu in (0..8 * SIZE).rev() {
            if rest.len() > most {
                // SAFETY: in bounds.
                unsafe { libc::CPU_CLR(cpu, &mut rest.0) };
            }
        }
        rest
    }

    #[cfg(test)]
    pub(crate) fn minus(&self, other: &Set) -> Set {
        let mut rest = *self;
        for cpu in 0..8 * SIZE {
            // SAFETY: in bounds.
            if unsafe { libc::CPU_ISSET(cpu, &other.0) } {
                // SAFETY: in bounds.
                unsafe { libc::CPU_CLR(cpu, &mut rest.0) };
            }
        }
        rest
    }

    pub(crate) fn equals(&self, other: &Set) -> bool {
        // SAFETY: compares two sets.
        unsafe { libc::CPU_EQUAL(&self.0, &other.0) }
    }
}

impl std::fmt::Debug for Set {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Set")
    }
}

pub(crate) fn current_thread() -> Thread {
    // The call itself: glibc has had the function only since 2.30, and Rust's programs run on 2.17.
    // SAFETY: no arguments, no effects.
    unsafe { libc::syscall(libc::SYS_gettid) as Thread }
}

/// Where the thread may run.
pub(crate) fn affinity(thread: Thread) -> Option<Set> {
    let mut allowed = Set::empty();
    // SAFETY: writes at most `SIZE` bytes to a set of that size.
    let failed = unsafe { libc::sched_getaffinity(thread, SIZE, &mut allowed.0) } != 0;
    (!failed).then_some(allowed)
}

#[inline]
pub(crate) fn processor() -> Option<usize> {
    // SAFETY: no arguments, no effects.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// Whether it has a real-time policy.
pub(crate) fn is_realtime(thread: Thread) -> bool {
    // The call itself: musl's function always fails.
    // SAFETY: no pointers.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, thread) } as i32;
    matches!(policy & !RESET_ON_FORK, libc::SCHED_FIFO | libc::SCHED_RR | DEADLINE)
}

/// `affinity`, and that without the calling thread's processor, if anything is left.
pub(crate) fn without_this_processor(thread: Thread) -> Option<(Set, Set)> {
    let cpu = processor()?;
    let allowed = affinity(thread).filter(|_| cpu < 8 * SIZE)?;
    let mut rest = allowed;
    // SAFETY: in bounds, as just tested.
    unsafe { libc::CPU_CLR(cpu, &mut rest.0) };
    (rest.len() > 0).then_some((allowed, rest))
}

/// Whether it worked. Refused, the thread wakes wherever the system likes: as without us.
pub(crate) fn set_affinity(thread: Thread, set: &Set) -> bool {
    // SAFETY: reads `SIZE` bytes of a set of that size.
    unsafe { libc::sched_setaffinity(thread, SIZE, &set.0) == 0 }
}
