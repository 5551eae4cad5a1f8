//! Loops that come to one value.

use raddle_sync::atomic::{AtomicBool, Ordering};
use std::marker::PhantomData;

use crate::par::drive::{Work, run};
use crate::par::items::{Divide, Items};

/// Where a reduction starts: a value that is cloned, or a closure that makes one. See [`map_reduce`].
// The compiler, which does not know the form then, shows the message alone.
#[diagnostic::on_unimplemented(
    message = "a reduction cannot start at `{Self}`, which is neither a value that is `Clone` and `Sync`, nor a closure that makes one"
)]
pub trait Identity<R, Form>: Sync {
    #[doc(hidden)]
    fn make(&self) -> R;
}

/// An identity that is a value.
#[derive(Debug)]
pub struct Value;
/// An identity that is made by a closure.
#[derive(Debug)]
pub struct Made;

impl<R: Clone + Sync> Identity<R, Value> for R {
    fn make(&self) -> R {
        self.clone()
    }
}

impl<R, F: Fn() -> R + Sync> Identity<R, Made> for F {
    fn make(&self) -> R {
        self()
    }
}

/// The closures of a reduction.
struct Closures<I, M, C> {
    identity: I,
    map: M,
    reduce: C,
}

struct Reduce<'f, P, R, C> {
    parts: P,
    /// What it has come to; none only while a closure runs.
    so_far: Option<R>,
    closures: &'f C,
}

/// [`Closures`], whatever form the identity has.
trait Reduction<T, R>: Sync {
    fn start(&self) -> R;
    fn step(&self, so_far: R, item: T) -> R;
    fn combine(&self, front: R, back: R) -> R;
}

struct Formed<I, M, C, Form>(Closures<I, M, C>, PhantomData<fn() -> Form>);

impl<T, R, Form, I, M, C> Reduction<T, R> for Formed<I, M, C, Form>
where
    I: Identity<R, Form>,
    M: Fn(T) -> R + Sync,
    C: Fn(R, R) -> R + Sync,
{
    fn start(&self) -> R {
        self.0.identity.make()
    }

    #[inline]
    fn step(&self, so_far: R, item: T) -> R {
        (self.0.reduce)(so_far, (self.0.map)(item))
    }

    fn combine(&self, front: R, back: R) -> R {
        (self.0.reduce)(front, back)
    }
}

/// What a part has come to, and how that is combined with another.
struct Partial<'f, R, C>(R, &'f C);

impl<'f, P: Divide, R: Send, C: Reduction<P::Item, R>> Work for Reduce<'f, P, R, C> {
    type Output = Partial<'f, R, C>;

    #[inline]
    fn left(&self) -> usize {
        self.parts.len()
    }

    #[inline]
    fn advance(&mut self, count: usize) {
        let closures = self.closures;
        let items = self.parts.take(count).iter();
        let start = self.so_far.take().unwrap_or_else(|| closures.start());
        self.so_far = Some(items.fold(start, |so_far, item| closures.step(so_far, item)));
    }

    fn split(self, at: usize) -> (Self, Self) {
        let (front, back) = self.parts.split(at);
        let back = Reduce { parts: back, so_far: None, closures: self.closures };
        (Reduce { parts: front, ..self }, back)
    }

    fn finish(self) -> Self::Output {
        let closures = self.closures;
        Partial(self.so_far.unwrap_or_else(|| closures.start()), closures)
    }

    fn combine(front: Self::Output, back: Self::Output) -> Self::Output {
        Partial(front.1.combine(front.0, back.0), front.1)
    }
}

/// Calls `map` with each item and combines the results by `reduce`, front with back, perhaps in parallel.
///
/// The order of arguments is that in which they come into play: the items, where to start, what is made of an item, and how
/// two of those become one. `identity` is a value (then it is cloned) or a closure that makes one, as for rayon's `reduce`;
/// a part of the loop starts with it, so `reduce` must leave unchanged what it is combined with. `reduce` must be associative; it
/// need not be commutative. Which results meet in which grouping differs from run to run: floating-point sums do in their last
/// digits.
///
/// # Panics
///
/// If a closure does: results made so far are dropped. If a range has more than [`usize::MAX`] integers.
///
/// ```
/// use raddle::par;
///
/// assert_eq!(par::map_reduce(1..=10_u64, 1, |n| n, |a, b| a * b), 3_628_800);
///
/// let words = ["warp", "and", "weft"];
/// let text = par::map_reduce(&words, String::new, |word| word.to_string(), |a, b| a + &b);
/// assert_eq!(text, "warpandweft");
/// ```
#[doc(alias = "fold", alias = "sum")]
#[track_caller]
pub fn map_reduce<Form, I, R, Id, M, C>(items: I, identity: Id, map: M, reduce: C) -> R
where
    I: Items,
    R: Send,
    Id: Identity<R, Form>,
    M: Fn(I::Item) -> R + Sync,
    C: Fn(R, R) -> R + Sync,
{
    let closures = Formed(Closures { identity, map, reduce }, PhantomData);
    let Partial(result, _) =
        run(Reduce { parts: items.parts(), so_far: None, closures: &closures });
    // Should it panic, the result is still dropped: what is being returned would be lost.
    drop(closures);
    result
}

struct Find<'f, P: Divide, F> {
    parts: P,
    f: &'f F,
    found: &'f AtomicBool,
    result: Option<P::Item>,
}

impl<P, F> Work for Find<'_, P, F>
where
    P: Divide<Item: Copy + Send>,
    F: Fn(P::Item) -> bool + Sync,
{
    type Output = Option<P::Item>;

    #[inline]
    fn left(&self) -> usize {
        // ORD: a hint; results come back by `join`.
        if self.found.load(Ordering::Relaxed) { 0 } else { self.parts.len() }
    }

    #[inline]
    fn advance(&mut self, count: usize) {
        if self.result.is_none() {
            self.result = self.parts.take(count).iter().find(|&item| (self.f)(item));
        }
        if self.result.is_some() {
            // ORD: as in `left`.
            self.found.store(true, Ordering::Relaxed);
        }
    }

    fn split(mut self, at: usize) -> (Self, Self) {
        let front = self.parts.take(at);
        (Find { parts: front, result: None, ..self }, self)
    }

    fn finish(self) -> Self::Output {
        self.result
    }

    fn combine(front: Self::Output, back: Self::Output) -> Self::Output {
        front.or(back)
    }
}

/// An item that `f` accepts, if there is one: any of them, not always the first. No more are asked once one is found, but
/// for those that a thread asks between two looks: 512 at most.
///
/// For slices that is a reference to the element, and `f` is given one, too.
///
/// # Panics
///
/// If `f` does, unless an item was found before its thread last looked. If a range has more than [`usize::MAX`] integers.
///
/// ```
/// use raddle::par;
///
/// assert_eq!(par::find_any(0..1_000_000_u64, |n| n * n == 998_001), Some(999));
/// assert_eq!(par::find_any(&["warp", "weft"], |word| word.ends_with('t')), Some(&"weft"));
/// ```
#[track_caller]
pub fn find_any<I, F>(items: I, f: F) -> Option<I::Item>
where
    I: Items<Item: Copy + Send>,
    F: Fn(I::Item) -> bool + Sync,
{
    let found = AtomicBool::new(false);
    run(Find { parts: items.parts(), f: &f, found: &found, result: None })
}

/// Whether `f` accepts any item. No more are asked once one is found, but for a few.
///
/// # Panics
///
/// As [`find_any`].
///
/// ```
/// assert!(raddle::par::any(&[1, 2, 3], |&n| n == 2));
/// ```
#[track_caller]
pub fn any<I, F>(items: I, f: F) -> bool
where
    I: Items<Item: Copy + Send>,
    F: Fn(I::Item) -> bool + Sync,
{
    find_any(items, f).is_some()
}

/// Whether `f` accepts every item. No more are asked once one is refused, but for a few.
///
/// # Panics
///
/// As [`find_any`].
///
/// ```
/// assert!(raddle::par::all(0..100, |n| n < 100));
/// ```
#[track_caller]
pub fn all<I, F>(items: I, f: F) -> bool
where
    I: Items<Item: Copy + Send>,
    F: Fn(I::Item) -> bool + Sync,
{
    !any(items, |item| !f(item))
}
