//! raddle's futures.

use raddle::Future;

use super::{ONE, Repeat, repeat_make};

pub(super) fn operation(name: &str) -> Option<Repeat> {
    Some(match name {
        "value" => repeat_make!(Future::ready(ONE)),
        _ => return None,
    })
}
