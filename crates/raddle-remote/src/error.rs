//! [`RemoteError`] and [`Death`]: what can go wrong on the way to a task and back.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why a task of an environment has no value, or why there is no environment.
///
/// A future fails with one of the kind [`Error`](raddle_core::FailureKind::Error):
///
/// ```
/// use raddle::remote::{Env, Plan, RemoteError};
///
/// // Processes need `init` at the start of `main`, which this example lacks.
/// # #[cfg(target_os = "linux")]
/// assert!(matches!(Env::new(Plan::processes(2)), Err(RemoteError::NotInitialised)));
/// ```
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// The process that ran the task ended.
    #[error("{0}")]
    Died(Death),
    /// Bytes are no value of the type that they should be.
    #[error("cannot decode {type_name}: {reason}")]
    Decode {
        /// The type.
        type_name: String,
        /// What serde says. (Not what a `Serialize` or `Deserialize` of your own says by `custom`, of which the format keeps
        /// nothing.)
        reason: String,
    },
    /// A value cannot be made bytes of.
    #[error("cannot encode {type_name}: {reason}")]
    Encode {
        /// The type.
        type_name: String,
        /// What serde says. (Not what a `Serialize` or `Deserialize` of your own says by `custom`, of which the format keeps
        /// nothing.)
        reason: String,
    },
    /// The worker is another program, or another build of this one.
    #[error("the worker is another build of this program: {0}")]
    BuildMismatch(String),
    /// The function lies in a shared library, whose address says nothing elsewhere.
    #[error("{0} is not in the program itself, but in a shared library")]
    NotInProgram(String),
    /// [`init`](crate::init) was not called: first in `main`, or [`init_tests!`](crate::init_tests) in a file of tests.
    #[error(
        "raddle::remote::init() was not called: it belongs first in main (in tests: init_tests!())"
    )]
    NotInitialised,
    /// No worker could be started.
    #[error("cannot start a worker: {0}")]
    Start(String),
    /// A message is longer than [`Plan::max_frame`](crate::Plan::max_frame); it was not sent.
    #[error("{len} bytes are more than a message may have, {limit}")]
    TooLarge {
        /// How many bytes it has.
        len: u64,
        /// How many it may have.
        limit: u64,
    },
    /// A worker sent what it must not.
    #[error("a worker does not keep to the protocol: {0}")]
    Protocol(String),
    /// The engine cannot be reached, or is not what it should be.
    #[error("the engine: {0}")]
    Engine(String),
}

/// How the process that ran a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Status {
    /// It exited with this code.
    Exited(i32),
    /// It was ended by this signal.
    Signalled(i32),
    /// Its machine, or what leads there, is gone.
    Lost,
    /// It is gone, and somebody else took its status: a `wait` for any child in this process, or an ignored `SIGCHLD`.
    Unknown,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Status::Exited(code) => write!(f, "exited with code {code}"),
            Status::Signalled(signal) => match signal_name(signal) {
                Some(name) => write!(f, "was ended by {name} (signal {signal})"),
                None => write!(f, "was ended by signal {signal}"),
            },
            Status::Lost => f.write_str("was lost"),
            Status::Unknown => f.write_str("ended, and somebody else took its status"),
        }
    }
}

fn signal_name(signal: i32) -> Option<&'static str> {
    const NAMES: [&str; 15] = [
        "SIGHUP", "SIGINT", "SIGQUIT", "SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE",
        "SIGKILL", "SIGUSR1", "SIGSEGV", "SIGUSR2", "SIGPIPE", "SIGALRM", "SIGTERM",
    ];
    NAMES.get(usize::try_from(signal).ok()?.checked_sub(1)?).copied()
}

/// The end of a process that ran a task.
#[derive(Clone, Debug)]
pub struct Death {
    /// How it ended.
    pub status: Status,
    /// The task: [`TaskInfo::id`](crate::TaskInfo::id).
    pub task: u64,
    /// Which of the workers it was: [`TaskInfo::worker`](crate::TaskInfo::worker).
    pub worker: usize,
    /// Its process id, on its machine.
    pub pid: u32,
    /// The machine.
    pub host: String,
    /// How long it had been running the task.
    pub ran: Duration,
    /// How often the task was tried, this time included.
    pub attempts: u32,
    /// The last it wrote to standard error during the task, 4 KiB at most; empty with
    /// [`Output::Inherit`](crate::Output::Inherit).
    pub stderr_tail: String,
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Death { status, task, worker, pid, host, ran, attempts, stderr_tail } = self;
        write!(f, "worker {worker} (pid {pid} on {host}) {status}, {ran:.1?} into task {task}")?;
        if *attempts > 1 {
            write!(f, " (attempt {attempts})")?;
        }
        match last_words(stderr_tail) {
            Some(words) => write!(f, "; it said: {words}"),
            None => Ok(()),
        }
    }
}

/// The last line; where that is std's note about backtraces, what was said before it: the message of a panic, or that there is no
/// memory.
fn last_words(text: &str) -> Option<&str> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let is_note = |line: &&&str| line.starts_with("note: ");
    let is_no_memory = |line: &str| line.starts_with("memory allocation of ");
    let last = lines.last()?;
    if !is_note(&last) {
        return Some(last);
    }
    let found = lines.iter().rposition(|line| line.contains(" panicked at ") || is_no_memory(line));
    let message = found.and_then(|at| lines.get(if is_no_memory(lines[at]) { at } else { at + 1 }));
    Some(message.or_else(|| lines.iter().rfind(|line| !is_note(line))).unwrap_or(last))
}

impl std::error::Error for Death {}

#[cfg(test)]
mod tests {
    use super::last_words;

    #[test]
    fn last_words_are_a_message() {
        let no_memory = "memory allocation of 7 bytes failed";
        let said = [
            ("a\nthread 'a' (7) panicked at a.rs:3:5:\ntorn warp\nnote: run with\n\n", "torn warp"),
            (
                "thread 'a' panicked at a.rs:3:5:\ntorn\nstack backtrace:\n  0: a\nnote: more\n",
                "torn",
            ),
            (
                "thread 'a' panicked at a.rs:3:5:\ntorn\nnote: run with\nthe loom burns\n",
                "the loom burns",
            ),
            ("a\nmemory allocation of 7 bytes failed\nnote: run with\n", no_memory),
            (
                "memory allocation of 7 bytes failed\nstack backtrace:\n  0: a\nnote: more\n",
                no_memory,
            ),
            ("the loom burns\nnote: run with\nnote: more\n", "the loom burns"),
            ("note: run with\n", "note: run with"),
        ];
        for (text, words) in said {
            assert_eq!(last_words(text), Some(words), "{text}");
        }
        assert_eq!(["", " \n"].map(last_words), [None, None]);
    }
}
