//! Threads of pools, and who starts them.

use std::cell::Cell;
use std::env;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::thread;

use raddle_core::compat::Seat;

/// A thread that a pool asks for: see [`spawn_handler`](crate::ThreadPoolBuilder::spawn_handler).
pub struct ThreadBuilder {
    pub(crate) name: Option<String>,
    pub(crate) stack_size: Option<usize>,
    pub(crate) seat: Seat,
    /// `Send` and not `Sync`, as in the original.
    pub(crate) _marker: PhantomData<Cell<()>>,
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

    /// For the standard library to start.
    pub(crate) fn of_std(&self) -> thread::Builder {
        let builder = thread::Builder::new().stack_size(stack_for(self.stack_size));
        match &self.name {
            Some(name) => builder.name(name.clone()),
            None => builder,
        }
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
        thread.of_std().spawn(|| thread.run()).map(drop)
    }
}

/// The standard library's stacks have so many bytes.
const USUAL: usize = 2 << 20;
/// By so much a stack is larger at most than was asked for.
const MOST_MORE: usize = 64 << 20;

/// How much whoever asks for so much gets: between a scope and its tasks raddle's frames take up to four times as much as rayon's, and
/// what recurses there is not to overflow here. (They are addresses, and memory only once they are used.)
pub(crate) fn stack_for(asked: Option<usize>) -> usize {
    let usual = || env::var("RUST_MIN_STACK").ok()?.parse().ok();
    let size = asked.or_else(usual).unwrap_or(USUAL);
    size.saturating_add(size.saturating_mul(3).min(MOST_MORE))
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
