//! A program that is recorded by the environment writes its trace also if Ctrl-C or SIGTERM ends it.
//!
//! Nothing runs at the exit of a process that a signal ends. So while `RADDLE_TRACE` names a file, and the program does not heed or
//! ignore these signals itself, the first of each wakes a thread that writes what there is, and then ends the process as
//! the signal would have. A second one ends it at once. The handler writes a byte to a pipe, which is all that a handler may do.

use std::fs::File;
use std::io::Read;
use std::os::fd::FromRawFd;
use std::sync::OnceLock;
use std::thread;

use libc::{c_int, pid_t};

/// The pipe's end that the handler writes to, and the process whose pipe it is.
static TOLD: OnceLock<(c_int, pid_t)> = OnceLock::new();

/// Has `save` called before a signal ends the process.
pub(super) fn before_a_signal_ends_it(save: fn()) {
    let mut ends = [0; 2];
    // SAFETY: room for two.
    if unsafe { libc::pipe(ends.as_mut_ptr()) } != 0 {
        return;
    }
    for end in ends {
        // A program that this one starts is to have neither.
        // SAFETY: takes no memory.
        unsafe { libc::fcntl(end, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    // SAFETY: ours, and nobody else's.
    let mut reader = unsafe { File::from_raw_fd(ends[0]) };
    let wait = move || {
        let mut signal = [0];
        if reader.read_exact(&mut signal).is_ok() {
            save();
            // By now its handler is the default one.
            // SAFETY: takes no memory.
            unsafe { libc::raise(signal[0].into()) };
        }
    };
    // SAFETY: takes no memory.
    let process = unsafe { libc::getpid() };
    let waits = thread::Builder::new().name("raddle-trace".into()).spawn(wait).is_ok();
    if waits && TOLD.set((ends[1], process)).is_ok() {
        [libc::SIGINT, libc::SIGTERM].into_iter().for_each(heed);
    }
}

/// Installs the handler, unless the program has one or ignores the signal.
fn heed(signal: c_int) {
    // SAFETY: of numbers and pointers that may be null.
    let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a signal that there is, and room for what it had.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &mut old) };
    if asked != 0 || old.sa_sigaction != libc::SIG_DFL {
        return;
    }
    let handler: extern "C" fn(c_int) = tell;
    old.sa_sigaction = handler as libc::sighandler_t;
    // Then it is the default one again; calls that were waiting go on.
    old.sa_flags = libc::SA_RESETHAND | libc::SA_RESTART;
    // SAFETY: a handler that calls nothing but what may be called in one.
    unsafe { libc::sigaction(signal, &old, std::ptr::null_mut()) };
}

extern "C" fn tell(signal: c_int) {
    let byte = signal as u8;
    // SAFETY: takes no memory.
    let process = unsafe { libc::getpid() };
    match TOLD.get() {
        Some(&(end, owner)) if owner == process => {
            // SAFETY: one byte that is there.
            _ = unsafe { libc::write(end, (&raw const byte).cast(), 1) };
        }
        // A child that was forked off has no such thread.
        _ => {
            // SAFETY: takes no memory; it is delivered when this handler returns, to the default one.
            unsafe { libc::raise(signal) };
        }
    }
}
