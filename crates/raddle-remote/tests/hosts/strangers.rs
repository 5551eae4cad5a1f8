//! Workers that are not what they should be, and starts that fail: by a bridge whose program was changed on its way.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use raddle::remote::{Env, Plan, RemoteError};

use crate::support::{LONG, belongings, directory, processes, said, say, until};

/// An environment of slots whose bridge has `new` in its program instead of `old`.
fn with_bridge(path: &str, old: &str, new: &str) -> Env {
    let python = format!("{path}/python");
    let program = format!(
        "#!/usr/bin/env python3\nimport sys\nold, program = {old:?}, sys.argv[2]\n\
         assert program.count(old) == 1, program.count(old)\nexec(program.replace(old, {new:?}))\n"
    );
    fs::write(&python, program).unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    Env::new(Plan::loopback(1).python(python).start_timeout(LONG)).unwrap()
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
        let first = env.task().timeout(std::time::Duration::from_secs(2));
        let failed = first.spawn(|n: u32| n + 1, 1).wait().unwrap_err();
        match failed.downcast_ref() {
            Some(RemoteError::Protocol(_)) => {}
            // It waits for the rest.
            None if damaged.contains(":-2") => {
                assert_eq!(failed.kind(), raddle::FailureKind::TimedOut);
            }
            other => panic!("{damaged}: {other:?}"),
        }
        assert_eq!(env.spawn(|n: u32| n + 1, 1).wait().unwrap(), 2);
    }
    fs::remove_dir_all(path).unwrap();
}

/// Where no worker can be started tasks wait for those that there are.
pub(crate) fn without_descriptors_tasks_wait() {
    let path = directory("descriptors");
    let env = processes(2);
    let gate = format!("{path}/go");
    let waits = |(here, gate): (String, String)| {
        say(&here, "");
        until(|| fs::exists(&gate).unwrap());
    };
    let here = format!("{path}/here");
    let busy = env.spawn(waits, (here.clone(), gate.clone()));
    said(&here);
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: room for one.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    let low = libc::rlimit { rlim_cur: belongings().0 as u64, ..limit };
    // SAFETY: the limit is read.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const low) };
    let queued: Vec<_> = (0..5).map(|n| env.spawn(|n: u32| n + 1, n)).collect();
    // SAFETY: as above.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    assert!(queued.iter().all(|future| !future.is_done()));
    say(&gate, "");
    busy.wait().unwrap();
    for (n, future) in (1..).zip(queued) {
        assert_eq!(future.wait().unwrap(), n);
    }
    let (_, _, children) = belongings();
    assert!(children <= 2, "{children}");
    drop(env);
    fs::remove_dir_all(path).unwrap();
}
