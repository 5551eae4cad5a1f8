//! Fat locks: taking one, waiting for it, releasing it.

use crate::armed::Armed;
use crate::core::{Core, Gain, Patience};
use crate::deadlock;
use crate::entry::{DEAD, Entry, HANDED, LAZY, LOCKED, QUEUED, WANT, WOKEN, clock};
use crate::pending;
use crate::queue::{HAND_OFF, Node, WAITING, WAKE};
use crate::slot::{self, READY};
use crate::spin::Spin;
use crate::stats::{Count, count};
use crate::table;
use crate::word::{self, FREE, GENERATIONS};
use raddle_sync::atomic::Ordering;
use raddle_sync::fence;
use raddle_sync::strand::Local;
use raddle_sync::time::Instant;
use std::panic::resume_unwind;
use std::time::Duration;

/// How long the first in the queue sleeps that has lost to those who run.
const LAZINESS: Duration = Duration::from_micros(60);

impl Core {
    /// One attempt to take a fat lock that nobody has. Written down as held, if it succeeds.
    #[inline(never)] // The fast path of a thin lock is shorter without it.
    pub(crate) fn take_fat(&self, seen: u32, me: u32, local: &Local) -> bool {
        let taken = self.try_take_fat(seen, me);
        if taken {
            // SAFETY: just taken.
            unsafe { local.hold_slow(self.address()) };
        }
        taken
    }

    #[inline(always)]
    fn try_take_fat(&self, seen: u32, me: u32) -> bool {
        let entry = table::entry(seen & word::INDEX);
        let free = seen & GENERATIONS;
        if entry.state.load(Ordering::Relaxed) != free {
            return entry.take(free, false).is_ok() && self.confirm(entry, seen, me);
        }
        // ORD: Acquire pairs with the Releases that free the lock.
        let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
        if entry.state.compare_exchange(free, free | LOCKED, success, failure).is_err()
            || !self.confirm(entry, seen, me)
        {
            return false;
        }
        // E6. Those without an id have no slot to be flagged.
        if me <= word::MAX_OWNER && entry.sticky.load(Ordering::Relaxed) != 0 {
            entry.clean.store(1, Ordering::Relaxed);
        }
        true
    }

    /// Ends a clean hold, if nobody has flagged its holder; else it is no longer clean.
    #[inline]
    pub(crate) fn release_clean(&self, entry: &Entry, seen: u32) -> bool {
        let owner = entry.owner.load(Ordering::Relaxed);
        let slot = slot::of(owner);
        let outer = slot.releasing.load(Ordering::Relaxed); // as in `Core::release_now`
        slot.releasing.store(1, Ordering::Relaxed);
        fence::light(); // ORD: Dekker with `slot::arm` (L2)
        entry.clean.store(0, Ordering::Relaxed);
        let free = slot.flag.load(Ordering::Relaxed) == READY;
        if free {
            entry.owner.store(0, Ordering::Release); // E5; ORD: after what was done with the lock (F3)
            // ORD: Release pairs with the Acquires that take the lock.
            entry.state.store(seen & GENERATIONS, Ordering::Release); // E6
        }
        slot.releasing.store(outer, Ordering::Release); // ORD: as in `Core::release`
        if !free && slot.flag.load(Ordering::Relaxed) & READY == 0 {
            slot::prepare(owner);
        }
        free
    }

    /// `me` has locked the entry: is it still this lock's? If not, unlocks it for those whose it is.
    fn confirm(&self, entry: &'static Entry, seen: u32, me: u32) -> bool {
        // ORD: `Relaxed`: had the entry been given back, that would happen before its unlocking which the
        // caller's Acquire has read from, and so would the change of the word (E2).
        if self.word.load(Ordering::Relaxed) == seen {
            entry.own(me);
            return true;
        }
        unlock(entry, seen & GENERATIONS, false, seen & GENERATIONS);
        false
    }

    /// Takes a fat lock, spinning and then sleeping; `None` if it is not that fat lock any more.
    pub(crate) fn acquire_fat(&self, seen: u32, me: u32, patience: Patience) -> Option<Gain> {
        let entry = table::entry(seen & word::INDEX);
        let generation = seen & GENERATIONS;
        let mut spin = Spin::default();
        loop {
            let state = match entry.take(generation, false) {
                Ok(()) => return self.confirm(entry, seen, me).then_some(Gain::Fat),
                Err(state) if is_stale(state, generation) => return None,
                Err(state) => state,
            };
            match patience {
                Patience::Try if self.word.load(Ordering::Acquire) != seen => return None,
                Patience::Try => return Some(Gain::Nothing),
                // Where others wait, who have been there longer, a spin would only slow down the one that
                // has the lock.
                _ if state & (QUEUED | WOKEN) == 0 && spin.spin() => {}
                _ => break,
            }
        }
        let node = Node::new();
        let sticky = entry.sticky.load(Ordering::Relaxed) != 0;
        let holder = if sticky { entry.owner.load(Ordering::Relaxed) } else { 0 };
        let Some(mut armed) = Armed::new(holder, patience.deadline()) else {
            return Some(Gain::Nothing);
        };
        let mut inner = entry.inner.lock();
        loop {
            match entry.take(generation, false) {
                Ok(()) => {
                    drop(inner);
                    return self.confirm(entry, seen, me).then_some(Gain::Fat);
                }
                Err(state) if is_stale(state, generation) => return None,
                // It has been given back and taken again since, and its generations have come round: nobody was flagged.
                Err(_) if !sticky && entry.sticky.load(Ordering::Relaxed) != 0 => return None,
                Err(_) if sticky && !entry.is_fair_game(&mut armed) => return None,
                Err(state) => {
                    // ORD: `Relaxed`: under `inner`, as is whoever acts on the bit (E3).
                    let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
                    let queued = state | QUEUED;
                    if entry.state.compare_exchange(state, queued, success, failure).is_ok() {
                        break;
                    }
                }
            }
        }
        // The holder cannot give the entry back now, so this stays true if it is (E2).
        if self.word.load(Ordering::Acquire) != seen {
            if inner.lock.is_empty() {
                entry.update(Ordering::Relaxed, |state| state & !QUEUED);
            }
            return None;
        }
        inner.lock.push_back(&node);
        drop(inner);
        drop(armed);
        Some(self.wait_turn(entry, &node, me, patience))
    }

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
                _ if rouse(entry, node) => mark = WANT,
                _ => continue,
            }
            if self.try_awake(entry, if mark == 0 { Spin::short() } else { Spin::default() }) {
                return Gain::Fat;
            }
            let generation = entry.state.load(Ordering::Relaxed) & GENERATIONS;
            // Loom has no limit that is over for certain.
            let next = if mark == 0 && !cfg!(raddle_loom) { LAZY } else { WANT };
            let mut inner = entry.inner.lock();
            if self.take_or(entry, generation, |state| (state | QUEUED | next) & !WOKEN) {
                return Gain::Fat;
            }
            // Back to the head of the queue; the holder will see to it (E4).
            mark = next;
            node.rearm();
            inner.lock.push_front(node);
        }
    }

    /// As the strand awake: spins for the lock.
    fn try_awake(&self, entry: &Entry, mut spin: Spin) -> bool {
        let generation = entry.state.load(Ordering::Relaxed) & GENERATIONS;
        loop {
            if entry.take(generation, true).is_ok() {
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
    fn give_up(&self, entry: &'static Entry, node: &Node, mark: u32) -> Option<Gain> {
        let mut bucket = pending::bucket(self.address());
        let mut inner = entry.inner.lock();
        match node.signalled() {
            HAND_OFF => return None,
            WAKE => {
                let generation = entry.state.load(Ordering::Relaxed) & GENERATIONS;
                if self.take_or(entry, generation, |state| state & !(WOKEN | WANT)) {
                    return Some(Gain::Fat);
                }
                return Some(Gain::Nothing); // E4
            }
            _ => debug_assert_eq!(node.signalled(), WAITING),
        }
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
        if inner.lock.is_empty() {
            entry.update(Ordering::Relaxed, |state| state & !QUEUED);
            drop(inner);
            // Left for an owner that has not come by yet, and not for a hash: nobody needs it now.
            let unused = |found: &mut pending::Pending| {
                std::ptr::eq(found.entry, entry) && entry.restore.load(Ordering::Relaxed) == FREE
            };
            if bucket.find().is_some_and(unused) {
                bucket.remove();
                drop(bucket);
                table::give_back(entry);
            }
        }
        Some(Gain::Nothing)
    }

    /// Releases a fat lock's last level. Nothing of `self` is touched once the entry is not locked.
    pub(crate) fn release_fat(&self, entry: &'static Entry, seen: u32, fair: bool) {
        let generation = seen & GENERATIONS;
        entry.owner.store(0, Ordering::Release); // E5; ORD: after what was done with the lock (F3)
        let sticky = entry.sticky.load(Ordering::Relaxed) != 0;
        let locked = generation | LOCKED;
        let idle = if sticky { generation } else { locked | DEAD };
        if sticky {
            entry.clean.store(0, Ordering::Relaxed);
            let inner = entry.inner.lock();
            let armed = entry.armed.swap(0, Ordering::Relaxed);
            drop(inner);
            if armed != 0 {
                slot::disarm(armed); // E6
            }
        }
        let state = entry.state.load(Ordering::Relaxed);
        // Somebody waits who is awake, or will be soon, without our help.
        let passes = state & (WOKEN | LAZY) != 0 && state & WANT == 0 && !fair;
        let next = if passes { state & !LOCKED } else { idle };
        // ORD: Release pairs with the Acquires that take the lock.
        let (success, failure) = (Ordering::Release, Ordering::Relaxed);
        let starving = state & (QUEUED | WOKEN) != 0 && entry.starving.load(Ordering::Relaxed) != 0;
        let overdue = starving || (passes && entry.is_overdue());
        let quick = (state == locked || (passes && !overdue))
            && entry.state.compare_exchange(state, next, success, failure).is_ok();
        let idle = if quick { !passes } else { unlock(entry, generation, fair || overdue, idle) };
        if idle && !sticky {
            self.deflate(entry);
        }
    }
}

/// The moment of a `LAZY` strand is over: makes it the one awake, which now wants the lock. False if it has
/// been handed the lock meanwhile.
fn rouse(entry: &Entry, node: &Node) -> bool {
    let mut inner = entry.inner.lock();
    if !inner.lock.remove(node) {
        return false;
    }
    let clear = LAZY | if inner.lock.is_empty() { QUEUED } else { 0 };
    // ORD: `Relaxed`: the holder's next step fails on it and reads it again.
    entry.update(Ordering::Relaxed, |state| (state & !clear) | WOKEN | WANT);
    true
}

/// Whether a state says that the entry is not what the word said.
fn is_stale(state: u32, generation: u32) -> bool {
    state & DEAD != 0 || state & GENERATIONS != generation
}

/// Frees a locked entry, and wakes or hands over as the state demands. If nobody wants it or is about
/// to, its state becomes `idle`, and the result is true.
#[cold]
fn unlock(entry: &Entry, generation: u32, fair: bool, idle: u32) -> bool {
    // ORD: Release wherever the lock becomes free: pairs with the Acquires that take it.
    let (success, failure) = (Ordering::Release, Ordering::Relaxed);
    loop {
        let state = entry.state.load(Ordering::Relaxed);
        if is_stale(state, generation) {
            return false; // It was another's lock, which was dropped.
        }
        if state & WOKEN != 0 {
            let hand = fair || state & WANT != 0;
            let next = if hand { (state | HANDED) & !WANT } else { state & !LOCKED };
            if entry.state.compare_exchange(state, next, success, failure).is_ok() {
                if hand {
                    count(Count::HandOffs);
                }
                return false;
            }
            continue;
        }
        if state & LAZY != 0 && !fair {
            if entry.state.compare_exchange(state, state & !LOCKED, success, failure).is_ok() {
                return false;
            }
            continue;
        }
        if state & QUEUED == 0 {
            let nobody = state == generation | LOCKED;
            let next = if nobody { idle } else { state & !LOCKED };
            if entry.state.compare_exchange(state, next, success, failure).is_ok() {
                return nobody;
            }
            continue;
        }
        let mut inner = entry.inner.lock();
        let Some(first) = inner.lock.pop_front() else {
            entry.update(Ordering::Relaxed, |state| state & !QUEUED); // E3
            continue;
        };
        let mut clear = WANT | LAZY | if inner.lock.is_empty() { QUEUED } else { 0 };
        // `WANT` and `LAZY` are of the first, and change under `inner` while it is in the queue.
        if fair || entry.state.load(Ordering::Relaxed) & WANT != 0 {
            entry.update(Ordering::Relaxed, |state| state & !clear);
            let parker = Node::signal(first, HAND_OFF);
            drop(inner); // Q4
            count(Count::HandOffs);
            parker.unpark();
        } else {
            clear |= LOCKED;
            entry.update(success, |state| (state & !clear) | WOKEN);
            let parker = Node::signal(first, WAKE);
            drop(inner); // Q4
            parker.unpark();
        }
        return false;
    }
}

#[cfg(all(test, not(raddle_model)))]
mod tests {
    use super::*;
    use crate::entry::STARVED;
    use crate::watched::{queued, sleeps};
    use std::sync::mpsc::channel;
    use std::thread;

    /// Once one has waited for so long the lock is handed over, and not left to whoever runs.
    #[test]
    fn a_lock_that_starves_is_handed_over() {
        for (starves, signal) in [(0, WAKE), (1, HAND_OFF)] {
            let core = Core::new();
            core.acquire::<false>();
            let release = |entry: &Entry| {
                entry.starving.store(starves, Ordering::Relaxed);
                core.release::<false>();
            };
            assert_eq!(queued(&core, release), signal);
            assert!(!core.is_locked());
        }
    }

    #[test]
    fn a_lock_that_was_waited_for_long_starves() {
        let core = Core::new();
        core.acquire::<false>();
        let before = sleeps(&core);
        thread::scope(|s| {
            let ((have, has), (go_on, may)) = (channel(), channel::<()>());
            let core = &core;
            s.spawn(move || {
                core.acquire::<false>();
                have.send(()).unwrap();
                let _told = may.into_iter().next();
                core.release::<false>();
            });
            while sleeps(core) == before {
                thread::yield_now();
            }
            let begun = clock();
            while clock() - begun <= STARVED {
                thread::yield_now();
            }
            core.release::<false>();
            has.recv().unwrap();
            let entry = table::entry(core.word.load(Ordering::Acquire) & word::INDEX);
            let starving = entry.starving.load(Ordering::Relaxed);
            go_on.send(()).unwrap();
            assert_eq!(starving, 1);
        });
    }

    #[test]
    fn a_lock_starves_while_those_that_get_it_have_waited_long() {
        let entry = Entry::new(0);
        while clock() <= 2 * STARVED {
            thread::yield_now();
        }
        let turn = |waited: u64| {
            entry.turn(clock() - waited);
            entry.starving.load(Ordering::Relaxed)
        };
        assert_eq!(turn(STARVED + 1), 1);
        assert_eq!(turn(2 * STARVED), 1);
        // Less than that, as far as this thread has not been put off meanwhile.
        assert!((0..1_000).any(|_| turn(0) == 0));
    }
}
