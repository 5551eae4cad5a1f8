//! State of other libraries follows tasks. A process of its own: what follows does so until the end.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};

use raddle_core::{Follow, Pool, Promise, Snapshot, follow, join, scope, spawn};

thread_local! {
    static REQUEST: Cell<u32> = const { Cell::new(0) };
}

/// Follows, counts what is under way, and panics when told to.
struct Request;

static CAPTURED: AtomicUsize = AtomicUsize::new(0);

struct Captured(u32);
struct Back(u32);

const PANICS: u32 = 666;

impl Follow for Request {
    type State = Captured;
    type Guard = Back;

    fn capture(&self) -> Option<Captured> {
        let request = REQUEST.get();
        assert_ne!(request, PANICS);
        // Followers may use what they follow.
        assert_eq!(join(|| 1, || 2), (1, 2));
        (request != 0).then(|| {
            CAPTURED.fetch_add(1, Ordering::Relaxed);
            Captured(request)
        })
    }

    fn enter(&self, state: Option<&Captured>) -> Back {
        Back(REQUEST.replace(state.map_or(0, |captured| captured.0)))
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        CAPTURED.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Back {
    fn drop(&mut self) {
        REQUEST.set(self.0);
    }
}

fn with_request<R>(request: u32, f: impl FnOnce() -> R) -> R {
    let _back = Back(REQUEST.replace(request));
    f()
}

#[test]
fn a_request_follows_its_tasks() {
    let pool = Pool::new(2).unwrap();
    let both = Barrier::new(2);
    let meet = || {
        both.wait();
        REQUEST.get()
    };
    pool.run(|worker| {
        // Nothing follows yet; this worker has forks under way when something comes to.
        let first = worker.join(
            |worker| {
                follow(Request);
                with_request(1, || worker.join(|_| meet(), |_| meet()))
            },
            |_| REQUEST.get(),
        );
        assert_eq!(first, ((1, 1), 0));
        for request in 2..200 {
            let forked = with_request(request, || join(meet, || with_request(7, meet)));
            assert_eq!(forked, (request, 7));
            // Changed after the fork.
            let forked = with_request(request, || join(|| with_request(1, meet), meet));
            assert_eq!(forked, (1, request));
            assert_eq!(worker.join(|_| with_request(1, meet), |_| meet()), (1, 0));
        }
        let task = with_request(3, || spawn(|| (REQUEST.get(), spawn(|| REQUEST.get()).wait())));
        let (promise, future) = Promise::new();
        let attached = with_request(4, || future.map(|()| REQUEST.get()));
        let bare = spawn(|| REQUEST.get());
        let snapshot = with_request(5, Snapshot::capture);
        with_request(6, || {
            promise.set(());
            let (outer, inner) = task.wait().unwrap();
            assert_eq!((outer, inner.unwrap()), (3, 3));
            assert_eq!(attached.wait().unwrap(), 4);
            assert_eq!(bare.wait().unwrap(), 0);
            assert_eq!(snapshot.run(|| REQUEST.get()), 5);
            scope(|s| {
                s.spawn(|_| assert_eq!(REQUEST.get(), 6));
                with_request(0, || s.spawn(|_| assert_eq!(REQUEST.get(), 0)));
            });
            assert_eq!(REQUEST.get(), 6);
        });
        // A follower that panics has nothing follow, and a fork that panics has nothing stay.
        let forked = with_request(PANICS, || join(|| with_request(1, meet), meet));
        assert_eq!(forked, (1, 0));
        let panics = || -> u32 {
            both.wait();
            std::panic::resume_unwind(Box::new("meant"));
        };
        let panicked = catch_unwind(AssertUnwindSafe(|| with_request(2, || join(meet, panics))));
        assert!(panicked.is_err());
        let panicked = catch_unwind(AssertUnwindSafe(|| with_request(2, || join(panics, meet))));
        assert!(panicked.is_err());
        assert_eq!(REQUEST.get(), 0);
    });
    drop(pool);
    assert_eq!(CAPTURED.load(Ordering::Relaxed), 0);

    // A fork of a hook's, too, which is what a thread does first.
    let (both, calls) = (Arc::new(Barrier::new(2)), AtomicUsize::new(0));
    let (send, receive) = mpsc::channel();
    let hook = move || {
        let meet = || {
            both.wait();
            REQUEST.get()
        };
        if calls.fetch_add(1, Ordering::Relaxed) == 0 {
            send.send(with_request(8, || join(meet, meet))).unwrap();
        }
    };
    let pool = Pool::builder().threads(2).on_thread_start(hook).build().unwrap();
    assert_eq!(receive.recv().unwrap(), (8, 8));
    drop(pool);
    assert_eq!(CAPTURED.load(Ordering::Relaxed), 0);
}
