//! Speed-ups as a picture of characters.

use super::Scale;

/// Columns between two powers of two of processors, and in front of the first.
const STEP: usize = 6;
const MARGIN: usize = 14;
/// How many powers of two of speed-up a line stands for, from what fills most lines on.
const POWERS: [f64; 4] = [0.5, 1.0, 2.0, 4.0];
const LINES: usize = 7;

impl Scale {
    /// The expected speed-up over the number of processors, both by powers of two: `●` what the simulation gives, `░` from
    /// what a greedy schedule reaches at least to what none exceeds, `◆` what was measured. At most 80 columns.
    #[inline]
    pub fn plot(&self) -> String {
        self.plot_within(LINES + 1)
    }

    /// The same in so many lines, or in four.
    #[allow(clippy::needless_range_loop, reason = "the column is also a place on the axis")]
    #[inline]
    pub(super) fn plot_within(&self, lines: usize) -> String {
        let best = self.points.iter().map(|point| point.most).fold(1.0, f64::max);
        let measured = self.measured.iter().map(|m| m.speedup).fold(1.0, f64::max);
        let powers = best.max(measured).log2().ceil().clamp(1.0, 10.0);
        let fits = |each: &&f64| (powers / **each).ceil() as usize + 2 <= lines.min(LINES + 1);
        let each = POWERS.iter().find(fits).copied().unwrap_or(POWERS[3]);
        let height = (powers / each).ceil() as usize + 1;
        let width = STEP * self.points.len().saturating_sub(1) + 1;
        let row = |speedup: f64| {
            let up = (speedup.max(1.0).log2() / each).round() as usize;
            height - 1 - up.min(height - 1)
        };
        let mut cells = vec![vec![' '; width]; height];
        for column in 0..width {
            let (left, part) = (column / STEP, (column % STEP) as f64 / STEP as f64);
            let Some(a) = self.points.get(left) else { continue };
            let b = self.points.get(left + 1).unwrap_or(a);
            let between = |a: f64, b: f64| (a.log2() * (1.0 - part) + b.log2() * part).exp2();
            let band = row(between(a.most, b.most))..=row(between(a.least, b.least));
            cells[band].iter_mut().for_each(|cells| cells[column] = '░');
            let dot = if column % STEP == 0 { '●' } else { '·' };
            cells[row(between(a.speedup, b.speedup))][column] = dot;
        }
        for measured in &self.measured {
            let column = (measured.processors.max(1) as f64).log2() * STEP as f64;
            if let Some(cell) = cells[row(measured.speedup)].get_mut(column.round() as usize) {
                *cell = '◆';
            }
        }
        let mut out = String::new();
        for (line, cells) in cells.iter().enumerate() {
            let up = height - 1 - line;
            let power = up as f64 * each;
            let label =
                if power.fract() == 0.0 { format!("{}x", power.exp2()) } else { String::new() };
            let cells: String = cells.iter().collect();
            out.push_str(format!("{label:>MARGIN$} ┤{cells}").trim_end());
            out.push('\n');
        }
        out.push_str("processors ");
        for point in &self.points {
            out.push_str(&format!("{:>STEP$}", point.processors));
        }
        out.push('\n');
        out
    }
}
