//! From one pool to another.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use rayon_core::ThreadPool;

use crate::{block_until, pool};

#[test]
fn pools_of_one_thread_call_each_other_in_turn() {
    fn descend(pools: &[ThreadPool; 2], depth: usize) -> usize {
        if depth == 0 { 0 } else { pools[depth % 2].install(|| 1 + descend(pools, depth - 1)) }
    }
    let pools = [pool(1), pool(1)];
    assert_eq!(descend(&pools, 200), 200);
}

#[test]
fn a_thread_that_calls_into_another_pool_goes_on_with_its_own() {
    let (a, b) = (pool(1), pool(1));
    let done = AtomicBool::new(false);
    a.scope(|s| {
        s.spawn(|_| done.store(true, SeqCst));
        b.install(|| block_until(&done));
    });
}

#[test]
fn other_pools_have_no_index_here() {
    let (a, b) = (pool(2), pool(2));
    a.install(|| {
        assert!(a.current_thread_index().is_some());
        assert_eq!(b.current_thread_index(), None);
        assert_eq!(b.current_thread_has_pending_tasks(), None);
        assert_eq!((b.yield_now(), b.yield_local()), (None, None));
    });
    assert_eq!(a.current_thread_index(), None);
    assert_eq!(rayon_core::current_thread_index(), None);
    assert_eq!((rayon_core::yield_now(), rayon_core::yield_local()), (None, None));
    assert_eq!(rayon_core::current_thread_has_pending_tasks(), None);
}

#[test]
fn each_index_is_one_thread_for_good() {
    const THREADS: usize = 4;
    let pool = pool(THREADS);
    let owners = Mutex::new([None; THREADS]);
    let note = || {
        let index = rayon_core::current_thread_index().unwrap();
        let owner = *owners.lock().unwrap()[index].get_or_insert(thread::current().id());
        assert_eq!(owner, thread::current().id());
    };
    fn tree(depth: usize, note: &(dyn Fn() + Sync)) {
        note();
        if depth > 0 {
            rayon_core::join(|| tree(depth - 1, note), || tree(depth - 1, note));
            note();
        }
    }
    for _ in 0..20 {
        pool.install(|| tree(8, &note));
        pool.scope(|s| (0..100).for_each(|_| s.spawn(|_| note())));
        pool.broadcast(|_| note());
    }
    let all: BTreeSet<_> = owners.lock().unwrap().iter().map(|id| format!("{id:?}")).collect();
    assert_eq!(all.len(), THREADS);
}
