//! `--trace` and `raddle trace`.

use std::time::{Duration, Instant};

use crate::{Ended, Room};

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
    let told = room.raddle("run fib --n 10 --threads 1 --trace one.trace").well();
    assert!(told.contains("\n  busy ") && told.contains(" of 1 thread, "), "{told}");
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
    let mut none_left = good.clone();
    none_left[30] ^= 1;
    let hint = " (--damaged shows what comes before)";
    for (content, message, shows) in [
        (&b""[..], "t: byte 0: the file is empty", false),
        (b"hello", "t: byte 0: not a trace: it does not begin with RADDLETR", false),
        (&good[..20], "t: byte 12: the file ends within a chunk's header", false),
        (&none_left, "t: byte 12: ", false),
        (&flipped, "t: byte ", true),
    ] {
        room.file("t", content);
        for show in ["summary t", "html t -o out", "chrome t -o out"] {
            let told = room.raddle(&format!("trace {show}")).refused();
            assert!(told.starts_with(message), "{told}");
            assert_eq!(told.ends_with(hint), shows, "{told}");
            // The hint holds good.
            let shown = room.raddle(&format!("trace {show} --damaged"));
            assert_eq!(shown.code == Some(0), shows, "{shown:?}");
        }
    }
    std::fs::remove_file(room.path("out")).unwrap();
    let saved = room.raddle("trace summary t --damaged");
    assert_eq!(saved.code, Some(0));
    assert!(saved.stderr.contains("what comes before is used"), "{}", saved.stderr);
    assert!(saved.stdout.windows(6).any(|text| text == b" event"), "{saved:?}");
    // One that is only cut short is shown as it is.
    room.file("t", &good[..good.len() - 5]);
    let saved = room.raddle("trace summary t");
    assert_eq!(saved.code, Some(0));
    assert!(saved.stderr.contains("the file ends 3 bytes into"), "{}", saved.stderr);
    let saved = room.fed("trace summary -", &good[..good.len() - 5]);
    assert!(saved.stderr.starts_with("raddle: standard input: byte "), "{}", saved.stderr);
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
        ("run fib --n 5 --trace t --trace-room 0", "--trace-room must be at least 1"),
        ("--trace t", "--trace is for `raddle run`: measuring is not recorded"),
        ("trace diff - -", "standard input can be read once"),
        ("trace scale - dir -", "standard input can be read once"),
        ("trace summary t --trace t", "--trace is for `raddle run`: there is no run to record"),
    ] {
        assert_eq!(room.raddle(line).refused(), message, "{line}");
    }
    assert_eq!(room.names(), ["dir"]);
}

#[test]
fn of_several_files_damaged_ones_are_used_if_that_is_wished() {
    let room = Room::new("several-damaged");
    let record =
        || room.raddle("run fib --n 14 --threads 1 --trace good --trace-level tasks").well();
    record();
    let mut flipped = std::fs::read(room.path("good")).unwrap();
    let at = flipped.len() * 2 / 3;
    flipped[at] ^= 1;
    room.file("bad", &flipped);
    let hint = "(--damaged shows what comes before)";
    for line in ["trace diff good bad", "trace diff bad good"] {
        let told = room.raddle(line).refused();
        assert!(told.starts_with("bad: byte ") && told.ends_with(hint), "{told}");
        let told = room.raddle(&format!("{line} --damaged"));
        assert_eq!(told.code, Some(0), "{told:?}");
        assert!(told.stderr.contains("what comes before is used"), "{told:?}");
    }
    // Others may use the machine, and then it is refused, too.
    let told = room.raddle("trace scale good bad --damaged");
    assert!(!told.stderr.contains("--damaged"), "{told:?}");
}

#[test]
fn a_trace_is_never_overwritten_by_what_is_drawn_of_it() {
    let room = Room::new("trace-same");
    room.raddle("run fib --n 10 --trace t").well();
    let trace = std::fs::read(room.path("t")).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(room.path("t"), room.path("link")).unwrap();
    std::fs::hard_link(room.path("t"), room.path("hard")).unwrap();
    for to in ["t", "./t", "hard", if cfg!(unix) { "link" } else { "t" }] {
        for show in ["html", "chrome", "perfetto"] {
            let told = room.raddle(&format!("trace {show} t -o {to}")).refused();
            assert_eq!(told, format!("{to}: would overwrite the input"), "{show} {to}");
        }
        assert!(std::fs::read(room.path("t")).unwrap() == trace, "{to}");
    }
}

#[test]
fn what_scales_is_told_as_text_and_as_json() {
    let room = Room::new("trace-scale");
    let json = room.scaled("fib --n 24 --cutoff 12 --threads 1", "t", |json| {
        json["bound"].as_f64().unwrap() > 5.0
    });
    let told = room.raddle("trace scale t").well();
    assert!(told.contains("at most") && told.contains("1024"), "{told}");
    assert!(told.contains("fib.rs:"), "places are named: {told}");
    assert!(told.lines().all(|line| line.chars().count() <= 80), "{told}");
    assert!(told.contains("Note: One thread waits for no lock"), "{told}");
    assert!(json["notes"].to_string().contains("One thread waits for no lock"), "{json}");
    assert_eq!(json["points"].as_array().unwrap().len(), 11);
    let place = json["places"][0]["name"].as_str().unwrap();
    let half = room.raddle("trace scale t --json --what-if fib.rs=0.5").json();
    let ratio = half["work_us"].as_f64().unwrap() / json["work_us"].as_f64().unwrap();
    assert!((0.45..0.75).contains(&ratio), "{ratio} {place}");
    let unknown = room.raddle("trace scale t --what-if nowhere.rs:7=0.5").refused();
    assert!(unknown.contains("nothing is called 'nowhere.rs:7'"), "{unknown}");
    room.raddle("run fib --n 15 --threads 1 --trace p").well();
    assert!(room.raddle("trace scale p").refused().contains("--trace-level tasks"));
    assert!(room.raddle("trace summary p --json").json()["regions"][0]["total_us"].is_number());
    let told = room.raddle("trace diff t p").well();
    assert!(told.contains("region") && told.contains("phase, of all regions"), "{told}");
    let diff = room.raddle("trace diff t p --json").json();
    assert_eq!((&diff["before"], &diff["after"]), (&"t".into(), &"p".into()));
    // Each is compared with itself: what differs is which is which.
    let back = room.raddle("trace diff p t --json").json();
    let region = |diff: &serde_json::Value, key: &str| diff["regions"][0][key].as_f64().unwrap();
    assert_eq!(region(&diff, "before_us"), region(&back, "after_us"));
    assert_eq!(region(&diff, "more_us"), -region(&back, "more_us"));
    assert!(room.raddle("trace doctor p").well().contains("nothing was going on"));
}

/// A run that is recorded is held against one that is not, or it is not.
#[test]
fn what_is_compared_is_recorded_alike() {
    let room = Room::new("trace-alike");
    let ratio = |more: &str| {
        let line = format!("run fib --n 27 --threads 2 --runs 3 --json {more}");
        let json = room.raddle(&line).json();
        json["seconds_one_thread"].as_f64().unwrap()
    };
    // Recorded, each fork takes some ten times as long, on one thread as well.
    assert!(ratio("--trace t --trace-level tasks") > 3.0 * ratio("--trace t"));
    let told = room.raddle("run fib --n 9 --threads 2 --trace t --trace-level tasks").well();
    assert!(told.contains("all runs were recorded at level tasks"), "{told}");
    let told = room.raddle("run fib --n 9 --threads 2 --trace t").well();
    assert!(!told.contains("recorded at level"), "{told}");
}

/// A helper that forks for others is no place: those who call it are.
#[test]
fn forks_are_where_the_workload_asks_for_them() {
    let room = Room::new("trace-places");
    room.file("digits.csv", crate::digits());
    image::RgbImage::from_fn(64, 64, |x, y| image::Rgb([x as u8, y as u8, (x * y) as u8]))
        .save(room.path("in.png"))
        .unwrap();
    let lines: String =
        (0..20_000_u32).map(|i| format!("{}\n", i.wrapping_mul(2_654_435_769))).collect();
    room.file("in.txt", lines);
    for (run, place) in [
        ("kmeans digits.csv --k 3 --max-iter 3 --label last", "cluster.rs:"),
        ("knn digits.csv --k 2", "knn.rs:"),
        ("quantize in.png --k 4 --max-iter 3", "cluster.rs:"),
        ("sort in.txt", "merge_sort.rs:"),
    ] {
        let json = room.scaled(&format!("{run} --threads 1"), "t", |_| true);
        let places = json["places"].as_array().unwrap();
        let names: Vec<&str> = places.iter().filter_map(|place| place["name"].as_str()).collect();
        assert!(names.iter().any(|name| name.contains(place)), "{run}: {names:?}");
        assert!(!names.iter().any(|name| name.contains("parallel.rs")), "{run}: {names:?}");
    }
}

/// A shell has jobs in its background ignore Ctrl-C: this one does not, wherever the test runs.
#[cfg(unix)]
fn heeds_ctrl_c(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt;
    let heeds = || {
        // SAFETY: the default runs no handler.
        unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
        Ok(())
    };
    // SAFETY: it makes a call of the system alone.
    unsafe { command.pre_exec(heeds) };
}

/// A run that is ended from outside leaves a trace that can be read.
#[cfg(unix)]
#[test]
fn a_killed_run_leaves_a_trace() {
    let room = Room::new("trace-killed");
    for signal in ["INT", "TERM", "KILL"] {
        let mut run = room.start("run fib --n 60 --threads 1 --trace t --trace-level tasks");
        run.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        heeds_ctrl_c(&mut run);
        let mut run = run.spawn().unwrap();
        // Until something of all its threads is in the file: one of them alone writes a third of that before it is the others' turn.
        let start = Instant::now();
        while std::fs::metadata(room.path("t")).map_or(0, |found| found.len()) < 3 << 20 {
            if start.elapsed() > Duration::from_secs(60) {
                run.kill().unwrap();
                panic!("nothing was recorded in a minute");
            }
            std::thread::yield_now();
        }
        let id = run.id().to_string();
        assert!(
            std::process::Command::new("kill")
                .args(["-s", signal, &id])
                .status()
                .unwrap()
                .success()
        );
        // It fills the disk if it goes on.
        let start = Instant::now();
        while run.try_wait().unwrap().is_none() {
            if start.elapsed() > Duration::from_secs(20) {
                run.kill().unwrap();
                panic!("{signal} does not end it");
            }
            std::thread::yield_now();
        }
        let summary = room.raddle("trace summary t");
        assert_eq!(summary.code, Some(0), "{signal}: {}", summary.stderr);
        assert!(summary.stderr.contains("what comes before is used"), "{}", summary.stderr);
        let text = String::from_utf8(summary.stdout).unwrap();
        assert!(text.contains("0 dropped") && text.contains(" 1 region\n"), "{signal}: {text}");
        for (line, damage) in [
            ("trace doctor t --json", "/damage"),
            ("trace diff t t --json", "/damage/before"),
            ("trace diff t t --json", "/damage/after"),
        ] {
            let json: serde_json::Value =
                serde_json::from_slice(&room.raddle(line).stdout).unwrap();
            let damage = json.pointer(damage).and_then(|damage| damage.as_str());
            assert!(damage.is_some_and(|damage| damage.starts_with("byte ")), "{line}: {json}");
        }
        let page = String::from_utf8(room.raddle("trace html t --output -").stdout).unwrap();
        assert!(page.contains("of a file that is damaged: "), "{signal}");
        let doctor = room.raddle("trace doctor t").stdout;
        let doctor = String::from_utf8(doctor).unwrap();
        assert!(doctor.contains("guest 0 has run a task"), "{doctor}");
        std::fs::remove_file(room.path("t")).unwrap();
    }
}

/// As on a disk that is full half-way.
#[cfg(target_os = "linux")]
#[test]
fn a_trace_that_is_cut_short_is_a_failure() {
    use std::os::unix::process::CommandExt;
    let room = Room::new("cut-trace");
    let mut command =
        room.start("run fib --n 20 --runs 1 --json --trace t.trace --trace-level tasks");
    let limited = || {
        // SAFETY: to ignore a signal has no handler run.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        let limit = libc::rlimit { rlim_cur: 500, rlim_max: 500 };
        // SAFETY: the limit is there for the call.
        match unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: it makes calls of the system alone.
    unsafe { command.pre_exec(limited) };
    let ended: Ended = command.output().unwrap().into();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let json: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!((&json["n"], &json["trace"]), (&20.into(), &().into()));
    let error = json["errors"][0].as_str().unwrap();
    assert!(error.starts_with("t.trace: cannot be written: "), "{error}");
}
