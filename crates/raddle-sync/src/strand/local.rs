//! What a thread runs as, and what that holds.
//!
//! A strand's holds are of two kinds. Two of them at most are *fast*: written down by address, each with the
//! number of levels beyond the first. The rest, the *others*, are only counted.
//!
//! **H1** What is written down may be out of date: its holder forgot the guard, and something else lies at the
//! address now. So a record says nothing by itself; whoever relies on one knows by other means that the running
//! strand holds what is at the address.
//! **H2** What is held and not written down is among the others.
//! **H3** No strand has a record of what a strand above it holds among its others, or has left held when it ended:
//! such a record is older than that hold, so it is out of date, and made one of its strand's others. So a strand
//! that lets go of what an ended one held finds no record of its own there, and looks further.

mod cuts;
mod holds;
mod names;

use self::cuts::Cuts;
pub(super) use self::holds::Holds;
pub use self::holds::Release;
use self::holds::count_down;
#[cfg(all(unix, not(any(miri, raddle_model))))]
pub(crate) use self::names::force_statics;
pub(super) use self::names::{KEPT, give_back, id};
pub use self::names::{highest, set_in_use};
use super::abandon;
use super::foreign::Saved;
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;

const TOO_OFTEN: &str = "a lock taken too often by its owner";

/// What this thread runs as: plain cells, read on every lock and unlock.
///
/// All of it belongs to the strand that runs now: [`enter_foreign`](super::enter_foreign) puts it aside.
#[derive(Debug)]
#[repr(C)] // What each lock looks at comes first, together.
pub struct Local {
    /// The id or token; 0: none assigned yet.
    pub(super) token: Cell<u32>,
    others: Cell<u32>,
    fast: [Cell<usize>; 2],
    again: [Cell<usize>; 2],
    /// How many foreign strands are nested on this thread.
    pub(super) depth: Cell<u32>,
    /// The ids that the thread keeps, by depth; 0: none.
    pub(super) ids: [Cell<u32>; KEPT],
    /// Strands beneath this one that hold something, or whose names are not among `ids`; deepest last. Not
    /// dropped, so that the thread-local needs no destructor: `thread_ends` empties it.
    pub(super) beneath: RefCell<ManuallyDrop<Vec<Saved>>>,
    /// Strands that were abandoned on this thread. Never freed: their guards may turn up.
    pub(super) lost: RefCell<ManuallyDrop<Vec<Saved>>>,
    pub(super) cuts: Cuts,
}

impl Local {
    pub(super) const fn new() -> Local {
        Local {
            token: Cell::new(0),
            others: Cell::new(0),
            fast: [const { Cell::new(0) }; 2],
            again: [const { Cell::new(0) }; 2],
            depth: Cell::new(0),
            ids: [const { Cell::new(0) }; KEPT],
            beneath: RefCell::new(ManuallyDrop::new(Vec::new())),
            lost: RefCell::new(ManuallyDrop::new(Vec::new())),
            cuts: Cuts::new(),
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

    /// Says that the running strand holds one thing more, which it must not end with (S4). Ends the process if that is
    /// 2^31 things, which only guards that were forgotten can be.
    #[inline(always)]
    pub fn hold(&self) {
        let others = self.others.get().wrapping_add(1);
        self.others.set(others);
        if others == 1 << 31 {
            too_many();
        }
    }

    /// Whether there is room for more to be [held](Local::hold): a billion things.
    pub fn can_hold(&self) -> bool {
        (self.others.get() as i32) < i32::MAX / 2
    }

    /// Takes one [`hold`](Local::hold) back.
    ///
    /// # Safety
    ///
    /// What the strand no longer holds is not under its name any more: with nothing held, the name may go to
    /// another strand, which would be taken for the owner.
    #[inline(always)]
    pub unsafe fn unhold(&self) {
        self.others.set(self.others.get().wrapping_sub(1));
    }

    /// As [`hold`](Local::hold), for what has just been taken and is to be let go of by
    /// [`let_go`](Local::let_go): its address is written down, if there is room.
    ///
    /// # Safety
    ///
    /// What is at this address the running strand has just taken.
    #[inline(always)]
    pub unsafe fn hold_fast(&self, thing: usize) {
        // One of the two may be out of date and of the same address (H1); nothing is written down twice.
        if self.fast[0].get() == 0 && self.fast[1].get() != thing {
            self.fast[0].set(thing);
        } else if self.fast[1].get() == 0 && self.fast[0].get() != thing {
            self.fast[1].set(thing);
        } else {
            // SAFETY: contract.
            unsafe { self.make_room(thing) };
        }
    }

    /// Writes `thing` down in the stead of something that is held once, which then is one of the others.
    ///
    /// # Safety
    ///
    /// As for `hold_fast`.
    #[cold]
    #[inline(never)]
    unsafe fn make_room(&self, thing: usize) {
        // SAFETY: contract. H1: what is written down of it is out of date.
        unsafe { self.hold_slow(thing) };
        if let Some(at) = self.room() {
            self.others.set(self.others.get().wrapping_sub(1));
            self.fast[at].set(thing);
        }
    }

    /// A place to write something down, or `None` where nests are.
    fn room(&self) -> Option<usize> {
        let empty = self.fast.iter().position(|fast| fast.get() == 0);
        empty.or_else(|| {
            let at = self.again.iter().rposition(|again| again.get() == 0)?;
            self.forget_beneath(self.fast[at].get());
            self.hold();
            Some(at)
        })
    }

    /// As [`hold`](Local::hold), for what is at an address of which nothing may be written down.
    ///
    /// # Safety
    ///
    /// As for [`hold_fast`](Local::hold_fast).
    #[inline]
    pub unsafe fn hold_slow(&self, thing: usize) {
        if self.fast[0].get() == thing || self.fast[1].get() == thing {
            // SAFETY: out of date, as it has just been taken.
            unsafe { self.forget(thing) };
        }
        if self.depth.get() != 0 {
            self.forget_beneath(thing);
        }
        self.hold();
    }

    /// What the running strand holds and does not write down, or no more, the strands beneath do not hold (H3).
    #[cold]
    fn forget_beneath(&self, thing: usize) {
        // Else a signal handler asks, which interrupts the list's own thread, and lets go of what it holds before it ends.
        if let Ok(mut beneath) = self.beneath.try_borrow_mut() {
            beneath.iter_mut().for_each(|saved| saved.holds.forget(thing));
        }
    }

    /// Nor what a strand still holds that has just ended above the running one (H3).
    #[cold]
    pub(super) fn forget_those_of(&self, ended: &Holds) {
        for thing in ended.fast.into_iter().filter(|&thing| thing != 0) {
            let mut holds = self.holding();
            holds.forget(thing);
            self.set_holding(holds);
            self.forget_beneath(thing);
        }
    }

    /// Of what the running strand holds, lets one level go. `NESTS`: it may be held more than once.
    ///
    /// # Safety
    ///
    /// After [`Release::Last`] the thing is let go of before the strand can end, or is
    /// [held](Local::hold) again.
    #[inline(always)]
    pub unsafe fn let_go<const NESTS: bool>(&self, thing: usize) -> Release {
        let at = if self.fast[0].get() == thing {
            0
        } else if self.fast[1].get() == thing {
            1
        } else {
            return Release::Unknown;
        };
        if NESTS {
            let again = self.again[at].get();
            if again != 0 {
                self.again[at].set(again - 1);
                return Release::Level;
            }
        }
        self.fast[at].set(0);
        Release::Last
    }

    /// Counts another level of what is written down, and held by the running strand; false if it is not.
    #[inline(always)]
    pub fn again(&self, thing: usize) -> bool {
        let at = if self.fast[0].get() == thing {
            0
        } else if self.fast[1].get() == thing {
            1
        } else {
            return false;
        };
        // Not refused, however many: as long as it is written down it is held. But where this may turn round:
        let again = self.again[at].get();
        assert!(size_of::<usize>() > 4 || again < i32::MAX as usize, "{TOO_OFTEN}");
        self.again[at].set(again + 1);
        true
    }

    /// Counts a second level of one of the others, which is written down from now on; false if there is no room.
    ///
    /// # Safety
    ///
    /// The running strand holds what is at this address, once, and that is not written down. Of what another holds it would
    /// let go by this record, as by one of its own.
    ///
    /// ```compile_fail,E0133
    /// raddle_sync::strand::with_local(|local| local.again_from_others(8));
    /// ```
    #[cold]
    pub unsafe fn again_from_others(&self, thing: usize) -> bool {
        let Some(at) = self.room() else {
            return false;
        };
        self.others.set(self.others.get().wrapping_sub(1));
        self.fast[at].set(thing);
        self.again[at].set(1);
        true
    }

    /// Makes of what is written down one of the others, with all its levels; how many beyond the first.
    ///
    /// # Panics
    ///
    /// If that makes two billion. Nothing has changed then.
    ///
    /// # Safety
    ///
    /// The caller sees to it that the levels are let go of as those of what is not written down, or they are out of date.
    #[cold]
    pub unsafe fn forget(&self, thing: usize) -> usize {
        let mut levels = 0;
        for (fast, again) in self.fast.iter().zip(&self.again) {
            if fast.get() == thing {
                let others = i64::from(self.others.get() as i32) + again.get() as i64 + 1;
                self.others.set(i32::try_from(others).expect(TOO_OFTEN) as u32);
                levels = again.replace(0);
                fast.set(0);
            }
        }
        self.forget_beneath(thing);
        levels
    }

    /// Lets go of one level of what is held under the name `owner`: by the running strand, by one beneath it, or by
    /// one that was abandoned on this thread. `Last` as well if it is not written down.
    ///
    /// # Safety
    ///
    /// As that of [`unhold`](Local::unhold), before the strand of that name can end.
    #[cold]
    pub unsafe fn let_go_of(&self, owner: u32, thing: usize) -> Release {
        if owner == self.token.get() {
            let mut holds = self.holding();
            let release = count_down(&mut holds, thing);
            self.set_holding(holds);
            return release;
        }
        for list in [&self.beneath, &self.lost] {
            if let Some(saved) = list.borrow_mut().iter_mut().find(|saved| saved.token == owner) {
                return count_down(&mut saved.holds, thing);
            }
        }
        Release::Last // of a strand that was abandoned, and held nothing twice
    }

    /// Takes one [`hold`](Local::hold) back of the strand named `owner`: the running one, one beneath it, or one that was
    /// abandoned on this thread.
    ///
    /// # Safety
    ///
    /// As that of [`unhold`](Local::unhold).
    #[inline]
    pub unsafe fn unhold_of(&self, owner: u32) {
        if owner == self.token.get() {
            // SAFETY: the contract of this function.
            unsafe { self.unhold() };
        } else {
            self.unhold_other(owner);
        }
    }

    #[cold]
    fn unhold_other(&self, owner: u32) {
        for list in [&self.beneath, &self.lost] {
            if let Some(saved) = list.borrow_mut().iter_mut().find(|saved| saved.token == owner) {
                saved.holds.others = saved.holds.others.wrapping_sub(1);
                return;
            }
        }
    }

    /// How many things the running strand holds, [kept names](super::keep_name) included.
    pub fn holds(&self) -> u32 {
        self.holding().count()
    }

    /// Whether the running strand holds something, or one beneath it on this thread does.
    pub fn thread_holds(&self) -> bool {
        !self.is_free() || self.beneath.borrow().iter().any(|saved| saved.holds.any())
    }

    /// Whether the running strand holds nothing.
    #[inline(always)]
    pub(super) fn is_free(&self) -> bool {
        self.fast[0].get() | self.fast[1].get() | self.others.get() as usize == 0
    }

    pub(super) fn holding(&self) -> Holds {
        Holds {
            fast: [self.fast[0].get(), self.fast[1].get()],
            again: [self.again[0].get(), self.again[1].get()],
            others: self.others.get(),
        }
    }

    pub(super) fn set_holding(&self, holds: Holds) {
        self.others.set(holds.others);
        for at in 0..2 {
            self.fast[at].set(holds.fast[at]);
            self.again[at].set(holds.again[at]);
        }
    }

    /// The thread's own strand ends with the thread, and gives all ids back.
    pub(super) fn thread_ends(&self) {
        if self.depth.get() != 0 {
            return; // S3
        }
        let (token, holds) = (self.token.get(), self.holding());
        for kept in &self.ids[1..] {
            give_back(kept.replace(0));
        }
        self.ids[0].set(0);
        if holds.any() {
            // What it holds stays written down: destructors of thread-locals may yet let go of it.
            abandon::report(id(token), holds.count());
        } else {
            self.token.set(0);
            give_back(token);
        }
        let beneath = std::mem::take(&mut **self.beneath.borrow_mut());
        drop(beneath);
    }
}

/// With one more there would seem to be nothing held, and the strand's name would go to another.
#[cold]
#[inline(never)]
fn too_many() -> ! {
    crate::abort(format_args!("a strand holds two billion locks"));
}

#[cfg(all(test, not(raddle_model)))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Their sum, taken for a signed number, said that nothing was held.
    #[test]
    fn a_strand_that_holds_two_billion_things_holds_something() {
        let mut holds = Holds { fast: [8, 0], again: [i32::MAX as usize, 0], others: 0 };
        assert!(holds.any());
        holds = Holds { others: i32::MAX as u32, ..Holds::default() };
        assert!(holds.any());
        assert!(!Holds { others: 0_u32.wrapping_sub(1), ..Holds::default() }.any());
        holds.others = 0;
        assert!(!holds.any());
    }

    #[test]
    fn a_level_too_many_is_refused() {
        let local = Local::new();
        // SAFETY: nothing is there.
        unsafe { local.hold_fast(8) };
        assert!(local.can_hold());
        let most = i32::MAX as usize - 1;
        local.again[0].set(most + 1);
        // SAFETY: nothing is there.
        let forget = || unsafe { local.forget(8) };
        assert!(catch_unwind(AssertUnwindSafe(forget)).is_err());
        assert!(local.holding().any());
        local.again[0].set(most);
        assert_eq!(forget(), most);
        assert!(local.holding().any() && !local.can_hold());
        local.others.set(i32::MAX as u32 - 1);
        local.hold();
        assert!(!local.can_hold() && local.holding().any());
    }
}
