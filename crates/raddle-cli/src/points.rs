//! Points in space, one per row, and the distances between them.

/// Points of equal width, row after row.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Points {
    values: Vec<f64>,
    width: usize,
}

impl Points {
    /// `width` is at least one and divides the number of values.
    pub(crate) fn new(values: Vec<f64>, width: usize) -> Points {
        assert!(width > 0 && values.len() % width == 0, "rows of {width} values");
        Points { values, width }
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len() / self.width
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.width..][..self.width]
    }

    pub(crate) fn rows(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        self.values.chunks_exact(self.width)
    }

    pub(crate) fn rows_mut(&mut self) -> impl ExactSizeIterator<Item = &mut [f64]> {
        self.values.chunks_exact_mut(self.width)
    }

    pub(crate) fn values(&self) -> &[f64] {
        &self.values
    }
}

/// The sum of the squared differences, added in the order of the columns.
pub(crate) fn squared_distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

/// How many points are compared with one at a time.
pub(crate) const LANES: usize = 8;

/// Points stored so that one can be compared with eight of them at a time.
///
/// A panel holds the first column of eight points, then their second, and so on. The compiler turns
/// the eight sums into vector instructions, while each of them is still added in the order of the
/// columns: the distances are those of [`squared_distance`], to the bit. The last panel is filled
/// up with points at infinity, which are nearest to nothing.
#[derive(Debug)]
pub(crate) struct Panels {
    values: Vec<f64>,
    panel: usize,
}

impl Panels {
    pub(crate) fn new(points: &Points) -> Panels {
        let panel = points.width() * LANES;
        let mut values = vec![f64::INFINITY; points.len().div_ceil(LANES) * panel];
        for (index, row) in points.rows().enumerate() {
            let first = index / LANES * panel + index % LANES;
            for (value, slot) in row.iter().zip(values[first..].iter_mut().step_by(LANES)) {
                *slot = *value;
            }
        }
        Panels { values, panel }
    }

    /// Each panel with the index of its first point.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &[f64])> {
        (0..).step_by(LANES).zip(self.values.chunks_exact(self.panel))
    }

    /// The nearest point, the lower of two that are equally near, and its squared distance.
    pub(crate) fn nearest(&self, point: &[f64]) -> (usize, f64) {
        let mut nearest = (0, f64::INFINITY);
        for (first, panel) in self.iter() {
            for (index, distance) in (first..).zip(distances(point, panel)) {
                if distance < nearest.1 {
                    nearest = (index, distance);
                }
            }
        }
        nearest
    }
}

/// The squared distances of a point to the eight of a panel.
pub(crate) fn distances(point: &[f64], panel: &[f64]) -> [f64; LANES] {
    let mut sums = [0.0; LANES];
    for (x, column) in point.iter().zip(panel.chunks_exact(LANES)) {
        for (sum, y) in sums.iter_mut().zip(column) {
            *sum += (x - y) * (x - y);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::Random;

    #[test]
    fn panels_give_the_plain_distances_to_the_bit() {
        let mut random = Random::new(1);
        for (len, width) in [(1, 1), (7, 3), (8, 5), (19, 13)] {
            let points = Points::new((0..len * width).map(|_| random.unit()).collect(), width);
            let panels = Panels::new(&points);
            for row in points.rows() {
                let found: Vec<f64> = panels.iter().flat_map(|(_, p)| distances(row, p)).collect();
                for (other, found) in points.rows().zip(&found) {
                    assert_eq!(found.to_bits(), squared_distance(row, other).to_bits());
                }
                assert!(found[len..].iter().all(|d| d.is_infinite()));
            }
        }
    }

    #[test]
    fn of_two_equally_near_the_lower_wins() {
        let panels = Panels::new(&Points::new(vec![5.0, 1.0, 3.0, 1.0, 3.0], 1));
        assert_eq!(panels.nearest(&[2.0]), (1, 1.0));
        assert_eq!(panels.nearest(&[3.5]), (2, 0.25));
    }
}
