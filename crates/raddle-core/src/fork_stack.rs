//! The fork stack: one per worker, strictly nested, stolen from its old end.
//!
//! `join` pushes a fork, runs its first half, and pops the fork again. A fork is a job on the stack of the forking function;
//! its slot holds a pointer to it. Two things make a push and a pop cheap. First, nothing holds the head: forks nest, so the
//! slot a fork uses is known from the `&Worker` at hand (which *is* the next free slot), and a slot that holds a job is below
//! the head, one that holds null is not. Second, the owner synchronises with thieves through a single word that it only
//! reads, `limit`: slots at or above it are the owner's alone.
//!
//! ```text
//!   slots:   | stolen | stolen | public | public | private | private | null | null ...
//!            ^ first           ^ tail            ^ split                ^ head (nowhere stored)
//! ```
//!
//! | word    | written by                                | read by                      |
//! |---------|-------------------------------------------|------------------------------|
//! | `limit` | owner: any value; thief: only `ATTENTION`  | owner, at every push and pop |
//! | `span`  | both, by compare-exchange: version, tail, split | both                   |
//! | a slot  | owner                                     | thieves                      |
//!
//! # How a thief gets a job
//!
//! 1. `tail < split`: one compare-exchange of `span`; no barrier, and the owner takes no notice.
//! 2. Otherwise, if `slots[tail]` holds a job, the job is private. The thief sets `limit` to `ATTENTION`
//!    ([`ForkStack::request`]); at its next push or pop the owner sees it and makes the older half of its jobs public.
//! 3. No answer, because the owner is in a long leaf: [`ForkStack::escalate`] runs the heavy fence and publishes in its stead.
//!
//! # Invariants
//!
//! - **I1** Owner: `limit >= address(split)` whenever the owner is outside its slow paths, or an escalation in flight has
//!   stored `ATTENTION` (which is above every address).
//! - **I2** Every slow path of the owner ends with a successful compare-exchange of `span` that changes its version, *after*
//!   it stored `limit`. So a thief that read `span` before it cannot change `span` after it.
//! - **I3** Slots in `[tail, split)` change only through `span`: the owner, who may write null into one before it knows whose
//!   the job is, takes the job only by I2. A thief reads the job *before* its compare-exchange, so success means that it read
//!   the job that belongs to this version.
//! - **I4** Dekker: the owner stores a slot, *light fence*, loads `limit`. A thief stores `ATTENTION`, *heavy fence*, loads
//!   slots. Either the thief sees the owner's store, or the owner sees `ATTENTION` and takes a slow path (whose
//!   compare-exchange makes the thief's fail, by I2).
//! - **I5** The job at a slot that was stolen stays where it is until `done` of that slot is set: the owner does not return
//!   from the fork before.
//! - **I6** Thieves take the oldest job first, so if a slot is stolen then so is all below it.
//!
//! Escalation is sound by I2 and I4: read `span`; store `ATTENTION`; heavy fence; read the slots from `tail` up. Owner's
//! operations before the fence are visible in the slots. Each operation after it sees `ATTENTION`, enters a slow path and
//! changes the version. So if the compare-exchange of the thief succeeds, the slots it saw filled are still filled, and every
//! later pop of them goes through `span`.
//!
//! While every fork is recorded or *loaded*, the owner adds a bit to all limits that it stores. The bit makes them greater
//! than any address, so that each push and pop takes its slow path, which looks at the limit without the bit
//! ([`ForkStack::must_settle`]).
//!
//! - **I7** A fork is loaded with what follows it (`local::follow`) after its push and before a thief can have it. `loaded` says
//!   up to which slot forks are: the owner raises it after loading one, and lowers it before the slot is used again. The split is
//!   never beyond it; an escalation, which reads it after its heavy fence, is right about it as it is about slots (I4).
//!
//! Where light fences do not suffice (`fence::process_wide()` is false), `limit` stays at `ATTENTION`, so that every push
//! publishes its job and every pop asks `span`: a plain deque with a compare-exchange at both ends, and no step 3.
//!
//! The asymmetric split is Lace's (van Dijk and van de Pol, 2014), the request word is also Lace's `movesplit`; that thieves
//! answer for a silent owner by a process-wide barrier follows the idea of Acar, Charguéraud and Rainey's and of asymmetric
//! Chase-Lev deques.

mod loads;
mod slot;
mod span;

use raddle_sync::atomic::{self, AtomicBool, AtomicU64, AtomicUsize, Ordering};
use raddle_sync::fence;
use raddle_sync::padded::CachePadded;

pub(crate) use self::slot::{DONE, PENDING, SLEEPING, Slot, Thief};
use self::span::{INDEX_BITS, Span};
use crate::job::ForkHeader;

/// Value of `limit` that asks the owner to look at `span` at its next push or pop.
const ATTENTION: usize = usize::MAX;
/// Bit of `limit` that sends every push and pop down the slow path, to be recorded or loaded; no address has it.
const SLOW: usize = 1 << (usize::BITS - 1);
/// The most slots that a fork stack may have.
pub(crate) const MAX_SLOTS: usize = 1 << INDEX_BITS;
/// How many private jobs an escalating thief looks at, at most.
const ESCALATION_SCAN: usize = 64;

/// What a thief found.
#[derive(Debug)]
pub(crate) enum Steal {
    /// A job, from the slot of this index.
    Job(*mut ForkHeader, usize),
    /// Lost a race; there may be more.
    Retry,
    /// The oldest job is private: request or escalate.
    Private,
    /// No job.
    Empty,
}

/// Whose a fork is after its first half has run.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Popped {
    /// The owner's, to be run in place.
    Owned,
    /// A thief's: wait for `done`.
    Stolen,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct ForkStack {
    limit: CachePadded<AtomicUsize>,
    span: CachePadded<AtomicU64>,
    /// Held by the one thief that escalates.
    escalating: AtomicBool,
    /// No process-wide fence: everything is public at all times.
    portable: bool,
    /// What the owner adds to limits while forks are recorded: 0 or [`SLOW`].
    recorded: AtomicUsize,
    /// What the owner adds to limits once forks are loaded: 0 or [`SLOW`]. The owner's own.
    followed: AtomicUsize,
    /// Thieves may have forks below this slot (I7); written by the owner.
    loaded: AtomicUsize,
    slots: *const Slot,
    len: usize,
}

// SAFETY: slots are atomics only, in memory that outlives the stack (contract of `new`).
unsafe impl Send for ForkStack {}
// SAFETY: as above.
unsafe impl Sync for ForkStack {}

impl ForkStack {
    /// A stack over `len` slots at `slots`, of which those below `first` are never used.
    ///
    /// # Safety
    ///
    /// The slots must outlive the stack and all its users, and be null now.
    pub(crate) unsafe fn new(slots: *const Slot, len: usize, first: usize) -> ForkStack {
        assert!(len <= MAX_SLOTS && first < len);
        ForkStack {
            // Until the first push, whose slow path sets it.
            limit: CachePadded::new(AtomicUsize::new(ATTENTION)),
            span: CachePadded::new(AtomicU64::new(
                Span { version: 0, tail: first, split: first }.pack(),
            )),
            escalating: AtomicBool::new(false),
            portable: !fence::process_wide(),
            recorded: AtomicUsize::new(0),
            followed: AtomicUsize::new(0),
            loaded: AtomicUsize::new(usize::MAX),
            slots,
            len,
        }
    }

    /// As where there is no process-wide fence; before the first push.
    #[cfg(raddle_model)]
    pub(crate) fn make_portable(&mut self) {
        self.portable = true;
    }

    /// The owner's fence.
    #[inline(always)]
    fn light(&self) {
        // In models it is a full one, which it must not be where there is no process-wide fence.
        if !(cfg!(raddle_model) && self.portable) {
            fence::light();
        }
    }

    #[inline]
    fn address(&self, index: usize) -> usize {
        self.slots as usize + index * size_of::<Slot>()
    }

    #[inline]
    pub(crate) fn index_of(&self, slot: &Slot) -> usize {
        (slot as *const Slot as usize - self.slots as usize) / size_of::<Slot>()
    }

    pub(crate) fn slot(&self, index: usize) -> &Slot {
        assert!(index < self.len);
        // SAFETY: in bounds of the slots, which outlive `self` (contract of `new`).
        let slot = unsafe { self.slots.add(index) };
        // SAFETY: valid by the same contract; slots are only ever shared.
        unsafe { &*slot }
    }

    fn span(&self) -> Span {
        // ORD: Acquire pairs with the Release of every compare-exchange of `span`, so that slots
        // stored before a publication are seen after it.
        Span::unpack(self.span.load(Ordering::Acquire))
    }

    fn exchange(&self, from: Span, to: Span) -> bool {
        // ORD: AcqRel pairs with itself and with `span()`: a publication shows the jobs, a steal
        // or a take-back shows what was before it.
        self.span
            .compare_exchange(from.pack(), to.pack(), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    // --- owner ---

    /// Puts a fork in `slot`, the first free one. True: call [`ForkStack::publish`] now.
    #[inline(always)]
    #[must_use]
    pub(crate) fn push(&self, slot: &Slot, job: *mut ForkHeader) -> bool {
        // ORD: Release pairs with the Acquire loads of slots by thieves: the job is complete.
        slot.job.store(job, Ordering::Release);
        self.light(); // I4
        // ORD: I4; a stale value means that the thief will see the store above.
        self.limit.load(Ordering::Relaxed) > slot as *const Slot as usize
    }

    /// Takes the fork out of `slot`, the last taken one. False: call [`ForkStack::pop_slow`].
    #[inline(always)]
    #[must_use]
    pub(crate) fn pop(&self, slot: &Slot) -> bool {
        // ORD: no data follows from null; the fence orders it before the load (I4).
        slot.job.store(std::ptr::null_mut(), Ordering::Relaxed);
        self.light(); // I4
        // ORD: I4; a stale value means that no thief has made this slot public.
        self.limit.load(Ordering::Relaxed) <= slot as *const Slot as usize
    }

    /// After a push of `slot` that asked for it: makes the older half of all jobs public, and so `many` if there are as many.
    #[cold]
    pub(crate) fn publish(&self, slot: &Slot, many: usize) {
        self.share_below(self.index_of(slot) + 1, many);
    }

    fn share_below(&self, head: usize, many: usize) {
        self.settle(|span| (span.tail, self.share(span, span.split, head, many)));
    }

    /// After a pop that was not fast: settles whose the job of `slot` is, and shares the older half
    /// of what is left, and so `many` if there are as many, if any are `wanted`.
    #[cold]
    pub(crate) fn pop_slow(&self, slot: &Slot, wanted: Option<usize>) -> Popped {
        let at = self.index_of(slot);
        self.unload(slot);
        let mut popped = Popped::Stolen;
        self.settle(|span| {
            if at < span.tail {
                popped = Popped::Stolen;
                return (span.tail, span.split);
            }
            popped = Popped::Owned;
            let split = span.split.min(at);
            (span.tail, wanted.map_or(split, |many| self.share(span, split, at, many)))
        });
        popped
    }

    /// After the stolen fork of `slot` is done: the slot is free again.
    pub(crate) fn reset(&self, slot: &Slot) {
        let at = self.index_of(slot);
        // ORD: the owner's own words; the compare-exchange below publishes them.
        slot.done.store(PENDING, Ordering::Relaxed);
        slot.thief.store(0, Ordering::Relaxed);
        slot.job.store(std::ptr::null_mut(), Ordering::Relaxed);
        self.unload(slot);
        self.settle(|span| {
            // I6, unless a worker was smuggled below frames that still fork.
            assert!(span.tail == at + 1, "nothing above a stolen fork is left");
            (at, at)
        });
    }

    /// Makes all jobs below the first free slot, `head`, public: the owner waits, and may be the only one to run them.
    pub(crate) fn open(&self, head: &Slot) {
        let head = self.index_of(head);
        // It is below `tail` if a worker was smuggled below frames that still fork.
        self.settle(|span| (span.tail, head.max(span.tail)));
    }

    /// With no fork on the stack: lowers the limit, if it is raised. What that may overwrite is for the caller to ask for
    /// again (S3 of `places`).
    pub(crate) fn relax(&self) {
        // ORD: a hint; a raise that comes later stays.
        if self.limit.load(Ordering::Relaxed) == ATTENTION {
            self.settle(|span| (span.tail, span.split));
        }
    }

    /// What the owner adds to limits now.
    fn slow(&self) -> usize {
        // ORD: a hint, until the owner's next slow path; and the owner's own.
        self.recorded.load(Ordering::Relaxed) | self.followed.load(Ordering::Relaxed)
    }

    /// The owner's way to change `span`: first `limit`, then a new version (I1, I2). The new tail.
    fn settle(&self, mut to: impl FnMut(Span) -> (usize, usize)) -> usize {
        loop {
            let span = self.span();
            let (tail, split) = to(span);
            // ORD: the owner's own. I7: it may block while it loads a fork.
            let split = split.min(self.loaded.load(Ordering::Relaxed).max(tail));
            let limit = if self.portable { ATTENTION } else { self.address(split) | self.slow() };
            // ORD: the owner reads it back in program order; for thieves the compare-exchange that follows orders it (I2).
            self.limit.store(limit, Ordering::Relaxed);
            if self.exchange(span, Span { version: span.version.wrapping_add(1), tail, split }) {
                return tail;
            }
        }
    }

    /// The split that makes the older half of the jobs below `head` public, or so `many`, and not less than
    /// `split` already does.
    fn share(&self, span: Span, split: usize, head: usize, many: usize) -> usize {
        if self.portable {
            head
        } else {
            // `head` is below `tail` if a worker was smuggled below frames that still fork: then nothing is shared, and the
            // join finds out when it pops.
            let private = head.saturating_sub(span.tail);
            split.max(span.tail + private.div_ceil(2).max(many.min(private)))
        }
    }

    /// Whether a push or pop of `slot` that took its slow path has more to do there than to be recorded or loaded: then
    /// [`ForkStack::publish`] or [`ForkStack::pop_slow`]. (This looks at `limit` later than the push or pop did,
    /// which only sees more of what thieves have stored.)
    pub(crate) fn must_settle(&self, slot: &Slot) -> bool {
        // ORD: as in `push` and `pop` (I4).
        let limit = self.limit.load(Ordering::Relaxed);
        let switched = limit & SLOW != self.slow();
        limit == ATTENTION || switched || limit & !SLOW > slot as *const Slot as usize
    }

    /// From the owner's next slow path on, every push and pop takes its slow path, or no longer does.
    pub(crate) fn set_recorded(&self, recorded: bool) {
        // ORD: a hint to the owner.
        self.recorded.store(if recorded { SLOW } else { 0 }, Ordering::Relaxed);
    }

    /// Whether a thief has asked the owner for forks, and has had no answer.
    pub(crate) fn is_asked(&self) -> bool {
        // ORD: as in `push` and `pop` (I4).
        self.limit.load(Ordering::Relaxed) == ATTENTION
    }

    /// The owner answers between a push and a pop, as [`publish`](ForkStack::publish) does. `head` is the first free slot.
    pub(crate) fn answer(&self, head: &Slot, many: usize) {
        self.share_below(self.index_of(head), many);
    }

    /// How many forks lie below the first free slot, `head`.
    pub(crate) fn len_below(&self, head: &Slot) -> usize {
        self.index_of(head).saturating_sub(self.span().tail)
    }

    /// How many jobs are public, as far as the owner can see.
    pub(crate) fn public(&self) -> usize {
        let span = self.span();
        span.split - span.tail
    }

    /// Whether some job is.
    pub(crate) fn has_public(&self) -> bool {
        self.public() > 0
    }

    // --- thief ---

    /// Takes the oldest public job.
    #[cfg(raddle_model)]
    pub(crate) fn steal(&self) -> Steal {
        self.steal_above(0, || true)
    }

    /// Takes the oldest public job if it lies at or above `floor`, and is `still` one of those that are wanted: asked after the
    /// job was seen, so what its owner had stored before it pushed the job is seen as well; and if the job comes later, or goes,
    /// then so does the version (I2).
    pub(crate) fn steal_above(&self, floor: usize, still: impl Fn() -> bool) -> Steal {
        let span = self.span();
        if span.tail < floor {
            return Steal::Empty;
        }
        // ORD: Acquire pairs with the Release in `push`.
        let job = self.slot(span.tail).job.load(Ordering::Acquire);
        if span.tail == span.split {
            return if job.is_null() { Steal::Empty } else { Steal::Private };
        }
        if !still() {
            return Steal::Empty;
        }
        // Null: the owner is popping this very job (I3).
        if job.is_null() || !self.exchange(span, Span { tail: span.tail + 1, ..span }) {
            return Steal::Retry;
        }
        Steal::Job(job, span.tail)
    }

    /// Whether a job lies here, public or private; exact after a heavy fence (I4).
    pub(crate) fn has_work(&self) -> bool {
        // ORD: a hint, or ordered by the caller's heavy fence.
        !self.slot(self.span().tail).job.load(Ordering::Relaxed).is_null()
    }

    /// Where the oldest job lies, if there is one: a hint.
    pub(crate) fn oldest(&self) -> Option<usize> {
        self.has_work().then(|| self.span().tail)
    }

    /// Whether the oldest job comes after the task at this `position` of the owner's ring, which ends at `end` ([`Slot::date`]).
    pub(crate) fn comes_after(&self, position: usize, end: usize) -> bool {
        self.slot(self.span().tail).comes_after(position, end)
    }

    /// Whether a job lies here that thieves can come by: not if the owner is about to load it (I7). A hint.
    pub(crate) fn is_to_be_had(&self) -> bool {
        // ORD: a hint.
        self.has_work() && self.span().tail < self.loaded.load(Ordering::Relaxed)
    }

    /// As [`ForkStack::has_work`], of jobs at or above `floor`.
    pub(crate) fn has_work_above(&self, floor: usize) -> bool {
        self.span().tail >= floor && self.has_work()
    }

    /// Asks the owner to share at its next push or pop.
    pub(crate) fn request(&self) {
        // ORD: I4 where the caller follows with a heavy fence, otherwise only a hint.
        self.limit.store(ATTENTION, Ordering::Relaxed);
    }

    /// Whoever is about to sleep until the owner has done something asks to be told of what it forks (W1 in `pool::wait`).
    /// True: there is a job at or above `floor` already.
    pub(crate) fn watch(&self, floor: usize) -> bool {
        // What says that it sleeps comes before.
        atomic::fence(Ordering::SeqCst);
        self.request();
        fence::heavy();
        self.has_work_above(floor)
    }

    /// Makes the private jobs public without the owner, all of them: it is busy for long, and the
    /// fence is dear. False: somebody else is at it, or the owner moved, or there is nothing.
    pub(crate) fn escalate(&self) -> bool {
        // ORD: Acquire/Release only so that one escalation follows another.
        if self.portable || self.escalating.swap(true, Ordering::Acquire) {
            return false;
        }
        let published = self.escalate_alone();
        self.escalating.store(false, Ordering::Release);
        published
    }

    /// Whether somebody makes the private jobs public just now: a hint.
    pub(crate) fn is_escalating(&self) -> bool {
        self.escalating.load(Ordering::Relaxed)
    }

    fn escalate_alone(&self) -> bool {
        let span = self.span();
        if span.tail < span.split {
            return true;
        }
        self.request();
        fence::heavy(); // I4
        // ORD: Acquire pairs with the Release in `load`.
        let loaded = self.loaded.load(Ordering::Acquire); // I7
        let private = (span.tail..self.len.min(loaded))
            .take(ESCALATION_SCAN)
            // ORD: I4; the job itself is read by the thief that takes it.
            .take_while(|&i| !self.slot(i).job.load(Ordering::Relaxed).is_null())
            .count();
        let split = span.tail + private;
        private > 0 && self.exchange(span, Span { split, ..span })
    }
}
