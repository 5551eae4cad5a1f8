//! Where threads may run, as Linux says and is told.

pub(super) type Thread = libc::pid_t;

/// A set of processors.
#[derive(Clone, Copy)]
pub(super) struct Set(libc::cpu_set_t);

const SIZE: usize = size_of::<libc::cpu_set_t>();

impl Set {
    pub(super) fn empty() -> Set {
        // SAFETY: an array of integers, for which all zeroes is the empty set.
        Set(unsafe { std::mem::zeroed() })
    }

    pub(super) fn len(&self) -> usize {
        // SAFETY: counts the bits of a set.
        unsafe { libc::CPU_COUNT(&self.0) as usize }
    }

    #[cfg(test)]
    pub(super) fn minus(&self, other: &Set) -> Set {
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

    pub(super) fn equals(&self, other: &Set) -> bool {
        // SAFETY: compares two sets.
        unsafe { libc::CPU_EQUAL(&self.0, &other.0) }
    }
}

impl std::fmt::Debug for Set {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Set")
    }
}

pub(super) fn current_thread() -> Thread {
    // SAFETY: no arguments, no effects.
    unsafe { libc::gettid() }
}

/// Where the thread may run; 0: the calling one.
pub(super) fn affinity(thread: Thread) -> Option<Set> {
    let mut allowed = Set::empty();
    // SAFETY: writes at most `SIZE` bytes to a set of that size.
    let failed = unsafe { libc::sched_getaffinity(thread, SIZE, &mut allowed.0) } != 0;
    (!failed).then_some(allowed)
}

#[inline]
pub(super) fn processor() -> Option<usize> {
    // SAFETY: no arguments, no effects.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// The same, and that without the calling thread's processor, if anything is left.
pub(super) fn without_this_processor(thread: Thread) -> Option<(Set, Set)> {
    let cpu = processor()?;
    let allowed = affinity(thread).filter(|_| cpu < 8 * SIZE)?;
    let mut rest = allowed;
    // SAFETY: in bounds, as just tested.
    unsafe { libc::CPU_CLR(cpu, &mut rest.0) };
    (rest.len() > 0).then_some((allowed, rest))
}

/// The same, and the calling thread's processor, if it is one of several.
pub(super) fn this_processor(thread: Thread) -> Option<(Set, Set)> {
    let cpu = processor()?;
    let allowed = affinity(thread).filter(|all| cpu < 8 * SIZE && all.len() > 1)?;
    let mut here = Set::empty();
    // SAFETY: in bounds, as just tested.
    unsafe { libc::CPU_SET(cpu, &mut here.0) };
    // SAFETY: as above.
    unsafe { libc::CPU_ISSET(cpu, &allowed.0) }.then_some((allowed, here))
}

/// Whether it worked. Refused, the thread wakes wherever the system likes: as without us.
pub(super) fn set_affinity(thread: Thread, set: &Set) -> bool {
    // SAFETY: reads `SIZE` bytes of a set of that size.
    unsafe { libc::sched_setaffinity(thread, SIZE, &set.0) == 0 }
}
