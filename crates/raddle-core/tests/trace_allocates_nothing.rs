//! Recording allocates nothing; in a process of its own, whose allocations are counted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use raddle_core::trace::{self, TraceLevel};
use raddle_core::{Pool, Worker};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: passes everything on.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: passed on.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn fib(worker: &Worker, n: u32) -> u64 {
    if n < 2 {
        return n.into();
    }
    let (a, b) = worker.join(|w| fib(w, n - 1), |w| fib(w, n - 2));
    a + b
}

#[test]
fn recording_allocates_nothing() {
    for level in [TraceLevel::Phase, TraceLevel::Tasks] {
        let pool = Pool::builder().threads(2).trace(level).build().unwrap();
        let work = || {
            let _region = trace::region("counted");
            pool.run(|w| {
                let _region = trace::region("inside");
                fib(w, 16)
            })
        };
        // What threads allocate when they first start, fork and wait is not recording's: so the first time
        // around may not count, but the events would make every one count.
        let allocations = || {
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            (0..50).for_each(|_| assert_eq!(work(), 987));
            ALLOCATIONS.load(Ordering::Relaxed) - before
        };
        assert!((0..20).any(|_| allocations() == 0), "{level:?}");
        assert!(pool.trace().len() > 200);
    }
}
