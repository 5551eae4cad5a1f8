//! The longest chain of a region: what its time hung on, step by step.
//!
//! Found backwards. From the root's end go back on its lane; where it had waited for a fork, go on at the
//! end of that fork, on the lane that ran it; at the beginning of a stolen fork, go on where it was
//! forked, or where it was stolen if the fork itself was not recorded. What is passed on a lane is work,
//! what is passed between lanes is hand-off.

use std::collections::HashMap;
use std::time::Duration;

use crate::edges::Index;
use crate::event::{Event, EventKind, Subject};
use crate::trace::Trace;

/// What one region's time hung on. Work and hand-off add up to the total.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// The region's root task.
    pub task: u32,
    /// From the root's first execution until it was done.
    pub total: Duration,
    /// On a lane, running or waiting for what the trace does not tell.
    pub work: Duration,
    /// From lane to lane.
    pub handoff: Duration,
    /// How many steals the chain passes.
    pub steals: usize,
    /// How many results it waits for.
    pub results: usize,
}

impl Trace {
    /// The longest chain of each region that has a beginning and an end, in the order of its lanes.
    /// Costs a pass over all events, and one over those of each chain.
    pub fn longest_chain(&self) -> Vec<Chain> {
        let index = Index::new(self);
        let mut forks: HashMap<(Subject, u32), Vec<u64>> = HashMap::new();
        for lane in &self.lanes {
            for event in lane.events.iter().filter(|e| e.kind == EventKind::Fork) {
                forks.entry(event.key()).or_default().push(event.tsc);
            }
        }
        forks.values_mut().for_each(|times| times.sort_unstable());
        let mut chains = Vec::new();
        for (number, lane) in self.lanes.iter().enumerate() {
            let mut begun = HashMap::new();
            let mut ours = std::collections::HashSet::new();
            for (at, event) in lane.events.iter().enumerate() {
                match event.kind {
                    EventKind::Submit => _ = ours.insert(event.key()),
                    EventKind::Exec if ours.contains(&event.key()) => {
                        begun.insert(event.key(), event.tsc);
                    }
                    EventKind::Executed => {
                        if let Some(begin) = begun.remove(&event.key()) {
                            let walk = Walk { trace: self, index: &index, forks: &forks, begin };
                            chains.push(walk.back(event.task, number, at));
                        }
                    }
                    _ => {}
                }
            }
        }
        chains
    }
}

struct Walk<'a> {
    trace: &'a Trace,
    index: &'a Index,
    forks: &'a HashMap<(Subject, u32), Vec<u64>>,
    begin: u64,
}

impl Walk<'_> {
    /// From event number `at` of `lane` back to the beginning.
    fn back(&self, task: u32, mut lane: usize, at: usize) -> Chain {
        let end = self.trace.lanes[lane].events[at].tsc;
        let total = self.trace.between(self.begin, end);
        let mut chain = Chain { task, total: Duration::from_nanos(total), ..Chain::default() };
        let (mut handoff, mut now, mut next) = (0, end, at);
        while let Some(at) = next.checked_sub(1) {
            next = at;
            let events = &self.trace.lanes[lane].events;
            let event = &events[at];
            if event.tsc <= self.begin {
                break;
            }
            let jump = match event.kind {
                EventKind::Joined => self.result(event, events, at, lane),
                EventKind::Exec => self.origin(event, events, at, lane),
                _ => None,
            };
            // Only ever back in time, so the walk ends.
            let Some((to, tsc)) = jump.filter(|&(_, tsc)| tsc < now.min(event.tsc)) else {
                continue;
            };
            let tsc = tsc.max(self.begin);
            handoff += self.trace.between(tsc, event.tsc);
            if event.kind == EventKind::Exec {
                chain.steals += 1
            } else {
                chain.results += 1
            }
            (lane, now) = (to, tsc);
            next = self.trace.lanes[lane].events.partition_point(|e| e.tsc <= tsc);
        }
        chain.handoff = Duration::from_nanos(handoff.min(total));
        chain.work = chain.total - chain.handoff;
        chain
    }

    /// Where the fork ended that a `JOINED` had waited for.
    fn result(
        &self,
        joined: &Event,
        events: &[Event],
        at: usize,
        lane: usize,
    ) -> Option<(usize, u64)> {
        let (runner, end) = self.index.executed(joined)?;
        let begun = events[..at].iter().rev().take(64);
        let waited = begun.clone().find(|e| e.kind == EventKind::Join && e.key() == joined.key());
        (runner != lane && waited.is_some_and(|join| end > join.tsc)).then_some((runner, end))
    }

    /// Where a stolen fork came from.
    fn origin(
        &self,
        exec: &Event,
        events: &[Event],
        at: usize,
        lane: usize,
    ) -> Option<(usize, u64)> {
        let before = events[..at].iter().rev().take(8);
        let steal = before.clone().find(|e| e.kind == EventKind::Steal && e.key() == exec.key())?;
        let victim = usize::from(steal.aux);
        let forked = self.forks.get(&exec.key()).and_then(|times| {
            let after = times.partition_point(|&tsc| tsc <= steal.tsc);
            times.get(after.checked_sub(1)?).copied()
        });
        let here = victim == lane || victim >= self.trace.lanes.len();
        (!here).then_some((victim, forked.unwrap_or(steal.tsc)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventKind::*;
    use crate::trace::{ClockPair, Lane};

    fn event(tsc: u64, kind: EventKind, subject: Subject, task: u32) -> Event {
        Event { flags: subject as u8, ..Event::new(tsc, kind, task) }
    }

    #[test]
    fn the_chain_goes_through_the_thief_if_the_owner_waited_for_him() {
        use Subject::{Fork as F, Region as R};
        let trace = |recorded: bool| {
            let mut trace =
                Trace::new(ClockPair { tsc: 0, nanos: 0 }, ClockPair { tsc: 900, nanos: 900 });
            let mut owner = vec![event(0, Submit, R, 1), event(10, Exec, R, 1)];
            if recorded {
                owner.push(event(20, Fork, F, 5));
            }
            owner.extend([
                event(100, Join, F, 5),
                event(400, Joined, F, 5),
                event(500, Executed, R, 1),
            ]);
            trace.lanes.push(Lane::new("owner", owner));
            let thief = [
                event(60, Steal, F, 5), // aux 0: from the owner
                event(70, Exec, F, 5),
                event(380, Executed, F, 5),
            ];
            trace.lanes.push(Lane::new("thief", thief.to_vec()));
            trace.longest_chain()
        };
        let us = Duration::from_nanos;
        let chain = |work, handoff| Chain {
            task: 1,
            total: us(490),
            work: us(work),
            handoff: us(handoff),
            steals: 1,
            results: 1,
        };
        // 10 to 20 on the owner, to 70 handed over, to 380 on the thief, to 400 handed back.
        assert_eq!(trace(true), [chain(420, 70)]);
        // Without the fork the steal is all that is known of it.
        assert_eq!(trace(false), [chain(460, 30)]);
    }

    #[test]
    fn a_result_that_was_there_already_is_not_waited_for() {
        use Subject::{Fork as F, Region as R};
        let mut trace =
            Trace::new(ClockPair { tsc: 0, nanos: 0 }, ClockPair { tsc: 900, nanos: 900 });
        let owner = [
            event(0, Submit, R, 1),
            event(0, Exec, R, 1),
            event(300, Join, F, 5),
            event(310, Joined, F, 5),
            event(400, Executed, R, 1),
        ];
        trace.lanes.push(Lane::new("owner", owner.to_vec()));
        let thief = [event(60, Steal, F, 5), event(70, Exec, F, 5), event(200, Executed, F, 5)];
        trace.lanes.push(Lane::new("thief", thief.to_vec()));
        let chain = &trace.longest_chain()[0];
        assert_eq!((chain.handoff, chain.steals, chain.results), (Duration::ZERO, 0, 0));
    }
}
