//! To async Rust: futures that are awaited there.

use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll, Waker};

use raddle_sync::sync::Mutex;

use crate::depth;
use crate::future::failure::Failure;
use crate::future::handle::{Future, Now, Pending, Repr};
use crate::future::shared::Shared;
use crate::future::walk;
use crate::future::watch::{Watch, Watched};
use crate::local;
use crate::panics::{contain, discard};

/// A future that has been polled, and whom to wake when it is done.
pub(crate) struct Awaited<T> {
    source: Watched<T>,
    waker: Arc<Woken>,
}

/// Who is to be woken.
struct Woken(Mutex<Option<Waker>>);

/// A waker that is of no use any more may own the next future that has one, and so on: so dropping it does not nest.
impl Drop for Woken {
    fn drop(&mut self) {
        if let Some(waker) = self.0.get_mut().take() {
            depth::nested(waker, discard, walk::drop_later);
        }
    }
}

impl Watch for Woken {
    fn told(self: Arc<Self>, _: usize) {
        let waker = self.0.lock().take();
        if let Some(waker) = waker {
            // The executor's code, which has nothing to do with who completes.
            local::outside(|| contain(|| waker.wake()));
        }
    }

    /// A waiter that cannot be woken any more hears of that by the drop of its wakers.
    fn left(self: Arc<Self>) {
        let waker = self.0.lock().take();
        drop(waker);
    }
}

impl<T> Awaited<T> {
    pub(crate) fn pending(&self) -> &Pending<T> {
        self.source.pending()
    }

    /// The future; nobody is woken any more.
    pub(crate) fn release(self) -> Future<T> {
        let Awaited { source, waker } = self;
        let future = source.release();
        // The last waker is the user's.
        discard(waker);
        future
    }

    /// After a waker was left there: if nobody will be told, it goes. (Or who finds the part a moment later takes it.)
    fn leave_never(&self) {
        if self.source.is_never() {
            Arc::clone(&self.waker).left();
        }
    }

    /// Has this one woken, and says whether the result is there.
    fn poll(&self, cx: &mut task::Context<'_>) -> bool {
        let new = cx.waker().clone();
        let old = self.waker.0.lock().replace(new);
        drop(old);
        self.leave_never();
        // Told before the new waker was there: done by now.
        self.pending().outcome().is_some()
    }
}

/// Whoever polls may sleep now, so what it has put off is for others to run: it may be what is awaited (T3 of `depth`).
fn not_yet<T>() -> Poll<T> {
    depth::flush();
    Poll::Pending
}

// Nothing is pinned in place.
impl<T> Unpin for Future<T> {}

/// Awaited in any async runtime, a future gives its result. Dropping it detaches, here as elsewhere, also when it has been
/// polled; what [`cancel_on_drop`](Future::cancel_on_drop) wraps is interrupted. A poll runs nothing. Of what is
/// [`never`](Future::never) done nobody is woken, not by a kill either.
///
/// Three allocations at the first poll that finds it pending, and one for the waker, which its own clone may make.
///
/// # Panics
///
/// A poll panics when the result has been taken.
impl<T> std::future::Future for Future<T> {
    type Output = Result<T, Failure>;

    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Result<T, Failure>> {
        if let Repr::Awaited(awaited) = &self.0 {
            if !awaited.poll(cx) {
                return not_yet();
            }
        }
        match std::mem::replace(&mut self.0, Repr::Taken) {
            Repr::Taken => panic!("polled after it was ready"),
            repr => match Future(repr).now() {
                Now::Done(result) => Poll::Ready(result),
                Now::Never => {
                    self.0 = Future::never().0;
                    not_yet()
                }
                Now::Pending(pending) => {
                    // Whose clone may panic.
                    self.0 = Repr::Pending(pending);
                    let waker = cx.waker().clone();
                    let Repr::Pending(pending) = std::mem::replace(&mut self.0, Repr::Taken) else {
                        unreachable!("it was put there");
                    };
                    let waker = Arc::new(Woken(Mutex::new(Some(waker))));
                    match Watched::new(pending, waker.clone(), 0) {
                        Err(result) => {
                            discard(waker);
                            Poll::Ready(result)
                        }
                        Ok(source) => {
                            let awaited = Box::new(Awaited { source, waker });
                            awaited.leave_never();
                            self.0 = Repr::Awaited(awaited);
                            not_yet()
                        }
                    }
                }
            },
        }
    }
}

impl<T: Clone + Send + 'static> IntoFuture for Shared<T> {
    type Output = Result<T, Failure>;
    type IntoFuture = Future<T>;

    /// One more consumer's future.
    fn into_future(self) -> Future<T> {
        self.future()
    }
}

impl<T: Clone + Send + 'static> IntoFuture for &Shared<T> {
    type Output = Result<T, Failure>;
    type IntoFuture = Future<T>;

    fn into_future(self) -> Future<T> {
        self.future()
    }
}
