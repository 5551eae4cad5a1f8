//! Values that share no cache line with others.

use std::ops::{Deref, DerefMut};

/// A value on cache lines of its own, so that threads that write to its neighbours do not slow down those that use it.
///
/// Aligned to 128 bytes: x86-64 fetches lines of 64 bytes in pairs, and Apple's processors have lines of 128.
///
/// ```
/// use raddle_sync::padded::CachePadded;
///
/// let two = [CachePadded::new(1_u8), CachePadded::new(2)];
/// assert_eq!(size_of_val(&two), 256);
/// assert_eq!(*two[0] + *two[1], 3);
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(128))]
pub struct CachePadded<T>(T);

impl<T> CachePadded<T> {
    /// Pads a value.
    pub const fn new(value: T) -> CachePadded<T> {
        CachePadded(value)
    }
}

impl<T> Deref for CachePadded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for CachePadded<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
