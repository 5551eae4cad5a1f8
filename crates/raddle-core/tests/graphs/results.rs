//! What random graphs of futures compute, on one thread and on several.

/// What a future ended with; a failure by its text.
pub(crate) type Outcome = Result<u64, String>;

/// How a closure returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Value,
    Fail,
    Panic,
}

impl How {
    /// What the closure of step `id` makes of `n`.
    pub(crate) fn give(self, id: usize, n: u64) -> Outcome {
        match self {
            How::Value => Ok(mix(id, n)),
            How::Fail => Err(format!("no {id}")),
            How::Panic => Err(format!("panicked: on purpose {id}")),
        }
    }
}

pub(crate) fn mix(id: usize, n: u64) -> u64 {
    n.wrapping_mul(31).wrapping_add(id as u64 + 1)
}

/// One number for several, in their order.
pub(crate) fn fold(values: impl IntoIterator<Item = u64>) -> u64 {
    values.into_iter().fold(7, |sum, n| mix(n as usize, sum))
}

/// A failure as a number, for closures that make values of them.
pub(crate) fn number(outcome: &Outcome) -> u64 {
    outcome.as_ref().map_or_else(|text| text.len() as u64, |n| *n)
}
