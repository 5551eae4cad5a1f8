//! [`Future::on`]: continuations on a pool.

use crate::future::handle::Future;
use crate::pool::Pool;

impl<T: Send + 'static> Future<T> {
    /// The same future, except that what follows runs on the pool: closures of operations on it, and their
    /// continuations, are called by one of the pool's workers.
    ///
    /// For continuations that take long, or want locks that who completes the future may hold. Interrupts pass. Where
    /// the pool has gone, what follows runs on the thread that completes. A task of the pool, and an allocation or two more.
    ///
    /// ```
    /// use raddle_core::{Pool, Promise};
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
        let home = pool.shared().gate.home();
        self.transform(move |result| match home.spawn(move || result) {
            // Nobody's but this operation's: an interrupt is not to keep it from being run.
            Ok(future) => future.masked().lower(),
            Err(gone) => Future::from(gone()),
        })
    }
}
