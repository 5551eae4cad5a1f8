//! A program that is recorded by the environment ends its trace also if Ctrl-C or SIGTERM ends it.
//!
//! Nothing runs at the exit of a process that a signal ends. So while `RADDLE_TRACE` names a file, the first SIGINT or SIGTERM
//! wakes a thread that writes what is yet to be written, and then ends the process as the signal would have; a second one ends it at once.
//! This is for signals that would end the process: not for one that the program ignores or heeds when its first pool is built, nor
//! for one that it heeds by the time it comes, and has its handler call ours as the one before. All that the handler does is to write
//! a byte to a pipe, which leaves `errno` alone.

use std::fs::File;
use std::io::Read;
use std::os::fd::FromRawFd;
use std::sync::OnceLock;

use libc::{c_int, pid_t};
use raddle_sync::start;
use raddle_sync::thread::Builder;

/// What ends a process that does not heed it, and is sent by people and supervisors.
const SIGNALS: [c_int; 2] = [libc::SIGINT, libc::SIGTERM];

/// The pipe's end that the handler writes to, and the process whose pipe it is.
static TOLD: OnceLock<(c_int, pid_t)> = OnceLock::new();

/// Has `save` called before a signal ends the process.
pub(super) fn before_a_signal_ends_it(save: fn()) {
    let Some([reader, writer]) = pipe() else { return };
    // SAFETY: ours, and nobody else's.
    let mut reader = unsafe { File::from_raw_fd(reader) };
    let wait = move || {
        let mut signal = [0];
        while reader.read_exact(&mut signal).is_ok() {
            end(signal[0].into(), save);
        }
    };
    // SAFETY: takes no memory.
    let process = unsafe { libc::getpid() };
    let waits = start(Builder::new().name("raddle-trace".into()), Box::new(wait)).is_ok();
    if waits && TOLD.set((writer, process)).is_ok() {
        SIGNALS.into_iter().filter(|&signal| is_default(signal)).for_each(|signal| {
            set(signal, tell as extern "C" fn(c_int) as libc::sighandler_t);
        });
    }
}

/// A pipe's ends to read from and to write to, which programs that this one starts do not have.
fn pipe() -> Option<[c_int; 2]> {
    let mut ends = [0; 2];
    #[cfg(any(target_os = "linux", target_os = "android"))]
    // SAFETY: room for two.
    let made = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) };
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    // SAFETY: room for two.
    let made = unsafe { libc::pipe(ends.as_mut_ptr()) };
    if made != 0 {
        return None;
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    for end in ends {
        // SAFETY: takes no memory.
        unsafe { libc::fcntl(end, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    Some(ends)
}

/// Saves, and ends the process by the signal, if that is what the signal does by now.
fn end(signal: c_int, save: fn()) {
    // Ours was the one to be called, and with that the default one is back. Else somebody else's has called it.
    if !is_default(signal) {
        return;
    }
    // No signal is to wait for the trace a second time.
    SIGNALS.into_iter().filter(|&signal| is_ours(signal)).for_each(|signal| {
        set(signal, libc::SIG_DFL);
    });
    save();
    // Whoever built the first pool may have blocked it, and so this thread has.
    // SAFETY: of numbers.
    let mut only: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: a set.
    unsafe { libc::sigemptyset(&mut only) };
    // SAFETY: a set, and a signal that there is.
    unsafe { libc::sigaddset(&mut only, signal) };
    // SAFETY: a set, and no room for the one before.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &only, std::ptr::null_mut()) };
    // SAFETY: takes no memory.
    unsafe { libc::raise(signal) };
}

fn is_default(signal: c_int) -> bool {
    handler_of(signal) == Some(libc::SIG_DFL)
}

fn is_ours(signal: c_int) -> bool {
    handler_of(signal) == Some(tell as extern "C" fn(c_int) as libc::sighandler_t)
}

fn handler_of(signal: c_int) -> Option<libc::sighandler_t> {
    // SAFETY: of numbers and pointers that may be null.
    let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a signal that there is, and room for what it has.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &mut old) };
    (asked == 0).then_some(old.sa_sigaction)
}

fn set(signal: c_int, handler: libc::sighandler_t) {
    // SAFETY: of numbers and pointers that may be null: nothing is blocked meanwhile.
    let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
    new.sa_sigaction = handler;
    // Once called it is the default one again; calls that were waiting go on.
    new.sa_flags = libc::SA_RESETHAND | libc::SA_RESTART;
    // SAFETY: the default, or a handler that calls nothing but what may be called in one.
    unsafe { libc::sigaction(signal, &new, std::ptr::null_mut()) };
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
        _ if is_default(signal) => {
            // SAFETY: takes no memory; it is delivered when this handler returns, to the default one.
            unsafe { libc::raise(signal) };
        }
        _ => {}
    }
}
