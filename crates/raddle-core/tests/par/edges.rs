//! Nothing, very much, values without size, and who runs what.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use raddle_core::{Pool, par};

#[test]
fn nothing() {
    let mut none: [String; 0] = [];
    par::for_each(&mut none, |_| unreachable!());
    par::for_each_indexed(&mut none, |_, _| unreachable!());
    par::for_each_in(5..5_u8, |_| unreachable!());
    #[allow(clippy::reversed_empty_ranges, reason = "it is what is tested")]
    par::for_each_in(5..3_i64, |_| unreachable!());
    par::chunks_mut(&mut none, 3, |_| unreachable!());
    par::zip(&mut none, &[1, 2], |_, _| unreachable!());
    assert_eq!(par::map_collect(&none, |_| 1), []);
    assert_eq!(par::map_reduce(&none, 3, |_| 1, |a, b| a + b), 3);
    assert_eq!(par::filter(0..0, |_| true), [0; 0]);
    assert_eq!(par::find_any(&none, |_| true), None);
    par::inclusive_scan(&mut none, |_, _| unreachable!());
    assert_eq!(par::exclusive_scan(&mut [], 7, |a: &i32, b| a + b), 7);
    par::sort(&mut none);
    par::sort_unstable(&mut none);
}

#[test]
fn ranges_of_all_kinds_and_to_their_ends() {
    assert_eq!(par::map_collect(0..=u8::MAX, |n| n).len(), 256);
    assert_eq!(par::map_collect(i8::MIN..=i8::MAX, |n| n), (i8::MIN..=i8::MAX).collect::<Vec<_>>());
    assert_eq!(par::map_collect(-3..3, |n| n), [-3, -2, -1, 0, 1, 2]);
    assert_eq!(par::map_collect(u64::MAX - 2..u64::MAX, |n| n), [u64::MAX - 2, u64::MAX - 1]);
    let mut used = 1..=1;
    used.next();
    assert_eq!(par::map_collect(used, |n: i32| n), []);
    let data = [10, 20, 30];
    assert_eq!(par::map_collect(0..3, |i| data[i]), data);
}

#[test]
fn pieces_of_zero_elements_are_refused() {
    let refused = thread::spawn(|| par::chunks_mut(&mut [1], 0, |_| ())).join();
    assert!(refused.is_err());
}

#[test]
fn values_without_size() {
    let calls = AtomicUsize::new(0);
    let count = || _ = calls.fetch_add(1, Ordering::Relaxed);
    for pool in [1, 2, 8].map(|n| Pool::new(n).expect("a pool")) {
        pool.run(|_| {
            calls.store(0, Ordering::Relaxed);
            let mut units = par::map_collect(0..100_000, |_| count());
            assert_eq!((units.len(), calls.swap(0, Ordering::Relaxed)), (100_000, 100_000));
            par::for_each(&mut units, |()| count());
            assert_eq!(calls.load(Ordering::Relaxed), 100_000);
            par::sort(&mut units);
            par::sort_unstable(&mut units);
            par::inclusive_scan(&mut units, |(), ()| ());
            assert_eq!(par::filter(&units, |()| true).len(), 100_000);
        });
    }
}

#[test]
fn very_much() {
    let pool = Pool::new(4).expect("a pool");
    pool.run(|_| {
        let n = if cfg!(debug_assertions) { 3_000_000_u64 } else { 30_000_000 };
        let mut data = par::map_collect(0..n, |i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40);
        let sum = par::map_reduce(&data, 0, |&x| x, u64::wrapping_add);
        let copy = data.clone();
        par::sort(&mut data);
        assert!(data.is_sorted());
        assert_eq!(data.iter().copied().fold(0, u64::wrapping_add), sum);
        let mut other = copy;
        par::sort_unstable(&mut other);
        assert!(data == other);
        assert_eq!(par::exclusive_scan(&mut data, 0, |a, b| a.wrapping_add(*b)), sum);
    });
    // No room for that: the end is found at once, as no more is asked than is needed.
    assert!(par::find_any(0..u64::MAX, |n| n >= 1_000).is_some());
}

#[test]
fn another_thread_takes_part_in_few_items_before_the_first_is_done() {
    // Each of the two meets the other: so they run at once, on two threads.
    let pool = Pool::new(2).expect("a pool");
    for n in [2, 3, 8, 9, 63] {
        let barrier = Barrier::new(2);
        let meets = |i: usize| i == 0 || i == n - 1;
        pool.run(|_| par::for_each_in(0..n, |i| _ = meets(i).then(|| barrier.wait())));
    }
}

#[test]
fn alone_it_is_the_sequential_loop() {
    let pool = Pool::new(1).expect("a pool");
    let here = thread::current().id();
    let order = std::sync::Mutex::new(Vec::new());
    pool.run(|worker| {
        // The pool's own thread, that has just been started, may pay for a place that there is not.
        while worker.should_fork() {
            thread::yield_now();
        }
        par::for_each_in(0..5_000, |i| {
            assert_eq!(thread::current().id(), here);
            order.lock().expect("no panic").push(i);
        });
    });
    assert!(order.into_inner().expect("no panic").into_iter().eq(0..5_000));
}

#[test]
fn a_search_ends_soon_after_it_has_found() {
    let pool = Pool::new(2).expect("a pool");
    let asked = AtomicUsize::new(0);
    let found = pool.run(|_| {
        par::find_any(0..100_000_000_u64, |n| {
            asked.fetch_add(1, Ordering::Relaxed);
            n == 10
        })
    });
    assert_eq!(found, Some(10));
    assert!(asked.into_inner() < 90_000_000);
}

#[test]
fn slices_are_borrowed_again_and_again() {
    fn all(data: &mut [u32], other: &[u32]) {
        par::for_each(data, |x| *x += 1);
        par::for_each_indexed(data, |i, x| *x += i as u32);
        par::chunks_mut(data, 2, |chunk| chunk.reverse());
        par::zip(data, other, |x, y| *x += y);
        par::sort(data);
        par::sort_unstable(data);
    }
    let mut data = [3, 1, 2];
    all(&mut data, &[0, 10]);
    let mut vector = Vec::from(data);
    all(&mut vector, &[]);
    assert_eq!(data, [3, 5, 14]);
}
