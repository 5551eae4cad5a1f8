//! `raddle run knn`: guesses the label of each row from those of its nearest neighbours.

use std::ops::Range;

use raddle::Worker;

use crate::args::{Common, KnnArgs};
use crate::error::Error;
use crate::files::Files;
use crate::made_up;
use crate::parallel::fold_chunks;
use crate::points::{Panels, Points, distances};
use crate::progress::Progress;
use crate::remote;
use crate::report::count;
use crate::table::{Label, Table};
use crate::timing;

/// How many rows look for their neighbours together: each part of the table is fetched once for
/// all.
const CHUNK: usize = 16;

pub(crate) fn run(args: &KnnArgs, common: &Common) -> Result<(), Error> {
    let files = Files::of(args.input.path())?;
    let setup = timing::Setup::new(common, &files)?;
    if args.label == Label::None {
        return Err(Error::usage("--label none: knn guesses labels, so it needs a column of them"));
    }
    super::check_k(args.k, usize::MAX, None, "")?;
    let Table { points, labels } = match args.input.path() {
        Some(path) => Table::read(path, args.label)?,
        None => {
            let (points, labels) = made_up::clusters(10_000, 16, 8);
            Table { points, labels }
        }
    };
    let total = points.len();
    let others = format!("{} besides each", count(total - 1, "row"));
    super::check_k(args.k, total - 1, args.input.path(), &others)?;

    let panels = Panels::new(&points);
    let work = |worker: &Worker, progress: &Progress| {
        let mut guesses = vec![0; total];
        let leaf = |first: usize, guesses: &mut [u32]| {
            classify(&points, &panels, &labels, args.k, first, guesses);
            progress.step();
        };
        fold_chunks(worker, &mut guesses, CHUNK, &leaf, &|(), ()| ());
        guesses
    };
    let steps = total.div_ceil(CHUNK) as u64;
    let timed = match &common.plan {
        None => timing::compare(setup, Some(steps), work, |a, b| a == b)?,
        Some(plan) => remote::knn(plan, common, (&points, &labels, args.k), steps, work)?,
    };
    let correct = timed.value.iter().zip(&labels).filter(|(guess, label)| guess == label).count();

    let what = format!("{}, {}", count(total, "row"), count(points.width(), "feature"));
    let mut report = super::report("knn", args.input.path(), &what);
    report.fact("k", args.k);
    report.headline(&format!("correct {correct} of {total}"));
    report.datum("correct", correct);
    report.datum("total", total);
    timed.tell(&mut report);
    report.print(common.json, false)
}

/// Guesses the labels of a piece of a table, and tells how far it is.
pub(crate) fn classify_piece(
    points: &Points,
    labels: &[u32],
    k: usize,
    rows: Range<usize>,
    mut done: impl FnMut(usize),
) -> Vec<u32> {
    let panels = Panels::new(points);
    let mut guesses = vec![0; rows.len()];
    for (first, guesses) in rows.step_by(CHUNK).zip(guesses.chunks_mut(CHUNK)) {
        classify(points, &panels, labels, k, first, guesses);
        done(guesses.len());
    }
    guesses
}

/// Guesses the labels of the rows from `first` on, each without looking at its own.
fn classify(
    points: &Points,
    panels: &Panels,
    labels: &[u32],
    k: usize,
    first: usize,
    guesses: &mut [u32],
) {
    let mut nearest = vec![Nearest::new(k); guesses.len()];
    for (start, panel) in panels.iter() {
        for (row, nearest) in (first..).zip(&mut nearest) {
            for (other, distance) in (start..).zip(distances(points.row(row), panel)) {
                if other != row {
                    nearest.offer(distance, other);
                }
            }
        }
    }
    for (guess, nearest) in guesses.iter_mut().zip(&nearest) {
        *guess = vote(nearest.rows.iter().map(|&(_, row)| labels[row]));
    }
}

/// The k nearest rows so far, the nearest first; of equally near ones the one offered first.
#[derive(Debug, Clone)]
struct Nearest {
    k: usize,
    rows: Vec<(f64, usize)>,
    /// The distance to get below.
    bound: f64,
}

impl Nearest {
    fn new(k: usize) -> Nearest {
        Nearest { k, rows: Vec::new(), bound: f64::INFINITY }
    }

    fn offer(&mut self, distance: f64, row: usize) {
        if distance >= self.bound {
            return;
        }
        let place = self.rows.partition_point(|&(other, _)| other <= distance);
        self.rows.truncate(self.k - 1);
        self.rows.insert(place, (distance, row));
        if self.rows.len() == self.k {
            self.bound = self.rows[self.k - 1].0;
        }
    }
}

/// The most frequent label, and of equally frequent ones the one that comes first.
fn vote(labels: impl Iterator<Item = u32>) -> u32 {
    let mut votes: Vec<(u32, usize)> = Vec::new();
    for label in labels {
        match votes.iter_mut().find(|(other, _)| *other == label) {
            Some((_, votes)) => *votes += 1,
            None => votes.push((label, 1)),
        }
    }
    // Of equal ones, `max_by_key` takes the last.
    votes.into_iter().rev().max_by_key(|&(_, votes)| votes).map_or(0, |(label, _)| label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guesses(values: &[f64], labels: &[u32], k: usize) -> Vec<u32> {
        let points = Points::new(values.to_vec(), 1);
        let mut guesses = vec![u32::MAX; points.len()];
        classify(&points, &Panels::new(&points), labels, k, 0, &mut guesses);
        guesses
    }

    #[test]
    fn a_row_is_not_its_own_neighbour() {
        assert_eq!(guesses(&[0.0, 1.0, 5.0], &[7, 8, 9], 1), [8, 7, 8]);
    }

    #[test]
    fn of_equal_distances_the_lower_row_counts() {
        assert_eq!(guesses(&[1.0, 3.0, 2.0], &[7, 8, 9], 1), [9, 9, 7]);
        // Beyond the first panel too.
        let values: Vec<f64> = (0..20).map(|row| if row == 10 { 0.0 } else { 1.0 }).collect();
        let labels: Vec<u32> = (0..20).collect();
        assert_eq!(guesses(&values, &labels, 1)[10], 0);
        assert_eq!(guesses(&values, &labels, 1)[0], 1);
    }

    #[test]
    fn of_equal_votes_the_label_with_the_nearest_member_wins() {
        assert_eq!(vote([3, 1, 1, 3, 2].into_iter()), 3);
        assert_eq!(vote([2, 1, 1, 3].into_iter()), 1);
    }

    #[test]
    fn all_other_rows_may_be_neighbours() {
        assert_eq!(guesses(&[0.0, 1.0, 5.0, 6.0], &[1, 1, 2, 2], 3), [2, 2, 1, 1]);
    }
}
