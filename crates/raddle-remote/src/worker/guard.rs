//! The guard: a thread of a worker that ends the worker and all that it has started when the driver is gone, and takes
//! interrupts while a task runs.
//!
//! The kernel's own way, a signal on the parent's death, is no use here: it comes when the parent's *thread* ends, and those of
//! pools do. The end of the driver shows in two ways, of which one may fail: its end of the socket is closed, unless a child of
//! its has a copy; and its process ends, unless it is seen from another namespace.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::frame::{Frames, Kind};
use crate::os::{self, poll, process};

/// Which attempt is which.
struct Attempts {
    /// The one that runs; 0 if none does.
    running: u64,
    /// The one that was interrupted last; at first one that never is.
    interrupted: u64,
}

/// Held until the process knows, too: what is said of an attempt must not come when the next has begun.
static ATTEMPTS: Mutex<Attempts> = Mutex::new(Attempts { running: 0, interrupted: u64::MAX });

fn attempts() -> MutexGuard<'static, Attempts> {
    ATTEMPTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A call begins, or with 0 is over. An interrupt of it may have come before, or comes later.
pub(super) fn begin(task: u64) {
    let mut attempts = attempts();
    attempts.running = task;
    raddle_core::interrupt_process(attempts.interrupted == task);
}

fn hear(task: u64) {
    let mut attempts = attempts();
    attempts.interrupted = task;
    if attempts.running == task {
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
    let thread = std::thread::Builder::new().name("raddle-guard".into()).stack_size(64 << 10);
    // Those that a task blocks, to wait for them, are not for this one; nor are handlers, for which it has no stack.
    process::without_signals(|| thread.spawn(guard))?;
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::{begin, hear};

    /// The interrupt of an attempt comes at any time about its end, and the next one is none the wiser.
    #[test]
    fn an_interrupt_at_the_end_does_not_reach_the_next() {
        let (asked, heard) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for task in 1..=ROUNDS {
                    while asked.load(Ordering::Acquire) < 2 * task {
                        std::hint::spin_loop();
                    }
                    hear(2 * task);
                    heard.store(2 * task, Ordering::Release);
                }
            });
            for task in 1..=ROUNDS {
                begin(2 * task);
                asked.store(2 * task, Ordering::Release);
                // From not at all to longer than it takes to hear.
                (0..task % 64).for_each(|_| std::hint::spin_loop());
                begin(0);
                begin(2 * task + 1);
                while heard.load(Ordering::Acquire) < 2 * task {
                    std::thread::yield_now();
                }
                assert!(!raddle_core::interrupted(), "task {task}");
            }
        });
    }

    const ROUNDS: u64 = 10_000;
}
