//! Recording into a file while the pool runs.
//!
//! A thread of its own saves what was recorded some forty times a second, and a worker whose ring is full saves it itself.
//! So nothing is lost while the disk keeps up, and what a killed program leaves is read but for its last 25 ms.

use std::fs::File;
use std::io::{self, BufWriter};
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use raddle_sync::fork;
use raddle_trace::file::Ring;
use raddle_trace::{self as trace, EventKind, Trace, Writer};

use super::lane::{bytes, name_of};
use super::quiet::Quiet;
use super::region::NAMES;
use super::taken::Taken;
use super::{Rings, Settings, places, room};
use crate::pool::clock;

/// How often all rings are saved.
const PERIOD: Duration = Duration::from_millis(25);

/// A file that a pool records to.
#[derive(Debug)]
pub(super) struct Stream {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    file: Mutex<Saved>,
    /// The process whose file it is, which a child of it has nothing to do with: see [`fork::generation`].
    generation: u32,
    /// Whether the saving thread is to end.
    over: Mutex<bool>,
    end: Condvar,
}

#[derive(Debug)]
struct Saved {
    /// Wherever the process works by the time that it is read back.
    path: PathBuf,
    /// None: ended, or it could not be written, which has been said.
    writer: Option<Writer<BufWriter<File>>>,
    /// What was described so far: its lanes have no events.
    known: Trace,
    /// How many names, places and lanes were described.
    described: (usize, usize, usize),
    /// Where each worker's lane is in the file, and each outside thread's.
    workers: Vec<Option<usize>>,
    outside: Vec<(u16, usize, u64)>,
    /// As long as it is written.
    taken: Option<Taken>,
    /// It takes room on a disk.
    takes_room: bool,
}

/// A worker's way to save its full ring.
#[derive(Debug)]
pub(super) struct Saver {
    shared: Arc<Shared>,
    rings: Weak<Rings>,
}

impl Saver {
    pub(super) fn save(&self, number: usize) {
        let Some(rings) = self.rings.upgrade().filter(|_| !self.shared.is_forked()) else { return };
        let mut file = self.shared.file();
        let saved = file.lane(&rings, number);
        file.check(saved);
    }
}

impl Shared {
    /// Whether this is a child of the process whose file it is: another thread of that one may have had it locked.
    fn is_forked(&self) -> bool {
        self.generation != fork::generation()
    }

    fn file(&self) -> Held<'_> {
        let quiet = Quiet::begin();
        Held { file: self.file.lock().unwrap_or_else(|e| e.into_inner()), _quiet: quiet }
    }
}

/// The file, which only this thread writes to, and harms nobody by that.
struct Held<'a> {
    file: MutexGuard<'a, Saved>,
    /// Longer than the lock.
    _quiet: Quiet,
}

impl Deref for Held<'_> {
    type Target = Saved;

    fn deref(&self) -> &Saved {
        &self.file
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut Saved {
        &mut self.file
    }
}

impl Stream {
    /// None: it is recorded into no file.
    pub(super) fn create(settings: &Settings) -> io::Result<Option<Stream>> {
        let Some(path) = &settings.file else { return Ok(None) };
        let _quiet = Quiet::begin();
        let path = std::path::absolute(path)?;
        let taken = if settings.taken { None } else { Taken::of(&path)? };
        let writer = Writer::new(BufWriter::new(File::create(&path)?))?;
        let zero = trace::ClockPair { tsc: 0, nanos: 0 };
        let saved = Saved {
            takes_room: settings.taken || taken.is_some(),
            path,
            writer: Some(writer),
            known: Trace::new(zero, zero),
            described: (0, 0, 0),
            workers: Vec::new(),
            outside: Vec::new(),
            taken,
        };
        let shared = Shared {
            file: Mutex::new(saved),
            generation: fork::generation(),
            over: Mutex::new(false),
            end: Condvar::new(),
        };
        Ok(Some(Stream { shared: Arc::new(shared), thread: Mutex::new(None) }))
    }

    pub(super) fn saver(&self, rings: &Arc<Rings>) -> Saver {
        Saver { shared: Arc::clone(&self.shared), rings: Arc::downgrade(rings) }
    }

    /// Begins to save, or if that has begun notes what is known of the recording by now.
    pub(super) fn start(
        &self,
        rings: &Arc<Rings>,
        threads: usize,
        facts: impl FnOnce() -> Vec<(String, String)>,
    ) {
        if self.shared.is_forked() {
            return;
        }
        let mut thread = self.thread.lock().unwrap_or_else(|e| e.into_inner());
        let mut file = self.shared.file();
        if thread.is_some() {
            for fact in facts() {
                if file.known.fact(&fact.0) != Some(&fact.1) {
                    file.known.facts.push(fact);
                }
            }
            return;
        }
        (file.known.start, file.known.threads) = (rings.start, threads as u32);
        file.known.facts = facts();
        file.workers = vec![None; rings.workers.len()];
        // Whatever happens to the process from now on, there is something to read.
        file.all(rings);
        drop(file);
        let (shared, rings) = (Arc::clone(&self.shared), Arc::clone(rings));
        // Boxed, as `raddle_sync::start` has it: what starting takes is compiled there.
        let run: Box<dyn FnOnce() + Send> = Box::new(move || {
            let mut over = shared.over.lock().unwrap_or_else(|e| e.into_inner());
            while !*over {
                drop(over);
                shared.file().all(&rings);
                over = shared.over.lock().unwrap_or_else(|e| e.into_inner());
                if !*over {
                    let waited = shared.end.wait_timeout(over, PERIOD);
                    over = waited.unwrap_or_else(|e| e.into_inner()).0;
                }
            }
        });
        // Without one, rings are saved when they are full, and at the end.
        *thread = thread::Builder::new().name("raddle-trace".into()).spawn(run).ok();
    }

    /// Saves all and ends the file.
    pub(super) fn finish(&self, rings: &Arc<Rings>) {
        *self.shared.over.lock().unwrap_or_else(|e| e.into_inner()) = true;
        self.shared.end.notify_all();
        let thread = self.thread.lock().unwrap_or_else(|e| e.into_inner()).take();
        if let Some(thread) = thread {
            // It has told of what went wrong itself.
            let _ = thread.join();
        }
        let mut file = self.shared.file();
        file.all(rings);
        if let Some(writer) = file.writer.take() {
            let ended = writer.finish().map(|_| ());
            file.check(ended);
        }
        file.taken = None;
    }

    /// Ends the file of a pool that was never recorded: a trace of nothing.
    pub(super) fn finish_empty(&self, threads: usize) {
        let mut file = self.shared.file();
        let Some(mut writer) = file.writer.take() else { return };
        let now = clock::pair();
        (file.known.start, file.known.end, file.known.threads) = (now, now, threads as u32);
        let ended = writer.describe(&file.known).and_then(|()| writer.finish().map(|_| ()));
        file.check(ended);
        file.taken = None;
    }

    /// What is in the file, everything recorded so far saved before. In a child of the process whose file it is, nothing.
    pub(super) fn read_back(&self, rings: &Arc<Rings>) -> Trace {
        if self.shared.is_forked() {
            return Trace::new(rings.start, rings.start);
        }
        let mut file = self.shared.file();
        file.all(rings);
        let read = Trace::load_damaged(&file.path);
        read.map_or_else(|_| file.known.clone(), |(trace, _)| trace)
    }
}

impl Saved {
    /// After a failure nothing is written any more, and that is said once.
    fn check(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.writer = None;
            raddle_sync::say(format_args!(
                "{}: the trace cannot be written any further: {error}",
                self.path.display()
            ));
        }
    }

    fn all(&mut self, rings: &Rings) {
        let result = self.try_all(rings);
        self.check(result);
    }

    fn try_all(&mut self, rings: &Rings) -> io::Result<()> {
        if self.takes_room && self.writer.is_some() && room::is_scarce(&self.path) {
            return Err(io::Error::other("there is hardly any room left on the disk"));
        }
        for number in 0..rings.workers.len() {
            if rings.workers[number].get().is_some() {
                self.lane(rings, number)?;
            }
        }
        let events = rings.outside.lock().take();
        for (whose, words) in events {
            let at = self.outside.iter().position(|known| known.0 == whose);
            let at = at.unwrap_or_else(|| {
                self.outside.push((whose, self.known.lanes.len(), 0));
                self.known.lanes.push(trace::Lane::new(name_of(whose), Vec::new()));
                self.outside.len() - 1
            });
            let (_, lane, first) = self.outside[at];
            let mut words = words;
            self.rename(rings, &mut words);
            self.describe(rings, false)?;
            if let Some(writer) = &mut self.writer {
                writer.events(lane, Ring::Structure, first, 0, [bytes(&words)].into_iter())?;
            }
            self.outside[at].2 += 1;
        }
        self.describe(rings, true)?;
        self.writer.as_mut().map_or(Ok(()), Writer::flush)
    }

    /// Saves one worker's rings.
    fn lane(&mut self, rings: &Rings, number: usize) -> io::Result<()> {
        let Some(lane) = rings.workers[number].get() else { return Ok(()) };
        let at = self.place(rings, number);
        for (ring, record) in [(Ring::Structure, &lane.structure), (Ring::Forks, &lane.forks)] {
            record.drain(|first, mut events| {
                if events.is_empty() && record.refused() == 0 {
                    return Ok(());
                }
                events.iter_mut().for_each(|words| self.rename(rings, words));
                self.describe(rings, false)?;
                match &mut self.writer {
                    Some(writer) => {
                        let events = events.iter().map(bytes);
                        writer.events(at, ring, first, record.refused(), events)
                    }
                    None => Ok(()),
                }
            })?;
        }
        self.writer.as_mut().map_or(Ok(()), Writer::flush)
    }

    /// A worker's lane in the file. Those before it that are there come first: so a pool's own threads are in their order, whichever
    /// did something first.
    fn place(&mut self, rings: &Rings, number: usize) -> usize {
        if self.workers.len() <= number {
            self.workers.resize(number + 1, None);
        }
        if let Some(lane) = self.workers[number] {
            return lane;
        }
        for (number, lane) in self.workers[..number].iter_mut().enumerate() {
            if let (None, Some(rings)) = (&lane, rings.workers[number].get()) {
                *lane = Some(self.known.lanes.len());
                self.known.lanes.push(trace::Lane::new(rings.name.clone(), Vec::new()));
            }
        }
        let name = rings.workers[number].get().map(|lane| lane.name.clone());
        let lane = self.known.lanes.len();
        self.known.lanes.push(trace::Lane::new(name.unwrap_or_default(), Vec::new()));
        self.workers[number] = Some(lane);
        lane
    }

    /// Has an event name workers by their lanes in the file, as it does when it is written.
    fn rename(&mut self, rings: &Rings, words: &mut [u64; 2]) {
        use EventKind::{Ask, Steal, Unpark, WorkerDie, WorkerSpawn};
        const NAMING: [u8; 5] =
            [Ask as u8, Steal as u8, Unpark as u8, WorkerDie as u8, WorkerSpawn as u8];
        if NAMING.contains(&(words[1] as u8)) {
            let number = usize::from((words[1] >> 16) as u16);
            if number < rings.workers.len() {
                let lane = self.place(rings, number) as u16;
                words[1] = words[1] & !0xffff_0000 | u64::from(lane) << 16;
            }
        }
    }

    /// Writes what lanes, names and places are new, and with them, or if it is `due`, the clock.
    fn describe(&mut self, rings: &Rings, due: bool) -> io::Result<()> {
        let names = NAMES.lock().unwrap_or_else(|e| e.into_inner());
        let more: Vec<String> =
            names.iter().skip(self.known.names.len()).map(|&name| name.into()).collect();
        drop(names);
        self.known.names.extend(more);
        let more = places::from(self.known.places.len());
        self.known.places.extend(more);
        let all = (self.known.names.len(), self.known.places.len(), self.known.lanes.len());
        if !due && all == self.described {
            return Ok(());
        }
        self.described = all;
        // What runs when recording is switched off is not taken to have run until the file ends.
        self.known.end = rings.ended.lock().unwrap_or_else(clock::pair);
        match &mut self.writer {
            Some(writer) => writer.describe(&self.known),
            None => Ok(()),
        }
    }
}
