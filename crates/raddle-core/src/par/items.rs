//! What loops run over: slices and ranges of integers, cut where needed.

use std::ops::{Range, RangeInclusive};

/// What [`map_collect`](crate::par::map_collect), [`map_reduce`](crate::par::map_reduce), [`filter`](crate::par::filter),
/// [`find_any`](crate::par::find_any) and [`for_each_in`](crate::par::for_each_in) take: ranges of integers, slices, and references to
/// vectors and arrays.
///
/// ```
/// use raddle::par;
///
/// let words = vec!["warp", "weft"];
/// assert_eq!(par::map_collect(&words, |word| word.len()), [4, 4]);
/// assert_eq!(par::map_collect(1..=3_u8, |n| n * n), [1, 4, 9]);
/// ```
#[diagnostic::on_unimplemented(
    message = "a parallel loop cannot run over `{Self}`",
    label = "neither a range of integers, nor a slice, nor a reference to a vector or array",
    note = "give a vector by reference: `&items`",
    note = "an iterator is collected into a vector first, since it cannot be cut in two; `raddle::par::for_each` changes elements in place"
)]
pub trait Items: Sized + sealed::Sealed {
    /// What closures are given: an integer, or a reference to an element.
    type Item;
    #[doc(hidden)]
    type Parts: Divide<Item = Self::Item>;
    #[doc(hidden)]
    fn parts(self) -> Self::Parts;
}

/// An integer that ranges may be of: all of Rust's, up to 64 bits.
#[diagnostic::on_unimplemented(
    message = "a parallel loop cannot run over a range of `{Self}`",
    label = "not an integer of up to 64 bits"
)]
pub trait Integer: Copy + PartialOrd + Send + sealed::Sealed {
    #[doc(hidden)]
    fn distance(from: Self, to: Self) -> Option<u64>;
    #[doc(hidden)]
    fn plus(self, count: usize) -> Self;
}

mod sealed {
    pub trait Sealed {}
}

/// A sequence that can be cut in two.
pub trait Divide: Sized + Send {
    type Item;
    type Iter: Iterator<Item = Self::Item>;

    fn len(&self) -> usize;
    /// The first `at` items, and the rest.
    fn split(self, at: usize) -> (Self, Self);
    /// Takes away the first `count` items.
    fn take(&mut self, count: usize) -> Self;
    fn iter(self) -> Self::Iter;
}

// --- integers ---

/// So many integers from the first on.
#[derive(Debug)]
pub struct Span<T> {
    first: T,
    len: usize,
}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        impl sealed::Sealed for $integer {}
        impl Integer for $integer {
            #[inline]
            fn distance(from: Self, to: Self) -> Option<u64> {
                (from <= to).then(|| to.wrapping_sub(from) as u64 & (u64::MAX >> (64 - <$integer>::BITS)))
            }

            #[inline]
            fn plus(self, count: usize) -> Self {
                self.wrapping_add(count as $integer)
            }
        }
    )*};
}

integers!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize);

/// So many items.
///
/// # Panics
///
/// If there are more than `usize` counts.
fn count(items: Option<u64>) -> usize {
    items
        .and_then(|items| usize::try_from(items).ok())
        .expect("a range of at most usize::MAX items")
}

impl<T> sealed::Sealed for Range<T> {}
impl<T: Integer> Items for Range<T> {
    type Item = T;
    type Parts = Span<T>;

    fn parts(self) -> Span<T> {
        let len = T::distance(self.start, self.end).map_or(0, |len| count(Some(len)));
        Span { first: self.start, len }
    }
}

impl<T> sealed::Sealed for RangeInclusive<T> {}
impl<T: Integer> Items for RangeInclusive<T> {
    type Item = T;
    type Parts = Span<T>;

    fn parts(self) -> Span<T> {
        // One that was iterated to its end is empty, too.
        let distance = if self.is_empty() { None } else { T::distance(*self.start(), *self.end()) };
        let len = distance.map_or(0, |distance| count(distance.checked_add(1)));
        Span { first: *self.start(), len }
    }
}

impl<T: Integer> Divide for Span<T> {
    type Item = T;
    type Iter = SpanIter<T>;

    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn split(self, at: usize) -> (Self, Self) {
        let rest = Span { first: self.first.plus(at), len: self.len - at };
        (Span { first: self.first, len: at }, rest)
    }

    #[inline]
    fn take(&mut self, count: usize) -> Self {
        let front = Span { first: self.first, len: count };
        self.first = self.first.plus(count);
        self.len -= count;
        front
    }

    #[inline]
    fn iter(self) -> SpanIter<T> {
        SpanIter { first: self.first, indices: 0..self.len }
    }
}

#[derive(Debug)]
pub struct SpanIter<T> {
    first: T,
    indices: Range<usize>,
}

impl<T: Integer> Iterator for SpanIter<T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.indices.next().map(|index| self.first.plus(index))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.indices.size_hint()
    }
}

// --- slices ---

macro_rules! slices {
    ($($from:ty $(, $count:ident)?;)*) => {$(
        impl<T $(, const $count: usize)?> sealed::Sealed for $from {}
        impl<'a, T: Sync $(, const $count: usize)?> Items for &'a $from {
            type Item = &'a T;
            type Parts = &'a [T];

            fn parts(self) -> &'a [T] {
                self
            }
        }
        impl<'a, T: Send $(, const $count: usize)?> Items for &'a mut $from {
            type Item = &'a mut T;
            type Parts = &'a mut [T];

            fn parts(self) -> &'a mut [T] {
                self
            }
        }
    )*};
}

impl<T: sealed::Sealed + ?Sized> sealed::Sealed for &T {}
impl<T: sealed::Sealed + ?Sized> sealed::Sealed for &mut T {}
slices! {
    [T];
    Vec<T>;
    [T; N], N;
}

impl<'a, T: Sync> Divide for &'a [T] {
    type Item = &'a T;
    type Iter = std::slice::Iter<'a, T>;

    #[inline]
    fn len(&self) -> usize {
        <[T]>::len(self)
    }

    #[inline]
    fn split(self, at: usize) -> (Self, Self) {
        self.split_at(at)
    }

    #[inline]
    fn take(&mut self, count: usize) -> Self {
        let (front, rest) = self.split_at(count);
        *self = rest;
        front
    }

    #[inline]
    fn iter(self) -> Self::Iter {
        <[T]>::iter(self)
    }
}

impl<'a, T: Send> Divide for &'a mut [T] {
    type Item = &'a mut T;
    type Iter = std::slice::IterMut<'a, T>;

    #[inline]
    fn len(&self) -> usize {
        <[T]>::len(self)
    }

    #[inline]
    fn split(self, at: usize) -> (Self, Self) {
        self.split_at_mut(at)
    }

    #[inline]
    fn take(&mut self, count: usize) -> Self {
        let (front, rest) = std::mem::take(self).split_at_mut(count);
        *self = rest;
        front
    }

    #[inline]
    fn iter(self) -> Self::Iter {
        <[T]>::iter_mut(self)
    }
}

/// The chunks of a slice, of `size` elements each but for the last.
#[derive(Debug)]
pub(crate) struct Chunks<'a, T> {
    pub(crate) slice: &'a mut [T],
    pub(crate) size: usize,
}

impl<'a, T: Send> Divide for Chunks<'a, T> {
    type Item = &'a mut [T];
    type Iter = std::slice::ChunksMut<'a, T>;

    #[inline]
    fn len(&self) -> usize {
        self.slice.len().div_ceil(self.size)
    }

    #[inline]
    fn split(mut self, at: usize) -> (Self, Self) {
        (self.take(at), self)
    }

    #[inline]
    fn take(&mut self, count: usize) -> Self {
        let at = count.saturating_mul(self.size).min(self.slice.len());
        Chunks { slice: self.slice.take(at), size: self.size }
    }

    #[inline]
    fn iter(self) -> Self::Iter {
        self.slice.chunks_mut(self.size)
    }
}

/// Two sequences side by side, of one length.
#[derive(Debug)]
pub(crate) struct Pairs<A, B>(pub(crate) A, pub(crate) B);

impl<A: Divide, B: Divide> Divide for Pairs<A, B> {
    type Item = (A::Item, B::Item);
    type Iter = std::iter::Zip<A::Iter, B::Iter>;

    #[inline]
    fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn split(mut self, at: usize) -> (Self, Self) {
        (self.take(at), self)
    }

    #[inline]
    fn take(&mut self, count: usize) -> Self {
        Pairs(self.0.take(count), self.1.take(count))
    }

    #[inline]
    fn iter(self) -> Self::Iter {
        self.0.iter().zip(self.1.iter())
    }
}
