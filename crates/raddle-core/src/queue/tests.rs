//! How much a ring keeps.

use super::*;

/// A task that nobody runs.
fn task(number: usize) -> Task {
    NonNull::new(std::ptr::without_provenance_mut(64 * (number + 1))).unwrap()
}

/// What the process has in memory, in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn a_ring_that_was_large_gives_its_memory_back_and_goes_on() {
    const MANY: usize = 1 << 22;
    let ring = Ring::new();
    for round in 0..3 {
        (0..MANY).for_each(|number| ring.push(task(number), NOBODY));
        let full = resident();
        ring.give_back();
        assert_eq!(ring.len(), MANY, "not while there are tasks");
        let half = MANY / 2;
        assert!((0..half).all(|number| ring.steal_with_tag() == Some((task(number), NOBODY))));
        assert!((half..MANY).rev().all(|number| ring.pop_if(task(number))));
        assert_eq!((ring.len(), ring.steal_with_tag()), (0, None));
        ring.give_back();
        // 64 MiB in the newest buffer; tests beside this one take some.
        let freed = full.saturating_sub(resident());
        assert!(freed > 32 << 20, "round {round}: {freed} of {full} bytes");
    }
    ring.push(task(5), NOBODY);
    assert!(ring.pop_if(task(5)));
}

/// Whichever end they were taken from, the second time as the first; and not again for a few.
#[test]
fn what_a_ring_keeps_is_told_from_what_it_has_given_back() {
    const MANY: usize = KEPT + 1;
    let ring = Ring::new();
    let fill = |many| (0..many).for_each(|number| ring.push(task(number), NOBODY));
    let empty: [fn(&Ring, usize); 2] = [
        |ring, many| (0..many).rev().for_each(|number| assert!(ring.pop_if(task(number)))),
        |ring, many| (0..many).for_each(|_| assert!(ring.steal_with_tag().is_some())),
    ];
    for _ in 0..3 {
        for empty in empty {
            fill(MANY);
            assert!(!ring.keeps_much(), "there are tasks");
            empty(&ring, MANY);
            assert!(ring.keeps_much());
            ring.give_back();
            assert!(!ring.keeps_much());
            (0..10).for_each(|_| {
                fill(KEPT / 20);
                empty(&ring, KEPT / 20);
            });
            // Stolen ones lie behind each other: half of what may be kept. Popped ones lie where they lay.
            assert!(!ring.keeps_much());
        }
    }
}
