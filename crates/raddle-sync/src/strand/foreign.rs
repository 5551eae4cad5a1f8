//! Foreign strands: entering one, and leaving it.

use super::local::{Holds, KEPT, Local, give_back, id};
use super::{RUNNING, abandon};
use std::fmt;
use std::marker::PhantomData;

/// A strand that does not run now.
#[derive(Debug)]
pub(super) struct Saved {
    depth: u32,
    pub(super) token: u32,
    pub(super) holds: Holds,
}

/// Runs as another strand until the guard is dropped.
///
/// The new strand gets an id only if [`current`](super::current) or a lock asks for one; the thread keeps it for the
/// next one. Entering and leaving cost a few thread-local reads and writes each.
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
/// ```compile_fail,E0277
/// let guard = raddle_sync::strand::enter_foreign();
/// std::thread::spawn(move || drop(guard));
/// ```
#[must_use = "the foreign strand ends when the guard is dropped"]
#[inline]
pub fn enter_foreign() -> ForeignStrand {
    RUNNING.with(|local| {
        let depth = local.depth.get();
        let plain = local.is_free() && local.token.get() == local.kept(depth);
        if !plain {
            local.put_aside();
        }
        local.depth.set(depth.checked_add(1).expect("foreign strands nested too deep"));
        local.token.set(local.kept(depth + 1));
        ForeignStrand { depth, plain, cuts: local.cuts.count(), not_send: PhantomData }
    })
}

/// A foreign strand's time on this thread; see [`enter_foreign`].
///
/// Guards are dropped in the reverse order of entering, as scopes do by themselves. If an inner one was
/// forgotten, the outer one ends its strand too; one that is dropped after an outer one does nothing.
pub struct ForeignStrand {
    /// The depth of the strand beneath.
    depth: u32,
    /// Of which nothing is to be restored but an id that is kept.
    plain: bool,
    /// The thread's cuts when the strand began.
    cuts: u64,
    not_send: PhantomData<*const ()>,
}

impl ForeignStrand {
    /// Ends the strand, and begins another one in its place.
    ///
    /// ```
    /// use raddle_sync::strand;
    /// let mine = strand::current();
    /// let mut foreign = strand::enter_foreign();
    /// foreign.renew();
    /// assert_ne!(strand::current(), mine);
    /// drop(foreign);
    /// assert_eq!(strand::current(), mine);
    /// ```
    #[inline]
    pub fn renew(&mut self) {
        let inner = self.depth + 1;
        // One that holds nothing may pass for the next, which would have the same name.
        let unchanged = RUNNING.with(|local| {
            let kept = (inner as usize) < KEPT || local.token.get() == 0;
            kept && self.runs(local) && local.is_free()
        });
        if !unchanged {
            RUNNING.with(|local| local.end_down_to(self.depth, self.cuts));
            std::mem::forget(std::mem::replace(self, enter_foreign()));
        }
    }

    /// Whether its strand is the one that runs. If not, `end_down_to` tells more.
    #[inline(always)]
    fn runs(&self, local: &Local) -> bool {
        local.depth.get() == self.depth + 1 && local.cuts.count() == self.cuts
    }
}

impl Drop for ForeignStrand {
    #[inline]
    fn drop(&mut self) {
        RUNNING.with(|local| {
            let inner = self.depth + 1;
            let kept = (inner as usize) < KEPT || local.token.get() == 0;
            if self.plain && kept && self.runs(local) && local.is_free() {
                local.depth.set(self.depth);
                local.token.set(local.kept(self.depth));
            } else {
                local.end_down_to(self.depth, self.cuts);
            }
        });
    }
}

impl Local {
    /// Writes down what the running strand holds, and its name, for the time that it does not run.
    #[cold]
    fn put_aside(&self) {
        let saved =
            Saved { depth: self.depth.get(), token: self.token.get(), holds: self.holding() };
        self.beneath.borrow_mut().push(saved);
        self.set_holding(Holds::default());
    }

    /// Ends the running strand, and others beneath it whose guards were forgotten, and goes on with the one at `depth`.
    /// Nothing if the strand above that, which began when there had been so many `cuts`, has ended already (S2).
    #[cold]
    #[inline(never)]
    fn end_down_to(&self, depth: u32, cuts: u64) {
        if self.cuts.ended(depth + 1, cuts) {
            return;
        }
        if self.depth.get() > depth + 1 {
            self.cuts.cut(depth);
        }
        while self.depth.get() > depth {
            let ended =
                Saved { depth: self.depth.get(), token: self.token.get(), holds: self.holding() };
            let below = ended.depth - 1;
            let mut beneath = self.beneath.borrow_mut();
            let aside = beneath.last().is_some_and(|saved| saved.depth == below);
            let saved = if aside { beneath.pop() } else { None };
            drop(beneath);
            self.depth.set(below);
            let (token, holds) = match saved {
                Some(saved) => (saved.token, saved.holds),
                None => (self.kept(below), Holds::default()),
            };
            self.token.set(token);
            self.set_holding(holds);
            self.end(ended);
        }
    }

    /// A foreign strand has ended: its id is free, or it is abandoned (S4).
    fn end(&self, ended: Saved) {
        let kept = self.ids.get(ended.depth as usize).filter(|kept| kept.get() == ended.token);
        if !ended.holds.any() {
            if kept.is_none() {
                give_back(ended.token);
            }
            return;
        }
        if let Some(kept) = kept {
            kept.set(0);
        }
        self.forget_those_of(&ended.holds);
        let (token, holds) = (ended.token, ended.holds.count());
        self.lost.borrow_mut().push(ended);
        abandon::report(id(token), holds);
    }
}

impl fmt::Debug for ForeignStrand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignStrand").field("depth", &(self.depth + 1)).finish()
    }
}
