//! Recording of teams by the environment: `RADDLE_TRACE=FILE` writes what they did when the process exits, or Ctrl-C ends it.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;

use raddle_trace::{Trace, TraceLevel};

use crate::pool::Registry;
use crate::pool::recorder::{Settings, room_for};

/// What the environment asks for.
struct Wanted {
    file: PathBuf,
    level: TraceLevel,
    /// Events per thread.
    room: usize,
}

/// How many events each thread has room for at level `tasks`, where each fork is two or more: 16 MiB, and as much again is read at
/// the end.
const ROOM: usize = 1 << 20;

/// The file, if one is named. Every fork is recorded, as what bounds a program is read from those, but with `RADDLE_TRACE_LEVEL=phase`.
fn wanted() -> Option<&'static Wanted> {
    static WANTED: OnceLock<Option<Wanted>> = OnceLock::new();
    let read = || {
        let file = std::env::var_os("RADDLE_TRACE").filter(|file| !file.is_empty())?;
        let level = match std::env::var("RADDLE_TRACE_LEVEL") {
            Ok(level) if level == "phase" => TraceLevel::Phase,
            Ok(level) if level != "tasks" => {
                raddle_sync::say(format_args!(
                    "RADDLE_TRACE_LEVEL is {level:?}, not `phase` or `tasks`"
                ));
                TraceLevel::Tasks
            }
            _ => TraceLevel::Tasks,
        };
        let usual = if level == TraceLevel::Tasks { ROOM } else { Settings::default().capacity };
        let room = match std::env::var("RADDLE_TRACE_ROOM") {
            Ok(text) => text.parse().unwrap_or_else(|_| {
                raddle_sync::say(format_args!(
                    "RADDLE_TRACE_ROOM is {text:?}, no number of events"
                ));
                usual
            }),
            Err(_) => usual,
        };
        Some(Wanted { file: PathBuf::from(file), level, room: room_for(room) })
    };
    WANTED.get_or_init(read).as_ref()
}

pub(super) fn settings() -> Settings {
    wanted().map_or_else(Settings::default, |wanted| Settings {
        level: wanted.level,
        capacity: wanted.room,
        ..Settings::default()
    })
}

/// A team that is recorded. It is not kept: what it holds goes when it ends.
struct Recorded {
    team: Weak<Registry>,
    /// Its trace, once it has gone.
    trace: Option<Trace>,
    /// The process that built it, which is the one to write it: see `raddle_sync::fork`.
    generation: u32,
}

/// What is written at the end.
static RECORDED: Mutex<Vec<Recorded>> = Mutex::new(Vec::new());
/// A team has gone.
static GONE: Condvar = Condvar::new();
/// How long the process waits at its end for a team that goes just then.
const MOMENT: Duration = Duration::from_secs(1);

fn recorded() -> MutexGuard<'static, Vec<Recorded>> {
    RECORDED.lock().unwrap_or_else(|e| e.into_inner())
}

/// Remembers a team until the process exits.
pub(super) fn enlist(registry: &Arc<Registry>) {
    if wanted().is_none() {
        return;
    }
    let mut all = recorded();
    if all.is_empty() {
        at_exit();
    }
    let generation = raddle_sync::fork::generation();
    all.push(Recorded { team: Arc::downgrade(registry), trace: None, generation });
}

/// Keeps the trace of a team that goes.
pub(super) fn retire(registry: &Registry) {
    if wanted().is_none() || registry.is_forked() {
        return;
    }
    let trace = registry.trace();
    let mut all = recorded();
    if let Some(one) = all.iter_mut().find(|one| std::ptr::eq(one.team.as_ptr(), registry)) {
        one.trace = Some(trace);
    }
    drop(all);
    GONE.notify_all();
}

#[cfg(unix)]
fn at_exit() {
    extern "C" fn save() {
        save_all();
    }
    // SAFETY: a function that does not unwind.
    if unsafe { libc::atexit(save) } != 0 {
        raddle_sync::say(format_args!(
            "RADDLE_TRACE: the system does not let us write a trace at exit"
        ));
    }
    super::ended::before_a_signal_ends_it(save_all);
}

#[cfg(not(unix))]
fn at_exit() {
    raddle_sync::say(format_args!("RADDLE_TRACE is heeded on Unix only"));
}

fn save_all() {
    static SAVES: Mutex<()> = Mutex::new(());
    let Some(Wanted { file, .. }) = wanted() else { return };
    // A process may exit while a signal has its trace written: not before that is done.
    let _saves = SAVES.lock().unwrap_or_else(|e| e.into_inner());
    // Those that are still there stay from now on: their threads may still run, and it is not for this one to be the last.
    let mut held: Vec<Option<Arc<Registry>>> = Vec::new();
    let any_going = |all: &mut Vec<Recorded>| {
        held.resize_with(all.len(), || None);
        all.iter().zip(&mut held).any(|(one, held)| {
            if held.is_none() {
                *held = one.team.upgrade();
            }
            one.trace.is_none() && held.is_none()
        })
    };
    let waited = GONE.wait_timeout_while(recorded(), MOMENT, any_going);
    let all = std::mem::take(&mut *waited.unwrap_or_else(|e| e.into_inner()).0);
    let held = std::mem::ManuallyDrop::new(held);
    for (number, (one, held)) in all.iter().zip(&*held).enumerate() {
        if one.generation != raddle_sync::fork::generation() {
            // A child's: the parent writes it.
            continue;
        }
        let mut path = file.clone().into_os_string();
        if number > 0 {
            path.push(format!(".{}", number + 1));
        }
        let saved = match (&one.trace, held) {
            (Some(trace), _) => trace.save(&path),
            (None, Some(team)) => team.trace().save(&path),
            (None, None) => continue,
        };
        if let Err(error) = saved {
            raddle_sync::say(format_args!("RADDLE_TRACE: {}: {error}", path.to_string_lossy()));
        }
    }
}
