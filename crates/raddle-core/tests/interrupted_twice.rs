//! An async future that is interrupted by two at once. A process of its own: what follows tasks does so until the end.

use std::cell::RefCell;
use std::sync::mpsc;
use std::thread;

use raddle_core::{FailureKind, Follow, Pool, follow};

thread_local! {
    /// What stops this thread when it enters something.
    static GATE: RefCell<Option<(mpsc::Sender<()>, mpsc::Receiver<()>)>> =
        const { RefCell::new(None) };
}

/// Follows nothing, and stops who has a gate.
struct Stops;

impl Follow for Stops {
    type State = ();
    type Guard = ();

    fn capture(&self) -> Option<()> {
        None
    }

    fn enter(&self, _: Option<&()>) {
        if let Some((reached, open)) = GATE.take() {
            reached.send(()).unwrap();
            let _ = open.recv();
        }
    }
}

#[test]
fn who_comes_second_finds_the_handler_running_and_the_poll_queued() {
    follow(Stops);
    let pool = Pool::new(1).unwrap();
    let (go, goes) = mpsc::channel::<()>();
    let (started, starts) = mpsc::channel();
    drop(pool.spawn(move || {
        started.send(()).unwrap();
        let _ = goes.recv();
    }));
    starts.recv().unwrap();
    let future = pool.spawn_async(std::future::pending::<()>());
    let (reached, is_reached) = mpsc::channel();
    let (open, opens) = mpsc::channel();
    thread::scope(|s| {
        s.spawn(|| {
            GATE.set(Some((reached, opens)));
            future.interrupt("first");
        });
        // It is about to say how the future ends.
        is_reached.recv().unwrap();
        future.interrupt("second");
        drop(open);
    });
    assert_eq!(future.wait().unwrap_err().kind(), FailureKind::Interrupted);
    drop(go);
}
