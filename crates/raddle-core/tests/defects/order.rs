//! Who comes first: what is queued has its turn, whatever comes later.

use std::future::poll_fn;
use std::sync::Barrier;
use std::sync::atomic::AtomicUsize;
use std::task::Poll;
use std::time::Instant;

use raddle_core::{Future, spawn};

use super::*;

/// A place that a guest leaves is for whoever has waited longest, not for who has just left or comes next.
#[test]
fn callers_that_find_no_place_have_it_in_turn() {
    const CALLERS: usize = 5;
    for threads in [1, 2] {
        ends("a queued call", move || {
            let pool = &Pool::new(threads).unwrap();
            let (all, served) = (&AtomicUsize::new(0), [(); CALLERS].map(|()| AtomicUsize::new(0)));
            thread::scope(|callers| {
                for served in &served {
                    // One call after the other without a pause.
                    callers.spawn(move || {
                        while all.fetch_add(1, Ordering::SeqCst) < 500 {
                            // Work that leaves the processor to the other callers, who come for the place.
                            pool.run(|_| thread::sleep(Duration::from_millis(1)));
                            served.fetch_add(1, Ordering::SeqCst);
                        }
                    });
                }
            });
            // As many each, but for what the system keeps a caller away.
            let served = served.map(AtomicUsize::into_inner);
            let (least, most) = (served.iter().min(), served.iter().max());
            assert!(most.unwrap() / 4 <= *least.unwrap(), "served {served:?} times");
        });
    }
}

async fn pause() {
    let mut once = false;
    poll_fn(move |context| {
        if once {
            return Poll::Ready(());
        }
        once = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// What keeps a thread busy until the flag is up, and counts.
type Busy = fn(Arc<AtomicBool>, Arc<AtomicUsize>);

fn yields(done: Arc<AtomicBool>, turns: Arc<AtomicUsize>) {
    drop(Future::from_async(async move {
        while !done.load(Ordering::SeqCst) {
            turns.fetch_add(1, Ordering::SeqCst);
            pause().await;
        }
    }));
}

fn spawns_itself(done: Arc<AtomicBool>, turns: Arc<AtomicUsize>) {
    if !done.load(Ordering::SeqCst) {
        turns.fetch_add(1, Ordering::SeqCst);
        drop(spawn(move || spawns_itself(done, turns)));
    }
}

/// Two in turn, so that neither is ever alone.
fn spawn_each_other(done: Arc<AtomicBool>, turns: Arc<AtomicUsize>) {
    spawns_itself(Arc::clone(&done), Arc::clone(&turns));
    yields(done, turns);
}

/// As many as there are threads start from one ring, on top of what would end them.
#[test]
fn what_lies_beneath_one_that_yields_has_its_turn() {
    for busy in [yields as Busy, spawns_itself, spawn_each_other] {
        for threads in [1, 2] {
            for asynchronous in [false, true] {
                for beneath in [1, 300] {
                    ends("what lies beneath", move || {
                        let pool = Pool::new(threads).unwrap();
                        let (done, turns) = (flag(), Arc::<AtomicUsize>::default());
                        let (left, raised) = (Arc::new(AtomicUsize::new(beneath)), done.clone());
                        let task = pool.spawn({
                            let turns = Arc::clone(&turns);
                            move || {
                                for _ in 0..beneath {
                                    let (left, raised) = (Arc::clone(&left), Arc::clone(&raised));
                                    let ends = move || {
                                        if left.fetch_sub(1, Ordering::SeqCst) == 1 {
                                            raise(&raised);
                                        }
                                    };
                                    if asynchronous {
                                        drop(Future::from_async(async move { ends() }));
                                    } else {
                                        drop(spawn(ends));
                                    }
                                }
                                for _ in 0..threads {
                                    busy(Arc::clone(&raised), Arc::clone(&turns));
                                }
                            }
                        });
                        task.wait().unwrap();
                        until(&done);
                    });
                }
            }
        }
    }
}

/// A thread that found work in its last look before it slept, and then had to leave its place to a guest, has told another.
#[test]
fn a_task_beside_a_guest_is_not_left_to_who_sits_out() {
    ends("a task beside a guest", || {
        let pool =
            Pool::builder().threads(2).keep_alive(Duration::from_secs(1000)).build().unwrap();
        // What was lost was lost within some seconds.
        let time = Duration::from_secs(if cfg!(debug_assertions) { 1 } else { 10 });
        let (limit, mut seed) = (Instant::now() + time, 1_u64);
        let mut rounds = 0;
        while Instant::now() < limit {
            rounds += 1;
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            // Both threads work; the first goes to sleep, the second is the last to search.
            let meet = Arc::new(Barrier::new(2));
            let (send, receive) = mpsc::channel();
            for _ in 0..2 {
                let (meet, send) = (Arc::clone(&meet), send.clone());
                drop(pool.spawn(move || {
                    meet.wait();
                    if thread::current().name() == Some("raddle-1") {
                        spin_until(Instant::now() + Duration::from_micros(400));
                    }
                    send.send(Instant::now()).unwrap();
                }));
            }
            // Both, whatever their names: spare threads may have come.
            let at = receive.recv().unwrap().max(receive.recv().unwrap());
            spin_until(at + Duration::from_nanos(seed % 150_000));
            let (send, receive) = mpsc::channel();
            drop(pool.spawn(move || send.send(()).unwrap()));
            // The guest takes one thread's place; the other one is there for the task.
            let got = pool.run(move |_| receive.recv_timeout(LONG / 4));
            assert!(got.is_ok(), "lost in round {rounds}");
        }
    });
}

fn spin_until(time: Instant) {
    while Instant::now() < time {
        std::hint::spin_loop();
    }
}
