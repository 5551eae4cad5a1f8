//! Maps by numbers that come from a file: of millions of tasks.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

/// A map that is fast by a number or two, and of which nobody who makes a file knows what collides in it.
pub(crate) type NumberMap<K, V> = HashMap<K, V, Seeded>;

/// Begins each hash with a number of the map's own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seeded(u64);

impl Default for Seeded {
    #[inline]
    fn default() -> Seeded {
        Seeded(RandomState::new().hash_one(0_u8))
    }
}

impl BuildHasher for Seeded {
    type Hasher = Folded;

    #[inline]
    fn build_hasher(&self) -> Folded {
        Folded(self.0)
    }
}

/// A hash in the making: each number is multiplied in, and the halves of the product are put together, as in `foldhash`.
#[derive(Debug)]
pub(crate) struct Folded(u64);

/// Pi's digits, and odd.
const FACTOR: u64 = 0x243F_6A88_85A3_08D3;

impl Hasher for Folded {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number) * u128::from(FACTOR);
        self.0 = (product as u64 ^ (product >> 64) as u64).rotate_left(23);
    }

    #[inline]
    fn write_u16(&mut self, number: u16) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Addresses, as tasks' numbers are made of, spread over all of a table, by their low bits and by their high ones.
    #[test]
    fn numbers_in_steps_are_spread() {
        for step in [1_u32, 4, 64, 4096, 1 << 16] {
            let map = Seeded::default();
            let (mut low, mut high) = (vec![0; 256], vec![0; 128]);
            for n in 0..25_600_u32 {
                let hash = map.hash_one((1_u8, n.wrapping_mul(step)));
                low[hash as usize % 256] += 1;
                high[(hash >> 57) as usize] += 1;
            }
            assert!(low.iter().all(|&n| (40..180).contains(&n)), "{step}: {low:?}");
            assert!(high.iter().all(|&n| (100..320).contains(&n)), "{step}: {high:?}");
        }
    }
}
