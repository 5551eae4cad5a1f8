//! The machine: workers, what they do next, and when.

mod wake;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use raddle::policy;
use raddle::trace::{ClockPair, Event, EventKind, Lane, Subject, Trace};

use super::{Rules, Setup};

/// Something on a worker's stack.
#[derive(Debug)]
enum Item {
    /// A fork whose first half runs above; the second half is of these leaves.
    Fork { right: (usize, usize), thief: Option<usize>, done: bool },
    /// A stolen job starts here: whose fork it is.
    Base { owner: usize, index: usize },
    /// The region's root.
    Root,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Doing {
    Sleeps,
    /// Sleeps for a short time, and looks after it. It counts neither as sleeping nor as searching.
    Naps,
    /// Was woken, and will look for work.
    Wakes,
    Searches,
    /// Has asked this worker to share, and waits for the answer, while it searches or waits for a fork.
    Asks {
        victim: usize,
        waits: bool,
    },
    /// Works, and does this next.
    Runs(Next),
    /// Waits for the fork on top of its stack.
    Waits,
    /// The same, asleep.
    Parks,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Next {
    /// These leaves, from the first half on.
    Leaves(usize, usize),
    /// A leaf has been done, or a job: see what lies on the stack.
    Pop,
}

#[derive(Debug)]
struct Worker {
    doing: Doing,
    stack: Vec<Item>,
    /// How many of the oldest forks thieves may take without asking.
    public: usize,
    /// Asked to share.
    asked: bool,
    /// When it began to search or to wait.
    since: u64,
    fruitless: bool,
    /// It was woken, and has not found anything since.
    woken: bool,
    /// With so many of its next forks it has one more woken each.
    spreads: usize,
    /// A napper that has seen work looks again.
    saw: bool,
    /// When it does something next; what was planned for another time is void.
    due: u64,
    events: Vec<Event>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Machine<'a> {
    setup: &'a Setup,
    workers: Vec<Worker>,
    agenda: BinaryHeap<Reverse<(u64, usize)>>,
    now: u64,
    searching: usize,
    sleeping: usize,
    napper: Option<usize>,
    /// Heavy fences so far.
    fences: usize,
    random: u64,
    /// Leaves that are not done.
    left: usize,
    done: Option<u64>,
}

const ROOT: u32 = 1;

impl<'a> Machine<'a> {
    pub(crate) fn new(setup: &'a Setup, seed: u64) -> Machine<'a> {
        let idle = if setup.busy_loop { Doing::Searches } else { Doing::Sleeps };
        let worker = |_| Worker {
            doing: idle,
            stack: Vec::new(),
            public: 0,
            // The last searcher has asked them all; a napper asks nobody.
            asked: setup.costs.nap == 0,
            since: 0,
            fruitless: false,
            woken: false,
            spreads: 0,
            saw: false,
            due: u64::MAX,
            events: Vec::new(),
        };
        let others = setup.workers - 1;
        Machine {
            setup,
            workers: (0..setup.workers).map(worker).collect(),
            agenda: BinaryHeap::new(),
            now: 0,
            searching: if setup.busy_loop { others } else { 0 },
            sleeping: if setup.busy_loop { 0 } else { others },
            napper: None,
            fences: 0,
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            left: setup.leaves,
            done: None,
        }
    }

    /// Runs one region, and returns what a pool would have recorded, and how many heavy fences there were.
    pub(crate) fn run(mut self) -> (Trace, usize) {
        let costs = &self.setup.costs;
        let latency = self.latency();
        let start = if self.setup.caller_works { costs.enter } else { latency };
        self.workers[0].stack.push(Item::Root);
        self.note(0, start, EventKind::Exec, Subject::Region);
        self.plan(0, start, Doing::Runs(Next::Leaves(0, self.setup.leaves)));
        if self.setup.busy_loop {
            for worker in 1..self.setup.workers {
                let at = self.draw() % (costs.look * self.setup.workers as u64 + 1);
                self.plan(worker, at, Doing::Searches);
            }
        }
        if costs.nap > 0 && self.sleeping > 0 {
            // Since the last region.
            self.sleeping -= 1;
            self.napper = Some(1);
            let at = self.draw() % costs.nap;
            self.plan(1, at, Doing::Naps);
        }
        while self.done.is_none() {
            let Some(Reverse((time, worker))) = self.agenda.pop() else {
                panic!("nobody has anything to do, and the region is not done: {self:?}");
            };
            if self.workers[worker].due == time {
                self.now = time;
                self.workers[worker].due = u64::MAX;
                self.step(worker);
            }
        }
        let fences = self.fences;
        (self.trace(), fences)
    }

    fn trace(mut self) -> Trace {
        let done = self.done.unwrap_or(0);
        let back =
            if self.setup.caller_works { self.setup.costs.leave } else { self.setup.costs.wake };
        let end = done + back;
        let zero = ClockPair { tsc: 0, nanos: 0 };
        let mut trace = Trace::new(zero, ClockPair { tsc: end, nanos: end });
        trace.threads = self.setup.full as u32;
        let event =
            |tsc, kind| Event { flags: Subject::Region as u8, ..Event::new(tsc, kind, ROOT) };
        let caller = vec![event(0, EventKind::Submit), event(end, EventKind::Waited)];
        trace.lanes.push(Lane::new("caller", caller));
        for worker in &mut self.workers {
            trace.lanes.push(Lane::new("worker", std::mem::take(&mut worker.events)));
        }
        trace
    }

    // --- one step ---

    fn step(&mut self, me: usize) {
        match self.workers[me].doing {
            Doing::Runs(Next::Leaves(from, to)) => self.split(me, from, to),
            Doing::Runs(Next::Pop) => {
                self.left -= 1;
                self.pop(me);
            }
            Doing::Wakes => {
                let late = self.pass_on(me);
                self.workers[me].since = self.now;
                self.workers[me].woken = true;
                self.plan(me, self.now + late, Doing::Searches);
            }
            Doing::Naps => self.look(me),
            Doing::Searches => self.search(me),
            Doing::Asks { victim, waits } => self.answer(me, victim, waits),
            Doing::Waits => self.wait(me),
            Doing::Sleeps | Doing::Parks => {}
        }
    }

    /// Forks down to the first leaf. A wake on the way takes time, and the rest comes after it.
    fn split(&mut self, me: usize, from: usize, mut to: usize) {
        let mut at = self.now;
        while to - from > 1 {
            let middle = from.midpoint(to);
            self.workers[me].stack.push(Item::Fork {
                right: (middle, to),
                thief: None,
                done: false,
            });
            to = middle;
            at += self.setup.costs.fork;
            let late = self.attend(me) + self.spread(me);
            if late > 0 {
                return self.plan(me, at + late, Doing::Runs(Next::Leaves(from, to)));
            }
        }
        // From half a leaf to one and a half.
        let leaf = self.setup.leaf / 2 + self.draw() % (self.setup.leaf + 1);
        self.plan(me, at + leaf, Doing::Runs(Next::Pop));
    }

    /// A push or pop: of somebody who was asked to share it publishes half, and wakes if nobody searches. How long that takes.
    fn attend(&mut self, me: usize) -> u64 {
        if self.setup.rules == Rules::ForkJoinPool {
            let untaken = self.untaken(me);
            self.workers[me].public = untaken;
            return if (1..=self.setup.policy.fan_out).contains(&untaken) && self.sleeping > 0 {
                self.wake_one(0)
            } else {
                0
            };
        }
        if !self.workers[me].asked {
            return 0;
        }
        // What is forked from a stolen job is its owner's to help with, if it sleeps meanwhile.
        let served = self.workers[me].stack.iter().rev().find_map(|item| match item {
            Item::Base { owner, .. } => Some(*owner),
            _ => None,
        });
        let (untaken, searching) = (self.untaken(me), self.searching);
        let worker = &mut self.workers[me];
        let public = untaken.div_ceil(2).max(untaken.min(searching));
        worker.public = public.max(worker.public.min(untaken));
        // Whoever has asked, to no avail or beside others, need not do so again, nor pay for a fence: a thread that waits neither.
        worker.asked = worker.public == 0 || worker.public < searching;
        if untaken > 0 && self.nobody_looks() && self.sleeping > 0 {
            return self.wake_one(0);
        }
        if let Some(owner) = served.filter(|&owner| self.workers[owner].doing == Doing::Parks) {
            let awake = self.now + self.latency();
            self.plan(owner, awake, Doing::Waits);
            return self.setup.costs.wake;
        }
        0
    }

    fn pop(&mut self, me: usize) {
        loop {
            match self.workers[me].stack.last() {
                Some(&Item::Fork { right, thief: None, .. }) => {
                    self.workers[me].stack.pop();
                    let left = self.untaken(me);
                    let worker = &mut self.workers[me];
                    worker.public = worker.public.min(left);
                    let late = self.attend(me);
                    let at = self.now + self.setup.costs.fork + late;
                    return self.plan(me, at, Doing::Runs(Next::Leaves(right.0, right.1)));
                }
                _ if self.setup.rules == Rules::ForkJoinPool => return self.complete(me),
                Some(Item::Fork { done: true, .. }) => _ = self.workers[me].stack.pop(),
                Some(Item::Fork { .. }) => {
                    self.workers[me].since = self.now;
                    self.note(me, self.now, EventKind::Wait, Subject::Fork);
                    return self.plan(me, self.now, Doing::Waits);
                }
                Some(&Item::Base { owner, index }) => {
                    self.workers[me].stack.pop();
                    return self.finish(me, owner, index);
                }
                Some(Item::Root) => {
                    self.note(me, self.now, EventKind::Executed, Subject::Region);
                    self.done = Some(self.now);
                    return;
                }
                None => unreachable!("a worker that runs has something on its stack"),
            }
        }
    }

    /// What is left of a job is with others: nobody waits for them, and the last one completes what is above.
    fn complete(&mut self, me: usize) {
        let root = self.workers[me].stack.drain(..).any(|item| matches!(item, Item::Root));
        let kind = if root { EventKind::Wait } else { EventKind::Executed };
        self.note(me, self.now, kind, Subject::Fork);
        if self.left == 0 {
            self.note(0, self.now, EventKind::Waited, Subject::Fork);
            self.note(0, self.now, EventKind::Executed, Subject::Region);
            self.done = Some(self.now);
            return;
        }
        self.idle_from(me, 0);
    }

    /// A stolen job is done.
    fn finish(&mut self, me: usize, owner: usize, index: usize) {
        self.note(me, self.now, EventKind::Executed, Subject::Fork);
        if let Item::Fork { done, .. } = &mut self.workers[owner].stack[index] {
            *done = true;
        }
        let mut late = 0;
        match self.workers[owner].doing {
            Doing::Waits => self.plan(owner, self.now, Doing::Waits),
            // Or asks, and will see to it then.
            Doing::Parks => {
                late = self.setup.costs.wake;
                let awake = self.now + self.latency();
                self.plan(owner, awake, Doing::Waits);
            }
            _ => {}
        }
        if !self.workers[me].stack.is_empty() {
            // It had helped while it waited, and waits on.
            self.workers[me].since = self.now;
            return self.plan(me, self.now + late, Doing::Waits);
        }
        self.idle_from(me, late);
    }

    /// A worker without anything of its own searches, `late` from now on, or sleeps.
    fn idle_from(&mut self, me: usize, late: u64) {
        self.workers[me].since = self.now;
        if self.searching < self.linger_cap() || self.setup.busy_loop {
            self.searching += 1;
            return self.plan(me, self.now + late, Doing::Searches);
        }
        self.sleeping += 1;
        self.workers[me].doing = Doing::Sleeps;
    }

    fn wait(&mut self, me: usize) {
        let Some(&Item::Fork { thief: Some(thief), done, .. }) = self.workers[me].stack.last()
        else {
            unreachable!("a worker waits for a stolen fork");
        };
        if done {
            self.note(me, self.now, EventKind::Waited, Subject::Fork);
            return self.pop(me);
        }
        if self.workers[thief].public > 0 {
            return self.take(me, thief, 0);
        }
        if self.untaken(thief) > 0 {
            return self.ask(me, thief, true);
        }
        let patience = self.patience(me, true);
        if self.now - self.workers[me].since < patience {
            return self.plan(me, self.now + self.setup.costs.steal.max(200), Doing::Waits);
        }
        // It asks its thief to wake it, and looks once more.
        self.fences += 1;
        self.workers[me].doing = Doing::Parks;
    }

    /// A nap is over.
    fn look(&mut self, me: usize) {
        if self.visible() == 0 {
            self.workers[me].saw = false;
            return self.plan(me, self.now + self.setup.costs.nap, Doing::Naps);
        }
        if !std::mem::replace(&mut self.workers[me].saw, true) {
            let grace = policy::GRACE.as_nanos() as u64;
            return self.plan(me, self.now + grace, Doing::Naps);
        }
        self.workers[me].saw = false;
        self.napper = None;
        self.searching += 1;
        self.workers[me].since = self.now;
        self.search(me);
    }

    fn search(&mut self, me: usize) {
        let count = self.setup.workers;
        let first = self.draw() as usize % count;
        let mut looked = 0;
        let mut private = None;
        for victim in (first..count).chain(0..first).filter(|&victim| victim != me) {
            looked += 1;
            if self.workers[victim].public > 0 {
                return self.take(me, victim, looked * self.setup.costs.look);
            }
            if private.is_none() && self.untaken(victim) > 0 {
                private = Some(victim);
            }
        }
        if let Some(victim) = private {
            return self.ask(me, victim, false);
        }
        let round = (looked * self.setup.costs.look).max(200);
        if self.setup.busy_loop
            || self.now + round - self.workers[me].since < self.patience(me, false)
        {
            return self.plan(me, self.now + round, Doing::Searches);
        }
        self.workers[me].fruitless = true;
        self.searching -= 1;
        if self.napper.is_none() && self.setup.costs.nap > 0 {
            self.napper = Some(me);
            return self.plan(me, self.now + self.setup.costs.nap, Doing::Naps);
        }
        self.sleeping += 1;
        self.workers[me].doing = Doing::Sleeps;
        if self.nobody_looks() {
            self.fences += 1;
            self.workers.iter_mut().for_each(|worker| worker.asked = true);
            if self.visible() > 0 {
                self.sleeping -= 1;
                self.searching += 1;
                self.plan(me, self.now + round + self.setup.costs.fence, Doing::Searches);
            }
        }
    }

    /// How many workers have work to be seen, counted as far as that matters.
    fn visible(&self) -> usize {
        let most = self.setup.policy.fan_out.max(1);
        let has_work =
            |w: &&Worker| w.stack.iter().any(|item| matches!(item, Item::Fork { thief: None, .. }));
        self.workers.iter().filter(has_work).take(most).count()
    }

    fn untaken(&self, me: usize) -> usize {
        let stack = &self.workers[me].stack;
        stack.iter().filter(|item| matches!(item, Item::Fork { thief: None, .. })).count()
    }

    /// How many may search when one is done with its work.
    fn linger_cap(&self) -> usize {
        self.setup.policy.linger_cap(self.setup.workers, self.idle())
    }

    /// How many may search when one is to be woken.
    fn search_cap(&self) -> usize {
        self.setup.policy.search_cap(self.setup.workers, self.idle())
    }

    /// How many have nothing to do.
    fn idle(&self) -> usize {
        self.searching + self.sleeping + usize::from(self.napper.is_some())
    }

    fn nobody_looks(&self) -> bool {
        self.searching == 0 && self.napper.is_none()
    }

    fn patience(&self, me: usize, waits: bool) -> u64 {
        let cost = std::time::Duration::from_nanos(self.setup.costs.median_latency());
        let fruitless = self.workers[me].fruitless && !waits;
        self.setup.policy.patience(cost, fruitless, 0).as_nanos() as u64
    }

    fn latency(&mut self) -> u64 {
        let count = self.setup.costs.latency.len() as u64;
        let drawn = self.draw();
        let latency = &self.setup.costs.latency;
        if count == 0 { 0 } else { latency[(drawn % count) as usize] }
    }

    fn plan(&mut self, worker: usize, at: u64, doing: Doing) {
        self.workers[worker].doing = doing;
        self.workers[worker].due = at;
        self.agenda.push(Reverse((at, worker)));
    }

    fn note(&mut self, worker: usize, at: u64, kind: EventKind, subject: Subject) {
        let event = Event { flags: subject as u8, ..Event::new(at, kind, ROOT) };
        self.workers[worker].events.push(event);
    }

    fn draw(&mut self) -> u64 {
        // Xorshift: Marsaglia, 2003.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random >> 11
    }
}
