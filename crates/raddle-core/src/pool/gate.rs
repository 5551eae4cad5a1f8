//! The gate: how threads from outside come into a pool as guests.
//!
//! A gate outlives its pool, because a future may be waited for from outside at any time and has to
//! ask whether its pool is still there. Gates are recycled, never freed; a generation number
//! tells a gate's pools apart.
//!
//! After some milliseconds of quiet whatever a guest runs and reads on its way in has to come from memory, line by line, which
//! takes 5 us and more. So on Linux the functions on that way lie together in the program, in a section `raddle_enter`:
//! fewer pages of code, and lines that the processor fetches ahead. That takes a fifth off a region of 2 us.
//!
//! # Invariants
//!
//! - **G1** `registry` points to the pool while the gate is open; closing waits until no guest is
//!   inside. So whoever has entered may use the pool until it leaves.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use raddle_sync::atomic::{AtomicU32, Ordering};
use raddle_sync::fork;
use raddle_sync::sync::{Condvar, Mutex, MutexGuard};
use raddle_sync::time::Instant;
use raddle_trace::{EventKind, Subject};

use crate::depth;
use crate::local;
use crate::panics::discard_all;
use crate::pool::policy::{LAST_ROOM, MOST_ROOM};
use crate::pool::recorder::{self, Place};
use crate::pool::registry::{FORKED, Registry};
use crate::pool::worker::{CurrentGuard, Worker};

/// The memory there is for guests: as much as there are threads, within these bounds. (How many work at a time, places
/// say: but those that wait have given theirs away.)
const GUESTS: (usize, usize) = (16, 64);

/// See the module.
#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    left: Condvar,
    /// By the generation of their pool, and a number.
    suspended: Mutex<BTreeMap<(u64, u64), Weak<dyn Suspended>>>,
    /// Which process opened it last: see `raddle_sync::fork`.
    process: AtomicU32,
}

/// What a pool drives that is now and then neither queued nor running, so that its tasks do not lead there.
pub(crate) trait Suspended: Send + Sync {
    /// Ends it with the failure `Killed`, unless it is over. False: it is, or it is queued or running.
    fn kill(&self) -> bool;
}

#[derive(Debug, Default)]
struct State {
    generation: u64,
    pointer: Option<Pointer>,
    /// A bit for each free place.
    free: u64,
    inside: usize,
    /// Tasks count on stacks of a size of their own.
    own_stacks: bool,
    /// Somebody waits for the last guest to leave.
    closing: bool,
}

/// The open gate's pool (G1).
#[derive(Debug, Clone, Copy)]
struct Pointer(*const Registry);

// SAFETY: a pointer to a `Sync` value, used under G1.
unsafe impl Send for Pointer {}

raddle_sync::lazy_static! {
    static RECYCLED: std::sync::Mutex<Vec<&'static Gate>> = std::sync::Mutex::new(Vec::new());
}

/// The gates without pools. None: it is locked for ever, in a process that was forked while another thread was there. Then gates
/// are made anew, and are some hundred bytes each that are not used again.
fn recycled() -> Option<std::sync::MutexGuard<'static, Vec<&'static Gate>>> {
    try_often(|| match RECYCLED.try_lock() {
        Ok(gates) => Some(gates),
        Err(std::sync::TryLockError::Poisoned(error)) => Some(error.into_inner()),
        Err(std::sync::TryLockError::WouldBlock) => None,
    })
}

/// As long as a lock takes that is held for moments only.
fn try_often<T>(mut get: impl FnMut() -> Option<T>) -> Option<T> {
    const TRIES: u32 = 100;
    const LONG: Duration = Duration::from_millis(20);
    let since = Instant::now();
    for tries in 0.. {
        if let Some(got) = get() {
            return Some(got);
        }
        if tries >= TRIES && since.elapsed() >= LONG {
            break;
        }
        raddle_sync::thread::yield_now();
    }
    None
}

fn forked() -> ! {
    panic!("{FORKED}");
}

/// A pool's hold on its gate.
#[derive(Debug)]
pub(crate) struct GateHandle {
    gate: &'static Gate,
    generation: u64,
    guests: usize,
}

/// A pool as a future remembers it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolRef {
    gate: &'static Gate,
    generation: u64,
}

impl GateHandle {
    pub(crate) fn guests_for(threads: usize) -> usize {
        threads.clamp(GUESTS.0, GUESTS.1)
    }

    pub(crate) fn new(guests: usize) -> GateHandle {
        let recycled = recycled().and_then(|mut gates| gates.pop());
        let mut gate = recycled.unwrap_or_else(|| Box::leak(Box::default()));
        if gate.lock(&gate.state).is_none() || gate.lock(&gate.suspended).is_none() {
            gate = Box::leak(Box::default());
        }
        let mut state = gate.state.lock();
        state.generation += 1;
        let generation = state.generation;
        drop(state);
        GateHandle { gate, generation, guests }
    }

    pub(crate) fn open(&self, registry: &Arc<Registry>) {
        // ORD: whoever has a future of the pool has seen it; others read an old one, and take the slower way.
        self.gate.process.store(fork::generation(), Ordering::Relaxed);
        let mut state = self.gate.state.lock();
        state.pointer = Some(Pointer(Arc::as_ptr(registry)));
        state.closing = false;
        state.own_stacks = registry.config.stack_size.is_some();
        state.free = u64::MAX >> (64 - self.guests);
    }

    pub(crate) fn home(&self) -> PoolRef {
        PoolRef { gate: self.gate, generation: self.generation }
    }

    /// Kills what is suspended, and says how many. What the end of one leads to may wait for another, and runs when all have ended.
    pub(crate) fn kill_suspended(&self) -> usize {
        let all: Vec<Arc<dyn Suspended>> = {
            let suspended = self.gate.suspended.lock();
            let ours = suspended.range((self.generation, 0)..=(self.generation, u64::MAX));
            ours.filter_map(|(_, one)| one.upgrade()).collect()
        };
        depth::at_limit(|| {
            let killed = all.iter().filter(|one| one.kill()).count();
            discard_all(all);
            killed
        })
    }

    /// Lets no more guests in, and waits for those inside.
    pub(crate) fn close(&self) {
        let mut state = self.gate.state.lock();
        state.pointer = None;
        state.closing = true;
        while state.inside > 0 {
            state = self.gate.left.wait(state);
        }
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").finish_non_exhaustive()
    }
}

impl Drop for GateHandle {
    fn drop(&mut self) {
        if let Some(mut gates) = recycled() {
            gates.push(self.gate);
        }
    }
}

impl PoolRef {
    /// Makes the calling thread a guest. None: the pool has gone, or has no place free, or others wait for one.
    #[cfg_attr(target_os = "linux", unsafe(link_section = "raddle_enter"))]
    pub(crate) fn enter<'a>(self, place: Place) -> Option<Guest<'a>> {
        self.enter_as(false, Some(place))
    }

    #[cfg_attr(target_os = "linux", unsafe(link_section = "raddle_enter"))]
    fn enter_as<'a>(self, helper: bool, from: Option<Place>) -> Option<Guest<'a>> {
        let began = recorder::stamp_if_recording();
        let mut state = self.gate.lock(&self.gate.state).unwrap_or_else(|| forked());
        if state.generation != self.generation || state.free == 0 || helper && state.own_stacks {
            return None;
        }
        // SAFETY: G1: the pool is there until this guest has left.
        let registry: &Registry = unsafe { &*state.pointer?.0 };
        registry.assert_here();
        if registry.is_seated() {
            return None;
        }
        if helper && !has_room(registry) {
            return None;
        }
        // ORD: a hint; calls are counted before they are queued.
        let queues = registry.calls.load(Ordering::Relaxed) > 0;
        if queues && !helper {
            return None;
        }
        let place = state.free.trailing_zeros() as usize;
        let memory = registry.memories.make(registry.first_guest() + place, registry).ok()?;
        registry.equip(memory.index);
        if !registry.place_for_guest(helper) {
            return None;
        }
        state.free &= state.free - 1;
        state.inside += 1;
        drop(state);
        // The caller brings its context along.
        memory.guest_arrives(local::current());
        let current = Some(memory.base().enter());
        let recorded = recorder::begin_region(memory, began, from);
        Some(Guest { home: self, registry, place, current, recorded })
    }

    /// As `enter`, to run a task of the pool that the thread waits for: not where tasks count on stacks of a size of their
    /// own, nor with less stack than a worker has for what it takes on. Where no further thread is to be had for the pool, also without a
    /// place, and with less stack. Whoever waits does not say from where.
    pub(crate) fn enter_to_help<'a>(self) -> Option<Guest<'a>> {
        self.enter_as(true, None)
    }

    /// Whether all threads that the pool can have are at something: a hint. Not if it has gone.
    pub(crate) fn has_nobody_for_more(self) -> bool {
        self.visit().is_some_and(|stay| stay.registry.has_nobody_for_more())
    }

    /// Calls `f` with the pool, which stays meanwhile, and with `what`; or gives that back if the pool has gone.
    pub(crate) fn with<A, R>(self, what: A, f: impl FnOnce(&Registry, A) -> R) -> Result<R, A> {
        if let Some(worker) = Worker::beneath(|registry| self.is_of(registry)) {
            return Ok(f(worker.registry(), what));
        }
        // Not under the lock: it may be users' code.
        let Some(stay) = self.visit() else { return Err(what) };
        Ok(f(stay.registry, what))
    }

    /// Has the pool kill this when its futures are killed, or it goes. Gives a number to end that with. `#[inline]`, as the other end of
    /// it: compiled by programs that have pools drive async futures, and with it most of the tree.
    #[inline]
    pub(crate) fn enlist(self, one: Weak<dyn Suspended>) -> u64 {
        let mut suspended = self.gate.lock(&self.gate.suspended).unwrap_or_else(|| forked());
        let last = suspended.last_key_value().map_or(0, |(&(_, number), _)| number);
        suspended.insert((self.generation, last + 1), one);
        last + 1
    }

    /// Ends what `enlist` began.
    #[inline]
    pub(crate) fn discharge(self, number: u64) {
        let Some(mut suspended) = self.gate.lock(&self.gate.suspended) else { return };
        let gone = suspended.remove(&(self.generation, number));
        drop(suspended);
        drop(gone);
    }

    /// Keeps the pool from going meanwhile. None: it has gone.
    fn visit<'a>(self) -> Option<Visit<'a>> {
        let mut state = self.gate.lock(&self.gate.state).unwrap_or_else(|| forked());
        if state.generation != self.generation {
            return None;
        }
        // SAFETY: G1: the pool is there until this visit is over.
        let registry: &Registry = unsafe { &*state.pointer?.0 };
        registry.assert_here();
        state.inside += 1;
        Some(Visit { gate: self.gate, registry })
    }

    /// Whether this is that pool.
    pub(crate) fn is_of(self, registry: &Registry) -> bool {
        let home = registry.gate.home();
        std::ptr::eq(home.gate, self.gate) && home.generation == self.generation
    }
}

/// Whether a thread from outside has the stack to help.
fn has_room(registry: &Registry) -> bool {
    let remaining = raddle_sync::stack::remaining();
    remaining > MOST_ROOM || remaining > LAST_ROOM && registry.has_nobody_else()
}

/// A thread from outside that is about to queue something.
struct Visit<'a> {
    gate: &'static Gate,
    registry: &'a Registry,
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.gate.leave(|_| ());
    }
}

impl Gate {
    /// Locks what is its own. None: a thread that is not in this process, but was in one that this was forked from, has it locked.
    fn lock<'a, T>(&self, what: &'a Mutex<T>) -> Option<MutexGuard<'a, T>> {
        // ORD: a hint, written where the pool was built.
        if self.process.load(Ordering::Relaxed) == fork::generation() {
            return Some(what.lock());
        }
        try_often(|| what.try_lock())
    }

    /// Somebody leaves; `last` is done under the lock, while the pool is there for certain.
    fn leave(&self, last: impl FnOnce(&mut State)) {
        // In a child of a fork nobody else comes or waits.
        let Some(mut state) = self.lock(&self.state) else { return };
        last(&mut state);
        state.inside -= 1;
        let awaited = state.closing;
        drop(state);
        if awaited {
            self.left.notify_all();
        }
    }
}

/// A thread from outside that works in a pool.
#[derive(Debug)]
pub(crate) struct Guest<'a> {
    home: PoolRef,
    registry: &'a Registry,
    place: usize,
    current: Option<CurrentGuard>,
    /// The region that the stay is in a trace.
    recorded: Option<(Subject, u32)>,
}

impl Guest<'_> {
    #[cfg_attr(target_os = "linux", unsafe(link_section = "raddle_enter"))]
    pub(crate) fn worker(&self) -> &Worker {
        self.registry.memories[self.registry.first_guest() + self.place].base()
    }
}

impl Drop for Guest<'_> {
    #[cfg_attr(target_os = "linux", unsafe(link_section = "raddle_enter"))]
    fn drop(&mut self) {
        let registry = self.registry;
        let memory = &registry.memories[registry.first_guest() + self.place];
        if let Some(key) = self.recorded {
            memory.lane.note(EventKind::Executed, 0, key);
        }
        self.current = None;
        memory.guest_leaves();
        self.home.gate.leave(|state| {
            state.free |= 1 << self.place;
            if let Some(key) = self.recorded {
                // Under the lock: the memory is another guest's as soon as it is released.
                memory.lane.note(EventKind::Waited, 0, key);
            }
        });
    }
}
