//! What a running program shares: its pools, cells, what is under way, and what went wrong.

use std::any::Any;
use std::panic;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, OnceLock};

use raddle::scope_local;
use rayon::ThreadPoolBuilder;

use crate::ir::{PoolKind, PoolSpec, Program};
use crate::locks::Locks;
use crate::oracle::{self, Expected};

scope_local! {
    /// Bound as an owner.
    pub(crate) static BOUND: u64;
    /// Lent.
    pub(crate) static LENT: u64;
}

/// Locks of each pool.
pub(crate) const LOCKS: usize = 3;

pub(crate) struct World {
    pub(crate) program: &'static Program,
    pub(crate) expected: Expected,
    pub(crate) spots: Vec<&'static Spot>,
    pub(crate) std_cells: Vec<OnceLock<u64>>,
    pub(crate) cells: Vec<raddle::lock::OnceLock<u64>>,
    pub(crate) detached: AtomicU64,
    pub(crate) handled: AtomicU64,
    tokens: AtomicUsize,
    none_left: (Mutex<()>, Condvar),
    errors: Mutex<Vec<String>>,
}

/// A pool that code may run in.
pub(crate) struct Spot {
    pub(crate) pool: OnePool,
    pub(crate) locks: Locks,
}

/// Those that are made for a node are left to it.
pub(crate) enum OnePool {
    Global,
    Team(Mutex<Option<std::sync::Arc<rayon::ThreadPool>>>),
    Native(Mutex<Option<std::sync::Arc<raddle::Pool>>>),
    Elsewhere,
}

impl OnePool {
    pub(crate) fn team(&self) -> Option<std::sync::Arc<rayon::ThreadPool>> {
        match self {
            OnePool::Team(pool) => pool.lock().unwrap().clone(),
            _ => None,
        }
    }

    pub(crate) fn native(&self) -> Option<std::sync::Arc<raddle::Pool>> {
        match self {
            OnePool::Native(pool) => pool.lock().unwrap().clone(),
            _ => None,
        }
    }

    fn drop_it(&self) {
        match self {
            OnePool::Team(pool) => drop(pool.lock().unwrap().take()),
            OnePool::Native(pool) => drop(pool.lock().unwrap().take()),
            _ => {}
        }
    }
}

impl Spot {
    pub(crate) fn elsewhere() -> &'static Spot {
        Box::leak(Box::new(Spot { pool: OnePool::Elsewhere, locks: Locks::default() }))
    }

    fn of(spec: &PoolSpec) -> &'static Spot {
        let pool = match spec.kind {
            PoolKind::Global => OnePool::Global,
            PoolKind::Team => {
                OnePool::Team(Mutex::new(Some(team(spec.threads).build().unwrap().into())))
            }
            PoolKind::Native => {
                OnePool::Native(Mutex::new(Some(native(spec.threads).build().unwrap().into())))
            }
            PoolKind::NativeHost => {
                let builder = native(spec.threads).waits(raddle::Waits::Host);
                OnePool::Native(Mutex::new(Some(builder.build().unwrap().into())))
            }
        };
        Box::leak(Box::new(Spot { pool, locks: Locks::default() }))
    }
}

/// The program that runs: handlers of panics have to know.
static CURRENT: Mutex<Option<&'static World>> = Mutex::new(None);

/// How pools by rayon's rules are set up.
pub(crate) fn team(threads: usize) -> ThreadPoolBuilder {
    let handler = |payload: Box<dyn Any + Send>| {
        let world = CURRENT.lock().unwrap().expect("a program runs");
        if payload.is::<OnPurpose>() {
            world.handled.fetch_add(1, SeqCst);
        } else {
            world.complain(format!("a task panicked: {}", text(&*payload)));
        }
    };
    ThreadPoolBuilder::new().num_threads(threads).panic_handler(handler)
}

/// How pools of raddle's own are set up.
pub(crate) fn native(threads: usize) -> raddle::PoolBuilder {
    raddle::Pool::builder().threads(threads)
}

impl World {
    /// Never freed: a task that has got lost may still look at it.
    pub(crate) fn new(program: Program) -> &'static World {
        let program: &'static Program = Box::leak(Box::new(program));
        let world: &'static World = Box::leak(Box::new(World {
            program,
            expected: oracle::expected(program),
            spots: program.pools.iter().map(Spot::of).collect(),
            std_cells: program.cells.iter().map(|_| OnceLock::new()).collect(),
            cells: program.cells.iter().map(|_| raddle::lock::OnceLock::new()).collect(),
            detached: AtomicU64::new(0),
            handled: AtomicU64::new(0),
            tokens: AtomicUsize::new(0),
            none_left: Default::default(),
            errors: Mutex::default(),
        }));
        *CURRENT.lock().unwrap() = Some(world);
        world
    }

    pub(crate) fn complain(&self, what: String) {
        let mut errors = self.errors.lock().unwrap();
        if errors.len() < 20 {
            errors.push(what);
        }
    }

    pub(crate) fn token(&'static self) -> Token {
        self.tokens.fetch_add(1, SeqCst);
        Token(self)
    }

    /// Adds what a task has made for which nobody waits.
    pub(crate) fn add(&self, value: u64) {
        self.detached.fetch_add(value, SeqCst);
    }

    /// Waits until all that the program has started is over, and says what went wrong.
    pub(crate) fn finish(&self, roots: u64) -> Vec<String> {
        let mut guard = self.none_left.0.lock().unwrap();
        while self.tokens.load(SeqCst) > 0 {
            guard = self.none_left.1.wait(guard).unwrap();
        }
        drop(guard);
        self.spots.iter().for_each(|spot| spot.pool.drop_it());
        // The handler is called after the task's token has gone.
        let since = std::time::Instant::now();
        while self.handled.load(SeqCst) < self.expected.handled && since.elapsed().as_secs() < 5 {
            std::thread::yield_now();
        }
        let (detached, handled) = (self.detached.load(SeqCst), self.handled.load(SeqCst));
        let is = Expected { roots, detached, handled };
        if is != self.expected {
            self.complain(format!("{is:?} instead of {:?}", self.expected));
        }
        std::mem::take(&mut *self.errors.lock().unwrap())
    }

    pub(crate) fn diagnosis(&self) -> String {
        format!("{} tokens left", self.tokens.load(SeqCst))
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
pub(crate) struct OnPurpose;

/// Panics without a message.
pub(crate) fn panic_on_purpose() -> ! {
    panic::resume_unwind(Box::new(OnPurpose))
}

pub(crate) fn text(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        return (*text).to_owned();
    }
    payload.downcast_ref::<String>().cloned().unwrap_or_else(|| "something".into())
}
