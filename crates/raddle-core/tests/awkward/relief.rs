//! What a pool does at the cap of its threads. Those of last resort come though something goes on beside those that wait; and
//! those that wait take on nothing as long as somebody works.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use raddle_core::{Future, Pool, Promise, Shared, blocking, collect, spawn, yield_now};

use crate::{LONG, in_time};

/// Who ends a task now and then, and waits for one that has no thread, does not keep threads of last resort from coming.
#[test]
fn what_ends_now_and_then_keeps_no_thread_from_coming() {
    beside_what_ends_every(Duration::from_millis(50));
}

/// Nor does what ends before each look.
#[test]
fn what_ends_often_keeps_no_thread_from_coming() {
    beside_what_ends_every(Duration::from_millis(2));
}

fn beside_what_ends_every(time: Duration) {
    in_time(move || {
        let pool = Arc::new(Pool::builder().threads(2).max_spare_threads(1).build().unwrap());
        let (promise, future) = Promise::<()>::new();
        let future = future.shared();
        // They wait with a limit, so they take on nothing.
        let (started, starts) = mpsc::channel();
        let waits = [(); 2].map(|()| {
            let (future, started) = (future.clone(), started.clone());
            pool.spawn(move || {
                started.send(()).unwrap();
                future.map(|()| ()).wait_timeout(LONG).is_ok()
            })
        });
        starts.iter().take(2).for_each(drop);
        let over = future.clone();
        let (ready, is_ready) = mpsc::channel::<()>();
        let busy = pool.spawn(move || {
            let mut ready = Some(ready);
            while !over.is_done() {
                spawn(|| ()).wait().unwrap();
                drop(ready.take());
                let since = Instant::now();
                while since.elapsed() < time {
                    std::hint::spin_loop();
                }
            }
        });
        let _ = is_ready.recv();
        drop(pool.spawn(move || promise.set(())));
        // As one that does not help.
        let (over, is_over) = mpsc::channel();
        let told = over.clone();
        drop(busy.on_complete(move |_| told.send(()).unwrap()));
        for wait in waits {
            let told = over.clone();
            drop(wait.on_complete(move |_| told.send(()).unwrap()));
        }
        is_over.iter().take(3).for_each(drop);
    });
}

/// Nor does a thread from outside that tries again and again whether there is a taker for what it brings.
#[test]
fn what_comes_from_outside_keeps_no_thread_from_coming() {
    in_time(|| {
        let pool = Pool::builder().threads(1).max_spare_threads(1).build().unwrap();
        let (promise, future) = Promise::<()>::new();
        let future = future.shared();
        let done = Arc::new(AtomicBool::new(false));
        let (started, starts) = mpsc::channel();
        for _ in 0..2 {
            let (future, started) = (future.clone(), started.clone());
            let done = Arc::clone(&done);
            drop(pool.spawn(move || {
                started.send(()).unwrap();
                // With a limit, so it takes on nothing.
                assert!(future.map(|()| ()).wait_timeout(LONG).is_ok());
                done.store(true, Ordering::Release);
            }));
        }
        starts.iter().take(2).for_each(drop);
        drop(pool.spawn(move || promise.set(())));
        while !done.load(Ordering::Acquire) {
            drop(pool.spawn(|| ()));
            thread::yield_now();
        }
    });
}

/// What all wait for lies beneath the tasks of whoever works, who ends one now and then; and those who wait would be hosts.
#[test]
fn what_lies_beneath_the_tasks_of_who_works_is_come_by() {
    in_time(|| {
        let pool = Arc::new(Pool::builder().threads(2).max_spare_threads(1).build().unwrap());
        let (promise, future) = Promise::<()>::new();
        let (future, (started, starts)) = (future.shared(), mpsc::channel());
        let waits = [(); 2].map(|()| {
            let (future, started) = (future.clone(), started.clone());
            pool.spawn(move || {
                started.send(()).unwrap();
                future.wait().unwrap();
            })
        });
        starts.iter().take(2).for_each(drop);
        let (over, is_over) = mpsc::channel();
        drop(pool.spawn(move || {
            let sets = spawn(move || promise.set(()));
            while !sets.is_done() {
                // Work, for so long that the others would be hosts if they ever are.
                raddle_core::scope(|s| s.spawn(|_| thread::sleep(Duration::from_millis(30))));
            }
            over.send(()).unwrap();
        }));
        is_over.recv().unwrap();
        waits.into_iter().for_each(|wait| wait.wait().unwrap());
    });
}

/// Whoever works may be what the others wait for. On top of one of them, a task might wait for what lies beneath.
#[test]
fn who_waits_takes_on_nothing_while_somebody_works() {
    in_time(|| {
        let pool = Pool::builder().threads(2).max_spare_threads(1).build().unwrap();
        let (leaf, goes_on) = mpsc::channel::<()>();
        let (started, starts) = mpsc::channel();
        let works = {
            let started = started.clone();
            pool.spawn(move || {
                started.send(()).unwrap();
                goes_on.recv().unwrap();
            })
        };
        starts.recv().unwrap();
        let (promises, waits): (Vec<_>, Vec<_>) = [(); 2]
            .map(|()| {
                let ((promise, future), started) = (Promise::new(), started.clone());
                let waits = pool.spawn(move || {
                    started.send(()).unwrap();
                    future.wait().unwrap()
                });
                (promise, waits.shared())
            })
            .into_iter()
            .unzip();
        starts.iter().take(2).for_each(drop);
        let both: Vec<_> = waits.clone();
        let (told, over) = mpsc::channel();
        let last = pool.spawn(move || both.into_iter().map(|one| one.wait().unwrap()).sum::<u32>());
        // As one that does not help.
        drop(last.on_complete(move |sum| told.send(sum.as_ref().ok().copied()).unwrap()));
        // So long that the pool has seen that it stands still.
        Future::delay(Duration::from_millis(500)).wait().unwrap();
        assert_eq!(pool.stats().hosted, 0);
        leaf.send(()).unwrap();
        promises.into_iter().for_each(|promise| promise.set(1));
        assert_eq!(over.recv().unwrap(), Some(2));
        works.wait().unwrap();
    });
}

/// The one thread that could be a host holds a lock of std, and what is queued first wants that.
#[test]
fn who_holds_a_lock_that_nobody_sees_is_no_host_for_those_who_want_it() {
    in_time(|| {
        for cap in [None, Some(4)] {
            let builder = Pool::builder().threads(1);
            let pool = match cap {
                Some(cap) => builder.max_spare_threads(cap),
                None => builder,
            };
            let pool = pool.build().unwrap();
            let lock = Arc::new(Mutex::new(0));
            let (promise, future) = Promise::<u32>::new();
            let (holds, is_held) = mpsc::channel();
            let held = Arc::clone(&lock);
            let holder = pool.spawn(move || {
                let mut count = held.lock().unwrap();
                holds.send(()).unwrap();
                *count += future.wait().unwrap();
            });
            is_held.recv().unwrap();
            let wants: Vec<_> = (0..cap.unwrap_or(256) + 10)
                .map(|_| Arc::clone(&lock))
                .map(|lock| pool.spawn(move || *blocking(|| lock.lock()).unwrap() += 1))
                .collect();
            let wants = collect(wants);
            drop(pool.spawn(move || promise.set(1)));
            wants.wait().unwrap();
            holder.wait().unwrap();
            assert_eq!(pool.stats().hosted, 0);
        }
    });
}

type Table = Arc<Mutex<HashMap<(u32, u32), Shared<u64>>>>;

/// So many ways lead there from the corner, one step to the right or down at a time.
fn ways(table: &Table, y: u32, x: u32) -> Shared<u64> {
    let mut known = table.lock().unwrap();
    if let Some(ways) = known.get(&(y, x)) {
        return ways.clone();
    }
    let rest = Arc::clone(table);
    let sum = spawn(move || {
        if x == 0 || y == 0 {
            return 1;
        }
        let (up, left) = (ways(&rest, y - 1, x), ways(&rest, y, x - 1));
        (up.wait().unwrap() + left.wait().unwrap()) % 1_000_007
    });
    known.entry((y, x)).or_insert(sum.shared()).clone()
}

/// Tasks that wait for each other's results, more at a time than there may be threads; while other programs want the processors, so
/// that nothing ends for long now and then.
#[test]
fn memoised_recursion_by_waiting_ends_on_a_busy_machine() {
    in_time(|| {
        let over = AtomicBool::new(false);
        thread::scope(|s| {
            for _ in 0..8 {
                s.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let results = [(); 3].map(|()| {
                let pool = Pool::new(2).unwrap();
                let ways = pool.spawn(|| ways(&Table::default(), 100, 100).wait()).wait();
                (ways.unwrap().ok(), pool.stats().hosted)
            });
            over.store(true, Ordering::Relaxed);
            assert_eq!(results.map(|(ways, _)| ways), [Some(799_924); 3]);
            // The machine may have stood still for seconds, once.
            let hosted = results.iter().filter(|&&(_, hosted)| hosted > 0).count();
            assert!(hosted <= 1, "{results:?}");
        });
    });
}

/// They lie with a thread that waits for them, where the others take them one by one.
#[test]
fn a_long_queue_that_moves_is_no_reason_for_threads_beyond_the_cap() {
    const TIME: Duration = Duration::from_millis(10);
    in_time(|| {
        let pool = Pool::builder().threads(1).max_spare_threads(4).build().unwrap();
        let (send, receive) = mpsc::channel();
        let (over, is_over) = mpsc::channel();
        let queues = move || {
            let now = Arc::new(AtomicUsize::new(0));
            // Five seconds' worth: longer than nothing may move.
            for _ in 0..2500 {
                let (now, send) = (Arc::clone(&now), send.clone());
                let sleep = move || {
                    send.send(now.fetch_add(1, Ordering::SeqCst) + 1).unwrap();
                    thread::sleep(TIME);
                    now.fetch_sub(1, Ordering::SeqCst);
                };
                spawn(|| blocking(sleep)).detach();
            }
            drop(send);
            over.send(blocking(|| receive.iter().max())).unwrap();
        };
        pool.spawn(queues).detach();
        assert!(is_over.recv().unwrap() <= Some(4));
    });
}

/// Threads that look again and again whether something has come, and yield in between, do not count as those who work: then
/// further threads would come, or a host be asked, every three seconds only.
#[test]
fn tasks_that_poll_beyond_the_cap_soon_have_what_they_poll_for() {
    // Threads come; and where a cap was asked for, hosts are.
    for (tasks, cap) in [(500, None), (100, Some(4))] {
        let polls = move || {
            let builder = Pool::builder().threads(1);
            let builder = match cap {
                Some(cap) => builder.max_spare_threads(cap),
                None => builder,
            };
            let pool = builder.build().unwrap();
            let since = Instant::now();
            let (send, over) = mpsc::channel();
            let queues = move || {
                for _ in 0..tasks {
                    let send = send.clone();
                    let polls = move || {
                        let future = spawn(|| ());
                        while !future.is_done() {
                            yield_now();
                        }
                        send.send(()).unwrap();
                    };
                    spawn(polls).detach();
                }
            };
            pool.spawn(queues).detach();
            assert_eq!(over.iter().count(), tasks);
            since.elapsed()
        };
        in_time(move || {
            // Two seconds, or some 23 if they do count: once in three, as others may want the processors.
            let soon = (0..3).any(|_| polls() < Duration::from_secs(12));
            assert!(soon, "{tasks} tasks, {cap:?}");
        });
    }
}

/// But who works beside them does, also one that yields now and then: nobody takes on what waits for what lies beneath.
#[test]
fn who_polls_hides_nobody_who_works() {
    fn computes(time: Duration) {
        let since = Instant::now();
        while since.elapsed() < time {
            std::hint::spin_loop();
        }
    }
    let at_once = || computes(Duration::from_secs(1));
    let yields = || {
        for _ in 0..5 {
            computes(Duration::from_millis(200));
            yield_now();
        }
    };
    let works: [(bool, fn()); 2] = [(true, at_once), (false, yields)];
    for (polls, work) in works {
        in_time(move || {
            let threads = 1 + usize::from(polls);
            let pool = Pool::builder().threads(threads).max_spare_threads(1).build().unwrap();
            let (promise, future) = Promise::new();
            let future = future.shared();
            let (begins, begun) = mpsc::channel();
            let (its, sender) = (future.clone(), begins.clone());
            let waits = pool.spawn(move || {
                sender.send(()).unwrap();
                its.wait().unwrap()
            });
            begun.recv().unwrap();
            if polls {
                let poll = move || {
                    begins.send(()).unwrap();
                    while !future.is_done() {
                        yield_now();
                    }
                };
                pool.spawn(poll).detach();
                begun.recv().unwrap();
            }
            // This thread does not help.
            let (results, result) = mpsc::channel();
            let works = move || {
                // On top of what it waits for it would fail.
                spawn(move || results.send(waits.wait().unwrap()).unwrap()).detach();
                work();
                promise.set(7);
            };
            pool.spawn(works).detach();
            assert_eq!(result.recv(), Ok(7));
        });
    }
}

/// Who computes a little, and yields again and again, works. (Else the host that is asked takes on what waits for what lies beneath.)
#[test]
fn who_computes_in_slices_works() {
    for slice in [200, 600] {
        in_time(move || {
            let pool = Pool::builder().threads(1).max_spare_threads(1).build().unwrap();
            let (promise, mut waits) = waiting(&pool, 1);
            let waits = waits.remove(0);
            let (told, sum) = mpsc::channel();
            let works = move || {
                spawn(move || told.send(waits.wait().ok()).unwrap()).detach();
                let since = Instant::now();
                while since.elapsed() < Duration::from_millis(600) {
                    let slice_since = Instant::now();
                    while slice_since.elapsed() < Duration::from_micros(slice) {
                        std::hint::spin_loop();
                    }
                    yield_now();
                }
                promise.set(1);
            };
            pool.spawn(works).detach();
            assert_eq!(sum.recv(), Ok(Some(1)));
        });
    }
}

/// So many tasks that wait for a promise, and have begun to.
fn waiting(pool: &Pool, count: usize) -> (Promise<u32>, Vec<Shared<u32>>) {
    let (promise, future) = Promise::new();
    let future = future.shared();
    let (begins, begun) = mpsc::channel();
    let waits = (0..count).map(|_| {
        let (future, begins) = (future.clone(), begins.clone());
        let waits = pool.spawn(move || {
            begins.send(()).unwrap();
            future.wait().unwrap()
        });
        waits.shared()
    });
    let waits = waits.collect();
    begun.iter().take(count).for_each(drop);
    (promise, waits)
}

/// What lies with somebody who works, where nobody may take it, is come by though what is queued from outside comes and goes.
#[test]
fn what_comes_and_goes_from_outside_hides_nothing_that_lies_still() {
    in_time(|| {
        let pool = Pool::builder().threads(2).max_spare_threads(1).build().unwrap();
        let (promise, waits) = waiting(&pool, 2);
        let (told, over) = mpsc::channel();
        let works = move || {
            let lies = spawn(|| ());
            while !lies.is_done() {
                std::hint::spin_loop();
            }
            promise.set(1);
            told.send(()).unwrap();
        };
        pool.spawn(works).detach();
        let (since, mut queued) = (Instant::now(), VecDeque::new());
        while over.try_recv().is_err() {
            assert!(since.elapsed() < Duration::from_secs(60), "nobody comes");
            queued.push_back(pool.spawn(|| ()));
            if queued.len() > 16 {
                // This thread runs it.
                queued.pop_front().unwrap().wait().unwrap();
            }
            thread::sleep(Duration::from_micros(500));
        }
        waits.into_iter().for_each(|one| assert_eq!(one.wait().unwrap(), 1));
    });
}

/// Tasks that compute and yield, in turn, leave a place to what is queued behind them: some have as many turns as there are others.
#[test]
fn who_works_and_yields_leaves_a_place_to_what_is_queued() {
    const TASKS: usize = 30;
    in_time(|| {
        let pool = Pool::new(1).unwrap();
        let started = Arc::new(AtomicUsize::new(0));
        let since = Instant::now();
        let tasks = (0..TASKS).map(|_| {
            let started = Arc::clone(&started);
            pool.spawn(move || {
                started.fetch_add(1, Ordering::Relaxed);
                while started.load(Ordering::Relaxed) < TASKS {
                    let since = Instant::now();
                    while since.elapsed() < Duration::from_millis(3) {
                        std::hint::spin_loop();
                    }
                    yield_now();
                }
            })
        });
        let tasks = tasks.collect::<Vec<_>>();
        // Nobody helps from outside.
        while started.load(Ordering::Relaxed) < TASKS {
            thread::sleep(Duration::from_millis(1));
        }
        let took = since.elapsed();
        tasks.into_iter().for_each(|task| task.wait().unwrap());
        assert!(took < Duration::from_secs(4), "{took:?} until all have begun");
    });
}

/// Where all threads wait with a limit, each in turn sees that nobody comes: not each after as long.
#[test]
fn many_waits_in_vain_do_not_add_up() {
    fn sum(depth: usize) -> usize {
        if depth == 0 {
            return 1;
        }
        let halves = [(); 2].map(|()| spawn(move || sum(depth - 1)));
        halves.map(|half| half.wait_timeout(LONG).ok().unwrap().unwrap()).iter().sum()
    }
    in_time(|| {
        let pool = Pool::builder().threads(2).max_spare_threads(8).build().unwrap();
        let (done, all_done) = mpsc::channel();
        let began = Instant::now();
        for _ in 0..1_000 {
            let done = done.clone();
            pool.spawn(move || done.send(sum(2)).unwrap()).detach();
        }
        assert!(all_done.iter().take(1_000).all(|sum| sum == 4));
        // Took ten seconds, and takes half a second.
        assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    });
}

/// Waits for all of them: on top of one of them it fails.
fn wait_for_all(waits: Vec<Shared<u32>>, told: &mpsc::Sender<Option<u32>>) {
    told.send(waits.into_iter().map(|one| one.wait().ok()).sum()).unwrap();
}

/// That a pool stood still for three seconds beside somebody who worked says nothing about the next who does.
#[test]
fn a_stillness_of_long_ago_is_none() {
    in_time(|| {
        let pool = Pool::builder().threads(2).max_spare_threads(1).build().unwrap();
        let is_over = |waits: Vec<Shared<u32>>| {
            // As one that does not help.
            while waits.iter().any(|one| !one.is_done()) {
                thread::sleep(Duration::from_millis(1));
            }
        };
        // A host is asked: where that did no harm the next may be, at once.
        let (promise, waits) = waiting(&pool, 3);
        pool.spawn(move || promise.set(1)).detach();
        is_over(waits);
        // Somebody works for what nobody may take: a thread comes.
        let (promise, waits) = waiting(&pool, 2);
        let raised = Arc::new(AtomicBool::new(false));
        let ((begins, begun), flag) = (mpsc::channel(), Arc::clone(&raised));
        let works = move || {
            begins.send(()).unwrap();
            while !flag.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
            promise.set(1);
        };
        pool.spawn(works).detach();
        begun.recv().unwrap();
        pool.spawn(move || raised.store(true, Ordering::Release)).detach();
        is_over(waits);
        thread::sleep(Duration::from_millis(1200));
        let (promise, waits) = waiting(&pool, pool.live_threads() - 1);
        let (begins, begun) = mpsc::channel();
        let works = move || {
            begins.send(()).unwrap();
            let since = Instant::now();
            while since.elapsed() < Duration::from_millis(500) {
                std::hint::spin_loop();
            }
            promise.set(1);
        };
        pool.spawn(works).detach();
        begun.recv().unwrap();
        let all = waits.len() as u32;
        let (told, sum) = mpsc::channel();
        pool.spawn(move || wait_for_all(waits, &told)).detach();
        assert_eq!(sum.recv(), Ok(Some(all)));
    });
}
