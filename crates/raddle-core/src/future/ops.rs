//! The operations on one future.

use std::error::Error;
use std::panic::{self, AssertUnwindSafe};

use crate::depth;
use crate::future::failure::{Failure, FailureKind};
use crate::future::handle::{Future, Repr};
use crate::future::op::{Adapt, Op, Or, aside, pass};
use crate::panics::{Apart, discard};

impl<T> Future<T> {
    /// A future that is done, with this value. Costs nothing.
    ///
    /// ```
    /// assert!(raddle::Future::ready(3).is_done());
    /// ```
    #[doc(alias = "value")]
    #[doc(alias = "successful")]
    #[doc(alias = "completedFuture")]
    #[inline]
    pub fn ready(value: T) -> Future<T> {
        Future(Repr::Ready(value))
    }

    /// A future that is done, without a value: with an error, a text, or a [`Failure`], which keeps its kind.
    ///
    /// ```
    /// use raddle::{FailureKind, Future};
    ///
    /// let future = Future::<u32>::failed(std::fmt::Error);
    /// assert_eq!(future.wait().unwrap_err().kind(), FailureKind::Error);
    /// ```
    #[doc(alias = "exception")]
    #[inline]
    pub fn failed(failure: impl Into<Box<dyn Error + Send + Sync>>) -> Future<T> {
        Future(Repr::Failed(Failure::new(failure)))
    }

    /// A future that is never done, unless it is [killed](Future::kill). One small allocation; what is made of it is never done
    /// either, and its closures are dropped at once. There is nothing behind it that could be interrupted.
    ///
    /// So it is with a future that *becomes* this one, by a closure that returns it or by a linked promise: the closures
    /// of what was made of it are dropped then, and when it is dropped nothing is left. (What is made of an
    /// [`interruptible`](Future::interruptible) one stays, also when it is dropped, since an interrupt would end it.)
    ///
    /// ```
    /// use std::time::Duration;
    /// use raddle::Future;
    ///
    /// assert!(Future::<u32>::never().wait_timeout(Duration::from_millis(1)).is_err());
    /// ```
    pub fn never() -> Future<T> {
        Future(Repr::Never(Box::default()))
    }

    /// A future that is done, with this result.
    ///
    /// ```
    /// let future = raddle::Future::from_result("7".parse::<u32>());
    /// assert_eq!(future.wait().unwrap(), 7);
    /// ```
    #[doc(alias = "const")]
    #[doc(alias = "fromTry")]
    #[inline]
    pub fn from_result<E: Into<Box<dyn Error + Send + Sync>>>(result: Result<T, E>) -> Future<T> {
        Future::from(result.map_err(Failure::new))
    }

    /// Calls `f` now, on this thread; a panic makes the future fail. To have a pool call it, see
    /// [`spawn`](crate::spawn()).
    ///
    /// ```
    /// use raddle::{FailureKind, Future};
    ///
    /// let future = Future::run(|| "x".parse::<u32>().unwrap());
    /// assert_eq!(future.wait().unwrap_err().kind(), FailureKind::Panicked);
    /// ```
    #[doc(alias = "apply")]
    pub fn run(f: impl FnOnce() -> T) -> Future<T> {
        Future::from(panic::catch_unwind(AssertUnwindSafe(f)).map_err(Failure::panicked))
    }
}

/// # Operations on one future
///
/// Each takes the future's place and returns a new one. What they have in common:
///
/// - On a future that is done the closure runs at once, on this thread, within the call, and nothing is allocated; nested very
///   deep it may be put off, see below. Otherwise it
///   runs on the thread that completes the future, before the completing call returns, with the scope locals of the
///   code that attached it; one allocation and one atomic read-modify-write now, none then.
/// - A panic in the closure makes the new future fail with `Panicked`; in those that are there for their effect
///   ([`on_success`](Future::on_success), [`on_failure`](Future::on_failure), [`on_complete`](Future::on_complete),
///   [`ensure`](Future::ensure)) it is reported by the panic hook and the result stays as it was.
/// - A failure passes by closures that ask for a value, which are dropped.
/// - Interrupts of the new future go to the old one.
/// - Dropping the new future does not keep the closure from running.
///
/// Nothing recurses: neither completing long chains, nor dropping them, nor closures that return futures made by
/// operations that return futures. When completions are nested deep (a continuation that completes a promise
/// whose continuation completes a promise .., so that they take some 256 KiB of stack, or less where there is not so much),
/// the next ones are put off until the outermost is over, or the thread waits for a future, a fork, a scope, or a lock or condition
/// of raddle's, or calls [`blocking`](crate::blocking()): then they are another thread's. A lock of others does not have them run.
/// What is put off has the scope locals that tasks inherit, not those that [`bind_ref`](crate::ScopeLocal::bind_ref) lends, and is part
/// of no task: [`killed`](crate::killed) is false there.
impl<T: Send + 'static> Future<T> {
    /// What `f` makes of the value.
    ///
    /// ```
    /// assert_eq!(raddle::Future::ready(20).map(|n| n + 1).wait().unwrap(), 21);
    /// ```
    #[doc(alias = "thenApply")]
    #[doc(alias = "then")]
    #[doc(alias = "lift")]
    #[inline]
    pub fn map<U: Send + 'static>(self, f: impl FnOnce(T) -> U + Send + 'static) -> Future<U> {
        self.then(Op(move |result| match result {
            Ok(value) => Ok(f(value)),
            Err(failure) => Err(pass(f, failure)),
        }))
    }

    /// What `f` makes of the value, if it can: an error makes the future fail.
    ///
    /// ```
    /// let future = raddle::Future::ready("12").and_then(|text| text.parse::<u32>());
    /// assert_eq!(future.wait().unwrap(), 12);
    /// ```
    #[doc(alias = "mapTry")]
    #[doc(alias = "thenTry")]
    #[inline]
    pub fn and_then<U, E>(self, f: impl FnOnce(T) -> Result<U, E> + Send + 'static) -> Future<U>
    where
        U: Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.then(Op(move |result| match result {
            Ok(value) => f(value).map_err(Failure::new),
            Err(failure) => Err(pass(f, failure)),
        }))
    }

    /// The future that `f` makes of the value.
    ///
    /// Interrupts go to this future until it is done, and to the one that `f` returned afterwards, also if they came
    /// before. If that one waits for this operation's own future, it fails with [`Cycle`](crate::FailureKind::Cycle). (It hangs if
    /// there are many operations between the two, or a join or a race, and neither a [`Shared`](crate::Shared) nor an interrupt
    /// that came before.)
    ///
    /// A recursion in tail position takes constant memory and stack:
    ///
    /// ```
    /// use raddle::Future;
    ///
    /// fn countdown(n: u32) -> Future<u32> {
    ///     if n == 0 { Future::ready(0) } else { Future::ready(n - 1).flat_map(countdown) }
    /// }
    /// assert_eq!(countdown(100_000).wait().unwrap(), 0);
    /// ```
    #[doc(alias = "bind")]
    #[doc(alias = "thenCompose")]
    #[doc(alias = "andThen")]
    #[inline]
    pub fn flat_map<U: Send + 'static>(
        self,
        f: impl FnOnce(T) -> Future<U> + Send + 'static,
    ) -> Future<U> {
        self.then_future(Op(move |result| match result {
            Ok(value) => f(value),
            Err(failure) => Future::failed(pass(f, failure)),
        }))
    }

    /// The value if `keep` says so, otherwise the failure `Empty`.
    ///
    /// ```
    /// use raddle::{FailureKind, Future};
    ///
    /// let even = |n: &u32| n % 2 == 0;
    /// assert_eq!(Future::ready(2).filter(even).wait().unwrap(), 2);
    /// assert_eq!(Future::ready(3).filter(even).wait().unwrap_err().kind(), FailureKind::Empty);
    /// ```
    #[doc(alias = "withFilter")]
    #[inline]
    pub fn filter(self, keep: impl FnOnce(&T) -> bool + Send + 'static) -> Future<T> {
        self.then(Op(move |result| match result {
            Ok(value) => {
                let mut value = Apart::new(value);
                match keep(value.get()) {
                    true => Ok(value.take()),
                    false => Err(Failure::plain(FailureKind::Empty)),
                }
            }
            Err(failure) => Err(pass(keep, failure)),
        }))
    }

    /// When it is done, without the value.
    ///
    /// ```
    /// let (): () = raddle::Future::ready(3).unit().wait().unwrap();
    /// ```
    #[doc(alias = "voided")]
    #[doc(alias = "void")]
    #[doc(alias = "thenReturn")]
    #[inline]
    pub fn unit(self) -> Future<()> {
        self.adapt(|result| result.map(discard))
    }

    /// The future that `f` makes of the result, whichever it is.
    ///
    /// ```
    /// use raddle::Future;
    ///
    /// let future = Future::<u32>::failed(std::fmt::Error);
    /// let text = future.transform(|result| Future::ready(result.map_or_else(|e| e.to_string(), |n| n.to_string())));
    /// assert!(text.wait().unwrap().starts_with("an error occurred"));
    /// ```
    #[doc(alias = "transformWith")]
    #[doc(alias = "biFlatMap")]
    #[doc(alias = "handleAsync")]
    #[doc(alias = "thenTry")]
    #[inline]
    pub fn transform<U: Send + 'static>(
        self,
        f: impl FnOnce(Result<T, Failure>) -> Future<U> + Send + 'static,
    ) -> Future<U> {
        self.then_future(Op(f))
    }

    /// What `f` makes of the result, whichever it is.
    ///
    /// ```
    /// let future = raddle::Future::ready(1).map_result(|result| result.map(|n| n + 1));
    /// assert_eq!(future.wait().unwrap(), 2);
    /// ```
    #[doc(alias = "biMap")]
    #[doc(alias = "handle")]
    #[inline]
    pub fn map_result<U: Send + 'static>(
        self,
        f: impl FnOnce(Result<T, Failure>) -> Result<U, Failure> + Send + 'static,
    ) -> Future<U> {
        self.then(Op(f))
    }

    /// The value, or what `f` makes of the failure.
    ///
    /// ```
    /// use raddle::{Failure, Future};
    ///
    /// let future = Future::<u32>::failed(std::fmt::Error).recover(|_| Ok(0));
    /// assert_eq!(future.wait().unwrap(), 0);
    /// ```
    #[doc(alias = "handle")]
    #[doc(alias = "exceptionally")]
    #[doc(alias = "recoverWith")]
    #[doc(alias = "onErrorReturn")]
    #[doc(alias = "unwrap_or_else")]
    #[inline]
    pub fn recover(
        self,
        f: impl FnOnce(Failure) -> Result<T, Failure> + Send + 'static,
    ) -> Future<T> {
        self.then(Op(move |result| match result {
            Ok(value) => Ok(pass(f, value)),
            Err(failure) => f(failure),
        }))
    }

    /// The value, or the future that `f` makes of the failure.
    ///
    /// ```
    /// use raddle::{Future, spawn};
    ///
    /// let future = Future::<u32>::failed(std::fmt::Error).rescue(|_| spawn(|| 1));
    /// assert_eq!(future.wait().unwrap(), 1);
    /// ```
    #[doc(alias = "recoverWith")]
    #[doc(alias = "exceptionallyCompose")]
    #[doc(alias = "thenError")]
    #[doc(alias = "or_else")]
    #[inline]
    pub fn rescue(self, f: impl FnOnce(Failure) -> Future<T> + Send + 'static) -> Future<T> {
        self.then_future(Op(move |result| match result {
            Ok(value) => Future::ready(pass(f, value)),
            Err(failure) => f(failure),
        }))
    }

    /// The value, or if this fails what comes of the fallback, which is on its way already.
    ///
    /// Interrupts go to this future until it has failed, then to the fallback; so do kills.
    ///
    /// ```
    /// use raddle::Future;
    ///
    /// let future = Future::failed(std::fmt::Error).or(Future::ready(1));
    /// assert_eq!(future.wait().unwrap(), 1);
    /// ```
    #[doc(alias = "fallbackTo")]
    #[doc(alias = "orElse")]
    #[inline]
    pub fn or(self, fallback: Future<T>) -> Future<T> {
        // Nobody waits for this yet, so what falls away need not wait for what follows.
        let is_ready = matches!(self.0, Repr::Ready(_));
        if let Some(level) = is_ready.then(depth::enter).flatten() {
            discard(fallback);
            depth::leave(level);
            return self;
        }
        self.then_future(Or(fallback))
    }

    /// What `f` makes of the failure; a value stays.
    ///
    /// ```
    /// use raddle::{Failure, Future};
    ///
    /// let future = Future::<u32>::failed(std::fmt::Error);
    /// let future = future.map_failure(|f| Failure::message(format!("while weaving: {f}")));
    /// assert!(future.wait().unwrap_err().to_string().starts_with("while weaving: "));
    /// ```
    #[doc(alias = "mapError")]
    #[doc(alias = "map_err")]
    #[inline]
    pub fn map_failure(self, f: impl FnOnce(Failure) -> Failure + Send + 'static) -> Future<T> {
        self.then(Op(move |result| match result {
            Ok(value) => Ok(pass(f, value)),
            Err(failure) => Err(f(failure)),
        }))
    }

    /// The result as a value: this never fails.
    ///
    /// ```
    /// use raddle::Future;
    ///
    /// let result = Future::<u32>::failed(std::fmt::Error).lift().wait().unwrap();
    /// assert!(result.is_err());
    /// ```
    #[doc(alias = "liftToTry")]
    #[doc(alias = "materialize")]
    #[doc(alias = "attempt")]
    #[inline]
    pub fn lift(self) -> Future<Result<T, Failure>> {
        self.adapt(Ok)
    }

    /// Calls `f` with the value, for its effect; the result stays.
    ///
    /// ```
    /// let future = raddle::Future::ready(3).on_success(|n| println!("{n}"));
    /// assert_eq!(future.wait().unwrap(), 3);
    /// ```
    #[doc(alias = "foreach")]
    #[doc(alias = "thenAccept")]
    #[doc(alias = "inspect_ok")]
    #[inline]
    pub fn on_success(self, f: impl FnOnce(&T) + Send + 'static) -> Future<T> {
        self.then(Op(move |result| {
            match &result {
                Ok(value) => aside(|| f(value)),
                Err(_) => discard(f),
            }
            result
        }))
    }

    /// Calls `f` with the failure, for its effect; the result stays.
    ///
    /// ```
    /// use raddle::Future;
    ///
    /// let future = Future::<u32>::failed(std::fmt::Error).on_failure(|failure| println!("{failure}"));
    /// assert!(future.wait().is_err());
    /// ```
    #[doc(alias = "inspect_err")]
    #[inline]
    pub fn on_failure(self, f: impl FnOnce(&Failure) + Send + 'static) -> Future<T> {
        self.then(Op(move |result| {
            match &result {
                Ok(_) => discard(f),
                Err(failure) => aside(|| f(failure)),
            }
            result
        }))
    }

    /// Calls `f` with the result, for its effect; the result stays.
    ///
    /// ```
    /// let future = raddle::Future::ready(3).on_complete(|result| println!("{result:?}"));
    /// assert_eq!(future.wait().unwrap(), 3);
    /// ```
    #[doc(alias = "respond")]
    #[doc(alias = "whenComplete")]
    #[doc(alias = "andThen")]
    #[doc(alias = "inspect")]
    #[inline]
    pub fn on_complete(self, f: impl FnOnce(&Result<T, Failure>) + Send + 'static) -> Future<T> {
        self.then(Op(move |result| {
            aside(|| f(&result));
            result
        }))
    }

    /// Calls `f` when the future is done, whichever way; the result stays.
    ///
    /// ```
    /// let future = raddle::Future::ready(3).ensure(|| println!("done"));
    /// assert_eq!(future.wait().unwrap(), 3);
    /// ```
    #[doc(alias = "finally")]
    #[inline]
    pub fn ensure(self, f: impl FnOnce() + Send + 'static) -> Future<T> {
        self.then(Op(move |result| {
            aside(f);
            result
        }))
    }
}

impl<T: Send + 'static> Future<Future<T>> {
    /// The inner future.
    ///
    /// ```
    /// use raddle::{Future, spawn};
    ///
    /// assert_eq!(Future::ready(spawn(|| 1)).flatten().wait().unwrap(), 1);
    /// ```
    #[doc(alias = "unwrap")]
    #[inline]
    pub fn flatten(self) -> Future<T> {
        self.flat_map(|inner| inner)
    }
}

impl<T, E> Future<Result<T, E>>
where
    T: Send + 'static,
    E: Into<Box<dyn Error + Send + Sync>> + Send + 'static,
{
    /// The inner result: an error makes the future fail. The opposite of [`lift`](Future::lift).
    ///
    /// ```
    /// use raddle::spawn;
    ///
    /// assert!(spawn(|| "x".parse::<u32>()).lower().wait().is_err());
    /// ```
    #[doc(alias = "lowerFromTry")]
    #[inline]
    pub fn lower(self) -> Future<T> {
        self.adapt(|result| result.and_then(|inner| inner.map_err(Failure::new)))
    }
}

impl<T: Send + 'static> Future<T> {
    /// [`map_result`](Future::map_result) by a function that has no effect. If nothing but such functions follows a
    /// combination, dropping the future lets the combination go.
    pub(crate) fn adapt<U: Send + 'static>(
        self,
        f: impl FnOnce(Result<T, Failure>) -> Result<U, Failure> + Send + 'static,
    ) -> Future<U> {
        match self.as_pending() {
            Some(pending) if pending.is_adapted() => self.then(Adapt(f)),
            _ => self.then(Op(f)),
        }
    }
}
