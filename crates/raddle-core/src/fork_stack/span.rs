//! The word that says which jobs are public, and how many are stolen.

/// Bits of a slot's index in `span`; the rest of the 64 bits are the version, of which there are 2^28: a thief would have to be held up, at the
/// very word, for as many slow paths of the owner, seconds at their fastest, and to find tail and split as they were.
pub(super) const INDEX_BITS: u32 = if cfg!(raddle_shuttle) { 8 } else { 18 };

/// Version, tail and split in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) version: u64,
    pub(super) tail: usize,
    pub(super) split: usize,
}

impl Span {
    pub(super) fn unpack(word: u64) -> Span {
        let mask = (1 << INDEX_BITS) - 1;
        Span {
            version: word >> (2 * INDEX_BITS),
            tail: ((word >> INDEX_BITS) & mask) as usize,
            split: (word & mask) as usize,
        }
    }

    pub(super) fn pack(self) -> u64 {
        (self.version << (2 * INDEX_BITS)) | ((self.tail as u64) << INDEX_BITS) | self.split as u64
    }
}
