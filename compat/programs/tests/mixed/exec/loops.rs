//! Parallel iterators, and raddle's own loops.

use std::hint::black_box;

use raddle::par;
use rayon::iter::walk_tree;
use rayon::prelude::*;

use crate::exec::{Env, item};
use crate::ir::{Loop, Node};
use crate::oracle::{in_order, target};
use crate::rng::mix;

pub(super) fn run(kind: Loop, count: u32, inner: &'static Node, env: Env, x: u64) -> u64 {
    let f = |index: u32| item(inner, env, x, u64::from(index));
    let add = u64::wrapping_add;
    let all = || (0..count).into_par_iter();
    let numbers = || (0..count).collect::<Vec<u32>>();
    let values = || all().map(f).collect::<Vec<u64>>();
    let target = target(x, count);
    let is_it = |index: u32| {
        black_box(f(index));
        u64::from(index) == target
    };
    let found = |index: Option<u32>| index.map_or(x, |index| mix(x, u64::from(index)));
    match kind {
        Loop::Reduce => all().map(f).reduce(|| 0, add),
        Loop::Single => all().with_max_len(1).map(f).reduce(|| 0, add),
        Loop::Collect => in_order(x, values()),
        Loop::Zip => {
            let numbers = numbers();
            let pairs = all().zip(&numbers).map(|(a, b)| if a == *b { f(a) } else { 0 });
            in_order(x, pairs.collect::<Vec<u64>>())
        }
        Loop::Chunks(size) => {
            let numbers = numbers();
            let chunks =
                numbers.par_chunks(size).map(|chunk| chunk.iter().map(|i| f(*i)).collect());
            in_order(x, chunks.collect::<Vec<Vec<u64>>>().concat())
        }
        Loop::ChunksMut(size) => {
            let mut values = vec![0_u64; count as usize];
            values.par_chunks_mut(size).enumerate().for_each(|(chunk, values)| {
                let first = chunk * size;
                values.iter_mut().enumerate().for_each(|(i, value)| *value = f((first + i) as u32));
            });
            in_order(x, values)
        }
        Loop::Filter => all().map(f).filter(|v| v % 2 == 1).reduce(|| 0, add),
        Loop::FlatMap => {
            let three = |index| {
                let value = f(index);
                (0..3).into_par_iter().map(move |j| mix(value, j))
            };
            all().flat_map(three).reduce(|| 0, add)
        }
        Loop::FlatMapIter => {
            let three = |index| {
                let value = f(index);
                (0..3).map(move |j| mix(value, j))
            };
            all().flat_map_iter(three).reduce(|| 0, add)
        }
        Loop::Fold => all().fold(|| 0, |sum, index| add(sum, f(index))).reduce(|| 0, add),
        Loop::Bridge => (0..count).par_bridge().map(f).reduce(|| 0, add),
        Loop::SortCached => {
            let mut indices = numbers();
            indices.par_sort_by_cached_key(|index| f(*index));
            in_order(x, indices.into_par_iter().map(f).collect::<Vec<u64>>())
        }
        Loop::SortBy => {
            let mut values = values();
            values.par_sort_by(|a, b| {
                let (a, b) = rayon::join(|| mix_back(*a), || mix_back(*b));
                a.cmp(&b)
            });
            in_order(x, values)
        }
        Loop::SortUnstable => {
            let mut values = values();
            values.par_sort_unstable();
            in_order(x, values)
        }
        Loop::FindAny => found(all().find_any(|index| is_it(*index))),
        Loop::FindFirst => found(all().find_first(|index| is_it(*index))),
        Loop::TryForEach => {
            let result = all().try_for_each(|index| if is_it(index) { Err(index) } else { Ok(()) });
            found(result.err())
        }
        Loop::TryReduce => {
            let values = all().map(|index| {
                let value = f(index);
                (u64::from(index) != target).then_some(value)
            });
            values.try_reduce(|| 0, |a, b| Some(add(a, b))).unwrap_or(x)
        }
        Loop::Blocks => all().by_uniform_blocks(7).map(f).reduce(|| 0, add),
        Loop::WalkTree => {
            let children = |index: &u32| {
                let next = [2 * *index + 1, 2 * *index + 2];
                next.into_iter().filter(move |i| *i < count).collect::<Vec<u32>>()
            };
            walk_tree(0_u32, children).map(f).reduce(|| 0, add)
        }
        Loop::Partition => {
            let (odd, even): (Vec<u64>, Vec<u64>) = all().map(f).partition(|v| v % 2 == 1);
            mix(in_order(x, odd), in_order(x, even))
        }
        Loop::Chain => {
            let half = count / 2;
            let (a, b) = ((0..half).into_par_iter(), (half..count).into_par_iter());
            a.chain(b).rev().map(f).reduce(|| 0, add)
        }
        Loop::ParCollect => in_order(x, par::map_collect(0..count, f)),
        Loop::ParReduce => par::map_reduce(0..count, 0, f, add),
        Loop::ParEach => {
            let mut values = vec![0_u64; count as usize];
            par::for_each_indexed(&mut values, |index, value| *value = f(index as u32));
            in_order(x, values)
        }
        Loop::ParChunks(size) => {
            let mut values: Vec<u64> = (0..u64::from(count)).collect();
            par::chunks_mut(&mut values, size, |chunk| {
                chunk.iter_mut().for_each(|value| *value = f(*value as u32));
            });
            in_order(x, values)
        }
        Loop::ParSort => {
            let mut values = par::map_collect(0..count, f);
            par::sort(&mut values);
            in_order(x, values)
        }
        Loop::ParFindAny => found(par::find_any(0..count, is_it)),
        Loop::ParScan => {
            let mut values = par::map_collect(0..count, f);
            par::inclusive_scan(&mut values, |a, b| a.wrapping_add(*b));
            in_order(x, values)
        }
    }
}

/// What keeps the order.
fn mix_back(v: u64) -> u64 {
    black_box(v)
}
