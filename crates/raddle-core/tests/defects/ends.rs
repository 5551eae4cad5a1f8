//! Pools that are dropped while their tasks wait for scopes, and spawn only then.

use std::cell::RefCell;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use raddle_core::{CurrentPool, Pool, killed, scope, spawn};

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

/// What runs queues faster than anybody takes out, until it is killed.
#[test]
fn a_kill_of_all_ends_though_a_task_queues_on_and_on() {
    const MOST: usize = 2_000_000;
    for by_scope in [false, true] {
        ends("a kill of all", move || {
            let (pool, spawned) = (Pool::new(1).unwrap(), Arc::new(AtomicUsize::new(0)));
            let (count, (started, starts)) = (Arc::clone(&spawned), mpsc::channel());
            let task = pool.spawn(move || {
                let more = || !killed() && count.fetch_add(1, Ordering::SeqCst) < MOST;
                started.send(()).unwrap();
                if by_scope {
                    scope(|s| {
                        while more() {
                            s.spawn(|_| ());
                        }
                    });
                } else {
                    while more() {
                        drop(spawn(|| ()));
                    }
                }
            });
            starts.recv().unwrap();
            pool.kill_all();
            assert!(spawned.load(Ordering::SeqCst) < MOST, "the kill waited for it");
            assert!(task.wait().is_err());
        });
    }
}

/// A guest that has left keeps the pool it was in, and spawns there as another thread drops it.
#[test]
fn what_is_spawned_as_the_pool_ends_runs_or_is_refused() {
    let (mut ran, mut refused) = (0, 0);
    for round in 0..200_u32 {
        let ran_it = ends("what is spawned as the pool ends", move || {
            let pool = Arc::new(Pool::new(1).unwrap());
            let (shared, (tell, told)) = (Arc::clone(&pool), mpsc::channel());
            let guest = thread::Builder::new().stack_size(16 << 20).spawn(move || {
                let mut kept = None;
                shared.run(|_| {
                    // On this very thread, as a guest.
                    kept = Kept::new();
                });
                drop(shared);
                // It takes long to move.
                let large = [1_u8; 256 << 10];
                tell.send(()).unwrap();
                let kept = kept.unwrap();
                let spawn = AssertUnwindSafe(|| kept.0.spawn(move || large.len()));
                catch_unwind(spawn).ok().map(|future| future.wait().unwrap())
            });
            told.recv().unwrap();
            // The drop comes anywhere in what the guest does meanwhile.
            (0..round * 100).for_each(|_| std::hint::spin_loop());
            drop(pool);
            guest.unwrap().join().unwrap().is_some()
        });
        *(if ran_it { &mut ran } else { &mut refused }) += 1;
    }
    assert_eq!(ran + refused, 200);
}

/// Taken along out of a closure that is to be `Send`: on a guest's own thread it stays where it is.
struct Kept(CurrentPool);

// SAFETY: made and used by the one thread.
unsafe impl Send for Kept {}

impl Kept {
    fn new() -> Option<Kept> {
        Pool::current().map(Kept)
    }
}

/// What a thread's locals hold, which go when it has left: it spawns, and waits.
struct AtEnd(CurrentPool, mpsc::Sender<bool>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        let waits = AssertUnwindSafe(|| self.0.spawn(|| ()).wait().unwrap());
        self.1.send(catch_unwind(waits).is_ok()).unwrap();
    }
}

#[test]
fn what_a_thread_that_has_left_waits_for_runs_or_is_refused() {
    thread_local! {
        static AT_END: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
    }
    for round in 0..sized(3_000) {
        ends("what a thread that has left waits for", move || {
            let pool = Pool::builder().threads(1 + round % 2).keep_alive(Duration::ZERO);
            let pool = pool.build().unwrap();
            let ((kept, keeps), (tell, told)) = (mpsc::channel(), mpsc::channel());
            drop(pool.spawn(move || {
                AT_END.set(Some(AtEnd(Pool::current().unwrap(), tell)));
                kept.send(()).unwrap();
            }));
            keeps.recv().unwrap();
            (0..round % 64 * 100).for_each(|_| std::hint::spin_loop());
            drop(pool);
            told.recv().unwrap();
        });
    }
}
