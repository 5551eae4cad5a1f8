//! A parallel merge sort beside the standard library's sort, which uses one thread.
//!
//! `cargo run --release -p raddle --example merge_sort`

use std::time::Instant;

use raddle::{Pool, Worker};

/// Shorter runs are sorted and merged in one go: the standard library's sort knows more tricks than
/// this one. The forks would be cheap enough for far shorter runs.
const LEAF: usize = 16 << 10;

/// Sorts `items`, and leaves the result there or in `buffer`, which is as long. What is in the other
/// one gets lost.
fn sort(worker: &Worker, items: &mut [u64], buffer: &mut [u64], into_buffer: bool) {
    if items.len() <= LEAF {
        items.sort();
        if into_buffer {
            buffer.copy_from_slice(items);
        }
        return;
    }
    let middle = items.len() / 2;
    let (left, right) = items.split_at_mut(middle);
    let (left_buffer, right_buffer) = buffer.split_at_mut(middle);
    // The halves go where the merge does not.
    worker.join(
        |w| sort(w, left, left_buffer, !into_buffer),
        |w| sort(w, right, right_buffer, !into_buffer),
    );
    if into_buffer {
        merge(worker, left, right, buffer);
    } else {
        merge(worker, left_buffer, right_buffer, items);
    }
}

/// Merges two sorted runs into `out`, which is as long as both together.
fn merge(worker: &Worker, left: &[u64], right: &[u64], out: &mut [u64]) {
    if out.len() <= LEAF {
        return merge_in_one_go(left, right, out);
    }
    // Cut the longer run in the middle, and the shorter one where the same value belongs: what is
    // left of the cuts goes before what is right of them.
    let (long, short) = if left.len() >= right.len() { (left, right) } else { (right, left) };
    let middle = long.len() / 2;
    let cut = short.partition_point(|item| *item < long[middle]);
    let (low, high) = out.split_at_mut(middle + cut);
    worker.join(
        |w| merge(w, &long[..middle], &short[..cut], low),
        |w| merge(w, &long[middle..], &short[cut..], high),
    );
}

fn merge_in_one_go(left: &[u64], right: &[u64], out: &mut [u64]) {
    let (mut l, mut r) = (0, 0);
    while l < left.len() && r < right.len() {
        let from_left = left[l] <= right[r];
        out[l + r] = if from_left { left[l] } else { right[r] };
        l += usize::from(from_left);
        r += usize::from(!from_left);
    }
    let (rest_of_left, rest_of_right) = out[l + r..].split_at_mut(left.len() - l);
    rest_of_left.copy_from_slice(&left[l..]);
    rest_of_right.copy_from_slice(&right[r..]);
}

fn main() {
    let pool = Pool::global();
    // An xorshift generator: the same numbers each time.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let numbers: Vec<u64> = (0..4_000_000).map(|_| random()).collect();

    let mut expected = numbers.clone();
    let start = Instant::now();
    expected.sort();
    println!("the standard library's sort: {:>8.1?}", start.elapsed());

    let mut items = numbers;
    let mut buffer = items.clone();
    let start = Instant::now();
    pool.run(|worker| sort(worker, &mut items, &mut buffer, false));
    let threads = pool.num_threads();
    println!("merge sort on {threads} thread(s): {:>8.1?}", start.elapsed());

    assert_eq!(items, expected);
    println!("both give the same {} numbers", items.len());
}
