//! Uncontended locks allocate nothing. A test program of its own, for its allocator and because the first
//! use of anything counts.

#![cfg(not(raddle_model))]

use raddle_lock::{Condvar, Mutex, ObjectHeader, RawThinLock, ReentrantLock};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: passes every call on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(f: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.with(Cell::get);
    f();
    ALLOCATIONS.with(Cell::get) - before
}

const ROUNDS: usize = if cfg!(miri) { 2 } else { 100 };

#[test]
fn uncontended_paths_allocate_nothing() {
    // The thread's id, and what the process sets up once.
    drop(Mutex::new(()).lock());
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(1)))), 1, "the counter counts");
    let count = allocations(|| {
        for _ in 0..ROUNDS {
            let mutex = Mutex::new(1);
            *mutex.lock() += 1;
            let guard = mutex.try_lock_for(Duration::from_secs(1)).unwrap();
            assert!(mutex.try_lock().is_none());
            raddle_lock::MutexGuard::unlock_fair(guard);

            let lock = ReentrantLock::new(());
            let levels: [_; 8] = std::array::from_fn(|_| lock.lock());
            drop(levels);

            let header = ObjectHeader::new();
            let levels: [_; 64] = std::array::from_fn(|_| header.lock());
            header.notify_all();
            drop(levels);
            header.identity_hash();

            let through_lock_api = lock_api::Mutex::<RawThinLock, _>::new(0);
            *through_lock_api.lock() += 1;

            Condvar::new().notify_all();
        }
    });
    assert_eq!(count, 0);

    // Nor do hashed locks, once the table has an entry to lend.
    let header = ObjectHeader::new();
    header.identity_hash();
    drop(header.lock());
    let count = allocations(|| (0..ROUNDS).for_each(|_| drop(header.lock())));
    assert_eq!(count, 0);
}
