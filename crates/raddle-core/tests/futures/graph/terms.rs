//! What steps and model have in common: outcomes, events, operations.

#[path = "../../graphs/results.rs"]
mod results;

pub(crate) use self::results::{How, Outcome, fold, mix, number};

/// What closures and handlers of interrupts leave behind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// The closure of this step was called with that.
    Called(usize, Outcome),
    /// The promise of this step heard that.
    Heard(usize, String),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Handle {
    pub(crate) node: usize,
    pub(crate) masked: bool,
}

/// An operation's closure: when it is called, and what it does.
#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub(crate) id: usize,
    pub(crate) on_value: bool,
    pub(crate) on_failure: bool,
    pub(crate) does: Does,
}

#[derive(Clone, Debug)]
pub(crate) enum Does {
    /// The result is another.
    Give(How),
    /// The result stays; the promise that the closure holds is set.
    Keep(Option<usize>),
    /// The result stays; the closure does not see it.
    Ensure,
    /// The result stays if the closure says so.
    Filter(How),
    /// Another failure.
    Refail(How),
    /// The result is that of the future that the closure holds.
    Become(Handle, How),
    /// As that, without a trace of the call.
    Fallback(Handle),
    /// The result is that of the first loser of the race.
    Rest,
    /// Never called, and not there as far as dropping it goes.
    Adapt,
}

pub(crate) const BROKEN: &str = "the promise was dropped without a value";
pub(crate) const CYCLE: &str = "the future waits for itself";
pub(crate) const KILLED: &str = "killed";
pub(crate) const EMPTY: &str = "there was nothing to choose from";
