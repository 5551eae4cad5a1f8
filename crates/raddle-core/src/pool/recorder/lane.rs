//! Where one worker records, and where threads from outside do.

use std::cell::Cell;
use std::collections::{TryReserveError, VecDeque};
use std::sync::{Arc, Weak};

use raddle_sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use raddle_sync::strand;
use raddle_trace::{self as trace, Event, EventKind, Subject, TraceLevel};

use super::per_process::PerProcess;
use super::stream::Saver;
use super::{NOTHING, Place, Rings, Settings, places};
use crate::pool::clock;
use crate::record::Record;

/// Ticks between two looks at the thread's processor time: some 15 us where tasks are recorded, so that each of some length
/// has its own, and half a millisecond where not, so that they cost nothing to speak of.
const LOOKS: (u64, u64) = (40_000, 1_000_000);
/// There is so much less room for the frame of a trace.
const FRAME: usize = 8;

/// Room for the frame, where there is so much for forks and tasks.
pub(super) fn frame_of(capacity: usize) -> usize {
    (capacity / FRAME).max(64)
}

/// Where one worker records.
#[derive(Debug)]
pub(crate) struct Lane {
    /// Null while nothing is recorded (RC1).
    rings: AtomicPtr<LaneRings>,
    tasks: AtomicBool,
}

/// One worker's rings.
#[derive(Debug)]
pub(super) struct LaneRings {
    pub(super) name: String,
    number: usize,
    pub(super) structure: Record,
    pub(super) forks: Record,
    /// From when on processor time is to be looked at again; the thread's own.
    due: AtomicU64,
    /// As which strand the thread held locks when it was last asked for its time.
    strand: AtomicU32,
    look: u64,
    /// Saves full rings.
    saver: Option<Saver>,
}

impl Lane {
    pub(crate) fn new() -> Lane {
        Lane { rings: AtomicPtr::new(std::ptr::null_mut()), tasks: AtomicBool::new(false) }
    }

    pub(super) fn set(&self, rings: Option<&LaneRings>, tasks: bool) {
        let rings = rings.map_or(std::ptr::null(), std::ptr::from_ref);
        // ORD: Release pairs with the Acquire in `rings`.
        self.rings.store(rings.cast_mut(), Ordering::Release);
        self.tasks.store(tasks, Ordering::Relaxed);
    }

    #[inline]
    fn rings(&self) -> Option<&LaneRings> {
        // ORD: Acquire pairs with the Release in `set`: the rings are complete.
        let rings = self.rings.load(Ordering::Acquire);
        // SAFETY: RC1.
        unsafe { rings.as_ref() }
    }

    /// Whether every fork and task is to be recorded.
    #[inline]
    pub(crate) fn has_tasks(&self) -> bool {
        // ORD: a hint: an event more or less at the switch.
        self.tasks.load(Ordering::Relaxed)
    }

    pub(crate) fn is_on(&self) -> bool {
        // ORD: a hint.
        !self.rings.load(Ordering::Relaxed).is_null()
    }

    /// Records an event, by the worker's own thread (RE1 of `record`).
    #[inline]
    pub(crate) fn note(&self, kind: EventKind, aux: usize, key: (Subject, u32)) {
        if let Some(rings) = self.rings() {
            rings.note(clock::now(), kind, key.0 as u8, aux, key);
        }
    }

    /// As `note`, of something that happened a moment ago.
    pub(crate) fn note_at(&self, tsc: u64, kind: EventKind, aux: usize, key: (Subject, u32)) {
        if let Some(rings) = self.rings() {
            rings.note(tsc, kind, key.0 as u8, aux, key);
        }
    }

    /// Records a fork or a task that was queued, the queue's length after that, and where in the source.
    #[cold]
    pub(crate) fn note_fork(&self, length: usize, place: Option<Place>, key: (Subject, u32)) {
        if let Some(rings) = self.rings() {
            let tsc = clock::now();
            let place = place.map_or(0, places::number);
            let flags = Event::fork_flags(key.0, length);
            rings.note(tsc, EventKind::Fork, flags, place.into(), key);
        }
    }

    /// Records as which strand the thread holds locks: also if it was that when it was here last, as it may have been elsewhere since.
    pub(crate) fn note_strand(&self) {
        if !self.is_on() {
            return;
        }
        let token = strand::with_local(strand::Local::token_or_zero);
        if token != 0 {
            self.note(EventKind::Strand, token as usize, NOTHING);
        }
    }
}

impl LaneRings {
    pub(super) fn new(
        number: usize,
        name: String,
        settings: &Settings,
        level: TraceLevel,
        saver: Option<Saver>,
    ) -> Result<LaneRings, TryReserveError> {
        let newest = settings.newest && saver.is_none();
        Ok(LaneRings {
            name,
            number,
            structure: Record::new(frame_of(settings.capacity), newest)?,
            forks: Record::new(settings.capacity, newest)?,
            due: AtomicU64::new(0),
            strand: AtomicU32::new(0),
            look: if level == TraceLevel::Tasks { LOOKS.0 } else { LOOKS.1 },
            saver,
        })
    }

    #[inline]
    fn note(&self, tsc: u64, kind: EventKind, flags: u8, aux: usize, key: (Subject, u32)) {
        let ring = if Event::is_structural(kind, key.0) { &self.structure } else { &self.forks };
        let event = words(tsc, kind, flags, aux, key.1);
        if !ring.try_push(event) {
            self.save(ring, event);
        }
        // ORD: the thread's own.
        if tsc >= self.due.load(Ordering::Relaxed) {
            self.look();
        }
    }

    /// Makes room in a full ring by saving it; or there is none, and the event is lost.
    #[cold]
    #[inline(never)]
    fn save(&self, ring: &Record, event: [u64; 2]) {
        let Some(saver) = &self.saver else { return ring.push(event) };
        let before = clock::now();
        saver.save(self.number);
        ring.push(event);
        let now = clock::now();
        let took = now.saturating_sub(before).min(u64::from(u32::MAX)) as u32;
        self.forks.push(words(now, EventKind::Save, 0, 0, took));
    }

    /// Records how much processor time the thread has had, and as which strand it holds locks, if that is another by now.
    #[cold]
    #[inline(never)]
    fn look(&self) {
        let time = clock::thread_time();
        let now = clock::now();
        // ORD: the thread's own.
        self.due.store(now + self.look, Ordering::Relaxed);
        if let Some(time) = time {
            let event = words(now, EventKind::Cpu, 0, this_thread().into(), time);
            if !self.forks.try_push(event) {
                self.save(&self.forks, event);
            }
        }
        let token = strand::with_local(strand::Local::token_or_zero);
        // ORD: the thread's own.
        if token != 0 && token != self.strand.swap(token, Ordering::Relaxed) {
            self.note(now, EventKind::Strand, NOTHING.0 as u8, token as usize, NOTHING);
        }
    }

    /// What is there, of both rings.
    pub(super) fn copy(&self) -> trace::Lane {
        let structure = self.structure.copy();
        let forks = self.forks.copy();
        let mut events = Vec::with_capacity(structure.events.len() + forks.events.len() + 1);
        let lost = (forks.first > 0).then(|| {
            let tsc = forks.events.first().map_or(0, |event| event[0]);
            words(tsc, EventKind::Drop, 0, 0, forks.first.min(u64::from(u32::MAX)) as u32)
        });
        let kept = forks.events.iter().copied();
        events.extend(both(&structure.events, lost.into_iter().chain(kept)).filter_map(event));
        trace::Lane {
            name: self.name.clone(),
            events,
            dropped: structure.first + structure.refused + forks.first + forks.refused,
            first: structure.first + forks.first,
        }
    }
}

/// The events of two rings in the order of time.
fn both(
    structure: &[[u64; 2]],
    forks: impl Iterator<Item = [u64; 2]>,
) -> impl Iterator<Item = [u64; 2]> {
    let (mut a, mut b) = (structure.iter().copied().peekable(), forks.peekable());
    std::iter::from_fn(move || match (a.peek(), b.peek()) {
        (Some(first), Some(second)) if first[0] <= second[0] => a.next(),
        (_, Some(_)) => b.next(),
        (_, None) => a.next(),
    })
}

#[inline]
fn words(tsc: u64, kind: EventKind, flags: u8, aux: usize, task: u32) -> [u64; 2] {
    let aux = aux.min(usize::from(u16::MAX)) as u64;
    [tsc, kind as u64 | u64::from(flags) << 8 | aux << 16 | u64::from(task) << 32]
}

/// As a file has it: the words of an event are its bytes, from the least on.
#[inline]
pub(super) fn bytes(&[tsc, word]: &[u64; 2]) -> [u8; Event::SIZE] {
    (u128::from(tsc) | u128::from(word) << 64).to_le_bytes()
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

// --- threads from outside ---

/// What threads from outside record, under a lock: each event with the number of its thread.
#[derive(Debug)]
pub(super) struct Outside {
    events: VecDeque<(u16, [u64; 2])>,
    capacity: usize,
    newest: bool,
    /// Events that were overwritten, or taken out.
    gone: u64,
    dropped: u64,
    /// Its file takes them out.
    saved: bool,
}

impl Outside {
    pub(super) fn new(settings: &Settings) -> Outside {
        let saved = settings.file.is_some();
        // Few, as a rule.
        let capacity = settings.capacity.min(1 << 14);
        Outside {
            events: VecDeque::with_capacity(capacity),
            capacity,
            newest: settings.newest,
            gone: 0,
            dropped: 0,
            saved,
        }
    }

    pub(super) fn push(&mut self, tsc: u64, kind: EventKind, aux: usize, key: (Subject, u32)) {
        if self.events.len() >= self.capacity && !self.saved {
            self.dropped += 1;
            if !self.newest {
                return;
            }
            self.events.pop_front();
            self.gone += 1;
        }
        let length = if kind == EventKind::Fork { 1 } else { 0 };
        let flags = if length > 0 { Event::fork_flags(key.0, length) } else { key.0 as u8 };
        self.events.push_back((this_thread(), words(tsc, kind, flags, aux, key.1)));
    }

    /// Takes all events out.
    pub(super) fn take(&mut self) -> Vec<(u16, [u64; 2])> {
        self.gone += self.events.len() as u64;
        self.events.drain(..).collect()
    }

    /// A lane for each thread. What was lost counts for the first of them.
    pub(super) fn copy(&self) -> Vec<trace::Lane> {
        let mut lanes: Vec<(u16, trace::Lane)> = Vec::new();
        for &(whose, words) in &self.events {
            let Some(event) = event(words) else { continue };
            let at = lanes.iter().position(|lane| lane.0 == whose).unwrap_or_else(|| {
                lanes.push((whose, trace::Lane::new(name_of(whose), Vec::new())));
                lanes.len() - 1
            });
            lanes[at].1.events.push(event);
        }
        if let Some((_, lane)) = lanes.first_mut() {
            lane.dropped = self.dropped;
        }
        lanes.into_iter().map(|lane| lane.1).collect()
    }
}

/// The pools that record now, for threads that work in none.
static POOLS: PerProcess<Vec<Weak<Rings>>> = PerProcess::new(Vec::new());

pub(super) fn know_outside(rings: &Arc<Rings>) {
    let mut pools = POOLS.lock();
    // It is there already if only the level changes.
    pools.retain(|pool| !std::ptr::eq(pool.as_ptr(), Arc::as_ptr(rings)));
    pools.push(Arc::downgrade(rings));
}

/// From now on nothing more is recorded there.
pub(super) fn forget_outside(rings: &Arc<Rings>) {
    let mut pools = POOLS.lock();
    pools.retain(|pool| !std::ptr::eq(pool.as_ptr(), Arc::as_ptr(rings)));
}

/// What a thread does that works in no pool: for all that record.
pub(super) fn note_outside_all(kind: EventKind, aux: usize, key: (Subject, u32)) {
    let tsc = clock::now();
    let pools = POOLS.lock();
    for rings in pools.iter().filter_map(Weak::upgrade) {
        rings.outside.lock().push(tsc, kind, aux, key);
    }
}

thread_local! {
    /// This thread's number among those that record; 0: none yet.
    static THREAD: Cell<u16> = const { Cell::new(0) };
}

/// The names of threads, by number.
static THREADS: PerProcess<Vec<Option<String>>> = PerProcess::new(Vec::new());

fn this_thread() -> u16 {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    let mut number = THREAD.get();
    if number == 0 {
        number = (NEXT.fetch_add(1, Ordering::Relaxed) % usize::from(u16::MAX)) as u16 + 1;
        THREAD.set(number);
        let mut threads = THREADS.lock();
        let room = threads.len().max(usize::from(number) + 1);
        threads.resize(room, None);
        // Of a thread whose locals are gone there is none; a lock may tell of it all the same.
        threads[usize::from(number)] = raddle_sync::thread_name();
    }
    number
}

/// How a thread from outside is called.
pub(super) fn name_of(number: u16) -> String {
    let threads = THREADS.lock();
    match threads.get(usize::from(number)) {
        Some(Some(name)) => format!("outside ({name})"),
        _ => format!("outside {number}"),
    }
}
