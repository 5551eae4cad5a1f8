//! What all workers of a pool share.
//!
//! # Invariants
//!
//! - **P1** `Registry` outlives every thread of the pool and every guest: threads hold an `Arc` of it,
//!   and the pool's drop waits for guests.
//! - **P2** A thread leaves the pool only after it took its own bit out of `parked`, and is started only by
//!   whoever took the bit out of `vacant`, which the thread sets when it is through with its memory. So a worker that was claimed
//!   is either woken or started anew, and no memory has two threads.

use raddle_sync::thread;
use raddle_sync::time::Instant;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use raddle_sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use raddle_sync::sync::Mutex;
use raddle_trace::TraceLevel;

use crate::balance::End;
use crate::local;
use crate::places::{Bits, Places};
use crate::pool::builder::{ThreadHooks, Waits};
use crate::pool::gate::GateHandle;
use crate::pool::policy::{Policy, TYPICAL_WAKE};
use crate::pool::recorder::{Recorder, Settings};
use crate::pool::relief::Relief;
use crate::pool::seat::SeatHooks;
use crate::pool::stats::Stats;
use crate::pool::worker_memory::{Hold, WorkerMemories, WorkerMemory};
use crate::queue::{Injector, Tag, Task};
use crate::spawn::hooks::Hooks;

/// What a builder decided.
pub(crate) struct Config {
    pub(crate) threads: usize,
    pub(crate) names: Vec<String>,
    /// How spare threads are called, and by how many names.
    pub(crate) spare_names: Vec<String>,
    pub(crate) stack_size: Option<usize>,
    pub(crate) keep_alive: Duration,
    /// How long an idle thread searches before it sleeps; none: as `policy` says.
    pub(crate) spin_for: Option<Duration>,
    pub(crate) waits: Waits,
    /// How many threads there may be in the stead of those that wait.
    pub(crate) spares: usize,
    /// That number was asked for.
    pub(crate) spares_asked: bool,
    pub(crate) hooks: Hooks,
    pub(crate) thread_hooks: ThreadHooks,
    /// The threads come from elsewhere.
    pub(crate) seats: Option<SeatHooks>,
    pub(crate) trace: Settings,
    pub(crate) policy: Policy,
}

/// What the thread that wakes another does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waker {
    /// It goes on working: the other is better woken on another processor.
    Busy,
    /// It leaves, or sleeps: its processor may soon be the one that is free.
    Idle,
}

/// See the module.
pub(crate) struct Registry {
    /// For threads that are started later.
    me: Weak<Registry>,
    pub(crate) config: Config,
    pub(crate) places: Places,
    /// A bit for each place whose number nobody has.
    numbers: Bits,
    pub(crate) injector: Injector,
    /// Held while letters are sent to all threads.
    pub(super) letters: Mutex<()>,
    /// Calls from outside that are in the injector: later guests wait behind them.
    pub(crate) calls: AtomicUsize,
    /// Guests that work (those that wait have given their places away), and in the upper half those that have come so far.
    pub(crate) guests: AtomicUsize,
    /// Threads that nap for a turn, to let others work.
    pub(crate) yielding: AtomicUsize,
    /// Where the last guest was when it came.
    guest_processor: AtomicUsize,
    pub(crate) gate: GateHandle,
    pub(crate) recorder: Recorder,
    pub(crate) stats: Stats,
    /// Threads first, then guests, then spare threads.
    pub(crate) memories: WorkerMemories,
    /// Of threads that have been started, to be waited for at the end.
    pub(super) handles: Mutex<Vec<thread::JoinHandle<()>>>,
    pub(super) refusal: Refusal,
    pub(crate) relief: Relief,
    /// Threads that hold places and wait with limits: see `vain`.
    pub(crate) limited: AtomicUsize,
    pub(super) end: End,
    /// More workers than processors: polling another worker is of no use.
    pub(crate) oversubscribed: bool,
    pub(super) processors: usize,
    /// Light fences suffice: see `raddle_sync::fence`.
    pub(super) process_wide: bool,
    /// The pool's clock starts here.
    epoch: Instant,
    /// How long a wake takes, in nanoseconds: a moving average.
    pub(super) wake_cost: AtomicU64,
    /// Whoever naps rests.
    pub(super) resting: AtomicBool,
    /// Whoever is woken next is to look on for the others.
    pub(super) wants_lookout: AtomicBool,
    next_task_id: AtomicU64,
    /// The process that built it: see `raddle_sync::fork`.
    generation: u32,
}

/// The system has refused a thread: until when none is asked for, and how long that was, in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Refusal {
    pub(super) until: AtomicU64,
    pub(super) pause: AtomicU64,
}

/// Tasks that are moved out of a ring at a time.
const FEW: usize = 32;

/// How long no thread is asked for after the system has refused one, doubled with each refusal in a row.
pub(super) const PAUSE: (u64, u64) = (1_000_000, 1_000_000_000);
/// A guest that comes, in the count of guests.
const ONE_VISIT: usize = 1 << 32;
/// What a child of the process that built a pool is told.
pub(super) const FORKED: &str =
    "raddle: this process was forked from one that built the pool, whose threads are not here";
/// Task ids are handed to workers in blocks.
const ID_BLOCK: u64 = 1 << 12;

/// The pause after the next refusal.
pub(super) fn longer(pause: Duration) -> Duration {
    (2 * pause).min(Duration::from_nanos(PAUSE.1))
}

impl Registry {
    /// How many worker memories a pool may come to have, and where its relief begins.
    fn workers_for(config: &Config) -> (usize, usize) {
        let crew_end = config.threads + GateHandle::guests_for(config.threads) + config.spares;
        (crew_end + Relief::most(config.spares), crew_end)
    }

    /// What records a pool.
    pub(crate) fn recorder_for(config: &Config) -> io::Result<Recorder> {
        Recorder::new(config.trace.clone(), Registry::workers_for(config).0, config.threads)
    }

    pub(crate) fn new(config: Config, recorder: Recorder) -> io::Result<Arc<Registry>> {
        local::on_activation(super::heed_followers);
        #[cfg(feature = "tracing")]
        local::tracing::listen();
        let threads = config.threads;
        let guests = GateHandle::guests_for(threads);
        let (workers, crew_end) = Registry::workers_for(&config);
        // Each time: it is what this thread may run on, and others may have more.
        let processors = config.policy.processors.unwrap_or_else(raddle_sync::processors);
        let registry = Arc::new_cyclic(|me: &Weak<Registry>| Registry {
            me: me.clone(),
            places: Places::new(threads, workers),
            numbers: Bits::new(threads),
            injector: Injector::new(),
            letters: Mutex::default(),
            calls: AtomicUsize::new(0),
            guests: AtomicUsize::new(0),
            yielding: AtomicUsize::new(0),
            guest_processor: AtomicUsize::new(usize::MAX),
            gate: GateHandle::new(guests),
            recorder,
            stats: Stats::default(),
            memories: WorkerMemories::new(workers),
            handles: Mutex::default(),
            refusal: Refusal::default(),
            relief: Relief::default(),
            limited: AtomicUsize::new(0),
            end: End::new(),
            oversubscribed: threads > processors,
            processors,
            process_wide: raddle_sync::fence::process_wide(),
            epoch: Instant::now(),
            resting: AtomicBool::new(false),
            wants_lookout: AtomicBool::new(false),
            wake_cost: AtomicU64::new(TYPICAL_WAKE.as_nanos() as u64),
            next_task_id: AtomicU64::new(1),
            generation: raddle_sync::fork::generation(),
            config,
        });
        for index in 0..threads {
            registry.memories.make(index, &*registry)?;
        }
        (0..threads).for_each(|number| registry.numbers.set(number));
        // A thread that comes from elsewhere brings its place along when it comes.
        let awaited = if registry.is_seated() { threads } else { 0 };
        (0..awaited).for_each(|_| {
            registry.places.take();
        });
        let crew = (awaited..threads).chain(threads + guests..crew_end);
        crew.for_each(|worker| registry.places.vacant.set(worker));
        registry.gate.open(&registry);
        if registry.config.trace.level != TraceLevel::Off {
            registry.set_level(registry.config.trace.level);
        }
        Ok(registry)
    }

    pub(crate) fn threads(&self) -> usize {
        self.config.threads
    }

    /// Where the memory of guests begins.
    pub(crate) fn first_guest(&self) -> usize {
        self.threads()
    }

    /// Where the memory of spare threads begins.
    pub(crate) fn first_spare(&self) -> usize {
        self.first_guest() + GateHandle::guests_for(self.threads())
    }

    /// Whether this worker's memory is a guest's.
    pub(crate) fn is_guest(&self, worker: usize) -> bool {
        (self.first_guest()..self.first_spare()).contains(&worker)
    }

    /// For what may run when the pool has gone.
    pub(crate) fn weak(&self) -> Weak<Registry> {
        self.me.clone()
    }

    /// A share of the pool's memory, for somebody who works in it. None: it goes.
    pub(crate) fn handle(&self) -> Option<Arc<Registry>> {
        self.me.upgrade()
    }

    /// How many threads there are at the moment.
    pub(crate) fn present(&self) -> usize {
        self.threads() + self.config.spares + self.relief.granted() - self.places.vacant.len()
    }

    /// Whether no thread can come beyond those that are there.
    pub(crate) fn has_no_more_threads(&self) -> bool {
        self.places.vacant.len() == 0
    }

    /// As `has_no_more_threads`, or the system gives none at the moment.
    pub(crate) fn has_nobody_else(&self) -> bool {
        self.has_no_more_threads() || self.places.has_stranded()
    }

    /// Whether all threads that there can be are at something: a hint.
    pub(crate) fn has_nobody_for_more(&self) -> bool {
        self.has_nobody_else() && !self.places.has_somebody()
    }

    /// Whether so many threads wait that there may soon be none to take their places.
    pub(crate) fn is_crowded(&self) -> bool {
        let spares = self.config.spares;
        spares > 0 && self.places.vacant.len() + spares / 4 < spares + self.relief.granted()
    }

    // --- places ---

    /// A worker is about to give its place back, since it blocks, sleeps, or leaves.
    pub(crate) fn sign_off(&self, memory: &WorkerMemory) {
        self.leave_number(memory);
        if self.is_guest(memory.index) {
            self.guests.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The number of the worker's place, if it was asked for, may be another's from now on.
    pub(crate) fn leave_number(&self, memory: &WorkerMemory) {
        if let Some(number) = memory.owned.number.take() {
            self.numbers.set(number);
        }
    }

    /// Takes a place for a guest: under the gate's lock. If none is free, nor held by a searcher, then the next thread that has
    /// finished its task gives its own; but no more guests work at a time than there are places. A `helper` comes in also
    /// where no further thread is to be had: all that there are may wait for what it does.
    #[cfg_attr(target_os = "linux", unsafe(link_section = "raddle_enter"))]
    pub(crate) fn place_for_guest(&self, helper: bool) -> bool {
        self.retry();
        // ORD: guests are counted under the gate's lock, but for those that block meanwhile.
        let fits = self.guests.load(Ordering::Relaxed) % ONE_VISIT < self.threads()
            || helper && self.has_no_more_threads();
        if fits && !self.places.try_take() {
            // Places that no thread can be found for will do for a guest.
            if self.places.unstrand() {
                self.wake_if_needed(Waker::Idle);
            }
            self.places.take();
        }
        if fits {
            self.guests.fetch_add(ONE_VISIT + 1, Ordering::Relaxed);
            let processor = raddle_sync::affinity::processor().unwrap_or(usize::MAX);
            // ORD: a hint.
            self.guest_processor.store(processor, Ordering::Relaxed);
        }
        fits
    }

    /// The number of the place that a worker holds, if it holds one: a free one, its own if it can be.
    #[inline]
    pub(crate) fn number_of(&self, memory: &WorkerMemory) -> Option<usize> {
        if self.is_seated() && self.config.waits == Waits::Host {
            return Some(memory.index);
        }
        self.number_of_place(memory)
    }

    fn number_of_place(&self, memory: &WorkerMemory) -> Option<usize> {
        if memory.owned.hold.get() != Hold::Place {
            return None;
        }
        if memory.owned.number.get().is_none() {
            let own = memory.index;
            let own = (own < self.threads() && self.numbers.take(own)).then_some(own);
            memory.owned.number.set(own.or_else(|| self.numbers.take_lowest()));
        }
        memory.owned.number.get()
    }

    /// Has the calling thread, which has slept for a while, leave the processor of the last guest, or of somebody who works, if it is
    /// there: on the same one it can only work in the other's stead, and the system may let it, or have it wait for the other's time
    /// slice to end. Whoever is woken by a timer comes to be where it fell asleep, though others are idle (`raddle_sync::affinity`).
    pub(crate) fn make_way(&self, memory: &WorkerMemory) {
        let Some(here) = raddle_sync::affinity::processor() else { return };
        // ORD: a hint.
        let of_a_guest = self.guest_processor.load(Ordering::Relaxed) == here;
        let works_here = |other: &WorkerMemory| other.affinity.is_on(here);
        if of_a_guest || !self.oversubscribed && self.memories.iter().any(works_here) {
            memory.affinity.avoid(here);
        }
    }

    /// So many guests have come so far: a hint.
    pub(crate) fn visits(&self) -> usize {
        // ORD: a hint.
        self.guests.load(Ordering::Relaxed) / ONE_VISIT
    }

    pub(crate) fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    // --- tasks ---

    /// Queues a task that comes from outside, or is to come after all others.
    ///
    /// # Panics
    ///
    /// As [`assert_here`](Registry::assert_here).
    pub(crate) fn inject(&self, task: Task, tag: Tag) {
        self.assert_here();
        self.end.queue_outside(1);
        self.inject_again([(task, tag)]);
    }

    /// Queues tasks that have been in a queue of this pool already.
    pub(crate) fn inject_again(&self, tasks: impl IntoIterator<Item = (Task, Tag)>) {
        self.injector.push_tagged(tasks);
        // Full, because some who look do so without a heavy fence.
        fence(Ordering::SeqCst);
        self.wake_if_needed(Waker::Idle);
        self.retry();
    }

    /// Moves all that lies in rings where anybody who looks for it finds it.
    #[cold]
    pub(crate) fn empty_rings(&self) {
        let mut any = false;
        for ring in self.memories.iter().map(|memory| &memory.ring) {
            // No more than lies there now: its owner may queue as fast. And few at a time, as whoever looks meanwhile misses them.
            let mut rest = ring.drain().take(ring.len());
            loop {
                let batch: Vec<_> = rest.by_ref().take(FEW).collect();
                if batch.is_empty() {
                    break;
                }
                self.injector.push_tagged(batch);
                any = true;
            }
        }
        if any {
            // Whoever has missed one looked before this wakes somebody.
            self.inject_again([]);
        }
    }

    /// A block of task ids: first and end.
    pub(crate) fn id_block(&self, len: u64) -> (u64, u64) {
        let first = self.next_task_id.fetch_add(len, Ordering::Relaxed);
        (first, first + len)
    }

    pub(crate) const ID_BLOCK: u64 = ID_BLOCK;

    /// Whether this process is a child of the one that has the pool's threads.
    pub(crate) fn is_forked(&self) -> bool {
        self.generation != raddle_sync::fork::generation()
    }

    /// # Panics
    ///
    /// In a child of the process that has the pool's threads, unless the pool is of one and that one forked. (What a guest or a
    /// spare thread of it was at is not done there.)
    pub(crate) fn assert_here(&self) {
        let is_all =
            || self.threads() == 1 && crate::pool::here(self).is_some_and(|me| me.index == 0);
        assert!(!self.is_forked() || is_all(), "{FORKED}");
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry").field("threads", &self.threads()).finish_non_exhaustive()
    }
}
