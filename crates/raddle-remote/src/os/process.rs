//! Processes: known by a descriptor, and ended in groups.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::OnceLock;

use super::{again, check, own};
use crate::error::Status;

/// A descriptor of a process: readable when it has ended.
pub(crate) fn open(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: takes and returns numbers.
    own(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as libc::c_int)
}

/// Whether the process is there: it runs, or waits to be reaped, so that its number is not another's.
fn is_there(process: &OwnedFd) -> bool {
    // Asks only.
    signal(process, 0)
}

/// Signals a process; whether it is there.
fn signal(process: &OwnedFd, signal: libc::c_int) -> bool {
    let no_info = std::ptr::null::<libc::siginfo_t>();
    let fd = process.as_raw_fd();
    // SAFETY: takes numbers, and reads nothing.
    unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, no_info, 0) == 0 }
}

/// For [`signal_group`]: since Linux 6.9. (libc has no name for it yet.)
const GROUP: libc::c_uint = 1 << 2;

/// Signals the group that a process leads or led, also when it was reaped by somebody else: a descriptor stands for the number as
/// long as it is this group's, and for none that is given to another later. False where the system cannot.
fn signal_group(process: &OwnedFd, signal: libc::c_int) -> bool {
    let no_info = std::ptr::null::<libc::siginfo_t>();
    let fd = process.as_raw_fd();
    // SAFETY: takes numbers, and reads nothing.
    let result = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, no_info, GROUP) };
    check(result as libc::c_int)
        .map_or_else(|why| why.raw_os_error() == Some(libc::ESRCH), |_| true)
}

/// Whether a group can be ended when the process that led it is gone.
pub(crate) fn signals_groups() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    *CAN.get_or_init(|| open(std::process::id()).is_ok_and(|own| signal_group(&own, 0)))
}

/// Ends a process that was made the leader of a group, and the group. As long as nobody else reaps it the caller must not either:
/// on systems without groups by descriptor its number is used.
pub(crate) fn end_group(process: &OwnedFd, pid: u32) {
    if !signal_group(process, libc::SIGKILL) && is_there(process) {
        kill_group(pid);
    }
    // It may have left the group.
    signal(process, libc::SIGKILL);
}

/// Ends the group of a process that leads one and [is there](is_there).
fn kill_group(pid: u32) {
    // SAFETY: takes and returns numbers; the group is that of a child which we have not reaped.
    unsafe { libc::killpg(pid as libc::pid_t, libc::SIGKILL) };
}

/// Ends this process's own group.
pub(crate) fn kill_own_group() -> ! {
    // SAFETY: as above.
    unsafe { libc::killpg(0, libc::SIGKILL) };
    std::process::abort()
}

/// Whether this process leads its group.
pub(crate) fn leads_group() -> bool {
    // SAFETY: it returns a number.
    let group = unsafe { libc::getpgid(0) };
    u32::try_from(group) == Ok(std::process::id())
}

/// Leaves a process behind that ends this one's group when this one has ended, by whatever: whoever kills it may not know of the
/// others. It is in the group itself, whose number so stays theirs. (Ray kills the children of an actor that ends, one by one; and
/// where the driver has workers reaped by the system, or by others, an old one cannot tell whose group it was.)
pub(crate) fn leave_mourner() -> io::Result<()> {
    let own = open(std::process::id())?;
    let fd = own.as_raw_fd();
    // SAFETY: the child makes system calls only, as must one of a process that may have other threads.
    match check(unsafe { libc::fork() })? {
        0 => {
            // It is nobody's child in the end, so that a task that waits for any child of its does not wait for this.
            // SAFETY: as above.
            match unsafe { libc::fork() } {
                0 => mourn(fd),
                // SAFETY: as above.
                -1 => unsafe { libc::_exit(1) },
                // SAFETY: as above.
                _ => unsafe { libc::_exit(0) },
            }
        }
        child => {
            let mut status = 0;
            again(|| {
                // SAFETY: room for a status.
                check(unsafe { libc::waitpid(child, &raw mut status, 0) })
            })?;
            if status == 0 { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
        }
    }
}

/// Nothing but system calls.
fn mourn(process: libc::c_int) -> ! {
    // Nothing is kept open, neither sockets nor pipes.
    for (first, last) in [(0, process - 1), (process + 1, libc::c_int::MAX)] {
        // SAFETY: nothing here uses them any more.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    }
    // What a task sends to its group is not for this one.
    // SAFETY: all zero is a set.
    let mut all: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: one set.
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: a set, and none to be given back.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut()) };
    let mut ended = libc::pollfd { fd: process, events: libc::POLLIN, revents: 0 };
    // SAFETY: one.
    while unsafe { libc::poll(&raw mut ended, 1, -1) } < 0 {}
    // SAFETY: takes and returns numbers.
    unsafe { libc::killpg(0, libc::SIGKILL) };
    // SAFETY: never returns.
    unsafe { libc::_exit(0) }
}

/// Reaps a process that has ended, and says how; none if it has not.
pub(crate) fn reap(process: &OwnedFd) -> Option<Status> {
    // SAFETY: all zero is one.
    let mut info: libc::siginfo_t = unsafe { mem::zeroed() };
    let options = libc::WEXITED | libc::WNOHANG;
    // SAFETY: room for one.
    let result = check(unsafe {
        libc::waitid(libc::P_PIDFD, process.as_raw_fd() as libc::id_t, &raw mut info, options)
    });
    if result.is_err() {
        // No child of ours, that is, not any more.
        return Some(Status::Unknown);
    }
    // SAFETY: `waitid` has filled it, or left it zero.
    let pid = unsafe { info.si_pid() };
    if pid == 0 {
        return None;
    }
    // SAFETY: as above.
    let status = unsafe { info.si_status() };
    Some(match info.si_code {
        libc::CLD_EXITED => Status::Exited(status),
        _ => Status::Signalled(status),
    })
}

/// Limits the memory that this process has for itself.
pub(crate) fn limit_memory(bytes: u64) -> io::Result<()> {
    let set = |bytes| {
        let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
        // SAFETY: the limit is read.
        check(unsafe { libc::setrlimit(libc::RLIMIT_DATA, &raw const limit) })
    };
    set(bytes).or_else(|error| {
        // There may be a lower one already, which most must not raise: that holds for this, too.
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: room for one.
        check(unsafe { libc::getrlimit(libc::RLIMIT_DATA, &raw mut limit) })?;
        if limit.rlim_max < bytes { set(limit.rlim_max) } else { Err(error) }
    })?;
    Ok(())
}

/// How long a file may be that this process writes.
pub(crate) fn longest_file() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: room for one.
    check(unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) })?;
    Ok(limit.rlim_cur)
}

/// Has signals do what they do by default: a parent's choice to ignore them is inherited, and so is what the thread has blocked that
/// happened to start this process.
pub(crate) fn default_signals() {
    for signal in [libc::SIGCHLD, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
        // SAFETY: first in `main`; no handler.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: all zero is a set.
    let mut none: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: a set.
    unsafe { libc::sigemptyset(&raw mut none) };
    block_signals(none);
}

/// Calls `f`, while which no signal comes to this thread; nor, ever, to those that it starts.
pub(crate) fn without_signals<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: all zero is a set.
    let mut all: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: a set.
    unsafe { libc::sigfillset(&raw mut all) };
    let before = block_signals(all);
    let result = f();
    block_signals(before);
    result
}

/// Has this thread sent none of these, and all others; returns which it was not sent before.
fn block_signals(set: libc::sigset_t) -> libc::sigset_t {
    let mut before = set;
    // SAFETY: a set, and room for another.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const set, &raw mut before) };
    before
}

/// Ends this process, and does nothing else.
pub(crate) fn exit_at_once(code: libc::c_int) -> ! {
    // SAFETY: takes a number.
    unsafe { libc::_exit(code) }
}

/// The machine's name.
pub(crate) fn host() -> String {
    let mut name = [0_u8; 256];
    // SAFETY: room for so much, and a zero behind it.
    unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    let len = name.iter().position(|&byte| byte == 0).unwrap_or(0);
    String::from_utf8_lossy(&name[..len]).into_owned()
}

/// Writes out what C has buffered of standard output. Not of all its streams: each is locked as long as somebody reads it, which may
/// be a thread that a task has left.
pub(crate) fn flush_c() {
    unsafe extern "C" {
        static stdout: *mut libc::FILE;
    }
    // SAFETY: C's own, which is there from the beginning.
    let stream = unsafe { stdout };
    // SAFETY: a stream.
    unsafe { libc::fflush(stream) };
}
