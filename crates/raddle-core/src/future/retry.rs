//! [`retry`]: again, after a while; [`Retry`] says when, and how long a while.

use std::fmt;
use std::ops::ControlFlow;
use std::time::Duration;

use crate::future::failure::Failure;
use crate::future::handle::Future;
use crate::future::repeat::tail_loop;
use crate::panics::Apart;

/// Calls `f` until its future has a value, at most `tries` times, and waits before each further try: `pause` before the
/// second, twice as long before the third, and so on. Fails with the last failure.
///
/// [`Retry`] can say more: the longest pause, and which failures are worth another try.
///
/// A future of a `Result` has succeeded, whatever that says: `f` ends it with [`lower`](Future::lower).
///
/// An interrupt ends the pause, and the loop.
///
/// # Panics
///
/// If `tries` is 0.
///
/// ```
/// use std::time::Duration;
/// use raddle::{Future, retry};
///
/// let mut tries = 0;
/// let word = retry(3, Duration::from_millis(1), move || {
///     tries += 1;
///     if tries < 3 { Future::failed("not yet") } else { Future::ready(tries) }
/// });
/// assert_eq!(word.wait().unwrap(), 3);
/// ```
#[doc(alias = "backoff")]
#[doc(alias = "retrying")]
#[track_caller]
pub fn retry<T: Send + 'static>(
    tries: usize,
    pause: Duration,
    f: impl FnMut() -> Future<T> + Send + 'static,
) -> Future<T> {
    Retry::new(tries, pause).run(f)
}

/// How often something is tried, when, and after what pauses: [`retry`] with more to say.
///
/// ```
/// use std::time::Duration;
/// use raddle::{Failure, FailureKind, Future, Retry};
///
/// let mut answers = ["busy", "busy", "gone", "never asked"].into_iter();
/// let page = Retry::new(10, Duration::from_millis(1))
///     .max_pause(Duration::from_secs(1))
///     .when(|failure| failure.to_string() == "busy")
///     .run(move || Future::<u32>::failed(answers.next().unwrap()));
/// assert_eq!(page.wait().unwrap_err().to_string(), "gone");
/// ```
#[doc(alias = "RetryPolicy")]
#[doc(alias = "ExponentialBackoff")]
#[must_use = "it does nothing before it is run"]
pub struct Retry {
    tries: usize,
    pause: Duration,
    longest: Duration,
    worth: Option<Apart<Worth>>,
}

type Worth = Box<dyn FnMut(&Failure) -> bool + Send>;

impl Retry {
    /// At most `tries` times, with `pause` before the second, and twice as long before each further one.
    ///
    /// # Panics
    ///
    /// If `tries` is 0.
    #[track_caller]
    pub fn new(tries: usize, pause: Duration) -> Retry {
        assert!(tries > 0, "nothing can come of no try");
        Retry { tries, pause, longest: Duration::MAX, worth: None }
    }

    /// No pause is longer.
    #[doc(alias = "max_delay")]
    pub fn max_pause(mut self, longest: Duration) -> Retry {
        self.longest = longest;
        self
    }

    /// Only failures of which `worth` says so are worth another try. Any other is the last one.
    #[doc(alias = "retry_if")]
    pub fn when(mut self, worth: impl FnMut(&Failure) -> bool + Send + 'static) -> Retry {
        self.worth = Some(Apart::new(Box::new(worth)));
        self
    }

    /// Calls `f` so often: see [`retry`].
    pub fn run<T: Send + 'static>(
        self,
        mut f: impl FnMut() -> Future<T> + Send + 'static,
    ) -> Future<T> {
        tail_loop(self, move |mut left| {
            f().transform(move |result| {
                let mut failure = match result {
                    Ok(value) => return Future::ready(ControlFlow::Break(value)),
                    Err(failure) => Apart::new(failure),
                };
                if left.is_over(failure.get()) {
                    return Future::failed(failure.take());
                }
                drop(failure);
                let pause = left.pause.min(left.longest);
                left.pause = pause.saturating_mul(2);
                Future::delay(pause).map(move |()| ControlFlow::Continue(left))
            })
        })
    }

    /// One try has failed: was it the last?
    fn is_over(&mut self, failure: &Failure) -> bool {
        self.tries -= 1;
        self.tries == 0 || self.worth.as_mut().is_some_and(|worth| !worth.get()(failure))
    }
}

impl fmt::Debug for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Retry { tries, pause, longest, .. } = self;
        let mut shown = f.debug_struct("Retry");
        shown.field("tries", tries).field("pause", pause).field("max_pause", longest);
        shown.finish_non_exhaustive()
    }
}
