//! Reading a trace, trusting nothing: memory grows with what was read, never with what a length claims.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use super::{DAMAGE, Damage, LoadError, MAGIC, MOST_LANES, MOST_PAYLOAD, VERSION, chunk};
use crate::event::{Event, EventKind};
use crate::trace::{ClockPair, Lane, Trace};

impl Trace {
    /// Reads a trace from a file.
    ///
    /// # Errors
    ///
    /// [`LoadError`], which says what is wrong and where.
    pub fn load(path: impl AsRef<Path>) -> Result<Trace, LoadError> {
        Trace::read(BufReader::new(File::open(path)?))
    }

    /// Reads a trace from anything. See [`file`](crate::file).
    ///
    /// # Errors
    ///
    /// As for [`Trace::load`].
    pub fn read(from: impl Read) -> Result<Trace, LoadError> {
        match Trace::read_damaged(from)? {
            (trace, None) => Ok(trace),
            (_, Some(damage)) => Err(LoadError::Damaged(damage)),
        }
    }

    /// As [`Trace::load`], but where the file is damaged or cut short, what comes before it, and the
    /// damage.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or is no trace at all.
    pub fn load_damaged(path: impl AsRef<Path>) -> Result<(Trace, Option<Damage>), LoadError> {
        Trace::read_damaged(BufReader::new(File::open(path)?))
    }

    /// As [`Trace::load_damaged`], from anything.
    ///
    /// # Errors
    ///
    /// As for [`Trace::load_damaged`].
    pub fn read_damaged(mut from: impl Read) -> Result<(Trace, Option<Damage>), LoadError> {
        Trace::read_from(&mut from)
    }

    fn read_from(from: &mut dyn Read) -> Result<(Trace, Option<Damage>), LoadError> {
        let mut reader = Reader::new(from)?;
        let damage = loop {
            match reader.chunk() {
                Ok(true) => {}
                Ok(false) => break None,
                Err(Stop::Io(error)) => return Err(LoadError::Io(error)),
                Err(Stop::Damage(damage)) => break Some(damage),
            }
        };
        reader.cut_short = damage.is_some();
        if let (None, Some(damage)) = (reader.clock, &damage) {
            return Err(LoadError::Damaged(damage.clone()));
        }
        Ok((reader.finish(), damage))
    }
}

/// Why reading stops.
enum Stop {
    Io(std::io::Error),
    Damage(Damage),
}

/// Of whatever kind, so that it is compiled here and once.
struct Reader<'a> {
    from: &'a mut dyn Read,
    /// Of the next byte.
    offset: u64,
    /// Of the chunk in hand.
    at: u64,
    trace: Trace,
    /// How many lanes there are to be, once that was said.
    clock: Option<u32>,
    /// Of each lane's two buffers.
    next: Vec<[Buffer; 2]>,
    events: u64,
    version: u32,
    cut_short: bool,
}

/// What was read so far of one buffer of a lane.
#[derive(Default)]
struct Buffer {
    /// The number of the next event.
    next: u64,
    events: Vec<Event>,
    /// The number of the first event that there is.
    first: u64,
    /// Lost before the first event or between two.
    overwritten: u64,
    refused: u64,
}

impl Reader<'_> {
    fn new(from: &mut dyn Read) -> Result<Reader<'_>, LoadError> {
        let zero = ClockPair { tsc: 0, nanos: 0 };
        let mut reader = Reader {
            from,
            offset: 0,
            at: 0,
            trace: Trace::new(zero, zero),
            clock: None,
            next: Vec::new(),
            events: 0,
            version: VERSION,
            cut_short: false,
        };
        let header = reader.bytes(12)?;
        let foreign =
            |offset, what: String| Err(LoadError::Foreign(Damage { offset, what, cut: false }));
        if header.is_empty() {
            return foreign(0, "the file is empty".into());
        }
        let same = header.iter().zip(MAGIC).take_while(|(a, b)| **a == *b).count();
        if same < MAGIC.len().min(header.len()) {
            return foreign(same as u64, "not a trace: it does not begin with RADDLETR".into());
        }
        let Some(&version) = header.get(8..).and_then(<[u8]>::first_chunk) else {
            return foreign(header.len() as u64, "the file ends within its header".into());
        };
        reader.version = u32::from_le_bytes(version);
        match reader.version {
            1..=VERSION => Ok(reader),
            version => foreign(
                8,
                format!("format version {version}, and this program reads versions 1 to {VERSION}"),
            ),
        }
    }

    /// Up to so many bytes: fewer at the end of the file.
    fn bytes(&mut self, most: u32) -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        (&mut self.from).take(u64::from(most)).read_to_end(&mut bytes)?;
        self.offset += bytes.len() as u64;
        Ok(bytes)
    }

    fn damage(&self, what: impl Into<String>) -> Stop {
        Stop::Damage(Damage { offset: self.at, what: what.into(), cut: false })
    }

    /// The file ends too early.
    fn cut(&self, what: impl Into<String>) -> Stop {
        Stop::Damage(Damage { offset: self.at, what: what.into(), cut: true })
    }

    /// Reads one chunk. False: it was the last.
    fn chunk(&mut self) -> Result<bool, Stop> {
        self.at = self.offset;
        let header = self.bytes(chunk::HEADER as u32).map_err(Stop::Io)?;
        let Ok(header) = <[u8; chunk::HEADER]>::try_from(&header[..]) else {
            return Err(self.cut(if header.is_empty() {
                "the file ends here, without a chunk that says so: its writer was cut off"
            } else {
                "the file ends within a chunk's header"
            }));
        };
        let [k0, k1, k2, k3, l0, l1, l2, l3, c0, c1, c2, c3] = header;
        let kind = u32::from_le_bytes([k0, k1, k2, k3]);
        let length = u32::from_le_bytes([l0, l1, l2, l3]);
        let checksum = u32::from_le_bytes([c0, c1, c2, c3]);
        if length > MOST_PAYLOAD {
            return Err(self.damage(format!("a chunk of {length} bytes: at most {MOST_PAYLOAD}")));
        }
        let payload = self.bytes(length).map_err(Stop::Io)?;
        if payload.len() < length as usize {
            let got = payload.len();
            // The events that are whole are whole without the rest, though no checksum says so.
            if let Some(whole) = got.checked_sub(24).filter(|_| kind == chunk::EVENTS) {
                self.read_events(&payload[..24 + whole / Event::SIZE * Event::SIZE])?;
            }
            return Err(self.cut(format!("the file ends {got} bytes into a chunk of {length}")));
        }
        if chunk::checksum(kind, &payload) != checksum {
            return Err(self.damage("a chunk's checksum is wrong"));
        }
        match kind {
            chunk::CLOCK => self.read_clock(&payload)?,
            chunk::NAME => {
                if self.trace.names.len() + 1 >= MOST_LANES as usize {
                    return Err(self.damage("more than 65535 names"));
                }
                let name = self.text(&payload)?;
                self.trace.names.push(name);
            }
            chunk::PLACE => {
                if self.trace.places.len() + 1 >= MOST_LANES as usize {
                    return Err(self.damage("more than 65535 places"));
                }
                let place = self.text(&payload)?;
                self.trace.places.push(place);
            }
            chunk::FACT => {
                let text = self.text(&payload)?;
                let Some((name, value)) = text.split_once('=') else {
                    return Err(self.damage("a fact without a value"));
                };
                // What is wrong with a file is what its reader finds.
                if name != DAMAGE {
                    self.trace.facts.push((name.into(), value.into()));
                }
            }
            chunk::LANE => self.read_lane(&payload)?,
            chunk::EVENTS => self.read_events(&payload)?,
            chunk::END => return self.read_end(&payload).map(|()| false),
            kind => return Err(self.damage(format!("a chunk of unknown kind {kind}"))),
        }
        Ok(true)
    }

    fn read_clock(&mut self, payload: &[u8]) -> Result<(), Stop> {
        let Ok(payload) = <[u8; 40]>::try_from(payload) else {
            return Err(self.damage(format!("a clock of {} bytes, not 40", payload.len())));
        };
        let word = |i: usize| u64::from_le_bytes(std::array::from_fn(|byte| payload[8 * i + byte]));
        let pair = |i| ClockPair { tsc: word(i), nanos: word(i + 1) };
        let lanes = (word(4) >> 32) as u32;
        if lanes > MOST_LANES {
            return Err(self.damage(format!("{lanes} lanes: at most {MOST_LANES}")));
        }
        let threads = word(4) as u32;
        if threads > MOST_LANES {
            return Err(self.damage(format!("{threads} threads: at most {MOST_LANES}")));
        }
        (self.trace.start, self.trace.end) = (pair(0), pair(2));
        self.trace.threads = threads;
        self.clock = Some(lanes);
        Ok(())
    }

    fn read_lane(&mut self, payload: &[u8]) -> Result<(), Stop> {
        let Some((number, name)) = payload.split_first_chunk() else {
            return Err(self.damage("a lane without a number"));
        };
        let number = u32::from_le_bytes(*number);
        let next = self.trace.lanes.len() as u32;
        if number != next {
            return Err(self.damage(format!("lane {number} where lane {next} was to come")));
        }
        let all = self.clock.unwrap_or(0);
        if number >= all {
            return Err(self.damage(format!("lane {number} of {all}")));
        }
        let name = self.text(name)?;
        self.trace.lanes.push(Lane::new(name, Vec::new()));
        self.next.push(<[Buffer; 2]>::default());
        Ok(())
    }

    fn read_events(&mut self, payload: &[u8]) -> Result<(), Stop> {
        let head = payload.split_first_chunk::<24>();
        let Some((head, rest)) = head.filter(|(_, rest)| rest.len() % Event::SIZE == 0) else {
            return Err(self.damage(format!("{} bytes are no number of events", payload.len())));
        };
        let word = |i: usize| u64::from_le_bytes(std::array::from_fn(|byte| head[8 * i + byte]));
        let (lane, ring, first, refused) =
            (word(0) as u32 as usize, (word(0) >> 32) as usize, word(1), word(2));
        if lane >= self.trace.lanes.len() {
            return Err(self.damage(format!("events of lane {lane}, which was not named")));
        }
        if ring > 1 {
            return Err(self.damage(format!("events of buffer {ring}: there are two")));
        }
        let count = (rest.len() / Event::SIZE) as u64;
        let expected = self.next[lane][ring].next;
        let end = first.checked_add(count).filter(|_| first >= expected);
        let Some(end) = end.filter(|end| end.checked_add(refused).is_some()) else {
            return Err(self.damage(format!(
                "events of lane {lane} from number {first} on, where {expected} was to come"
            )));
        };
        let target = &mut self.next[lane][ring];
        let lost = first - expected;
        if target.events.is_empty() {
            target.first = first;
        } else if lost > 0 {
            let count = u32::try_from(lost).unwrap_or(u32::MAX);
            let tsc = target.events.last().map_or(0, |event| event.tsc);
            target.events.push(Event::new(tsc, EventKind::Drop, count));
        }
        // Whatever is wrong with the events.
        target.overwritten = target.overwritten.saturating_add(lost);
        target.refused = refused;
        target.next = end;
        self.events += count;
        for (i, bytes) in rest.chunks_exact(Event::SIZE).enumerate() {
            let Some(bytes) = bytes.first_chunk() else { continue };
            match Event::from_bytes(bytes) {
                Ok(mut event) => {
                    if self.version == 1 && event.kind == EventKind::Fork {
                        // It was the queue's length.
                        event.flags = Event::fork_flags(event.subject(), event.aux.into());
                        event.aux = 0;
                    }
                    target.events.push(event);
                }
                Err(error) => {
                    let offset = self.at + (chunk::HEADER + 24 + i * Event::SIZE) as u64;
                    let what = error.to_string();
                    return Err(Stop::Damage(Damage { offset, what, cut: false }));
                }
            }
        }
        Ok(())
    }

    /// What was read so far, the events of each lane in one list.
    fn finish(mut self) -> Trace {
        for (lane, buffers) in self.trace.lanes.iter_mut().zip(self.next) {
            let [structure, forks] = buffers;
            // A file may say anything.
            lane.first = structure.first.saturating_add(forks.first);
            let lost = [&structure, &forks].map(|b| b.overwritten.saturating_add(b.refused));
            lane.dropped = lost[0].saturating_add(lost[1]);
            lane.events = merge(forks.events, structure.events);
        }
        // A file that is cut short has the clock of its last piece.
        let last = self.trace.lanes.iter().filter_map(|lane| lane.events.last());
        let last = last.map(|event| event.tsc).max().unwrap_or(0);
        if self.cut_short && last > self.trace.end.tsc {
            self.trace.end = ClockPair { tsc: last, nanos: self.trace.nanos(last) };
        }
        self.trace
    }

    fn read_end(&mut self, payload: &[u8]) -> Result<(), Stop> {
        let Ok(payload) = <[u8; 8]>::try_from(payload) else {
            return Err(self.damage(format!("an end of {} bytes, not 8", payload.len())));
        };
        let events = u64::from_le_bytes(payload);
        if events != self.events {
            return Err(self.damage(format!("{} events, and {events} were written", self.events)));
        }
        if self.clock.is_none_or(|lanes| lanes as usize != self.trace.lanes.len()) {
            return Err(self.damage("not all lanes are there"));
        }
        self.at = self.offset;
        match self.bytes(1).map_err(Stop::Io)?.is_empty() {
            true => Ok(()),
            false => Err(self.damage("more bytes after the end")),
        }
    }

    fn text(&self, bytes: &[u8]) -> Result<String, Stop> {
        String::from_utf8(bytes.to_vec()).map_err(|_| self.damage("a name that is not UTF-8"))
    }
}

/// Both lists in one, in the order of time, in the memory of the first; each keeps its own order.
pub(crate) fn merge(mut into: Vec<Event>, from: Vec<Event>) -> Vec<Event> {
    if into.is_empty() {
        return from;
    }
    let (mut old, mut new) = (into.len(), from.len());
    into.extend_from_slice(&from);
    // From the end on, so that nothing is overwritten that is still to be moved.
    while new > 0 {
        let at = old + new - 1;
        if old > 0 && into[old - 1].tsc > from[new - 1].tsc {
            into[at] = into[old - 1];
            old -= 1;
        } else {
            into[at] = from[new - 1];
            new -= 1;
        }
    }
    into
}
