//! Why a thin lock is released without a read-modify-write, and how a contender finds its owner.
//!
//! Each strand id has a **slot**, of which two words are meant here. The owner `X` of a thin lock releases it like this:
//!
//! ```text
//! X:  releasing = 1;  light fence;  if flag is clean { word = free; releasing = 0 }
//!                                   else { releasing = 0; the slow way }
//! C:  flag X (a read-modify-write);  heavy fence;  wait while X is releasing;  read the word again
//! ```
//!
//! **L1** While a word is thin only its owner writes it.
//! **L2** A contender that has flagged X, run the heavy fence and then seen `releasing == 0` knows: every
//! later release by X of any thin lock finds the flag *while X still holds the lock*. For a release
//! whose look at `flag` missed the flag has set `releasing` before; the fence pair makes that visible to
//! the contender, who waits for the 0 that follows; and with that 0 (Release, Acquire) comes the freed
//! word. So if the word still names X, X is asleep, busy or on its way to the slow release: the
//! contender may sleep until X wakes it.
//! A signal handler that releases a lock of its own in between leaves `releasing` as it has found it.
//! **L3** The slow release by one that is flagged, and all that contenders do with a thin lock, is under the lock of the
//! address's bucket ([`pending`](crate::pending)).
//!
//! # When barriers become dear
//!
//! The heavy fence interrupts every processor of the process: some microseconds each time. Where
//! that happens too often, or where there is no such fence, the process releases by a real fence instead
//! (`FULL`), and a contender needs only a fence of its own. Whether a slot's owner may use the light
//! form is a bit in its flag word:
//!
//! | `flag` | release |
//! |---|---|
//! | `READY` | as above |
//! | `READY` + 2n | slow: n contenders have flagged the owner |
//! | 0 | by a full fence, or the slot is not prepared yet |
//! | 2n | slow |
//!
//! **L4** A contender may do without the barrier if it found `READY` cleared when it flagged the slot, and
//! then the mode `FULL`: whoever cleared `READY` ran a barrier before the mode became `FULL`, and an owner
//! that sets `READY` later does so by a read-modify-write of the same word, and so sees the flag.
//! **L5** Whoever compares its own name with a holder's asks for its own first. A name goes from strand to strand, so one that is
//! given out after the look may be that of the holder seen, which has let go and ended since.

use crate::core::Patience;
use crate::spin::Moment;
use crate::stats::{Count, count};
use raddle_sync::atomic::{AtomicU32, AtomicUsize, Ordering, fence as full_fence};
use raddle_sync::time::Instant;
use raddle_sync::{fence, strand};
use std::time::Duration;

/// The owner of this slot may release by the light fence.
pub(crate) const READY: u32 = 1;
/// One contender that waits for this slot's owner.
const ONE: u32 = 2;

const SLOTS: usize = if cfg!(raddle_model) { 4 } else { 1 << 16 };

/// What a strand shows of itself to those who want its thin locks. Alone on its cache line.
#[repr(align(64))]
pub(crate) struct Slot {
    pub(crate) flag: AtomicU32,
    pub(crate) releasing: AtomicU32,
    /// Addresses of readers-writer locks that the strand reads, perhaps with [`HOLDS`], or 0; see `rw/core.rs`.
    pub(crate) reads: [AtomicUsize; READS],
}

/// As many locks a strand can read without being counted.
const READS: usize = if cfg!(raddle_model) { 1 } else { 4 };

/// In a cell, beside the address, which is even: the strand counts the read among what it holds.
pub(crate) const HOLDS: usize = 1;

/// Whether a cell with this in it says that the lock at an address is read.
#[inline]
pub(crate) fn names(cell: usize, address: usize) -> bool {
    cell & !HOLDS == address
}

impl Slot {
    raddle_sync::const_fn! {
        const fn new() -> Slot {
            Slot {
                flag: AtomicU32::new(0),
                releasing: AtomicU32::new(0),
                reads: new_reads(),
            }
        }
    }
}

#[cfg(not(raddle_loom))]
const fn new_reads() -> [AtomicUsize; READS] {
    [const { AtomicUsize::new(0) }; READS]
}

#[cfg(raddle_loom)]
fn new_reads() -> [AtomicUsize; READS] {
    std::array::from_fn(|_| AtomicUsize::new(0))
}

/// How thin locks are released.
const UNDECIDED: u32 = 0;
const LIGHT: u32 = 1;
/// From `LIGHT` to `FULL`.
const LEAVING: u32 = 2;
const FULL: u32 = 3;

/// Barriers in one `WINDOW` above which the process goes over to `FULL`, and below which it goes back.
const TOO_MANY: u32 = 200;
const FEW: u32 = 20;
const WINDOW: Duration = Duration::from_millis(100);

struct Global {
    slots: [Slot; SLOTS],
    mode: AtomicU32,
    /// The largest owner whose slot was ever prepared.
    highest: AtomicU32,
    /// Contenders in this window that had to flag an owner.
    arms: AtomicU32,
    /// When the window began, in windows since the first.
    window: AtomicU32,
}

#[cfg(not(raddle_model))]
static GLOBAL: Global = Global {
    slots: [const { Slot::new() }; SLOTS],
    mode: AtomicU32::new(UNDECIDED),
    highest: AtomicU32::new(0),
    arms: AtomicU32::new(0),
    window: AtomicU32::new(0),
};

#[cfg(raddle_model)]
raddle_sync::lazy_static! {
    static GLOBAL: Global = Global {
        slots: std::array::from_fn(|_| Slot::new()),
        mode: AtomicU32::new(UNDECIDED),
        highest: AtomicU32::new(0),
        arms: AtomicU32::new(0),
        window: AtomicU32::new(0),
    };
}

/// The slot of a strand, which must have an id.
#[inline(always)]
pub(crate) fn of(owner: u32) -> &'static Slot {
    // The modulus is a promise to the compiler: no bounds check.
    &GLOBAL.slots[owner as usize % SLOTS]
}

/// Whether `owner`, whose slot was found without `READY`, may release by the light fence from now on.
/// Called by that strand only.
#[cold]
pub(crate) fn prepare(owner: u32) -> bool {
    let global = &GLOBAL;
    if global.mode.load(Ordering::Relaxed) == UNDECIDED {
        let mode = if fence::init() { LIGHT } else { FULL };
        // Lost to another thread that came to the same decision, or a later one.
        let _ = global.mode.compare_exchange(UNDECIDED, mode, Ordering::AcqRel, Ordering::Relaxed);
    }
    if global.mode.load(Ordering::Relaxed) != LIGHT {
        return false;
    }
    global.highest.fetch_max(owner, Ordering::Relaxed);
    // ORD: Dekker with `leave`: either it sees `READY` and clears it, or the mode is seen here.
    of(owner).flag.fetch_or(READY, Ordering::AcqRel);
    full_fence(Ordering::SeqCst);
    let light = global.mode.load(Ordering::Relaxed) == LIGHT;
    if !light {
        of(owner).flag.fetch_and(!READY, Ordering::AcqRel);
    }
    light
}

/// Makes sure of L2 for `owner`, until [`disarm`]. The caller does not hold any lock of ours. False if that would take
/// longer than until `deadline`; then there is nothing to take back.
#[cold]
#[must_use]
pub(crate) fn arm(owner: u32, deadline: Option<Instant>) -> bool {
    let slot = of(owner);
    // ORD: Acquire: having seen `READY` cleared by `leave` the mode is `LEAVING` at least (L4).
    let before = slot.flag.fetch_add(ONE, Ordering::AcqRel);
    // ORD: Acquire pairs with the Release in `leave`: the barrier has been.
    if before & READY != 0 || GLOBAL.mode.load(Ordering::Acquire) != FULL {
        fence::heavy();
        count(Count::Barriers);
        take_note();
    } else {
        full_fence(Ordering::SeqCst); // the other half is in `Core::release_slow`
    }
    let mut moment = Moment::default();
    // ORD: Acquire pairs with the Release in `Core::release`: the freed word (L2).
    while slot.releasing.load(Ordering::Acquire) != 0 {
        if !moment.pass(true, Patience::Until(deadline)) {
            disarm(owner);
            return false;
        }
    }
    true
}

/// Flags `owner`, which is the caller: for [`disarm`] to take back.
pub(crate) fn arm_quietly(owner: u32) {
    of(owner).flag.fetch_add(ONE, Ordering::AcqRel);
}

/// Takes one [`arm`] back.
pub(crate) fn disarm(owner: u32) {
    let before = of(owner).flag.fetch_sub(ONE, Ordering::AcqRel);
    debug_assert!((ONE..1 << 31).contains(&before), "a flag is taken back once");
}

/// The release by a full fence, of a slot that is not `READY`; true if nobody has flagged it.
#[inline]
pub(crate) fn begin_full_release(slot: &Slot) -> bool {
    slot.releasing.swap(1, Ordering::SeqCst);
    // ORD: Dekker with `arm`. On x86 the swap is the fence, and this only keeps the compiler still. The language
    // does not promise that, which checkers go by.
    if cfg!(all(target_arch = "x86_64", not(any(miri, raddle_model)))) {
        fence::light();
    } else {
        full_fence(Ordering::SeqCst);
    }
    slot.flag.load(Ordering::Relaxed) < ONE
}

/// Counts a barrier, and changes the mode if there are too many.
fn take_note() {
    if cfg!(raddle_model) {
        return; // Models have no clock; one switches by hand.
    }
    if next_window() {
        GLOBAL.arms.store(0, Ordering::Relaxed);
    }
    if GLOBAL.arms.fetch_add(1, Ordering::Relaxed) == TOO_MANY {
        leave();
    }
}

/// In the child of a fork, where nobody contends, nor releases.
#[cfg(all(unix, not(any(miri, raddle_model))))]
pub(crate) fn forget_contenders() {
    let leaving = GLOBAL.mode.load(Ordering::Relaxed) == LEAVING;
    if leaving {
        GLOBAL.mode.store(FULL, Ordering::Relaxed); // L4: without others there is nobody to tell.
    }
    let keep = if leaving { 0 } else { READY };
    for owner in 1..=raddle_sync::strand::highest().min(SLOTS as u32 - 1) {
        let slot = of(owner);
        // Memory that is not written to stays shared with the parent.
        if slot.flag.load(Ordering::Relaxed) & !keep != 0 {
            slot.flag.fetch_and(keep, Ordering::Relaxed);
        }
        if slot.releasing.load(Ordering::Relaxed) != 0 {
            slot.releasing.store(0, Ordering::Relaxed);
        }
    }
}

/// Called by owners at each release the dear way: once in a while, goes back if nobody fights any more.
pub(crate) fn reconsider() {
    raddle_sync::thread_local! {
        static CALLS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
    }
    let calls = CALLS.with(|calls| calls.replace(calls.get().wrapping_add(1)));
    if calls % 1024 == 1023 {
        reconsider_now();
    }
}

#[cold]
fn reconsider_now() {
    if GLOBAL.mode.load(Ordering::Relaxed) != FULL || !fence::init() {
        return;
    }
    if next_window() && GLOBAL.arms.swap(0, Ordering::Relaxed) < FEW {
        rejoin();
    }
}

/// Contenders count in `FULL` too, so that the process does not go back too early.
pub(crate) fn note_contention() {
    if GLOBAL.mode.load(Ordering::Relaxed) == FULL {
        GLOBAL.arms.fetch_add(1, Ordering::Relaxed);
    }
}

/// True for one caller in each window of time.
fn next_window() -> bool {
    let now = (crate::entry::clock() / WINDOW.as_nanos() as u64) as u32;
    let seen = GLOBAL.window.load(Ordering::Relaxed);
    seen != now
        && (GLOBAL.window).compare_exchange(seen, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

/// From `LIGHT` to `FULL`.
#[cold]
pub(crate) fn leave() {
    let global = &GLOBAL;
    let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
    if global.mode.compare_exchange(LIGHT, LEAVING, success, failure).is_err() {
        return;
    }
    full_fence(Ordering::SeqCst); // Dekker with `prepare`
    for owner in 1..=global.highest.load(Ordering::Relaxed) {
        // ORD: Release pairs with the Acquire in `arm` (L4).
        of(owner).flag.fetch_and(!READY, Ordering::AcqRel);
    }
    fence::heavy();
    // ORD: Release pairs with the Acquire in `arm` (L4).
    global.mode.store(FULL, Ordering::Release);
    count(Count::Switches);
}

/// From `FULL` to `LIGHT`; slots become `READY` again as their owners come by.
pub(crate) fn rejoin() {
    let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
    if GLOBAL.mode.compare_exchange(FULL, LIGHT, success, failure).is_ok() {
        count(Count::Switches);
    }
}

/// Reads that are counted until a lock is read published, at least and at most; and how many nanoseconds of a barrier
/// make one more. So that readers who count bear about what they save, and the writer who ends that.
#[cfg(not(raddle_model))]
const SELDOM: (u32, u32) = (64, 4096);
#[cfg(not(raddle_model))]
const PER_READ: u32 = 4;

/// How many reads are counted, until one of them lets others publish.
#[cfg(not(raddle_model))]
static COUNTED: AtomicU32 = AtomicU32::new(SELDOM.0);

/// Whether a reader that is counted is to let others be published: each time after so many, if there is a barrier.
pub(crate) fn may_publish() -> bool {
    #[cfg(raddle_model)]
    return true;
    #[cfg(not(raddle_model))]
    {
        raddle_sync::thread_local! {
            static CALLS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
        }
        let calls = CALLS.with(|calls| calls.replace(calls.get().wrapping_add(1)));
        calls >= COUNTED.load(Ordering::Relaxed) && fence::process_wide() && {
            CALLS.with(|calls| calls.set(0));
            keep_names();
            true
        }
    }
}

/// The guard of a published read may outlive its strand, whose name then is not to go to another. Before the first is published.
pub(crate) fn keep_names() {
    // ORD: `Relaxed`: asked on the thread that has published.
    strand::set_in_use(|name| of(name).reads.iter().any(|cell| cell.load(Ordering::Relaxed) != 0));
}

/// The heavy fence of a writer, and what it takes.
pub(crate) fn revoke() {
    #[cfg(not(raddle_model))]
    let begun = Instant::now();
    fence::heavy();
    count(Count::Barriers);
    #[cfg(not(raddle_model))]
    {
        let took = u32::try_from(begun.elapsed().as_nanos()).unwrap_or(u32::MAX) / PER_READ;
        let mean = (COUNTED.load(Ordering::Relaxed) / 8 * 7).saturating_add(took / 8);
        COUNTED.store(mean.clamp(SELDOM.0, SELDOM.1), Ordering::Relaxed);
    }
}

/// Whether `which` is true of one of the cells in which strands are published. All of those who were published before the
/// caller's heavy fence are asked.
pub(crate) fn any_read(which: impl Fn(&AtomicUsize) -> bool) -> bool {
    let highest = raddle_sync::strand::highest().min(SLOTS as u32 - 1);
    (1..=highest).any(|owner| of(owner).reads.iter().any(&which))
}

/// The strands that are published as readers of the lock at an address.
pub(crate) fn readers(address: usize) -> Vec<u32> {
    let highest = raddle_sync::strand::highest().min(SLOTS as u32 - 1);
    // ORD: `Relaxed`: one that sleeps has written its cells before it registered.
    let is_it = |cell: &AtomicUsize| names(cell.load(Ordering::Relaxed), address);
    let reads = |owner: &u32| of(*owner).reads.iter().any(is_it);
    (1..=highest).filter(reads).collect()
}

#[cfg(all(test, not(raddle_model)))]
mod tests {
    use super::*;
    use crate::Mutex;
    use raddle_sync::thread;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn locks_stay_right_while_the_process_changes_its_ways() {
        const ROUNDS: usize = if cfg!(miri) { 10 } else { 30_000 };
        let mutexes: Arc<[Mutex<u64>; 2]> = Arc::default();
        let done = Arc::new(AtomicBool::new(false));
        let threads: Vec<_> = (0..4)
            .map(|n| {
                let mutexes = Arc::clone(&mutexes);
                thread::spawn(move || {
                    for round in 0..ROUNDS {
                        let mut count = mutexes[(n + round) % 2].lock();
                        *count += 1;
                        if round % 64 == 0 {
                            thread::yield_now(); // so that others come to sleep
                        }
                    }
                })
            })
            .collect();
        let changer = {
            let done = Arc::clone(&done);
            thread::spawn(move || {
                // Without the barrier there is one way only.
                while fence::init() {
                    leave();
                    thread::yield_now();
                    rejoin();
                    thread::yield_now();
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                }
            })
        };
        for thread in threads {
            thread.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
        changer.join().unwrap();
        assert_eq!(*mutexes[0].lock() + *mutexes[1].lock(), 4 * ROUNDS as u64);
        if fence::process_wide() {
            assert!(crate::stats().switches > 0);
        }
    }

    #[test]
    fn a_flag_is_counted_and_taken_back() {
        let owner = raddle_sync::strand::token();
        drop(Mutex::new(()).lock());
        let before = of(owner).flag.load(Ordering::Relaxed);
        arm_quietly(owner);
        assert_eq!(of(owner).flag.load(Ordering::Relaxed) / ONE, before / ONE + 1);
        drop(Mutex::new(()).lock());
        disarm(owner);
        assert_eq!(of(owner).flag.load(Ordering::Relaxed) / ONE, before / ONE);
    }
}
