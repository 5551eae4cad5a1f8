//! `raddle run kmeans`: puts the rows of a table into k clusters.

use std::io::{self, Write};

use raddle::Worker;

use crate::args::{Common, KmeansArgs};
use crate::cluster::{Clusters, Options, lloyd};
use crate::error::Error;
use crate::files::Files;
use crate::made_up;
use crate::progress::Progress;
use crate::remote;
use crate::report::{Report, count};
use crate::table::Table;
use crate::timing;

pub(crate) fn run(args: &KmeansArgs, common: &Common) -> Result<(), Error> {
    let files = Files::of(args.input.path())?;
    let setup = timing::Setup::new(common, &files)?;
    let options = args.lloyd.options(args.k, args.init, args.max_iter)?;
    let points = match args.input.path() {
        Some(path) => Table::read(path, args.label)?.points,
        None => made_up::clusters(200_000, 16, 8).0,
    };
    let rows = count(points.len(), "row");
    super::check_k(options.k, points.len(), args.input.path(), &rows)?;
    let output = super::output(args.output.as_ref(), common, &files)?;

    let work = |worker: &Worker, progress: &Progress| lloyd(worker, &points, options, progress);
    let steps = Some(options.max_iter as u64);
    let timed = match &common.plan {
        None => timing::compare(setup, steps, work, Clusters::same)?,
        Some(plan) => remote::kmeans(plan, common, &points, options, steps, work)?,
    };
    let found = &timed.value;

    let columns = count(points.width(), "column");
    let mut report = super::report("kmeans", args.input.path(), &format!("{rows}, {columns}"));
    report.datum("rows", points.len());
    report.datum("columns", points.width());
    tell(&mut report, found, options);
    timed.tell(&mut report);
    super::finish(report, output, |to| write(found, to), common.json)
}

/// What there is to say about clusters, of whatever they are.
pub(crate) fn tell(report: &mut Report, found: &Clusters, options: Options) {
    report.fact("k", options.k);
    report.fact("iterations", found.iterations);
    report.datum("converged", found.converged);
    report.fact("inertia", found.inertia);
    report.datum("empty_clusters", found.empty());
    if !found.converged {
        report.remark("stopped by --max-iter before the clusters came to rest");
    }
    if found.empty() > 0 {
        let clusters = count(found.empty(), "cluster");
        report.remark(format!("{clusters} without members: the centre stays where it was"));
    }
}

fn write(found: &Clusters, to: &mut dyn Write) -> io::Result<()> {
    writeln!(to, "row,cluster")?;
    for (row, label) in found.labels.iter().enumerate() {
        writeln!(to, "{row},{label}")?;
    }
    Ok(())
}
