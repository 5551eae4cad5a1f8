//! The 16-byte event.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 0-7 | `tsc` | time stamp, in ticks of the trace's clock |
//! | 8 | `kind` | [`EventKind`] |
//! | 9 | `flags` | its lowest two bits: a [`Subject`]; the others: a queue's length, see [`Event::length`] |
//! | 10-11 | `aux` | the other worker, a place in the source, a name: see the kind |
//! | 12-15 | `task` | the task it is about, or a count |
//!
//! All little-endian. Workers are named by the number of their lane in the trace.

use std::error::Error;
use std::fmt;

/// Declares the kinds once: number, name, meaning.
macro_rules! kinds {
    ($($number:literal $kind:ident $name:literal $doc:literal)*) => {
        /// What an event says. Kinds come in pairs where something takes time: see
        /// [`opened_by`](EventKind::opened_by).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum EventKind {
            $(#[doc = $doc] $kind = $number,)*
        }

        impl EventKind {
            /// Every kind, in the order of their numbers.
            pub const ALL: &'static [EventKind] = &[$(EventKind::$kind),*];

            /// The kind's name in tables and files.
            pub const fn name(self) -> &'static str {
                match self { $(EventKind::$kind => $name,)* }
            }
        }

        impl TryFrom<u8> for EventKind {
            type Error = UnknownKind;

            fn try_from(number: u8) -> Result<EventKind, UnknownKind> {
                match number {
                    $($number => Ok(EventKind::$kind),)*
                    _ => Err(UnknownKind(number)),
                }
            }
        }
    };
}

kinds! {
    1 Submit "SUBMIT" "A task is handed to the pool, or a region is marked: a region begins; `aux`: its name's number from 1 on, or 0."
    2 Fork "FORK" "A task is put on the worker's own queue; `aux`: the place in the source, from 1 on, or 0; [`Event::length`]: the queue's length after."
    3 Exec "EXEC" "A task begins to run; `aux`: of a region, the place in the source that submitted it."
    4 Executed "EXECUTED" "A task has run."
    5 Join "JOIN" "A worker wants the result of a task that it forked."
    6 Joined "JOINED" "It has the result; `aux`: the place in the source that forked."
    7 Wait "WAIT" "A worker has nothing to do until the task it waits for is done."
    8 Waited "WAITED" "The task it waited for is done."
    9 Steal "STEAL" "A task is taken from another worker's queue; `aux`: that worker."
    10 Park "PARK" "A worker goes to sleep."
    11 Unpark "UNPARK" "A worker begins to wake another; `aux`: that other, `task`: the ticks it took."
    12 Unparked "UNPARKED" "A worker has woken up."
    13 Resolve "RESOLVE" "A future has its result; `task`: the future's number, not that of a task. `aux` 1: one of several that what follows comes after, whose number `task` is, 2: the last of them, 3: those so far do not count any more."
    14 TouchBegin "TOUCH_BEGIN" "Somebody asks for a future's result."
    15 TouchEnd "TOUCH_END" "And has it."
    16 Kill "KILL" "A future is killed."
    17 EnvBegin "ENV_BEGIN" "An environment (a pool) begins; `aux`: its threads."
    18 EnvEnd "ENV_END" "It ends."
    19 WorkerSpawn "WORKER_SPAWN" "A worker's thread starts; `aux`: the worker."
    20 WorkerDie "WORKER_DIE" "A worker's thread ends; `aux`: the worker."
    21 Drop "DROP" "Events were lost here; `task`: how many."
    22 Search "SEARCH" "A worker that has found no work keeps looking."
    23 Ask "ASK" "A worker asks another, whose work is private, to share it; `aux`: that other."
    24 ScopeBegin "SCOPE_BEGIN" "A scope is opened, or a broadcast begins; `task`: its number."
    25 ScopeEnd "SCOPE_END" "All its tasks, or calls, are over; `aux`: the place in the source."
    26 Member "MEMBER" "The task that runs here belongs to the scope `task`."
    27 LockWait "LOCK_WAIT" "A thread begins to sleep for a lock, `task`; `aux`: the strand that holds it, or 0."
    28 LockHad "LOCK_HAD" "It is awake again; `aux`: the strand that it is itself."
    29 Cpu "CPU" "Processor time of the thread so far, in tenths of a microsecond, modulo 2^32; `aux`: which thread."
    30 Save "SAVE" "A full buffer was written to disk; `task`: the ticks it took."
    31 Strand "STRAND" "What runs here from now on holds locks as the strand `aux`."
}

impl EventKind {
    /// The kind whose interval this kind ends, if it ends one.
    ///
    /// ```
    /// use raddle_trace::EventKind;
    /// assert_eq!(EventKind::Executed.opened_by(), Some(EventKind::Exec));
    /// assert_eq!(EventKind::Steal.opened_by(), None);
    /// ```
    pub const fn opened_by(self) -> Option<EventKind> {
        use EventKind::*;
        match self {
            Executed => Some(Exec),
            Joined => Some(Join),
            Waited => Some(Wait),
            Unparked => Some(Park),
            TouchEnd => Some(TouchBegin),
            EnvEnd => Some(EnvBegin),
            WorkerDie => Some(WorkerSpawn),
            ScopeEnd => Some(ScopeBegin),
            LockHad => Some(LockWait),
            Submit | Fork | Exec | Join | Wait | Steal | Park | Unpark | Resolve | TouchBegin
            | Kill | EnvBegin | WorkerSpawn | Drop | Search | Ask | ScopeBegin | Member
            | LockWait | Cpu | Save | Strand => None,
        }
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A byte that is no [`EventKind`]: the trace is damaged, or newer than this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownKind(pub u8);

impl fmt::Display for UnknownKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "unknown event kind {} (known: 1 to {}): damaged, or from a newer raddle",
            self.0,
            EventKind::ALL.len()
        )
    }
}

impl Error for UnknownKind {}

/// What an event's `task` numbers. Two events are about the same task if both agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// Anything: traces made by hand need no more.
    Any = 0,
    /// A fork, numbered by its worker and its depth there: another fork has the number after it.
    Fork = 1,
    /// A spawned task.
    Task = 2,
    /// A region: what one submission starts.
    Region = 3,
}

/// The longest queue that [`Event::length`] tells apart from longer ones.
const LONGEST: usize = 63;

/// One thing that happened, in 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, in ticks of the trace's clock.
    pub tsc: u64,
    /// What.
    pub kind: EventKind,
    /// The [`Subject`], in the lowest two bits; above them a queue's length.
    pub flags: u8,
    /// The other worker, a place in the source, or a name: see the kind.
    pub aux: u16,
    /// The task it is about; for [`EventKind::Drop`] a count.
    pub task: u32,
}

const _: () = assert!(size_of::<Event>() == Event::SIZE);

impl Event {
    /// An event's size, in memory and in files.
    pub const SIZE: usize = 16;

    /// An event with neither flags nor `aux`.
    pub const fn new(tsc: u64, kind: EventKind, task: u32) -> Event {
        Event { tsc, kind, flags: 0, aux: 0, task }
    }

    /// What the event's `task` numbers.
    pub const fn subject(&self) -> Subject {
        match self.flags & 3 {
            0 => Subject::Any,
            1 => Subject::Fork,
            2 => Subject::Task,
            _ => Subject::Region,
        }
    }

    /// How long the queue is after a [`Fork`](EventKind::Fork): 63 if it is that or longer.
    pub const fn length(&self) -> u8 {
        self.flags >> 2
    }

    /// The flags of a [`Fork`](EventKind::Fork) that made a queue so long.
    ///
    /// ```
    /// use raddle_trace::{Event, EventKind::Fork, Subject};
    /// let event = Event { flags: Event::fork_flags(Subject::Task, 5), ..Event::new(0, Fork, 1) };
    /// assert_eq!((event.subject(), event.length()), (Subject::Task, 5));
    /// ```
    pub const fn fork_flags(subject: Subject, length: usize) -> u8 {
        subject as u8 | (if length < LONGEST { length as u8 } else { LONGEST as u8 }) << 2
    }

    /// Whether the event belongs to the frame of a trace, of which there is little: regions, threads, pools, kills and
    /// locks. It is kept apart from forks and tasks, so that these cannot overwrite it.
    pub const fn is_structural(kind: EventKind, subject: Subject) -> bool {
        use EventKind::*;
        matches!(subject, Subject::Region)
            || matches!(
                kind,
                Submit
                    | Kill
                    | EnvBegin
                    | EnvEnd
                    | WorkerSpawn
                    | WorkerDie
                    | LockWait
                    | LockHad
                    | Strand
            )
    }

    /// The task it is about, told apart from those of other subjects.
    pub const fn key(&self) -> (Subject, u32) {
        (self.subject(), self.task)
    }

    /// The event as it is written to files.
    ///
    /// ```
    /// use raddle_trace::{Event, EventKind};
    /// let event = Event::new(7, EventKind::Fork, 258);
    /// assert_eq!(event.to_bytes(), [7, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 2, 1, 0, 0]);
    /// assert_eq!(Event::from_bytes(&event.to_bytes()), Ok(event));
    /// ```
    pub fn to_bytes(self) -> [u8; Event::SIZE] {
        let mut bytes = [0; Event::SIZE];
        bytes[..8].copy_from_slice(&self.tsc.to_le_bytes());
        bytes[8] = self.kind as u8;
        bytes[9] = self.flags;
        bytes[10..12].copy_from_slice(&self.aux.to_le_bytes());
        bytes[12..].copy_from_slice(&self.task.to_le_bytes());
        bytes
    }

    /// The event that was written as `bytes`.
    ///
    /// # Errors
    ///
    /// [`UnknownKind`] if the byte at 8 is no kind; every other byte has a meaning.
    pub fn from_bytes(bytes: &[u8; Event::SIZE]) -> Result<Event, UnknownKind> {
        let [t0, t1, t2, t3, t4, t5, t6, t7, kind, flags, a0, a1, n0, n1, n2, n3] = *bytes;
        Ok(Event {
            tsc: u64::from_le_bytes([t0, t1, t2, t3, t4, t5, t6, t7]),
            kind: EventKind::try_from(kind)?,
            flags,
            aux: u16::from_le_bytes([a0, a1]),
            task: u32::from_le_bytes([n0, n1, n2, n3]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_a_kind_that_comes_back_or_a_clear_error() {
        for number in 0..=u8::MAX {
            let mut bytes = Event::new(u64::MAX - 1, EventKind::Exec, u32::MAX).to_bytes();
            bytes[8] = number;
            match Event::from_bytes(&bytes) {
                Ok(event) => {
                    assert_eq!(event.kind as u8, number);
                    assert_eq!(event.to_bytes(), bytes);
                }
                Err(error) => {
                    assert!(!(1..=31).contains(&number));
                    assert!(
                        error.to_string().starts_with(&format!("unknown event kind {number} "))
                    );
                }
            }
        }
        assert_eq!(EventKind::ALL.len(), 31);
    }

    #[test]
    fn fields_do_not_run_into_each_other() {
        let event = Event {
            tsc: 0x0102_0304_0506_0708,
            kind: EventKind::Drop,
            flags: 9,
            aux: 0x0A0B,
            task: 0x0C0D_0E0F,
        };
        let bytes = event.to_bytes();
        assert_eq!(bytes, [8, 7, 6, 5, 4, 3, 2, 1, 21, 9, 0x0B, 0x0A, 0x0F, 0x0E, 0x0D, 0x0C]);
        assert_eq!(Event::from_bytes(&bytes), Ok(event));
    }
}
