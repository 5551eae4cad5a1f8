//! Recording of teams by the environment: `RADDLE_TRACE=FILE` writes what they did when the process exits.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use raddle_trace::TraceLevel;

use crate::pool::Registry;
use crate::pool::recorder::Settings;

/// The file, if one is named; with `RADDLE_TRACE_LEVEL=tasks` every fork is recorded.
fn wanted() -> Option<&'static (PathBuf, TraceLevel)> {
    static WANTED: OnceLock<Option<(PathBuf, TraceLevel)>> = OnceLock::new();
    let read = || {
        let file = std::env::var_os("RADDLE_TRACE").filter(|file| !file.is_empty())?;
        let level = match std::env::var("RADDLE_TRACE_LEVEL") {
            Ok(level) if level == "tasks" => TraceLevel::Tasks,
            Ok(level) if level != "phase" => {
                eprintln!("raddle: RADDLE_TRACE_LEVEL is {level:?}, not `phase` or `tasks`");
                TraceLevel::Phase
            }
            _ => TraceLevel::Phase,
        };
        Some((PathBuf::from(file), level))
    };
    WANTED.get_or_init(read).as_ref()
}

pub(super) fn settings() -> Settings {
    let level = wanted().map_or(TraceLevel::Off, |wanted| wanted.1);
    Settings { level, ..Settings::default() }
}

/// What is written at the end.
static RECORDED: Mutex<Vec<Arc<Registry>>> = Mutex::new(Vec::new());

/// Remembers a team until the process exits.
pub(super) fn enlist(registry: &Arc<Registry>) {
    if wanted().is_none() {
        return;
    }
    let mut all = RECORDED.lock().unwrap_or_else(|e| e.into_inner());
    if all.is_empty() {
        at_exit();
    }
    all.push(Arc::clone(registry));
}

#[cfg(unix)]
fn at_exit() {
    extern "C" fn save() {
        save_all();
    }
    // SAFETY: a function that does not unwind.
    if unsafe { libc::atexit(save) } != 0 {
        eprintln!("raddle: RADDLE_TRACE: the system does not let us write a trace at exit");
    }
}

#[cfg(not(unix))]
fn at_exit() {
    eprintln!("raddle: RADDLE_TRACE is heeded on Unix only");
}

fn save_all() {
    let Some((file, _)) = wanted() else { return };
    let all = std::mem::take(&mut *RECORDED.lock().unwrap_or_else(|e| e.into_inner()));
    for (number, registry) in all.iter().enumerate() {
        if registry.is_forked() {
            // A child's: the parent writes it.
            continue;
        }
        let mut path = file.clone().into_os_string();
        if number > 0 {
            path.push(format!(".{}", number + 1));
        }
        if let Err(error) = registry.trace().save(&path) {
            eprintln!("raddle: RADDLE_TRACE: {}: {error}", path.to_string_lossy());
        }
    }
    // Their threads may still run.
    std::mem::forget(all);
}
