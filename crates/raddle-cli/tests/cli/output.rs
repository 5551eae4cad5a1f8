//! Where results go, and what happens when nobody takes them.

use std::fs;
use std::process::{Command, Stdio};

use crate::{Ended, Room};

#[test]
fn help_fits_the_page_and_says_everything() {
    let room = Room::new("help");
    for line in [
        "--help",
        "run --help",
        "run kmeans --help",
        "run knn --help",
        "run quantize --help",
        "run sort --help",
        "run fib --help",
        "trace summary --help",
    ] {
        let text = room.raddle(line).well();
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
    for option in
        ["--input", "--output", "--label", "--init", "--seed", "--max-iter", "--threads", "--json"]
    {
        assert!(room.raddle("run kmeans --help").well().contains(option), "{option}");
    }
    for column in ["busy", "lost", "steal", "spin", "wait", "locked", "parked", "stole", "woke"] {
        let text = room.raddle("trace summary --help").well();
        assert!(text.contains(&format!("\n  {column:<9}")), "{column}: {text}");
    }
    assert!(room.raddle("--version").well().starts_with("raddle "));
}

#[test]
fn data_on_standard_output_is_nothing_but_data() {
    let room = Room::new("dash");
    room.file("in", "b\na\n");
    room.file("t.csv", "1\n9\n");
    let ended = room.raddle("run sort --input in --output -");
    assert_eq!((ended.code, ended.stdout.as_slice()), (Some(0), b"a\nb\n".as_slice()));
    assert!(ended.stderr.contains("2 lines"), "{ended:?}");
    let ended = room.raddle("run kmeans --input t.csv --k 2 --output -");
    assert_eq!(ended.stdout, b"row,cluster\n0,0\n1,1\n");
    let ended = room.raddle("run quantize --k 2 --max-iter 1 --output -");
    assert!(ended.stdout.starts_with(b"\x89PNG"));
    assert_eq!(room.names(), ["in", "t.csv"]);
}

#[test]
fn bad_input_leaves_an_old_output_alone() {
    let room = Room::new("old");
    room.file("out.csv", "old");
    room.file("t.csv", "1\nx\n");
    room.raddle("run kmeans --input t.csv --k 1 --output out.csv").refused();
    assert_eq!(fs::read(room.path("out.csv")).unwrap(), b"old");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let room = Room::new("pipe");
    for line in ["run fib --n 5", "run fib --n 5 --json", "run sort --runs 1 --output -", "--help"]
    {
        let mut child =
            room.start(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let ended: Ended = child.wait_with_output().unwrap().into();
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{line}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_device_is_a_failure() {
    let room = Room::new("full");
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ended: Ended = room.start("run fib --n 5").stdout(full()).output().unwrap().into();
    assert_eq!(ended.code, Some(1));
    assert_eq!(ended.stderr, "raddle: standard output: no space left on device\n");

    room.file("in", "b\na\n");
    room.raddle("run sort --input in --output /dev/null").well();
}

/// Nobody reads, and what was asked for is not there.
#[cfg(target_os = "linux")]
#[test]
fn a_failure_is_one_also_if_nobody_reads_the_report() {
    let room = Room::new("unheard");
    room.file("in", "b\na\n");
    for line in [
        "run sort in --runs 1 --output /dev/full",
        "run sort in --runs 1 --output /dev/full --json",
        "run sort in --runs 1 --trace /dev/full --output -",
    ] {
        let mut child =
            room.start(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let ended: Ended = child.wait_with_output().unwrap().into();
        assert_eq!(ended.code, Some(1), "{line}: {ended:?}");
        assert!(ended.stderr.contains("/dev/full: cannot be written"), "{line}: {ended:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn results_are_printed_also_when_files_may_not_be_so_large() {
    let room = Room::new("large");
    room.file("lines.txt", "line\n".repeat(10_000));
    room.file("out.txt", "old");
    let line = "ulimit -f 4 && exec \"$0\" run sort lines.txt --runs 1 --output out.txt";
    let ended = Command::new("sh")
        .args(["-c", line, env!("CARGO_BIN_EXE_raddle")])
        .current_dir(room.path("."))
        .output();
    let ended = Ended::from(ended.unwrap());
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("out.txt: cannot be written: larger than files"), "{ended:?}");
    assert!(String::from_utf8_lossy(&ended.stdout).contains("10000 lines"), "{ended:?}");
    assert_eq!(room.names(), ["lines.txt", "out.txt"]);
    assert_eq!(fs::read(room.path("out.txt")).unwrap(), b"old");
}

#[cfg(target_os = "linux")]
#[test]
fn results_are_printed_also_when_they_cannot_be_written() {
    let room = Room::new("printed");
    room.file("in", "b\na\n");
    for option in ["output", "trace"] {
        let line = format!("run sort in --{option} /dev/full");
        let ended = room.raddle(&line);
        assert_eq!(ended.code, Some(1));
        let message = "/dev/full: cannot be written: no space left on device";
        assert_eq!(ended.stderr, format!("raddle: {message}\n"));
        let told = String::from_utf8(ended.stdout).unwrap();
        assert!(told.contains("2 lines") && told.contains("speedup"), "{told}");

        let ended = room.raddle(&format!("{line} --json"));
        let json: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
        assert_eq!((ended.code, &json["lines"], &json[option]), (Some(1), &2.into(), &().into()));
        assert_eq!(json["errors"], serde_json::json!([message]));
    }
    // One that can be written is, whatever became of the other.
    assert_eq!(room.raddle("run sort in --trace /dev/full --output out").code, Some(1));
    assert_eq!(fs::read(room.path("out")).unwrap(), b"a\nb\n");
}
