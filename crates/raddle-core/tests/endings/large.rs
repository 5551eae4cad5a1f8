//! Large ones, past every constant in the pool: rings, caps of spare threads, depths.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use raddle_core::{
    Future, Pool, Promise, Shared, SharedPromise, Worker, collect, join, scope, spawn, yield_now,
};

use crate::{LONG, ends};

/// How much of the full size a debug build does.
const fn sized(full: usize) -> usize {
    if cfg!(debug_assertions) { full / 10 } else { full }
}

/// No thread of the pool has left yet, so it never had more.
fn had_as_many_as_it_should(pool: &Pool) {
    let most = pool.num_threads() + 256;
    assert!(pool.live_threads() <= most, "{} threads", pool.live_threads());
}

#[test]
fn two_nested_loops_by_scopes() {
    let (outer, inner) = (sized(2000), sized(2000));
    for threads in [1, 2, 4] {
        let pool = Pool::new(threads).unwrap();
        let count = ends(&pool, move || {
            let count = AtomicUsize::new(0);
            scope(|s| {
                for _ in 0..outer {
                    s.spawn(|_| {
                        scope(|s| {
                            for _ in 0..inner {
                                s.spawn(|_| {
                                    count.fetch_add(1, Ordering::Relaxed);
                                });
                            }
                        });
                    });
                }
            });
            count.into_inner()
        });
        assert_eq!(count, outer * inner);
        had_as_many_as_it_should(&pool);
    }
}

/// Each of two siblings waits for the other's part.
fn siblings(depth: usize) -> usize {
    if depth == 0 {
        return 0;
    }
    let (promise, future) = Promise::<usize>::new();
    let first = spawn(move || future.wait().unwrap());
    let second = spawn(move || promise.set(siblings(depth - 1) + 1));
    let result = first.wait().unwrap();
    second.wait().unwrap();
    result
}

#[test]
fn a_tree_of_tasks_each_of_which_waits_for_a_sibling() {
    for threads in [1, 2, 4] {
        let pool = Pool::new(threads).unwrap();
        assert_eq!(ends(&pool, || siblings(300)), 300);
        had_as_many_as_it_should(&pool);
    }
}

#[test]
fn pools_that_call_each_other() {
    fn call(a: &Pool, b: &Pool, depth: usize) -> usize {
        if depth == 0 { 0 } else { a.run(|_| call(b, a, depth - 1)) + 1 }
    }
    for threads in [1, 2] {
        let pools = Arc::new((Pool::new(threads).unwrap(), Pool::new(threads).unwrap()));
        assert_eq!(call(&pools.0, &pools.1, 200), 200);
        let starter = Pool::new(1).unwrap();
        let shared = Arc::clone(&pools);
        assert_eq!(ends(&starter, move || call(&shared.0, &shared.1, 200)), 200);
        had_as_many_as_it_should(&pools.0);
        had_as_many_as_it_should(&pools.1);
    }
}

/// Each call is made by a task of the other pool, so that no thread finds itself beneath.
#[test]
fn pools_whose_tasks_call_each_other() {
    fn call(a: Arc<Pool>, b: Arc<Pool>, depth: usize) -> usize {
        if depth == 0 {
            return 0;
        }
        let next = Arc::clone(&a);
        a.spawn(move || call(b, next, depth - 1)).wait().unwrap() + 1
    }
    let (a, b) = (Arc::new(Pool::new(1).unwrap()), Arc::new(Pool::new(1).unwrap()));
    assert_eq!(call(a, b, 200), 200);
}

#[test]
fn many_tasks_that_wait_for_what_the_last_one_sets() {
    for threads in [1, 2, 4] {
        let pool = Pool::builder().threads(threads).stack_size(2 << 20).build().unwrap();
        let sum = ends(&pool, move || {
            let (promise, future) = Promise::<usize>::new();
            let shared: Shared<usize> = future.shared();
            let tasks: Vec<Future<usize>> = (0..10_000)
                .map(|_| {
                    let shared = shared.clone();
                    spawn(move || shared.wait().unwrap())
                })
                .collect();
            drop(spawn(move || promise.set(1)));
            tasks.into_iter().map(|task| task.wait().unwrap()).sum::<usize>()
        });
        assert_eq!(sum, 10_000);
        had_as_many_as_it_should(&pool);
    }
}

/// So many leaves, by forks.
fn tree(leaves: usize, leaf: &(dyn Fn() + Sync)) {
    if leaves == 1 {
        return leaf();
    }
    join(|| tree(leaves / 2, leaf), || tree(leaves - leaves / 2, leaf));
}

#[test]
fn a_join_tree_whose_leaves_wait_for_one_future() {
    for threads in [1, 2] {
        let pool = Pool::builder().threads(threads).stack_size(2 << 20).build().unwrap();
        let leaves = sized(1_000_000);
        let started = Arc::new(AtomicUsize::new(0));
        let (promise, future) = Promise::<usize>::new();
        let shared = future.shared();
        let count = Arc::clone(&started);
        let setter = std::thread::spawn(move || {
            // When all threads there can be wait.
            while count.load(Ordering::SeqCst) < 300 {
                std::thread::yield_now();
            }
            promise.set(1);
        });
        let count = Arc::clone(&started);
        ends(&pool, move || {
            tree(leaves, &|| {
                count.fetch_add(1, Ordering::SeqCst);
                shared.clone().wait().unwrap();
            });
        });
        setter.join().unwrap();
        assert_eq!(started.load(Ordering::SeqCst), leaves);
        had_as_many_as_it_should(&pool);
    }
}

/// For longer than a queue may stand still before there are more threads than there should be. This one moves: threads that wait
/// take leaves on.
#[test]
fn a_join_tree_whose_leaves_are_taken_on_for_long() {
    let pool = Arc::new(Pool::builder().threads(2).stack_size(2 << 20).build().unwrap());
    let (promise, future) = Promise::<usize>::new();
    let (shared, looks_at) = (future.shared(), Arc::clone(&pool));
    let setter = std::thread::spawn(move || {
        let (since, mut most) = (Instant::now(), 0);
        // Time is what this is about; where the leaves run out earlier, it shows less, and passes.
        while since.elapsed() < Duration::from_secs(5) {
            most = most.max(looks_at.live_threads());
            std::thread::sleep(Duration::from_millis(5));
        }
        promise.set(1);
        most
    });
    ends(&pool, move || tree(300_000, &|| _ = shared.clone().wait().unwrap()));
    let most = setter.join().unwrap();
    assert!(most <= 2 + 256, "{most} threads");
}

/// Nodes of a graph, each made of up to three before it: every other one waits for those in a task. More wait at a time than a pool has spare
/// threads, and what a thread would take on may wait for what lies beneath.
#[test]
fn tasks_that_wait_for_each_other_s_results_in_a_graph() {
    type Nodes = Arc<Vec<OnceLock<Shared<u64>>>>;
    const PRIME: u64 = 1_000_003;

    fn inputs(node: usize) -> impl Iterator<Item = usize> {
        let mut random = (node as u64) << 8 | 1;
        (0..node.min(3)).map(move |_| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random as usize % node
        })
    }
    fn made(pool: &Arc<Pool>, nodes: &Nodes, node: usize) -> Future<u64> {
        if let Some(known) = nodes[node].get() {
            return known.future();
        }
        let (promise, future) = SharedPromise::new();
        if nodes[node].set(future.shared()).is_err() {
            return nodes[node].get().unwrap().future();
        }
        let of = |values: Vec<u64>| values.into_iter().fold(1, |a, b| (a * 31 + b) % PRIME);
        let linked = if node % 2 == 0 {
            let (of_pool, of_nodes) = (Arc::clone(pool), Arc::clone(nodes));
            pool.spawn(move || {
                let all: Vec<_> =
                    inputs(node).map(|node| made(&of_pool, &of_nodes, node)).collect();
                of(all.into_iter().map(|input| input.wait().unwrap()).collect())
            })
        } else {
            collect(inputs(node).map(|node| made(pool, nodes, node))).on(pool).map(of)
        };
        promise.try_link(linked);
        nodes[node].get().unwrap().future()
    }

    for count in [1000, 3000] {
        let pool = Arc::new(Pool::new(2).unwrap());
        let nodes: Nodes = Arc::new((0..count).map(|_| OnceLock::new()).collect());
        let futures: Vec<_> = (0..count).rev().map(|node| made(&pool, &nodes, node)).collect();
        let mut right = Vec::new();
        for node in 0..count {
            right.push(inputs(node).fold(1, |a, input| (a * 31 + right[input]) % PRIME));
        }
        for (future, right) in futures.into_iter().rev().zip(right) {
            match future.wait_timeout(LONG) {
                Ok(value) => assert_eq!(value.unwrap(), right),
                Err(_) => panic!("it ends: {:?}", pool.stats()),
            }
        }
        let stats = pool.stats();
        assert!(stats.hosted == 0 || stats.refused > 0, "{stats:?}");
    }
}

/// Somebody is at what they wait for: further threads would be of no use.
#[test]
fn tasks_that_wait_for_one_that_works_bring_no_thread_beyond_the_cap() {
    let pool = Pool::new(2).unwrap();
    let works = pool.spawn(|| {
        let since = Instant::now();
        // Less than what makes a pool doubt that it is of any use.
        while since.elapsed() < Duration::from_millis(1500) {
            std::hint::spin_loop();
        }
    });
    let shared = works.shared();
    let waits = |_| {
        let shared = shared.clone();
        pool.spawn(move || shared.wait().unwrap())
    };
    let tasks: Vec<_> = (0..600).map(waits).collect();
    for task in tasks {
        task.wait_timeout(LONG).expect("it ends").unwrap();
    }
    had_as_many_as_it_should(&pool);
}

/// What they wait for lies at the end of the queue each time, where nobody sees that they wait for it. Those that are taken on at
/// the cap end one task each, and then wait, too.
#[test]
fn more_tasks_than_threads_each_of_which_waits_for_what_it_queues() {
    for _ in 0..4 {
        let (pool, count) = (Pool::new(2).unwrap(), AtomicUsize::new(0));
        let waits = || spawn(|| 1).on(&pool).wait().unwrap();
        let since = Instant::now();
        Pool::new(2).unwrap().scope(|calls| {
            for _ in 0..140 {
                calls.spawn(|_| {
                    pool.scope(|scope| {
                        for _ in 0..35 {
                            scope.spawn(|_| _ = count.fetch_add(waits(), Ordering::Relaxed));
                        }
                    });
                });
            }
        });
        assert_eq!(count.into_inner(), 140 * 35);
        assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
    }
}

/// More tasks than a pool ever has threads look again and again whether what they have queued is done, on a machine that does little
/// else; still none counts as one that works for that it has not had a processor for long.
#[test]
fn thousands_that_poll_for_what_they_queue() {
    let pool = Pool::new(2).unwrap();
    let tasks: Vec<Future<()>> = (0..sized(9000))
        .map(|_| {
            pool.spawn(|| {
                let queued = spawn(|| ());
                while !queued.is_done() {
                    yield_now();
                }
            })
        })
        .collect();
    // As one that does not help.
    let since = Instant::now();
    for task in &tasks {
        while !task.is_done() {
            assert!(since.elapsed() < LONG, "it ends");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// When nobody has taken on a leaf for so long, all threads there may be wait, with all that their stacks have room for.
const STILL: Duration = Duration::from_secs(1);

/// Nobody sets it before nothing moves any more. By then stacks are full; threads of last resort come later.
#[test]
fn a_join_tree_whose_leaves_wait_for_a_future_that_is_set_late() {
    for threads in [1, 2] {
        let pool =
            Arc::new(Pool::builder().threads(threads).stack_size(320 << 10).build().unwrap());
        let leaves = 10_000;
        let started = Arc::new(AtomicUsize::new(0));
        let (promise, future) = Promise::<usize>::new();
        let shared = future.shared();
        let (count, looks_at) = (Arc::clone(&started), Arc::clone(&pool));
        let setter = std::thread::spawn(move || {
            let (mut seen, mut since, mut most) = (0, Instant::now(), 0);
            while since.elapsed() < STILL {
                std::thread::sleep(Duration::from_millis(5));
                most = most.max(looks_at.live_threads());
                let now = count.load(Ordering::SeqCst);
                if now != seen {
                    (seen, since) = (now, Instant::now());
                }
            }
            promise.set(1);
            (seen, most)
        });
        let count = Arc::clone(&started);
        ends(&pool, move || {
            tree(leaves, &|| {
                let filler = std::hint::black_box([1_u8; 8 << 10]);
                count.fetch_add(1, Ordering::SeqCst);
                shared.clone().wait().unwrap();
                std::hint::black_box(&filler);
            });
        });
        let (seen, most) = setter.join().unwrap();
        assert_eq!(started.load(Ordering::SeqCst), leaves);
        assert!(most <= threads + 256, "{most} threads, {seen} leaves when nothing moved");
    }
}

#[test]
fn one_scope_low_on_stack() {
    let pool = Pool::builder().threads(1).stack_size(256 << 10).build().unwrap();
    let count = ends(&pool, || {
        let count = AtomicUsize::new(0);
        // Most of the stack.
        let filler = std::hint::black_box([1_u8; 190 << 10]);
        scope(|s| {
            for _ in 0..300 {
                s.spawn(|_| {
                    count.fetch_add(1, Ordering::Relaxed);
                });
            }
        });
        std::hint::black_box(&filler);
        count.into_inner()
    });
    assert_eq!(count, 300);
}

#[test]
fn scopes_within_tasks_of_scopes_far_down() {
    fn nest(depth: usize, count: &AtomicUsize) {
        scope(|s| {
            s.spawn(|_| {
                count.fetch_add(1, Ordering::Relaxed);
            });
            if depth > 0 {
                s.spawn(|_| nest(depth - 1, count));
            }
            s.spawn(|_| {
                count.fetch_add(1, Ordering::Relaxed);
            });
        });
    }
    for threads in [1, 2, 4] {
        let pool = Pool::new(threads).unwrap();
        let count = ends(&pool, || {
            let count = AtomicUsize::new(0);
            nest(5000, &count);
            count.into_inner()
        });
        assert_eq!(count, 10_002);
    }
}

#[test]
fn ambient_joins_at_the_leaves_of_deep_ones() {
    fn dive(worker: &Worker, depth: usize) -> usize {
        if depth == 0 {
            return (0..20_000).map(|_| join(|| 1, || 0).0).sum();
        }
        worker.join(|worker| dive(worker, depth - 1), |_| 0).0
    }
    let pool = Pool::new(1).unwrap();
    assert_eq!(pool.run(|worker| dive(worker, 2_000)), 20_000);
}
