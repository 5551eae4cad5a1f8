//! What comes from outside.

use std::cell::Cell;
use std::thread;

use rayon_core::ThreadPoolBuilder;

use crate::{MARK, pool};

#[test]
fn what_comes_from_outside_runs_on_a_thread_of_the_pool() {
    let pool = ThreadPoolBuilder::new()
        .num_threads(2)
        .thread_name(|index| format!("shuttle {index}"))
        .start_handler(|index| MARK.set(index + 1))
        .build()
        .unwrap();
    let caller = thread::current().id();
    let here = || {
        assert_ne!(thread::current().id(), caller);
        let index = rayon_core::current_thread_index().unwrap();
        assert_eq!(MARK.get(), index + 1);
        assert_eq!(thread::current().name().unwrap(), format!("shuttle {index}"));
    };
    pool.install(here);
    pool.join(here, here);
    pool.scope(|_| here());
    pool.scope_fifo(|_| here());
    pool.scope(|s| s.spawn(|_| here()));
    assert_eq!(MARK.get(), 0);
}

#[test]
fn a_scope_in_place_has_its_body_on_the_caller_and_tasks_in_the_pool() {
    let pool = pool(2);
    let caller = thread::current().id();
    pool.in_place_scope(|s| {
        assert_eq!(thread::current().id(), caller);
        assert_eq!(rayon_core::current_thread_index(), None);
        s.spawn(|_| assert!(rayon_core::current_thread_index().is_some()));
    });
    pool.in_place_scope_fifo(|s| {
        assert_eq!(thread::current().id(), caller);
        s.spawn_fifo(|_| assert!(rayon_core::current_thread_index().is_some()));
    });
    rayon_core::in_place_scope(|s| {
        assert_eq!(thread::current().id(), caller);
        s.spawn(|_| assert_ne!(thread::current().id(), caller));
    });
}

#[test]
fn closures_of_scopes_in_place_need_not_be_send() {
    let local = std::rc::Rc::new(Cell::new(0));
    rayon_core::in_place_scope(|_| local.set(1));
    rayon_core::in_place_scope_fifo(|_| local.set(local.get() + 1));
    assert_eq!(local.get(), 2);
}
