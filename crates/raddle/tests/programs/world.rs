//! What a running program shares: pools, locks, what has run how often, and what went wrong.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, OnceLock, RwLock, RwLockReadGuard};
use std::thread::JoinHandle;

use raddle::policy::Policy;
use raddle::{Failure, FailureKind, Pool, PoolBuilder, Promise, Shared};

use crate::ir::{Form, From, Grip, Kind, Outcome, Program, Value};
use crate::locks::Lock;
use crate::oracle::{self, Expected};

pub(crate) struct World {
    pub(crate) program: &'static Program,
    pub(crate) expected: Expected,
    pools: Vec<RwLock<Option<Pool>>>,
    locks: Vec<Lock>,
    pub(crate) shared: Vec<OnceLock<Shared<u64>>>,
    pub(crate) sums: Vec<AtomicU64>,
    /// How often each strand has started.
    pub(crate) starts: Vec<AtomicU32>,
    /// At which statement each strand is, from 1 on; `OVER` when it is over.
    pub(crate) at: Vec<AtomicU32>,
    pub(crate) never: Vec<AtomicBool>,
    pub(crate) calls: Vec<AtomicU32>,
    pub(crate) closures: AtomicU64,
    /// Those in frail strands and in calls.
    pub(crate) uncounted: AtomicU64,
    pub(crate) threads: Mutex<Vec<JoinHandle<()>>>,
    /// Promises that nobody completes before all is over.
    pub(crate) kept: Mutex<Vec<Promise<u64>>>,
    tokens: AtomicUsize,
    none_left: (Mutex<()>, Condvar),
    errors: Mutex<Vec<String>>,
}

pub(crate) const OVER: u32 = u32::MAX;

/// How the pools of programs are set up: the one place for policies, `waits` or `max_spare_threads` say.
pub(crate) fn builder(threads: usize) -> PoolBuilder {
    // Half of them wake others as they would with a processor for each thread.
    let processors = (threads % 2 == 1).then_some(threads);
    let policy = Policy { processors, ..Policy::default() };
    let builder = Pool::builder().threads(threads).policy(policy);
    match SPARE.get() {
        Some(&Some(spare)) => builder.max_spare_threads(spare),
        _ => builder,
    }
}

/// How many threads more a pool may have in the stead of those that wait: see `--spare`.
pub(crate) static SPARE: OnceLock<Option<usize>> = OnceLock::new();

fn many<T>(count: usize, new: impl Fn() -> T) -> Vec<T> {
    (0..count).map(|_| new()).collect()
}

impl World {
    /// Never freed: a task that has got lost may still look at it.
    pub(crate) fn new(program: Program) -> &'static World {
        let program: &'static Program = Box::leak(Box::new(program));
        let expected = oracle::expected(program);
        let pool = |threads: &usize| RwLock::new(Some(builder(*threads).build().unwrap()));
        Box::leak(Box::new(World {
            program,
            expected,
            pools: program.pools.iter().map(pool).collect(),
            locks: program.locks.iter().copied().map(Lock::new).collect(),
            shared: many(program.values.len(), OnceLock::new),
            sums: many(program.scopes.len(), AtomicU64::default),
            starts: many(program.strands.len(), AtomicU32::default),
            at: many(program.strands.len(), AtomicU32::default),
            never: many(program.strands.len(), AtomicBool::default),
            calls: many(program.calls.len(), AtomicU32::default),
            closures: AtomicU64::new(0),
            uncounted: AtomicU64::new(0),
            threads: Mutex::default(),
            kept: Mutex::default(),
            tokens: AtomicUsize::new(0),
            none_left: Default::default(),
            errors: Mutex::default(),
        }))
    }

    pub(crate) fn pool(&self, index: usize) -> OnePool<'_> {
        OnePool(self.pools[index].read().unwrap())
    }

    /// Calls `f` while a lock is held.
    pub(crate) fn hold<R>(&self, lock: usize, grip: Grip, f: impl FnOnce() -> R) -> R {
        let (result, changed) = self.locks[lock].hold(grip, f);
        if changed {
            self.complain(format!("lock {lock} was held by another meanwhile: {grip:?}"));
        }
        result
    }

    pub(crate) fn complain(&self, what: String) {
        self.errors.lock().unwrap().push(what);
    }

    /// Whether a value came to what it should.
    pub(crate) fn check(&self, by: &str, value: Value, result: &Result<u64, Failure>) {
        let (got, wanted) = (outcome(result), self.expected.values[value]);
        let right = if self.program.values[value].frail {
            got.is_ok()
                || got == wanted
                || matches!(got, Err(Kind::Killed | Kind::Interrupted | Kind::Broken | Kind::Error))
        } else {
            got == wanted
        };
        if !right {
            self.complain(format!("{by}: v{value} is {result:?} instead of {wanted:?}"));
        }
    }

    pub(crate) fn token(&'static self) -> Token {
        self.tokens.fetch_add(1, SeqCst);
        Token(self)
    }

    /// Calls `f`; a panic on purpose is an outcome, any other an error.
    pub(crate) fn catch<R>(&self, by: &str, f: impl FnOnce() -> R) -> Result<R, Kind> {
        panic::catch_unwind(AssertUnwindSafe(f)).map_err(|payload| {
            if !payload.is::<OnPurpose>() {
                self.complain(format!("{by}: panicked: {}", text(&*payload)));
            }
            Kind::Panicked
        })
    }

    /// Waits until all that the program has started is over, and says what went wrong.
    pub(crate) fn finish(&self, main: Result<u64, Kind>) -> Vec<String> {
        let mut guard = self.none_left.0.lock().unwrap();
        while self.tokens.load(SeqCst) > 0 {
            guard = self.none_left.1.wait(guard).unwrap();
        }
        drop(guard);
        for thread in self.threads.lock().unwrap().drain(..) {
            thread.join().unwrap();
        }
        let kept = std::mem::take(&mut *self.kept.lock().unwrap());
        drop(kept);
        for pool in &self.pools {
            let pool = pool.write().unwrap().take();
            drop(pool);
        }
        if main != Ok(self.expected.main) {
            self.complain(format!("the result is {main:?} instead of {:?}", self.expected.main));
        }
        for (strand, code) in self.program.strands.iter().enumerate() {
            let starts = self.starts[strand].load(SeqCst);
            let never = self.never[strand].load(SeqCst);
            if starts > 1 || (starts == 0 && !code.frail) || (starts > 0 && never) {
                self.complain(format!("strand {strand} has run {starts} times; killed: {never}"));
            }
        }
        for (call, count) in self.calls.iter().enumerate() {
            if count.load(SeqCst) > 1 {
                self.complain(format!("call {call} was made more than once"));
            }
        }
        let closures = self.closures.load(SeqCst);
        if closures != self.expected.closures {
            self.complain(format!("{closures} closures instead of {}", self.expected.closures));
        }
        if !self.locks.iter().all(Lock::is_sound) {
            self.complain("a lock was held twice at a time".to_owned());
        }
        std::mem::take(&mut self.errors.lock().unwrap())
    }

    /// What has begun and not ended.
    pub(crate) fn diagnosis(&self) -> String {
        let mut text = format!("{} tokens left\n", self.tokens.load(SeqCst));
        for (strand, code) in self.program.strands.iter().enumerate() {
            let at = self.at[strand].load(SeqCst);
            if at == 0 && self.starts[strand].load(SeqCst) == 0 {
                text += &format!("  strand {strand} ({:?}) has not started\n", code.form);
            } else if at != OVER {
                let statement = code.statements.get((at as usize).wrapping_sub(1));
                text += &format!("  strand {strand} ({:?}) is at {at}: ", code.form);
                text += &statement.map_or("its end".into(), |what| format!("{what:?}"));
                text += "\n";
            }
        }
        text
    }
}

pub(crate) struct OnePool<'w>(RwLockReadGuard<'w, Option<Pool>>);

impl std::ops::Deref for OnePool<'_> {
    type Target = Pool;

    fn deref(&self) -> &Pool {
        self.0.as_ref().expect("pools are dropped when all is over")
    }
}

/// In each closure of which nobody can say when it is over: what is counted until none is left.
pub(crate) struct Token(&'static World);

impl Drop for Token {
    fn drop(&mut self) {
        if self.0.tokens.fetch_sub(1, SeqCst) == 1 {
            drop(self.0.none_left.0.lock().unwrap());
            self.0.none_left.1.notify_all();
        }
    }
}

/// The payload of the program's own panics.
struct OnPurpose;

/// Panics without a message.
pub(crate) fn panic_on_purpose() -> ! {
    panic::resume_unwind(Box::new(OnPurpose))
}

pub(crate) fn outcome(result: &Result<u64, Failure>) -> Outcome {
    match result {
        Ok(value) => Ok(*value),
        Err(failure) => Err(match failure.kind() {
            FailureKind::Panicked if failure.downcast_ref::<OnPurpose>().is_some() => {
                Kind::Panicked
            }
            FailureKind::Interrupted => Kind::Interrupted,
            FailureKind::Killed => Kind::Killed,
            FailureKind::Broken => Kind::Broken,
            FailureKind::Error => Kind::Error,
            _ => Kind::Other,
        }),
    }
}

fn text(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        return (*text).to_owned();
    }
    payload.downcast_ref::<String>().cloned().unwrap_or_else(|| "something".into())
}

/// Whether what makes this value is a task that a kill keeps from starting.
pub(crate) fn killable_task(program: &Program, value: Value) -> Option<usize> {
    match program.values[value].from {
        From::Strand(strand) if program.strands[strand].form == Form::Task => Some(strand),
        _ => None,
    }
}
