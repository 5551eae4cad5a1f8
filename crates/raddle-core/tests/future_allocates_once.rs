//! One allocation for each operation, forty bytes for a promise and a `map` of a word; none on what is done.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::thread;

use raddle_core::{Future, Promise};

struct Counting;

thread_local! {
    static COUNT: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

// SAFETY: the system's, counted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Gone when the thread ends: then nobody asks.
        let _ = COUNT.try_with(|count| {
            let (calls, bytes) = count.get();
            count.set((calls + 1, bytes + layout.size()));
        });
        // SAFETY: contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: contract.
        unsafe { System.dealloc(memory, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How many allocations, and of how many bytes, `f` makes on a thread that has kept no blocks.
fn on_a_fresh_thread(f: impl FnOnce() + Send + 'static) -> (usize, usize) {
    let counted = move || {
        COUNT.set((0, 0));
        f();
        COUNT.get()
    };
    thread::spawn(counted).join().unwrap()
}

#[test]
fn a_promise_and_a_map_take_forty_bytes() {
    let create_and_map = || {
        let (promise, future) = Promise::<u64>::new();
        let next = future.map(|n| n + 1);
        promise.set(1);
        assert_eq!(next.wait().unwrap(), 2);
    };
    let (calls, bytes) = on_a_fresh_thread(create_and_map);
    assert_eq!((calls, bytes), (2, 40));
    let again = on_a_fresh_thread(move || (0..10).for_each(|_| create_and_map()));
    assert!(again.0 <= 2, "blocks are used again: {again:?}");
}

#[test]
fn each_operation_is_one_allocation() {
    let chain = |operations: usize, flat: bool| {
        on_a_fresh_thread(move || {
            let (promise, mut future) = Promise::<u64>::new();
            for _ in 0..operations {
                future = match flat {
                    false => future.ensure(|| ()),
                    true => future.flat_map(|n| Future::ready(n + 1)),
                };
            }
            // What is put off to be freed is in a list, which is no part of the operations.
            let so_far = COUNT.get();
            promise.set(0);
            assert!(future.is_done());
            COUNT.set(so_far);
        })
    };
    for operations in [1, 2, 10, 100] {
        assert_eq!(chain(operations, false), (1 + operations, 16 + 24 * operations));
        assert_eq!(chain(operations, true), (1 + operations, 16 + 40 * operations));
    }
}

#[test]
fn nothing_is_allocated_for_what_is_done() {
    let counts = on_a_fresh_thread(|| {
        let future = Future::ready(1_u64)
            .map(|n| n + 1)
            .flat_map(|n| Future::ready(n * 2))
            .ensure(|| ())
            .recover(|_| Ok(0))
            .and_then(Ok::<_, raddle_core::Failure>)
            .on_success(|_| ());
        assert_eq!(future.wait().unwrap(), 4);
    });
    assert_eq!(counts, (0, 0));
}
