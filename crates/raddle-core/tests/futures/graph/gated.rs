//! Async futures that wait for what is no future of the graph.
//!
//! A pool has them, whose one thread does nothing else. Each step waits for that thread, so that all is as if there were none.

use std::sync::LazyLock;
use std::time::Duration;

use raddle_core::Pool;
use tokio::sync::oneshot;

use super::model::Model;
use super::steps::Closure;
use super::terms::{Event, Handle, How};
use super::{Made, World};

static POOL: LazyLock<Pool> = LazyLock::new(|| Pool::new(1).unwrap());

/// Nothing here takes as long.
const LONG: Duration = Duration::from_secs(60);

/// What an async future waits for, and who that is.
pub(super) struct Gate {
    open: oneshot::Sender<()>,
    id: usize,
    how: How,
    node: usize,
}

/// Blocks until the pool's thread has done all that it was asked for.
fn settle() {
    // Whoever waits without a limit would run this instead.
    assert!(POOL.spawn(|| ()).wait_timeout(LONG).is_ok(), "the pool hangs");
}

impl Gate {
    pub(super) fn close(model: &mut Model, f: Closure) -> (Gate, Made) {
        let (open, opened) = oneshot::channel();
        let (id, how) = (f.id, f.how);
        let future = POOL.spawn_async(async move {
            opened.await.expect("all gates are opened");
            f.call(Ok(0))
        });
        settle();
        (Gate { open, id, how, node: model.asynchronous() }, future.lower())
    }

    pub(super) fn handle(&self) -> Handle {
        Handle { node: self.node, masked: false }
    }

    /// The async future goes on, or has gone.
    pub(super) fn open(self, world: &mut World) {
        let waits = world.model.outcome(self.handle()).is_none();
        assert_eq!(self.open.send(()).is_ok(), waits, "the async future of {} is there", self.id);
        settle();
        if waits {
            world.model.log.push(Event::Called(self.id, Ok(0)));
            world.model.complete(self.node, self.how.give(self.id, 0));
        }
    }
}
