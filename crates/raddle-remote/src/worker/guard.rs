//! The guard: a thread of a worker that ends the worker and all that it has started when the driver is gone, and takes
//! interrupts while a task runs.
//!
//! The kernel's own way, a signal on the parent's death, is no use here: it comes when the parent's *thread* ends, and those of
//! pools do. The end of the driver shows in two ways, of which one may fail: its end of the socket is closed, unless a child of
//! its has a copy; and its process ends, unless it is seen from another namespace.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::frame::{Frames, Kind};
use crate::os::{self, poll, process};

/// Which attempt was interrupted last; at first one that never is. (0 is none that runs.)
static INTERRUPTED: AtomicU64 = AtomicU64::new(u64::MAX);
/// Which attempt runs.
static RUNNING: AtomicU64 = AtomicU64::new(0);

/// A call begins. An interrupt of it may have come before, or comes later: whoever is second sees the other.
pub(super) fn begin(task: u64) {
    // ORD: SeqCst on both words, with `hear`: one of the two sees what the other has stored.
    RUNNING.store(task, Ordering::SeqCst);
    raddle_core::interrupt_process(INTERRUPTED.load(Ordering::SeqCst) == task);
}

fn hear(task: u64) {
    // ORD: as in `begin`.
    INTERRUPTED.store(task, Ordering::SeqCst);
    if RUNNING.load(Ordering::SeqCst) == task {
        raddle_core::interrupt_process(true);
    }
}

/// Ends the worker, and with it what it has started. (W3)
pub(super) fn end() -> ! {
    match process::leads_group() {
        true => process::kill_own_group(),
        false => std::process::abort(),
    }
}

pub(super) fn start(socket: &OwnedFd, control: OwnedFd, parent: OwnedFd) -> io::Result<()> {
    let socket = socket.as_raw_fd();
    let guard = move || {
        let _ = watch(socket, &control, &parent);
        end()
    };
    std::thread::Builder::new().name("raddle-guard".into()).stack_size(64 << 10).spawn(guard)?;
    Ok(())
}

/// Returns when the driver is gone.
fn watch(socket: i32, control: &OwnedFd, parent: &OwnedFd) -> io::Result<()> {
    let mut frames = Frames::new(1 << 16);
    loop {
        let [main, second, driver] = poll::poll(
            [
                (socket, libc::POLLRDHUP),
                (control.as_raw_fd(), libc::POLLIN),
                (parent.as_raw_fd(), libc::POLLIN),
            ],
            None,
        )?;
        if main != 0 || driver != 0 {
            return Ok(());
        }
        if second != 0 && frames.fill(|to| os::read(control, to))?.0 == 0 {
            return Ok(());
        }
        while let Some((header, _)) = frames.next().map_err(io::Error::other)? {
            if header.kind == Kind::Interrupt {
                hear(header.task);
            }
        }
    }
}
