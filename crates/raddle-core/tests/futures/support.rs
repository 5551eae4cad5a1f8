//! What the tests share: small stacks, accounts of memory, values whose drop is watched.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::panic;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};
use std::sync::{Arc, Once, mpsc};
use std::thread;
use std::time::Duration;

use raddle_core::{Failure, FailureKind};

/// The stack on which nothing may overflow.
pub(crate) const SMALL: usize = 256 << 10;

/// Runs `f` on a thread with a small stack.
pub(crate) fn on_small_stack<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> R {
    let account = Account::current();
    let run = move || {
        Account::enter(account);
        f()
    };
    let thread = thread::Builder::new().stack_size(SMALL).spawn(run).unwrap();
    thread.join().unwrap_or_else(|payload| panic::resume_unwind(payload))
}

/// Runs `f` on a thread of its own and fails if it does not come back.
pub(crate) fn in_time<R: Send + 'static>(what: &str, f: impl FnOnce() -> R + Send + 'static) -> R {
    let (sender, result) = mpsc::channel();
    thread::spawn(move || sender.send(f()));
    match result.recv_timeout(Duration::from_secs(600)) {
        Ok(result) => result,
        Err(why) => panic!("{what}: {why}"),
    }
}

/// As many as `usual`, times `RADDLE_STRESS`.
pub(crate) fn scaled(usual: usize) -> usize {
    let factor = match std::env::var("RADDLE_STRESS") {
        Ok(text) => text.parse().expect("RADDLE_STRESS is a number"),
        Err(_) => 1.0,
    };
    ((usual as f64 * factor) as usize).max(10)
}

// --- memory ---

/// Heap memory of the threads that have entered: what they hold now, and the most they ever did.
///
/// Tests run side by side, so a count for the whole process would say nothing.
#[derive(Debug, Default)]
pub(crate) struct Account {
    live: AtomicIsize,
    peak: AtomicIsize,
}

thread_local! {
    static ACCOUNT: Cell<Option<&'static Account>> = const { Cell::new(None) };
}

impl Account {
    /// An account that this thread has entered.
    pub(crate) fn open() -> &'static Account {
        let account = Box::leak(Box::default());
        Account::enter(Some(account));
        account
    }

    pub(crate) fn current() -> Option<&'static Account> {
        ACCOUNT.get()
    }

    /// From now on this thread's allocations count there.
    pub(crate) fn enter(account: Option<&'static Account>) {
        ACCOUNT.set(account);
    }

    /// What the threads hold.
    pub(crate) fn live(&self) -> isize {
        self.live.load(Ordering::SeqCst)
    }

    /// How much more than at the start of `f` they held at the most while it ran.
    pub(crate) fn growth(&self, f: impl FnOnce()) -> isize {
        let before = self.live();
        self.peak.store(before, Ordering::SeqCst);
        f();
        self.peak.load(Ordering::SeqCst) - before
    }
}

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

fn count(bytes: isize) {
    let Ok(Some(account)) = ACCOUNT.try_with(Cell::get) else { return };
    let live = account.live.fetch_add(bytes, Ordering::Relaxed) + bytes;
    account.peak.fetch_max(live, Ordering::Relaxed);
}

// SAFETY: the system's allocator, and a count beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: contract.
        unsafe { System.dealloc(memory, layout) }
    }
}

// --- values ---

/// Counts the values of its kind that are alive.
#[derive(Debug)]
pub(crate) struct Counted(Arc<AtomicUsize>);

impl Counted {
    pub(crate) fn new(live: &Arc<AtomicUsize>) -> Counted {
        live.fetch_add(1, Ordering::SeqCst);
        Counted(Arc::clone(live))
    }

    pub(crate) fn alive(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Panics when it is dropped, after it has counted that.
#[derive(Debug)]
pub(crate) struct Bomb(Arc<AtomicUsize>);

impl Bomb {
    pub(crate) fn new(dropped: &Arc<AtomicUsize>) -> Bomb {
        quiet();
        Bomb(Arc::clone(dropped))
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        panic!("{ON_PURPOSE}: dropped");
    }
}

/// What panics of the tests' own start with.
pub(crate) const ON_PURPOSE: &str = "on purpose";

/// Keeps the panic hook from reporting those.
pub(crate) fn quiet() {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let text = message(info.payload());
            if !text.starts_with(ON_PURPOSE) {
                usual(info);
            }
        }));
    });
}

/// Panics, quietly.
pub(crate) fn blow<T>() -> T {
    quiet();
    panic!("{ON_PURPOSE}")
}

/// The kind of a result that is a failure.
pub(crate) fn kind<T>(result: Result<T, Failure>) -> FailureKind {
    match result {
        Ok(_) => panic!("it should have failed"),
        Err(failure) => failure.kind(),
    }
}

/// The text of a panic.
pub(crate) fn message(payload: &dyn std::any::Any) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or_default()
}
