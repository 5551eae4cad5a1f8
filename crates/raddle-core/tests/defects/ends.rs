//! Pools that are dropped while their tasks wait for scopes, and spawn only then.

use std::time::Duration;

use raddle_core::{Pool, scope, spawn};

use super::*;

/// For the waiting thread to fall asleep: should that take it longer, a test shows less, and passes. Nothing tells of that, as the
/// pool is being dropped.
const CHILD: Duration = Duration::from_millis(2);

/// A scope's child that outlasts its body, so that the task sleeps when the last child is over.
fn wait_for_a_scope() {
    let [taken, waits] = [const { AtomicBool::new(false) }; 2];
    scope(|s| {
        s.spawn(|_| {
            raise(&taken);
            until(&waits);
            thread::sleep(CHILD);
        });
        until(&taken);
        raise(&waits);
    });
}

/// Starts such a task, which then does this, and drops the pool while the task waits.
fn drop_while(what: &'static str, threads: usize, then: impl FnOnce() + Send + 'static) {
    ends(what, move || {
        let pool = Pool::new(threads).unwrap();
        let started = flag();
        let starts = Arc::clone(&started);
        drop(pool.spawn(move || {
            raise(&starts);
            wait_for_a_scope();
            then();
        }));
        until(&started);
        drop(pool);
    });
}

/// The task needs another thread after all others had nothing to do.
#[test]
fn a_dropped_pool_has_a_thread_for_the_child_of_one_that_waited_for_a_scope() {
    for _ in 0..sized(150) {
        for threads in [2, 3] {
            drop_while("a dropped pool", threads, || {
                let (send, receive) = mpsc::channel();
                drop(spawn(move || send.send(()).unwrap()));
                receive.recv().unwrap();
            });
        }
    }
}

/// Others want the processors, so that who was woken runs later.
struct Crowd(Arc<AtomicBool>);

impl Crowd {
    fn of(threads: usize) -> Crowd {
        let leave = flag();
        for _ in 0..threads {
            let leave = Arc::clone(&leave);
            thread::spawn(move || {
                while !leave.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Crowd(leave)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        raise(&self.0);
    }
}

#[test]
fn a_dropped_pool_runs_what_one_that_waited_for_a_scope_spawns() {
    let crowd = Crowd::of(4);
    for round in 0..sized(150) {
        let over = flag();
        let sets = Arc::clone(&over);
        drop_while("a dropped pool", 2, move || drop(spawn(move || raise(&sets))));
        assert!(over.load(Ordering::SeqCst), "the drop has returned before, in round {round}");
    }
    drop(crowd);
}
