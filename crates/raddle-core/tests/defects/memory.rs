//! What stays behind while a pool is busy.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use raddle_core::{Future, Killed, Pool, spawn};

use super::*;

thread_local! {
    /// What this thread has allocated and not freed.
    static LIVE: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

fn count(bytes: isize) {
    let _ = LIVE.try_with(|live| live.set(live.get() + bytes));
}

// SAFETY: the system's allocator, and a count beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: contract.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Spawns some and waits for the oldest first: what the waiting thread has run then lies among what is queued.
const TURNS: [(&str, fn()); 5] = [
    ("two", || {
        let (a, b) = (spawn(|| 1), spawn(|| 2));
        assert_eq!(a.wait().unwrap() + b.wait().unwrap(), 3);
    }),
    ("three, the middle one first", || {
        let (a, b, c) = (spawn(|| 1), spawn(|| 2), spawn(|| 3));
        assert_eq!(b.wait().unwrap() + a.wait().unwrap() + c.wait().unwrap(), 6);
    }),
    ("of one a map", || {
        let (a, b) = (spawn(|| 1).map(|n| n), spawn(|| 2));
        assert_eq!(a.wait().unwrap() + b.wait().unwrap(), 3);
    }),
    ("one that is killed", || assert_eq!(spawn(|| 1).kill(), Killed::BeforeStart)),
    ("one that is interrupted", || {
        let one = spawn(|| 1);
        one.interrupt("not wanted");
        assert!(one.wait().is_err());
    }),
];

/// In a task that never lets its thread look round, above a queue that nobody empties.
#[test]
fn a_busy_task_leaves_nothing_behind_in_its_ring() {
    for (name, turn) in TURNS {
        for queued in [0, 1, 300] {
            ends(name, move || {
                let pool = Pool::new(1).unwrap();
                let (send, receive) = mpsc::channel();
                drop(pool.spawn(move || {
                    let beneath: Vec<Future<()>> = (0..queued).map(|_| spawn(|| ())).collect();
                    (0..10_000).for_each(|_| turn());
                    let before = LIVE.get();
                    (0..sized(500_000)).for_each(|_| turn());
                    send.send(LIVE.get() - before).unwrap();
                    drop(beneath);
                }));
                let more = receive.recv().unwrap();
                assert!(more < 64 << 10, "{name}, above {queued}: {more} bytes");
            });
        }
    }
}
