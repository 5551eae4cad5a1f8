//! WebKit's queue.

use raddle_lock::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

/// Producers and consumers, with a number of slots between them.
struct Queue {
    items: Mutex<VecDeque<u32>>,
    filled: Condvar,
    emptied: Condvar,
    over: AtomicBool,
    /// Notify all, not one; wait with a limit; notify only when the queue was empty, or full, before.
    all: bool,
    limited: bool,
    seldom: bool,
}

impl Queue {
    fn wait(&self, condition: &Condvar, items: &mut MutexGuard<'_, VecDeque<u32>>) {
        if self.limited {
            let _either = condition.wait_for(items, Duration::from_millis(1));
        } else {
            condition.wait(items);
        }
    }

    fn notify(&self, condition: &Condvar, was_at_its_end: bool) {
        if self.seldom && !was_at_its_end {
            return;
        }
        if self.all {
            condition.notify_all();
        } else {
            condition.notify_one();
        }
    }
}

/// How many messages go through each queue; and one that is optimised takes its time.
const MESSAGES: u32 = if cfg!(miri) {
    20
} else if cfg!(debug_assertions) {
    1_000
} else {
    10_000
};

fn pass_everything_on(
    (producers, consumers, slots): (u32, u32, usize),
    (all, limited, seldom): (bool, bool, bool),
    messages: u32,
) {
    let queue = Queue {
        items: Mutex::default(),
        filled: Condvar::new(),
        emptied: Condvar::new(),
        over: AtomicBool::new(false),
        all,
        limited,
        seldom,
    };
    let each = messages / producers;
    let mut got = thread::scope(|s| {
        let takes: Vec<_> = (0..consumers)
            .map(|_| {
                s.spawn(|| {
                    let mut got = Vec::new();
                    loop {
                        let mut items = queue.items.lock();
                        while items.is_empty() && !queue.over.load(SeqCst) {
                            queue.wait(&queue.filled, &mut items);
                        }
                        let was_full = items.len() == slots;
                        let Some(item) = items.pop_front() else { break };
                        drop(items);
                        got.push(item);
                        queue.notify(&queue.emptied, was_full);
                    }
                    got
                })
            })
            .collect();
        let puts: Vec<_> = (0..producers)
            .map(|n| {
                let queue = &queue;
                s.spawn(move || {
                    for item in n * each..(n + 1) * each {
                        let mut items = queue.items.lock();
                        while items.len() >= slots {
                            queue.wait(&queue.emptied, &mut items);
                        }
                        let was_empty = items.is_empty();
                        items.push_back(item);
                        drop(items);
                        queue.notify(&queue.filled, was_empty);
                    }
                })
            })
            .collect();
        puts.into_iter().for_each(|put| put.join().unwrap());
        let items = queue.items.lock();
        queue.over.store(true, SeqCst);
        drop(items);
        queue.filled.notify_all();
        let got: Vec<Vec<u32>> = takes.into_iter().map(|take| take.join().unwrap()).collect();
        if producers == 1 {
            // Each consumer has its items in the order in which they were put in.
            assert!(got.iter().all(|items| items.is_sorted()));
        }
        got.concat()
    });
    got.sort_unstable();
    assert!(got.into_iter().eq(0..each * producers));
}

#[test]
fn queues_pass_everything_on() {
    // Producers, consumers, slots.
    let shapes = [
        (1, 1, 1),
        (1, 5, 1),
        (1, 1, 100),
        (10, 1, 1),
        (10, 1, 100),
        (1, 10, 1),
        (1, 10, 100),
        (10, 10, 1),
        (10, 10, 100),
    ];
    for shape in shapes {
        // Seldom: of all, for of those that wait for the same more than one may go on.
        let ways =
            [(false, false, false), (true, false, false), (true, true, false), (true, false, true)];
        for way in ways {
            if !cfg!(miri) || shape.0 + shape.1 == 2 {
                pass_everything_on(shape, way, MESSAGES);
            }
        }
    }
    if !cfg!(debug_assertions) {
        pass_everything_on((1, 1, 100), (false, false, false), 100_000);
        pass_everything_on((10, 10, 100), (true, false, true), 100_000);
    }
}
