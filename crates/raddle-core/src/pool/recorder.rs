//! What a pool records, where, and when.
//!
//! Each worker memory has a [`Lane`], which its worker's own thread writes to; threads from outside share
//! one under a lock. A lane's pointer is null while nothing is recorded, and all hooks lie on paths that are
//! slow anyway. At level `Tasks` the fork stack sends every push and pop down its slow path
//! ([`ForkStack::set_recorded`](crate::fork_stack::ForkStack::set_recorded)), where the hooks are: so the fast
//! path has no instruction for it.
//!
//! A lane has two rings: one for the frame of a trace (regions, threads, kills, locks), of which there is little, and
//! one for forks and tasks, which so cannot overwrite it. A pool that records into a file saves both, now and then and
//! whenever one is full (`stream`).
//!
//! | file | |
//! |---|---|
//! | `lane.rs` | where one worker records, and where threads from outside do |
//! | `region.rs` | regions |
//! | `places.rs` | places in the source |
//! | `stream.rs`, `taken.rs`, `room.rs` | recording into a file; which files are recorded into; when a disk has room for more |
//! | `per_process.rs` | what a child of a `fork` has of its own |
//!
//! # Invariants
//!
//! - **RC1** Rings are made once, at the first switch, and live as long as the pool. So a lane's pointer is
//!   good whenever it is not null.

mod lane;
mod per_process;
mod places;
mod quiet;
mod region;
mod room;
mod stream;
mod taken;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use raddle_sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use raddle_sync::sync::Mutex;
use raddle_trace::{self as trace, ClockPair, EventKind, Subject, Trace, TraceLevel};

pub(crate) use self::lane::Lane;
use self::lane::{LaneRings, Outside, frame_of};
pub(crate) use self::per_process::PerProcess;
pub(crate) use self::places::Place;
use self::region::NAMES;
pub(crate) use self::region::begin_region;
pub use self::region::{RegionGuard, region};
use self::stream::Stream;
pub(crate) use self::taken::Taken;
use crate::fork_stack::{MAX_SLOTS, Slot};
use crate::pool::clock;
use crate::pool::registry::Registry;
use crate::pool::worker::Worker;
use crate::pool::worker_memory::WorkerMemory;
use crate::queue::Task;
use crate::record::Record;

/// How the rings are to be.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) level: TraceLevel,
    /// Events per lane.
    pub(crate) capacity: usize,
    /// The newest events stay; else the oldest.
    pub(crate) newest: bool,
    /// Where to record to while the pool runs.
    pub(crate) file: Option<PathBuf>,
    /// The file has been [`Taken`] by who asks for this.
    pub(crate) taken: bool,
}

/// How much room a ring gets if so much is asked for.
pub(crate) fn room_for(events: usize) -> usize {
    events.clamp(2, 1 << 30).next_power_of_two()
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            level: TraceLevel::Off,
            capacity: 1 << 16,
            newest: true,
            file: None,
            taken: false,
        }
    }
}

/// A pool's part in recording.
#[derive(Debug)]
pub(crate) struct Recorder {
    settings: Settings,
    workers: usize,
    threads: usize,
    /// The rings: one per worker memory, and one for threads from outside (RC1).
    rings: OnceLock<Arc<Rings>>,
    /// What is recorded now; held to change it.
    level: Mutex<TraceLevel>,
    /// The least of what was recorded when that was not nothing.
    least: Mutex<TraceLevel>,
    /// As a pointer, null while nothing is recorded.
    outside: AtomicPtr<Mutex<Outside>>,
    next_region: AtomicUsize,
    stream: Option<Stream>,
    finished: AtomicBool,
    /// The process that built it: see `raddle_sync::fork`.
    generation: u32,
}

#[derive(Debug)]
struct Rings {
    start: ClockPair,
    /// By worker; made with its memory, or when recording is first switched on.
    workers: Box<[OnceLock<LaneRings>]>,
    outside: Mutex<Outside>,
    /// When recording was switched off, if it is.
    ended: Mutex<Option<ClockPair>>,
    /// What recording an event costs.
    event_ns: f64,
}

/// Pools that record: so that whoever enters a pool need not read the clock before it knows which it is. (No step of a
/// model's: models share it.)
static RECORDING: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

/// Whether any pool records.
#[inline]
pub(crate) fn anybody_records() -> bool {
    // ORD: a hint.
    RECORDING.load(Ordering::Relaxed) > 0
}

/// A time stamp now, if anybody records.
pub(crate) fn stamp_if_recording() -> u64 {
    if anybody_records() { clock::now() } else { 0 }
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

/// How anything else is called that has an address as long as it lives: scopes, futures, locks.
pub(crate) fn key_of<T>(thing: *const T) -> (Subject, u32) {
    (Subject::Any, (thing as usize >> 2) as u32)
}

/// What happens to a future or a lock, by whichever thread: on the lane of the worker that it is, if it is one.
pub(crate) fn note_if_recording(kind: EventKind, aux: usize, key: (Subject, u32)) {
    if !anybody_records() {
        return;
    }
    match Worker::here() {
        Some(memory) => memory.lane.note(kind, aux, key),
        None => lane::note_outside_all(kind, aux, key),
    }
}

/// As above, with the place where it was asked for.
pub(crate) fn note_place_if_recording(kind: EventKind, place: Place, key: (Subject, u32)) {
    if anybody_records() {
        note_if_recording(kind, places::number(place).into(), key);
    }
}

/// The number of a place in events.
pub(crate) fn number_of(place: Place) -> usize {
    places::number(place).into()
}

/// More than all threads together are given room for: 4 TiB.
const MOST_EVENTS: usize = 1 << 38;

impl Recorder {
    /// # Errors
    ///
    /// If the file to record to cannot be written, or there is no memory ([`OutOfMemory`](std::io::ErrorKind::OutOfMemory)) for
    /// what the threads and a guest are to record from the start.
    pub(crate) fn new(
        settings: Settings,
        workers: usize,
        threads: usize,
    ) -> std::io::Result<Recorder> {
        if settings.level != TraceLevel::Off {
            let each = settings.capacity + frame_of(settings.capacity);
            // Who is to work is given some one by one, when there is nobody left to hear that there is none. A system that promises whatever
            // it is asked for would promise that, too.
            let all = each.saturating_mul(threads + 1);
            let all = if all <= MOST_EVENTS { all } else { usize::MAX };
            Vec::<[u64; 2]>::new().try_reserve_exact(all)?;
        }
        Ok(Recorder {
            stream: Stream::create(&settings)?,
            least: Mutex::new(TraceLevel::Off),
            settings,
            workers,
            threads,
            rings: OnceLock::new(),
            level: Mutex::new(TraceLevel::Off),
            outside: AtomicPtr::new(std::ptr::null_mut()),
            next_region: AtomicUsize::new(1),
            finished: AtomicBool::new(false),
            generation: raddle_sync::fork::generation(),
        })
    }

    /// Gives a worker its rings, or takes them away; under the lock of the level.
    fn equip(&self, memory: &WorkerMemory, level: TraceLevel, name: impl FnOnce() -> String) {
        let on = level != TraceLevel::Off;
        let lane = self.rings.get().filter(|_| on).and_then(|rings| {
            let place = &rings.workers[memory.index];
            if place.get().is_none() {
                let saver = self.stream.as_ref().map(|stream| stream.saver(rings));
                match LaneRings::new(memory.index, name(), &self.settings, level, saver) {
                    Ok(lane) => _ = place.set(lane),
                    // It works unrecorded.
                    Err(error) => raddle_sync::say(format_args!(
                        "no memory for what worker {} records: {error}",
                        memory.index
                    )),
                }
            }
            place.get()
        });
        let tasks = lane.is_some() && level == TraceLevel::Tasks;
        memory.lane.set(lane, tasks);
        memory.fork.set_recorded(tasks);
    }

    /// A number for a region.
    pub(crate) fn region_key(&self) -> (Subject, u32) {
        (Subject::Region, self.next_region.fetch_add(1, Ordering::Relaxed) as u32)
    }

    /// Records an event of a thread that is no worker here.
    fn note_outside(&self, tsc: u64, kind: EventKind, aux: usize, key: (Subject, u32)) {
        // ORD: Acquire pairs with the Release in `set_level`.
        let outside = self.outside.load(Ordering::Acquire);
        // SAFETY: RC1.
        if let Some(outside) = unsafe { outside.as_ref() } {
            outside.lock().push(tsc, kind, aux, key);
        }
    }

    /// What is known of the recording.
    fn facts(&self, rings: &Rings) -> Vec<(String, String)> {
        let level = match *self.least.lock() {
            TraceLevel::Off => return Vec::new(),
            TraceLevel::Phase => "phase",
            TraceLevel::Tasks => "tasks",
        };
        let processors = std::thread::available_parallelism().map_or(0, |n| n.get());
        vec![
            ("level".into(), level.into()),
            ("event_ns".into(), format!("{:.2}", rings.event_ns)),
            ("processors".into(), processors.to_string()),
        ]
    }
}

impl Recorder {
    /// The pool has ended: so has the file to record to, whoever has a share of the pool's memory yet.
    pub(crate) fn finish(&self) {
        self.end(true);
    }

    /// The process ends before the pool does: so does the file, and what threads do from now on is not recorded.
    pub(crate) fn finish_with_process(&self) {
        self.end(false);
    }

    fn end(&self, with_pool: bool) {
        // In a child the file is the parent's, and whoever had these locks is not here.
        let forked = self.generation != raddle_sync::fork::generation();
        // ORD: a flag; what is finished is behind locks.
        if forked || self.finished.swap(true, Ordering::Relaxed) {
            return;
        }
        if let Some(rings) = self.rings.get() {
            if with_pool {
                rings.outside.lock().push(clock::now(), EventKind::EnvEnd, self.threads, NOTHING);
            }
            // ORD: nothing is passed on with it.
            self.outside.store(std::ptr::null_mut(), Ordering::Relaxed);
            lane::forget_outside(rings);
            if let Some(stream) = &self.stream {
                stream.finish(rings);
            }
        } else if let Some(stream) = &self.stream {
            stream.finish_empty(self.threads);
        }
    }

    /// Whether a file has all that is recorded.
    pub(crate) fn has_file(&self) -> bool {
        self.stream.is_some()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if *self.level.lock() != TraceLevel::Off {
            RECORDING.fetch_sub(1, Ordering::Relaxed);
        }
        self.finish();
    }
}

impl Registry {
    /// Switches recording on, off, or to another level.
    pub(crate) fn set_level(&self, to: TraceLevel) {
        let recorder = &self.recorder;
        let mut level = recorder.level.lock();
        let switches = (*level == TraceLevel::Off) != (to == TraceLevel::Off);
        if switches && to == TraceLevel::Off {
            RECORDING.fetch_sub(1, Ordering::Relaxed);
        } else if switches {
            RECORDING.fetch_add(1, Ordering::Relaxed);
        }
        *level = to;
        if to != TraceLevel::Off {
            // What a part of the recording lacks, the whole does.
            let mut least = recorder.least.lock();
            *least = if *least == TraceLevel::Off { to } else { to.min(*least) };
        }
        drop(level);
        let rings = (to != TraceLevel::Off).then(|| {
            recorder.rings.get_or_init(|| {
                let rings = Arc::new(Rings::new(recorder));
                let threads = recorder.threads;
                rings.outside.lock().push(clock::now(), EventKind::EnvBegin, threads, NOTHING);
                rings
            })
        });
        if let (Some(stream), Some(rings)) = (&recorder.stream, rings) {
            stream.start(rings, recorder.threads, || recorder.facts(rings));
        }
        // Whoever has switched meanwhile is right.
        let level = recorder.level.lock();
        if let Some(rings) = recorder.rings.get() {
            let off = *level == TraceLevel::Off;
            let mut ended = rings.ended.lock();
            *ended = if off { ended.or_else(|| Some(clock::pair())) } else { None };
        }
        for memory in self.memories.iter() {
            recorder.equip(memory, *level, || self.name_of(memory.index));
            // Its next push or pop will see to it.
            memory.fork.request();
        }
        let mut outside = std::ptr::null();
        match recorder.rings.get() {
            Some(rings) if *level != TraceLevel::Off => {
                outside = &raw const rings.outside;
                lane::know_outside(rings);
            }
            Some(rings) => lane::forget_outside(rings),
            None => {}
        }
        // ORD: Release pairs with the Acquire in `note_outside`.
        recorder.outside.store(outside.cast_mut(), Ordering::Release);
    }

    /// Has a worker whose memory was made later record as the others do.
    #[cfg_attr(target_os = "linux", unsafe(link_section = "raddle_enter"))]
    pub(crate) fn equip(&self, worker: usize) {
        // ORD: a hint; whoever switches recording on looks at all workers afterwards.
        if !anybody_records() || !self.is_recorded() {
            return;
        }
        let level = self.recorder.level.lock();
        self.recorder.equip(&self.memories[worker], *level, || self.name_of(worker));
    }

    /// Something that concerns a task, by whichever thread calls.
    pub(crate) fn note_here(&self, kind: EventKind, aux: usize, key: (Subject, u32)) {
        match Worker::here().filter(|memory| std::ptr::eq(memory.registry, self)) {
            Some(memory) => memory.lane.note(kind, aux, key),
            None => self.recorder.note_outside(clock::now(), kind, aux, key),
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
            None => self.recorder.note_outside(before, EventKind::Unpark, worker, key),
        }
        result
    }

    /// What has been recorded so far: of a pool that records into a file, what is in there.
    pub(crate) fn trace(&self) -> Trace {
        let end = clock::pair();
        let Some(rings) = self.recorder.rings.get() else {
            let mut trace = Trace::new(end, end);
            trace.threads = self.threads() as u32;
            return trace;
        };
        if let Some(stream) = &self.recorder.stream {
            return stream.read_back(rings);
        }
        let mut trace = Trace::new(rings.start, end);
        trace.threads = self.threads() as u32;
        trace.names =
            NAMES.lock().unwrap_or_else(|e| e.into_inner()).iter().map(|&n| n.into()).collect();
        trace.places = places::from(0);
        trace.facts = self.recorder.facts(rings);
        let last = rings.workers.iter().rposition(|lane| lane.get().is_some()).map_or(0, |n| n + 1);
        for (number, lane) in rings.workers[..last].iter().enumerate() {
            // Events name workers by their numbers, so none is left out.
            trace.lanes.push(match lane.get() {
                Some(lane) => lane.copy(),
                None => trace::Lane::new(self.name_of(number), Vec::new()),
            });
        }
        trace.lanes.extend(rings.outside.lock().copy());
        // Taken after the clock: what happened meanwhile lies beyond the trace's end. Tasks that ran when it was switched off have not
        // been seen to end.
        trace.end = rings.ended.lock().unwrap_or_else(clock::pair);
        trace
    }
}

impl Rings {
    fn new(recorder: &Recorder) -> Rings {
        NAMES.lock().unwrap_or_else(|e| e.into_inner()).reserve(256);
        places::reserve();
        Rings {
            workers: (0..recorder.workers).map(|_| OnceLock::new()).collect(),
            outside: Mutex::new(Outside::new(&recorder.settings)),
            ended: Mutex::new(None),
            event_ns: cost_of_an_event(),
            start: clock::pair(),
        }
    }
}

/// What it costs to record an event, in nanoseconds: the best of some tries.
fn cost_of_an_event() -> f64 {
    const EVENTS: u64 = 256;
    let Ok(scratch) = Record::new(EVENTS as usize, true) else { return 0.0 };
    let tries = (0..8).map(|_| {
        let start = Instant::now();
        (0..EVENTS).for_each(|n| scratch.push([clock::now(), n]));
        start.elapsed().as_nanos() as f64 / EVENTS as f64
    });
    tries.fold(f64::INFINITY, f64::min)
}
