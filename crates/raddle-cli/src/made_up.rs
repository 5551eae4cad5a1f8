//! Data for those who bring none: made up, and the same on every machine.

use image::RgbImage;

use crate::points::Points;

/// SplitMix64: small, fast, and equal everywhere.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Evenly spread over `0.0..1.0`.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Evenly spread over `0..end`, as nearly as matters here.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }
}

/// Points scattered about a few centres that overlap a little, and the centre each belongs to.
pub(crate) fn clusters(rows: usize, width: usize, centres: usize) -> (Points, Vec<u32>) {
    let mut random = Random::new(42);
    let middles: Vec<f64> = (0..centres * width).map(|_| random.unit() * 10.0).collect();
    let mut values = Vec::with_capacity(rows * width);
    let mut labels = Vec::with_capacity(rows);
    for _ in 0..rows {
        let centre = random.below(centres);
        labels.push(centre as u32);
        for middle in &middles[centre * width..][..width] {
            // The sum of four even spreads is close enough to a bell.
            let spread: f64 = (0..4).map(|_| random.unit() - 0.5).sum();
            values.push(middle + spread * 6.0);
        }
    }
    (Points::new(values, width), labels)
}

/// A picture of soft discs before a sky.
pub(crate) fn picture(width: u32, height: u32) -> RgbImage {
    let mut random = Random::new(7);
    let discs: Vec<[f64; 6]> = (0..24).map(|_| std::array::from_fn(|_| random.unit())).collect();
    RgbImage::from_fn(width, height, |x, y| {
        let (x, y) = (f64::from(x) / f64::from(width), f64::from(y) / f64::from(height));
        let mut colour = [0.35 + 0.3 * y, 0.55 + 0.3 * y, 0.95 - 0.2 * x];
        for [cx, cy, size, red, green, blue] in &discs {
            let radius = 0.03 + 0.12 * size;
            let distance = ((x - cx) * (x - cx) + (y - cy) * (y - cy)) / (radius * radius);
            if distance < 1.0 {
                let shade = 1.0 - 0.6 * distance;
                colour = [red * shade, green * shade, blue * shade];
            }
        }
        image::Rgb(colour.map(|c| (c * 255.0).round() as u8))
    })
}

/// Lines of up to `longest` letters, each ended by a newline.
pub(crate) fn lines(count: usize, longest: usize) -> Vec<u8> {
    let mut random = Random::new(3);
    let mut text = Vec::with_capacity(count * (longest / 2 + 1));
    for _ in 0..count {
        let length = random.below(longest + 1);
        text.extend((0..length).map(|_| b'a' + random.below(26) as u8));
        text.push(b'\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_splitmix64() {
        // The first values of the published reference implementation for seed 1234567.
        let mut random = Random::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.next()).collect();
        assert_eq!(
            first,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn what_is_made_up_has_the_size_asked_for() {
        let (points, labels) = clusters(50, 3, 4);
        assert_eq!((points.len(), points.width(), labels.len()), (50, 3, 50));
        assert!(labels.iter().all(|&label| label < 4));
        assert_eq!(picture(9, 5).dimensions(), (9, 5));
        assert_eq!(lines(20, 5).iter().filter(|&&byte| byte == b'\n').count(), 20);
    }
}
