//! Recording into a file while the pool runs.
//!
//! A thread of its own saves what was recorded some forty times a second, and a worker whose ring is full saves it itself.
//! So nothing is lost while the disk keeps up, and what a killed program leaves is read but for its last 25 ms.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use raddle_trace::file::Ring;
use raddle_trace::{self as trace, Event, EventKind, Trace, Writer};

use super::lane::{event, name_of};
use super::region::NAMES;
use super::{Rings, places};
use crate::pool::clock;

/// How often all rings are saved.
const PERIOD: Duration = Duration::from_millis(25);

/// A file that a pool records to.
#[derive(Debug)]
pub(super) struct Stream {
    path: PathBuf,
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    file: Mutex<Saved>,
    /// Whether the saving thread is to end.
    over: Mutex<bool>,
    end: Condvar,
}

#[derive(Debug)]
struct Saved {
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
}

/// The files that pools record to now: two in one would be of no use to either.
static TAKEN: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A file that no other pool records to meanwhile.
#[derive(Debug)]
struct Taken(PathBuf);

impl Taken {
    /// Links lead to the same file, and files that are none (devices, pipes) take what many write.
    fn of(path: &Path) -> io::Result<Option<Taken>> {
        if path.exists() && !path.is_file() {
            return Ok(None);
        }
        // Made if need be, also where a link leads, and as it was: whoever records to it now goes on.
        File::options().append(true).create(true).open(path)?;
        let path = path.canonicalize()?;
        let mut taken = TAKEN.lock().unwrap_or_else(|e| e.into_inner());
        if taken.contains(&path) {
            let why = "another pool records into it";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        }
        taken.push(path.clone());
        Ok(Some(Taken(path)))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        TAKEN.lock().unwrap_or_else(|e| e.into_inner()).retain(|path| *path != self.0);
    }
}

/// A worker's way to save its full ring.
#[derive(Debug)]
pub(super) struct Saver {
    shared: Arc<Shared>,
    rings: Weak<Rings>,
}

impl Saver {
    pub(super) fn save(&self, number: usize) {
        let Some(rings) = self.rings.upgrade() else { return };
        let mut file = self.shared.file();
        let saved = file.lane(&rings, number);
        file.check(saved);
    }
}

impl Shared {
    fn file(&self) -> MutexGuard<'_, Saved> {
        self.file.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Stream {
    pub(super) fn create(path: &Path) -> io::Result<Stream> {
        let taken = Taken::of(path)?;
        let writer = Writer::new(BufWriter::new(File::create(path)?))?;
        let zero = trace::ClockPair { tsc: 0, nanos: 0 };
        let saved = Saved {
            writer: Some(writer),
            known: Trace::new(zero, zero),
            described: (0, 0, 0),
            workers: Vec::new(),
            outside: Vec::new(),
            taken,
        };
        let shared =
            Shared { file: Mutex::new(saved), over: Mutex::new(false), end: Condvar::new() };
        // Read back also when the process works elsewhere by then.
        let path = std::path::absolute(path)?;
        Ok(Stream { path, shared: Arc::new(shared), thread: Mutex::new(None) })
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
        drop(file);
        let (shared, rings) = (Arc::clone(&self.shared), Arc::clone(rings));
        let run = move || {
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
        };
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

    /// What is in the file, everything recorded so far saved before.
    pub(super) fn read_back(&self, rings: &Arc<Rings>) -> Trace {
        let mut file = self.shared.file();
        file.all(rings);
        let read = Trace::load_damaged(&self.path);
        read.map_or_else(|_| file.known.clone(), |(trace, _)| trace)
    }
}

impl Saved {
    /// After a failure nothing is written any more, and that is said once.
    fn check(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.writer = None;
            raddle_sync::say(format_args!("the trace cannot be written any further: {error}"));
        }
    }

    fn all(&mut self, rings: &Rings) {
        let result = self.try_all(rings);
        self.check(result);
    }

    fn try_all(&mut self, rings: &Rings) -> io::Result<()> {
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
            let Some(bytes) = self.bytes(rings, words) else { continue };
            self.describe(rings, false)?;
            if let Some(writer) = &mut self.writer {
                writer.events(lane, Ring::Structure, first, 0, [bytes].into_iter())?;
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
            record.drain(|first, events| {
                if events.is_empty() && record.refused() == 0 {
                    return Ok(());
                }
                let bytes: Vec<_> =
                    events.into_iter().filter_map(|words| self.bytes(rings, words)).collect();
                self.describe(rings, false)?;
                match &mut self.writer {
                    Some(writer) => {
                        writer.events(at, ring, first, record.refused(), bytes.into_iter())
                    }
                    None => Ok(()),
                }
            })?;
        }
        self.writer.as_mut().map_or(Ok(()), Writer::flush)
    }

    /// A worker's lane in the file.
    fn place(&mut self, rings: &Rings, number: usize) -> usize {
        if self.workers.len() <= number {
            self.workers.resize(number + 1, None);
        }
        *self.workers[number].get_or_insert_with(|| {
            let name = rings.workers[number].get().map(|lane| lane.name.clone());
            self.known.lanes.push(trace::Lane::new(name.unwrap_or_default(), Vec::new()));
            self.known.lanes.len() - 1
        })
    }

    /// An event as it is written: workers by their lanes in the file.
    fn bytes(&mut self, rings: &Rings, words: [u64; 2]) -> Option<[u8; Event::SIZE]> {
        let mut event = event(words)?;
        use EventKind::{Ask, Steal, Unpark, WorkerDie, WorkerSpawn};
        if matches!(event.kind, Ask | Steal | Unpark | WorkerDie | WorkerSpawn) {
            let number = usize::from(event.aux);
            if number < rings.workers.len() {
                event.aux = self.place(rings, number) as u16;
            }
        }
        Some(event.to_bytes())
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
