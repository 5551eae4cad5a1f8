//! The page about the machine.

use crate::Room;

#[test]
fn one_page_of_eighty_columns() {
    let room = Room::new("page");
    let page = room.raddle("--quick --threads 2").well();
    assert!(page.lines().count() <= 50, "{page}");
    // The second line is the name of the processor.
    for (number, line) in page.lines().enumerate() {
        assert!(number == 1 || line.chars().count() <= 80, "{line}");
    }
    for part in
        ["Worker::join", "raddle::join", "2 threads", "floor", "Idle", "Locks", "raddle run kmeans"]
    {
        assert!(page.contains(part), "{part}: {page}");
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
