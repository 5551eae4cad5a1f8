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
