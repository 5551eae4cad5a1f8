//! Limits that the system sets, or others have set before.

use raddle::remote::{Env, Plan, Shared};

use crate::support::{LONG, processes};

/// A limit on memory that is lower than what the plan lets workers have, and that they may not raise.
pub(crate) fn a_memory_limit_that_is_lower_already() {
    const CAP_SYS_RESOURCE: libc::c_ulong = 24;
    // As users are who are not root. (Those who are that already may not do this, and need not.)
    // SAFETY: takes numbers.
    unsafe { libc::prctl(libc::PR_CAPBSET_DROP, CAP_SYS_RESOURCE, 0, 0, 0) };
    let limit = libc::rlimit { rlim_cur: 1 << 30, rlim_max: 1 << 30 };
    // SAFETY: the limit is read.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_DATA, &raw const limit) }, 0);
    for plan in [Plan::processes(1), Plan::loopback(1)] {
        let env = Env::new(plan.memory_limit(2 << 30).start_timeout(LONG)).unwrap();
        assert_eq!(env.spawn(|n| n + 1, 1).wait().unwrap(), 2);
        let fill = |len: usize| std::hint::black_box(vec![1_u8; len]).len();
        assert!(env.spawn(fill, 3 << 29).wait().is_err());
    }
}

/// Who writes a file that is longer than it may be is ended by the system: what workers share is none.
pub(crate) fn shared_values_longer_than_files_may_be() {
    let limit = libc::rlimit { rlim_cur: 100_000, rlim_max: 100_000 };
    // SAFETY: the limit is read.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
    let env = processes(2);
    let shared = env.share(vec![1_u32; 1 << 20]).unwrap();
    let sum = |shared: Shared<Vec<u32>>| shared.iter().sum::<u32>();
    assert_eq!(env.spawn(sum, shared.clone()).wait().unwrap(), 1 << 20);
    assert_eq!(env.spawn(sum, shared).wait().unwrap(), 1 << 20);
}
