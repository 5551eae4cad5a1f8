//! The workloads under a plan: the same results to the bit, wherever they are computed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use raddle::remote::{Env, Plan, Shared, progress};
use raddle::{Failure, Worker};

use crate::args::Common;
use crate::cluster::{Clusters, Options, Sums, assign_by, assign_piece, lloyd_by};
use crate::error::Error;
use crate::parallel::pieces;
use crate::points::Points;
use crate::progress::Progress;
use crate::timing::{self, Timed};
use crate::workload::knn;

/// An environment whose workers say how far they are.
fn open(plan: &Plan, common: &Common, bar: &Arc<Progress>) -> Result<Env, Error> {
    common.refuse_here()?;
    let bar = Arc::clone(bar);
    // What each task has said last: one that is tried again begins anew.
    let said = Mutex::new(HashMap::new());
    let plan = plan.clone().retries(common.retries.unwrap_or(0)).on_progress(move |task, now| {
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        let before = said.insert(task.id, now.done).unwrap_or(0);
        bar.add(now.done.saturating_sub(before));
    });
    let named = plan.to_string();
    Env::new(plan).map_err(|error| Error::usage(format!("--plan {named}: {error}")))
}

fn failed(failure: Failure) -> Error {
    Error::failure(one_line(&failure.to_string()))
}

fn one_line(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

/// Some rows, and the clusters that they were in.
type Piece = (Shared<Points>, Points, usize, Vec<u32>);

fn assign((points, centres, first, mut labels): Piece) -> (Vec<u32>, Sums) {
    let sums = assign_piece(&points, &centres, first, &mut labels);
    let rows = labels.len() as u64;
    progress(rows, rows);
    (labels, sums)
}

/// k-means under a plan, compared with one thread here.
pub(crate) fn kmeans(
    plan: &Plan,
    common: &Common,
    points: &Points,
    options: Options,
    steps: Option<u64>,
    work: impl Fn(&Worker, &Progress) -> Clusters + Sync,
) -> Result<Timed<Clusters>, Error> {
    let rows = points.len().saturating_mul(options.max_iter) as u64;
    let bar = Arc::new(Progress::bar(&plan.to_string(), rows));
    let env = open(plan, common, &bar)?;
    let shared = env.share(points.clone()).map_err(|error| failed(Failure::new(error)))?;
    let far = |worker: &Worker| {
        lloyd_by(worker, points, options, |centres, labels| {
            let sums = assign_by(labels, |asked| {
                let ask = |(first, labels)| (shared.clone(), centres.clone(), first, labels);
                env.map(assign, asked.into_iter().map(ask)).wait()
            });
            let sums = sums.map_err(failed)?;
            sums.ok_or_else(|| Error::failure("internal error: a piece of the sums is missing"))
        })
    };
    timing::compare_far(plan.to_string(), env.workers(), steps, work, far, Clusters::same)
}

/// Rows of a table, their labels, how many neighbours vote, and which rows are asked for.
type Rows = (Shared<(Points, Vec<u32>)>, usize, usize, usize);

fn classify((table, k, first, end): Rows) -> Vec<u32> {
    let (points, labels) = &*table;
    let mut done = 0;
    knn::classify_piece(points, labels, k, first..end, |rows| {
        done += rows;
        progress(done as u64, (end - first) as u64);
    })
}

/// k nearest neighbours under a plan, compared with one thread here.
pub(crate) fn knn(
    plan: &Plan,
    common: &Common,
    (points, labels, k): (&Points, &[u32], usize),
    steps: u64,
    work: impl Fn(&Worker, &Progress) -> Vec<u32> + Sync,
) -> Result<Timed<Vec<u32>>, Error> {
    let bar = Arc::new(Progress::bar(&plan.to_string(), points.len() as u64));
    let env = open(plan, common, &bar)?;
    let table = (points.clone(), labels.to_vec());
    let shared = env.share(table).map_err(|error| failed(Failure::new(error)))?;
    let far = |_: &Worker| {
        let rows = pieces(0..points.len(), 16, 5);
        let ask = rows.into_iter().map(|rows| (shared.clone(), k, rows.start, rows.end));
        Ok(env.map(classify, ask).wait().map_err(failed)?.concat())
    };
    let plan = plan.to_string();
    timing::compare_far(plan, env.workers(), Some(steps), work, far, |a, b| a == b)
}
