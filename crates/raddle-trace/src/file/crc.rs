//! The checksum of chunks: CRC-32 as in zip, PNG and Ethernet, sixteen bytes at a step.

/// The polynomial, its bits reversed.
const POLYNOMIAL: u32 = 0xedb8_8320;

const STEP: usize = 16;

/// `TABLES[n][b]` is the remainder of the byte `b` followed by `n` bytes of zero.
static TABLES: [[u32; 256]; STEP] = tables();

const fn tables() -> [[u32; 256]; STEP] {
    let mut tables = [[0; 256]; STEP];
    let mut byte = 0;
    while byte < 256 {
        let mut rest = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            rest = if rest & 1 == 1 { (rest >> 1) ^ POLYNOMIAL } else { rest >> 1 };
            bit += 1;
        }
        tables[0][byte] = rest;
        byte += 1;
    }
    let mut table = 1;
    while table < STEP {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// The checksum of some pieces, one after the other.
pub(super) fn crc32(pieces: &[&[u8]]) -> u32 {
    !pieces.iter().fold(!0, |rest, piece| add(rest, piece))
}

fn add(mut rest: u32, bytes: &[u8]) -> u32 {
    let mut steps = bytes.chunks_exact(STEP);
    for step in &mut steps {
        let Some(step) = step.first_chunk::<STEP>() else {
            unreachable!("chunks of sixteen bytes")
        };
        let first = u128::from_le_bytes(*step) ^ u128::from(rest);
        let first = first.to_le_bytes();
        rest = (0..STEP).fold(0, |rest, n| rest ^ TABLES[STEP - 1 - n][usize::from(first[n])]);
    }
    let last = steps.remainder();
    for byte in last {
        rest = (rest >> 8) ^ TABLES[0][usize::from(rest as u8 ^ byte)];
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bit by bit, as the definition says.
    fn slowly(bytes: &[u8]) -> u32 {
        let mut rest = !0_u32;
        for byte in bytes {
            rest ^= u32::from(*byte);
            for _ in 0..8 {
                rest = (rest >> 1) ^ if rest & 1 == 1 { POLYNOMIAL } else { 0 };
            }
        }
        !rest
    }

    #[test]
    fn it_is_the_usual_one() {
        assert_eq!(crc32(&[b"123456789"]), 0xcbf4_3926);
        assert_eq!(crc32(&[]), 0);
    }

    #[test]
    fn pieces_of_any_length_are_one() {
        let bytes: Vec<u8> =
            (0..100_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for length in 0..bytes.len() {
            let whole = &bytes[..length];
            assert_eq!(crc32(&[whole]), slowly(whole), "{length}");
            let (left, right) = whole.split_at(length / 3);
            assert_eq!(crc32(&[left, right]), slowly(whole), "{length}");
        }
    }
}
