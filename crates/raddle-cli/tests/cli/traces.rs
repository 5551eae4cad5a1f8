//! `--trace` and `raddle trace`.

use crate::Room;

#[test]
fn a_run_is_recorded_and_shown() {
    let room = Room::new("trace");
    for level in ["phase", "tasks"] {
        let line =
            format!("run fib --n 20 --threads 2 --json --trace t.trace --trace-level {level}");
        let report = room.raddle(&line).json();
        assert_eq!(report["trace"], "t.trace");
        assert!(report["trace_events"].as_u64() > Some(3));
        assert!(report["phases"]["total_us"].as_f64().unwrap() > 0.0);

        let summary = room.raddle("trace summary t.trace").well();
        assert!(summary.lines().all(|line| line.chars().count() <= 80), "{summary}");
        assert!(summary.contains("ramp-up") && summary.contains("guest 0"), "{summary}");
        room.raddle("trace html t.trace -o t.html").well();
        let page = std::fs::read_to_string(room.path("t.html")).unwrap();
        assert!(page.starts_with("<!DOCTYPE html>") && page.contains("guest 0"));
        room.raddle("trace chrome t.trace --output t.json").well();
        let json = std::fs::read(room.path("t.json")).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert!(json["traceEvents"].as_array().unwrap().len() > 5);
        let forks = summary.contains("length of a task");
        assert!(forks || level == "phase", "{summary}");
    }
    assert!(room.raddle("run fib --n 10 --threads 1 --trace one.trace").well().contains("peak"));
    assert_eq!(room.raddle("trace chrome t.trace").json()["displayTimeUnit"], "ns");
    assert_eq!(room.names(), ["one.trace", "t.html", "t.json", "t.trace"]);
}

#[test]
fn files_that_are_no_traces_are_refused_with_their_place() {
    let room = Room::new("bad-trace");
    room.raddle("run fib --n 10 --trace good").well();
    let good = std::fs::read(room.path("good")).unwrap();
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 1;
    let hint = " (--damaged shows what comes before)";
    for (content, message) in [
        (&b""[..], "t: byte 0: the file is empty".to_owned()),
        (b"hello", "t: byte 0: not a trace: it does not begin with RADDLETR".into()),
        (&good[..20], "t: byte 12: the file ends within a chunk's header".to_owned() + hint),
        (&flipped, "t: byte ".into()),
        (
            &good[..good.len() - 5],
            format!("t: byte {}: the file ends 3 bytes into", good.len() - 20),
        ),
    ] {
        room.file("t", content);
        for show in ["summary t", "html t -o out", "chrome t -o out"] {
            let told = room.raddle(&format!("trace {show}")).refused();
            assert!(told.starts_with(&message), "{told}");
        }
    }
    let saved = room.raddle("trace summary t --damaged");
    assert_eq!(saved.code, Some(0));
    assert!(saved.stderr.contains("what comes before is shown"), "{}", saved.stderr);
    assert!(saved.stdout.windows(10).any(|text| text == b" events on"), "{saved:?}");
    assert_eq!(room.raddle("trace summary none").refused(), "none: no such file or directory");
    assert_eq!(room.names(), ["good", "t"]);
}

#[test]
fn wishes_that_cannot_be_granted() {
    let room = Room::new("bad-trace-wishes");
    std::fs::create_dir(room.path("dir")).unwrap();
    for (line, message) in [
        ("run fib --n 5 --trace dir", "dir: cannot be written: is a directory"),
        ("run fib --n 5 --trace -", "--trace needs a file; standard output is for the report"),
        ("run fib --n 5 --trace-level tasks", "--trace-level needs --trace FILE"),
        ("--trace t", "--trace is for `raddle run`: measuring is not recorded"),
        ("trace summary t --trace t", "--trace is for `raddle run`: there is no run to record"),
    ] {
        assert_eq!(room.raddle(line).refused(), message, "{line}");
    }
    assert_eq!(room.names(), ["dir"]);
}
