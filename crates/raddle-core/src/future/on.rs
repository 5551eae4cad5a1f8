//! [`Future::on`]: continuations on a pool.

use std::sync::{Arc, Weak};

use raddle_sync::sync::Mutex;

use crate::future::failure::Failure;
use crate::future::handle::{Future, Now};
use crate::future::interrupt_node::Interrupts;
use crate::future::promise::{Pledge, Promise};
use crate::future::upstream::{Inputs, Visitor};
use crate::future::watch::{Watch, Watched};
use crate::panics::discard;
use crate::pool::Pool;

impl<T: Send + 'static> Future<T> {
    /// The same future, except that what follows runs on the pool: closures of operations on it, and their
    /// continuations, are called by one of the pool's workers.
    ///
    /// For continuations that take long, or want locks that whoever completes the future may hold. Interrupts pass. Where
    /// the pool has gone, what follows runs on the thread that completes; an operation on a future that has
    /// arrived there runs at once, as always. What brings it there is no spawned future: hooks of the pool
    /// ([`before_start`](crate::PoolBuilder::before_start)) do not hear of it. A task of the pool, and a few allocations more.
    ///
    /// ```
    /// use raddle::{Pool, Promise};
    ///
    /// let pool = Pool::builder().threads(1).thread_name(|_| "weaver".into()).build()?;
    /// let (promise, future) = Promise::new();
    /// let (sender, name) = std::sync::mpsc::channel();
    /// let sent = future.on(&pool).map(move |()| {
    ///     sender.send(std::thread::current().name().map(str::to_owned))
    /// });
    /// promise.set(());
    /// assert_eq!(name.recv()?.as_deref(), Some("weaver"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "via")]
    #[doc(alias = "thenApplyAsync")]
    pub fn on(self, pool: &Pool) -> Future<T> {
        let home = pool.registry().gate.home();
        let source = Arc::new(Source(Mutex::new(None)));
        let inputs: Weak<dyn Inputs> = Arc::<Source>::downgrade(&source);
        // Completed by the task, so that what follows runs there.
        let (promise, moved) = Promise::with_hearing(Interrupts::with_inputs(inputs));
        let (kept, pledge) = (Arc::clone(&source), Pledge::of(promise));
        let left = self.adapt(move |result| {
            drop(kept);
            let moves = Moves(Some((pledge.promise(), result)));
            match home.spawn(move || moves.arrive(), false) {
                Ok(task) => drop(task),
                Err(gone) => gone(),
            }
            Ok(())
        });
        if let Now::Pending(left) = left.now() {
            let mut place = source.0.lock();
            *place = Watched::new(left, source.clone(), 0).ok();
        }
        moved
    }
}

/// A result on its way: if the task that brings it is killed, then so is the future.
struct Moves<T: Send + 'static>(Option<(Promise<T>, Result<T, Failure>)>);

impl<T: Send + 'static> Moves<T> {
    fn arrive(mut self) {
        if let Some((promise, result)) = self.0.take() {
            promise.complete(result);
        }
    }
}

impl<T: Send + 'static> Drop for Moves<T> {
    fn drop(&mut self) {
        if let Some((promise, result)) = self.0.take() {
            discard(result);
            promise.complete(Err(Failure::killed()));
        }
    }
}

/// What the future was before, for interrupts. It keeps itself until it is done.
struct Source(Mutex<Option<Watched<()>>>);

impl Watch for Source {
    fn told(self: Arc<Self>, _: usize) {
        let over = self.0.lock().take();
        drop(over);
    }
}

impl Inputs for Source {
    fn visit(&self, _: usize, visitor: &mut Visitor) {
        if let Some(watched) = &*self.0.lock() {
            watched.pending().visit(visitor);
        }
    }

    fn abandoned(&self, _: usize) {
        let over = self.0.lock().take();
        drop(over);
    }
}
