//! The queue tests of WebKit's locks, which `parking_lot` has as well: producers and consumers on a bounded queue. With fewer
//! messages than there.

use std::{collections::VecDeque, thread, time::Duration, time::Instant};

use crate::{args::Settings, harness::Contender, machine};

/// One test: its name, producers, consumers, slots, messages of each producer, whether all are notified, and the limit of
/// waits.
#[derive(Clone, Copy)]
pub(super) struct Queue {
    pub(super) name: &'static str,
    producers: usize,
    consumers: usize,
    slots: usize,
    messages: u32,
    all: bool,
    limit: Option<Duration>,
}

const fn queue(
    name: &'static str,
    (producers, consumers, slots): (usize, usize, usize),
    messages: u32,
    all: bool,
) -> Queue {
    Queue { name, producers, consumers, slots, messages, all, limit: None }
}

pub(super) const QUEUES: [Queue; 11] = [
    queue("queue: 1 to 1, 1 slot", (1, 1, 1), 10_000, true),
    Queue {
        limit: Some(Duration::from_secs(1)),
        ..queue("queue: 1 to 1, 1 slot, with a limit", (1, 1, 1), 10_000, true)
    },
    queue("queue: 1 to 1, 100 slots", (1, 1, 100), 200_000, true),
    queue("queue: 10 to 1, 1 slot", (10, 1, 1), 1_000, true),
    queue("queue: 10 to 1, 100 slots, notify all", (10, 1, 100), 5_000, true),
    queue("queue: 10 to 1, 100 slots, notify one", (10, 1, 100), 5_000, false),
    queue("queue: 1 to 10, 1 slot", (1, 10, 1), 5_000, true),
    queue("queue: 1 to 10, 100 slots, notify all", (1, 10, 100), 50_000, true),
    queue("queue: 1 to 10, 100 slots, notify one", (1, 10, 100), 50_000, false),
    queue("queue: 10 to 10, 1 slot", (10, 10, 1), 1_000, true),
    queue("queue: 10 to 10, 100 slots, notify one", (10, 10, 100), 5_000, false),
];
pub(super) const SYSTEM: &str = "queues, system time of all";

macro_rules! runner {
    ($run:ident, $m:ident) => {
        /// Nanoseconds per message.
        fn $run(queue: Queue, messages: u32) -> f64 {
            use $m::{Condvar, Mutex, MutexGuard};
            type Items = (VecDeque<u32>, bool);
            fn wait(
                condition: &Condvar,
                guard: &mut MutexGuard<'_, Items>,
                limit: Option<Duration>,
                ready: impl Fn(&Items) -> bool,
            ) {
                while !ready(guard) {
                    match limit {
                        None => condition.wait(guard),
                        Some(limit) => _ = condition.wait_for(guard, limit),
                    }
                }
            }
            let notify = |condition: &Condvar, changed: bool| match queue.all {
                true if changed => _ = condition.notify_all(),
                true => {}
                false => _ = condition.notify_one(),
            };
            let items = Mutex::new((VecDeque::new(), true));
            let (filled, emptied) = (Condvar::new(), Condvar::new());
            let output = Mutex::new(Vec::new());
            let start = Instant::now();
            thread::scope(|s| {
                for _ in 0..queue.consumers {
                    s.spawn(|| {
                        loop {
                            let mut guard = items.lock();
                            wait(&filled, &mut guard, queue.limit, |i| !i.0.is_empty() || !i.1);
                            let full = guard.0.len() == queue.slots;
                            let Some(item) = guard.0.pop_front() else { break };
                            drop(guard);
                            notify(&emptied, full);
                            output.lock().push(item);
                        }
                    });
                }
                let producers: Vec<_> = (0..queue.producers)
                    .map(|_| {
                        s.spawn(|| {
                            for item in 0..messages {
                                let mut guard = items.lock();
                                wait(&emptied, &mut guard, queue.limit, |i| {
                                    i.0.len() < queue.slots
                                });
                                let empty = guard.0.is_empty();
                                guard.0.push_back(item);
                                drop(guard);
                                notify(&filled, empty);
                            }
                        })
                    })
                    .collect();
                producers.into_iter().for_each(|t| t.join().expect("no panic"));
                items.lock().1 = false;
                filled.notify_all();
            });
            let all = queue.producers as u32 * messages;
            assert_eq!(output.into_inner().len(), all as usize);
            start.elapsed().as_nanos() as f64 / f64::from(all)
        }
    };
}

use raddle::lock as raddle_lock;
runner!(with_raddle, raddle_lock);
runner!(with_parking_lot, parking_lot);

type Run = fn(Queue, u32) -> f64;
const RUNS: [(&str, Run); 2] = [("raddle", with_raddle), ("parking_lot", with_parking_lot)];

/// Nanoseconds per message.
pub(super) fn rows(settings: &Settings) -> Vec<Contender> {
    let mut all = Vec::new();
    for queue in QUEUES {
        let messages = settings.size(queue.messages, 20);
        for (name, run) in RUNS {
            all.push(Contender::new(queue.name, name, move || run(queue, messages)));
        }
    }
    all
}

/// Milliseconds in the kernel of all tests together, where the system tells.
pub(super) fn system(settings: &Settings) -> Vec<Contender> {
    let size = |messages| settings.size(messages, 20);
    RUNS.map(|(name, run)| {
        let sized = QUEUES.map(|queue| (queue, size(queue.messages)));
        Contender::new(SYSTEM, name, move || {
            let before = machine::system_time().unwrap_or_default();
            sized.iter().for_each(|&(queue, messages)| _ = run(queue, messages));
            let spent = machine::system_time().unwrap_or_default() - before;
            spent.as_secs_f64() * 1e3
        })
    })
    .into()
}
