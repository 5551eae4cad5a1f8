//! Writing a trace: at once, or piece by piece while a pool runs.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::{DAMAGE, MAGIC, MOST_LANES, VERSION, chunk};
use crate::event::Event;
use crate::trace::{Lane, Trace};

/// Events in one chunk, at most.
const BATCH: usize = 4096;

/// Writes traces of one pool, taken one after the other, to one file: of each only what is new.
///
/// After every [`append`](Writer::append) the file is good for reading up to there, whatever happens to
/// the program; a file that [`finish`](Writer::finish) has not ended is read as a damaged one.
///
/// ```
/// use raddle_trace::{ClockPair, Event, EventKind, Lane, Trace, Writer};
///
/// let mut trace = Trace::new(ClockPair { tsc: 0, nanos: 0 }, ClockPair { tsc: 9, nanos: 9 });
/// trace.lanes.push(Lane::new("worker 0", vec![Event::new(5, EventKind::Park, 0)]));
/// let mut file = Vec::new();
/// let mut writer = Writer::new(&mut file)?;
/// writer.append(&trace)?;
/// trace.lanes[0].events.push(Event::new(8, EventKind::Unparked, 0));
/// writer.append(&trace)?;
/// writer.finish()?;
/// assert_eq!(Trace::read(&file[..])?, trace);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Writer<W: Write> {
    to: W,
    names: usize,
    places: usize,
    facts: usize,
    /// Of each lane that has been named: the number of the next event.
    lanes: Vec<u64>,
    written: u64,
}

/// Which of a lane's two buffers events come from: they are numbered apart, and each is in the order of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ring {
    /// All events, or those for which [`Event::is_structural`] holds.
    Structure = 0,
    /// Forks and tasks.
    Forks = 1,
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn new(mut to: W) -> io::Result<Writer<W>> {
        to.write_all(&MAGIC)?;
        to.write_all(&VERSION.to_le_bytes())?;
        Ok(Writer { to, names: 0, places: 0, facts: 0, lanes: Vec::new(), written: 0 })
    }

    /// Adds the clock, names, places, facts and lanes of `trace`, and none of its events; does not flush.
    ///
    /// # Errors
    ///
    /// As for [`append`](Writer::append).
    pub fn describe(&mut self, trace: &Trace) -> io::Result<()> {
        if trace.lanes.len() > MOST_LANES as usize
            || trace.names.len() >= MOST_LANES as usize
            || trace.places.len() >= MOST_LANES as usize
        {
            let what = "more than 65536 lanes, names or places";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let clock = [trace.start.tsc, trace.start.nanos, trace.end.tsc, trace.end.nanos];
        let mut payload: Vec<u8> = clock.iter().flat_map(|n| n.to_le_bytes()).collect();
        payload.extend(trace.threads.to_le_bytes());
        payload.extend((trace.lanes.len() as u32).to_le_bytes());
        self.chunk(chunk::CLOCK, &payload)?;
        for name in trace.names.iter().skip(self.names) {
            self.chunk(chunk::NAME, clipped(name).as_bytes())?;
        }
        self.names = self.names.max(trace.names.len());
        for place in trace.places.iter().skip(self.places) {
            self.chunk(chunk::PLACE, clipped(place).as_bytes())?;
        }
        self.places = self.places.max(trace.places.len());
        for (name, value) in trace.facts.iter().skip(self.facts).filter(|fact| fact.0 != DAMAGE) {
            let text = format!("{}={}", clipped(name), clipped(value));
            self.chunk(chunk::FACT, text.as_bytes())?;
        }
        self.facts = self.facts.max(trace.facts.len());
        for (number, lane) in trace.lanes.iter().enumerate().skip(self.lanes.len()) {
            let mut payload = (number as u32).to_le_bytes().to_vec();
            payload.extend(clipped(&lane.name).as_bytes());
            self.chunk(chunk::LANE, &payload)?;
            self.lanes.push(0);
        }
        Ok(())
    }

    /// Adds events of one buffer of a lane that was described, the first of them number `first` there; `refused` have
    /// been lost so far because the buffer was full. Does not flush.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn events(
        &mut self,
        lane: usize,
        ring: Ring,
        mut first: u64,
        refused: u64,
        events: impl ExactSizeIterator<Item = [u8; Event::SIZE]>,
    ) -> io::Result<()> {
        let mut left = events.len();
        let mut events = events;
        loop {
            let batch = left.min(BATCH);
            let mut payload = Vec::with_capacity(24 + batch * Event::SIZE);
            payload.extend((lane as u32).to_le_bytes());
            payload.extend((ring as u32).to_le_bytes());
            payload.extend(first.to_le_bytes());
            payload.extend(refused.to_le_bytes());
            events.by_ref().take(batch).for_each(|event| payload.extend_from_slice(&event));
            self.chunk(chunk::EVENTS, &payload)?;
            first = first.saturating_add(batch as u64);
            self.written += batch as u64;
            left -= batch;
            if left == 0 {
                return Ok(());
            }
        }
    }

    /// Has all that was written arrive.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    /// Adds what `trace` has that the traces before had not, and flushes.
    ///
    /// # Errors
    ///
    /// If it cannot be written, or has more lanes than events can name.
    pub fn append(&mut self, trace: &Trace) -> io::Result<()> {
        self.describe(trace)?;
        for (number, lane) in trace.lanes.iter().enumerate() {
            self.lane(number, lane)?;
        }
        self.to.flush()
    }

    fn lane(&mut self, number: usize, lane: &Lane) -> io::Result<()> {
        let known = usize::try_from(self.lanes[number].saturating_sub(lane.first));
        let known = known.unwrap_or(usize::MAX).min(lane.events.len());
        let first = lane.first.saturating_add(known as u64);
        let new = &lane.events[known..];
        // A lane without new events may have lost some all the same.
        if !new.is_empty() || lane.dropped > 0 {
            let refused = lane.dropped.saturating_sub(lane.first);
            let bytes = new.iter().map(|event| event.to_bytes());
            self.events(number, Ring::Structure, first, refused, bytes)?;
        }
        self.lanes[number] = first.saturating_add(new.len() as u64);
        Ok(())
    }

    /// Ends the file.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        let written = self.written;
        self.chunk(chunk::END, &written.to_le_bytes())?;
        self.to.flush()?;
        Ok(self.to)
    }

    fn chunk(&mut self, kind: u32, payload: &[u8]) -> io::Result<()> {
        self.to.write_all(&kind.to_le_bytes())?;
        self.to.write_all(&(payload.len() as u32).to_le_bytes())?;
        self.to.write_all(&chunk::checksum(kind, payload).to_le_bytes())?;
        self.to.write_all(payload)
    }
}

/// The beginning of a name that is longer than anybody reads.
fn clipped(name: &str) -> &str {
    let mut end = name.len().min(1000);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

impl Trace {
    /// Writes the trace to a file, which is replaced if there is one.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.save_as(path.as_ref())
    }

    /// Compiled here, and with it what a pool that records into a file takes of a [`Writer`] to one.
    fn save_as(&self, path: &Path) -> io::Result<()> {
        self.write(BufWriter::new(File::create(path)?))
    }

    /// Writes the trace to anything.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn write(&self, to: impl Write) -> io::Result<()> {
        let mut writer = Writer::new(to)?;
        writer.append(self)?;
        writer.finish().map(|_| ())
    }
}
