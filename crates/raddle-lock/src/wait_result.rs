//! How a wait with a time limit ended.

/// Whether a wait ended because its time was over; what `wait_for` returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a wait that timed out was not notified"]
pub struct WaitResult {
    notified: bool,
}

impl WaitResult {
    pub(crate) fn new(notified: bool) -> WaitResult {
        WaitResult { notified }
    }

    /// True if the time was over before a notification came.
    pub fn timed_out(&self) -> bool {
        !self.notified
    }

    /// True if a notification came in time.
    pub fn notified(&self) -> bool {
        self.notified
    }
}
