//! What a run would be if parts of it were faster: `--what-if`.

use std::collections::HashMap;

use super::build::Region;
use super::label::{Label, WhatIf};
use super::{LONGEST, PLACES, Refusal};
use crate::trace::Trace;

/// Changes work while a graph is built.
pub(super) struct Supposing<'a> {
    trace: &'a Trace,
    all: &'a [WhatIf],
    /// Of each label: which are about it.
    labels: HashMap<Label, Vec<bool>>,
    /// Of each region: which are about it, or about one around it.
    regions: Vec<Vec<bool>>,
    /// Of each label in each region: by how much, and because of which.
    known: HashMap<(Label, u32), (f64, Vec<usize>)>,
    /// Whether each is about something.
    used: Vec<bool>,
    sums: HashMap<Label, f64>,
}

impl<'a> Supposing<'a> {
    #[inline]
    pub(super) fn new(trace: &'a Trace, all: &'a [WhatIf]) -> Supposing<'a> {
        let used = vec![false; all.len()];
        let (labels, known, sums) = (HashMap::new(), HashMap::new(), HashMap::new());
        Supposing { trace, all, labels, regions: Vec::new(), known, used, sums }
    }

    /// What becomes of work with this label, in this region, and because of which suppositions.
    #[inline]
    fn of(&mut self, label: Label, region: u32, regions: &[Region]) -> &(f64, Vec<usize>) {
        let (trace, all) = (self.trace, self.all);
        // A region is numbered after the one around it.
        for region in &regions[self.regions.len().min(regions.len())..] {
            let name = usize::from(region.name).checked_sub(1).and_then(|at| trace.names.get(at));
            let around = self.regions.get(region.parent as usize);
            let is_about = |(at, what): (usize, &WhatIf)| {
                name == Some(&what.name) || around.is_some_and(|around| around[at])
            };
            let which = all.iter().enumerate().map(is_about).collect();
            self.regions.push(which);
        }
        let (labels, around) = (&mut self.labels, self.regions.get(region as usize));
        self.known.entry((label, region)).or_insert_with(|| {
            let labelled = labels
                .entry(label)
                .or_insert_with(|| all.iter().map(|what| what.is_about(label, trace)).collect());
            let is_about = |at: &usize| labelled[*at] || around.is_some_and(|around| around[*at]);
            let which: Vec<usize> = (0..all.len()).filter(is_about).collect();
            (which.iter().map(|&at| all[at].factor).product(), which)
        })
    }

    /// How many times as long it takes.
    #[inline]
    pub(super) fn factor(&mut self, label: Label, region: u32, regions: &[Region]) -> f64 {
        if self.all.is_empty() { 1.0 } else { self.of(label, region, regions).0 }
    }

    /// So much work, told once, as it would be.
    #[inline]
    pub(super) fn work(
        &mut self,
        label: Label,
        region: u32,
        regions: &[Region],
        nanos: f64,
    ) -> f64 {
        if self.all.is_empty() || nanos <= 0.0 {
            return nanos;
        }
        let (factor, which) = self.of(label, region, regions);
        let (factor, which) = (*factor, which.clone());
        which.into_iter().for_each(|at| self.used[at] = true);
        *self.sums.entry(label).or_default() += nanos;
        let supposed = nanos * factor;
        // Neither negative nor none, if a program supposes that.
        if supposed > 0.0 { supposed.min(LONGEST) } else { 0.0 }
    }

    /// Refuses if something is supposed of what there is not.
    #[inline]
    pub(super) fn check(self) -> Option<Refusal> {
        let unused = self.used.iter().position(|used| !used)?;
        let mut known: Vec<(f64, String)> =
            self.sums.iter().map(|(label, work)| (*work, label.text(self.trace))).collect();
        known.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let known = known.into_iter().take(PLACES).map(|known| known.1).collect();
        Some(Refusal::Unknown(self.all[unused].name.clone(), known))
    }
}
