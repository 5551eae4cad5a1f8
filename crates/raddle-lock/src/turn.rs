//! Waiting for one's turn in the queue of a fat lock.

use crate::aside::Step;
use crate::core::{Core, Gain, Patience};
use crate::deadlock;
use crate::entry::{Entry, LAZY, QUEUED, WANT, WOKEN, clock};
use crate::pending::{self, NOBODY};
use crate::queue::{HAND_OFF, Node, WAITING, WAKE};
use crate::spin::Spin;
use crate::stats::{Count, count};
use crate::table;
use crate::word::{FREE, GENERATIONS};
use raddle_sync::atomic::Ordering;
use raddle_sync::time::Instant;
use std::panic::resume_unwind;
use std::ptr;
use std::time::Duration;

/// How long the first in the queue sleeps that has lost to those who run.
const LAZINESS: Duration = Duration::from_micros(5);

impl Core {
    /// Sleeps in an entry's queue until the lock is this strand's, or the deadline is past.
    pub(crate) fn wait_turn(
        &self,
        entry: &'static Entry,
        node: &Node,
        me: u32,
        patience: Patience,
    ) -> Gain {
        count(Count::Parks);
        let began = clock();
        let gain = self.wait_in_queue(entry, node, me, patience);
        if gain == Gain::Fat {
            entry.own(me);
            entry.turn(began);
        }
        gain
    }

    fn wait_in_queue(
        &self,
        entry: &'static Entry,
        node: &Node,
        me: u32,
        patience: Patience,
    ) -> Gain {
        let deadline = patience.deadline();
        // What this strand has set in the state: nothing, `LAZY` or `WANT`.
        let mut mark = 0;
        loop {
            let lazily = (mark == LAZY).then(|| Instant::now() + LAZINESS);
            let early = match (lazily, deadline) {
                (Some(lazily), Some(deadline)) => Some(lazily.min(deadline)),
                (lazily, deadline) => lazily.or(deadline),
            };
            let holders = || self.holder().into_iter().collect();
            let what = deadlock::For { address: self.address(), me, holders: &holders };
            let slept = if cfg!(raddle_shuttle) && mark == LAZY {
                Ok(node.nap(LAZINESS)) // Whoever sleeps lazily relies on the limit (E4).
            } else {
                deadlock::sleep(&what, node, early, patience)
            };
            let signal = match slept {
                Ok(signal) => signal,
                Err(panic) => match self.give_up(entry, node, mark) {
                    // In the queue no more, so that the panic may pass (Q2).
                    Some(Gain::Nothing) => resume_unwind(panic),
                    gain => {
                        deadlock::discard(Err(panic));
                        match gain {
                            Some(gain) => return gain,
                            None => continue,
                        }
                    }
                },
            };
            match signal {
                HAND_OFF => return Gain::Fat,
                WAKE => {}
                _ if early == deadline => {
                    if let Some(gain) = self.give_up(entry, node, mark) {
                        return gain;
                    }
                    continue;
                }
                _ => match self.rouse(entry, node) {
                    Step::Done(true) => mark = WANT,
                    Step::Done(false) => continue,
                    Step::Lock => return Gain::Fat,
                },
            }
            if self.try_awake(entry, if mark == 0 { Spin::short() } else { Spin::default() }) {
                return Gain::Fat;
            }
            if mark == 0 && entry.starving.load(Ordering::Relaxed) != 0 {
                // Others wait in turn for what it would lose by a nap.
                let want = || entry.update(Ordering::Relaxed, |state| state | WANT);
                if self.with_holder(want) == Step::Lock {
                    return Gain::Fat;
                }
                mark = WANT;
                if self.try_awake(entry, Spin::default()) {
                    return Gain::Fat;
                }
            }
            // Loom has no limit that is over for certain.
            let next = if mark == 0 && !cfg!(raddle_loom) { LAZY } else { WANT };
            if self.go_back(entry, node, next) != Step::Done(false) {
                return Gain::Fat;
            }
            mark = next;
        }
    }

    /// The moment of a `LAZY` strand is over: makes it the one awake, which now wants the lock. Not if it has been handed
    /// the lock meanwhile.
    fn rouse(&self, entry: &'static Entry, node: &Node) -> Step<bool> {
        let step = self.with_holder(|| {
            let mut inner = entry.inner.lock();
            if !inner.lock.remove(node) {
                return false;
            }
            let clear = LAZY | if inner.lock.is_empty() { QUEUED } else { 0 };
            // ORD: `Relaxed`: the holder's next step fails on it and reads it again.
            entry.update(Ordering::Relaxed, |state| (state & !clear) | WOKEN | WANT);
            true
        });
        if step == Step::Lock {
            let mut inner = entry.inner.lock();
            let removed = inner.lock.remove(node);
            debug_assert!(removed, "nobody else signals while it is on duty (A2)");
            let clear = LAZY | if inner.lock.is_empty() { QUEUED } else { 0 };
            entry.update(Ordering::Relaxed, |state| state & !clear);
        }
        step
    }

    /// As the strand awake, which has not got the lock: back to the head of the queue, there to be `LAZY` or to `WANT` it.
    /// Or it takes the lock at the last moment.
    pub(crate) fn go_back(&self, entry: &'static Entry, node: &Node, next: u32) -> Step<bool> {
        let back = || {
            let generation = entry.state.load(Ordering::Relaxed) & GENERATIONS;
            let mut inner = entry.inner.lock();
            let taken = self.take_or(entry, generation, |state| (state | QUEUED | next) & !WOKEN);
            if !taken {
                node.rearm();
                inner.lock.push_front(node); // The holder will see to it (E4).
            }
            taken
        };
        if next == LAZY {
            let _bucket = pending::bucket(self.address()); // A2
            return Step::Done(back());
        }
        self.with_holder(back)
    }

    /// As the strand awake: spins for the lock.
    pub(crate) fn try_awake(&self, entry: &'static Entry, mut spin: Spin) -> bool {
        let generation = entry.state.load(Ordering::Relaxed) & GENERATIONS;
        loop {
            if entry.take(generation, true).is_ok() || self.claim_aside() {
                return true;
            }
            if !spin.spin() {
                return false;
            }
        }
    }

    /// As the strand awake: takes the lock (true) or, while it is held, changes the state (false). Under
    /// `inner`.
    fn take_or(&self, entry: &Entry, generation: u32, change: impl Fn(u32) -> u32) -> bool {
        loop {
            let Err(state) = entry.take(generation, true) else {
                return true;
            };
            // ORD: `Relaxed`: the holder's next step fails on it and reads it again, under `inner`.
            let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
            let changed = change(state);
            if entry.state.compare_exchange(state, changed, success, failure).is_ok() {
                return false;
            }
        }
    }

    /// The deadline is past. `None` if the lock has been handed over meanwhile.
    pub(crate) fn give_up(&self, entry: &'static Entry, node: &Node, mark: u32) -> Option<Gain> {
        let mut bucket = pending::bucket(self.address());
        let mut inner = entry.inner.lock();
        let on_duty = match node.signalled() {
            HAND_OFF => return None,
            WAKE => {
                let generation = entry.state.load(Ordering::Relaxed) & GENERATIONS;
                if self.take_or(entry, generation, |state| state & !(WOKEN | WANT)) {
                    return Some(Gain::Fat);
                }
                true
            }
            signal => {
                debug_assert_eq!(signal, WAITING);
                let removed = inner.lock.remove(node);
                debug_assert!(removed, "not signalled, so in the queue (Q4)");
                if mark != 0 {
                    entry.update(Ordering::Relaxed, |state| state & !mark);
                    // E4: nobody may have been woken because of us.
                    let generation = entry.state.load(Ordering::Relaxed) & GENERATIONS;
                    if mark == LAZY && entry.take(generation, false).is_ok() {
                        if inner.lock.is_empty() {
                            entry.update(Ordering::Relaxed, |state| state & !QUEUED);
                        }
                        return Some(Gain::Fat);
                    }
                }
                mark == LAZY
            }
        };
        // P4: what lies there may be another one, and this one a fat lock's.
        let ours = bucket.find().filter(|pending| ptr::eq(pending.entry, entry));
        let left = ours.map(|pending| pending.armed);
        if on_duty && left == Some(NOBODY) {
            if let Some(next) = inner.lock.pop_front() {
                // A2: the next one is awake in its stead.
                let clear = if inner.lock.is_empty() { QUEUED } else { 0 };
                entry.update(Ordering::Relaxed, |state| (state & !clear) | WOKEN);
                let parker = Node::signal(next, WAKE);
                drop(inner); // Q4
                drop(bucket);
                parker.unpark();
                return Some(Gain::Nothing);
            }
        }
        if inner.lock.is_empty() {
            let before = entry.update(Ordering::Relaxed, |state| state & !QUEUED);
            drop(inner);
            // Nobody needs it now: left for an owner that has not come by yet, and not for a hash, or aside.
            let unused = before & WOKEN == 0
                && match left {
                    None => false,
                    Some(NOBODY) => self.end_aside(&mut bucket, entry),
                    Some(_) if entry.restore.load(Ordering::Relaxed) == FREE => {
                        bucket.remove();
                        true
                    }
                    Some(_) => false,
                };
            if unused {
                drop(bucket);
                table::give_back(entry);
            }
        }
        Some(Gain::Nothing)
    }
}
