//! Recording of teams by the environment: `RADDLE_TRACE=FILE`.
//!
//! Each team records into a file of its own while it runs, as a pool with [`trace_to`](crate::PoolBuilder::trace_to), so
//! that whatever ends the process leaves a trace. Files of teams that have ended are whole; those of the others are made so when the
//! process exits, or Ctrl-C ends it. With `RADDLE_TRACE_ROOM` teams keep their newest events in memory instead, and all is
//! written at that moment.
//!
//! | | |
//! |---|---|
//! | first team | FILE; which is this process's from then on until it has gone |
//! | second, third, .. | FILE.2, FILE.3, .. |
//! | where another process has FILE, as the parent of a `fork` has, or it was written since this one began | `FILE.process-PID`, in the stead of FILE |

use std::ffi::OsString;
use std::io;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, OnceLock, Weak};
use std::time::Duration;

use raddle_sync::atomic::{AtomicBool, Ordering};
use raddle_trace::{Trace, TraceLevel};

use super::began::wrote_since;
use crate::pool::Registry;
use crate::pool::recorder::{PerProcess, Settings, Taken, room_for};

/// What the environment asks for.
struct Wanted {
    /// Wherever the process works by then.
    file: PathBuf,
    level: TraceLevel,
    /// How many events each thread keeps, in memory. None: all, in the file.
    room: Option<usize>,
}

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
        let room = std::env::var_os("RADDLE_TRACE_ROOM").and_then(|text| {
            let room = text.to_str().and_then(|text| text.parse().ok()).map(room_for);
            if room.is_none() {
                raddle_sync::say(format_args!(
                    "RADDLE_TRACE_ROOM is {text:?}, no number of events"
                ));
            }
            room
        });
        let file = PathBuf::from(file);
        Some(Wanted { file: std::path::absolute(&file).unwrap_or(file), level, room })
    };
    WANTED.get_or_init(read).as_ref()
}

/// A team that is recorded. It is not kept: what it holds goes when it ends.
struct Recorded {
    team: Weak<Registry>,
    /// Where it is written at the end, if it is not meanwhile.
    path: PathBuf,
    /// Its trace, once it has gone.
    trace: Option<Trace>,
    /// Itself, from the process's end on: its threads may still run, and whoever writes is not to be the last to hold it.
    held: Option<ManuallyDrop<Arc<Registry>>>,
}

/// What a process records.
#[derive(Default)]
struct State {
    /// FILE, or what this process has in its stead; once there is a team.
    base: Option<PathBuf>,
    /// FILE is this process's as long as that lives.
    taken: Option<Taken>,
    /// How many teams there have been.
    count: usize,
    /// Those that something is to be done for at the end.
    teams: Vec<Recorded>,
    /// A team has gone.
    gone: Option<&'static Condvar>,
    /// Something was said about a file that cannot be written.
    said: bool,
}

static STATE: PerProcess<State> = PerProcess::new(State {
    base: None,
    taken: None,
    count: 0,
    teams: Vec::new(),
    gone: None,
    said: false,
});

/// How long the process waits at its end for a team that goes just then.
const MOMENT: Duration = Duration::from_secs(1);

impl State {
    /// What the teams' files are called after. The first one to ask takes it.
    fn base(&mut self, wanted: &Wanted) -> &Path {
        let taken = &mut self.taken;
        self.base.get_or_insert_with(|| match take(&wanted.file) {
            Ok(file) => {
                // Who writes at the end only may not come to that: so nobody takes what is there for this process's.
                if let Some(file) = file.as_ref().filter(|_| wanted.room.is_some()) {
                    let _ = file.clear();
                }
                *taken = file;
                wanted.file.clone()
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let own = own_file(&wanted.file);
                raddle_sync::say(format_args!(
                    "RADDLE_TRACE: {}: {error}; this process records into {}",
                    wanted.file.display(),
                    own.display()
                ));
                own
            }
            // Whoever is to write it hears of that again, and says so.
            Err(_) => wanted.file.clone(),
        })
    }

    /// Where the team of this number is written.
    fn path(&mut self, wanted: &Wanted, number: usize) -> PathBuf {
        let base = self.base(wanted);
        if number == 1 { base.into() } else { with(base, &format!(".{number}")).into() }
    }

    fn gone(&mut self) -> &'static Condvar {
        self.gone.get_or_insert_with(|| Box::leak(Box::default()))
    }

    fn said_already(&mut self) -> bool {
        std::mem::replace(&mut self.said, true)
    }
}

/// As [`Taken::of`], but what was recorded since the process began stays: it is of a child, or of what this was before `exec`.
fn take(file: &Path) -> io::Result<Option<Taken>> {
    // First: that somebody records into it now is the better word.
    let taken = Taken::of(file)?;
    if taken.is_some() && wrote_since(file) {
        let why = "it was written since this process began";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
    }
    Ok(taken)
}

/// What this process has in the stead of the file, and has not written before `exec`.
fn own_file(file: &Path) -> PathBuf {
    let process = std::process::id();
    let names = (1..).map(|time| match time {
        1 => format!(".process-{process}"),
        _ => format!(".process-{process}-{time}"),
    });
    let mut paths = names.map(|name| PathBuf::from(with(file, &name)));
    paths.find(|path| !wrote_since(path)).expect("there is no end of them")
}

fn with(path: &Path, end: &str) -> OsString {
    let mut path = path.as_os_str().to_owned();
    path.push(end);
    path
}

/// How the next team is to be recorded, and where, if it is.
pub(super) fn settings() -> (Settings, Option<PathBuf>) {
    let Some(wanted) = wanted() else { return (Settings::default(), None) };
    let mut state = STATE.lock();
    state.count += 1;
    let number = state.count;
    let path = state.path(wanted, number);
    let settings = Settings { level: wanted.level, ..Settings::default() };
    let settings = match wanted.room {
        Some(capacity) => Settings { capacity, ..settings },
        None => {
            let taken = number == 1 && state.taken.is_some();
            Settings { file: Some(path.clone()), taken, ..settings }
        }
    };
    (settings, Some(path))
}

/// The program runs all the same. It is told once: what is wrong with one file is so with the next, as a rule.
pub(super) fn unwritten(path: &Path, error: &io::Error) {
    if !STATE.lock().said_already() {
        let path = path.display();
        raddle_sync::say(format_args!("RADDLE_TRACE: {path}: {error}; nothing is recorded there"));
    }
}

/// Remembers a team until the process exits.
pub(super) fn enlist(registry: &Arc<Registry>, path: Option<PathBuf>) {
    let Some(path) = path.filter(|_| registry.config.trace.level != TraceLevel::Off) else {
        return;
    };
    // A child of the process inherits that.
    static AT_EXIT: AtomicBool = AtomicBool::new(false);
    // ORD: a flag.
    if !AT_EXIT.swap(true, Ordering::Relaxed) {
        at_exit();
    }
    let team = Arc::downgrade(registry);
    STATE.lock().teams.push(Recorded { team, path, trace: None, held: None });
}

/// Ends the file of a team that goes, or keeps its trace.
pub(super) fn retire(registry: &Registry) {
    if wanted().is_none() || registry.is_forked() {
        return;
    }
    let trace = (!registry.recorder.has_file()).then(|| registry.trace());
    registry.recorder.finish();
    let mut state = STATE.lock();
    let is_it = |one: &Recorded| std::ptr::eq(one.team.as_ptr(), registry);
    match trace {
        Some(trace) => {
            if let Some(one) = state.teams.iter_mut().find(|one| is_it(one)) {
                one.trace = Some(trace);
            }
        }
        None => state.teams.retain(|one| !is_it(one)),
    }
    let gone = state.gone();
    drop(state);
    gone.notify_all();
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
    let kept = if wanted().is_some_and(|wanted| wanted.room.is_some()) {
        "RADDLE_TRACE_ROOM is heeded on Unix only: nothing is written"
    } else {
        "RADDLE_TRACE: on this system the file of a pool that has not ended when the process exits is not whole"
    };
    raddle_sync::say(format_args!("{kept}"));
}

#[cfg_attr(not(unix), allow(dead_code, reason = "nothing is called at exit"))]
fn save_all() {
    static SAVES: PerProcess<()> = PerProcess::new(());
    // A process may exit while a signal has its trace written: not before that is done.
    let _saves = SAVES.lock();
    let mut state = STATE.lock();
    let gone = state.gone();
    // Those that are still there stay from now on.
    let any_going = |state: &mut State| {
        let hold = |one: &mut Recorded| {
            if one.held.is_none() {
                one.held = one.team.upgrade().map(ManuallyDrop::new);
            }
            one.trace.is_none() && one.held.is_none()
        };
        // All of them, whichever is going.
        state.teams.iter_mut().filter_map(|one| hold(one).then_some(())).count() > 0
    };
    let waited = gone.wait_timeout_while(state, MOMENT, any_going);
    let teams = std::mem::take(&mut waited.unwrap_or_else(|e| e.into_inner()).0.teams);
    for Recorded { path, trace, held, .. } in &teams {
        let saved = match (trace, held) {
            (Some(trace), _) => trace.save(path),
            (None, Some(team)) if team.recorder.has_file() => {
                team.recorder.finish_with_process();
                Ok(())
            }
            (None, Some(team)) => team.trace().save(path),
            (None, None) => Ok(()),
        };
        if let Err(error) = saved {
            unwritten(path, &error);
        }
    }
}
