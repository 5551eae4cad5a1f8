//! The memory of one worker: its header and, behind it, the slots of its fork stack.
//!
//! A worker memory is aligned to its size, so that the header is found from the address of any slot by a
//! mask. That is what makes `&Worker` (a reference to a slot) all that a join needs: the next free
//! slot and the way to everything else are in one register.
//!
//! # Invariants
//!
//! - **R1** A worker memory is [`SIZE`] bytes, aligned to `SIZE`, starts with a [`WorkerMemory`], and lives as long
//!   as its pool.
//! - **R2** Fields of [`Owned`] are used only by the thread that runs as this worker.
//! - **R3** Beyond the head all slots are null: fresh memory is zero, and pops put null back.

mod map;

use std::cell::{Cell, RefCell};
use std::io;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::time::Duration;

use raddle_sync::affinity::WakeAffinity;
use raddle_sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use raddle_sync::parker::{Parker, ParkerLease};
use raddle_sync::sync::Mutex;

use crate::balance::Entries;
use crate::count::Purse;
use crate::fork_stack::{ForkStack, MAX_SLOTS, Slot};
use crate::local::{ForkCaptures, Restore};
use crate::mail::Mail;
use crate::pool::mailbox::Mailbox;
use crate::pool::nap::{Looked, Rest};
use crate::pool::recorder::Lane;
use crate::pool::registry::Registry;
use crate::pool::run_work::Serving;
use crate::pool::turns::Turns;
use crate::pool::vain::Vain;
use crate::pool::wait::Looks;
use crate::pool::worker::Worker;
use crate::pool::yields::{Poller, Yields};
use crate::queue::Ring;
use crate::spawn::running::List;

/// Bytes of a worker memory: address space, of which only the pages in use are memory.
pub(crate) const SIZE: usize = MAX_SLOTS * size_of::<Slot>();
// The mask by which a slot's address leads to the header, and 64-bit words in `span`.
const _: () = assert!(SIZE.is_power_of_two());
/// The first slots lie under the header and are never used.
const FIRST: usize = size_of::<WorkerMemory>().div_ceil(size_of::<Slot>());

/// What only the worker's own thread touches (R2).
#[derive(Debug)]
pub(crate) struct Owned {
    /// The context word of the running code: see `local`.
    pub(crate) context: Cell<usize>,
    /// What the forks took along besides their context, if something follows tasks.
    pub(crate) captures: RefCell<ForkCaptures>,
    /// The worker that this thread was before it became this one.
    pub(crate) outer: Cell<*const WorkerMemory>,
    /// The stolen fork that runs here, innermost.
    pub(crate) serving: Cell<*const Serving>,
    /// The thread is this worker as long as it lives, and works only while it waits: see `seat`.
    pub(crate) for_good: Cell<bool>,
    /// The thread was started when the pool had ended.
    pub(crate) late: Cell<bool>,
    /// Whether the thread holds a place of the pool: see `places`.
    pub(crate) hold: Cell<Hold>,
    /// The number of the place it holds, once it was asked for.
    pub(crate) number: Cell<Option<usize>>,
    /// For whoever can only take on what may wait for what lies beneath.
    pub(crate) looks: Looks,
    /// A wait that may take on anything: it has set its bit among the hosts.
    pub(crate) hosts: Cell<bool>,
    /// What the thread is about to wait for comes of a task: it has looked, and found one.
    pub(crate) wants_task: Cell<bool>,
    /// What it has run while it waited.
    pub(crate) turns: Turns,
    /// Its naps in favour of others.
    pub(crate) yields: Yields,
    /// What the worker has in hand of a scope's count.
    pub(crate) purse: Purse,
    /// The worker blocks in a wait of the pool's own, which records that itself.
    pub(crate) apart: Cell<bool>,
    /// While it waited without room for more on its stack, nothing of the pool's has ended.
    pub(crate) stuck: Cell<bool>,
    /// For how long it has waited with so little stack that it took on nothing.
    pub(crate) cramped: Cell<Duration>,
    /// At how many looks in a row the thief that it waits for had not signed.
    pub(crate) unsigned: Cell<u32>,
    /// For how long it has waited with a time limit, and nobody came.
    pub(crate) vain: Vain,
    /// So many bytes of stack are to be left before a wait takes on anything.
    pub(crate) room: Cell<usize>,
    /// Tasks that were run out of turn, and whose entries may still lie in the ring.
    pub(crate) husks: Cell<usize>,
    /// How many have been cleared: by so much the ring's positions are less than they would be.
    pub(crate) cleared: Cell<usize>,
    /// State of the generator that picks victims.
    pub(crate) random: Cell<u64>,
    /// Counts turns of the search, for a look at the injector out of turn.
    pub(crate) tick: Cell<u32>,
    /// The last search ended in sleep: the next one gives up sooner.
    pub(crate) fruitless: Cell<bool>,
    /// So many searches have ended in sleep since one found something later than it would have taken to wake the worker.
    pub(crate) bets_lost: Cell<u32>,
    /// What it has come for of late, so that it rests before it comes again.
    pub(crate) rest: Rest,
    /// When it has looked for all threads of late.
    pub(crate) looked: Looked,
    /// How it comes to open its mail.
    pub(crate) mailbox: Mailbox,
    /// With so many of its next forks it has one more woken each: `Policy::spreads`.
    pub(crate) spreads: Cell<usize>,
    /// So many times in a row it has napped until it was quiet for long, or a task came, and no guest.
    pub(crate) napped_in_vain: Cell<u32>,
    /// Task ids in hand: next and end.
    pub(crate) ids: Cell<(u64, u64)>,
    /// A fork was popped to be recorded: its second half is run out of line.
    pub(crate) recorded_pop: Cell<bool>,
}

/// A thread's hold on a place of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// It is idle, or no thread is here.
    None,
    /// It works.
    Place,
    /// It has given its place away until it is no longer blocked.
    Given,
    /// It has given its place away until a call of `blocking` is over: the how manieth of those it is within.
    Away(u32),
    /// It waited, and was given a place to take something on: it counts as a searcher.
    Claimed,
}

/// The header of a worker memory.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct WorkerMemory {
    pub(crate) fork: ForkStack,
    pub(crate) owned: Owned,
    pub(crate) index: usize,
    pub(crate) registry: *const Registry,
    pub(crate) ring: Ring,
    /// The tasks that run on this worker, innermost first.
    pub(crate) running: List,
    /// Whether the worker sleeps with a stolen fork on its stack, for which another thread waits: a hint.
    pub(crate) serves: AtomicBool,
    /// What it sleeps for: see `relief`.
    pub(crate) sleeps_for: AtomicU8,
    /// What it has queued, and seen to.
    pub(crate) entries: Entries,
    /// Stolen forks that it has run.
    pub(crate) ended_forks: AtomicUsize,
    /// Tasks for this very thread.
    pub(crate) mail: Mail,
    /// When this worker was last sent a token, in nanoseconds of the pool's clock; 0: not under way.
    pub(crate) roused_at: AtomicU64,
    /// Whether it yields again and again.
    pub(crate) poller: Poller,
    /// While it has given its place away: one of these is what it sleeps on.
    sleeps_on: [AtomicPtr<Parker>; 2],
    /// Wakes a thread of the pool off the waker's processor.
    pub(crate) affinity: WakeAffinity,
    /// Where this worker's events are recorded.
    pub(crate) lane: Lane,
    parker: ParkerLease,
}

// SAFETY: what is shared is atomic; the rest is in `Owned` (R2).
unsafe impl Sync for WorkerMemory {}
// SAFETY: as above.
unsafe impl Send for WorkerMemory {}

impl WorkerMemory {
    pub(crate) fn parker(&self) -> &'static Parker {
        self.parker.get()
    }

    /// The next number of its generator.
    pub(crate) fn random(&self) -> u64 {
        // Xorshift: Marsaglia, 2003.
        let mut x = self.owned.random.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.owned.random.set(x);
        x
    }

    /// The thread has given its place away, and sleeps on one of these.
    pub(crate) fn note_sleep(&self, parkers: [&'static Parker; 2]) {
        self.affinity.note_away();
        for (place, parker) in self.sleeps_on.iter().zip(parkers) {
            // ORD: Release pairs with the Acquire in `wakes_up`: by then it is parked.
            place.store(std::ptr::from_ref(parker).cast_mut(), Ordering::Release);
        }
    }

    /// It has a place again, or goes on without.
    pub(crate) fn note_awake(&self) {
        self.affinity.note_here();
        // ORD: a hint, once its place is counted.
        self.sleeps_on
            .iter()
            .for_each(|place| place.store(std::ptr::null_mut(), Ordering::Release));
    }

    /// Whether the thread has been woken and has no place yet: a hint.
    pub(crate) fn wakes_up(&self) -> bool {
        let mut parkers = self.sleeps_on.iter().filter_map(|place| {
            // SAFETY: null, or of those that are never freed. ORD: see `sleeps_on`.
            unsafe { place.load(Ordering::Acquire).as_ref() }
        });
        let first = parkers.next();
        first.is_some_and(|first| !first.is_parked() && !parkers.any(Parker::is_parked))
    }

    pub(crate) fn registry(&self) -> &Registry {
        // SAFETY: the pool outlives whoever uses its worker memories (R1).
        unsafe { &*self.registry }
    }

    /// Whether the thread works, and not without a place, as within `blocking`.
    pub(crate) fn holds_place(&self) -> bool {
        self.owned.hold.get() == Hold::Place
    }

    pub(crate) fn purse(&self) -> &Purse {
        &self.owned.purse
    }

    /// As [`Restore::after`], by the thread that is this worker, and has entered it last.
    ///
    /// # Safety
    ///
    /// As there.
    #[inline]
    pub(crate) unsafe fn restore_after(&self, context: usize) -> Restore {
        // SAFETY: contract.
        unsafe { Restore::within(&self.owned.context, context) }
    }

    /// The bottom of the fork stack, as a worker that has forked nothing.
    pub(crate) fn base(&self) -> &Worker {
        Worker::from_slot(self.fork.slot(FIRST))
    }
}

/// Owns a worker memory.
#[derive(Debug)]
pub(crate) struct OwnedMemory(NonNull<WorkerMemory>);

// SAFETY: `WorkerMemory` is `Send` and `Sync`.
unsafe impl Send for OwnedMemory {}
// SAFETY: as above.
unsafe impl Sync for OwnedMemory {}

impl std::ops::Deref for OwnedMemory {
    type Target = WorkerMemory;

    fn deref(&self) -> &WorkerMemory {
        // SAFETY: R1.
        unsafe { self.0.as_ref() }
    }
}

impl OwnedMemory {
    pub(crate) fn new(index: usize, registry: *const Registry) -> io::Result<OwnedMemory> {
        let base = map::zeroed()?;
        // Workers get from a slot's address back to the header: see `Worker::memory`.
        let _ = base.as_ptr().expose_provenance();
        #[cfg(raddle_shuttle)]
        for index in FIRST..MAX_SLOTS {
            // SAFETY: fresh memory, above the header.
            unsafe { base.cast::<Slot>().add(index).write(Slot::new()) };
        }
        // SAFETY: the slots are zeroed, which is null, and live as long as the memory (R1, R3).
        let fork = unsafe { ForkStack::new(base.as_ptr().cast(), MAX_SLOTS, FIRST) };
        let memory = WorkerMemory {
            fork,
            owned: Owned {
                context: Cell::new(0),
                captures: RefCell::default(),
                outer: Cell::new(std::ptr::null()),
                serving: Cell::new(std::ptr::null()),
                for_good: Cell::new(false),
                late: Cell::new(false),
                hold: Cell::new(Hold::None),
                number: Cell::new(None),
                looks: Looks::default(),
                turns: Turns::default(),
                yields: Yields::default(),
                hosts: Cell::new(false),
                wants_task: Cell::new(false),
                purse: Purse::new(),
                apart: Cell::new(false),
                stuck: Cell::new(false),
                cramped: Cell::new(Duration::ZERO),
                unsigned: Cell::new(0),
                vain: Vain::default(),
                room: Cell::new(0),
                husks: Cell::new(0),
                cleared: Cell::new(0),
                random: Cell::new(0x9e37_79b9_7f4a_7c15 ^ ((index as u64 + 1) << 17)),
                tick: Cell::new(0),
                fruitless: Cell::new(false),
                bets_lost: Cell::new(0),
                spreads: Cell::new(0),
                napped_in_vain: Cell::new(0),
                rest: Rest::default(),
                mailbox: Mailbox::default(),
                looked: Looked::default(),
                ids: Cell::new((0, 0)),
                recorded_pop: Cell::new(false),
            },
            index,
            registry,
            ring: Ring::new(),
            running: List::new(),
            serves: AtomicBool::new(false),
            sleeps_for: AtomicU8::new(0),
            entries: Entries::new(),
            ended_forks: AtomicUsize::new(0),
            mail: Mail::new(),
            roused_at: AtomicU64::new(0),
            poller: Poller::default(),
            affinity: WakeAffinity::new(),
            lane: Lane::new(),
            sleeps_on: [const { AtomicPtr::new(std::ptr::null_mut()) }; 2],
            parker: Parker::lease(),
        };
        let header = base.cast::<WorkerMemory>();
        // SAFETY: fresh memory, large and aligned enough (R1).
        unsafe { header.write(memory) };
        Ok(OwnedMemory(header))
    }
}

impl Drop for OwnedMemory {
    fn drop(&mut self) {
        // SAFETY: written in `new`, dropped once.
        unsafe { self.0.drop_in_place() };
        #[cfg(raddle_shuttle)]
        for index in FIRST..MAX_SLOTS {
            // SAFETY: written in `new`.
            unsafe { self.0.cast::<Slot>().add(index).drop_in_place() };
        }
        // SAFETY: mapped in `new`, and nobody uses it any more (R1).
        unsafe { map::give_back(self.0.cast()) };
    }
}

/// The workers' memory of a pool, each made when it is first needed.
#[derive(Debug)]
pub(crate) struct WorkerMemories {
    boxes: Box<[OnceLock<OwnedMemory>]>,
    /// All that have been made lie below.
    end: AtomicUsize,
    making: Mutex<()>,
}

impl WorkerMemories {
    pub(crate) fn new(most: usize) -> WorkerMemories {
        WorkerMemories {
            boxes: (0..most).map(|_| OnceLock::new()).collect(),
            end: AtomicUsize::new(0),
            making: Mutex::new(()),
        }
    }

    /// Makes the memory of this worker if it is not there.
    #[cfg_attr(target_os = "linux", unsafe(link_section = "raddle_enter"))]
    pub(crate) fn make(
        &self,
        index: usize,
        registry: *const Registry,
    ) -> io::Result<&WorkerMemory> {
        if let Some(memory) = self.boxes[index].get() {
            return Ok(memory);
        }
        let _guard = self.making.lock();
        if self.boxes[index].get().is_none() {
            let memory = OwnedMemory::new(index, registry)?;
            let _ = self.boxes[index].set(memory);
            // ORD: Release pairs with the Acquire in `end`.
            self.end.fetch_max(index + 1, Ordering::Release);
        }
        Ok(&self[index])
    }

    pub(crate) fn get(&self, index: usize) -> Option<&WorkerMemory> {
        self.boxes[index].get().map(|memory| &**memory)
    }

    /// All that have been made have indices below.
    pub(crate) fn end(&self) -> usize {
        // ORD: Acquire pairs with the Release in `make`.
        self.end.load(Ordering::Acquire)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &WorkerMemory> {
        (0..self.end()).filter_map(|index| self.get(index))
    }
}

impl std::ops::Index<usize> for WorkerMemories {
    type Output = WorkerMemory;

    fn index(&self, index: usize) -> &WorkerMemory {
        self.get(index).expect("the memory of a worker that was named")
    }
}
