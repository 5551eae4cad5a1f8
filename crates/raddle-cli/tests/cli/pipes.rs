//! Pipes where files are usual: each is opened once, and held by nobody but who reads or writes it.

#![cfg(unix)]

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::{Ended, Room};

/// One that takes so long hangs, however busy the machine.
const LONG: Duration = Duration::from_secs(60);

fn pipe(room: &Room, name: &str) -> PathBuf {
    let path = room.path(name);
    let text = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: a path that ends with a zero.
    assert_eq!(unsafe { libc::mkfifo(text.as_ptr(), 0o600) }, 0);
    path
}

/// What becomes of a program that writes little.
#[track_caller]
fn ended(mut child: Child) -> Ended {
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > LONG {
            child.kill().unwrap();
            panic!("it hangs: {:?}", Ended::from(child.wait_with_output().unwrap()));
        }
        thread::sleep(Duration::from_millis(2));
    }
    child.wait_with_output().unwrap().into()
}

fn spawn(room: &Room, line: &str) -> Child {
    let mut command = room.start(line);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_pipe_is_written_as_it_is() {
    let room = Room::new("pipe-output");
    room.file("in", "b\na\n");
    let path = pipe(&room, "pipe");
    let child = spawn(&room, "run sort in --runs 1 --output pipe");
    let reader = thread::spawn(move || fs::read(path).unwrap());
    let ended = ended(child);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(reader.join().unwrap(), b"a\nb\n");
}

#[test]
fn a_reader_of_a_pipe_that_goes_away_is_told_of() {
    let room = Room::new("pipe-reader");
    // More than a pipe holds.
    room.file("in", "a line\n".repeat(100_000));
    let path = pipe(&room, "pipe");
    let child = spawn(&room, "run sort in --runs 1 --output pipe");
    drop(thread::spawn(move || fs::File::open(path).unwrap()));
    let ended = ended(child);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(ended.stderr, "raddle: pipe: cannot be written: broken pipe\n");
}

#[test]
fn a_pipe_is_read_once() {
    let room = Room::new("pipe-input");
    let path = pipe(&room, "pipe");
    let child = spawn(&room, "run sort pipe --runs 1 --output out");
    let writer = thread::spawn(move || fs::write(path, "b\na\n"));
    let ended = ended(child);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    writer.join().unwrap().unwrap();
    assert_eq!(fs::read(room.path("out")).unwrap(), b"a\nb\n");
}

#[cfg(target_os = "linux")]
#[test]
fn standard_output_by_its_path_is_standard_output() {
    let room = Room::new("pipe-dash");
    room.file("in", "b\na\n");
    for path in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        let ended = room.raddle(&format!("run sort in --output {path}"));
        assert_eq!((ended.code, ended.stdout.as_slice()), (Some(0), b"a\nb\n".as_slice()));
        assert!(ended.stderr.contains("2 lines"), "{ended:?}");
        room.raddle(&format!("run sort in --json --output {path}")).refused();
    }
}
