//! Loom's cell interface over the plain [`std::cell::UnsafeCell`].

/// Memory that may be written through a shared reference.
///
/// The interface is loom's: an access lasts as long as the closure, which is what lets loom check
/// that no two accesses overlap when one of them writes. On real builds both methods compile to
/// nothing.
///
/// ```
/// use raddle_sync::cell::UnsafeCell;
/// let cell = UnsafeCell::new(1);
/// // SAFETY: `cell` is not shared, so no other access overlaps this one.
/// cell.with_mut(|p| unsafe { *p += 1 });
/// assert_eq!(cell.into_inner(), 2);
/// ```
///
/// It is invariant in `T`, and never `Sync`:
///
/// ```compile_fail,E0308
/// # use raddle_sync::cell::UnsafeCell;
/// fn narrow(cell: &UnsafeCell<for<'a> fn(&'a str)>) -> &UnsafeCell<fn(&'static str)> { cell }
/// ```
///
/// ```compile_fail,E0277
/// # use raddle_sync::cell::UnsafeCell;
/// static CELL: UnsafeCell<u32> = UnsafeCell::new(0);
/// ```
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct UnsafeCell<T: ?Sized>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    /// A cell that holds `value`.
    #[inline(always)]
    pub const fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    /// The value; owning the cell proves that nobody else accesses it.
    #[inline(always)]
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: ?Sized> UnsafeCell<T> {
    /// Passes `f` a pointer to read through. The pointer must not be used after `f` returns, nor
    /// while another thread writes.
    #[inline(always)]
    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    /// Passes `f` a pointer to read and write through. The pointer must not be used after `f`
    /// returns, nor while any other access is going on.
    #[inline(always)]
    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}
