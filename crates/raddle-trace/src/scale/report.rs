//! What scales, in words.

use std::fmt::Write as _;

use super::{Place, Point, Scale};
use crate::summary::{counted, short, time, wrap};

/// Below this the rest is not worth a line.
const LEAST_SHARE: f64 = 0.01;
/// So much room there is.
const COLUMNS: usize = 80;
const LINES: usize = 23;
/// Of that: for what follows the plot, with a place or two.
const AROUND: usize = 7;
/// And for regions, where there are several.
const REGIONS: usize = 3;
/// How many measured runs the legend has, at most.
const MEASURED: usize = 3;

impl Scale {
    #[inline]
    fn share(&self, place: &Place) -> f64 {
        super::ratio(place.on_span.as_secs_f64(), self.span.as_secs_f64())
    }

    /// All of it for a terminal of 80 columns and 24 lines, the last of which is the prompt's.
    #[inline]
    pub fn text(&self) -> String {
        let mut out = String::new();
        if !self.supposed.is_empty() {
            let all: Vec<String> = self.supposed.iter().map(ToString::to_string).collect();
            let _ = writeln!(out, "{}", short(&format!("Supposing {}", all.join(", ")), COLUMNS));
        }
        wrap(&mut out, &(self.verdict() + "."));
        wrap(
            &mut out,
            &format!(
                "{} of work, of which {} must follow each other: at most {}; with hand-offs of {}{}, {}: at most {}.",
                time(self.work),
                time(self.span),
                times(self.bound()),
                time(super::nanos(self.costs.steal)),
                if self.steal_is_assumed { " (assumed)" } else { "" },
                time(self.burdened),
                times(super::ratio(self.work.as_secs_f64(), self.burdened.as_secs_f64()))
            ),
        );
        for note in &self.notes {
            wrap(&mut out, &format!("Note: {note}."));
        }
        let mut legend = String::from("● expected  ░ greedy to at most");
        for measured in self.measured.iter().take(MEASURED) {
            let (speedup, processors) = (times(measured.speedup), measured.processors);
            let _ = write!(legend, "  ◆ {speedup} measured on {processors}");
        }
        wrap(&mut out, &legend);
        out.push_str(&self.plot_within(LINES.saturating_sub(lines(&out) + AROUND)));
        for (name, value) in [
            ("expected", (|point: &Point| point.speedup) as fn(&Point) -> f64),
            ("greedy", |point| point.least),
            ("at most", |point| point.most),
        ] {
            let of = |point| format!("{:>6}", figure(value(point)));
            let _ = writeln!(out, "{name:<11}{}", self.points.iter().map(of).collect::<String>());
        }
        self.tell_places(&mut out);
        self.tell_regions(&mut out);
        out
    }

    #[inline]
    fn tell_places(&self, out: &mut String) {
        let told: Vec<&Place> =
            self.places.iter().filter(|place| self.share(place) >= LEAST_SHARE).collect();
        if told.is_empty() {
            return;
        }
        let left = (LINES - 1).saturating_sub(lines(out));
        let room = if self.regions.len() > 1 { left.saturating_sub(REGIONS) } else { left };
        let _ = writeln!(
            out,
            "{:<34} {:>10} {:>7} {:>10} {:>11}",
            "what the span hangs on", "on span", "", "work", "if split"
        );
        for place in told.iter().take(room.max(1)) {
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
    }

    #[inline]
    fn tell_regions(&self, out: &mut String) {
        let room = LINES.saturating_sub(lines(out) + 1);
        if self.regions.len() < 2 || room == 0 {
            return;
        }
        let title = match self.regions.len().saturating_sub(room) {
            0 => "region".into(),
            more => format!("region (and {})", counted(more, "shorter one")),
        };
        let _ = writeln!(
            out,
            "{title:<33} {:>8} {:>8} {:>8} {:>11} {:>7}",
            "took", "work", "span", "+ hand-offs", "at most"
        );
        let mut shown: Vec<_> = self.regions.iter().collect();
        shown.sort_by_key(|region| std::cmp::Reverse(region.span));
        for region in shown.iter().take(room) {
            let bound = super::ratio(region.work.as_secs_f64(), region.span.as_secs_f64());
            let _ = writeln!(
                out,
                "{:<33} {:>8} {:>8} {:>8} {:>11} {:>7}",
                short(&region.name, 33),
                time(region.took),
                time(region.work),
                time(region.span),
                time(region.burdened),
                times(bound)
            );
        }
    }
}

#[inline]
fn lines(text: &str) -> usize {
    text.lines().count()
}

#[inline]
fn figure(value: f64) -> String {
    if value < 99.95 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// A speed-up as a reader is to see it.
#[inline]
pub(super) fn times(value: f64) -> String {
    match value {
        value if value < 9.95 => format!("{value:.1}x"),
        value if value < 99_999.0 => format!("{value:.0}x"),
        _ => ">99999x".into(),
    }
}
