//! Whether threads may be told where to run in this process.
//!
//! Filters of system calls (seccomp) may end a process for a call that its author has not foreseen, and nobody can ask them. systemd's
//! `SystemCallFilter=~@resources`, which hardened services have, is one that ends it for `sched_setaffinity`; a sandbox that a program
//! has made for itself may be another. Those of container engines let it pass. So where there is a filter, it is taken for one of the first kind
//! if systemd has started the process, or if it has renounced new privileges, as whoever installs a filter without the system's
//! has to. Then threads are left where the system puts them: a region that finds its pool asleep takes longer.

pub(super) use sys::{find_out, is_permitted};

#[cfg(all(target_os = "linux", not(any(miri, raddle_model))))]
mod sys {
    use std::sync::atomic::{AtomicU8, Ordering};

    const UNKNOWN: u8 = 0;
    const YES: u8 = 1;
    const NO: u8 = 2;

    static PERMITTED: AtomicU8 = AtomicU8::new(UNKNOWN);

    /// Once, before threads are moved.
    pub(in super::super) fn find_out() {
        // ORD: whoever finds out finds the same.
        if PERMITTED.load(Ordering::Relaxed) == UNKNOWN {
            let renounced = std::env::var("RADDLE_AFFINITY").is_ok_and(|value| value == "off");
            let permitted = !renounced && {
                let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
                super::permits(&status, std::env::var_os("INVOCATION_ID").is_some())
            };
            PERMITTED.store(if permitted { YES } else { NO }, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(in super::super) fn is_permitted() -> bool {
        PERMITTED.load(Ordering::Relaxed) == YES
    }
}

/// By what the system says of the process.
#[cfg(any(test, all(target_os = "linux", not(any(miri, raddle_model)))))]
fn permits(status: &str, by_systemd: bool) -> bool {
    let field = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.map(str::trim)
    };
    // 0: none; 1: hardly any call is allowed; 2: a filter.
    match field("Seccomp") {
        // No such file: the system may be another one, or it is hidden from a service.
        None if status.is_empty() => !by_systemd,
        None | Some("0") => true,
        Some("2") => !by_systemd && field("NoNewPrivs") == Some("0"),
        Some(_) => false,
    }
}

#[cfg(not(all(target_os = "linux", not(any(miri, raddle_model)))))]
mod sys {
    pub(in super::super) fn find_out() {}

    pub(in super::super) fn is_permitted() -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::permits;

    #[test]
    fn filters_are_told_apart_by_who_may_have_made_them() {
        let status = |filter: u32, renounced: u32| {
            format!(
                "Name:\tx\nNoNewPrivs:\t{renounced}\nSeccomp:\t{filter}\nSeccomp_filters:\t{filter}\n"
            )
        };
        for (filter, renounced, by_systemd, expected) in [
            (0, 0, false, true),
            // A service without a filter.
            (0, 1, true, true),
            // A container's.
            (2, 0, false, true),
            // A service's, and a sandbox's.
            (2, 0, true, false),
            (2, 1, false, false),
            (1, 0, false, false),
        ] {
            assert_eq!(permits(&status(filter, renounced), by_systemd), expected);
        }
        // Kernels without filters, and systems without such files.
        assert!(permits("Name:\tx\n", true) && permits("", false) && !permits("", true));
    }
}
