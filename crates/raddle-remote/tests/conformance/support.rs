//! Plans to test, and gates between processes.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::panic::Location;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

use raddle::remote::{Env, Plan};
use raddle::{Failure, Future};

/// Which plan it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    Sequential,
    Threads,
    Processes,
    Loopback,
    Ray,
}

/// A plan under test.
pub struct On {
    pub which: Where,
}

/// A generous limit: the machine may be busy with something else.
pub const LONG: Duration = Duration::from_secs(120);

impl On {
    /// The plan, of two workers.
    pub fn plan(&self) -> Plan {
        let plan = match self.which {
            Where::Sequential => Plan::sequential(),
            Where::Threads => Plan::threads(2),
            Where::Processes => Plan::processes(2),
            Where::Loopback => Plan::loopback(2),
            Where::Ray => {
                let address = std::env::var("RADDLE_TEST_RAY");
                let address = address.expect("RADDLE_TEST_RAY has the address of a cluster");
                let plan = Plan::ray(address).workers(2);
                match std::env::var_os("RADDLE_TEST_PYTHON") {
                    Some(python) => plan.python(python),
                    None => plan,
                }
            }
        };
        plan.start_timeout(LONG)
    }

    pub fn env(&self) -> Env {
        Env::new(self.plan()).unwrap()
    }

    /// With one worker.
    pub fn alone(&self) -> Env {
        Env::new(self.plan().workers(1)).unwrap()
    }

    /// Whether tasks run in other processes.
    pub fn is_apart(&self) -> bool {
        !matches!(self.which, Where::Sequential | Where::Threads)
    }

    /// How often something is done: fewer times where each takes long, unless all is asked for.
    pub fn count(&self, slow: &[Where], few: u32, all: u32) -> u32 {
        let full = std::env::var_os("RADDLE_TEST_FULL").is_some();
        if full || !slow.contains(&self.which) { all } else { few }
    }

    /// Whether a task runs while its spawner goes on.
    pub fn is_concurrent(&self) -> bool {
        self.which != Where::Sequential
    }
}

/// Waits for a future as programs do. A limit would make it another kind of wait: if it lasts for ever all tests end.
#[track_caller]
pub fn result<T>(future: Future<T>) -> Result<T, Failure> {
    let _watched = Watched::new();
    future.wait()
}

/// A wait that is to end.
struct Watched(u32);

/// Since when there are such, and where in the tests.
static WAITS: Mutex<BTreeMap<u32, (Instant, String)>> = Mutex::new(BTreeMap::new());

impl Watched {
    #[track_caller]
    fn new() -> Watched {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        static WATCH: Once = Once::new();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        let place = format!("{test}, at {}", Location::caller());
        WAITS.lock().unwrap().insert(number, (Instant::now(), place));
        WATCH.call_once(|| _ = std::thread::spawn(watch));
        Watched(number)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        WAITS.lock().unwrap().remove(&self.0);
    }
}

fn watch() {
    loop {
        std::thread::sleep(Duration::from_secs(1));
        for (since, place) in WAITS.lock().unwrap().values() {
            if since.elapsed() > LONG {
                // By the descriptor: what tests print is kept until they end.
                let _ = writeln!(std::io::stderr(), "not done within {LONG:?}: {place}");
                std::process::abort();
            }
        }
    }
}

#[track_caller]
pub fn value<T>(future: Future<T>) -> T {
    result(future).unwrap()
}

#[track_caller]
pub fn failure<T: std::fmt::Debug>(future: Future<T>) -> Failure {
    result(future).unwrap_err()
}

/// Waits until something is so.
#[track_caller]
pub fn until(mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LONG, "not so within {LONG:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A directory for files by which processes tell each other how far they are.
pub struct Gates(PathBuf);

impl Gates {
    pub fn new() -> Gates {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("raddle-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Gates(path)
    }

    /// The path of a gate, as an argument.
    pub fn at(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    pub fn open(&self, name: &str) {
        open(self.at(name), "");
    }

    pub fn wait(&self, name: &str) {
        wait(self.at(name));
    }

    /// What was said when it was opened.
    pub fn said(&self, name: &str) -> String {
        self.wait(name);
        fs::read_to_string(self.at(name)).unwrap()
    }

    pub fn is_open(&self, name: &str) -> bool {
        fs::exists(self.at(name)).unwrap()
    }

    /// How many lines were added to a file.
    pub fn lines(&self, name: &str) -> usize {
        fs::read_to_string(self.at(name)).map_or(0, |text| text.lines().count())
    }
}

impl Drop for Gates {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Opens a gate, and says something.
pub fn open(path: String, text: &str) {
    fs::write(format!("{path}.new"), text).unwrap();
    fs::rename(format!("{path}.new"), path).unwrap();
}

/// Waits at a gate.
pub fn wait(path: String) {
    until(|| fs::exists(&path).unwrap());
}

/// Adds a line to a file.
pub fn note(path: &str) {
    let mut file = fs::File::options().append(true).create(true).open(path).unwrap();
    file.write_all(b"here\n").unwrap();
}

/// Says its process id at the first gate and waits at the second.
pub fn pass((here, go): (String, String)) -> u32 {
    open(here, &std::process::id().to_string());
    wait(go);
    std::process::id()
}

/// The same, and says when it is through.
pub fn passes_and_notes((here, go, done): (String, String, String)) {
    pass((here, go));
    note(&done);
}

/// Says its process id at the gate and never ends.
pub fn spin(here: String) {
    open(here, &std::process::id().to_string());
    while !raddle::killed() {
        std::hint::spin_loop();
    }
}

/// Whether a process is there, and is no zombie.
pub fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}
