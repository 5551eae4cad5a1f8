//! Small ids for logical threads of execution.
//!
//! A **strand** is what a lock's owner is: one logical thread of execution. It is not always the
//! operating system's thread. A worker that waits may run foreign work on the same thread; were the
//! thread the owner, that work could re-enter a lock which the work beneath it holds. So the wait
//! loop runs foreign work under [`enter_foreign`], as another strand.
//!
//! **I1** At any time no two strands have the same id. An id comes from the [`Dispenser`] and goes
//! back exactly once: when the thread ends, or when the foreign strand does.
//! **I2** A thread's foreign strands nest: only the innermost guard may be dropped. The depth is kept
//! beside the id, every live or forgotten guard has a depth of its own, and a guard dropped out of
//! turn panics without changing anything.
//! **I3** A thread's own id goes back only if no foreign guard is left that could restore it.
//! **I4** A strand that ends while it holds something ([`Local::hold`]) is *abandoned*: its id never
//! goes back, so nobody else is ever taken for the owner of what it held, and the hook is told
//! ([`set_abandon_hook`]).
//!
//! # Tokens
//!
//! When all 65,535 ids are taken a strand still has a name, [`token`]: a number above 65,535 that no
//! other strand has. It keeps it until it holds nothing and an id is free.

mod abandon;
mod dispenser;

pub use abandon::{AbandonHook, Abandoned, set_abandon_hook};
pub use dispenser::Dispenser;

use crate::atomic::{AtomicU32, Ordering};
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
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

/// How many ids there are; few under models, so that running out of them is explored too.
const LIMIT: u16 = if cfg!(any(raddle_loom, raddle_shuttle)) { 3 } else { u16::MAX };

crate::lazy_static! {
    static DISPENSER: Dispenser = Dispenser::new(LIMIT);
}

crate::lazy_static! {
    /// The next token for a strand without an id.
    static NEXT_TOKEN: AtomicU32 = AtomicU32::new(1 << 16);
}

/// What this thread runs as: plain cells, read on every lock and unlock.
///
/// All of it belongs to the strand that runs now: [`enter_foreign`] puts it aside.
#[derive(Debug)]
pub struct Local {
    /// The id or token; 0: none assigned yet.
    token: Cell<u32>,
    /// How many things the strand has taken, and how many it has let go. Two counts, because one that
    /// goes up and soon down again is a longer chain of instructions, which a lock feels.
    taken: Cell<u32>,
    let_go: Cell<u32>,
    /// See [`Local::irregular`].
    irregular: Cell<u32>,
    /// How many foreign strands are nested on this thread.
    depth: Cell<u32>,
    /// Whether a strand beneath this one holds something.
    above_holds: Cell<bool>,
}

/// What [`enter_foreign`] puts aside.
#[derive(Clone, Copy)]
struct Saved {
    token: u32,
    holds: u32,
    irregular: u32,
    depth: u32,
    above_holds: bool,
}

impl Local {
    const fn new() -> Local {
        Local {
            token: Cell::new(0),
            taken: Cell::new(0),
            let_go: Cell::new(0),
            irregular: Cell::new(0),
            depth: Cell::new(0),
            above_holds: Cell::new(false),
        }
    }

    /// The running strand's id or token if it has one already, else 0. Costs one load.
    #[inline(always)]
    pub fn token_or_zero(&self) -> u32 {
        self.token.get()
    }

    /// The running strand's id or token, assigned now if need be.
    #[inline]
    pub fn token(&self) -> u32 {
        match self.token.get() {
            token @ 1..=0xFFFF => token,
            _ => self.assign(),
        }
    }

    /// Says that the running strand holds one thing more, which it must not end with (I4).
    #[inline(always)]
    pub fn hold(&self) {
        self.taken.set(self.taken.get().wrapping_add(1));
    }

    /// Takes one [`hold`](Local::hold) back.
    ///
    /// # Safety
    ///
    /// What the strand no longer holds is not under its name any more: with nothing held, the name may go to
    /// another strand, which would be taken for the owner.
    #[inline(always)]
    pub unsafe fn unhold(&self) {
        self.let_go.set(self.let_go.get().wrapping_add(1));
    }

    /// How many things the running strand holds.
    #[inline(always)]
    pub fn holds(&self) -> u32 {
        self.taken.get().wrapping_sub(self.let_go.get())
    }

    /// Whether this strand holds something, or one that it interrupts on this thread does.
    pub fn thread_holds(&self) -> bool {
        self.above_holds.get() || self.holds() != 0
    }

    /// A count that whoever locks keeps as it likes, with this promise: while it is zero, everything
    /// this thread holds was taken by the strand that runs now. It is at least one on a foreign
    /// strand, and on a thread on which a foreign strand was abandoned.
    #[inline(always)]
    pub fn irregular(&self) -> u32 {
        self.irregular.get()
    }

    /// Adds one to [`irregular`](Local::irregular).
    #[inline(always)]
    pub fn add_irregular(&self) {
        self.irregular.set(self.irregular.get().wrapping_add(1));
    }

    /// Takes one [`add_irregular`](Local::add_irregular) back.
    ///
    /// # Safety
    ///
    /// Locks rely on the promise of [`irregular`](Local::irregular), which must be kept.
    #[inline(always)]
    pub unsafe fn remove_irregular(&self) {
        self.irregular.set(self.irregular.get().wrapping_sub(1));
    }

    /// A strand with a token asks again for an id, if it holds nothing that bears the token.
    #[cold]
    fn assign(&self) -> u32 {
        let had = self.token.get();
        if had != 0 && self.holds() != 0 {
            return had;
        }
        if let Some(id) = DISPENSER.take() {
            // A foreign strand's guard gives its id back; a thread's own goes back at its end.
            if self.depth.get() > 0 || AT_THREAD_END.try_with(|_| ()).is_ok() {
                self.token.set(u32::from(id.get()));
                return u32::from(id.get());
            }
            DISPENSER.give_back(id);
        }
        if had == 0 {
            // ORD: `Relaxed`: uniqueness is all that matters.
            let token = NEXT_TOKEN.fetch_add(1, Ordering::Relaxed);
            if token <= u32::from(u16::MAX) {
                // Four billion strands beyond the ids have been. A second owner of one name would
                // be let into the first one's locks.
                eprintln!("raddle: out of names for strands");
                std::process::abort();
            }
            self.token.set(token);
        }
        self.token.get()
    }

    fn save(&self) -> Saved {
        Saved {
            token: self.token.get(),
            holds: self.holds(),
            irregular: self.irregular.get(),
            depth: self.depth.get(),
            above_holds: self.above_holds.get(),
        }
    }

    fn restore(&self, saved: Saved) {
        self.token.set(saved.token);
        self.taken.set(saved.holds);
        self.let_go.set(0);
        self.irregular.set(saved.irregular);
        self.depth.set(saved.depth);
        self.above_holds.set(saved.above_holds);
    }
}

/// The strand ends: its id goes back, or it is abandoned (I4).
fn end(ended: Saved) {
    let Some(id) = u16::try_from(ended.token).ok().and_then(NonZeroU16::new) else {
        if ended.holds as i32 > 0 {
            abandon::report(None, ended.holds);
        }
        return; // Tokens are not used twice.
    };
    if ended.holds as i32 > 0 {
        abandon::report(Some(StrandId(id)), ended.holds);
    } else {
        DISPENSER.give_back(StrandId(id));
    }
}

/// Ends the thread's own strand when the thread ends.
struct AtThreadEnd;

impl Drop for AtThreadEnd {
    fn drop(&mut self) {
        if cfg!(any(raddle_loom, raddle_shuttle)) {
            return; // A model tears its statics down before its threads' locals.
        }
        let ended = RUNNING.with(Local::save);
        if ended.depth == 0 {
            RUNNING.with(|local| local.restore(Local::new().save()));
            end(ended); // I3: no guard is left
        }
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

/// Passes `f` the running strand's cells. Costs a thread-local address.
#[inline(always)]
pub fn with_local<R>(f: impl FnOnce(&Local) -> R) -> R {
    RUNNING.with(f)
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

/// Runs as another strand until the guard is dropped.
///
/// The new strand gets an id only if [`current`] asks for one; entering and leaving cost a few
/// thread-local reads and writes each.
///
/// ```
/// use raddle_sync::strand;
/// let mine = strand::current();
/// let foreign = strand::enter_foreign();
/// assert_ne!(strand::current(), mine);
/// drop(foreign);
/// assert_eq!(strand::current(), mine);
/// ```
///
/// The guard stays on its thread:
/// ```compile_fail
/// let guard = raddle_sync::strand::enter_foreign();
/// std::thread::spawn(move || drop(guard));
/// ```
#[must_use = "the foreign strand ends when the guard is dropped"]
#[inline]
pub fn enter_foreign() -> ForeignStrand {
    RUNNING.with(|local| {
        let outer = local.save();
        let depth = outer.depth.checked_add(1).expect("foreign strands nested too deep");
        let above_holds = local.thread_holds();
        local.restore(Saved { token: 0, holds: 0, irregular: 1, depth, above_holds });
        ForeignStrand { outer, not_send: PhantomData }
    })
}

/// A foreign strand's time on this thread; see [`enter_foreign`].
///
/// Guards are dropped in the reverse order of entering, as scopes do by themselves. If an inner one was
/// forgotten, the outer one ends its strand too; one that is dropped after an outer one does nothing.
pub struct ForeignStrand {
    outer: Saved,
    not_send: PhantomData<*const ()>,
}

impl Drop for ForeignStrand {
    #[inline]
    fn drop(&mut self) {
        self.end();
    }
}

impl ForeignStrand {
    /// Ends the strand, and begins another one in its place.
    ///
    /// ```
    /// use raddle_sync::strand;
    /// let mut foreign = strand::enter_foreign();
    /// let first = strand::current();
    /// let another = strand::enter_foreign();
    /// assert!(first.is_some() && strand::current() != first);
    /// drop(another);
    /// foreign.renew();
    /// assert_eq!(strand::with_local(|local| local.token_or_zero()), 0);
    /// ```
    #[inline]
    pub fn renew(&mut self) {
        // One that has no name yet has left nothing behind: it may pass for the next.
        let fresh = RUNNING.with(|local| {
            let (depth, irregular) = (local.depth.get(), local.irregular.get());
            let unnamed = local.token.get() == 0 && local.holds() == 0;
            unnamed && irregular == 1 && depth == self.outer.depth + 1
        });
        if !fresh {
            self.end();
            self.outer = enter_foreign().defuse();
        }
    }

    fn defuse(self) -> Saved {
        ManuallyDrop::new(self).outer
    }

    #[inline]
    fn end(&self) {
        let inner = RUNNING.with(|local| {
            let inner = local.save();
            // Not innermost any more: an outer guard has ended this strand already (I2).
            (inner.depth > self.outer.depth).then(|| {
                local.restore(self.outer);
                inner
            })
        });
        if let Some(inner) = inner.filter(|inner| inner.token != 0 || inner.holds != 0) {
            self.settle(inner);
        }
    }

    fn settle(&self, inner: Saved) {
        let holds = inner.holds as i32;
        RUNNING.with(|local| {
            if holds < 0 {
                // It let go of what the strand beneath it had taken.
                local.taken.set(local.taken.get().wrapping_add_signed(holds));
            } else if holds > 0 {
                // It leaves things held, which may come to light on this thread later.
                local.add_irregular();
            }
        });
        end(inner);
    }
}

impl fmt::Debug for ForeignStrand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignStrand").field("depth", &(self.outer.depth + 1)).finish()
    }
}

#[cfg(all(test, not(any(raddle_loom, raddle_shuttle))))]
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

    #[test]
    fn a_strand_that_ends_with_a_hold_is_reported_and_its_id_retired() {
        let told = Arc::new(std::sync::Mutex::new(Vec::new()));
        let sink = Arc::clone(&told);
        set_abandon_hook(Some(Arc::new(move |abandoned: &Abandoned| {
            sink.lock().unwrap().push((abandoned.id(), abandoned.holds(), abandoned.to_string()));
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
        with_local(Local::hold);
        drop(foreign);
        set_abandon_hook(None);
        let told = told.lock().unwrap();
        assert_eq!(told.len(), 2, "each once: {told:?}");
        assert_eq!((told[0].0, told[0].1), (retired, 1));
        assert!(told[0].2.contains("careless"), "{}", told[0].2);
        assert_eq!(told[1].0, retired_too);
        assert!(with_local(Local::irregular) > 0, "what it held may turn up on this thread");
        // SAFETY: this thread holds nothing that it did not take under its name.
        with_local(|local| unsafe { local.remove_irregular() });
        for _ in 0..if cfg!(miri) { 10 } else { 200 } {
            let id = thread::spawn(current).join().unwrap();
            assert!(id != retired && id != retired_too, "{id:?} was retired");
        }
    }

    #[test]
    fn what_a_foreign_strand_lets_go_is_taken_off_the_one_beneath() {
        with_local(Local::hold);
        let foreign = enter_foreign();
        // SAFETY: held above, and it was nothing.
        with_local(|local| unsafe { local.unhold() });
        drop(foreign);
        assert_eq!(with_local(Local::holds), 0);
    }
}
