//! What all workers of a pool share.
//!
//! # Invariants
//!
//! - **P1** `Shared` outlives every thread of the pool and every guest: threads hold an `Arc` of it,
//!   and the pool's drop waits for guests.
//! - **P2** A seat says whether its thread is there. Waking a thread and leaving the pool both hold
//!   the seat's lock, so a worker that was claimed is either woken or started anew.

use std::io;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use raddle_sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use raddle_sync::fence::light;
use raddle_sync::sync::Mutex;
use raddle_trace::TraceLevel;

use crate::pool::bench::Benches;
use crate::pool::gate::GateHandle;
use crate::pool::policy::{LONGEST_WAKE, Policy, TYPICAL_WAKE, Who};
use crate::pool::recorder::{Recorder, Settings};
use crate::pool::region::RegionBox;
use crate::queue::{Injector, Task};
use crate::sleep::Sleep;
use crate::spawn::Hooks;

/// What a builder decided.
pub(crate) struct Config {
    pub(crate) threads: usize,
    pub(crate) names: Vec<String>,
    pub(crate) stack_size: Option<usize>,
    pub(crate) keep_alive: Duration,
    /// How many threads there may be in the stead of those that wait for futures.
    pub(crate) reserve: usize,
    pub(crate) hooks: Hooks,
    pub(crate) trace: Settings,
    pub(crate) policy: Policy,
}

/// Whether a worker thread is there, and its handle.
#[derive(Default)]
struct Seat {
    present: bool,
    handle: Option<thread::JoinHandle<()>>,
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
pub(crate) struct Shared {
    /// For threads that are started later.
    me: Weak<Shared>,
    pub(crate) config: Config,
    pub(crate) sleep: Sleep,
    pub(crate) injector: Injector,
    pub(crate) gate: GateHandle,
    pub(crate) benches: Benches,
    /// How many threads sleep until a future is done.
    waiting: Mutex<usize>,
    pub(crate) recorder: Recorder,
    /// Threads first, those of the reserve last of these, then guests.
    pub(crate) regions: Box<[RegionBox]>,
    seats: Box<[Mutex<Seat>]>,
    /// The threads go once there is nothing left to do.
    terminating: AtomicBool,
    /// There is nothing left to do.
    ended: AtomicBool,
    /// More workers than processors: polling another worker is of no use.
    pub(crate) oversubscribed: bool,
    processors: usize,
    /// Light fences suffice: see `raddle_sync::fence`.
    process_wide: bool,
    /// The pool's clock starts here.
    epoch: Instant,
    /// How long a wake takes, in nanoseconds: a moving average.
    wake_cost: AtomicU64,
    next_task_id: AtomicU64,
}

/// Task ids are handed to workers in blocks.
const ID_BLOCK: u64 = 1 << 12;

impl Shared {
    pub(crate) fn new(config: Config) -> io::Result<Arc<Shared>> {
        #[cfg(feature = "tracing")]
        crate::local::tracing::listen();
        let threads = config.threads;
        let crew = threads + config.reserve;
        let guests = GateHandle::guests_for(threads);
        let processors = thread::available_parallelism().map_or(1, |n| n.get());
        let mut failed = None;
        let shared = Arc::new_cyclic(|me: &Weak<Shared>| {
            let regions: Vec<RegionBox> = (0..crew + guests)
                .map_while(|index| {
                    RegionBox::new(index, me.as_ptr()).map_err(|error| failed = Some(error)).ok()
                })
                .collect();
            Shared {
                me: me.clone(),
                sleep: Sleep::new(crew + guests),
                injector: Injector::new(),
                gate: GateHandle::new(guests),
                benches: Benches::new(threads, config.reserve),
                waiting: Mutex::new(0),
                recorder: Recorder::new(config.trace),
                regions: regions.into_boxed_slice(),
                seats: (0..crew).map(|_| Mutex::new(Seat::default())).collect(),
                terminating: AtomicBool::new(false),
                ended: AtomicBool::new(false),
                oversubscribed: threads > processors,
                processors,
                process_wide: raddle_sync::fence::process_wide(),
                epoch: Instant::now(),
                wake_cost: AtomicU64::new(TYPICAL_WAKE.as_nanos() as u64),
                next_task_id: AtomicU64::new(1),
                config,
            }
        });
        match failed {
            Some(error) => Err(error),
            None => {
                shared.gate.open(&shared);
                if shared.config.trace.level != TraceLevel::Off {
                    shared.set_level(shared.config.trace.level);
                }
                Ok(shared)
            }
        }
    }

    pub(crate) fn threads(&self) -> usize {
        self.config.threads
    }

    /// The threads and the reserve: so many regions belong to threads of the pool.
    pub(crate) fn crew(&self) -> usize {
        self.config.threads + self.config.reserve
    }

    // --- threads ---

    /// Starts the thread of a worker, which begins as a searcher; the caller has counted it.
    pub(crate) fn start(self: &Arc<Shared>, worker: usize) -> io::Result<()> {
        let mut seat = self.seats[worker].lock();
        debug_assert!(!seat.present);
        let mut builder = thread::Builder::new().name(self.config.names[worker].clone());
        if let Some(size) = self.config.stack_size {
            builder = builder.stack_size(size);
        }
        let shared = Arc::clone(self);
        seat.handle = Some(builder.spawn(move || shared.regions[worker].main())?);
        seat.present = true;
        Ok(())
    }

    /// Gives a claimed worker its token, or a thread if it has none. False: the system refuses one.
    fn rouse(&self, worker: usize, waker: Waker) -> bool {
        let region = &self.regions[worker];
        if worker < self.crew() {
            let seat = self.seats[worker].lock();
            if !seat.present {
                drop(seat);
                return self.me.upgrade().is_some_and(|shared| shared.start(worker).is_ok());
            }
            if waker == Waker::Busy && self.awake() <= self.processors {
                // Under the lock, so that the thread is there.
                region.elsewhere.confine();
            }
        }
        // ORD: read by the woken worker after its token.
        region.roused_at.store(self.now().max(1), Ordering::Relaxed);
        region.parker().unpark();
        true
    }

    /// How many workers do not sleep, the one that was just claimed included. A guest counts as the thread that
    /// sits out for him.
    fn awake(&self) -> usize {
        self.threads().saturating_sub(self.sleep.counts().sleeping())
    }

    /// An idle thread asks to go for good. False: it was claimed, and a token is on its way.
    pub(crate) fn leave_seat(&self, worker: usize) -> bool {
        let mut seat = self.seats[worker].lock();
        let unclaimed = self.sleep.is_asleep(worker) || self.benches.is_out(worker);
        if unclaimed {
            seat.present = false;
        }
        unclaimed
    }

    /// How many threads there are at the moment.
    pub(crate) fn present(&self) -> usize {
        self.seats.iter().filter(|seat| seat.lock().present).count()
    }

    // --- wake-ups ---

    /// After work was made visible and a fence: wakes a sleeper if nobody searches.
    #[inline]
    pub(crate) fn wake_if_needed(&self, waker: Waker) {
        if self.sleep.counts().need_wake() {
            self.wake_one(waker);
        }
    }

    #[cold]
    pub(crate) fn wake_one(&self, waker: Waker) {
        let Some(worker) = self.sleep.claim() else { return };
        if !self.note_wake_of(worker, || self.rouse(worker, waker)) {
            // Let it be a sleeper whose thread is there.
            self.wake_one(waker);
            self.sleep.unclaim(worker);
        }
    }

    /// How much work is to be seen, counted up to as many as one wakes at a time.
    pub(crate) fn visible_work(&self) -> usize {
        let most = self.config.policy.fan_out.max(1);
        let tasks = self.injector.len();
        let regions = self.regions.iter().filter(|r| r.fork.has_work() || r.ring.has_work());
        (tasks + regions.take(most).count()).min(most)
    }

    /// Steps 2 to 4 of the last searcher (S1). True: there is work.
    #[cold]
    pub(crate) fn look_around(&self) -> bool {
        for region in &self.regions {
            region.fork.request();
        }
        raddle_sync::fence::heavy();
        self.visible_work() > 0
    }

    /// A thief has found work and stops searching: sees to a successor.
    pub(crate) fn hand_on(&self, waker: Waker) {
        let alone = self.sleep.stop_search();
        if self.sleep.counts().sleeping() == 0 {
            return;
        }
        let mut wakes = self.visible_work();
        if wakes == 0 && alone && self.look_around() {
            wakes = 1;
        }
        self.wake_some(wakes, waker);
    }

    /// A worker that was woken sees to others first, if that is the policy.
    pub(crate) fn pass_on(&self) {
        if self.config.policy.who == Who::Woken && self.sleep.counts().sleeping() > 0 {
            self.wake_some(self.visible_work(), Waker::Busy);
        }
    }

    /// Several at a time make the ramp-up a tree.
    fn wake_some(&self, visible: usize, waker: Waker) {
        for _ in 0..self.config.policy.wakes(self.threads(), visible) {
            if self.sleep.counts().searching() < self.search_cap() {
                self.wake_one(waker);
            }
        }
    }

    /// The most workers that may search at a time.
    pub(crate) fn search_cap(&self) -> usize {
        let counts = self.sleep.counts();
        let idle = counts.searching() + counts.sleeping();
        self.config.policy.search_cap(self.threads(), idle)
    }

    /// How long a search may spin before the worker sleeps.
    pub(crate) fn patience(&self, fruitless: bool) -> Duration {
        let cost = Duration::from_nanos(self.wake_cost.load(Ordering::Relaxed));
        self.config.policy.patience(cost, fruitless)
    }

    pub(crate) fn note_wake(&self, roused_at: u64) {
        // A wake of milliseconds is of a processor that others had: it says nothing about the next.
        let took = self.now().saturating_sub(roused_at).min(LONGEST_WAKE.as_nanos() as u64);
        let before = self.wake_cost.load(Ordering::Relaxed);
        // ORD: a statistic; a lost update does no harm.
        self.wake_cost.store(before - before / 8 + took / 8, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    // --- tasks ---

    /// Queues tasks that come from outside.
    pub(crate) fn inject(&self, tasks: impl IntoIterator<Item = Task>) {
        self.injector.push(tasks);
        // Full, because a guest who leaves looks without a heavy fence.
        fence(Ordering::SeqCst);
        self.wake_if_needed(Waker::Idle);
    }

    /// After a task was queued: S1, steps 2 to 4.
    #[inline]
    pub(crate) fn announce(&self) {
        if self.process_wide {
            light()
        } else {
            fence(Ordering::SeqCst)
        }
        self.wake_if_needed(Waker::Busy);
    }

    /// A block of task ids: first and end.
    pub(crate) fn id_block(&self, len: u64) -> (u64, u64) {
        let first = self.next_task_id.fetch_add(len, Ordering::Relaxed);
        (first, first + len)
    }

    pub(crate) const ID_BLOCK: u64 = ID_BLOCK;

    // --- the reserve ---

    /// A thread goes to sleep until a future is done: one of the reserve may play meanwhile.
    pub(crate) fn rest(&self) {
        let mut waiting = self.waiting.lock();
        *waiting += 1;
        if *waiting <= self.config.reserve {
            self.benches.release(self, self.threads() + *waiting - 1);
            if self.sleep.counts().need_wake() && self.visible_work() > 0 {
                self.wake_one(Waker::Idle);
            }
        }
    }

    /// It is awake again.
    pub(crate) fn resume(&self) {
        let mut waiting = self.waiting.lock();
        if *waiting <= self.config.reserve {
            self.benches.ask(self, self.threads() + *waiting - 1);
        }
        *waiting -= 1;
    }

    // --- the end ---

    pub(crate) fn ended(&self) -> bool {
        // ORD: Acquire pairs with the store in `end_if_quiet`; sleepers are unparked after it.
        self.ended.load(Ordering::Acquire)
    }

    /// By a thread that has just fallen asleep, or by who ends the pool: if the pool is to end and all
    /// threads sleep, then no task runs that might bring work, and the threads may go.
    pub(crate) fn end_if_quiet(&self) {
        let counts = self.sleep.counts();
        let playing = self.threads() + self.benches.playing(self.threads()..self.crew());
        let asleep = counts.searching() == 0 && counts.sleeping() == playing;
        // ORD: ordered by the SeqCst fences of `terminate` and of falling asleep: the later sees both.
        if self.terminating.load(Ordering::Relaxed) && asleep && self.visible_work() == 0 {
            // ORD: Release pairs with the Acquire in `ended`.
            self.ended.store(true, Ordering::Release);
            for region in &self.regions[..self.crew()] {
                region.parker().unpark();
            }
        }
    }

    /// Lets the threads go once there is nothing left to do, and waits for them. Not on one of them.
    pub(crate) fn terminate(&self) {
        self.terminating.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.end_if_quiet();
        // More than once: a thread that had gone may be started again by a task that still ran.
        while let Some(handle) = self.seats.iter().find_map(|seat| seat.lock().handle.take()) {
            // A worker's loop does not panic; if it did, its message is out already.
            let _ = handle.join();
        }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("threads", &self.threads()).finish_non_exhaustive()
    }
}
