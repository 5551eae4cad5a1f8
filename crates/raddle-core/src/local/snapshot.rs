//! [`Snapshot`]: bindings that outlive who bound them.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::drops;
use crate::local::block;
use crate::local::follow::{self, Captured, Entered};
use crate::local::frame::{Cold, Frame};
use crate::local::{self, Restore, Thread};
use crate::panics::discard;
use crate::spawn::claim::Claim;

/// A frame on the heap with a share of each owned value.
#[derive(Debug)]
pub(crate) struct Inner {
    shares: AtomicUsize,
    frame: Frame,
    /// Where the frame's cold slots are.
    _cold: Cold,
    /// What else follows tasks.
    captured: Option<Captured>,
    /// Whether this is what code that runs in the frame would take along: then it need not make its own.
    lendable: bool,
}

// SAFETY: owned values are `Send + Sync` (`ScopeLocal::bind`), borrowed ones `Sync`
// (`ScopeLocal::bind_ref`), and the frame is not changed any more.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Inner {
    /// A share of what is owned in the frame, if any.
    fn of_frame(frame: Option<&Frame>) -> Inner {
        let mut cold = Cold::default();
        let mut copy = Frame::empty(ptr::null(), Thread::NONE);
        for (id, value) in frame.into_iter().flat_map(Frame::owned) {
            // SAFETY: X2: owned, and alive.
            unsafe { block::retain(value) };
            copy.set(id, value.as_ptr().cast_const(), true, &mut cold);
        }
        let shares = AtomicUsize::new(1);
        Inner { shares, frame: copy, _cold: cold, captured: None, lendable: true }
    }

    /// The same, and what is borrowed in both frames.
    fn of_both(frame: &Frame, outer: &Frame) -> Inner {
        let mut inner = Inner::of_frame(Some(frame));
        for (id, value) in frame.borrowed_by_both(outer) {
            inner.frame.set(id, value.as_ptr().cast_const(), false, &mut inner._cold);
            inner.lendable = false;
        }
        inner
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for (_, value) in self.frame.owned() {
            // The last share may go anywhere, where nothing may unwind.
            // SAFETY: this frame's share.
            discard(Released(|| unsafe { block::release(value) }));
        }
    }
}

/// Calls the closure when it is dropped.
struct Released<F: Fn()>(F);

impl<F: Fn()> Drop for Released<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// The context that detached code takes along: a share of a snapshot, or nothing.
#[derive(Debug, Default)]
pub(crate) struct Context(Option<NonNull<Inner>>);

// SAFETY: a share of what is `Send` and `Sync`.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Clone for Context {
    fn clone(&self) -> Context {
        if let Some(inner) = self.0 {
            // SAFETY: this share.
            unsafe { Context::add_shares(inner, 1) };
        }
        Context(self.0)
    }
}

impl Drop for Context {
    #[inline]
    fn drop(&mut self) {
        if let Some(inner) = self.0 {
            // SAFETY: this share.
            unsafe { Context::release(inner, 1) };
        }
    }
}

impl Context {
    fn new(inner: Inner) -> Context {
        let lendable = inner.lendable;
        let own = NonNull::from(Box::leak(Box::new(inner)));
        if lendable {
            // SAFETY: fresh memory, of nobody else yet.
            let frame = unsafe { &mut (*own.as_ptr()).frame };
            // What runs in it and attaches something takes along this very one: a loop makes no chain of them.
            frame.lend_snapshot(own.as_ptr());
        }
        Context(Some(own))
    }

    fn inner(&self) -> Option<&Inner> {
        // SAFETY: alive: this is a share.
        self.0.map(|inner| unsafe { &*inner.as_ptr() })
    }

    pub(crate) fn of_frame(frame: &Frame) -> Context {
        Context::new(Inner::of_frame(Some(frame)))
    }

    /// For a task of a scope that was opened in the context `outer`, from code in another.
    ///
    /// # Safety
    ///
    /// X1 for both words, for `outer` as long as the task lives.
    pub(crate) unsafe fn within(outer: usize) -> Context {
        // SAFETY: X1.
        let frame = unsafe { Frame::of_word(local::current()) };
        // SAFETY: contract.
        let outer = unsafe { Frame::of_word(outer) };
        let Some((frame, outer)) = frame.zip(outer) else { return local::capture() };
        if frame.borrowed_by_both(outer).next().is_none() {
            return local::capture();
        }
        let mut inner = Inner::of_both(frame, outer);
        inner.captured = follow::capture();
        Context::new(inner)
    }

    /// Adds what else follows tasks.
    pub(crate) fn with_captured(self, captured: Option<Captured>) -> Context {
        if captured.is_none() {
            return self;
        }
        let mut inner = Inner::of_frame(self.inner().map(|inner| &inner.frame));
        (inner.captured, inner.lendable) = (captured, false);
        Context::new(inner)
    }

    /// Takes further shares.
    ///
    /// # Safety
    ///
    /// There is a share, and each of the new ones is used.
    #[inline]
    pub(crate) unsafe fn add_shares(inner: NonNull<Inner>, count: usize) {
        // SAFETY: contract.
        let shares = unsafe { &(*inner.as_ptr()).shares };
        // ORD: as in `Arc`: whoever has a share passes it on by other means.
        shares.fetch_add(count, Ordering::Relaxed);
    }

    /// Lets go of shares.
    ///
    /// # Safety
    ///
    /// They are the caller's; without any, it may be gone.
    #[inline]
    pub(crate) unsafe fn release(inner: NonNull<Inner>, count: usize) {
        if count == 0 {
            return;
        }
        // SAFETY: contract.
        let shares = unsafe { &(*inner.as_ptr()).shares };
        // ORD: Acquire pairs with the Release of the shares that have gone. Whoever has all of them can be joined
        // by nobody.
        if shares.load(Ordering::Acquire) == count
            || shares.fetch_sub(count, Ordering::AcqRel) == count
        {
            // A snapshot may be bound in it.
            // SAFETY: nobody has a share any more.
            unsafe { drops::nested(inner.cast(), Context::free) };
        }
    }

    /// # Safety
    ///
    /// An `Inner` to which there is no share any more.
    unsafe fn free(inner: NonNull<()>) {
        // SAFETY: contract.
        drop(unsafe { Box::from_raw(inner.cast::<Inner>().as_ptr()) });
    }

    pub(crate) fn into_raw(self) -> *mut Inner {
        ManuallyDrop::new(self).0.map_or(ptr::null_mut(), NonNull::as_ptr)
    }

    /// # Safety
    ///
    /// From `into_raw`, once, or a share of the caller's.
    pub(crate) unsafe fn from_raw(raw: *mut Inner) -> Context {
        Context(NonNull::new(raw))
    }

    /// Nothing, or the context if it is something.
    #[inline]
    pub(crate) fn some(self) -> Option<Context> {
        self.0.is_some().then_some(self)
    }

    /// A frame for code of the task with this claim word that runs here and in this context, which must outlive
    /// it.
    #[inline]
    pub(crate) fn frame(&self, claim: *const Claim) -> Frame {
        match self.inner() {
            None => Frame::empty(claim, Thread::current()),
            Some(inner) => {
                let mut frame = inner.frame.copy(Thread::current()).with_claim(claim);
                if inner.lendable {
                    frame.lend_snapshot(inner);
                }
                frame
            }
        }
    }

    /// Has the thread enter what else follows tasks, until the guard is dropped.
    #[inline]
    pub(crate) fn enter(&self) -> Entered {
        Entered::by(|| self.inner()?.captured.as_ref())
    }

    fn word(&self) -> usize {
        self.inner().map_or(0, |inner| inner.frame.word())
    }
}

/// What a node keeps of the context: all of it, or nothing if there is none, which takes no room.
pub(crate) trait Capture: Send + 'static {
    /// Calls `f` in the context. It does not unwind.
    fn run<R>(&self, f: impl FnOnce() -> R) -> R;
}

impl Capture for () {
    /// For code that runs outside of all contexts: see `walk`.
    #[inline(always)]
    fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        f()
    }
}

impl Capture for Context {
    #[inline]
    fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        let _entered = self.enter();
        // SAFETY: X1: this holds it.
        let _restore = unsafe { Restore::after(self.word()) };
        f()
    }
}

/// All owned bindings of a moment, to run something under them anywhere, at any time.
///
/// Tasks inherit bindings by themselves; a snapshot is for what raddle does not start: threads, callbacks of
/// other libraries. Clones share. Bindings by reference ([`ScopeLocal::bind_ref`](crate::ScopeLocal::bind_ref))
/// are not in it. What else follows tasks ([`follow`](crate::follow())) is.
///
/// ```
/// use raddle::{Snapshot, scope_local};
///
/// scope_local! { static USER: String; }
///
/// USER.bind("ada".into()).run(|| {
///     let snapshot = Snapshot::capture();
///     let thread = std::thread::spawn(move || snapshot.run(|| USER.with(String::len)));
///     assert_eq!(thread.join().unwrap(), 3);
/// });
/// ```
#[derive(Clone, Default)]
pub struct Snapshot(Context);

impl Snapshot {
    /// The bindings of the running code. One atomic increment, or an allocation the first time under these
    /// bindings; nothing if nothing is bound.
    #[doc(alias = "save")]
    pub fn capture() -> Snapshot {
        Snapshot(local::capture())
    }

    /// Whether nothing is bound, and nothing follows: code that runs under this needs no bindings of its own.
    #[cfg(not(raddle_model))]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.0.is_none()
    }

    /// Calls `f` under these bindings and no others: locals that are bound here and not in the snapshot
    /// are unbound for `f`. Afterwards, also after a panic, the bindings are what they were.
    #[doc(alias = "restore")]
    pub fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        // The task remains the same.
        // SAFETY: X1.
        let claim = unsafe { Frame::of_word(local::current()) }.map_or(ptr::null(), Frame::claim);
        let _entered = self.0.enter();
        let frame = self.0.frame(claim);
        // SAFETY: X1: the frame is dropped after the guard.
        let _restore = unsafe { Restore::after(frame.word()) };
        f()
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").finish_non_exhaustive()
    }
}
