//! Random trees of tasks with random bindings, on far more workers than processors: every read is what it
//! would be if all tasks were plain calls.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use raddle_core::{
    FailureKind, Future, Pool, Promise, ScopeLocal, Snapshot, join, scope, scope_local, spawn,
};

/// More than have slots in frames.
const KEYS: usize = 12;
static LOCALS: [ScopeLocal<Value>; KEYS] = [const { ScopeLocal::new("LOCALS") }; KEYS];
static ALIVE: AtomicUsize = AtomicUsize::new(0);
/// Tasks, and how many of them another thread ran than that of the test.
static TASKS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
thread_local! { static IS_ROOT: Cell<bool> = const { Cell::new(false) }; }
const GONE: u64 = u64::MAX;

scope_local! { static IN_DROP: u64; }

/// Small enough and too large for the memory that threads keep.
struct Value(u64, [u64; 9]);

impl Value {
    fn new(number: u64) -> Value {
        ALIVE.fetch_add(1, Ordering::Relaxed);
        Value(number, [number; 9])
    }

    fn read(&self) -> u64 {
        assert!(self.1 == [self.0; 9] && self.0 != GONE, "a value that is not there");
        self.0
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        // By turns, so that this is not the same everywhere.
        if self.0 % 4 == 0 {
            IN_DROP.bind(self.0).run(|| assert_eq!(IN_DROP.get(), Some(self.0)));
        }
        (self.0, self.1) = (GONE, [GONE; 9]);
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What is bound to each key, as it should be.
#[derive(Clone, Copy)]
struct Env([Option<Binding>; KEYS]);

#[derive(Clone, Copy, PartialEq)]
struct Binding {
    number: u64,
    owned: bool,
}

impl Env {
    fn with(mut self, key: usize, number: u64, owned: bool) -> Env {
        self.0[key] = Some(Binding { number, owned });
        self
    }

    /// What detached code sees.
    fn detached(self) -> Env {
        Env(self.0.map(|binding| binding.filter(|b| b.owned)))
    }

    /// What a task sees that is spawned here in a scope which was opened there.
    fn in_scope(self, opened: &Env) -> Env {
        let mut env = self.detached();
        for (key, binding) in self.0.iter().enumerate() {
            if *binding == opened.0[key] {
                env.0[key] = *binding;
            }
        }
        env
    }
}

/// xorshift64*.
#[derive(Clone, Copy)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 8
    }

    fn below(&mut self, n: usize) -> usize {
        self.next() as usize % n
    }

    /// Another stream, for a child.
    fn child(&mut self) -> Random {
        Random(self.next() << 8 | 1)
    }
}

/// How a tree is run.
#[derive(Clone, Copy, PartialEq)]
enum Run {
    Calls,
    Tasks,
}

/// A panic that is meant to be.
struct Deliberate;

fn deliberate() {
    panic::resume_unwind(Box::new(Deliberate));
}

/// Reads all keys: through the locals, or what they should be.
fn read_all(env: &Env, run: Run) -> u64 {
    let mut sum = 17_u64;
    for (local, binding) in LOCALS.iter().zip(&env.0) {
        let expected = binding.map(|b| b.number);
        let read = match run {
            Run::Calls => expected,
            Run::Tasks => local.try_with(Value::read),
        };
        assert_eq!(read, expected);
        sum = sum.wrapping_mul(31).wrapping_add(read.unwrap_or(7));
    }
    sum
}

/// Calls `f` with one more local bound, owned or borrowed.
fn bind<R>(r: &mut Random, env: Env, run: Run, f: impl FnOnce(Env) -> R) -> R {
    let (key, number, owned) = (r.below(KEYS), r.next(), r.below(2) == 0);
    let inner = env.with(key, number, owned);
    match (run, owned) {
        (Run::Calls, _) => f(inner),
        (Run::Tasks, true) => LOCALS[key].bind(Value::new(number)).run(|| f(inner)),
        (Run::Tasks, false) => {
            let value = Value::new(number);
            LOCALS[key].bind_ref(&value).run(|| f(inner))
        }
    }
}

fn detached(r: &mut Random, depth: u32, env: Env, run: Run) -> impl FnOnce() -> u64 + use<> {
    let (r, env) = (r.child(), env.detached());
    move || tree(r, depth - 1, env, run)
}

/// The result of a task; a panic goes on here.
fn take(future: Future<u64>) -> u64 {
    future.wait().unwrap_or_else(|failure| failure.resume())
}

fn tree(mut r: Random, depth: u32, env: Env, run: Run) -> u64 {
    let before = read_all(&env, run);
    if depth == 0 {
        return before;
    }
    let r = &mut r;
    let parallel = run == Run::Tasks;
    if parallel {
        TASKS[usize::from(!IS_ROOT.get())].fetch_add(1, Ordering::Relaxed);
    }
    let sum = match r.below(10) {
        0..=2 => bind(r, env, run, |env| tree(Random(before | 1), depth - 1, env, run)),
        3 | 4 => {
            let (x, y) = (r.child(), r.child());
            let a = || tree(x, depth - 1, env, run);
            let b = || tree(y, depth - 1, env, run);
            let (a, b) = if parallel { join(a, b) } else { (a(), b()) };
            a.wrapping_mul(3).wrapping_add(b)
        }
        5 | 6 => scoped(r, depth, env, run),
        7 => {
            let (a, b) = (detached(r, depth, env, run), detached(r, depth, env, run));
            let elsewhere = r.child();
            if parallel {
                let task = spawn(a);
                let (promise, future) = Promise::new();
                let attached = future.map(move |()| b());
                // Somebody completes it who sees something else.
                let completing =
                    bind(&mut elsewhere.clone(), env, run, |_| spawn(move || promise.set(())));
                let sum = take(task);
                // Runs it if need be; it takes `attached` along.
                completing.wait().unwrap();
                sum.wrapping_mul(3).wrapping_add(take(attached))
            } else {
                a().wrapping_mul(3).wrapping_add(b())
            }
        }
        8 => {
            let inner = detached(r, depth, env, run);
            if parallel {
                let snapshot = Snapshot::capture();
                let sum = bind(r, env, run, |there| {
                    let sum = snapshot.run(inner);
                    read_all(&there, run);
                    sum
                });
                drop(snapshot);
                sum
            } else {
                inner()
            }
        }
        _ => {
            troubled(r, depth, env, run);
            before
        }
    };
    // Whatever has happened, this code sees what it saw.
    assert_eq!(read_all(&env, run), before);
    sum.wrapping_add(before)
}

/// A scope, with tasks spawned under further bindings, from its body and from tasks.
fn scoped(r: &mut Random, depth: u32, opened: Env, run: Run) -> u64 {
    let tasks: Vec<(Random, bool)> =
        (0..1 + r.below(3)).map(|_| (r.child(), r.below(2) == 0)).collect();
    if run == Run::Calls {
        let mut sum = 0_u64;
        for (mut r, further) in tasks {
            let inner = r.child();
            let seen = match further {
                false => opened,
                true => bind(&mut r, opened, run, |env| env.in_scope(&opened)),
            };
            sum = sum.wrapping_add(tree(inner, depth - 1, seen, run));
        }
        return sum;
    }
    let sums = Mutex::new(0_u64);
    scope(|s| {
        for (mut r, further) in tasks {
            let (inner, sums) = (r.child(), &sums);
            let task = move |seen: Env| {
                let sum = tree(inner, depth - 1, seen, run);
                let mut sums = sums.lock().unwrap();
                *sums = sums.wrapping_add(sum);
            };
            if further {
                // Spawned by a task which was itself spawned.
                s.spawn(move |s| {
                    bind(&mut r, opened, run, |env| s.spawn(move |_| task(env.in_scope(&opened))));
                });
            } else {
                s.spawn(move |_| task(opened));
            }
        }
    });
    sums.into_inner().unwrap()
}

/// Panics and interrupts; what they leave unfinished is no part of the result.
fn troubled(r: &mut Random, depth: u32, env: Env, run: Run) {
    let (inner, task) = (r.child(), detached(r, depth, env, run));
    let interrupted = r.below(2) == 0;
    if run == Run::Calls {
        return;
    }
    if interrupted {
        let task = spawn(task);
        task.interrupt("not wanted");
        match task.wait() {
            Ok(_) => {}
            Err(failure) if failure.kind() == FailureKind::Interrupted => {}
            Err(failure) => failure.resume(),
        }
        return;
    }
    let panicked: std::thread::Result<()> = catch_unwind(AssertUnwindSafe(|| {
        bind(r, env, run, |env| {
            join(deliberate, || tree(inner, depth - 1, env, run));
        })
    }));
    let Err(payload) = panicked else { panic!("went on after a panic") };
    if !payload.is::<Deliberate>() {
        panic::resume_unwind(payload);
    }
}

#[test]
fn every_read_is_that_of_a_sequential_run() {
    let pool = Pool::new(16).unwrap();
    let (count, depth) = if cfg!(raddle_plain_memory) { (300, 10) } else { (3000, 11) };
    let calls_and_tasks = |seed: u64| {
        let (r, env) = (Random(seed * 0x9e37_79b9), Env([None; KEYS]));
        let calls = tree(r, depth, env, Run::Calls);
        let tasks = pool.run(|_| tree(r, depth, env, Run::Tasks));
        assert_eq!(calls, tasks, "seed {seed}");
    };
    thread::scope(|threads| {
        for first in 1..=4 {
            let calls_and_tasks = &calls_and_tasks;
            threads.spawn(move || {
                IS_ROOT.set(true);
                (first..=count).step_by(4).for_each(calls_and_tasks);
            });
        }
    });
    drop(pool);
    let [here, elsewhere] = TASKS.each_ref().map(|count| count.load(Ordering::Relaxed));
    assert!(elsewhere > 1000, "{here} nodes here, {elsewhere} elsewhere");
    println!("{here} nodes on the thread of the test, {elsewhere} elsewhere");
    assert_eq!(ALIVE.load(Ordering::Relaxed), 0, "every value has gone");
}
