//! A run that never was, the same on every machine: what pictures of pages are compared by.

use raddle_trace::{ClockPair, Event, EventKind, EventKind::*, Lane, Subject, Trace};

/// Microseconds; a tick is a nanosecond.
const US: u64 = 1_000;
const PLACES: [&str; 3] = ["src/load.rs:12:5", "src/shop.rs:40:9", "src/shop.rs:77:9"];
const REGION: u32 = 1;
const SCOPE: u32 = 2;
const FIRST_TASK: u32 = 100;

struct Worker {
    events: Vec<Event>,
    free: u64,
}

impl Worker {
    fn note(&mut self, at: u64, kind: EventKind, subject: Subject, aux: u16, task: u32) {
        self.events.push(Event { flags: subject as u8, aux, ..Event::new(at, kind, task) });
        self.free = at;
    }
}

/// The first of so many workers is alone for a while, then spawns tasks that all of them take, and ends alone. Who is awake
/// takes the next task; the others sleep until they are woken, and again when nothing is left.
pub(super) fn run(workers: usize) -> Trace {
    let mut all: Vec<Worker> =
        (0..workers).map(|_| Worker { events: Vec::new(), free: 0 }).collect();
    let (first, others) = all.split_first_mut().expect("a worker");
    first.note(10 * US, Submit, Subject::Region, 1, REGION);
    first.note(12 * US, Exec, Subject::Region, 1, REGION);
    first.note(300 * US, ScopeBegin, Subject::Any, 0, SCOPE);
    let tasks = 6 * workers as u32;
    for (task, at) in (0..tasks).zip(1_u64..) {
        let place = 2 + (task % 3 / 2) as u16;
        first.note(300 * US + at * US / 2, Fork, Subject::Task, place, FIRST_TASK + task);
        let fork = first.events.last_mut().expect("it was just noted");
        fork.flags = Event::fork_flags(Subject::Task, task as usize + 1);
    }
    for (worker, number) in others.iter_mut().zip(1_u16..) {
        worker.note(0, Park, Subject::Any, 0, 0);
        let woken = first.free + 2 * US;
        first.note(woken, Unpark, Subject::Any, number, 900);
        worker.note(woken + 40 * US, Unparked, Subject::Any, 0, 0);
    }
    first.note(first.free + US, Wait, Subject::Any, 0, SCOPE);
    // Any numbers do that look like chance.
    let mut chance = 12_345_u64;
    for task in FIRST_TASK..FIRST_TASK + tasks {
        let number = (0..workers).min_by_key(|&n| all[n].free).expect("a worker");
        let worker = &mut all[number];
        let mut at = worker.free + 2 * US;
        if number > 0 {
            worker.note(at, Steal, Subject::Task, 0, task);
            at += 3 * US;
        }
        worker.note(at, Exec, Subject::Task, 0, task);
        worker.note(at + 100, Member, Subject::Any, 0, SCOPE);
        chance =
            chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        at += (60 + (chance >> 33) % 240) * US;
        worker.note(at, Executed, Subject::Task, 0, task);
    }
    let over = all.iter().map(|worker| worker.free).max().expect("a worker") + US;
    let (first, others) = all.split_first_mut().expect("a worker");
    for worker in others {
        worker.note(worker.free + US, Search, Subject::Any, 0, 0);
        worker.note(worker.free + 50 * US, Park, Subject::Any, 0, 0);
    }
    first.note(over, Waited, Subject::Any, 0, SCOPE);
    first.note(over + US, ScopeEnd, Subject::Any, 2, SCOPE);
    first.note(over + 150 * US, Executed, Subject::Region, 0, REGION);
    first.note(over + 151 * US, Waited, Subject::Region, 0, REGION);
    let end = over + 200 * US;
    let mut trace = Trace::new(ClockPair { tsc: 0, nanos: 0 }, ClockPair { tsc: end, nanos: end });
    trace.threads = workers as u32;
    trace.names.push("a day".into());
    trace.places = PLACES.map(str::to_owned).to_vec();
    trace.facts.push(("level".into(), "tasks".into()));
    let lanes = all.into_iter().enumerate();
    trace.lanes =
        lanes.map(|(n, worker)| Lane::new(format!("raddle-{n}"), worker.events)).collect();
    trace
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_all_that_a_page_shows() {
        for workers in [4, 64] {
            let trace = run(workers);
            let order = |lane: &Lane| lane.events.windows(2).all(|two| two[0].tsc <= two[1].tsc);
            assert!(trace.lanes.iter().all(order));
            let scale = trace.scale(&[]).unwrap();
            assert!(scale.bound() > 1.5 && !scale.places.is_empty(), "{scale:?}");
            assert!(trace.edges().len() > workers && trace.phases().len() == 1);
            assert!(trace.workers().iter().all(|worker| worker.tasks > 0));
        }
    }
}
