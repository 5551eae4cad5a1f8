//! What each lane was doing, moment by moment.
//!
//! Intervals nest on a lane; the innermost one open says what it does. Where none is open a few single
//! events do:
//!
//! | the last of                        | then the lane is                               |
//! |------------------------------------|------------------------------------------------|
//! | `SUBMIT`                           | handing over: [`State::Stealing`]               |
//! | `EXECUTED` of its last task        | looking for the next: [`State::Stealing`]       |
//! | `STEAL`, `ASK`                     | [`State::Stealing`]                             |
//! | `SEARCH`, `UNPARKED`, `WORKER_SPAWN` | [`State::Spinning`]                           |
//! | the end of a region submitted here | [`State::Absent`]: a guest has left             |
//! | `WORKER_DIE`, or nothing           | [`State::Absent`]                               |

use crate::event::{Event, EventKind, Subject};
use crate::nest::{Interval, Keyed, Nest, interval};
use crate::trace::Lane;

/// What a lane is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum State {
    /// Nothing in this pool.
    Absent = 0,
    /// Sleeping.
    Parked = 1,
    /// Looking for work, in vain so far.
    Spinning = 2,
    /// Getting work: from another worker or a queue.
    Stealing = 3,
    /// Running a task.
    Executing = 4,
    /// Waiting for a task, awake.
    Waiting = 5,
    /// Getting the result of a fork that another worker has taken.
    Joining = 6,
    /// Waiting for that fork, awake.
    JoinWaiting = 7,
}

impl State {
    /// Every state, in the order of their numbers.
    pub const ALL: [State; 8] = [
        State::Absent,
        State::Parked,
        State::Spinning,
        State::Stealing,
        State::Executing,
        State::Waiting,
        State::Joining,
        State::JoinWaiting,
    ];

    /// Its name in pictures.
    #[inline]
    pub const fn name(self) -> &'static str {
        match self {
            State::Absent => "absent",
            State::Parked => "parked",
            State::Spinning => "spinning",
            State::Stealing => "stealing",
            State::Executing => "executing",
            State::Waiting => "waiting",
            State::Joining => "joining",
            State::JoinWaiting => "waiting to join",
        }
    }

    /// Its colour: those of the wake-up study's pictures (Shipilev, 2012), with infrastructure in two
    /// shades.
    #[inline]
    pub const fn colour(self) -> &'static str {
        match self {
            State::Absent => "#ffffff",
            State::Parked => "#b8b8b8",
            State::Spinning => "#f7e98e",
            State::Stealing => "#f0c419",
            State::Executing => "#4caf50",
            State::Waiting => "#f4a6a0",
            State::Joining => "#1b5e20",
            State::JoinWaiting => "#d32f2f",
        }
    }
}

/// What a lane does from one moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Since when, in ticks.
    pub from: u64,
    /// What.
    pub state: State,
    /// The task that it runs or waits for, if any.
    pub task: Option<u32>,
}

/// Follows a lane through its events.
#[derive(Debug)]
pub(crate) struct Follower {
    open: Nest<Opened>,
    base: State,
}

/// What begins an interval, as it was recorded.
#[derive(Debug)]
struct Opened(EventKind, (Subject, u32));

impl Keyed for Opened {
    type Key = Interval;
    #[inline]
    fn key(&self) -> Interval {
        interval(self.0, self.1)
    }
}

impl Follower {
    #[inline]
    pub(crate) fn new() -> Follower {
        Follower { open: Nest::default(), base: State::Absent }
    }

    #[inline]
    pub(crate) fn state(&self) -> State {
        let Some(Opened(kind, _)) = self.open.last() else { return self.base };
        let joins = || self.open.iter().rev().nth(1).is_some_and(|o| o.0 == EventKind::Join);
        match kind {
            EventKind::Exec => State::Executing,
            EventKind::Join => State::Joining,
            EventKind::Park => State::Parked,
            EventKind::Wait if joins() => State::JoinWaiting,
            _ => State::Waiting,
        }
    }

    #[inline]
    pub(crate) fn task(&self) -> Option<u32> {
        self.open.last().filter(|open| open.0 != EventKind::Park).map(|open| open.1.1)
    }

    /// How many intervals are open.
    #[inline]
    pub(crate) fn depth(&self) -> usize {
        self.open.len()
    }

    /// Takes the next event. How many intervals it has ended: more than one where the ends of inner ones
    /// were lost.
    #[inline]
    pub(crate) fn step(&mut self, event: &Event) -> usize {
        use EventKind::*;
        match event.kind {
            Exec | Join | Wait | Park | TouchBegin | LockWait => {
                self.open.push(Opened(event.kind, event.key()));
                return 0;
            }
            WorkerSpawn | Search => self.base = State::Spinning,
            WorkerDie => self.base = State::Absent,
            Submit | Ask | Steal => self.base = State::Stealing,
            _ => {}
        }
        let Some(begin) = event.kind.opened_by() else { return 0 };
        // A region's submitter goes on: it was recorded as executing, not as waiting.
        let resumes = event.kind == Waited && event.subject() == Subject::Region;
        let key = interval(begin, event.key());
        let depth = if resumes { None } else { self.open.innermost(key) };
        // An end without its beginning, which was lost, ends nothing.
        let Some(depth) = depth else {
            if matches!(event.kind, Waited | Joined | TouchEnd) && self.open.is_empty() {
                self.base = State::Absent;
            }
            return 0;
        };
        let ended = self.open.len() - depth;
        self.open.truncate(depth);
        match event.kind {
            Executed => self.base = State::Stealing,
            Unparked => self.base = State::Spinning,
            _ => {}
        }
        ended
    }
}

impl Lane {
    /// What the lane did, one segment for each change, in the order of its events.
    ///
    /// ```
    /// use raddle_trace::{Event, EventKind::*, Lane, State};
    /// let lane = Lane::new("worker", vec![Event::new(5, Park, 0), Event::new(9, Unparked, 0)]);
    /// let states: Vec<_> = lane.segments().map(|s| (s.from, s.state)).collect();
    /// assert_eq!(states, [(5, State::Parked), (9, State::Spinning)]);
    /// ```
    #[inline]
    pub fn segments(&self) -> impl Iterator<Item = Segment> + '_ {
        let mut follower = Follower::new();
        let mut last = (State::Absent, None, 0);
        self.events.iter().filter_map(move |event| {
            follower.step(event);
            let now = (follower.state(), follower.task(), follower.depth());
            let changed = now != last;
            last = now;
            changed.then_some(Segment { from: event.tsc, state: now.0, task: now.1 })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventKind::*;

    fn states(events: &[(u64, EventKind, u32)]) -> Vec<(u64, State)> {
        let events = events.iter().map(|&(t, kind, task)| Event::new(t, kind, task)).collect();
        Lane::new("", events).segments().map(|s| (s.from, s.state)).collect()
    }

    #[test]
    fn a_worker_s_day() {
        let seen = states(&[
            (0, WorkerSpawn, 0),
            (1, Park, 0),
            (2, Unparked, 0),
            (3, Ask, 0),
            (4, Steal, 7),
            (5, Exec, 7),
            (6, Join, 8),
            (7, Wait, 8),
            (8, Exec, 9),
            (9, Executed, 9),
            (10, Waited, 8),
            (11, Joined, 8),
            (12, Executed, 7),
            (13, Search, 0),
            (14, WorkerDie, 0),
        ]);
        use State::*;
        let expected = [
            (0, Spinning),
            (1, Parked),
            (2, Spinning),
            (3, Stealing),
            (5, Executing),
            (6, Joining),
            (7, JoinWaiting),
            (8, Executing),
            (9, JoinWaiting),
            (10, Joining),
            (11, Executing),
            (12, Stealing),
            (13, Spinning),
            (14, Absent),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_guest_comes_and_goes() {
        let seen = states(&[
            (0, Submit, 1),
            (1, Exec, 1),
            (2, Wait, 2),
            (3, Waited, 2),
            (4, Executed, 1),
            (5, Waited, 1),
        ]);
        use State::*;
        let expected = [
            (0, Stealing),
            (1, Executing),
            (2, Waiting),
            (3, Executing),
            (4, Stealing),
            (5, Absent),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn lost_events_close_what_they_leave_open() {
        // The end of the wait is lost; the beginning of the first task too.
        let seen = states(&[(0, Executed, 3), (1, Exec, 1), (2, Wait, 2), (3, Executed, 1)]);
        use State::*;
        assert_eq!(seen, [(1, Executing), (2, Waiting), (3, Stealing)]);
    }
}
