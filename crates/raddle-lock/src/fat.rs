//! Fat locks: taking one, and releasing it.

use crate::armed::Armed;
use crate::aside::{look_at_clock, may_pass};
use crate::core::{Core, Gain, Patience};
use crate::entry::{DEAD, Entry, HANDED, LAZY, LOCKED, PINNED, QUEUED, WANT, WOKEN};
use crate::queue::{HAND_OFF, Node, WAKE};
use crate::slot::{self, READY};
use crate::spin::Spin;
use crate::stats::{Count, count};
use crate::table;
use crate::word::{self, GENERATIONS};
use raddle_sync::atomic::{Ordering, fence as full_fence};
use raddle_sync::fence;
use raddle_sync::strand::Local;

impl Core {
    /// One attempt to take a fat lock that nobody has. Written down as held, if it succeeds.
    ///
    /// What seldom happens is called last: so no register is saved, and each store that there is none of saves the
    /// next read-modify-write a cycle, as it waits for all stores before it.
    #[inline(never)] // The fast path of a thin lock is shorter without it.
    pub(crate) fn take_fat(&self, seen: u32, me: u32, local: &Local) -> bool {
        let entry = table::entry(seen & word::INDEX);
        let free = seen & GENERATIONS;
        let state = entry.state.load(Ordering::Relaxed);
        if state & (LOCKED | DEAD | GENERATIONS) != free {
            return false;
        }
        // ORD: Acquire pairs with the Releases that free the lock.
        let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
        if entry.state.compare_exchange(state, state | LOCKED, success, failure).is_err() {
            return false;
        }
        if !self.is_still(seen) {
            return mistaken(entry, free);
        }
        entry.own(me);
        // E6. Those without an id have no slot to be flagged.
        if state == free && me <= word::MAX_OWNER && entry.sticky.load(Ordering::Relaxed) != 0 {
            entry.clean.store(1, Ordering::Relaxed);
        }
        // SAFETY: just taken.
        unsafe { local.hold_slow(self.address()) };
        true
    }

    /// Releases a fat lock that this strand has once, if the hold is clean (E6) and nobody has flagged the strand.
    #[inline(never)]
    pub(crate) fn release_fat_now(&self, local: &Local) -> bool {
        let seen = self.word.load(Ordering::Acquire);
        let me = local.token_or_zero();
        if !word::is_fat(seen) || me > word::MAX_OWNER {
            return false;
        }
        let entry = table::entry(seen & word::INDEX);
        // E5: a strand that finds its own name holds the lock.
        if entry.owner.load(Ordering::Relaxed) != me || entry.levels.load(Ordering::Relaxed) != 0 {
            return false;
        }
        let clean = entry.clean.load(Ordering::Relaxed) != 0;
        let freed = clean && release_clean(entry, me, seen & GENERATIONS);
        if freed {
            // SAFETY: its name is gone from the lock.
            unsafe { local.unhold() };
        }
        freed
    }

    /// `me` has locked the entry: is it still this lock's? If not, unlocks it for those whose it is.
    fn confirm(&self, entry: &'static Entry, seen: u32, me: u32) -> bool {
        if self.is_still(seen) {
            entry.own(me);
            return true;
        }
        mistaken(entry, seen & GENERATIONS)
    }

    /// Whether the entry that the caller has locked is still this lock's.
    #[inline]
    fn is_still(&self, seen: u32) -> bool {
        // ORD: `Relaxed`: had the entry been given back, that would happen before its unlocking which the
        // caller's Acquire has read from, and so would the change of the word (E2).
        self.word.load(Ordering::Relaxed) == seen
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
                Err(_) if !sticky && is_sticky_by_now(entry) => return None,
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
        let starves = entry.starving.load(Ordering::Relaxed) != 0;
        let aside = state & (QUEUED | WOKEN | LAZY) != 0 && state & PINNED == 0;
        if aside && !(fair || sticky || starves) && self.set_aside(entry, generation) {
            return;
        }
        // Somebody waits who is awake, or will be soon, without our help.
        let passes = state & (WOKEN | LAZY) != 0 && state & WANT == 0 && !fair;
        let next = if passes { state & !LOCKED } else { idle };
        // ORD: Release pairs with the Acquires that take the lock.
        let (success, failure) = (Ordering::Release, Ordering::Relaxed);
        let starving = state & (QUEUED | WOKEN) != 0 && starves;
        let overdue = starving || (passes && !may_pass() && entry.is_passed_over(look_at_clock()));
        let quick = (state == locked || (passes && !overdue))
            && entry.state.compare_exchange(state, next, success, failure).is_ok();
        let idle = if quick { !passes } else { unlock(entry, generation, fair || overdue, idle) };
        if idle && !sticky {
            self.deflate(entry);
        }
    }
}

/// Unlocks, for those whose it is, an entry that was not the caller's to lock; false.
#[cold]
#[inline(never)]
fn mistaken(entry: &Entry, generation: u32) -> bool {
    unlock(entry, generation, false, generation);
    false
}

/// Ends a clean hold, if nobody has flagged its holder; else it is no longer clean.
#[inline(always)]
fn release_clean(entry: &Entry, owner: u32, free: u32) -> bool {
    let slot = slot::of(owner);
    let outer = slot.releasing.load(Ordering::Relaxed); // as in `Core::release_now`
    slot.releasing.store(1, Ordering::Relaxed);
    fence::light(); // ORD: Dekker with `slot::arm` (L2)
    entry.clean.store(0, Ordering::Relaxed);
    if slot.flag.load(Ordering::Relaxed) != READY {
        slot.releasing.store(outer, Ordering::Release); // ORD: as in `Core::release`
        return unprepared(owner);
    }
    entry.owner.store(0, Ordering::Release); // E5; ORD: after what was done with the lock (F3)
    // ORD: Release pairs with the Acquires that take the lock.
    entry.state.store(free, Ordering::Release); // E6
    slot.releasing.store(outer, Ordering::Release); // ORD: as in `Core::release`
    true
}

/// Sees to it that the owner's next holds are clean, unless somebody has flagged it; false.
#[cold]
#[inline(never)]
fn unprepared(owner: u32) -> bool {
    if slot::of(owner).flag.load(Ordering::Relaxed) & READY == 0 {
        slot::prepare(owner);
    }
    false
}

/// Whether an entry is sticky whose state was just seen.
fn is_sticky_by_now(entry: &Entry) -> bool {
    // ORD: Acquire pairs with the Releases of the state, which come after it was made so.
    full_fence(Ordering::Acquire);
    entry.sticky.load(Ordering::Relaxed) != 0
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
        if entry.state.load(Ordering::Relaxed) & WOKEN != 0 {
            continue; // One that was `LAZY` has come awake meanwhile (E4).
        }
        let Some(first) = inner.lock.pop_front() else {
            entry.update(Ordering::Relaxed, |state| state & !QUEUED); // E3
            continue;
        };
        let mut clear = WANT | LAZY | if inner.lock.is_empty() { QUEUED } else { 0 };
        // `WANT` and `LAZY` are of the first, and change under `inner` while it is in the queue.
        if fair || entry.state.load(Ordering::Relaxed) & WANT != 0 {
            // Where one after the other is handed the lock the next one comes awake meanwhile.
            let starving = entry.starving.load(Ordering::Relaxed) != 0;
            let next = if starving { inner.lock.pop_front() } else { None };
            let mut set = 0;
            if next.is_some() {
                set = WOKEN;
                clear |= if inner.lock.is_empty() { QUEUED } else { 0 };
            }
            entry.update(Ordering::Relaxed, |state| (state & !clear) | set);
            let parker = Node::signal(first, HAND_OFF);
            let next = next.map(|next| Node::signal(next, WAKE));
            drop(inner); // Q4
            count(Count::HandOffs);
            parker.unpark();
            if let Some(next) = next {
                next.unpark();
            }
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
    use crate::entry::{STARVED, clock};
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
