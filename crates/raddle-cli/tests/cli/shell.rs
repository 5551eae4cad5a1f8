//! What makes raddle at home in a shell.

use crate::Room;

#[test]
fn an_input_needs_no_option_and_may_be_standard_input() {
    let room = Room::new("positional");
    room.file("t.csv", "1,a\n2,a\n9,b\n8,b\n");
    let by_option = room.raddle("run knn --input t.csv --k 1 --json").json();
    let by_place = room.raddle("run knn t.csv --k 1 --json").json();
    assert_eq!((&by_option["correct"], &by_place["correct"]), (&4.into(), &4.into()));

    let sorted = room.fed("run sort - --output -", b"b\na\n");
    assert_eq!((sorted.code, sorted.stdout.as_slice()), (Some(0), &b"a\nb\n"[..]));
    assert!(sorted.stderr.starts_with("sort of standard input, 2 lines"), "{}", sorted.stderr);
    let told = room.fed("run knn --input -", b"1,a\nx,b\n").refused();
    assert_eq!(told, "standard input:2:1: \"x\" is not a number");

    room.raddle("run fib --n 12 --trace t").well();
    let trace = std::fs::read(room.path("t")).unwrap();
    let shown = room.fed("trace summary -", &trace).well();
    assert_eq!(shown, room.raddle("trace summary t").well());
}

#[test]
fn command_lines_are_completed() {
    let room = Room::new("completions");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = room.raddle(&format!("completions {shell}")).well();
        for word in ["kmeans", "max-iter", "trace-level", "runs"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn every_command_has_a_page_of_the_manual() {
    let room = Room::new("man");
    for (command, part) in
        [("", "completions"), ("run kmeans", "max\\-iter"), ("trace html", "FILE")]
    {
        let page = room.start(&format!("man {command}")).output().map(crate::Ended::from);
        let page = page.unwrap().well();
        assert!(page.contains(".TH raddle") && page.contains(part), "{command}: {page}");
    }
}

#[test]
fn runs_are_repeated_and_medians_told() {
    let room = Room::new("runs");
    for (line, runs) in
        [("--runs 3 --threads 2", 3), ("--runs 2 --threads 1", 2), ("--threads 2", 5)]
    {
        let line = format!("run fib --n 16 --json {line}");
        let json = room.start(&line).output().map(crate::Ended::from).unwrap().json();
        assert_eq!(json["runs"], runs);
        for (median, each) in [
            ("seconds", "seconds_of_each_run"),
            ("seconds_one_thread", "seconds_one_thread_of_each_run"),
        ] {
            let mut each: Vec<f64> =
                json[each].as_array().unwrap().iter().map(|s| s.as_f64().unwrap()).collect();
            assert_eq!(each.len(), runs);
            each.sort_by(f64::total_cmp);
            let middle = (each[(runs - 1) / 2] + each[runs / 2]) / 2.0;
            // Numbers read from a JSON text may be off by their last bit.
            let told = json[median].as_f64().unwrap();
            assert!((told - middle).abs() <= 1e-9 * middle, "{told} {middle}");
        }
    }
    let text = room.raddle("run fib --n 16 --runs 2 --threads 2").well();
    assert!(text.contains("medians of 2 runs") && text.contains(" to "), "{text}");
    assert!(!room.raddle("run fib --n 16").well().contains("medians"));
}

/// Another program that works all the time is not overlooked.
#[cfg(target_os = "linux")]
#[test]
fn a_busy_machine_is_told_of() {
    let room = Room::new("busy");
    let others: Vec<_> = (0..std::thread::available_parallelism().unwrap().get())
        .map(|_| std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn())
        .collect();
    let (json, told) = (room.raddle("run fib --n 32 --json"), room.raddle("run fib --n 32"));
    for other in others {
        let mut other = other.unwrap();
        other.kill().unwrap();
        other.wait().unwrap();
    }
    let (others, told) = (json.json()["processors_used_by_others"].as_f64(), told.well());
    let remark = "the machine is busy: other programs used ";
    if cfg!(target_os = "linux") {
        assert!(others.is_some_and(|others| others > 0.2), "{others:?}");
        assert!(told.contains(remark), "{told}");
    } else {
        // No other system tells.
        assert!(others.is_none() && !told.contains(remark), "{told}");
    }
}
