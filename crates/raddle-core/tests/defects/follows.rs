//! What follows tasks is asked by code that holds nothing of the pool's: it may fork, spawn, wait, call the pool, and lock.

use std::cell::Cell;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use raddle_core::{Follow, Future, Pool, Promise, blocking, follow, join, scope, spawn};

use super::*;

/// Whether this process is the one that the test is about: what follows does so until the end of it.
fn in_process_of_its_own(test: &str) -> bool {
    const CHILD: &str = "RADDLE_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", &format!("follows::{test}"), "--nocapture"]).env(CHILD, "1");
    let output = child.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("1 passed"), "{told}\n{errors}");
    false
}

static POOL: Mutex<Option<Arc<Pool>>> = Mutex::new(None);
static CAPTURES: AtomicUsize = AtomicUsize::new(0);
static LOCKED: Mutex<()> = Mutex::new(());

thread_local! {
    static DOES: Cell<Option<fn()>> = const { Cell::new(None) };
}

fn pool() -> Arc<Pool> {
    POOL.lock().unwrap().as_ref().map(Arc::clone).unwrap()
}

/// A capture that does what this thread's captures are to do.
struct Asks;

impl Follow for Asks {
    type State = ();
    type Guard = ();

    fn capture(&self) -> Option<()> {
        // What it does itself is not followed.
        if let Some(does) = DOES.get() {
            CAPTURES.fetch_add(1, Ordering::SeqCst);
            does();
        }
        Some(())
    }

    fn enter(&self, _: Option<&()>) {}
}

/// Another thread has the lock while it calls the pool.
fn locks() {
    let (has, holds) = mpsc::channel();
    let (here, comes) = mpsc::channel();
    let pool = pool();
    let other = thread::spawn(move || {
        let guard = LOCKED.lock().unwrap();
        has.send(()).unwrap();
        comes.recv().unwrap();
        drop(pool.spawn(|| ()));
        pool.run(|worker| worker.join(|_| (), |_| ()));
        drop(guard);
    });
    holds.recv().unwrap();
    here.send(()).unwrap();
    // So that the other one has a place.
    blocking(|| drop(LOCKED.lock().unwrap()));
    blocking(|| other.join().unwrap());
}

const DOES_WHAT: [(&str, fn()); 7] = [
    ("join", || assert_eq!(join(|| 1, || 2), (1, 2))),
    ("spawn", || drop(spawn(|| ()))),
    ("wait", || spawn(|| ()).wait().unwrap()),
    ("call", || assert_eq!(pool().run(|worker| worker.join(|_| 1, |_| 2)), (1, 2))),
    ("scope", || scope(|s| s.spawn(|_| ()))),
    ("kill all", || assert_eq!(Pool::new(1).unwrap().kill_all(), 0)),
    ("lock", locks),
];

/// What has something captured, from outside of the pool or within.
type Ask = fn(&Pool);

const ASKED_BY: [(&str, Ask); 8] = [
    ("on", |pool| {
        let (promise, future) = Promise::<u32>::new();
        let next = future.on(pool).map(|n| n + 1);
        promise.set(1);
        assert_eq!(next.wait().unwrap(), 2);
    }),
    ("on, from within a task", |pool| {
        let (promise, future) = Promise::<u32>::new();
        let next = future.on(pool).map(|n| n + 1).on(pool).flat_map(|n| spawn(move || n + 1));
        pool.spawn(move || promise.set(1)).wait().unwrap();
        assert_eq!(next.wait().unwrap(), 3);
    }),
    ("spawn", |pool| assert_eq!(pool.spawn(|| 1).wait().unwrap(), 1)),
    ("async", |pool| assert_eq!(pool.spawn_async(async { 1 }).wait().unwrap(), 1)),
    ("async, from here", |_| assert_eq!(Future::from_async(async { 1 }).wait().unwrap(), 1)),
    ("run", |pool| assert_eq!(pool.run(|worker| worker.join(|_| 1, |_| 2)), (1, 2))),
    ("scope", |pool| pool.scope(|s| (0..300).for_each(|_| s.spawn(|_| ())))),
    ("broadcast", |pool| assert_eq!(pool.broadcast(|_| ()).len(), pool.num_threads())),
];

#[test]
fn a_capture_may_do_anything_wherever_it_is_asked() {
    if !in_process_of_its_own("a_capture_may_do_anything_wherever_it_is_asked") {
        return;
    }
    follow(Asks);
    for threads in [1, 2] {
        *POOL.lock().unwrap() = Some(Arc::new(Pool::new(threads).unwrap()));
        for (what, does) in DOES_WHAT {
            for (who, asks) in ASKED_BY {
                for within in [false, true] {
                    ends(&format!("a capture for {who} that does {what}"), move || {
                        let ask = move |pool: &Pool| {
                            DOES.set(Some(does));
                            asks(pool);
                            DOES.set(None);
                        };
                        let pool = pool();
                        if within { pool.run(|_| ask(&pool)) } else { ask(&pool) }
                    });
                }
            }
        }
    }
    assert!(CAPTURES.load(Ordering::SeqCst) > 100);
}
