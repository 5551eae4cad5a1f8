//! What a pool records, where, and when.
//!
//! Each worker memory has a [`Lane`], which its worker's own thread writes to; threads from outside share
//! one under a lock. A lane's pointer is null while nothing is recorded, and all hooks lie on paths that are
//! slow anyway. At level `Tasks` the fork stack sends every push and pop down its slow path
//! ([`ForkStack::set_recorded`](crate::fork_stack::ForkStack::set_recorded)), where the hooks are: so the fast
//! path has no instruction for it.
//!
//! # Invariants
//!
//! - **T1** Rings are made once, at the first switch, and live as long as the pool. So a lane's pointer is
//!   good whenever it is not null.

use std::cell::Cell;
use std::sync::OnceLock;

use raddle_sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use raddle_sync::sync::Mutex;
use raddle_trace::{self as trace, ClockPair, Event, EventKind, Subject, Trace, TraceLevel};

use crate::fork_stack::{MAX_SLOTS, Slot};
use crate::pool::clock;
use crate::pool::registry::Registry;
use crate::pool::worker::Worker;
use crate::pool::worker_memory::WorkerMemory;
use crate::queue::Task;
use crate::record::{Copy, Record};

/// How the rings are to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) level: TraceLevel,
    /// Events per lane.
    pub(crate) capacity: usize,
    /// The newest events stay; else the oldest.
    pub(crate) newest: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { level: TraceLevel::Off, capacity: 1 << 16, newest: true }
    }
}

/// A pool's part in recording.
#[derive(Debug)]
pub(crate) struct Recorder {
    settings: Settings,
    workers: usize,
    /// The rings: one per worker memory, and one for threads from outside (T1).
    rings: OnceLock<Rings>,
    /// What is recorded now; held to change it.
    level: Mutex<TraceLevel>,
    /// As a pointer, null while nothing is recorded.
    outside: AtomicPtr<Mutex<Record>>,
    next_region: AtomicUsize,
}

#[derive(Debug)]
struct Rings {
    start: ClockPair,
    /// By worker; made with its memory, or when recording is first switched on.
    workers: Box<[OnceLock<Record>]>,
    outside: Mutex<Record>,
}

/// Where one worker records.
#[derive(Debug)]
pub(crate) struct Lane {
    /// Null while nothing is recorded (T1).
    ring: AtomicPtr<Record>,
    tasks: AtomicBool,
}

/// Pools that record: so that whoever enters a pool need not read the clock before it knows which it is. (No step of a
/// model's: models share it.)
static RECORDING: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

/// A time stamp now, if anybody records.
pub(crate) fn stamp_if_recording() -> u64 {
    // ORD: a hint.
    if RECORDING.load(Ordering::Relaxed) > 0 { clock::now() } else { 0 }
}

impl Lane {
    pub(crate) fn new() -> Lane {
        Lane { ring: AtomicPtr::new(std::ptr::null_mut()), tasks: AtomicBool::new(false) }
    }

    #[inline]
    fn ring(&self) -> Option<&Record> {
        // ORD: Acquire pairs with the Release in `set_level`: the ring is complete.
        let ring = self.ring.load(Ordering::Acquire);
        // SAFETY: T1.
        unsafe { ring.as_ref() }
    }

    /// Whether every fork and task is to be recorded.
    #[inline]
    pub(crate) fn has_tasks(&self) -> bool {
        // ORD: a hint: an event more or less at the switch.
        self.tasks.load(Ordering::Relaxed)
    }

    pub(crate) fn is_on(&self) -> bool {
        // ORD: a hint.
        !self.ring.load(Ordering::Relaxed).is_null()
    }

    /// Records an event, by the worker's own thread (E1 of `record`).
    #[inline]
    pub(crate) fn note(&self, kind: EventKind, aux: usize, (subject, task): (Subject, u32)) {
        if let Some(ring) = self.ring() {
            ring.push(words(clock::now(), kind, aux, subject, task));
        }
    }

    /// As `note`, of something that happened a moment ago.
    pub(crate) fn note_at(&self, tsc: u64, kind: EventKind, aux: usize, key: (Subject, u32)) {
        if let Some(ring) = self.ring() {
            ring.push(words(tsc, kind, aux, key.0, key.1));
        }
    }
}

/// Events about no task.
pub(crate) const NOTHING: (Subject, u32) = (Subject::Any, 0);

/// How a fork is called: by its worker and its slot, so that owner and thief agree.
#[inline]
pub(crate) fn fork_key(memory: &WorkerMemory, slot: &Slot) -> (Subject, u32) {
    (Subject::Fork, ((memory.index * MAX_SLOTS) + memory.fork.index_of(slot)) as u32)
}

/// How a task is called: by its address, as long as it lives.
pub(crate) fn task_key(task: Task) -> (Subject, u32) {
    (Subject::Task, (task.as_ptr() as usize >> 4) as u32)
}

#[inline]
fn words(tsc: u64, kind: EventKind, aux: usize, subject: Subject, task: u32) -> [u64; 2] {
    let aux = aux.min(usize::from(u16::MAX)) as u64;
    [tsc, kind as u64 | (subject as u64) << 8 | aux << 16 | u64::from(task) << 32]
}

fn event([tsc, word]: [u64; 2]) -> Option<Event> {
    let kind = EventKind::try_from(word as u8).ok()?;
    Some(Event {
        tsc,
        kind,
        flags: (word >> 8) as u8,
        aux: (word >> 16) as u16,
        task: (word >> 32) as u32,
    })
}

impl Recorder {
    pub(crate) fn new(settings: Settings, workers: usize) -> Recorder {
        Recorder {
            settings,
            workers,
            rings: OnceLock::new(),
            level: Mutex::new(TraceLevel::Off),
            outside: AtomicPtr::new(std::ptr::null_mut()),
            next_region: AtomicUsize::new(1),
        }
    }

    /// Gives a worker its ring, or takes it away; under the lock of the level.
    fn equip(&self, memory: &WorkerMemory, level: TraceLevel) {
        let on = level != TraceLevel::Off;
        let rings = self.rings.get().filter(|_| on);
        let ring = rings.map(|rings| rings.workers[memory.index].get_or_init(|| self.ring()));
        let ring = ring.map_or(std::ptr::null(), std::ptr::from_ref);
        // ORD: Release pairs with the Acquire in `Lane::ring`.
        memory.lane.ring.store(ring.cast_mut(), Ordering::Release);
        memory.lane.tasks.store(level == TraceLevel::Tasks, Ordering::Relaxed);
        memory.fork.set_recorded(level == TraceLevel::Tasks);
    }

    fn ring(&self) -> Record {
        Record::new(self.settings.capacity, self.settings.newest)
    }

    /// A number for a region.
    pub(crate) fn region_key(&self) -> (Subject, u32) {
        (Subject::Region, self.next_region.fetch_add(1, Ordering::Relaxed) as u32)
    }

    /// Records an event of a thread that is no worker here.
    fn note_outside(&self, tsc: u64, kind: EventKind, (subject, task): (Subject, u32)) {
        // ORD: Acquire pairs with the Release in `set_level`.
        let ring = self.outside.load(Ordering::Acquire);
        // SAFETY: T1.
        if let Some(ring) = unsafe { ring.as_ref() } {
            // Which thread it was; a region's name has no room, and the time no use, here.
            ring.lock().push(words(tsc, kind, outsider(), subject, task));
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if *self.level.lock() != TraceLevel::Off {
            RECORDING.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Registry {
    /// Switches recording on, off, or to another level.
    pub(crate) fn set_level(&self, to: TraceLevel) {
        let recorder = &self.recorder;
        let mut level = recorder.level.lock();
        if (*level == TraceLevel::Off) != (to == TraceLevel::Off) {
            if to == TraceLevel::Off {
                RECORDING.fetch_sub(1, Ordering::Relaxed);
            } else {
                RECORDING.fetch_add(1, Ordering::Relaxed);
            }
        }
        *level = to;
        let on = to != TraceLevel::Off;
        let rings = on.then(|| recorder.rings.get_or_init(|| Rings::new(recorder)));
        for memory in self.memories.iter() {
            recorder.equip(memory, to);
            // Its next push or pop will see to it.
            memory.fork.request();
        }
        let outside = rings.map_or(std::ptr::null(), |rings| &raw const rings.outside);
        // ORD: Release pairs with the Acquire in `note_outside`.
        recorder.outside.store(outside.cast_mut(), Ordering::Release);
    }

    /// Has a worker whose memory was made later record as the others do.
    pub(crate) fn equip(&self, worker: usize) {
        // ORD: a hint; whoever switches recording on looks at all workers afterwards.
        if !self.is_recorded() {
            return;
        }
        let level = self.recorder.level.lock();
        self.recorder.equip(&self.memories[worker], *level);
    }

    /// Something that concerns a task, by whichever thread calls.
    pub(crate) fn note_here(&self, kind: EventKind, aux: usize, key: (Subject, u32)) {
        match Worker::here().filter(|memory| std::ptr::eq(memory.registry, self)) {
            Some(memory) => memory.lane.note(kind, aux, key),
            None => self.recorder.note_outside(clock::now(), kind, key),
        }
    }

    /// Whether anything is recorded.
    pub(crate) fn is_recorded(&self) -> bool {
        self.memories[0].lane.is_on()
    }

    /// Does `wake`, which wakes `worker`, and records that and what it cost.
    pub(crate) fn note_wake_of<R>(&self, worker: usize, wake: impl FnOnce() -> R) -> R {
        if !self.is_recorded() {
            return wake();
        }
        let before = clock::now();
        let result = wake();
        let took = clock::now().saturating_sub(before).min(u64::from(u32::MAX)) as u32;
        let key = (Subject::Any, took);
        match Worker::here().filter(|memory| std::ptr::eq(memory.registry, self)) {
            Some(memory) => memory.lane.note_at(before, EventKind::Unpark, worker, key),
            // Its aux says who it was, so whom it woke is not known.
            None => self.recorder.note_outside(before, EventKind::Unpark, key),
        }
        result
    }

    /// What has been recorded so far.
    pub(crate) fn trace(&self) -> Trace {
        let end = clock::pair();
        let Some(rings) = self.recorder.rings.get() else {
            let mut trace = Trace::new(end, end);
            trace.threads = self.threads() as u32;
            return trace;
        };
        let mut trace = Trace::new(rings.start, end);
        trace.threads = self.threads() as u32;
        trace.names =
            NAMES.lock().unwrap_or_else(|e| e.into_inner()).iter().map(|&n| n.into()).collect();
        for (number, ring) in rings.workers.iter().enumerate() {
            let Some(ring) = ring.get() else { continue };
            trace.lanes.push(lane(self.name_of(number), ring.copy()));
        }
        let copy = rings.outside.lock().copy();
        trace.lanes.extend(outside_lanes(copy));
        // Taken after the clock: what happened meanwhile lies beyond the trace's end.
        trace.end = clock::pair();
        trace
    }
}

impl Rings {
    fn new(recorder: &Recorder) -> Rings {
        NAMES.lock().unwrap_or_else(|e| e.into_inner()).reserve(256);
        Rings {
            workers: (0..recorder.workers).map(|_| OnceLock::new()).collect(),
            outside: Mutex::new(recorder.ring()),
            start: clock::pair(),
        }
    }
}

fn lane(name: String, copy: Copy) -> trace::Lane {
    let events = copy.events.into_iter().filter_map(event).collect();
    trace::Lane { name, events, dropped: copy.first + copy.refused, first: copy.first }
}

/// The lane of threads from outside, taken apart: its events say in `aux` whose they are. What was lost
/// counts for the first of them.
fn outside_lanes(copy: Copy) -> Vec<trace::Lane> {
    let mut lanes: Vec<(u16, trace::Lane)> = Vec::new();
    let lost = copy.first + copy.refused;
    for mut event in copy.events.into_iter().filter_map(event) {
        let whose = std::mem::replace(
            &mut event.aux,
            if event.kind == EventKind::Unpark { u16::MAX } else { 0 },
        );
        let at = lanes.iter().position(|lane| lane.0 == whose).unwrap_or_else(|| {
            lanes.push((whose, trace::Lane::new(format!("outside {whose}"), Vec::new())));
            lanes.len() - 1
        });
        lanes[at].1.events.push(event);
    }
    if lost > 0 && lanes.is_empty() {
        lanes.push((0, trace::Lane::new("outside", Vec::new())));
    }
    if let Some((_, lane)) = lanes.first_mut() {
        lane.dropped = lost;
    }
    lanes.into_iter().map(|lane| lane.1).collect()
}

thread_local! {
    /// This thread's number among those from outside; 0: none yet.
    static OUTSIDER: Cell<u16> = const { Cell::new(0) };
    /// The name that this thread's next regions get, counted from 1; 0: none.
    static NAME: Cell<u16> = const { Cell::new(0) };
}

fn outsider() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    let mut number = OUTSIDER.get();
    if number == 0 {
        number = (NEXT.fetch_add(1, Ordering::Relaxed) % usize::from(u16::MAX)) as u16 + 1;
        OUTSIDER.set(number);
    }
    number.into()
}

// --- regions ---

/// The names that were given to regions, by all pools.
static NAMES: std::sync::Mutex<Vec<&'static str>> = std::sync::Mutex::new(Vec::new());

/// The number of a name, from 1 on; 0 if there are too many.
fn name_number(name: &'static str) -> u16 {
    let mut names = NAMES.lock().unwrap_or_else(|e| e.into_inner());
    let at = names.iter().position(|&known| known == name).unwrap_or_else(|| {
        names.push(name);
        names.len() - 1
    });
    u16::try_from(at + 1).unwrap_or(0)
}

/// A region that a guest's stay is, from `tsc` on.
pub(crate) fn begin_region(memory: &WorkerMemory, tsc: u64) -> Option<(Subject, u32)> {
    if !memory.lane.is_on() {
        return None;
    }
    let key = memory.registry().recorder.region_key();
    let now = clock::now();
    let since = if tsc == 0 { now } else { tsc };
    memory.lane.note_at(since, EventKind::Submit, NAME.get().into(), key);
    memory.lane.note_at(now, EventKind::Exec, 0, key);
    Some(key)
}

/// Marks what follows as a region of a trace, until the guard is dropped.
///
/// On a thread that works in a pool that records it is a region of its own, with phases of its own. On
/// a thread from outside it gives its name to the regions that the thread enters meanwhile. Otherwise it
/// does next to nothing.
///
/// ```
/// use raddle::{Pool, trace, trace::TraceLevel};
///
/// let pool = Pool::builder().threads(2).trace(TraceLevel::Phase).build()?;
/// {
///     let _region = trace::region("twins");
///     pool.run(|worker| worker.join(|_| (), |_| ()));
/// }
/// pool.run(|_| drop(trace::region("inside")));
/// let phases = pool.trace().phases();
/// let names: Vec<_> = phases.iter().map(|region| region.name.as_deref()).collect();
/// assert_eq!(names, [Some("twins"), None, Some("inside")]);
/// # Ok::<(), raddle::PoolBuildError>(())
/// ```
pub fn region(name: &'static str) -> RegionGuard {
    // ORD: a hint.
    if RECORDING.load(Ordering::Relaxed) == 0 {
        return RegionGuard { what: Marked::Nothing, _not_send: std::marker::PhantomData };
    }
    let number = name_number(name);
    let what = match Worker::here() {
        Some(memory) if memory.lane.is_on() => {
            let key = memory.registry().recorder.region_key();
            memory.lane.note(EventKind::Submit, number.into(), key);
            memory.lane.note(EventKind::Exec, 0, key);
            Marked::Inside(memory, key)
        }
        Some(_) => Marked::Nothing,
        None => Marked::Outside(NAME.replace(number)),
    };
    RegionGuard { what, _not_send: std::marker::PhantomData }
}

/// Ends a [`region`] when it is dropped.
#[derive(Debug)]
#[must_use = "the region ends when this is dropped"]
pub struct RegionGuard {
    what: Marked,
    _not_send: std::marker::PhantomData<*const ()>,
}

#[derive(Debug)]
enum Marked {
    Nothing,
    /// The name before.
    Outside(u16),
    Inside(*const WorkerMemory, (Subject, u32)),
}

impl Drop for RegionGuard {
    fn drop(&mut self) {
        match self.what {
            Marked::Nothing => {}
            Marked::Outside(before) => NAME.set(before),
            Marked::Inside(memory, key) => {
                // Kept beyond the pool's code, or dropped on a stay later than its own: nothing to end.
                if let Some(here) = Worker::here().filter(|here| std::ptr::eq(*here, memory)) {
                    here.lane.note(EventKind::Executed, 0, key);
                    here.lane.note(EventKind::Waited, 0, key);
                }
            }
        }
    }
}
