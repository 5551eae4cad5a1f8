//! Panics, and what is dropped when.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;

use rayon_core::ThreadPoolBuilder;

use crate::{caught, pool};

#[test]
fn both_halves_of_a_join_run_and_the_first_panic_goes_on() {
    for threads in [1, 2] {
        let pool = pool(threads);
        let ran = AtomicBool::new(false);
        let result = caught(|| {
            pool.join(
                || panic!("a"),
                || {
                    assert!(!thread::panicking());
                    ran.store(true, SeqCst);
                    panic!("b")
                },
            )
        });
        assert_eq!(result.unwrap_err().downcast_ref::<&str>(), Some(&"a"));
        assert!(ran.into_inner());
    }
}

#[test]
fn a_scope_panics_when_all_its_tasks_are_over() {
    let pool = pool(2);
    let over = AtomicUsize::new(0);
    let result = caught(|| {
        pool.scope(|s| {
            s.spawn(|_| panic!("task"));
            for _ in 0..50 {
                s.spawn(|_| {
                    over.fetch_add(1, SeqCst);
                });
            }
        })
    });
    assert_eq!(result.unwrap_err().downcast_ref::<&str>(), Some(&"task"));
    assert_eq!(over.into_inner(), 50);
}

struct NotesDrop(Arc<AtomicBool>);

impl Drop for NotesDrop {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[test]
fn a_panic_handler_is_called_when_the_closure_is_gone() {
    let dropped = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&dropped);
    let (send, receive) = channel();
    let pool = ThreadPoolBuilder::new()
        .num_threads(1)
        .panic_handler(move |payload| {
            assert!(!thread::panicking());
            let text = *payload.downcast_ref::<&str>().unwrap();
            send.send((text, seen.load(SeqCst))).unwrap();
        })
        .build()
        .unwrap();
    let held = NotesDrop(Arc::clone(&dropped));
    pool.spawn(move || {
        let _held = held;
        panic!("spawned");
    });
    assert_eq!(receive.recv().unwrap(), ("spawned", true));
    pool.install(|| rayon_core::spawn_fifo(|| panic!("fifo")));
    assert_eq!(receive.recv().unwrap().0, "fifo");
    pool.spawn_broadcast(|_| panic!("broadcast"));
    assert_eq!(receive.recv().unwrap().0, "broadcast");
}

#[test]
fn a_closure_is_dropped_as_soon_as_it_has_run() {
    let dropped = Arc::new(AtomicBool::new(false));
    let pool = pool(1);
    let held = NotesDrop(Arc::clone(&dropped));
    pool.spawn(move || drop(held));
    pool.install(|| assert!(dropped.load(SeqCst)));
}

#[test]
fn of_several_panics_the_first_goes_on() {
    // That of the thread with the lowest index.
    let pool = pool(4);
    let result =
        caught(|| pool.broadcast(|context| -> u32 { std::panic::panic_any(context.index()) }));
    assert_eq!(result.unwrap_err().downcast_ref::<usize>(), Some(&0));
    // That which came first, whether a task's or the body's.
    let one = crate::pool(1);
    let result = caught(|| {
        one.scope(|s| {
            s.spawn(|_| panic!("task"));
            assert_eq!(rayon_core::yield_local(), Some(rayon_core::Yield::Executed));
            panic!("body")
        })
    });
    assert_eq!(result.unwrap_err().downcast_ref::<&str>(), Some(&"task"));
    let result = caught(|| {
        one.scope(|s| {
            s.spawn(|_| panic!("task"));
            panic!("body")
        })
    });
    assert_eq!(result.unwrap_err().downcast_ref::<&str>(), Some(&"body"));
}

/// Notes whether a panic passes as it is dropped.
struct NotesPanic<'a>(&'a Mutex<Vec<bool>>);

impl Drop for NotesPanic<'_> {
    fn drop(&mut self) {
        self.0.lock().unwrap().push(thread::panicking());
    }
}

/// Values commit when they are dropped, and do not when a panic passes.
#[test]
fn what_was_returned_goes_as_the_panic_of_another_part_passes() {
    for threads in [1, 2, 3] {
        let pool = pool(threads);
        let went = Mutex::new(Vec::new());
        let note = || NotesPanic(&went);
        let went = || std::mem::take(&mut *went.lock().unwrap());
        assert!(caught(|| pool.join(note, || panic!("second half"))).is_err());
        assert_eq!(went(), [true]);
        assert!(caught(|| pool.join(|| panic!("first half"), note)).is_err());
        assert_eq!(went(), [true]);
        let result = caught(|| {
            pool.scope(|s| {
                s.spawn(|_| panic!("task"));
                note()
            })
        });
        assert!(result.is_err());
        assert_eq!(went(), [true]);
        let result = caught(|| {
            pool.in_place_scope_fifo(|s| {
                s.spawn_broadcast(|_, _| panic!("call"));
                note()
            })
        });
        assert!(result.is_err());
        assert_eq!(went(), [true]);
        let result = caught(|| {
            pool.broadcast(|context| {
                assert!(context.index() != 1 && threads > 1, "one call");
                note()
            })
        });
        assert!(result.is_err());
        assert_eq!(went(), vec![true; threads - 1]);
    }
}
