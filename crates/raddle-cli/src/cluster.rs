//! Lloyd's algorithm for k-means, in parallel and the same to the bit for any number of threads.

use std::convert::Infallible;

use raddle::Worker;

use crate::made_up::Random;
use crate::parallel::{fold_alone, fold_chunks, merge_pieces, pieces};
use crate::points::{Panels, Points, squared_distance};
use crate::progress::Progress;

/// How many rows make one task. Part of the result: sums are added chunk by chunk.
const CHUNK: usize = 128;

/// Which points the centres start from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Init {
    /// The first K of them
    First,
    /// K drawn at random, far apart (k-means++)
    Plusplus,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    /// From one to the number of points.
    pub(crate) k: usize,
    pub(crate) init: Init,
    pub(crate) seed: u64,
    /// At least one.
    pub(crate) max_iter: usize,
}

#[derive(Debug)]
pub(crate) struct Clusters {
    pub(crate) centres: Points,
    /// The nearest of the centres for each point, the lower of two that are equally near.
    pub(crate) labels: Vec<u32>,
    /// The sum of the squared distances of the points to their centres.
    pub(crate) inertia: f64,
    /// How often all points were assigned, with the last time, which changed nothing.
    pub(crate) iterations: usize,
    pub(crate) converged: bool,
}

impl Clusters {
    /// The same to the last bit.
    pub(crate) fn same(&self, other: &Clusters) -> bool {
        let bits = |clusters: &Clusters| -> Vec<u64> {
            let values = clusters.centres.values().iter().chain([&clusters.inertia]);
            values.map(|value| value.to_bits()).collect()
        };
        self.labels == other.labels
            && self.iterations == other.iterations
            && self.converged == other.converged
            && bits(self) == bits(other)
    }

    /// How many clusters have no point.
    pub(crate) fn empty(&self) -> usize {
        let mut seen = vec![false; self.centres.len()];
        self.labels.iter().for_each(|&label| seen[label as usize] = true);
        seen.into_iter().filter(|seen| !seen).count()
    }
}

/// Assigns every point to its nearest centre and moves every centre to the middle of its points,
/// until nothing changes or `max_iter` is reached. A centre without points stays where it is.
pub(crate) fn lloyd(
    worker: &Worker,
    points: &Points,
    options: Options,
    progress: &Progress,
) -> Clusters {
    let assign = |centres: &Points, labels: &mut Vec<u32>| -> Result<Sums, Infallible> {
        let sums = assign(worker, points, centres, labels);
        progress.step();
        Ok(sums)
    };
    match lloyd_by(worker, points, options, assign) {
        Ok(found) => found,
    }
}

/// The same, where `assign` says how points are assigned: it sets the label of each and returns what that adds up to.
pub(crate) fn lloyd_by<E>(
    worker: &Worker,
    points: &Points,
    options: Options,
    mut assign: impl FnMut(&Points, &mut Vec<u32>) -> Result<Sums, E>,
) -> Result<Clusters, E> {
    let mut centres = match options.init {
        Init::First => first(points, options.k),
        Init::Plusplus => plusplus(worker, points, options.k, options.seed),
    };
    let mut labels = vec![u32::MAX; points.len()];
    for iterations in 1..=options.max_iter {
        let sums = assign(&centres, &mut labels)?;
        if sums.changed == 0 {
            return Ok(Clusters {
                centres,
                labels,
                inertia: sums.inertia,
                iterations,
                converged: true,
            });
        }
        sums.move_centres(&mut centres);
    }
    // The centres have moved since: the labels must be those of where they are now.
    let inertia = assign(&centres, &mut labels)?.inertia;
    Ok(Clusters { centres, labels, inertia, iterations: options.max_iter, converged: false })
}

/// How deep the tree of sums is cut where parts of it are computed elsewhere.
pub(crate) const DEPTH: u32 = 5;

/// Assigns all points, a piece of the tree at a time: `far` is given pieces, and returns for each its labels and sums.
pub(crate) fn assign_by<E>(
    labels: &mut Vec<u32>,
    far: impl FnOnce(Vec<(usize, Vec<u32>)>) -> Result<Vec<(Vec<u32>, Sums)>, E>,
) -> Result<Option<Sums>, E> {
    let pieces = pieces(0..labels.len(), CHUNK, DEPTH);
    let asked = pieces.into_iter().map(|piece| (piece.start, labels[piece].to_vec())).collect();
    let (parts, sums): (Vec<_>, Vec<_>) = far(asked)?.into_iter().unzip();
    let len = labels.len();
    *labels = parts.concat();
    Ok(merge_pieces(len, CHUNK, DEPTH, &mut sums.into_iter(), &Sums::merge))
}

/// Assigns the points of one piece, the first of which is `first`.
pub(crate) fn assign_piece(
    points: &Points,
    centres: &Points,
    first: usize,
    labels: &mut [u32],
) -> Sums {
    let panels = Panels::new(centres);
    let leaf = |start: usize, labels: &mut [u32]| sum(points, centres, &panels, start, labels);
    fold_alone(first, labels, CHUNK, &leaf, &Sums::merge)
}

/// What one assignment of some of the points adds up to.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Sums {
    /// Of the coordinates, for each centre.
    values: Vec<f64>,
    /// Of the points, for each centre.
    counts: Vec<u64>,
    inertia: f64,
    changed: usize,
}

impl Sums {
    fn new(centres: &Points) -> Sums {
        let (values, counts) = (vec![0.0; centres.values().len()], vec![0; centres.len()]);
        Sums { values, counts, inertia: 0.0, changed: 0 }
    }

    fn merge(mut self, other: Sums) -> Sums {
        self.values.iter_mut().zip(&other.values).for_each(|(a, b)| *a += b);
        self.counts.iter_mut().zip(&other.counts).for_each(|(a, b)| *a += b);
        self.inertia += other.inertia;
        self.changed += other.changed;
        self
    }

    fn move_centres(&self, centres: &mut Points) {
        let sums = self.values.chunks_exact(centres.width());
        for ((centre, sum), &count) in centres.rows_mut().zip(sums).zip(&self.counts) {
            if count > 0 {
                centre.iter_mut().zip(sum).for_each(|(value, sum)| *value = sum / count as f64);
            }
        }
    }
}

fn assign(worker: &Worker, points: &Points, centres: &Points, labels: &mut [u32]) -> Sums {
    let panels = Panels::new(centres);
    let leaf = |start: usize, labels: &mut [u32]| sum(points, centres, &panels, start, labels);
    fold_chunks(worker, labels, CHUNK, &leaf, &Sums::merge)
}

/// Assigns the points from `start` on, and adds them up.
fn sum(
    points: &Points,
    centres: &Points,
    panels: &Panels,
    start: usize,
    labels: &mut [u32],
) -> Sums {
    let width = points.width();
    let mut sums = Sums::new(centres);
    for (row, label) in (start..).zip(labels) {
        let point = points.row(row);
        let (nearest, distance) = panels.nearest(point);
        sums.inertia += distance;
        sums.counts[nearest] += 1;
        let values = &mut sums.values[nearest * width..][..width];
        values.iter_mut().zip(point).for_each(|(sum, value)| *sum += value);
        sums.changed += usize::from(*label != nearest as u32);
        *label = nearest as u32;
    }
    sums
}

fn first(points: &Points, k: usize) -> Points {
    let values = points.values()[..k * points.width()].to_vec();
    Points::new(values, points.width())
}

/// k-means++: each further centre is drawn from the points, with a chance that grows with the
/// square of its distance to the nearest centre so far.
fn plusplus(worker: &Worker, points: &Points, k: usize, seed: u64) -> Points {
    let mut random = Random::new(seed);
    let mut chosen = random.below(points.len());
    let mut values = points.row(chosen).to_vec();
    let mut nearest = vec![f64::INFINITY; points.len()];
    for _ in 1..k {
        let centre = points.row(chosen);
        let leaf = |start: usize, nearest: &mut [f64]| {
            let mut sum = 0.0;
            for (row, nearest) in (start..).zip(nearest) {
                *nearest = nearest.min(squared_distance(points.row(row), centre));
                sum += *nearest;
            }
            vec![sum]
        };
        let merge = |mut left: Vec<f64>, right: Vec<f64>| {
            left.extend(right);
            left
        };
        let sums = fold_chunks(worker, &mut nearest, CHUNK, &leaf, &merge);
        chosen = draw(&sums, &nearest, random.unit());
        values.extend_from_slice(points.row(chosen));
    }
    Points::new(values, points.width())
}

/// The index of one of the weights, each as likely as it is heavy; `sums` are those of the chunks.
///
/// If all weigh nothing, there are no more different points: the first is as good as any.
fn draw(sums: &[f64], weights: &[f64], unit: f64) -> usize {
    let mut left = unit * sums.iter().sum::<f64>();
    let chunk = pick(sums, &mut left);
    let start = chunk * CHUNK;
    let weights = &weights[start..weights.len().min(start + CHUNK)];
    start + pick(weights, &mut left)
}

/// Takes weights off `left` until one is heavier than what is left. Rounding may leave a rest in
/// the end: then it is the last that weighs anything.
fn pick(weights: &[f64], left: &mut f64) -> usize {
    let mut last = 0;
    for (index, &weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
        if *left < weight {
            return index;
        }
        *left -= weight;
        last = index;
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up;
    use proptest::prelude::*;
    use raddle::Pool;

    fn run(threads: usize, points: &Points, options: Options) -> Clusters {
        let work = |worker: &Worker| lloyd(worker, points, options, &Progress::hidden());
        Pool::new(threads).unwrap().run(work)
    }

    fn options(k: usize, init: Init) -> Options {
        Options { k, init, seed: 1, max_iter: 100 }
    }

    #[test]
    fn two_heaps_are_found() {
        let points = Points::new(vec![0.0, 1.0, 10.0, 2.0, 11.0, 12.0], 1);
        let found = run(1, &points, options(2, Init::First));
        assert_eq!(found.centres.values(), [1.0, 11.0]);
        assert_eq!(found.labels, [0, 0, 1, 0, 1, 1]);
        assert_eq!((found.inertia, found.converged), (4.0, true));
    }

    #[test]
    fn iterations_count_the_one_that_changes_nothing() {
        let points = Points::new(vec![0.0, 4.0], 1);
        let found = run(1, &points, options(2, Init::First));
        assert_eq!((found.iterations, found.inertia), (2, 0.0));
    }

    #[test]
    fn stopped_early_the_labels_are_those_of_the_final_centres() {
        let (points, _) = made_up::clusters(500, 2, 5);
        let options = Options { max_iter: 2, ..options(5, Init::First) };
        let found = run(1, &points, options);
        assert_eq!((found.iterations, found.converged), (2, false));
        let panels = Panels::new(&found.centres);
        for (row, &label) in points.rows().zip(&found.labels) {
            assert_eq!(panels.nearest(row).0, label as usize);
        }
    }

    #[test]
    fn a_centre_without_points_stays() {
        // Three equal centres: the first takes all, then the second most; the third never has any.
        let points = Points::new(vec![1.0, 1.0, 1.0, 5.0], 1);
        let found = run(1, &points, options(3, Init::First));
        assert_eq!(found.centres.values(), [5.0, 1.0, 1.0]);
        assert_eq!(found.empty(), 1);
    }

    #[test]
    fn plusplus_finds_as_many_different_points_as_there_are() {
        let points = Points::new(vec![3.0, 3.0, 8.0, 3.0, 8.0, -1.0], 1);
        for seed in 0..50 {
            let options = Options { seed, ..options(6, Init::Plusplus) };
            let found = run(1, &points, options);
            assert_eq!((found.inertia, found.empty()), (0.0, 3));
        }
    }

    #[test]
    fn heavier_weights_are_drawn_more_often() {
        let weights = [0.0, 1.0, 0.0, 3.0, 0.0];
        let drawn = |unit| draw(&[4.0], &weights, unit);
        assert_eq!([0.0, 0.24, 0.26, 0.99].map(drawn), [1, 1, 3, 3]);
        // As if rounding had made the sum too large.
        assert_eq!(draw(&[4.5], &weights, 0.99), 3);
        assert_eq!(draw(&[0.0], &[0.0, 0.0], 0.5), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn any_number_of_threads_gives_the_same(
            rows in 1_usize..700, width in 1_usize..5, k in 1_usize..12, plus: bool, seed: u64,
        ) {
            let mut random = Random::new(seed);
            let values = (0..rows * width).map(|_| random.unit()).collect();
            let points = Points::new(values, width);
            let init = if plus { Init::Plusplus } else { Init::First };
            let options = Options { k: k.min(rows), init, seed, max_iter: 20 };
            let one = run(1, &points, options);
            for threads in [2, 3, 8] {
                prop_assert!(run(threads, &points, options).same(&one));
            }
        }
    }
}
