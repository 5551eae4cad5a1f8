//! The page about the machine.

use crate::Room;

#[test]
fn one_page_that_leaves_a_line_for_the_next_command() {
    let room = Room::new("page");
    for (threads, verdict) in [(1, "On one thread forks never pay"), (2, "Forks pay from ")] {
        let page = room.raddle(&format!("--quick --threads {threads}")).well();
        let lines: Vec<&str> = page.lines().collect();
        assert!(lines.len() <= 23 && lines.iter().all(|line| line.chars().count() <= 80), "{page}");
        // What it comes to comes first, then a bar for each figure.
        // What forks add may be too little to be seen among what else the machine does.
        let nothing = threads > 1 && lines[1].starts_with("What forks ");
        assert!(lines[1].starts_with(verdict) || nothing, "{page}");
        assert!(!lines[1].contains("0.00 ns"), "{page}");
        assert!(lines[2].contains("Idle, a pool takes "), "{page}");
        let bars = lines.iter().filter(|line| line.contains("  #")).count();
        assert_eq!(bars, lines.len() - 5, "{page}");
        for part in ["Worker::join", "raddle::join", "floor", "Lock", "Hand-off", "run kmeans"] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }
}

/// On a terminal one sees how far it has come.
#[cfg(target_os = "linux")]
#[test]
fn the_steps_are_counted_on_a_terminal() {
    use std::io::Write as _;

    let room = Room::new("steps");
    let on_a_terminal = |line: &str| {
        let mut script = std::process::Command::new("script");
        script.args(["-qec", line, "/dev/null"]).current_dir(room.path(""));
        script.stdin(std::process::Stdio::null()).output()
    };
    // The program that makes terminals is not everywhere, and where there is one it may not be let.
    let works = on_a_terminal("true");
    if !works.as_ref().is_ok_and(|script| script.status.success()) {
        // Past what keeps the output of tests that pass.
        let told = writeln!(std::io::stderr(), "NOT RUN: no terminal by `script`: {works:?}");
        return told.unwrap();
    }
    let line = format!("{} --quick --threads 1", env!("CARGO_BIN_EXE_raddle"));
    let script = on_a_terminal(&line).unwrap();
    let shown = String::from_utf8_lossy(&script.stdout);
    for step in ["1/8", "8/8", "measuring forks", "measuring an idle pool"] {
        assert!(shown.contains(step), "{step}: {shown}");
    }
}

#[test]
fn the_same_for_programs() {
    let room = Room::new("page-json");
    let json = room.raddle("--quick --threads 2 --json").json();
    assert_eq!(json["threads"], 2);
    for pointer in [
        "/fork_ns/plain_call",
        "/fork_ns/worker_join",
        "/fork_ns/ambient_join",
        "/fib/seconds_one_thread",
        "/fib/seconds",
        "/fib/speedup",
        "/future_ns/boxed_closure",
        "/future_ns/spawn_all_wait_all",
        "/future_ns/spawn_wait",
        "/hand_off_ns/empty_region",
        "/hand_off_ns/join_hot",
        "/hand_off_ns/join_after_quiet",
    ] {
        let figure = json.pointer(pointer).and_then(|figure| figure.as_f64());
        assert!(figure.is_some_and(|figure| figure > 0.0), "{pointer}: {json}");
    }
    // Two halves of 20 us cannot be done sooner.
    assert!(json["hand_off_ns"]["join_hot"].as_f64().unwrap() >= 20_000.0);
    assert_eq!(json["hand_off_ns"]["join_floor"], 20_000.0);
}
