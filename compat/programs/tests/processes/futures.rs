//! raddle's futures beside rayon's iterators: in one pool, whoever has built it.

use std::collections::HashSet;
use std::process::Command;
use std::sync::Mutex;
use std::thread::{self, ThreadId};

use rayon::prelude::*;

use crate::run;

const PROGRAM: &str = "RADDLE_TEST_PROGRAM";
const THREADS: usize = 3;
/// How a child ends that has run its program: not as one that has run no test.
const OVER: i32 = 42;

/// What to run instead of the tests, by its name.
const PROGRAMS: &[(&str, fn())] = &[("rayon first", rayon_first), ("raddle first", raddle_first)];

#[derive(Default)]
struct Threads(Mutex<HashSet<ThreadId>>);

impl Threads {
    fn note(&self) {
        self.0.lock().unwrap().insert(thread::current().id());
    }
}

/// How many threads this process has, where the system tells.
fn count() -> Option<usize> {
    Some(std::fs::read_dir("/proc/self/task").ok()?.count())
}

fn rayon_first() {
    let before = count();
    rayon::ThreadPoolBuilder::new().num_threads(THREADS).build_global().unwrap();
    let (of_futures, of_items) = mix();
    let of_pool: HashSet<_> = rayon::broadcast(|_| thread::current().id()).into_iter().collect();
    assert!(of_futures.is_subset(&of_pool) && of_items.is_subset(&of_pool));
    assert_eq!(of_pool.len(), THREADS);
    assert_eq!(raddle::Pool::global().num_threads(), THREADS);
    assert_eq!(count(), before.map(|before| before + THREADS));
}

fn raddle_first() {
    let before = count();
    assert_eq!(raddle::spawn(|| 7).wait().unwrap(), 7);
    assert_eq!(rayon::current_num_threads(), THREADS);
    let (of_futures, of_items) = mix();
    let mut of_pool: HashSet<_> =
        rayon::broadcast(|_| thread::current().id()).into_iter().collect();
    assert_eq!(of_pool.len(), THREADS);
    // Callers of rayon's functions take no part, those of raddle's do.
    assert!(of_items.is_subset(&of_pool));
    of_pool.insert(thread::current().id());
    assert!(of_futures.is_subset(&of_pool));
    assert_eq!(count(), before.map(|before| before + THREADS));
}

/// Futures with iterators in them, beside an iterator that spawns futures and waits for them. The threads of the
/// former, and of the items of the latter.
fn mix() -> (HashSet<ThreadId>, HashSet<ThreadId>) {
    let of_futures: &'static Threads = Box::leak(Box::default());
    let of_items = Threads::default();
    let future = move |i: u64| {
        raddle::spawn(move || {
            of_futures.note();
            (0..100).into_par_iter().map(|n| n + i).sum::<u64>()
        })
    };
    let sum = |i: u64| 4950 + 100 * i;
    let all: Vec<_> = (0..100).map(future).collect();
    (0..100_u64).into_par_iter().for_each(|i| {
        of_items.note();
        assert_eq!(future(i).wait().unwrap(), sum(i));
    });
    let all = raddle::collect(all).wait().unwrap();
    assert!(all.into_iter().eq((0..100).map(sum)));
    (of_futures.0.lock().unwrap().clone(), of_items.0.into_inner().unwrap())
}

/// In a child: runs the program.
#[test]
fn child_program() {
    let Ok(wanted) = std::env::var(PROGRAM) else { return };
    let (_, program) = PROGRAMS.iter().find(|(name, _)| *name == wanted).unwrap();
    program();
    std::process::exit(OVER);
}

#[test]
fn futures_and_iterators_share_the_threads_of_one_pool() {
    for (name, _) in PROGRAMS {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "futures::child_program", "--nocapture"]).env(PROGRAM, name);
        command.env("RADDLE_NUM_THREADS", THREADS.to_string()).env_remove("RAYON_NUM_THREADS");
        assert_eq!(run(&mut command).code(), Some(OVER), "{name}");
    }
}
