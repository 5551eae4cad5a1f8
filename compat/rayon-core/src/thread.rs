//! Threads of pools, and who starts them.

use std::fmt;
use std::io;
use std::thread;

use raddle_core::compat::Seat;

/// A thread that a pool asks for: see [`spawn_handler`](crate::ThreadPoolBuilder::spawn_handler).
pub struct ThreadBuilder {
    pub(crate) name: Option<String>,
    pub(crate) stack_size: Option<usize>,
    pub(crate) seat: Seat,
}

impl ThreadBuilder {
    /// Which thread of the pool it is: below the number of its threads.
    pub fn index(&self) -> usize {
        self.seat.index()
    }

    /// The name that the builder gave it.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The size of its stack that the builder asked for.
    pub fn stack_size(&self) -> Option<usize> {
        self.stack_size
    }

    /// Works for the pool on the calling thread, and returns when the pool has ended. It may be called at any later
    /// time: until then the other threads do its part.
    ///
    /// # Panics
    ///
    /// If the thread works in a pool already.
    pub fn run(self) {
        self.seat.run();
    }
}

impl fmt::Debug for ThreadBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadBuilder")
            .field("index", &self.index())
            .field("name", &self.name)
            .field("stack_size", &self.stack_size)
            .finish_non_exhaustive()
    }
}

/// Who starts a pool's threads. Nobody outside can name it.
pub trait ThreadSpawn {
    #[doc(hidden)]
    fn spawn(&mut self, thread: ThreadBuilder) -> io::Result<()>;
}

/// The standard library.
#[derive(Debug, Default)]
pub struct DefaultSpawn;

impl ThreadSpawn for DefaultSpawn {
    fn spawn(&mut self, thread: ThreadBuilder) -> io::Result<()> {
        let mut builder = thread::Builder::new();
        if let Some(name) = thread.name() {
            builder = builder.name(name.to_owned());
        }
        if let Some(size) = thread.stack_size() {
            builder = builder.stack_size(size);
        }
        builder.spawn(|| thread.run()).map(drop)
    }
}

/// The user's function.
#[derive(Debug)]
pub struct CustomSpawn<F>(pub(crate) F);

impl<F> ThreadSpawn for CustomSpawn<F>
where
    F: FnMut(ThreadBuilder) -> io::Result<()>,
{
    fn spawn(&mut self, thread: ThreadBuilder) -> io::Result<()> {
        (self.0)(thread)
    }
}
