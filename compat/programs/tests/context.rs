//! What raddle binds around code of rayon's is seen within it.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::channel;

use raddle::scope_local;
use rayon::ThreadPoolBuilder;
use rayon::prelude::*;
use rayon_programs::{alone, on_each_thread};

scope_local! { static USER: &'static str; }

/// Binds `user` around `f`.
fn bound<R>(user: &'static str, f: impl FnOnce() -> R) -> R {
    USER.bind(user).run(f)
}

fn is(user: &'static str) {
    assert_eq!(USER.get(), Some(user));
}

/// Enough items for an iterator to be split.
const ITEMS: Range<u64> = 0..10_000;

#[test]
fn on_each_thread_of_a_parallel_iterator() {
    let _alone = alone();
    bound("anna", || on_each_thread(|| is("anna")));
    on_each_thread(|| assert_eq!(USER.get(), None));
}

#[test]
fn in_iterators_within_iterators() {
    let _alone = alone();
    let inner = |user| {
        is(user);
        (0..100).into_par_iter().with_max_len(1).for_each(|_| is(user));
    };
    bound("anna", || {
        on_each_thread(|| {
            inner("anna");
            bound("berta", || inner("berta"));
            inner("anna");
        });
        let users = ITEMS.into_par_iter().map(|i| match i % 2 {
            0 => (i, USER.get()),
            _ => (i, bound("berta", || USER.get())),
        });
        let users: Vec<_> = users.collect();
        assert_eq!(users.len(), 10_000);
        for (i, user) in users {
            assert_eq!(user, Some(["anna", "berta"][(i % 2) as usize]));
        }
    });
}

#[test]
fn in_both_halves_of_a_bridge() {
    let _alone = alone();
    bound("anna", || {
        // `next` is called on threads of the pool, too.
        let serial = ITEMS.inspect(|_| is("anna"));
        let sum: u64 = serial.par_bridge().inspect(|_| is("anna")).sum();
        assert_eq!(sum, ITEMS.sum());
    });
}

#[test]
fn in_what_a_sort_calls() {
    let _alone = alone();
    let mixed = || ITEMS.map(|i| i * 7919 % 10_007).collect::<Vec<u64>>();
    let (mut stable, mut unstable, mut cached) = (mixed(), mixed(), mixed());
    bound("anna", || {
        stable.par_sort_by(|a, b| {
            is("anna");
            a.cmp(b)
        });
        unstable.par_sort_unstable_by(|a, b| {
            is("anna");
            a.cmp(b)
        });
        cached.par_sort_by_cached_key(|a| {
            is("anna");
            *a
        });
    });
    assert!(stable.is_sorted());
    assert_eq!((&stable, &stable), (&unstable, &cached));
}

#[test]
fn in_tasks_of_scopes() {
    let _alone = alone();
    let (send, receive) = channel();
    bound("anna", || {
        rayon::scope(|s| {
            is("anna");
            for _ in 0..100 {
                let send = send.clone();
                s.spawn(move |s| {
                    send.send(USER.get()).unwrap();
                    bound("berta", || s.spawn(move |_| send.send(USER.get()).unwrap()));
                });
            }
        });
        rayon::in_place_scope_fifo(|s| {
            let send = send.clone();
            s.spawn_broadcast(move |_, _| send.send(USER.get()).unwrap());
            s.spawn_fifo(|_| (0..100).into_par_iter().for_each(|_| is("anna")));
        });
    });
    drop(send);
    let users: Vec<_> = receive.iter().flatten().collect();
    let of = |user| users.iter().filter(|its| **its == user).count();
    assert_eq!((of("anna"), of("berta")), (100 + rayon::current_num_threads(), 100));
}

#[test]
fn in_what_is_spawned_though_the_binding_is_over() {
    let _alone = alone();
    let (send, receive) = channel();
    bound("anna", || {
        for _ in 0..100 {
            let send = send.clone();
            rayon::spawn(move || {
                let same =
                    (0..100).into_par_iter().with_max_len(1).all(|_| USER.get() == Some("anna"));
                send.send(same).unwrap();
            });
        }
        let to_fifo = send.clone();
        rayon::spawn_fifo(move || to_fifo.send(USER.get() == Some("anna")).unwrap());
    });
    // Of the thread that spawns, not of the pool.
    rayon::spawn(move || send.send(USER.get().is_none()).unwrap());
    let all: Vec<_> = receive.iter().collect();
    assert_eq!(all, [true; 102]);
}

#[test]
fn on_each_thread_of_another_pool() {
    let _alone = alone();
    let pool = ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    bound("anna", || {
        pool.install(|| {
            is("anna");
            on_each_thread(|| is("anna"));
        });
        pool.broadcast(|_| is("anna"));
        // From a thread of one into the other.
        rayon::scope(|s| s.spawn(|_| pool.install(|| on_each_thread(|| is("anna")))));
    });
    pool.install(|| on_each_thread(|| assert_eq!(USER.get(), None)));
}

/// What is lent before a scope opens is there as long as its tasks are.
#[test]
fn in_tasks_of_scopes_what_is_lent_around_them() {
    let _alone = alone();
    let (user, missed) = ("anna", AtomicUsize::new(0));
    let is_lent = || {
        if USER.get() != Some("anna") {
            missed.fetch_add(1, Relaxed);
        }
    };
    // On a thread of the pool, and on one from outside.
    for inside in [true, false] {
        let scopes = || {
            USER.bind_ref(&user).run(|| {
                rayon::scope(|s| s.spawn(|s| s.spawn(|_| is_lent())));
                rayon::scope_fifo(|s| s.spawn_fifo(|s| s.spawn_fifo(|_| is_lent())));
                rayon::in_place_scope(|s| s.spawn(|s| s.spawn(|_| is_lent())));
                rayon::in_place_scope_fifo(|s| s.spawn_fifo(|s| s.spawn_fifo(|_| is_lent())));
                rayon::scope(|s| s.spawn_broadcast(|_, _| is_lent()));
                rayon::scope_fifo(|s| s.spawn_broadcast(|_, _| is_lent()));
            });
        };
        if inside {
            rayon::join(scopes, || ());
        } else {
            scopes();
        }
        assert_eq!(missed.load(Relaxed), 0, "inside: {inside}");
    }
}

/// A task that is taken in another's turn has what its own spawner had.
#[test]
fn in_tasks_that_are_run_in_turn() {
    let _alone = alone();
    let seen = Mutex::new(Vec::new());
    let see = |user| seen.lock().unwrap().push((user, USER.get()));
    bound("anna", || {
        rayon::scope_fifo(|s| {
            for _ in 0..50 {
                s.spawn_fifo(|_| see(Some("anna")));
                bound("berta", || s.spawn_fifo(|_| see(Some("berta"))));
                // Lent within the scope, it may be gone.
                USER.bind_ref(&"clara").run(|| s.spawn_fifo(|_| see(None)));
            }
        });
    });
    let seen = seen.into_inner().unwrap();
    assert_eq!(seen.len(), 150);
    for (user, has) in seen {
        assert_eq!(has, user);
    }
}
