//! Speed-ups as a picture of characters.

use super::Scale;

/// Columns between two powers of two of processors, and rows between two of speed-up.
const STEP: usize = 6;
const ROWS: usize = 2;

impl Scale {
    /// The expected speed-up over the number of processors, both by powers of two: `●` what the simulation gives, `░` from
    /// what a greedy schedule reaches at least to what none exceeds, `◆` what was measured. At most 80 columns.
    #[allow(clippy::needless_range_loop, reason = "the column is also a place on the axis")]
    pub fn plot(&self) -> String {
        let best = self.points.iter().map(|point| point.most).fold(1.0, f64::max);
        let measured = self.measured.iter().map(|m| m.speedup).fold(1.0, f64::max);
        let powers = (best.max(measured).log2().ceil().max(1.0) as usize).min(10);
        let (width, height) = (STEP * self.points.len().saturating_sub(1) + 1, ROWS * powers + 1);
        let row = |speedup: f64| {
            let up = (speedup.max(1.0).log2() * ROWS as f64).round() as usize;
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
            let label =
                if up % ROWS == 0 { format!("{}x", 1_u32 << (up / ROWS)) } else { String::new() };
            let cells: String = cells.iter().collect();
            out.push_str(format!("{label:>6} ┤{cells}").trim_end());
            out.push('\n');
        }
        let mut axis = String::new();
        for point in &self.points {
            axis.push_str(&format!("{:<STEP$}", point.processors));
        }
        out.push_str(&format!("        {}\n", axis.trim_end()));
        out
    }
}
