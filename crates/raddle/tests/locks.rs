//! Locks and the pool: work that a thread takes on while it waits is another strand, and does not come
//! into locks which the work beneath it holds.

use raddle::lock::{Condvar, LazyLock, Mutex, ObjectHeader, ReentrantLock, RwLock};
use raddle::trace::TraceLevel;
use raddle::{Pool, Promise, Waits, Worker, spawn, yield_now};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Waits for a fork while holding re-entrant locks, so that the thread steals meanwhile; what it steals
/// looks whether it could get in. With locks owned by threads it could, whenever it runs on the holder's
/// thread.
#[test]
fn stolen_work_never_reenters_what_the_waiting_task_holds() {
    let pool = Pool::new(2).unwrap();
    let lock = ReentrantLock::new(Cell::new(0));
    let header = ObjectHeader::new();
    let on_holders_thread = AtomicUsize::new(0);
    let intrusions = AtomicUsize::new(0);
    let look = |holder: thread::ThreadId| {
        if thread::current().id() == holder {
            on_holders_thread.fetch_add(1, Ordering::Relaxed);
            let inside = lock.try_lock().is_some() || header.try_lock().is_some();
            intrusions.fetch_add(usize::from(inside), Ordering::Relaxed);
        }
    };
    // Whether the thief forks while the owner waits is up to the scheduler: until it has been seen often
    // enough, and at most so often.
    for _ in 0..2_000 {
        if on_holders_thread.load(Ordering::Relaxed) >= 50 {
            break;
        }
        pool.run(|worker| {
            let guard = lock.lock();
            let _held = header.lock();
            let holder = thread::current().id();
            let stolen = AtomicBool::new(false);
            worker.join(
                |_| {
                    // Not before the other half is stolen: then this worker has to wait for it.
                    while !stolen.load(Ordering::Acquire) {
                        std::hint::spin_loop();
                    }
                },
                |thief| {
                    stolen.store(true, Ordering::Release);
                    fork(thief, 6, &|| look(holder));
                },
            );
            guard.set(guard.get() + 1);
        });
    }
    assert!(on_holders_thread.load(Ordering::Relaxed) > 0, "nothing was ever stolen back");
    assert_eq!(intrusions.load(Ordering::Relaxed), 0);
    assert!(!lock.is_locked() && !header.is_locked());
}

/// In a pool whose threads take on anything while they wait, what lies on top of an initialiser and asks for its value fails;
/// the initialiser goes on.
#[test]
fn a_guest_of_an_initialiser_fails_and_the_value_is_made() {
    static LAZY: LazyLock<String> = LazyLock::new(|| {
        let (promise, future) = Promise::new();
        // Not upstream of what is waited for.
        drop(spawn(|| LAZY.len()).on_complete(move |asked| {
            promise.set(asked.clone().unwrap_err().to_string());
        }));
        future.wait().unwrap()
    });
    in_time(|| {
        let pool = Pool::builder().threads(1).waits(Waits::Host).build().unwrap();
        let maker = pool.spawn(|| LAZY.len());
        while !maker.is_done() {
            thread::yield_now();
        }
        assert!(LAZY.contains("asked for by what makes it"), "{}", *LAZY);
    });
}

/// The facade has the crate whose traits and locks go with the raw ones.
#[test]
fn lock_api_comes_along() {
    use raddle::lock::{RawRwLock, RawThinLock, lock_api};
    static COUNT: lock_api::Mutex<RawThinLock, u32> = lock_api::Mutex::new(0);
    let both = lock_api::RwLock::<RawRwLock, _>::new((0, 0));
    raddle::join(|| *COUNT.lock() += 1, || both.write().1 += 1);
    assert_eq!((*COUNT.lock(), *both.read()), (1, (0, 1)));
}

/// A tree of forks, with a look and a little work at each leaf.
fn fork(worker: &Worker, depth: u32, look: &(impl Fn() + Sync)) {
    if depth == 0 {
        look();
        (0..2_000).for_each(|_| std::hint::spin_loop());
        return;
    }
    worker.join(|w| fork(w, depth - 1, look), |w| fork(w, depth - 1, look));
}

#[test]
fn tasks_share_a_mutex() {
    let pool = Pool::new(4).unwrap();
    let total = Mutex::new(0_u64);
    pool.run(|worker| add(worker, 0, 2_000, &total));
    assert_eq!(total.into_inner(), (0..2_000).sum());
}

fn add(worker: &Worker, from: u64, to: u64, total: &Mutex<u64>) {
    if to - from == 1 {
        *total.lock() += from;
        return;
    }
    let middle = from.midpoint(to);
    worker.join(|w| add(w, from, middle, total), |w| add(w, middle, to, total));
}

/// On a pool of one place: whoever waits for a lock gives the place to the task that lets go of it in the end.
#[test]
fn a_wait_for_a_lock_gives_the_place_away_and_shows_in_the_trace() {
    let pool = Pool::builder().threads(1).trace(TraceLevel::Phase).build().unwrap();
    let waits: [fn(&Held); 4] = [
        |held| *held.mutex.lock() += 1,
        |held| assert_eq!(*held.lock.read(), 0),
        |held| *held.lock.write() += 1,
        |held| held.changed.wait_while(&mut held.told.lock(), |told| !*told),
    ];
    for wait in waits {
        let held = Held::default();
        let before = waited(&pool);
        thread::scope(|s| {
            let (mutex, lock) = (held.mutex.lock(), held.lock.write());
            s.spawn(|| {
                pool.scope(|scope| {
                    scope.spawn(|_| held.go.store(true, Ordering::Release));
                    wait(&held); // Only if the place goes to the task does this come to an end.
                });
            });
            while !held.go.load(Ordering::Acquire) {
                thread::yield_now();
            }
            *held.told.lock() = true;
            held.changed.notify_all();
            drop((mutex, lock));
        });
        assert!(waited(&pool) > before, "a wait that the trace does not show");
    }
}

#[derive(Default)]
struct Held {
    mutex: Mutex<u32>,
    lock: RwLock<u32>,
    told: Mutex<bool>,
    changed: Condvar,
    go: AtomicBool,
}

/// How many waits of some length the trace shows.
fn waited(pool: &Pool) -> usize {
    let trace = pool.trace();
    let events = trace.lanes.iter().flat_map(|lane| &lane.events);
    events.filter(|event| event.kind.name() == "WAITED").count()
}

/// rayon's issue 592: a value whose initialiser forks, asked for by work that is stolen meanwhile.
#[test]
fn a_lazy_value_that_forks_is_asked_for_by_all_workers_and_made_once() {
    for threads in [1, 2, 4] {
        let pool = Pool::new(threads).unwrap();
        for _ in 0..20 {
            let made = AtomicUsize::new(0);
            let lazy = LazyLock::new(|| {
                made.fetch_add(1, Ordering::Relaxed);
                let total = Mutex::new(0);
                raddle::scope(|scope| {
                    for n in 0..32 {
                        let total = &total;
                        scope.spawn(move |_| {
                            (0..500).for_each(|_| std::hint::spin_loop());
                            *total.lock() += n;
                        });
                    }
                });
                total.into_inner()
            });
            pool.scope(|scope| {
                for _ in 0..16 {
                    let lazy = &lazy;
                    scope.spawn(move |_| assert_eq!(**lazy, (0..32).sum::<u64>()));
                }
            });
            assert_eq!(made.into_inner(), 1);
        }
    }
}

#[test]
fn a_task_does_not_come_into_what_an_earlier_one_has_not_let_go_of() {
    static LOCK: ReentrantLock<()> = ReentrantLock::new(());
    let pool = Pool::new(1).unwrap();
    let forgets = || std::mem::forget(LOCK.lock());
    pool.spawn(move || spawn(forgets).wait().unwrap()).wait().unwrap();
    // Which thread runs them is theirs to say.
    let tries = [(); 20].map(|()| {
        let (sender, receiver) = mpsc::channel();
        drop(pool.spawn(move || sender.send(LOCK.try_lock().is_some()).unwrap()));
        receiver.recv().unwrap()
    });
    assert_eq!(tries, [false; 20]);
    let (sender, receiver) = mpsc::channel();
    static OTHER: ReentrantLock<()> = ReentrantLock::new(());
    drop(pool.spawn(move || {
        std::mem::forget(OTHER.lock());
        drop(spawn(move || sender.send(OTHER.try_lock().is_some()).unwrap()));
    }));
    assert!(!receiver.recv().unwrap(), "the next task was taken for the one before");
}

/// Tasks that are killed leave places in the ring, which are cleared: so what lies above moves down.
#[test]
fn a_scope_finds_its_tasks_also_if_others_beneath_are_killed() {
    in_time(|| {
        let lock = Mutex::new(());
        let pool = Pool::builder().threads(1).max_spare_threads(0).build().unwrap();
        let (send, receive) = mpsc::channel();
        drop(pool.spawn(move || {
            let guard = lock.lock();
            let early: Vec<_> = (0..130).map(|_| spawn(|| ())).collect();
            let mut later = None;
            raddle::scope(|scope| {
                scope.spawn(|_| ());
                early.iter().for_each(|early| _ = early.kill());
                later = Some(spawn(|| ()));
            });
            drop(guard);
            later.unwrap().wait().unwrap();
            send.send(()).unwrap();
        }));
        receive.recv().unwrap();
    });
}

/// Where no other thread may come, and whoever waits is no host as it holds a lock: the tasks of a scope are its own, wherever
/// they have got to.
#[test]
fn a_scope_that_is_waited_for_under_a_lock_finds_its_tasks() {
    let over = in_time(|| {
        let lock = Mutex::new(());
        let pool = Pool::builder().threads(1).max_spare_threads(0).build().unwrap();
        let (send, receive) = mpsc::channel();
        drop(pool.spawn(move || {
            let count = AtomicUsize::new(0);
            let guard = lock.lock();
            raddle::scope(|outer| {
                raddle::scope(|inner| {
                    for _ in 0..300 {
                        inner.spawn(|_| _ = count.fetch_add(1, Ordering::Relaxed));
                        outer.spawn(|_| _ = count.fetch_add(1, Ordering::Relaxed));
                    }
                });
                // From another thread, while this one may wait already.
                thread::scope(|threads| {
                    let spawn = || outer.spawn(|_| _ = count.fetch_add(1, Ordering::Relaxed));
                    threads.spawn(spawn).join().unwrap();
                });
            });
            drop(guard);
            send.send(count.into_inner()).unwrap();
        }));
        // As one that cannot help.
        receive.recv().unwrap()
    });
    assert_eq!(over, 601);
}

/// As above, where the scope's task lies beneath another's in a ring that has sunk since the scope was opened.
#[test]
fn a_scope_that_is_waited_for_under_a_lock_finds_its_tasks_beneath_others() {
    in_time(|| {
        let lock = Mutex::new(());
        let pool = Pool::builder().threads(1).max_spare_threads(0).build().unwrap();
        let (send, receive) = mpsc::channel();
        drop(pool.spawn(move || {
            let guard = lock.lock();
            let early: Vec<_> = (0..10).map(|_| raddle::spawn(|| ())).collect();
            raddle::scope(|scope| {
                // Each is run by who waits, so the ring ends lower than where the scope began.
                early.into_iter().rev().for_each(|task| task.wait().unwrap());
                scope.spawn(|_| ());
                drop(raddle::spawn(|| ()));
            });
            drop(guard);
            send.send(()).unwrap();
        }));
        // As one that cannot help.
        receive.recv().unwrap();
    });
}

/// Of two threads one waits inside of a panic, and the other comes for what needs a lock that the first holds.
#[test]
fn a_wait_inside_of_a_panic_under_a_lock() {
    struct Waits(Option<raddle::Future<()>>);

    impl Drop for Waits {
        fn drop(&mut self) {
            let _ = self.0.take().unwrap().wait();
        }
    }

    in_time(|| {
        static LOCK: Mutex<()> = Mutex::new(());
        for _ in 0..20 {
            let pool = Pool::builder().threads(2).max_spare_threads(0).build().unwrap();
            let task = pool.spawn(|| {
                let _guard = LOCK.lock();
                drop(spawn(|| drop(LOCK.lock())));
                let _waits = Waits(Some(spawn(|| ())));
                std::panic::resume_unwind(Box::new("on purpose"));
            });
            while !task.is_done() {
                thread::yield_now();
            }
        }
    });
}

/// On a thread of its own, so that what hangs fails.
fn in_time<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> R {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || send.send(f()));
    receive.recv_timeout(std::time::Duration::from_secs(120)).expect("it panics, or hangs")
}

/// More tasks want a lock than there may be threads. A thread that waits for something else would have to take on one of them, and
/// whoever has the lock waits for what lies beneath.
#[test]
fn more_tasks_want_a_lock_than_there_are_spare_threads() {
    const OTHERS: usize = 600;
    let pool = Pool::new(1).unwrap();
    let waiting = |count| {
        while pool.stats().given < count {
            thread::yield_now();
        }
    };
    let lock = Arc::new(Mutex::new(0));
    let (over, ends) = mpsc::channel();
    let ((ask, asked), (answer, answered)) = (Promise::<()>::new(), Promise::<()>::new());
    let (has, end) = (Arc::clone(&lock), over.clone());
    pool.spawn(move || {
        let mut count = has.lock();
        *count += 1;
        answered.wait().unwrap();
        end.send(()).unwrap();
    })
    .detach();
    waiting(1);
    let end = over.clone();
    pool.spawn(move || {
        asked.wait().unwrap();
        answer.set(());
        end.send(()).unwrap();
    })
    .detach();
    waiting(2);
    let mut ask = Some(ask);
    for number in 0..OTHERS {
        // From whichever end they are taken, there are too many before it.
        if let Some(ask) = ask.take_if(|_| number == OTHERS / 2) {
            pool.spawn(move || ask.set(())).detach();
        }
        let (wanted, end) = (Arc::clone(&lock), over.clone());
        pool.spawn(move || {
            *wanted.lock() += 1;
            end.send(()).unwrap();
        })
        .detach();
    }
    for _ in 0..OTHERS + 2 {
        ends.recv_timeout(Duration::from_secs(60)).expect("all end");
    }
    assert_eq!(*lock.lock(), OTHERS + 1);
}

/// As long as it works it may be about to release the lock.
#[test]
fn who_wants_the_lock_of_a_task_that_works_brings_no_thread_beyond_the_cap() {
    const OTHERS: usize = 600;
    let pool = Pool::new(2).unwrap();
    let lock = Arc::new(Mutex::new(0));
    let (begins, begun) = mpsc::channel();
    let held = Arc::clone(&lock);
    let holder = pool.spawn(move || {
        let _held = held.lock();
        begins.send(()).unwrap();
        let since = Instant::now();
        while since.elapsed() < Duration::from_secs(1) {
            std::hint::spin_loop();
        }
    });
    begun.recv().unwrap();
    // One that could take on others.
    let (promise, future) = Promise::<()>::new();
    let waits = pool.spawn(move || future.wait());
    let others: Vec<_> = (0..OTHERS)
        .map(|_| {
            let wanted = Arc::clone(&lock);
            pool.spawn(move || *wanted.lock() += 1)
        })
        .collect();
    holder.wait().unwrap();
    others.into_iter().for_each(|other| other.wait().unwrap());
    assert!(pool.live_threads() <= 2 + 256, "{} threads", pool.live_threads());
    promise.set(());
    waits.wait().unwrap().unwrap();
}

/// A broadcast's call may want it: it has to wait until the lock is released, whatever else the thread takes on as it yields.
#[test]
fn who_holds_a_lock_and_yields_leaves_its_mail() {
    for waits in [Waits::Host, Waits::Substitute] {
        let pool = Arc::new(Pool::builder().threads(1).waits(waits).build().unwrap());
        let (lock, released) = (Arc::new(Mutex::new(())), Arc::new(AtomicBool::new(false)));
        let (holds, held) = mpsc::channel();
        let (own, release) = (Arc::clone(&lock), Arc::clone(&released));
        let yields = move || {
            let _held = own.lock();
            holds.send(()).unwrap();
            while !release.load(Ordering::Acquire) {
                yield_now();
            }
        };
        pool.spawn(yields).detach();
        held.recv().unwrap();
        let (broadcasts, (tell, told)) = (Arc::clone(&pool), mpsc::channel());
        thread::spawn(move || {
            broadcasts.broadcast(|_| drop(lock.lock()));
            tell.send(()).unwrap();
        });
        thread::sleep(Duration::from_millis(50));
        // So that there is something that it could take on.
        pool.spawn(|| ()).detach();
        thread::sleep(Duration::from_millis(50));
        released.store(true, Ordering::Release);
        told.recv_timeout(Duration::from_secs(60)).expect("the broadcast ends");
    }
}

/// Nor does what it queues itself again and again keep it from what comes from outside.
#[test]
fn who_holds_a_lock_and_yields_takes_on_what_comes_from_outside() {
    fn again(over: Arc<AtomicBool>) {
        if !over.load(Ordering::Acquire) {
            spawn(|| again(over)).detach();
        }
    }
    let pool = Pool::builder().threads(1).waits(Waits::Host).build().unwrap();
    let (over, (holds, held)) = (Arc::new(AtomicBool::new(false)), mpsc::channel());
    let own = Arc::clone(&over);
    let yields = pool.spawn(move || {
        let lock = Mutex::new(());
        let _held = lock.lock();
        let mine = Arc::clone(&own);
        spawn(|| again(mine)).detach();
        holds.send(()).unwrap();
        while !own.load(Ordering::Acquire) {
            yield_now();
        }
    });
    held.recv().unwrap();
    pool.spawn(move || over.store(true, Ordering::Release)).detach();
    assert!(yields.wait_timeout(Duration::from_secs(60)).is_ok(), "what came from outside waits");
}
