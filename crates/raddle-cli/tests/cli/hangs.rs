//! What `raddle trace doctor` says of programs that hang: they are this test program itself, called again.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, Barrier};

use raddle::lock::Mutex;
use raddle::trace::{EventKind, TraceLevel};
use raddle::{Pool, Promise};

use crate::Room;

/// Names the trace of a program that is to hang.
const HANGS: &str = "RADDLE_TEST_HANGS";
const STUCK: &str = "all of it waits";

/// A pool that records into the file which this program was given, if it is to hang.
fn recorded() -> Option<Pool> {
    let file = std::env::var_os(HANGS)?;
    let pool = Pool::builder().threads(2).trace(TraceLevel::Tasks).trace_to(file);
    Some(pool.build().unwrap())
}

/// Says so when as many waits as this have begun that are not over, as the recording has them; then waits to be killed.
fn hang(pool: &Pool, begins: EventKind, ends: EventKind, waits: usize) -> ! {
    loop {
        // What this reads has been saved to the file.
        let trace = pool.trace();
        let events = trace.lanes.iter().flat_map(|lane| &lane.events);
        let of = |kind| events.clone().filter(|event| event.kind == kind).count();
        if of(begins) == of(ends) + waits {
            break;
        }
        std::thread::yield_now();
    }
    println!("{STUCK}");
    std::io::stdout().flush().unwrap();
    loop {
        std::thread::park();
    }
}

/// Calls the test again to hang, kills it when it does, and asks the doctor.
fn diagnosed(test: &str) -> String {
    let room = Room::new(test);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("hangs::{test}"), "--nocapture"])
        .env(HANGS, room.path("hung.trace"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let told = BufReader::new(child.stdout.take().unwrap()).lines();
    let stuck = told.map_while(Result::ok).any(|line| line.contains(STUCK));
    // That is SIGKILL, which leaves it no time for anything.
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(stuck, "it ended before it hung");
    let doctor = room.raddle("trace doctor hung.trace");
    assert_eq!(doctor.code, Some(0), "{doctor:?}");
    assert!(doctor.stderr.contains("what comes before is used"), "{doctor:?}");
    let json = room.raddle("trace doctor hung.trace --json");
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let text = String::from_utf8(doctor.stdout).unwrap();
    assert_eq!(json["findings"][0].as_str(), text.lines().next());
    text
}

/// The first line names two lanes, each of which waits for the other.
#[track_caller]
fn names_both(what: &str, text: &str) {
    let first = text.lines().next().unwrap();
    let steps = first.strip_prefix(what).unwrap_or_else(|| panic!("{text}"));
    let (one, other) = steps.split_once(", ").unwrap();
    let (a, b) = one.split_once(" waits for ").unwrap();
    assert_eq!(other, format!("{b} waits for {a}"), "{text}");
    assert_ne!(a, b, "{text}");
}

#[test]
fn two_tasks_with_each_others_locks_are_named() {
    if let Some(pool) = recorded() {
        let locks = [Arc::new(Mutex::new(1)), Arc::new(Mutex::new(2))];
        let both = Arc::new(Barrier::new(2));
        for turned in [false, true] {
            let ([one, other], both) = (locks.clone(), Arc::clone(&both));
            let (mine, theirs) = if turned { (other, one) } else { (one, other) };
            let task = pool.spawn(move || {
                let mine = mine.lock();
                both.wait();
                *mine + *theirs.lock()
            });
            task.detach();
        }
        hang(&pool, EventKind::LockWait, EventKind::LockHad, 2);
    }
    let text = diagnosed("two_tasks_with_each_others_locks_are_named");
    names_both("deadlock: ", &text);
    assert_eq!(text.matches("for the lock 0x").count(), 2, "{text}");
    assert_eq!(text.matches("held by strand").count(), 2, "{text}");
}

#[test]
fn two_tasks_that_wait_for_each_others_promises_are_named() {
    if let Some(pool) = recorded() {
        let both = Arc::new(Barrier::new(2));
        let ((one, first), (other, second)) = (Promise::<u32>::new(), Promise::<u32>::new());
        for (promise, awaited) in [(one, second), (other, first)] {
            let both = Arc::clone(&both);
            let task = pool.spawn(move || {
                both.wait();
                promise.complete(awaited.wait());
            });
            task.detach();
        }
        hang(&pool, EventKind::TouchBegin, EventKind::TouchEnd, 2);
    }
    let text = diagnosed("two_tasks_that_wait_for_each_others_promises_are_named");
    // Whose a promise is is not recorded: another thread might keep it.
    names_both("perhaps a deadlock: ", &text);
    assert_eq!(text.matches(" for a future, which ").count(), 2, "{text}");
}
