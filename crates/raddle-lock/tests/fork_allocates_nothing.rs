//! What std forks for a command allocates nothing before it has become another program, whatever locks there are: an allocator may have
//! a lock that another thread had in that moment.

#![cfg(all(unix, not(miri)))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use raddle_lock::{Condvar, Mutex, OnceLock, RwLock};

static PARENT: AtomicI32 = AtomicI32::new(0);
static CALLS_IN_CHILDREN: AtomicUsize = AtomicUsize::new(0);

struct Counting;

fn count() {
    let parent = PARENT.load(Ordering::Relaxed);
    // SAFETY: no arguments, no effects.
    if parent != 0 && unsafe { libc::getpid() } != parent {
        CALLS_IN_CHILDREN.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: the system's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: by contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count();
        // SAFETY: by contract.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_command_is_forked_without_a_call_of_the_allocator() {
    let shared = Arc::new((
        Mutex::new(0),
        RwLock::new(0),
        (Mutex::new(false), Condvar::new()),
        OnceLock::<u32>::new(),
    ));
    let (stop, waiting) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let held = (shared.0.lock(), shared.1.write());
    // Waiters of each kind, one that makes a value, and one that waits for it.
    let threads: Vec<_> = (0..10)
        .map(|kind| {
            let (shared, stop) = (Arc::clone(&shared), Arc::clone(&stop));
            let waiting = Arc::clone(&waiting);
            thread::spawn(move || {
                waiting.fetch_add(1, Ordering::SeqCst);
                match kind % 5 {
                    0 => *shared.0.lock() += 1,
                    1 => *shared.1.write() += 1,
                    2 => drop(shared.1.read()),
                    3 => {
                        let (gate, opened) = &shared.2;
                        let mut open = gate.lock();
                        opened.wait_while(&mut open, |open| !*open);
                    }
                    _ => {
                        shared.3.get_or_init(|| {
                            while !stop.load(Ordering::SeqCst) {
                                thread::sleep(Duration::from_millis(1));
                            }
                            7
                        });
                    }
                }
            })
        })
        .collect();
    while waiting.load(Ordering::SeqCst) < threads.len() {
        thread::yield_now();
    }
    PARENT.store(std::process::id() as i32, Ordering::Relaxed);
    for _ in 0..20 {
        let mut command = Command::new("true");
        let no_calls = || match CALLS_IN_CHILDREN.load(Ordering::Relaxed) {
            0 => Ok(()),
            _ => Err(io::ErrorKind::Deadlock.into()),
        };
        // SAFETY: a load.
        unsafe { command.pre_exec(no_calls) };
        let ended = command.status().expect("the allocator was called in the child");
        assert!(ended.success());
    }
    PARENT.store(0, Ordering::Relaxed);
    drop(held);
    stop.store(true, Ordering::SeqCst);
    *shared.2.0.lock() = true;
    shared.2.1.notify_all();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!((*shared.0.lock(), *shared.1.read(), shared.3.get()), (2, 2, Some(&7)));
}
