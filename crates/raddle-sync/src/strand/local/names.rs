//! The names of strands: ids that are given out, kept and given back, and tokens.

use super::super::{AT_THREAD_END, Dispenser, StrandId};
use super::Local;
use crate::atomic::{AtomicU32, Ordering};
use std::cell::Cell;
use std::num::NonZeroU16;
use std::sync::OnceLock;

/// How many ids there are; few under models, so that running out of them is explored too.
const LIMIT: u16 = if cfg!(raddle_model) { 3 } else { u16::MAX };
/// Ids that a thread keeps: its own, and one for each of the first foreign strands, by depth.
pub(in super::super) const KEPT: usize = if cfg!(raddle_model) { 1 } else { 4 };

crate::lazy_static! {
    static DISPENSER: Dispenser = Dispenser::new(LIMIT);
}

crate::lazy_static! {
    /// The next token for a strand without an id.
    static NEXT_TOKEN: AtomicU32 = AtomicU32::new(1 << 16);
}

crate::lazy_static! {
    /// The largest id that was ever given out.
    static HIGHEST: AtomicU32 = AtomicU32::new(0);
}

/// Makes what is made on first use.
#[cfg(all(unix, not(any(miri, raddle_model))))]
pub(crate) fn force_statics() {
    let _ = (&*DISPENSER, &*NEXT_TOKEN, &*HIGHEST);
}

/// The largest id that any strand has had. What a strand does under its id comes after this is as large.
pub fn highest() -> u32 {
    HIGHEST.load(Ordering::Relaxed)
}

impl Local {
    /// The names of the strand that runs and of those beneath it, as far as they have any; none is given out for this.
    pub fn names(&self) -> Vec<u32> {
        let mut names = vec![self.token_or_zero()];
        names.extend(self.beneath.borrow().iter().map(|saved| saved.token));
        let depth = self.depth.get().min(KEPT as u32);
        names.extend((0..depth).map(|depth| self.kept(depth)));
        names.retain(|&name| name != 0);
        names
    }

    /// What `which` makes of the id of a strand that runs on this thread, has done so or lies beneath, of the first of
    /// which it makes something; the running one is asked first.
    pub fn find_name<T>(&self, which: impl Fn(u32) -> Option<T>) -> Option<T> {
        let named = |name: u32| if (1..=0xFFFF).contains(&name) { which(name) } else { None };
        named(self.token.get())
            .or_else(|| self.ids.iter().find_map(|id| named(id.get())))
            .or_else(|| self.beneath.borrow().iter().find_map(|saved| named(saved.token)))
            .or_else(|| self.lost.borrow().iter().find_map(|saved| named(saved.token)))
    }

    /// The id kept for strands of this depth, or 0.
    #[inline(always)]
    pub(in super::super) fn kept(&self, depth: u32) -> u32 {
        self.ids.get(depth as usize).map_or(0, Cell::get)
    }

    /// A strand with a token asks again for an id, if it holds nothing that bears the token.
    #[cold]
    pub(super) fn assign(&self) -> u32 {
        // Before anything is held: it takes milliseconds at the first time in a process of many threads.
        crate::fence::init();
        let had = self.token.get();
        if had != 0 && !self.is_free() {
            return had;
        }
        // Asked first, as one without an id ends as well, and may hold something then (S4).
        let ends = AT_THREAD_END.try_with(|_| ()).is_ok();
        // Whose id could not go back gets none.
        if let Some(id) = if ends { DISPENSER.take() } else { None } {
            let token = u32::from(id.get());
            // ORD: `Relaxed`: whoever looks at what this strand shows has a fence, or a barrier, for that already.
            HIGHEST.fetch_max(token, Ordering::Relaxed);
            self.token.set(token);
            if let Some(kept) = self.ids.get(self.depth.get() as usize) {
                kept.set(token);
            }
            return token;
        }
        if had == 0 {
            // ORD: `Relaxed`: uniqueness is all that matters.
            let token = NEXT_TOKEN.fetch_add(1, Ordering::Relaxed);
            if token <= u32::from(u16::MAX) {
                // Four billion strands beyond the ids have been. A second owner of one name would
                // be let into the first one's locks.
                crate::abort(format_args!("out of names for strands"));
            }
            self.token.set(token);
        }
        self.token.get()
    }
}

/// The id that a name is, if it is one.
pub(in super::super) fn id(token: u32) -> Option<StrandId> {
    u16::try_from(token).ok().and_then(NonZeroU16::new).map(StrandId)
}

/// Gives the id back that a name is, unless it is in use yet; tokens are not used twice.
pub(in super::super) fn give_back(token: u32) {
    let is_in_use = || IN_USE.get().is_some_and(|is_in_use| is_in_use(token));
    if let Some(id) = id(token).filter(|_| !is_in_use()) {
        DISPENSER.give_back(id);
    }
}

static IN_USE: OnceLock<fn(u32) -> bool> = OnceLock::new();

/// Sets, once, who says whether an id still stands for something that the strand, which has ended, was not counted to
/// [hold](Local::hold). Such an id is nobody's from then on.
pub fn set_in_use(is_in_use: fn(u32) -> bool) {
    IN_USE.get_or_init(|| is_in_use);
}
