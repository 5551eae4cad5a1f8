//! No file that a run reads, and none that it has written, is ever overwritten, whatever it is called.

use std::fs;

use crate::{Ended, Room, digits};

const LINES: &str = "b\na\n";

/// A room with an input under several names.
fn room(name: &str) -> Room {
    let room = Room::new(name);
    room.file("in", LINES);
    fs::create_dir(room.path("sub")).unwrap();
    fs::hard_link(room.path("in"), room.path("hard")).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("in", room.path("soft")).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("new", room.path("dangling")).unwrap();
    room
}

fn aliases() -> Vec<&'static str> {
    let mut names = vec!["in", "./in", "sub/../in", "hard"];
    if cfg!(unix) {
        names.push("soft");
    }
    names
}

#[test]
fn the_input_is_not_overwritten() {
    let room = room("harm-input");
    for name in aliases() {
        for (line, role) in [
            ("run sort in --output", "the input"),
            ("run sort in --trace", "the input"),
            ("run sort in --trace out --output", "the input"),
        ] {
            let told = room.raddle(&format!("{line} {name}")).refused();
            assert_eq!(told, format!("{name}: would overwrite {role}"), "{line}");
            assert_eq!(fs::read_to_string(room.path("in")).unwrap(), LINES);
        }
    }
    assert!(!room.path("out").exists());
}

#[test]
fn tables_and_pictures_neither() {
    let room = Room::new("harm-tables");
    room.file("t.csv", digits());
    image::RgbImage::new(4, 4).save(room.path("p.png")).unwrap();
    let picture = fs::read(room.path("p.png")).unwrap();
    for line in [
        "run kmeans t.csv --output t.csv",
        "run kmeans --input t.csv --trace ./t.csv",
        "run knn t.csv --trace t.csv",
        "run quantize p.png --k 1 --output p.png",
        "run quantize p.png --k 1 --trace p.png",
    ] {
        let told = room.raddle(line).refused();
        assert!(told.ends_with("would overwrite the input"), "{told}");
    }
    assert_eq!(fs::read_to_string(room.path("t.csv")).unwrap(), digits());
    assert_eq!(fs::read(room.path("p.png")).unwrap(), picture);
}

#[test]
fn outputs_do_not_overwrite_each_other() {
    let room = room("harm-outputs");
    let mut pairs = vec![("new", "new"), ("new", "sub/../new"), ("hard", "in")];
    if cfg!(unix) {
        pairs.push(("soft", "in"));
    }
    for (trace, output) in pairs {
        let line = format!("run sort --trace {trace} --output {output}");
        let told = room.raddle(&line).refused();
        assert_eq!(told, format!("{output}: would overwrite the trace"));
        assert!(!room.path("new").exists());
    }
    assert_eq!(fs::read_to_string(room.path("in")).unwrap(), LINES);
}

/// Neither name is there at the start, and one is a link to the other.
#[cfg(unix)]
#[test]
fn a_link_to_what_is_not_there_yet_is_followed() {
    let room = room("harm-dangling");
    let told = room.raddle("run sort in --trace new --output dangling").refused();
    assert_eq!(told, "dangling: would overwrite the trace");
    room.raddle("run sort in --output dangling").well();
    assert_eq!(fs::read_to_string(room.path("new")).unwrap(), "a\nb\n");
    assert!(fs::symlink_metadata(room.path("dangling")).unwrap().is_symlink());
}

#[test]
fn a_trace_is_not_overwritten_by_its_picture() {
    let room = Room::new("harm-trace");
    room.raddle("run fib --n 10 --trace t").well();
    let trace = fs::read(room.path("t")).unwrap();
    fs::hard_link(room.path("t"), room.path("hard")).unwrap();
    for line in ["trace html t -o t", "trace chrome t -o ./t", "trace html hard -o t"] {
        let told = room.raddle(line).refused();
        assert!(told.ends_with("would overwrite the input"), "{line}: {told}");
        assert_eq!(fs::read(room.path("t")).unwrap(), trace);
    }
}

/// What the shell has redirected is a file too.
#[cfg(unix)]
#[test]
fn redirected_files_are_not_replaced() {
    let room = room("harm-redirected");
    let open = |name: &str| fs::File::open(room.path(name)).unwrap();
    let ended: Ended =
        room.start("run sort - --output hard").stdin(open("in")).output().unwrap().into();
    assert_eq!(ended.refused(), "hard: would overwrite standard input");
    assert_eq!(fs::read_to_string(room.path("in")).unwrap(), LINES);

    let report = fs::File::create(room.path("report")).unwrap();
    let ended: Ended =
        room.start("run sort in --trace report").stdout(report).output().unwrap().into();
    assert_eq!(ended.refused(), "report: would overwrite standard output");
}

/// A report behind the input, or over its beginning, is no less harm.
#[cfg(unix)]
#[test]
fn a_file_that_standard_output_goes_to_is_not_read() {
    let room = room("harm-appended");
    room.raddle("run fib --n 10 --trace t").well();
    for (line, file) in [
        ("run sort in", "in"),
        ("run sort hard --output -", "in"),
        ("run sort - --output -", "in"),
        ("trace summary t", "t"),
        ("trace html t --output -", "t"),
        ("trace diff t t", "t"),
    ] {
        let before = fs::read(room.path(file)).unwrap();
        for append in [false, true] {
            let out = fs::OpenOptions::new().write(true).append(append).open(room.path(file));
            let input = fs::File::open(room.path(file)).unwrap();
            let mut command = room.start(line);
            let ended: Ended = command.stdin(input).stdout(out.unwrap()).output().unwrap().into();
            let told = ended.refused();
            assert!(told.ends_with("standard output goes to this very file"), "{line}: {told}");
            assert_eq!(fs::read(room.path(file)).unwrap(), before, "{line}");
        }
    }
}

/// What is not there is not taken for what is empty, and nothing is emptied by it.
#[cfg(target_os = "linux")]
#[test]
fn standard_input_that_is_closed_empties_no_file() {
    let room = Room::new("harm-closed");
    room.file("out", "old");
    let sort = |from: &str| -> Ended {
        let program = env!("CARGO_BIN_EXE_raddle");
        let line = format!("exec {program} run sort - --runs 1 --output out {from}");
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &line]).current_dir(room.path("")).output().unwrap().into()
    };
    let told = sort("<&-").refused();
    assert_eq!(told, "standard input: is closed, or /dev/null in its place");
    assert_eq!(fs::read_to_string(room.path("out")).unwrap(), "old");
    sort("< /dev/null").well();
    assert_eq!(fs::read_to_string(room.path("out")).unwrap(), "");
}

/// Nor are lines written where nobody can have them without a word.
#[cfg(target_os = "linux")]
#[test]
fn standard_output_that_is_closed_is_told_of() {
    let room = Room::new("harm-no-output");
    room.file("in", "b\na\n");
    let sort = |to: &str| -> Ended {
        let program = env!("CARGO_BIN_EXE_raddle");
        let line = format!("exec {program} run sort in --runs 1 --output - {to}");
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &line]).current_dir(room.path("")).output().unwrap().into()
    };
    let lost =
        "raddle: standard output is closed, or /dev/null in its place: what goes there is lost";
    // The second as some programs start others that are to be quiet.
    for (to, told) in [(">&-", true), ("1<> /dev/null", true), ("> /dev/null", false)] {
        let ended = sort(to);
        assert_eq!((ended.code, ended.stderr.contains(lost)), (Some(0), told), "{to}");
    }
}

/// What can be no file is refused before anything is done.
#[test]
fn outputs_that_are_called_as_directories_are() {
    let room = Room::new("harm-directories");
    room.file("in", "b\na\n");
    let mut names = vec!["new/", "new/.", "new/.."];
    if cfg!(unix) {
        #[cfg(unix)]
        std::os::unix::fs::symlink("new/", room.path("link")).unwrap();
        names.push("link");
    }
    for name in names {
        for option in ["output", "trace"] {
            let told = room.raddle(&format!("run sort in --{option} {name}")).refused();
            assert_eq!(told, format!("{name}: cannot be written: no such directory"));
        }
    }
}

/// A recording that is there is replaced by one, not by nothing.
#[cfg(target_os = "linux")]
#[test]
fn a_trace_stays_if_there_can_be_no_other() {
    let room = Room::new("harm-refused");
    room.file("old", "what was recorded before");
    room.raddle("run fib --n 5 --threads 70000 --trace old").refused();
    // The stacks of so many do not fit in the address space.
    let mut command = std::process::Command::new("sh");
    let line = format!(
        "ulimit -v 3000000; exec {} run fib --n 5 --threads 4096 --runs 1 --trace old",
        env!("CARGO_BIN_EXE_raddle")
    );
    let ended: Ended =
        command.args(["-c", &line]).current_dir(room.path("")).output().unwrap().into();
    assert!(ended.refused().contains("--threads 4096"));
    // Nor do so many events.
    let mut command = std::process::Command::new("sh");
    let line = format!(
        "ulimit -v 8000000; exec {} run fib --n 5 --threads 1 --runs 1 --trace old --trace-room 1000000000",
        env!("CARGO_BIN_EXE_raddle")
    );
    let ended: Ended =
        command.args(["-c", &line]).current_dir(room.path("")).output().unwrap().into();
    assert!(ended.refused().starts_with("--trace-room: no memory to record 1073741824 events"));
    assert_eq!(fs::read_to_string(room.path("old")).unwrap(), "what was recorded before");
}

/// Everything at once, under names of their own: all is written, nothing is lost.
#[test]
fn different_files_are_all_written() {
    let room = room("harm-none");
    fs::write(room.path("old"), "old").unwrap();
    room.raddle("run sort in --trace t --output old").well();
    assert_eq!(fs::read_to_string(room.path("old")).unwrap(), "a\nb\n");
    assert_eq!(fs::read_to_string(room.path("in")).unwrap(), LINES);
    room.raddle("trace summary t").well();
    assert!(room.names().iter().all(|name| !name.ends_with(".tmp")), "{:?}", room.names());
}
