//! Where results go, and what happens when nobody takes them.

use std::fs;
use std::process::Stdio;

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
fn a_file_may_be_sorted_onto_itself() {
    let room = Room::new("itself");
    room.file("in", "b\na\n");
    room.raddle("run sort --input in --output in").well();
    assert_eq!(fs::read(room.path("in")).unwrap(), b"a\nb\n");
    assert_eq!(room.names(), ["in"]);
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
    for line in ["run fib --n 5", "run fib --n 5 --json", "run sort --output -", "--help"] {
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
    let ended = room.raddle("run sort --input in --output /dev/full");
    assert_eq!((ended.code, ended.stdout.len()), (Some(1), 0));
    assert_eq!(ended.stderr, "raddle: /dev/full: cannot be written: no space left on device\n");
    room.raddle("run sort --input in --output /dev/null").well();
}
