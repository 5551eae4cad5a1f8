//! Threads that have little stack left.

use super::*;

/// Goes on with so little stack that a wait there takes on nothing.
fn low_on_stack(worker: &Worker, f: Box<dyn FnOnce(&Worker) + '_>) {
    let space = std::hint::black_box([0_u8; 4096]);
    if raddle_sync::stack::remaining() < 200_000 {
        f(worker);
    } else {
        low_on_stack(worker, f);
    }
    std::hint::black_box(space);
}

#[test]
fn a_victim_low_on_stack_gives_its_place_to_others() {
    ends("a victim that cannot help its thief", || {
        let pool = &one_thread().build().unwrap();
        let (promise, future) = Promise::new();
        let (stolen, gate) = mpsc::channel();
        pool.run(|worker| {
            let waits = |worker: &Worker| {
                worker.join(
                    move |_| blocking(|| gate.recv().unwrap()),
                    move |worker| {
                        stolen.send(()).unwrap();
                        // The victim waits, in the only place: it has given that away once before, to be stolen from.
                        while pool.stats().given < 2 {
                            thread::yield_now();
                        }
                        drop(pool.spawn(move || promise.set(())));
                        worker.join(|_| future.wait().unwrap(), |_| ());
                    },
                );
            };
            low_on_stack(worker, Box::new(waits));
        });
    });
}

#[test]
fn nothing_runs_on_the_stack_of_a_helper_that_has_too_little() {
    ends("a waiter with little stack", || {
        let pool = one_thread().build().unwrap();
        let (started, gate) = mpsc::channel();
        let (go, goes) = mpsc::channel::<()>();
        drop(pool.spawn(move || {
            started.send(()).unwrap();
            let _ = goes.recv();
        }));
        gate.recv().unwrap();
        let task = pool.spawn(thread::current);
        let (tell, told) = mpsc::channel();
        let waiter = thread::Builder::new().stack_size(64 << 10).spawn(move || {
            tell.send(parker::current()).unwrap();
            assert_ne!(task.wait().unwrap().id(), thread::current().id());
        });
        let (waiter, sleeps_on) = (waiter.unwrap(), told.recv().unwrap());
        // It has found its task queued, and left it there; or run it.
        while !(sleeps_on.is_parked() || waiter.is_finished()) {
            thread::yield_now();
        }
        drop(go);
        waiter.join().unwrap();
    });
}

#[test]
fn a_guest_with_little_stack_runs_no_task_on_it() {
    ends("a guest with little stack", || {
        let pool = one_thread().build().unwrap();
        let guest = move || {
            let by = pool.run(|_| spawn(thread::current).wait().unwrap().id());
            assert_ne!(by, thread::current().id());
        };
        let guest = thread::Builder::new().stack_size(64 << 10).spawn(guest);
        guest.unwrap().join().unwrap();
    });
}

#[test]
fn a_helper_with_little_stack_comes_where_nobody_else_can() {
    ends("a waiter that the only thread waits for", || {
        let pool = one_thread().max_spare_threads(0).build().unwrap();
        let (started, gate) = mpsc::channel();
        let (send, receive) = mpsc::channel();
        drop(pool.spawn(move || {
            started.send(()).unwrap();
            blocking(|| receive.recv().unwrap());
        }));
        gate.recv().unwrap();
        let task = pool.spawn(|| ());
        let waiter = move || {
            task.wait().unwrap();
            send.send(()).unwrap();
        };
        let waiter = thread::Builder::new().stack_size(192 << 10).spawn(waiter);
        waiter.unwrap().join().unwrap();
    });
}

/// A thread of a team whose stack is nearly full waits for what lies behind a task of its own, while another goes on and on.
fn waits_low_on_stack(scene: impl FnOnce() + Send) {
    let team = Team::new(Settings { threads: 2, ..Settings::default() }).unwrap();
    let threads = [0, 1].map(|index| {
        let seat = team.seat(index);
        thread::Builder::new().stack_size(1 << 20).spawn(move || seat.run()).unwrap()
    });
    team.call(|| low_on_stack(&mut Some(scene)));

    fn low_on_stack(scene: &mut Option<impl FnOnce()>) {
        let space = std::hint::black_box([0_u8; 4096]);
        if raddle_sync::stack::remaining() < 200_000 {
            scene.take().unwrap()();
        } else {
            low_on_stack(scene);
        }
        std::hint::black_box(space);
    }
    team.end();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_wait_low_on_stack_takes_on_what_others_wait_for_who_get_on() {
    ends("a task beneath a wait low on stack", || {
        waits_low_on_stack(|| {
            let (taken, flag) = (AtomicBool::new(false), Arc::new(AtomicBool::new(false)));
            scope(|s| {
                s.spawn(|_| {
                    taken.store(true, Ordering::SeqCst);
                    // It looks again and again, and does something of its own meanwhile.
                    while !flag.load(Ordering::SeqCst) {
                        scope(|s| s.spawn(|_| ()));
                    }
                });
                until(&taken);
                let flag = Arc::clone(&flag);
                spawn(move || flag.store(true, Ordering::SeqCst)).detach();
            });
        });
    });
}
