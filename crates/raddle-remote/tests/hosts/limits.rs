//! Limits that the system sets, or others have set before.

use std::time::Duration;

use raddle::remote::{Env, Plan, RemoteError, Shared};

use crate::support::{LONG, belongings, processes};

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

/// Calls `f` on a thread for which nothing can be added to what is waited for, as where a user waits for too much already.
fn without_watches<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let is = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let end = (libc::BPF_RET | libc::BPF_K) as u16;
    let line = |code, k, jf| libc::sock_filter { code, jt: 0, jf, k };
    let mut filter = [
        // The number of the call, and the lower half of its second argument.
        line(load, 0, 0),
        line(is, libc::SYS_epoll_ctl as u32, 3),
        line(load, 24, 0),
        line(is, libc::EPOLL_CTL_ADD as u32, 1),
        line(end, libc::SECCOMP_RET_ERRNO | libc::ENOSPC as u32, 0),
        line(end, libc::SECCOMP_RET_ALLOW, 0),
    ];
    let filtered = move || {
        let program =
            libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr().cast() };
        // SAFETY: takes numbers.
        assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        // SAFETY: a program that is read; for this thread alone.
        let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) };
        assert_eq!(set, 0);
        f()
    };
    std::thread::scope(|scope| scope.spawn(filtered).join().unwrap())
}

/// A worker whose end nobody would hear of is none: that is said, and it is not left behind.
pub(crate) fn workers_that_cannot_be_heard() {
    let plan = Plan::processes(1).start_timeout(Duration::from_secs(1));
    let env = Env::new(plan).unwrap();
    let failed = without_watches(|| env.spawn(|n| n + 1, 1));
    let failed = failed.wait_timeout(LONG / 4).expect("an end").unwrap_err();
    assert!(matches!(failed.downcast_ref(), Some(RemoteError::Start(_))), "{failed}");
    assert!(failed.to_string().contains("No space left"), "{failed}");
    assert_eq!(belongings().2, 0);
    assert_eq!(env.spawn(|n| n + 1, 1).wait().unwrap(), 2);
}
