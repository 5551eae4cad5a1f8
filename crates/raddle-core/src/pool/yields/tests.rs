use super::{AGAIN, CROWD, Crowd, MOST, Nap, Poller, Seen, Since, WORKS, Why};

const FOUR: Crowd = Crowd { others: 0, threads: 4, processors: 2 };

/// Since the last nap: microseconds by the clock, and of a processor.
fn since(clock: u64, processor: impl Into<Option<u64>>) -> Option<Since> {
    let processor = processor.into().map(|time: u64| time * 1_000);
    Some(Since { clock: clock * 1_000, processor })
}

#[test]
fn the_first_nap_says_nothing() {
    assert_eq!(FOUR.nap(Why::Yields, None), Nap { turns: 1, share: 0, polls: false });
}

#[test]
fn who_yields_again_at_once_polls() {
    let nap = FOUR.nap(Why::Yields, since(100, 10));
    assert_eq!(nap, Nap { turns: 1, share: 2_500, polls: true });
}

#[test]
fn who_works_does_not_poll() {
    assert!(!FOUR.nap(Why::Yields, since(100, WORKS / 1_000)).polls, "it had a processor");
    assert!(!FOUR.nap(Why::Yields, since(AGAIN / 1_000, 10)).polls, "it was away for long");
    assert!(!FOUR.nap(Why::Waits, since(100, 10)).polls, "it has run what it waited for");
}

#[test]
fn where_the_system_tells_nothing_the_clock_decides() {
    assert!(FOUR.nap(Why::Yields, since(900, None)).polls);
    assert!(!FOUR.nap(Why::Yields, since(1_000, None)).polls);
    assert_eq!(FOUR.nap(Why::Yields, since(400, None)).share, 100_000, "a quarter of the time");
}

#[test]
fn naps_are_as_long_as_there_are_others_for_each_place() {
    let turns = |others| Crowd { others, ..FOUR }.nap(Why::Yields, since(100, 10)).turns;
    assert_eq!([turns(3), turns(4), turns(40)], [1, 2, 11]);
    let crowd = CROWD * FOUR.processors;
    assert_eq!([turns(crowd - 1), turns(crowd)], [32, 65], "in a crowd for each processor");
}

#[test]
fn in_a_crowd_what_it_had_of_a_processor_decides() {
    let crowd = Crowd { others: CROWD * 2, ..FOUR };
    let polls = |clock, processor| crowd.nap(Why::Yields, since(clock, processor)).polls;
    assert!(polls(500_000, Some(49)), "however long it was without one");
    assert!(!polls(500_000, Some(51)));
    assert!(!polls(500_000, None), "nobody knows");
    let larger = Crowd { others: 100_000, ..FOUR };
    assert!(!larger.nap(Why::Yields, since(500_000, Some(AGAIN / 1_000))).polls, "a bound");
}

#[test]
fn who_works_long_leaves_its_place_for_long_up_to_a_bound() {
    let share = |processor| {
        Crowd { others: 7, ..FOUR }.nap(Why::Yields, since(10 * processor, processor)).share
    };
    assert_eq!(share(1_000), 2_000_000);
    assert_eq!(share(u64::MAX / 1_000_000), MOST);
}

#[test]
fn others_see_it_poll_for_a_while() {
    let poller = Poller::default();
    assert_eq!(poller.seen(1), Seen::Other);
    poller.set(Poller::NAPS);
    assert_eq!(poller.seen(1), Seen::Naps);
    poller.set(10);
    assert_eq!([9, 10].map(|now| poller.seen(now)), [Seen::Polls, Seen::Other]);
    poller.set(Poller::NAPS_AND_WORKS);
    assert_eq!(poller.seen(u64::MAX - 2), Seen::NapsAndWorks);
}
