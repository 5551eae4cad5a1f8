//! Programs at the edges: little stack or somebody else's, pools within pools, pools that end late. Each has a time limit.

use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use raddle_core::compat::{self, Settings, Team};
use rayon_core::{ThreadPool, ThreadPoolBuilder, Yield};

#[path = "semantics/asleep.rs"]
mod asleep;

use asleep::{here, until_asleep};

/// Of the threads of [`pool`].
const STACK: usize = 1 << 20;
/// What takes so long hangs, however busy the machine.
const LIMIT: Duration = Duration::from_secs(300);

fn pool(threads: usize) -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(threads).stack_size(STACK).build().unwrap()
}

/// Runs a program on a thread of its own, and panics if it hangs.
fn ends(program: impl FnOnce() + Send + 'static) {
    let (done, wait) = channel();
    let runs = thread::spawn(move || {
        program();
        done.send(()).unwrap();
    });
    match wait.recv_timeout(LIMIT) {
        Err(RecvTimeoutError::Timeout) => panic!("hangs"),
        _ => runs.join().unwrap(),
    }
}

/// Blocks until `flag` is set, as code does that knows nothing of pools.
fn block_until(flag: &AtomicBool) {
    while !flag.load(SeqCst) {
        thread::yield_now();
    }
}

/// Calls `f` where about so many bytes of this thread's stack are left. The system is asked: a thread may be given a stack
/// of another that has ended, and that may be larger than the pool's builder has asked for.
#[inline(never)]
fn with_left(left: usize, f: &mut dyn FnMut()) {
    let filler = black_box([0_u8; 4096]);
    if stacker::remaining_stack().expect("the system tells") < left {
        f()
    } else {
        with_left(left, f)
    }
    black_box(filler);
}

// --- stacks ---

#[test]
fn what_recurses_by_scopes_and_their_tasks_finds_the_stack_it_finds_on_rayon() {
    fn nest(depth: usize, levels: &AtomicUsize) {
        levels.fetch_add(1, SeqCst);
        let here = black_box([0_u8; 64]);
        if depth > 1 {
            rayon_core::scope(|s| s.spawn(|_| nest(depth - 1, levels)));
        }
        black_box(here);
    }
    let depth = if cfg!(debug_assertions) { 1200 } else { 5000 };
    ends(move || {
        let (pool, levels) =
            (ThreadPoolBuilder::new().num_threads(2).build().unwrap(), AtomicUsize::new(0));
        pool.install(|| nest(depth, &levels));
        assert_eq!(levels.into_inner(), depth);
    });
}

#[test]
fn a_scope_ends_on_a_stack_that_is_not_the_thread_s() {
    ends(|| {
        let pool = pool(1);
        let ran = AtomicBool::new(false);
        pool.install(|| {
            stacker::grow(4 << 20, || rayon_core::scope(|s| s.spawn(|_| ran.store(true, SeqCst))));
            // And what it does not wait for itself, but somebody else.
            stacker::grow(4 << 20, || {
                rayon_core::scope(|s| {
                    s.spawn(|_| ());
                    rayon_core::spawn(|| ());
                });
            });
        });
        assert!(ran.into_inner());
    });
}

#[test]
fn a_scope_ends_where_the_stack_does() {
    ends(|| {
        let pool = pool(1);
        let count = Mutex::new(0);
        pool.install(|| {
            with_left(48 << 10, &mut || {
                rayon_core::scope(|s| {
                    (0..10).for_each(|_| s.spawn(|_| *count.lock().unwrap() += 1))
                });
            });
        });
        assert_eq!(count.into_inner().unwrap(), 10);
    });
}

#[test]
fn a_wait_where_the_stack_ends_takes_on_what_it_must() {
    ends(|| {
        let pool = pool(1);
        pool.install(|| {
            with_left(48 << 10, &mut || {
                rayon_core::scope(|s| {
                    s.spawn(|_| ());
                    // Lies on top of it.
                    rayon_core::spawn(|| ());
                });
            });
        });
    });
}

#[test]
fn a_thread_low_on_stack_does_what_the_thief_that_it_waits_for_blocks_for() {
    for left in [48 << 10, 128 << 10] {
        ends(move || {
            let pool = pool(2);
            pool.install(|| {
                with_left(left, &mut || {
                    let [taken, there] = [const { AtomicBool::new(false) }; 2];
                    rayon_core::join(
                        || block_until(&taken),
                        || {
                            taken.store(true, SeqCst);
                            rayon_core::join(|| block_until(&there), || there.store(true, SeqCst));
                        },
                    );
                });
            });
        });
    }
}

/// Forks so many times, one within the other, and waits until others have run all of them but one.
fn nest(left: usize, to_run: &AtomicUsize, forked: &(dyn Fn() + Sync)) {
    if left == 0 {
        while to_run.load(SeqCst) > 1 {
            thread::yield_now();
        }
        return;
    }
    let run = || {
        forked();
        to_run.fetch_sub(1, SeqCst);
    };
    rayon_core::join(|| nest(left - 1, to_run, forked), run);
}

/// A thread low on stack waits for one that goes on with another's help. False: it has taken on something.
fn is_left_alone(pool: &ThreadPool) -> bool {
    const FORKS: usize = 40;
    let disturbed = AtomicBool::new(false);
    pool.install(|| {
        with_left(128 << 10, &mut || {
            let me = thread::current().id();
            let forked = || {
                disturbed.fetch_or(thread::current().id() == me, SeqCst);
                // So that all together take longer than a wait without room is patient, and none does.
                thread::sleep(Duration::from_millis(1));
            };
            let (taken, forked) = (&AtomicBool::new(false), &forked);
            rayon_core::scope(|s| {
                s.spawn(move |_| {
                    taken.store(true, SeqCst);
                    nest(FORKS, &AtomicUsize::new(FORKS), forked);
                });
                block_until(taken);
            });
        });
    });
    !disturbed.into_inner()
}

#[test]
fn a_thread_low_on_stack_takes_on_nothing_while_forks_end() {
    ends(|| {
        let pool = pool(3);
        // On a busy machine no fork may end for a while: such a try says nothing.
        while !is_left_alone(&pool) {}
    });
}

// --- pools within pools ---

#[test]
fn a_pool_is_called_from_a_native_one_that_it_has_called() {
    ends(|| {
        let (a, n) = (&pool(1), &raddle_core::Pool::new(1).unwrap());
        assert_eq!(a.install(|| n.run(|_| a.install(|| 1))), 1);
        assert_eq!(a.install(|| n.run(|_| a.join(|| 1, || 2))), (1, 2));
        let count = Mutex::new(0);
        let add = || *count.lock().unwrap() += 1;
        a.install(|| n.run(|_| a.scope(|s| s.spawn(|_| add()))));
        a.install(|| n.run(|_| a.scope_fifo(|s| s.spawn_fifo(|_| add()))));
        a.install(|| n.run(|_| a.in_place_scope(|s| s.spawn(|_| add()))));
        a.install(|| n.run(|_| a.in_place_scope_fifo(|s| s.spawn_fifo(|_| add()))));
        let index = a.install(|| n.run(|_| a.install(rayon_core::current_thread_index)));
        assert_eq!((count.into_inner().unwrap(), index), (4, Some(0)));
    });
}

#[test]
fn a_scope_s_body_may_make_its_thread_one_of_a_pool() {
    ends(|| {
        let (pool, waiter, built) = (pool(1), here(), AtomicBool::new(false));
        pool.in_place_scope(|s| {
            // Not over before the wait has fallen asleep.
            s.spawn(|_| {
                block_until(&built);
                until_asleep(&waiter);
            });
            let one = ThreadPoolBuilder::new().num_threads(1).use_current_thread().build();
            assert!(one.is_ok());
            built.store(true, SeqCst);
        });
    });
}

// --- ends ---

/// A pool of this thread and others, which tell when they go.
fn noting_exits(sender: Sender<usize>, threads: usize) -> ThreadPool {
    ThreadPoolBuilder::new()
        .num_threads(threads)
        .use_current_thread()
        .exit_handler(move |index| sender.send(index).unwrap())
        .build()
        .unwrap()
}

#[test]
fn a_pool_ends_when_its_current_thread_has_run_the_last_job() {
    let last: [fn(); 2] = [
        || while rayon_core::yield_now() == Some(Yield::Executed) {},
        || drop(rayon_core::broadcast(|_| ())),
    ];
    for run in last {
        ends(move || {
            let (send, exits) = channel();
            let (note, notes) = channel();
            let pool = noting_exits(send, 2);
            pool.spawn_broadcast(move |thread| note.send((thread.index(), here())).unwrap());
            drop(pool);
            let (index, other) = notes.recv().unwrap();
            assert_eq!(index, 1);
            until_asleep(&other);
            run();
            assert_eq!(notes.recv().unwrap().0, 0);
            assert_eq!(exits.recv_timeout(LIMIT / 3), Ok(1));
        });
    }
}

// --- order ---

#[test]
#[allow(deprecated)]
fn a_scope_of_a_breadth_first_pool_takes_the_oldest_first() {
    let pool = ThreadPoolBuilder::new().num_threads(1).breadth_first().build().unwrap();
    let log = Mutex::new(Vec::new());
    let note = |what| log.lock().unwrap().push(what);
    pool.scope(|s| {
        for i in 0..3 {
            s.spawn(move |_| note(i));
        }
    });
    // The second half has been there before what the first one spawns.
    pool.scope(|s| {
        rayon_core::join(|| (4..6).for_each(|i| s.spawn(move |_| note(i))), || note(3));
    });
    assert_eq!(log.into_inner().unwrap(), [0, 1, 2, 3, 4, 5]);
}

// --- what a drop-in may do wrong ---

/// A team of one thread, and what tells when that goes.
fn team() -> (Team, std::sync::mpsc::Receiver<usize>) {
    let (send, exits) = channel();
    let on_exit = Box::new(move |index| send.send(index).unwrap());
    let team = Team::new(Settings { on_exit: Some(on_exit), ..Settings::default() }).unwrap();
    let seat = team.seat(0);
    thread::spawn(move || seat.run());
    (team, exits)
}

fn panics(f: impl FnOnce()) -> bool {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).is_err()
}

#[test]
fn a_seat_is_taken_once() {
    let (team, exits) = team();
    assert!(panics(|| drop(team.seat(0))));
    assert!(panics(|| team.seat_here()));
    assert!(panics(|| drop(team.seat(1))));
    assert!(compat::with_here(|here| here.is_none()));
    team.end();
    assert_eq!(exits.recv_timeout(LIMIT), Ok(0));
}

#[test]
fn a_native_pool_has_no_seats() {
    let native = raddle_core::Pool::global();
    let team = Team::global().unwrap();
    assert_eq!(team.num_threads(), native.num_threads());
    assert!(panics(|| drop(team.seat(0))));
    assert!(panics(|| team.seat_here()));
}

// --- forks of one's own ---

/// A thread that waits rested after each of them for as long as a thief does that has come for too little: 16 us.
#[test]
fn a_thread_that_waits_runs_its_own_forks_without_a_rest() {
    fn nest(depth: usize, bottom: &(dyn Fn() + Sync)) {
        match depth {
            0 => bottom(),
            _ => _ = rayon_core::join(|| nest(depth - 1, bottom), || ()),
        }
    }
    const FORKS: usize = 20_000;
    let pool = ThreadPoolBuilder::new().num_threads(1).stack_size(256 << 20).build().unwrap();
    let took = Mutex::new(LIMIT);
    for _ in 0..5 {
        let bottom = || {
            let since = Instant::now();
            rayon_core::broadcast(|_| ());
            let mut took = took.lock().unwrap();
            *took = since.elapsed().min(*took);
        };
        pool.install(|| nest(FORKS, &bottom));
    }
    let took = took.into_inner().unwrap();
    assert!(took < Duration::from_micros(8) * FORKS as u32, "{took:?}");
}
