//! What scales, in words.

use std::fmt::Write as _;

use super::{Place, Scale};
use crate::summary::{short, time, wrap};

/// Below this the rest is not worth a line.
const LEAST_SHARE: f64 = 0.01;
/// How many regions are told one by one, at most.
const REGIONS: usize = 6;

impl Scale {
    fn share(&self, place: &Place) -> f64 {
        super::ratio(place.on_span.as_secs_f64(), self.span.as_secs_f64())
    }

    /// All of it for a terminal of 80 columns.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for what in &self.supposed {
            wrap(&mut out, &format!("supposing {what}"));
        }
        wrap(&mut out, &(self.verdict() + "."));
        wrap(
            &mut out,
            &format!(
                "{} of work, of which {} must follow each other: at most {}.",
                time(self.work),
                time(self.span),
                times(self.bound())
            ),
        );
        let burden = super::ratio(self.work.as_secs_f64(), self.burdened.as_secs_f64());
        wrap(
            &mut out,
            &format!(
                "With hand-offs of {} counted in, {} follow each other: at most {}.",
                time(super::nanos(self.costs.steal)),
                time(self.burdened),
                times(burden)
            ),
        );
        for note in &self.notes {
            wrap(&mut out, &format!("Note: {note}."));
        }
        out.push_str("\nspeed-up over one processor, by processors\n");
        out.push_str(&self.plot());
        let mut legend = String::from("● expected  ░ from a greedy schedule's worst to the bound");
        for measured in &self.measured {
            let _ = write!(
                legend,
                "  ◆ measured: {} on {}",
                times(measured.speedup),
                measured.processors
            );
        }
        wrap(&mut out, &legend);
        out.push('\n');
        for (name, value) in [
            ("processors", None),
            ("expected", Some(0)),
            ("at least", Some(1)),
            ("at most", Some(2)),
        ] {
            let mut line = format!("{name:<11}");
            for point in &self.points {
                let _ = match value {
                    None => write!(line, "{:>6}", point.processors),
                    Some(which) => {
                        let speedup = [point.speedup, point.least, point.most][which];
                        write!(line, "{:>6}", figure(speedup))
                    }
                };
            }
            out.push_str(&line);
            out.push('\n');
        }
        if !self.places.is_empty() {
            let _ = writeln!(
                out,
                "\n{:<34} {:>10} {:>7} {:>10} {:>11}",
                "what the span hangs on", "on span", "", "work", "if split"
            );
        }
        for place in self.places.iter().filter(|place| self.share(place) >= LEAST_SHARE) {
            let _ = writeln!(
                out,
                "{:<34} {:>10} {:>5.0} % {:>10} {:>11}",
                short(&place.name, 34),
                time(place.on_span),
                self.share(place) * 100.0,
                time(place.work),
                times(place.without)
            );
        }
        self.tell_regions(&mut out);
        out
    }

    fn tell_regions(&self, out: &mut String) {
        if self.regions.len() < 2 {
            return;
        }
        let _ = writeln!(
            out,
            "\n{:<34} {:>10} {:>10} {:>10} {:>8}",
            "region", "took", "work", "span", "at most"
        );
        let mut shown: Vec<_> = self.regions.iter().collect();
        shown.sort_by_key(|region| std::cmp::Reverse(region.span));
        for region in shown.iter().take(REGIONS) {
            let bound = super::ratio(region.work.as_secs_f64(), region.span.as_secs_f64());
            let _ = writeln!(
                out,
                "{:<34} {:>10} {:>10} {:>10} {:>8}",
                short(&region.name, 34),
                time(region.took),
                time(region.work),
                time(region.span),
                times(bound)
            );
        }
        if shown.len() > REGIONS {
            let _ = writeln!(out, "  and {} shorter ones", shown.len() - REGIONS);
        }
    }
}

fn figure(value: f64) -> String {
    if value < 99.95 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// A speed-up as a reader is to see it.
pub(super) fn times(value: f64) -> String {
    match value {
        value if value < 9.95 => format!("{value:.1}x"),
        value if value < 99_999.0 => format!("{value:.0}x"),
        _ => ">99999x".into(),
    }
}
