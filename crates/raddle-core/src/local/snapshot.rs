//! [`Snapshot`]: bindings that outlive who bound them.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::local::frame::{Cold, Frame};
use crate::local::{Restore, key};

/// A frame on the heap with a share of each value.
#[derive(Debug)]
pub(crate) struct Inner {
    frame: Frame,
    /// What the frame's cold slots point into.
    _cold: Box<Cold>,
}

// SAFETY: the values are `Send + Sync` (`ScopeLocal::bind`), the frame is not changed any more.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Inner {
    fn of_frame(frame: &Frame) -> Inner {
        let mut cold = Box::<Cold>::default();
        let mut copy = Frame::empty(ptr::null());
        for (id, value) in frame.owned() {
            // SAFETY: X2: alive, and of the key's type.
            unsafe { (key::share(id).retain)(value) };
            copy.set(id, value, true, &mut cold);
        }
        Inner { frame: copy, _cold: cold }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for (id, value) in self.frame.owned() {
            // SAFETY: this frame's share. If its `Drop` panics, the other values are leaked.
            unsafe { (key::share(id).release)(value) };
        }
    }
}

/// The context that detached code takes along: a share of a snapshot, or nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Context(Option<Arc<Inner>>);

impl Context {
    pub(crate) fn of_frame(frame: &Frame) -> Context {
        Context(Some(Arc::new(Inner::of_frame(frame))))
    }

    /// # Safety
    ///
    /// From `into_raw`, and alive.
    #[inline]
    pub(crate) unsafe fn share(inner: NonNull<Inner>) -> Context {
        // SAFETY: contract.
        let share = ManuallyDrop::new(unsafe { Arc::from_raw(inner.as_ptr().cast_const()) });
        Context(Some(Arc::clone(&share)))
    }

    pub(crate) fn into_raw(self) -> *mut Inner {
        self.0.map_or(ptr::null_mut(), |inner| Arc::into_raw(inner).cast_mut())
    }

    /// # Safety
    ///
    /// From `into_raw`, once.
    pub(crate) unsafe fn from_raw(raw: *mut Inner) -> Context {
        // SAFETY: contract.
        Context((!raw.is_null()).then(|| unsafe { Arc::from_raw(raw.cast_const()) }))
    }

    /// Nothing, or the context if it is something.
    #[inline]
    pub(crate) fn some(self) -> Option<Context> {
        self.0.is_some().then_some(self)
    }

    /// A frame for code of the task with this claim word that runs in this context.
    pub(crate) fn frame(&self, claim: *const crate::spawn::claim::Claim) -> Frame {
        match &self.0 {
            None => Frame::empty(claim),
            Some(inner) => {
                let mut frame = inner.frame.copy().with_claim(claim);
                frame.set_snapshot(self.clone());
                frame
            }
        }
    }

    fn word(&self) -> usize {
        self.0.as_ref().map_or(0, |inner| inner.frame.word())
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
        // SAFETY: X1: this holds it.
        let _restore = unsafe { Restore::after(self.word()) };
        f()
    }
}

/// All owned bindings of a moment, to run something under them anywhere, at any time.
///
/// Tasks inherit bindings by themselves; a snapshot is for what raddle does not start: threads, callbacks of
/// other libraries. Clones share. Bindings by reference ([`ScopeLocal::bind_ref`](crate::ScopeLocal::bind_ref))
/// are not in it.
///
/// ```
/// use raddle_core::{Snapshot, scope_local};
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
        Snapshot(super::capture())
    }

    /// Calls `f` under these bindings and no others: locals that are bound here and not in the snapshot
    /// are unbound for `f`. Afterwards, also after a panic, the bindings are what they were.
    #[doc(alias = "restore")]
    pub fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        // The task remains the same.
        // SAFETY: X1.
        let claim = unsafe { Frame::of_word(super::current()) }.map_or(ptr::null(), Frame::claim);
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
