//! Each function does what its sequential namesake does: on pools of 1, 2 and 8 threads, from outside and within, and with
//! such calls within such calls.

use std::cmp::Reverse;
use std::sync::LazyLock;

use proptest::collection::vec;
use proptest::prelude::*;
use raddle_core::Pool;
use raddle_par as par;

static POOLS: LazyLock<Vec<Pool>> =
    LazyLock::new(|| [1, 2, 8].map(|n| Pool::new(n).expect("a pool")).into());

/// Calls `check` on each pool, and outside of pools.
fn everywhere(check: impl Fn() + Sync) {
    check();
    for pool in POOLS.iter() {
        pool.run(|_| check());
    }
}

/// Lengths about which something changes, and others.
fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![
        0..8_usize,
        0..600_usize,
        1_000..1_100_usize,
        2_000..9_000_usize,
        30_000..40_000_usize
    ]
}

/// Numbers of which many are equal, or few.
fn numbers() -> impl Strategy<Value = Vec<u32>> {
    (lengths(), prop_oneof![Just(3_u32), Just(1_000), Just(u32::MAX)])
        .prop_flat_map(|(length, below)| vec(0..below, length))
}

/// Numbers with some order in them already.
fn ordered() -> impl Strategy<Value = Vec<u32>> {
    (numbers(), 0..6_usize).prop_map(|(mut numbers, order)| {
        let middle = numbers.len() / 2;
        match order {
            0 => numbers.sort(),
            1 => numbers.sort_by_key(|&n| Reverse(n)),
            2 => numbers[middle..].sort(),
            3 => numbers[..middle].sort_by_key(|&n| Reverse(n)),
            4 => numbers.chunks_mut(300).for_each(<[u32]>::sort),
            _ => {}
        }
        numbers
    })
}

fn sorted<T: Clone>(data: &[T], sort: impl FnOnce(&mut [T])) -> Vec<T> {
    let mut data = data.to_vec();
    sort(&mut data);
    data
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn loops_visit_each_element_once(numbers in numbers(), size in 1..2_000_usize) {
        everywhere(|| {
            let mut data = numbers.clone();
            par::for_each(&mut data, |n| *n = n.wrapping_add(1));
            assert!(data.iter().zip(&numbers).all(|(new, old)| *new == old.wrapping_add(1)));
            par::for_each_indexed(&mut data, |i, n| *n = i as u32);
            assert!(data.iter().enumerate().all(|(i, n)| *n == i as u32));
            par::zip(&mut data, &numbers, |a, b| *a ^= b);
            assert!(data.iter().enumerate().all(|(i, n)| *n == i as u32 ^ numbers[i]));
            par::chunks_mut(&mut data, size, |chunk| chunk.fill(chunk.len() as u32));
            par::chunks_mut_indexed(&mut data, size, |i, chunk| {
                chunk.iter_mut().for_each(|n| *n = *n * 2 + i as u32 % 2);
            });
            for (i, chunk) in data.chunks(size).enumerate() {
                assert!(chunk.iter().all(|&n| n == chunk.len() as u32 * 2 + i as u32 % 2));
            }
        });
    }

    #[test]
    fn vectors_are_in_order(numbers in numbers(), from in 0..100_u64) {
        everywhere(|| {
            let text = |n: &u32| n.to_string();
            let texts: Vec<String> = numbers.iter().map(text).collect();
            assert!(par::map_collect(&numbers, text) == texts);
            let even = |n: &u32| n % 2 == 0;
            let expected: Vec<&u32> = numbers.iter().filter(|n| even(n)).collect();
            assert_eq!(par::filter(&numbers, even), expected);
            let half = |n: &u32| (n % 2 == 0).then(|| n / 2);
            let expected: Vec<u32> = numbers.iter().filter_map(half).collect();
            assert_eq!(par::filter_map(&numbers, half), expected);
            let to = from + numbers.len() as u64;
            assert!(par::map_collect(from..to, |i| i).into_iter().eq(from..to));
            assert!(par::map_collect(from..=to, |i| i).into_iter().eq(from..=to));
            let mut data = numbers.clone();
            let old = par::map_collect(&mut data, |n| std::mem::replace(n, 7));
            assert!(old == numbers && data.iter().all(|&n| n == 7));
        });
    }

    #[test]
    fn reductions_and_searches(numbers in numbers(), wanted in 0..1_200_u32) {
        everywhere(|| {
            let sum = par::map_reduce(&numbers, 0, |&n| u64::from(n), |a, b| a + b);
            assert_eq!(sum, numbers.iter().map(|&n| u64::from(n)).sum::<u64>());
            // Associative, and not commutative.
            let text = par::map_reduce(&numbers, String::new, |n| format!("{n},"), |a, b| a + &b);
            assert_eq!(text, numbers.iter().map(|n| format!("{n},")).collect::<String>());
            let found = par::find_any(&numbers, |&n| n == wanted);
            assert_eq!(found.is_some(), numbers.contains(&wanted));
            assert!(found.is_none_or(|n| numbers.as_ptr_range().contains(&std::ptr::from_ref(n))));
            assert_eq!(par::any(&numbers, |&n| n > wanted), numbers.iter().any(|&n| n > wanted));
            assert_eq!(par::all(&numbers, |&n| n > wanted), numbers.iter().all(|&n| n > wanted));
        });
    }

    #[test]
    fn scans(numbers in numbers(), start in any::<u32>()) {
        // Affine maps: composition is associative, and not commutative.
        let compose = |a: &(u32, u32), b: &(u32, u32)| {
            (a.0.wrapping_mul(b.0), a.1.wrapping_mul(b.0).wrapping_add(b.1))
        };
        let maps: Vec<_> = numbers.iter().map(|&n| (n | 1, n ^ 5)).collect();
        let start = (1, start);
        let mut so_far = start;
        let mut before = Vec::new();
        for map in &maps {
            before.push(so_far);
            so_far = compose(&so_far, map);
        }
        let mut up_to = maps.clone();
        for i in 1..up_to.len() {
            up_to[i] = compose(&up_to[i - 1], &up_to[i]);
        }
        everywhere(|| {
            let mut data = maps.clone();
            par::inclusive_scan(&mut data, compose);
            assert!(data == up_to);
            let mut data = maps.clone();
            assert_eq!(par::exclusive_scan(&mut data, start, compose), so_far);
            assert!(data == before);
        });
    }

    #[test]
    fn sorts(numbers in ordered()) {
        // Beside its key each has where it was, which shows whether equal ones have changed places.
        let pairs: Vec<(u32, usize)> = numbers.iter().copied().zip(0..).collect();
        let words: Vec<String> = numbers.iter().map(|n| format!("{n:05}")).collect();
        let by_key = sorted(&pairs, |data| data.sort_by_key(|pair| pair.0));
        let falling = sorted(&pairs, |data| data.sort_by_key(|pair| Reverse(pair.0)));
        let sorted_words = sorted(&words, <[String]>::sort);
        let in_order = sorted(&numbers, <[u32]>::sort);
        everywhere(|| {
            assert!(sorted(&numbers, par::sort) == in_order);
            assert!(sorted(&numbers, par::sort_unstable) == in_order);
            assert!(sorted(&words, par::sort) == sorted_words);
            assert!(sorted(&words, par::sort_unstable) == sorted_words);
            assert!(sorted(&pairs, |data| par::sort_by_key(data, |pair| pair.0)) == by_key);
            assert!(sorted(&pairs, |data| par::sort_by(data, |a, b| b.0.cmp(&a.0))) == falling);
            assert!(sorted(&pairs, |data| par::sort_unstable_by_key(data, |pair| *pair)) == by_key);
            let unstable = sorted(&pairs, |data| par::sort_unstable_by(data, |a, b| b.0.cmp(&a.0)));
            assert!(unstable.is_sorted_by(|a, b| a.0 >= b.0));
            assert!(sorted(&unstable, <[_]>::sort) == by_key);
        });
    }

    #[test]
    fn nested(rows in vec(numbers(), 0..12)) {
        let expected: Vec<Vec<u64>> = rows.iter().map(|row| {
            let mut row: Vec<u64> = row.iter().map(|&n| u64::from(n) * 2).collect();
            row.sort();
            row
        }).collect();
        everywhere(|| {
            let result = par::map_collect(&rows, |row| {
                let mut row = par::map_collect(row, |&n| u64::from(n));
                par::for_each(&mut row, |n| *n *= 2);
                par::sort(&mut row);
                row
            });
            assert!(result == expected);
            let sum = |row: &Vec<u64>| par::map_reduce(row, 0, |&n| n, |a, b| a + b);
            let sum = par::map_reduce(&result, 0, sum, |a, b| a + b);
            assert_eq!(sum, expected.iter().flatten().sum::<u64>());
        });
    }

    #[test]
    fn sorts_survive_nonsense(numbers in numbers(), seed in any::<u32>()) {
        // No order at all: whatever comes out, or a panic, each element is there once.
        let in_order = sorted(&numbers, <[u32]>::sort);
        let nonsense = |a: &u32, b: &u32| (a ^ seed).wrapping_mul(0x9e37_79b1).cmp(&b.rotate_left(*a % 31));
        everywhere(|| {
            for sort in [par::sort_by, par::sort_unstable_by] {
                let mut data = numbers.clone();
                let sorting = std::panic::AssertUnwindSafe(|| sort(&mut data, nonsense));
                let _ = std::panic::catch_unwind(sorting);
                assert!(sorted(&data, <[u32]>::sort) == in_order);
            }
        });
    }
}
