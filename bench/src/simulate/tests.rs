//! Machines simple enough to know what must come out.

use std::time::Duration;

use raddle::policy::Policy;
use raddle::trace::{ClockPair, Event, EventKind, Lane, Subject, Trace};

use super::*;

fn setup(workers: usize) -> Setup {
    Setup {
        workers,
        policy: Policy::default(),
        costs: Costs {
            enter: 100,
            leave: 50,
            fork: 2,
            look: 10,
            steal: 200,
            fence: 10_000,
            wake: 10_000,
            nap: 0,
            latency: vec![40_000],
        },
        leaves: 128,
        leaf: 10_000,
        caller_works: true,
        rules: Rules::Raddle,
        full: workers,
        busy_loop: false,
    }
}

#[test]
fn one_worker_does_all_of_it_alone() {
    let region = &regions(&setup(1), 1)[0];
    let work = region.total.as_nanos() as u64;
    // Leaves are of random lengths, ten microseconds on average; forks take a little.
    assert!((1_180_000..1_380_000).contains(&work), "{region}");
    assert_eq!((region.peak, region.first_handoff.as_nanos()), (1, 100));
}

#[test]
fn two_workers_share_after_one_wake() {
    let region = &regions(&setup(2), 1)[0];
    assert_eq!(region.peak, 2);
    let ramp_up = region.ramp_up.as_micros();
    assert!((40..55).contains(&ramp_up), "{region}");
    // The second one misses the latency, the first one the cost.
    let ideal = Duration::from_nanos((1_280_000 + 40_000 + 10_000) / 2);
    assert!(region.total.abs_diff(ideal) < ideal / 8, "{region}");
}

#[test]
fn two_workers_share_without_a_wake_while_one_naps() {
    let mut setup = setup(2);
    setup.costs.nap = 100_000;
    for region in regions(&setup, 20) {
        assert!(region.ramp_up.as_micros() < 130, "{region}");
        let ideal = (1_280_000 + 65_000) / 2;
        assert!(
            region.total.abs_diff(Duration::from_nanos(ideal)).as_nanos() < 100_000,
            "{region}"
        );
    }
}

/// The last leaves are shared out by owners that know that they are wanted, not one after the other by a fence for each.
#[test]
fn whoever_was_asked_and_had_nothing_shares_what_it_forks_next() {
    let mut setup = Setup { leaves: 100, ..setup(2) };
    setup.costs.nap = 125_000;
    let late = median(&regions(&setup, 400), |region| region.catch_up);
    assert!(late < 10.0, "{late} us, and a leaf takes 10");
}

#[test]
fn more_workers_are_faster_and_a_busy_loop_is_fastest() {
    let mut last = Duration::MAX;
    for workers in [1, 2, 8, 32] {
        let total = regions(&Setup { leaves: 2_000, ..setup(workers) }, 1)[0].total;
        assert!(total < last, "{workers}: {total:?}, before {last:?}");
        last = total;
    }
    let spinning = Setup { busy_loop: true, leaves: 2_000, ..setup(32) };
    assert!(regions(&spinning, 1)[0].total < last);
}

#[test]
fn every_machine_comes_to_an_end() {
    for workers in [1, 2, 3, 5, 17, 64, 300] {
        for fan_out in [1, 2, 3, 4] {
            for (leaves, leaf) in [(1, 5), (2, 50_000), (333, 700), (5_000, 10)] {
                for (caller_works, nap) in [(true, 0), (true, 100_000), (false, 0)] {
                    let policy = Policy { fan_out, ..Policy::default() };
                    let mut setup = Setup { policy, leaves, leaf, caller_works, ..setup(workers) };
                    setup.costs.nap = nap;
                    for region in regions(&setup, 3) {
                        let sum: Duration = region.parts().iter().map(|part| part.1).sum();
                        assert_eq!(sum, region.total);
                        assert!(region.unattributed.is_zero());
                        let work = Duration::from_nanos(leaves as u64 * (leaf / 2));
                        assert!(region.total * workers as u32 >= work, "{region}");
                    }
                }
            }
        }
    }
}

/// The same tree as events, all of it run by one thread, as `raddle trace scale` has it.
fn recorded(leaves: usize, leaf: u64) -> Trace {
    let mut events = Vec::new();
    let mut now = 0;
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut note = |now, kind, subject: Subject, task| {
        events.push(Event { flags: subject as u8, ..Event::new(now, kind, task) });
    };
    note(0, EventKind::Submit, Subject::Region, 1);
    note(0, EventKind::Exec, Subject::Region, 1);
    // What is yet to be done, the next on top: leaves, or the second half of a fork, or its end.
    let mut rest = vec![(EventKind::Fork, leaves, 2)];
    while let Some((kind, leaves, fork)) = rest.pop() {
        if kind != EventKind::Fork {
            note(now, kind, Subject::Fork, fork);
        } else if leaves > 1 {
            note(now, kind, Subject::Fork, fork);
            rest.push((EventKind::Executed, 0, fork));
            rest.push((EventKind::Fork, leaves - leaves / 2, fork + 1));
            rest.push((EventKind::Exec, 0, fork));
            rest.push((EventKind::Fork, leaves / 2, fork + 1));
        } else {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            now += leaf / 2 + random % (leaf + 1);
        }
    }
    note(now, EventKind::Executed, Subject::Region, 1);
    note(now, EventKind::Waited, Subject::Region, 1);
    let end = ClockPair { tsc: now, nanos: now };
    let mut trace = Trace::new(ClockPair { tsc: 0, nanos: 0 }, end);
    trace.lanes.push(Lane::new("guest 0", events));
    trace
}

/// `Trace::scale` has the pool's rules for wakes once more, as it knows no pool. In it whoever waits for a fork takes on something
/// else meanwhile, so it is up to a fifth faster. Were workers woken one after the other, 1,024 would take four times as long.
#[test]
fn what_a_trace_foretells_comes_of_the_same_rules() {
    let (leaves, leaf) = (624, 551_000);
    let scale = recorded(leaves, leaf).scale(&[]).unwrap();
    let costs = Costs {
        enter: 0,
        leave: 0,
        fork: 0,
        look: 0,
        steal: scale.costs.steal as u64,
        fence: 0,
        wake: scale.costs.rouse as u64,
        nap: 0,
        latency: vec![scale.costs.wake as u64],
    };
    for point in &scale.points {
        let setup = Setup { leaves, leaf, costs: costs.clone(), ..setup(point.processors) };
        let simulated =
            scale.work.as_secs_f64() * 1e6 / median(&regions(&setup, 9), |region| region.total);
        let ratio = point.speedup / simulated;
        assert!((0.9..1.3).contains(&ratio), "{point:?}, {simulated} by the policy");
    }
}
