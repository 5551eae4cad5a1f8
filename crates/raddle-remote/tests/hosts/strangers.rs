//! Workers that are not what they should be, and starts that fail: by a bridge whose program was changed on its way.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use raddle::remote::{Env, Plan, RemoteError};

use crate::support::{LONG, directory, said, say, until};

/// An environment of slots whose bridge has `new` in its program instead of `old`.
fn with_bridge(path: &str, old: &str, new: &str) -> Env {
    bridged(path, "", old, new, LONG).unwrap()
}

/// The same, and `before` in front of all.
fn bridged(
    path: &str,
    before: &str,
    old: &str,
    new: &str,
    limit: Duration,
) -> Result<Env, RemoteError> {
    let python = format!("{path}/python");
    let program = format!(
        "#!/usr/bin/env python3\nimport sys\nold, program = {old:?}, sys.argv[2]\n\
         assert program.count(old) == 1, program.count(old)\n\
         exec({before:?} + program.replace(old, {new:?}))\n"
    );
    fs::write(&python, program).unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    Env::new(Plan::loopback(1).python(python).start_timeout(limit))
}

#[track_caller]
fn refused(env: &Env) -> RemoteError {
    let failed = env.spawn(|n: u32| n + 1, 1).wait().unwrap_err();
    failed.downcast_ref::<RemoteError>().unwrap_or_else(|| panic!("{failed}")).clone()
}

pub(crate) fn other_builds_are_refused() {
    let path = directory("builds");
    // The same program, and another file: one byte more.
    let mut program = fs::read("/proc/self/exe").unwrap();
    program.push(0);
    let other = format!("{path}/other");
    fs::write(&other, program).unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).unwrap();
    let env = with_bridge(&path, "self.config[\"program\"]", &format!("{other:?}"));
    let error = refused(&env);
    assert!(matches!(error, RemoteError::BuildMismatch(_)), "{error}");
    assert!(error.to_string().contains("the file differs"), "{error}");
    drop(env);
    fs::remove_dir_all(path).unwrap();
}

pub(crate) fn other_versions_are_refused() {
    let path = directory("versions");
    // Behind 16 bytes of the header and 9 of the magic number.
    let changed = "[hello[:25] + bytes((hello[25] + 1,)) + hello[26:]]";
    let env = with_bridge(&path, "[hello]", changed);
    let error = refused(&env);
    assert!(matches!(error, RemoteError::BuildMismatch(_)), "{error}");
    assert!(error.to_string().contains("version"), "{error}");
    drop(env);
    fs::remove_dir_all(path).unwrap();
}

/// What a worker is sent is damaged on the way: it says so and ends, and the next one is started.
pub(crate) fn damage_on_the_way_to_a_worker() {
    let path = directory("damage");
    for damaged in ["b\"no frame of ours, is it?\"", "data[:4] + b\"\\3\" + data[5:]", "data[:-2]"]
    {
        let old = "        self.slot.send(data)";
        let new = format!(
            "        global sent\n        sent = globals().get(\"sent\", 0) + 1\n        \
             self.slot.send({damaged} if sent == 1 else data)"
        );
        let env = with_bridge(&path, old, &new);
        // Of what is cut short the worker waits for the rest.
        let waits = damaged.contains(":-2");
        let mut limit = if waits { Duration::from_secs(2) } else { LONG };
        let ended = |limit| env.task().timeout(limit).spawn(|n: u32| n + 1, 1).wait();
        let failed = ended(limit).unwrap_err();
        match failed.downcast_ref() {
            Some(RemoteError::Protocol(_)) if !waits => {}
            None if waits => assert_eq!(failed.kind(), raddle::FailureKind::TimedOut),
            other => panic!("{damaged}: {other:?}"),
        }
        if waits {
            // Where nothing was sent within the limit it is yet to be cut.
            until(|| {
                limit *= 2;
                ended(limit).is_ok()
            });
        }
        assert_eq!(env.spawn(|n: u32| n + 1, 1).wait().unwrap(), 2);
    }
    fs::remove_dir_all(path).unwrap();
}

/// A shared value is said to be in memory whose descriptor is not there: its length is not taken for it.
pub(crate) fn a_descriptor_that_does_not_come() {
    let path = directory("descriptor");
    let old = "        self.slot.send(data)";
    // Of frames that share the count of descriptors is 1 from now on.
    let new = "        self.slot.send(data[:6] + b\"\\1\\0\" + data[8:] if data[4] == 4 else data)";
    let env = with_bridge(&path, old, new);
    let shared = env.share(vec![1_u32, 2, 3]).unwrap();
    let sum = |shared: raddle::remote::Shared<Vec<u32>>| shared.iter().sum::<u32>();
    let failed = env.spawn(sum, shared).wait().unwrap_err();
    assert!(matches!(failed.downcast_ref(), Some(RemoteError::Protocol(_))), "{failed}");
    assert_eq!(env.spawn(|n: u32| n + 1, 1).wait().unwrap(), 2);
    drop(env);
    fs::remove_dir_all(path).unwrap();
}

/// A program that is none of ours, in the place of a worker.
pub(crate) fn other_programs_are_refused() {
    let path = directory("programs");
    let echo = format!("{path}/echo");
    fs::write(&echo, "#!/bin/sh\nexec cat >&0\n").unwrap();
    fs::set_permissions(&echo, fs::Permissions::from_mode(0o755)).unwrap();
    for (program, expected) in [
        // Says back what it is told; ends at once; ends with a status; is not there.
        (echo.as_str(), "it sent Hello"),
        ("/bin/true", "exited with code 0 before it was ready"),
        ("/bin/false", "exited with code 1 before it was ready"),
        ("/nowhere/to/be/found", "No such file"),
    ] {
        let env = with_bridge(&path, "self.config[\"program\"]", &format!("{program:?}"));
        let error = refused(&env);
        assert!(matches!(error, RemoteError::Start(_) | RemoteError::Protocol(_)), "{error:?}");
        assert!(error.to_string().contains(expected), "{program}: {error}");
    }
    fs::remove_dir_all(path).unwrap();
}

/// Somebody else has made the socket that a worker inherits.
pub(crate) fn sockets_of_others_are_refused() {
    let (_ours, theirs) = UnixStream::pair().unwrap();
    let own = std::env::current_exe().unwrap();
    // The worker's parent is the shell; that of the socket is this process.
    let output = Command::new("/bin/sh")
        .args(["-c", "\"$0\"; exit $?", own.to_str().unwrap()])
        .env("RADDLE_REMOTE_WORKER", "1")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(113));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("the socket is not the parent's"), "{said}");
}

/// Damages what comes, every other time until it was done so often: cuts it short or makes it longer, has the length lie, or puts
/// anything in its place or in its header. (Not in what follows: an argument that is another is none that is damaged.) When
/// that is over a file is there.
const DAMAGES: &str = r#"
import random
rng, damages = random.Random(SEED), MOST

def damaged(data):
    global damages
    damages -= 1
    if damages < 0:
        open(OVER, "w").close()
    if damages < 0 or damages % 2 == 0:
        return data
    data, how = bytearray(data), rng.randrange(6)
    if how == 0:
        return data[:rng.randrange(len(data))]
    if how == 1:
        return data + rng.randbytes(rng.randrange(1, 100))
    if how == 2:
        return rng.randbytes(rng.randrange(1, 200))
    if how == 3:
        data[0:4] = struct.pack("<I", rng.choice((0, 15, 1000, 1 << 20, (1 << 32) - 1)))
    elif how == 4:
        data[rng.randrange(16)] = rng.randrange(256)
    else:
        data[4] = rng.randrange(40)
    return data

"#;

fn damages(path: &str, seed: u32, most: u32) -> String {
    let program = DAMAGES.replace("SEED", &seed.to_string()).replace("MOST", &most.to_string());
    program.replace("OVER", &format!("{:?}", over(path, seed)))
}

fn over(path: &str, seed: u32) -> String {
    format!("{path}/over-{seed}")
}

/// A value or an error, in time; and when the damage has ceased all is as it should be.
fn survives(old: &str, new: &str) {
    let path = directory("fuzzed");
    for seed in 0..2 {
        let env = bridged(&path, &damages(&path, seed, 40), old, new, LONG).unwrap();
        let ended = |n: u32, limit| env.task().timeout(limit).spawn(|n: u32| n + 1, n).wait();
        let mut limit = Duration::from_millis(50);
        let mut failed = 0;
        for n in 0..40 {
            match ended(n, limit) {
                Ok(next) => assert_eq!(next, n + 1),
                Err(_) => failed += 1,
            }
        }
        assert!(failed > 5, "only {failed} were damaged");
        // On a busy machine the limit may be over before anything was sent.
        until(|| {
            let ok = ended(1, limit).is_ok();
            let over = fs::exists(over(&path, seed)).unwrap();
            limit = (limit * 2).min(if over { LONG } else { Duration::from_secs(2) });
            ok && over
        });
        let after = env.map(|n: u32| n + 1, 0..100).wait().unwrap();
        assert_eq!(after, (1..=100).collect::<Vec<u32>>());
    }
    fs::remove_dir_all(path).unwrap();
}

pub(crate) fn damage_at_random_to_a_worker() {
    survives("        self.slot.send(data)", "        self.slot.send(damaged(data))");
}

pub(crate) fn damage_at_random_from_a_worker() {
    let events =
        "[(k, damaged(d) if k == DATA and d[4] != READY else d) for k, d in self.slot.next()]";
    survives("self.slot.next()", events);
}

/// Of what the bridge says: it is lost, and each task fails in time.
pub(crate) fn damage_at_random_from_the_bridge() {
    let path = directory("bridges");
    let mut failed = 0;
    for seed in 0..12 {
        let (old, new) = ("struct.pack(HEADER, len(payload), kind, 0, 0, worker)", "head");
        let lines = format!(
            "with self.lock:\n            head = damaged(struct.pack(HEADER, len(payload), kind, 0, 0, worker))\n            \
             try:\n                self.socket.sendall({new})"
        );
        let before = format!(
            "with self.lock:\n            try:\n                self.socket.sendall({old})"
        );
        let env =
            bridged(&path, &damages(&path, seed, 10), &before, &lines, Duration::from_millis(500));
        let Ok(env) = env else {
            failed += 1;
            continue;
        };
        let limited = env.task().timeout(Duration::from_millis(100));
        for n in 0..4 {
            match limited.clone().spawn(|n: u32| n + 1, n).wait() {
                Ok(next) => assert_eq!(next, n + 1),
                Err(_) => failed += 1,
            }
        }
    }
    assert!(failed > 10, "only {failed} were damaged");
    fs::remove_dir_all(path).unwrap();
}

/// A machine is lost with all that runs there: the task fails, or is tried again elsewhere.
pub(crate) fn a_lost_slot_is_replaced() {
    let path = directory("slots");
    // Once there is a file the slot is lost, of which the next that is said tells.
    let before = format!(
        "import os\nlost = {:?}\ndef of(events):\n    try:\n        os.unlink(lost)\n    \
         except OSError:\n        return events\n    return [(GONE, b\"l\")]\n",
        format!("{path}/lost")
    );
    let env = bridged(&path, &before, "self.slot.next()", "of(self.slot.next())", LONG).unwrap();
    let speaks = |(here, lost): (String, String)| {
        say(&here, &std::process::id().to_string());
        said(&lost);
        println!("not heard");
        if raddle::remote::task().unwrap().attempt == 1 {
            said("/nowhere/at/all");
        }
    };
    let gates = |round: u32| (format!("{path}/here-{round}"), format!("{path}/lost"));
    let running = env.spawn(speaks, gates(0));
    let pid = said(&format!("{path}/here-0"));
    say(&format!("{path}/lost"), "");
    let failed = running.wait_timeout(LONG).expect("an end").unwrap_err();
    match failed.downcast_ref() {
        Some(RemoteError::Died(death)) => {
            assert_eq!((death.status, death.attempts), (raddle::remote::Status::Lost, 1));
            assert_eq!(death.pid.to_string(), pid);
        }
        other => panic!("{other:?}"),
    }
    let other = env.spawn(|()| std::process::id(), ()).wait().unwrap();
    assert_ne!(other.to_string(), pid);
    drop(env);
    fs::remove_dir_all(path).unwrap();
}

/// Where slots can have no threads workers cannot be started, which is said; and others can be, later.
pub(crate) fn slots_without_threads_are_told() {
    let path = directory("threads");
    // Of each of those that a slot has the first cannot be had.
    let before = r#"
import threading
begin, refused = threading.Thread.start, set()
def start(thread):
    name = thread._target.__name__
    if name in ("run", "write", "pump") and name not in refused:
        refused.add(name)
        raise RuntimeError("no thread to " + name)
    begin(thread)
threading.Thread.start = start
"#;
    let same = "self.slot.next()";
    let env = bridged(&path, before, same, same, LONG).unwrap();
    let error = refused(&env);
    assert!(matches!(error, RemoteError::Start(_)), "{error}");
    assert!(error.to_string().contains("no thread to pump"), "{error}");
    assert_eq!(env.spawn(|n: u32| n + 1, 1).wait().unwrap(), 2);
    drop(env);
    fs::remove_dir_all(path).unwrap();
}
