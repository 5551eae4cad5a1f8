//! Seeds: of a plan's number and the path of spawns that leads to a task, and so the same under every plan.

use serde::{Deserialize, Serialize};

/// The seed of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seed([u64; 4]);

/// The finaliser of SplitMix64.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Seed {
    /// That of an environment.
    pub(crate) fn root(number: u64) -> Seed {
        Seed([1, 2, 3, 4]).child(number)
    }

    /// That of the `index`th task spawned under this one.
    pub(crate) fn child(self, index: u64) -> Seed {
        let mut words = self.0;
        for round in 0..4 {
            let mut carry = index.wrapping_add(round);
            for word in &mut words {
                *word = mix(word.wrapping_add(carry).wrapping_add(0x9e37_79b9_7f4a_7c15));
                carry = carry.rotate_left(23) ^ *word;
            }
        }
        Seed(words)
    }

    pub(crate) fn bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (to, word) in bytes.chunks_exact_mut(8).zip(self.0) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn paths_that_differ_have_seeds_that_differ() {
        let mut seen = HashSet::new();
        for number in 0..10 {
            let root = Seed::root(number);
            assert!(seen.insert(root.bytes()));
            for first in 0..30 {
                let child = root.child(first);
                assert!(seen.insert(child.bytes()));
                assert!((0..10).all(|second| seen.insert(child.child(second).bytes())));
            }
        }
    }

    #[test]
    fn half_of_the_bits_differ() {
        let root = Seed::root(7);
        for index in 0..200 {
            let (a, b) = (root.child(index).bytes(), root.child(index + 1).bytes());
            let differ: u32 = a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum();
            assert!((80..=176).contains(&differ), "{differ} of 256");
        }
    }

    #[test]
    fn seeds_are_what_they_were() {
        // Results that were made with a seed are to be made again with it by later versions.
        let bytes = Seed::root(1).child(2).bytes();
        assert_eq!(bytes[..8], [0x4f, 0x98, 0x72, 0x10, 0x47, 0x95, 0x19, 0x23]);
    }
}
