//! The four bytes of a lock, as numbers.
//!
//! | tag, bits 31-30 | bits 29-26 | bits 25-16 | bits 15-0 | meaning |
//! |---|---|---|---|---|
//! | 0 | 0 | 0 | 0 | **free** |
//! | 0 | 0 | 0 | owner, not 0 | **thin**: held; how often is written down with the owner |
//! | 0 | bit 29, wanted (28) | 0 | owner, or 0 | **aside**: thin or free, and somebody waits; the entry is in a bucket |
//! | 1 | heat (29-28) | hash (27-0) | hash | **hashed**: free, with an identity hash |
//! | 2 | generation | index (25-0) | index | **fat**: see the entry |

/// Nobody holds the lock and it has no hash.
pub(crate) const FREE: u32 = 0;

/// The largest owner a thin lock can name.
pub(crate) const MAX_OWNER: u32 = 0xFFFF;

/// Nobody holds the lock, and its entry is aside.
pub(crate) const ASIDE: u32 = 1 << 29;
/// Beside `ASIDE` and an owner: it is to look at the entry when it releases.
pub(crate) const WANTED: u32 = 1 << 28;

const TAG: u32 = 3 << 30;
const HASHED: u32 = 1 << 30;
const FAT: u32 = 2 << 30;

const HASH: u32 = (1 << 28) - 1;
const HEAT: u32 = 1 << 28;
const MAX_HEAT: u32 = 3;

/// The index of a fat lock's entry.
pub(crate) const INDEX: u32 = (1 << 26) - 1;
/// One generation of an entry; states of entries have their generation in the same bits.
pub(crate) const GENERATION: u32 = 1 << 26;
/// All bits of a generation. None under models: there every entry used again is like the last.
pub(crate) const GENERATIONS: u32 = if cfg!(raddle_model) { 0 } else { 15 * GENERATION };

/// What a word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Free,
    Thin {
        owner: u32,
    },
    /// Held, or free, which is owner 0.
    Aside {
        owner: u32,
        wanted: bool,
    },
    Hashed,
    Fat,
}

#[inline]
pub(crate) fn view(word: u32) -> View {
    match word & TAG {
        0 if word == FREE => View::Free,
        0 if word & ASIDE != 0 => {
            View::Aside { owner: word & MAX_OWNER, wanted: word & WANTED != 0 }
        }
        0 => View::Thin { owner: word & MAX_OWNER },
        HASHED => View::Hashed,
        _ => View::Fat,
    }
}

/// The word of a lock whose entry is `index`, in the generation of `state`.
pub(crate) fn fat(index: u32, state: u32) -> u32 {
    FAT | (state & GENERATIONS) | index
}

#[inline]
pub(crate) fn is_fat(word: u32) -> bool {
    word & TAG == FAT
}

/// The word of a free lock with the hash made of the number `seed`.
pub(crate) fn hashed(seed: u32) -> u32 {
    HASHED | (seed & HASH)
}

/// The identity hash in a hashed word: 28 bits spread over 32, one to one.
pub(crate) fn identity(word: u32) -> u32 {
    // Multiplying by an odd number, and then folding the better upper bits into the lower ones, are
    // each a permutation of the numbers of 32 bits.
    let mixed = (word & HASH).wrapping_mul(0x9E37_79B9);
    mixed ^ (mixed >> 15)
}

/// A hashed word that has been locked once more.
pub(crate) fn hotter(word: u32) -> u32 {
    if is_hot(word) { word } else { word + HEAT }
}

/// Whether a hashed word has been locked so often that its lock had better stay fat.
pub(crate) fn is_hot(word: u32) -> bool {
    word & (MAX_HEAT * HEAT) == MAX_HEAT * HEAT
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn words_are_told_apart() {
        assert_eq!(view(FREE), View::Free);
        assert_eq!(view(7), View::Thin { owner: 7 });
        assert_eq!(view(MAX_OWNER), View::Thin { owner: 0xFFFF });
        assert_eq!(view(ASIDE), View::Aside { owner: 0, wanted: false });
        assert_eq!(view(ASIDE | WANTED | 7), View::Aside { owner: 7, wanted: true });
        assert_eq!(view(hashed(0)), View::Hashed);
        assert_eq!(view(hashed(u32::MAX)), View::Hashed);
        assert_eq!(view(fat(0, 0)), View::Fat);
        assert_eq!(view(fat(INDEX, u32::MAX)), View::Fat);
        assert_eq!(fat(5, u32::MAX) & INDEX, 5);
    }

    #[test]
    fn heat_rises_to_its_limit_and_leaves_the_hash_alone() {
        let mut word = hashed(0xFFF_FFFF);
        let identity_before = identity(word);
        for _ in 0..3 {
            assert!(!is_hot(word));
            word = hotter(word);
            assert_eq!((view(word), identity(word)), (View::Hashed, identity_before));
        }
        assert!(is_hot(word));
        assert_eq!(hotter(word), word);
    }

    #[test]
    fn identities_spread() {
        const MANY: u32 = if cfg!(miri) { 100 } else { 100_000 };
        let all: HashSet<u32> = (0..MANY).map(|n| identity(hashed(n))).collect();
        assert_eq!(all.len(), MANY as usize);
        let few = MANY.min(1_000);
        let buckets: HashSet<u32> = (0..few).map(|n| identity(hashed(n)) & 0xFFF).collect();
        assert!(buckets.len() as u32 > few / 5 * 4, "{} of 4096 buckets for {few}", buckets.len());
    }
}
