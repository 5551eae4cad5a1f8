//! The context of a task: what the code that runs now inherited.
//!
//! One word per worker, null outside tasks. A fork carries the word of the code that forked it; the
//! thief of a fork runs it under that word and puts its own back afterwards. Run in place, a fork
//! touches nothing. The frame that a word points to is on the stack of the task it belongs to,
//! which outlives all forks made within it.
//!
//! Today a frame names the running task, for [`killed`](crate::killed); scope locals will live in it.

use crate::spawn::claim::Claim;

/// What a context word points to.
#[derive(Debug)]
pub(crate) struct Frame {
    /// The claim word of the task.
    pub(crate) claim: *const Claim,
}

impl Frame {
    pub(crate) fn word(&self) -> usize {
        (self as *const Frame).expose_provenance()
    }

    /// The claim word of the task whose context is `word`, if any.
    ///
    /// # Safety
    ///
    /// `word` must be the current context of this thread: its frame lives.
    pub(crate) unsafe fn claim<'a>(word: usize) -> Option<&'a Claim> {
        let frame = std::ptr::with_exposed_provenance::<Frame>(word);
        // SAFETY: null, or alive (contract).
        let frame = unsafe { frame.as_ref() }?;
        // SAFETY: the task outlives its frame.
        unsafe { frame.claim.as_ref() }
    }
}
