//! Queues whose oldest entry is taken first, by tasks that lie among others.
//!
//! What is spawned first in, first out puts its closure at the end of a queue, and a *token* where a task would go that is
//! spawned otherwise. Whoever runs the token takes the closure at the front of the queue.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Room for so many entries is kept by a queue that is empty.
const KEPT: usize = 1 << 16;

#[derive(Debug)]
pub(crate) struct Fifo<T>(Mutex<VecDeque<T>>);

impl<T> Default for Fifo<T> {
    fn default() -> Fifo<T> {
        Fifo(Mutex::default())
    }
}

impl<T> Fifo<T> {
    /// Before its token is spawned.
    pub(crate) fn push(&self, entry: T) {
        self.queue().push_back(entry);
    }

    /// By a token.
    pub(crate) fn pop(&self) -> T {
        let mut queue = self.queue();
        let entry = queue.pop_front().expect("there are as many entries as tokens");
        if queue.is_empty() && queue.capacity() > KEPT {
            *queue = VecDeque::new();
        }
        entry
    }

    fn queue(&self) -> std::sync::MutexGuard<'_, VecDeque<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
