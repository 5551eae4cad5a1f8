//! How workers take forks, and wake each other.

use raddle::policy::{self, Who};
use raddle::trace::{EventKind, Subject};

use super::{Doing, Item, Machine, Next, Rules};

impl Machine<'_> {
    /// Takes the oldest fork of `victim`, which is public, `late` from now on.
    pub(super) fn take(&mut self, me: usize, victim: usize, late: u64) {
        self.workers[victim].public -= 1;
        // A thief that takes the last public one asks for more at once.
        self.workers[victim].asked |= self.workers[victim].public == 0;
        let stack = &mut self.workers[victim].stack;
        let Some((index, right)) =
            stack.iter_mut().enumerate().find_map(|(index, item)| match item {
                Item::Fork { right, thief: thief @ None, .. } => {
                    *thief = Some(me);
                    Some((index, *right))
                }
                _ => None,
            })
        else {
            unreachable!("what is public is there");
        };
        let searched = self.workers[me].stack.is_empty();
        let mut at = self.now + late + self.setup.costs.steal;
        if searched {
            self.searching -= 1;
            self.workers[me].fruitless = false;
            let woken = std::mem::take(&mut self.workers[me].woken);
            if woken && self.sleeping > 0 && self.setup.rules == Rules::Raddle {
                self.workers[me].spreads = self.setup.policy.spreads(self.setup.workers);
                self.workers[me].asked |= self.workers[me].spreads > 0;
            }
            at += self.hand_on();
        }
        self.workers[me].stack.push(Item::Base { owner: victim, index });
        self.note(me, at, EventKind::Exec, Subject::Fork);
        self.plan(me, at, Doing::Runs(Next::Leaves(right.0, right.1)));
    }

    /// Asks for a private fork. The owner answers at its next push or pop, or is answered for.
    pub(super) fn ask(&mut self, me: usize, victim: usize, waits: bool) {
        self.workers[victim].asked = true;
        let poll = policy::POLL.as_nanos() as u64;
        let answer = self.workers[victim].due.saturating_sub(self.now).saturating_add(1);
        let time = if answer <= poll { answer } else { poll + self.setup.costs.fence };
        self.fences += usize::from(answer > poll);
        self.plan(me, self.now + time, Doing::Asks { victim, waits });
    }

    pub(super) fn answer(&mut self, me: usize, victim: usize, waits: bool) {
        let doing = if waits { Doing::Waits } else { Doing::Searches };
        self.workers[me].doing = doing;
        if self.workers[victim].public == 0 && self.workers[victim].asked {
            // It was silent all the while, so all that it has is made public.
            self.workers[victim].public = self.untaken(victim);
        }
        // A waiter whose fork is done meanwhile has better to do.
        let over = matches!(self.workers[me].stack.last(), Some(Item::Fork { done: true, .. }));
        if self.workers[victim].public > 0 && !(waits && over) {
            return self.take(me, victim, 0);
        }
        self.plan(me, self.now, doing);
    }

    /// A thief has found work: wakes others. How long that takes.
    pub(super) fn hand_on(&mut self) -> u64 {
        let nobody_sleeps = self.sleeping == 0 && self.napper.is_none();
        if nobody_sleeps || self.setup.rules == Rules::ForkJoinPool {
            return 0;
        }
        let mut visible = self.visible();
        let mut late = 0;
        if visible == 0 && self.nobody_looks() {
            self.fences += 1;
            self.workers.iter_mut().for_each(|worker| worker.asked = true);
            late += self.setup.costs.fence;
            visible = self.visible();
        }
        self.wake_some(visible, late)
    }

    pub(super) fn pass_on(&mut self, _me: usize) -> u64 {
        if self.setup.policy.who != Who::Woken {
            return 0;
        }
        let visible = self.visible();
        self.wake_some(visible, 0)
    }

    pub(super) fn wake_some(&mut self, visible: usize, mut late: u64) -> u64 {
        for _ in 0..self.setup.policy.wakes(self.setup.workers, visible) {
            if self.idle() > self.searching && self.searching < self.search_cap() {
                late += self.wake_one(late);
            }
        }
        late
    }

    /// The first forks of a thief wake one more each. How long that takes.
    pub(super) fn spread(&mut self, me: usize) -> u64 {
        let left = std::mem::take(&mut self.workers[me].spreads);
        if left == 0 || self.sleeping == 0 {
            return 0;
        }
        self.workers[me].spreads = left - 1;
        self.wake_one(0)
    }

    /// Wakes whoever naps, or a sleeper, `late` from now on. What it costs.
    pub(super) fn wake_one(&mut self, late: u64) -> u64 {
        let asleep = || self.workers.iter().position(|w| w.doing == Doing::Sleeps);
        let Some(sleeper) = self.napper.or_else(asleep) else { return 0 };
        if self.napper.take().is_none() {
            self.sleeping -= 1;
        }
        self.workers[sleeper].saw = false;
        self.searching += 1;
        let awake = self.now + late + self.latency();
        self.plan(sleeper, awake, Doing::Wakes);
        self.setup.costs.wake
    }
}
