//! How many letters must be changed, put in or left out to make one text of another: a recursion that remembers. The table of
//! distances is cut into tiles. Each asks for its neighbours above and to the left, and is asked for by two itself, but computed
//! once, by whichever thread is free: that is what `Shared` is for.
//!
//! `cargo run --release -p raddle --example edit_distance`

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use raddle::{Failure, Future, Shared, spawn};

/// Letters along the side of a tile.
const SIDE: usize = 250;

pub(crate) type Texts = Arc<(Vec<u8>, Vec<u8>)>;

/// Distances along the lower and the right side of a tile, corners included.
pub(crate) struct Sides {
    pub(crate) lower: Vec<usize>,
    right: Vec<usize>,
}

/// One tile: the letters beside and above it, and the distances along those sides.
pub(crate) fn tile(a: &[u8], b: &[u8], left: &[usize], above: &[usize]) -> Sides {
    let mut row = above.to_vec();
    let mut right = vec![row[b.len()]];
    for (x, left) in a.iter().zip(&left[1..]) {
        let mut corner = std::mem::replace(&mut row[0], *left);
        for (j, y) in b.iter().enumerate() {
            let best = (corner + usize::from(x != y)).min(row[j].min(row[j + 1]) + 1);
            corner = std::mem::replace(&mut row[j + 1], best);
        }
        right.push(row[b.len()]);
    }
    Sides { lower: row, right }
}

/// What has been asked for, by row and column from 1.
pub(crate) struct Memo {
    texts: Texts,
    tiles: HashMap<(usize, usize), Shared<Arc<Sides>>>,
    pub(crate) computed: Arc<AtomicUsize>,
}

impl Memo {
    pub(crate) fn new(texts: Texts) -> Memo {
        Memo { texts, tiles: HashMap::new(), computed: Arc::default() }
    }

    fn sides(&mut self, row: usize, column: usize) -> Future<Arc<Sides>> {
        let (a, b) = (part(row, self.texts.0.len()), part(column, self.texts.1.len()));
        if row == 0 || column == 0 {
            // From nothing it takes as many letters as there are.
            let (lower, right) = ((b.start..=b.end).collect(), (a.start..=a.end).collect());
            return Future::ready(Arc::new(Sides { lower, right }));
        }
        if let Some(known) = self.tiles.get(&(row, column)) {
            return known.future();
        }
        let (left, above) = (self.sides(row, column - 1), self.sides(row - 1, column));
        let (texts, computed) = (Arc::clone(&self.texts), Arc::clone(&self.computed));
        let sides = left.zip(above).flat_map(|(left, above)| {
            spawn(move || {
                computed.fetch_add(1, Relaxed);
                Arc::new(tile(&texts.0[a], &texts.1[b], &left.right, &above.lower))
            })
        });
        let sides = sides.shared();
        self.tiles.insert((row, column), sides.clone());
        sides.future()
    }

    /// The number in the last corner.
    pub(crate) fn distance(&mut self) -> Future<usize> {
        let tiles = |letters: usize| letters.div_ceil(SIDE);
        let last = self.sides(tiles(self.texts.0.len()), tiles(self.texts.1.len()));
        last.map(|sides| sides.lower[sides.lower.len() - 1])
    }
}

/// The letters of a row or column of tiles; the one before the first has none.
fn part(index: usize, letters: usize) -> std::ops::Range<usize> {
    let end = letters.min(index * SIDE);
    end.min(index.saturating_sub(1) * SIDE)..end
}

/// A text of four letters, and the same with every tenth one left out and every seventh changed.
pub(crate) fn texts(length: u64) -> Texts {
    let letter = |i: u64| b"acgt"[(i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 60) as usize & 3];
    let kept = (0..length).filter(|i| i % 10 != 9);
    let changed = kept.map(|i| if i % 7 == 6 { b'x' } else { letter(i) });
    Arc::new(((0..length).map(letter).collect(), changed.collect()))
}

fn main() -> Result<(), Failure> {
    let mut memo = Memo::new(texts(2_000));
    let distance = memo.distance().wait()?;
    println!("{distance} changes, found in {} tiles", memo.computed.load(Relaxed));
    Ok(())
}
