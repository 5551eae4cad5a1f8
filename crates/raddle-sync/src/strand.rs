//! Small ids for logical threads of execution.
//!
//! A **strand** is what a lock's owner is: one logical thread of execution. It is not always the
//! operating system's thread. A worker that waits may run foreign work on the same thread; were the
//! thread the owner, that work could re-enter a lock which the work beneath it holds. So the wait
//! loop runs foreign work under [`enter_foreign`], as another strand.
//!
//! **S1** At any time no two strands have the same id. An id comes from the [`Dispenser`] and goes
//! back at most once, when the thread ends. Until then the thread keeps it: for its own strand, or for
//! the next foreign strand at the same depth. Those too deep for that give it back when they end.
//! **S2** A thread's foreign strands nest, and each has a depth of its own. A guard that is dropped ends its
//! strand and all above it; one whose strand was so ended does nothing. It is known by the number of such ends
//! that there had been when its strand began (`local/cuts.rs`).
//! **S3** A thread's ids go back only if no foreign guard is left that could restore them.
//! **S4** A strand that ends while it holds something ([`Local::hold`]) is *abandoned*: its id is not used
//! again, so nobody else is ever taken for the owner of what it held, and the hook is told
//! ([`set_abandon_hook`]).
//! **S5** What a strand holds *fast* is written down with the strand, by address: for the strand that runs in
//! [`Local`], for those beneath it, and those that were abandoned, in a list of the thread's. So whoever lets go
//! of it on this thread finds how often it is held.
//!
//! # Tokens
//!
//! When all 65,535 ids are taken a strand still has a name, [`token`]: a number above 65,535 that no
//! other strand has. It keeps it until it holds nothing and an id is free.

mod abandon;
mod dispenser;
mod foreign;
mod local;

pub use abandon::{AbandonHook, Abandoned, set_abandon_hook};
pub use dispenser::Dispenser;
pub use foreign::{ForeignStrand, enter_foreign};
pub use local::{Local, Release, highest, set_in_use};
#[cfg(all(unix, not(any(miri, raddle_model))))]
pub(crate) use {
    abandon::{HookLock, lock_hook},
    local::force_statics,
};

use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU16;

/// The id of a strand: 1 to 65,535.
///
/// ```
/// let me = raddle_sync::strand::current().unwrap();
/// assert_eq!(Some(me), raddle_sync::strand::current());
/// assert_ne!(me.get(), 0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StrandId(NonZeroU16);

impl StrandId {
    /// The number, never 0.
    #[inline]
    pub const fn get(self) -> u16 {
        self.0.get()
    }
}

impl fmt::Debug for StrandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StrandId({})", self.0)
    }
}

// Two variables, so that the one read on every call needs no destructor, and with it no check
// whether it still lives.
crate::thread_local! {
    static RUNNING: Local = const { Local::new() };
}
crate::thread_local! {
    static AT_THREAD_END: AtThreadEnd = const { AtThreadEnd };
}

/// Ends the thread's own strand when the thread ends.
struct AtThreadEnd;

impl Drop for AtThreadEnd {
    fn drop(&mut self) {
        if cfg!(raddle_model) {
            return; // A model tears its statics down before its threads' locals.
        }
        RUNNING.with(Local::thread_ends);
    }
}

/// Passes `f` the running strand's cells. Costs a thread-local address.
#[inline(always)]
pub fn with_local<R>(f: impl FnOnce(&Local) -> R) -> R {
    #[cfg(raddle_model)]
    return RUNNING.with(f);
    #[cfg(not(raddle_model))]
    {
        // The address alone, because the compiler may leave `with` with a larger closure a function of its own, which
        // then calls another for the address: 3 ns.
        let local = RUNNING.with(std::ptr::from_ref);
        // SAFETY: it has no destructor, so it lives for as long as the thread, in which `f` runs.
        f(unsafe { &*local })
    }
}

/// The id of the strand that runs now, assigned on first use; `None` while all ids are taken.
///
/// Costs a thread-local read once assigned. `None` may become an id later. Once a thread's locals
/// are being destroyed, a thread that has no id gets none.
#[inline]
pub fn current() -> Option<StrandId> {
    u16::try_from(token()).ok().and_then(NonZeroU16::new).map(StrandId)
}

/// The name of the strand that runs now: its id as a number or, while all ids are taken, a larger
/// number that no other strand ever has. It stays the same for as long as the strand holds something.
///
/// ```
/// use raddle_sync::strand;
/// assert_eq!(strand::token(), u32::from(strand::current().unwrap().get()));
/// ```
#[inline]
pub fn token() -> u32 {
    RUNNING.with(Local::token)
}

/// The running strand's name, which stays the same while the guard lives: whoever takes something by steps, and writes a
/// name down on the way, holds it under that name. Costs a count.
///
/// ```
/// use raddle_sync::strand;
/// let kept = strand::keep_name();
/// assert_eq!(kept.token(), strand::token());
/// ```
#[inline]
pub fn keep_name() -> KeptName {
    RUNNING.with(|local| {
        let token = local.token();
        local.hold();
        KeptName { token, not_send: PhantomData }
    })
}

/// See [`keep_name`].
#[must_use = "the name may change once the guard is dropped"]
#[derive(Debug)]
pub struct KeptName {
    token: u32,
    not_send: PhantomData<*const ()>,
}

impl KeptName {
    /// As [`token`].
    pub fn token(&self) -> u32 {
        self.token
    }
}

impl Drop for KeptName {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: what is held under the name from now on is counted by itself.
        RUNNING.with(|local| unsafe { local.unhold_of(self.token) });
    }
}

#[cfg(all(test, not(raddle_model)))]
mod tests {
    use super::*;
    use crate::thread;
    use std::collections::HashSet;
    use std::sync::{Arc, Barrier};

    #[test]
    fn living_threads_have_different_ids() {
        let barrier = Arc::new(Barrier::new(8));
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let barrier = Arc::clone(&barrier);
                thread::spawn(move || {
                    let id = current().unwrap();
                    barrier.wait();
                    id
                })
            })
            .collect();
        let ids: HashSet<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        assert_eq!(ids.len(), 8);
    }

    #[test]
    fn ids_of_ended_threads_are_used_again() {
        // More threads than ids would take far too long; that ids stay small shows the same.
        let largest = (0..if cfg!(miri) { 20 } else { 500 })
            .map(|_| thread::spawn(|| current().unwrap().get()).join().unwrap())
            .max()
            .unwrap();
        assert!(largest < 400, "{largest} ids in use by a handful of threads");
    }

    #[test]
    fn foreign_strands_nest_and_restore() {
        let base = current();
        let one = enter_foreign();
        let id_one = current();
        assert_ne!(id_one, base);
        {
            let _unassigned = enter_foreign();
        }
        {
            let _two = enter_foreign();
            let id_two = current();
            assert!(id_two != id_one && id_two != base && id_two.is_some());
        }
        assert_eq!(current(), id_one);
        drop(one);
        assert_eq!(current(), base);
    }

    #[test]
    fn a_thread_keeps_the_ids_of_its_foreign_strands() {
        let ids = || {
            let strands = [(); 3].map(|()| (enter_foreign(), current().unwrap()));
            let ids = strands.each_ref().map(|(_, id)| *id);
            strands.into_iter().rev().for_each(drop);
            ids
        };
        current();
        let mine = ids();
        let others = thread::spawn(ids).join().unwrap();
        assert!(others.iter().all(|id| !mine.contains(id)), "{others:?} {mine:?}");
        assert_eq!(ids(), mine);
    }

    #[test]
    fn guards_forgotten_or_dropped_out_of_order_do_no_harm() {
        let base = current();
        let outer = enter_foreign();
        let inner = enter_foreign();
        assert!(current().is_some());
        drop(outer);
        assert_eq!(current(), base, "the outer guard ends the inner strand too");
        drop(inner);
        assert_eq!(current(), base);
        let outer = enter_foreign();
        std::mem::forget(enter_foreign());
        drop(outer);
        assert_eq!(current(), base);
    }

    /// It ended those that had come to run at the same depth.
    #[test]
    fn a_guard_whose_strand_was_ended_ends_no_other() {
        let base = enter_foreign();
        let id = current();
        let [outer, mut inner, innermost] = [(); 3].map(|()| enter_foreign());
        drop(outer);
        assert_eq!(current(), id);
        let held = enter_foreign();
        let beneath = current();
        with_local(Local::hold);
        let [above, top] = [(); 2].map(|()| enter_foreign());
        let mine = current();
        with_local(Local::hold);
        drop(innermost);
        assert_eq!((current(), with_local(Local::holds)), (mine, 1));
        inner.renew(); // begins another one, as there is none to end
        assert_eq!(with_local(Local::holds), 0);
        drop(inner);
        assert_eq!((current(), with_local(Local::holds)), (mine, 1));
        // SAFETY: it was nothing that was held.
        with_local(|local| unsafe { local.unhold() });
        std::mem::forget(top);
        drop(above);
        assert_eq!((current(), with_local(Local::holds)), (beneath, 1));
        // SAFETY: it was nothing that was held.
        with_local(|local| unsafe { local.unhold() });
        drop(held);
        assert_eq!(current(), id, "a guard beneath still ends its own");
        drop(base);
        assert_ne!(current(), id);
    }

    #[test]
    fn a_strand_that_ends_with_a_hold_is_reported_and_its_id_retired() {
        let told = Arc::new(std::sync::Mutex::new(Vec::new()));
        let sink = Arc::clone(&told);
        set_abandon_hook(Some(Arc::new(move |abandoned: &Abandoned| {
            // Those of other tests have none.
            if abandoned.id().is_some() {
                let said = (abandoned.id(), abandoned.holds(), abandoned.to_string());
                sink.lock().unwrap().push(said);
            }
        })));
        let retired = thread::Builder::new()
            .name("careless".into())
            .spawn(|| {
                let id = current();
                with_local(Local::hold);
                id
            })
            .unwrap()
            .join()
            .unwrap();
        let foreign = enter_foreign();
        let retired_too = current();
        with_local(|local| {
            // SAFETY: nothing is there.
            unsafe { local.hold_fast(8) };
            assert!(local.again(8));
        });
        drop(foreign);
        set_abandon_hook(None);
        let told = told.lock().unwrap();
        assert_eq!(told.len(), 2, "each once: {told:?}");
        let name = retired_too.map_or(0, |id| id.get().into());
        // SAFETY: it was nothing that was held.
        let let_go = || with_local(|local| unsafe { local.let_go_of(name, 8) });
        assert_eq!([let_go(), let_go()], [Release::Level, Release::Last]);
        assert_eq!((told[0].0, told[0].1), (retired, 1));
        assert!(told[0].2.contains("careless"), "{}", told[0].2);
        assert_eq!(told[1].0, retired_too);
        for _ in 0..if cfg!(miri) { 10 } else { 200 } {
            let id = thread::spawn(current).join().unwrap();
            assert!(id != retired && id != retired_too, "{id:?} was retired");
        }
    }

    #[test]
    fn what_a_foreign_strand_lets_go_is_taken_off_the_one_beneath() {
        with_local(|local| {
            let me = local.token();
            local.hold();
            for thing in [8, 16, 16] {
                assert!(
                    local.again(thing) || {
                        // SAFETY: nothing is there.
                        unsafe { local.hold_fast(thing) };
                        true
                    }
                )
            }
            let foreign = enter_foreign();
            assert_eq!(local.holds(), 0);
            // SAFETY: it was nothing that was held.
            let let_go = |thing| unsafe { local.let_go_of(me, thing) };
            assert_eq!([16, 16, 8, 24].map(let_go), {
                use Release::{Last, Level};
                [Level, Last, Last, Last]
            });
            drop(foreign);
            assert_eq!(local.holds(), 0);
        });
    }

    /// H3: the two strands beneath have forgotten what lay at an address before.
    #[test]
    fn what_a_strand_ends_with_no_strand_beneath_has_a_record_of() {
        // SAFETY: nothing is there.
        let hold = |thing| with_local(|local| unsafe { local.hold_fast(thing) });
        // SAFETY: nothing is there.
        let hold_slow = |thing| with_local(|local| unsafe { local.hold_slow(thing) });
        // SAFETY: nothing is there.
        let forget = |thing| with_local(|local| unsafe { local.forget(thing) });
        // SAFETY: nothing is there.
        let nest = |thing| with_local(|local| assert!(unsafe { local.again_from_others(thing) }));
        let ways: [&dyn Fn(); 5] = [
            &|| hold(8),
            &|| hold_slow(8),
            &|| [16, 8, 24].into_iter().for_each(hold), // which displaces it
            &|| {
                [16, 8].into_iter().for_each(hold);
                hold_slow(24);
                nest(24); // which displaces it, too
            },
            &|| {
                hold(8);
                forget(8);
            },
        ];
        for (n, take) in ways.into_iter().enumerate() {
            let forgets = || {
                hold(8);
                with_local(|local| assert!(local.again(8)));
            };
            let check = || {
                with_local(|local| {
                    // SAFETY: nothing is there.
                    let release = unsafe { local.let_go::<true>(8) };
                    assert_eq!((release, local.holds()), (Release::Unknown, 2), "way {n}");
                });
            };
            let outermost = enter_foreign();
            forgets();
            let middle = enter_foreign();
            forgets();
            let above = enter_foreign();
            take();
            drop(above);
            check();
            drop(middle);
            check();
            drop(outermost);
        }
    }

    #[test]
    fn what_is_held_is_written_down_if_there_is_room_and_counted_if_not() {
        with_local(|local| {
            // SAFETY: nothing is there.
            (1..=5).for_each(|thing| unsafe { local.hold_fast(thing * 8) });
            assert_eq!(local.holds(), 5);
            assert!(local.again(40), "the last one is always written down");
            // SAFETY: nothing is there.
            let nest = |thing| unsafe { local.again_from_others(thing) };
            assert!(nest(16) && local.again(16));
            assert!(!nest(24), "two nests leave no room");
            // SAFETY: nothing is there.
            unsafe { local.hold_fast(48) };
            assert_eq!(local.holds(), 9);
            // SAFETY: nothing is there.
            assert_eq!(unsafe { local.forget(16) }, 2);
            assert_eq!(local.holds(), 9);
            // SAFETY: it was nothing that was held.
            let let_go = |thing| unsafe { local.let_go::<true>(thing) };
            assert_eq!([40, 40, 48].map(let_go), [Release::Level, Release::Last, Release::Unknown]);
            // SAFETY: it was nothing that was held.
            (0..7).for_each(|_| unsafe { local.unhold() });
            assert_eq!(local.holds(), 0);
        });
    }
}
