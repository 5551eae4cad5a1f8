//! What the parts cost that futures are made of.

use std::{
    hint::black_box,
    sync::atomic::{AtomicUsize, Ordering::AcqRel},
};

use super::{ONE, Repeat, repeat, repeat_make};

pub(super) fn operation(name: &str) -> Option<Repeat> {
    Some(match name {
        // The nodes of a promise and a map of it, which live at the same time.
        "createMap" => repeat_make!((Box::new([0_u64; 2]), Box::new([0_u64; 3]))),
        "newPromise" => repeat_make!(Box::new([0_u64; 2])),
        // One atomic read-modify-write.
        "mapSatisfied" => repeat!({
            let word = AtomicUsize::new(ONE as usize);
            black_box(&word).swap(0, AcqRel) as u64
        }),
        _ => return None,
    })
}
