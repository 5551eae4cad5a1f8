//! [`ScopeLocal`], and how it is bound.

use std::fmt;
use std::marker::PhantomData;

use crate::local::block::Block;
use crate::local::frame::{Cold, Frame};
use crate::local::key::KeyId;
use crate::local::{self, Place, Restore, Thread};

/// Declares scope locals.
///
/// ```
/// raddle::scope_local! {
///     /// Who asked.
///     pub static USER: String;
///     static DEPTH: u32;
/// }
/// assert!(!USER.is_bound());
/// assert_eq!(DEPTH.bind(3).run(|| DEPTH.get()), Some(3));
/// ```
#[macro_export]
macro_rules! scope_local {
    ($($(#[$meta:meta])* $vis:vis static $name:ident: $t:ty);* $(;)?) => {
        $($(#[$meta])* $vis static $name: $crate::ScopeLocal<$t> =
            $crate::ScopeLocal::new(::std::stringify!($name));)*
    };
}

/// A variable that is bound for the time of a call, for all code that runs on behalf of it: what it calls, forks,
/// spawns and attaches, on whichever thread.
///
/// Declared with [`scope_local!`](crate::scope_local). A task sees what its parent saw when it
/// was forked, spawned or attached, and nothing else. Bindings do not change: to bind again hides the outer one
/// for the time of the inner call.
///
/// Inheriting costs nothing in [`join`](crate::join()) and [`scope`](crate::scope()); one atomic
/// increment in [`spawn`](crate::spawn()) and operations on pending futures, if anything is bound. Reading
/// costs the same however deep bindings nest.
///
/// ```
/// use raddle::{join, scope_local, spawn};
///
/// scope_local! { static USER: String; }
///
/// USER.bind("ada".into()).run(|| {
///     let (a, b) = join(|| USER.with(String::len), || spawn(|| USER.get()).wait());
///     assert_eq!((a, b.unwrap()), (3, Some("ada".to_string())));
/// });
/// assert!(USER.get().is_none());
/// ```
///
/// It is invariant in `T`, as a cell is: values go in and come out. With a subtype put in where the type itself
/// comes out, this would keep a string that is gone:
///
/// ```compile_fail,E0308
/// use raddle::{ScopeLocal, scope_local};
/// type TakesAny = for<'a> fn(&'a str);
/// type TakesStatic = fn(&'static str);
///
/// scope_local! { static SINK: TakesAny; }
///
/// let narrowed: &'static ScopeLocal<TakesStatic> = &SINK;
/// narrowed.bind(|kept: &'static str| println!("{kept}")).run(|| SINK.with(|sink| sink(&String::from("gone"))));
/// ```
///
/// Nor may a type come out that was not put in:
///
/// ```compile_fail,E0308
/// use raddle::{ScopeLocal, scope_local};
/// scope_local! { static SINK: fn(&'static str); }
/// let widened: &'static ScopeLocal<for<'a> fn(&'a str)> = &SINK;
/// ```
pub struct ScopeLocal<T: 'static> {
    name: &'static str,
    id: KeyId,
    /// Invariant in `T`: `bind` puts one in, `with` takes one out. A key whatever its values are, so `Send`
    /// and `Sync`: those that cross threads are bound by what says so.
    _value: PhantomData<fn(T) -> T>,
}

impl<T: 'static> ScopeLocal<T> {
    /// A local of this name; see [`scope_local!`](crate::scope_local).
    #[doc(hidden)]
    pub const fn new(name: &'static str) -> ScopeLocal<T> {
        ScopeLocal { name, id: KeyId::new(), _value: PhantomData }
    }

    /// A pointer to the value, null if it is unbound.
    #[inline(always)]
    fn value(&self) -> *const T {
        // SAFETY: X1.
        match unsafe { Frame::of_word(local::current()) } {
            Some(frame) => frame.get(self.id.get()).cast(),
            None => std::ptr::null(),
        }
    }

    /// Calls `f` with the value.
    ///
    /// # Panics
    ///
    /// If it is not bound.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        // SAFETY: X2: alive while the running code is.
        match unsafe { self.value().as_ref() } {
            Some(value) => f(value),
            None => self.unbound(),
        }
    }

    /// Calls `f` with the value if it is bound.
    #[inline]
    pub fn try_with<R>(&self, f: impl FnOnce(&T) -> R) -> Option<R> {
        // SAFETY: as in `with`.
        unsafe { self.value().as_ref() }.map(f)
    }

    /// A clone of the value if it is bound.
    #[inline]
    pub fn get(&self) -> Option<T>
    where
        T: Clone,
    {
        self.try_with(T::clone)
    }

    /// Whether it is bound.
    #[inline]
    pub fn is_bound(&self) -> bool {
        !self.value().is_null()
    }

    #[cold]
    #[inline(never)]
    fn unbound(&self) -> ! {
        panic!(
            "the scope local `{}` is not bound here (bindings by reference do not reach spawned \
             tasks and continuations)",
            self.name
        )
    }

    /// Binds a reference, for [`run`](Bindings::run): for code that is called, and for what it
    /// forks with `join` or spawns in a `scope`. What may outlive the call, spawned tasks and continuations, does
    /// not inherit it: there the local is unbound.
    ///
    /// The value need not live longer than the call, and nothing is allocated (from the ninth local of a program on, a list is):
    ///
    /// ```
    /// use raddle::{join, scope_local};
    ///
    /// scope_local! { static WORDS: Vec<String>; }
    ///
    /// let words = vec!["warp".to_string(), "weft".to_string()];
    /// let (a, b) = WORDS.bind_ref(&words).run(|| {
    ///     join(|| WORDS.with(|w| w[0].len()), || WORDS.with(|w| w[1].len()))
    /// });
    /// assert_eq!(a + b, 8);
    /// ```
    ///
    /// What is borrowed cannot leave the call, neither by what [`with`](ScopeLocal::with) returns
    ///
    /// ```compile_fail
    /// raddle::scope_local! { static WORD: String; }
    /// let word = String::from("warp");
    /// let escaped: &String = WORD.bind_ref(&word).run(|| WORD.with(|w| w));
    /// ```
    ///
    /// nor by what it stores elsewhere
    ///
    /// ```compile_fail,E0521
    /// raddle::scope_local! { static WORD: String; }
    /// let mut escaped: Option<&String> = None;
    /// WORD.try_with(|w| escaped = Some(w));
    /// ```
    ///
    /// nor with a spawned task
    ///
    /// ```compile_fail,E0521
    /// raddle::scope_local! { static WORD: String; }
    /// WORD.with(|w| raddle::spawn(move || w.len()));
    /// ```
    ///
    /// nor with a continuation
    ///
    /// ```compile_fail,E0521
    /// raddle::scope_local! { static WORD: String; }
    /// let (_promise, future) = raddle::Promise::<()>::new();
    /// WORD.with(|w| future.map(move |()| w.len()));
    /// ```
    ///
    /// nor with a thread
    ///
    /// ```compile_fail,E0521
    /// raddle::scope_local! { static WORD: String; }
    /// WORD.with(|w| std::thread::spawn(move || w.len()));
    /// ```
    ///
    /// nor with a task of a scope that is wider than the call.
    ///
    /// ```compile_fail,E0521
    /// raddle::scope_local! { static WORD: String; }
    /// raddle::scope(|s| WORD.with(|w| s.spawn(move |_| println!("{w}"))));
    /// ```
    ///
    /// (A continuation on what is done already runs at once, within the call: there the local is bound. Unless such calls are nested so deep
    /// that the next are put off: see the operations of [`Future`](crate::Future).)
    ///
    /// Nor can the value go, move or change while it is bound:
    ///
    /// ```compile_fail,E0597
    /// raddle::scope_local! { static WORD: String; }
    /// let bindings = {
    ///     let word = String::from("warp");
    ///     WORD.bind_ref(&word)
    /// };
    /// bindings.run(|| WORD.get());
    /// ```
    ///
    /// ```compile_fail,E0505
    /// raddle::scope_local! { static WORD: String; }
    /// let word = String::from("warp");
    /// WORD.bind_ref(&word).run(|| drop(word));
    /// ```
    ///
    /// ```compile_fail,E0502
    /// raddle::scope_local! { static WORD: String; }
    /// let mut word = String::from("warp");
    /// WORD.bind_ref(&word).run(|| word.push('s'));
    /// ```
    ///
    /// Forks on other threads read it, so it must be `Sync`:
    ///
    /// ```compile_fail,E0277
    /// raddle::scope_local! { static COUNT: std::cell::Cell<u32>; }
    /// COUNT.bind_ref(&std::cell::Cell::new(1)).run(|| ());
    /// ```
    #[inline]
    pub fn bind_ref<'a>(&'static self, value: &'a T) -> Bindings<Unbound, Borrowed<'a, T>>
    where
        T: Sync,
    {
        Bindings::new(Unbound, self, Borrowed(value))
    }

    /// Binds a value, for [`run`](Bindings::run): for all code that is called, forked, spawned or attached
    /// there, as long as that lives.
    ///
    /// One allocation, for the value, which is dropped when the last task that inherited it is done.
    ///
    /// ```
    /// raddle::scope_local! { static USER: String; static ATTEMPT: u32; }
    ///
    /// let text = USER.bind("ada".into()).bind_also(&ATTEMPT, 2).run(|| {
    ///     format!("{} {}", USER.get().unwrap(), ATTEMPT.get().unwrap())
    /// });
    /// assert_eq!(text, "ada 2");
    /// ```
    ///
    /// Tasks on other threads share it, and the last of them drops it, so it must be `Sync` and `Send`:
    ///
    /// ```compile_fail,E0277
    /// raddle::scope_local! { static COUNT: std::cell::Cell<u32>; }
    /// COUNT.bind(std::cell::Cell::new(1)).run(|| ());
    /// ```
    ///
    /// ```compile_fail,E0277
    /// raddle::scope_local! { static GUARD: std::sync::MutexGuard<'static, u32>; }
    /// static LOCK: std::sync::Mutex<u32> = std::sync::Mutex::new(1);
    /// GUARD.bind(LOCK.lock().unwrap()).run(|| ());
    /// ```
    ///
    /// And as a task may live as long as it likes, it cannot hold a borrow; [`bind_ref`](ScopeLocal::bind_ref) is
    /// for those.
    ///
    /// ```compile_fail,E0597
    /// raddle::scope_local! { static WORD: &'static str; }
    /// let word = String::from("warp");
    /// WORD.bind(&word).run(|| ());
    /// ```
    #[doc(alias = "let")]
    #[doc(alias = "where")]
    #[inline]
    pub fn bind(&'static self, value: T) -> Bindings<Unbound, Owned<T>>
    where
        T: Send + Sync,
    {
        Bindings::new(Unbound, self, Owned(Block::new(value)))
    }
}

impl<T> fmt::Debug for ScopeLocal<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ScopeLocal").field(&self.name).finish()
    }
}

/// Bindings to be, made by [`ScopeLocal::bind`] and [`ScopeLocal::bind_ref`].
#[must_use = "bindings hold while `run` runs"]
pub struct Bindings<P, B> {
    before: P,
    id: usize,
    value: B,
}

/// Bindings that begin with an owned value.
pub type Binding<T> = Bindings<Unbound, Owned<T>>;
/// Bindings that begin with a reference.
pub type BindingRef<'a, T> = Bindings<Unbound, Borrowed<'a, T>>;

/// No bindings yet.
#[derive(Debug)]
pub struct Unbound;

/// A value that tasks share.
pub struct Owned<T>(Block<T>);

impl<T> fmt::Debug for Owned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owned").finish_non_exhaustive()
    }
}

/// A value that is borrowed.
#[derive(Debug)]
pub struct Borrowed<'a, T>(&'a T);

impl<P: Bind, B: Value> Bindings<P, B> {
    #[inline]
    fn new<T>(before: P, local: &'static ScopeLocal<T>, value: B) -> Bindings<P, B> {
        Bindings { before, id: local.id.assign(), value }
    }

    /// Binds a value as well, as by [`ScopeLocal::bind`]. If it is the same local, the later binding holds.
    #[inline]
    pub fn bind_also<T: Send + Sync>(
        self,
        local: &'static ScopeLocal<T>,
        value: T,
    ) -> Bindings<Bindings<P, B>, Owned<T>> {
        Bindings::new(self, local, Owned(Block::new(value)))
    }

    /// Binds a reference as well, as by [`ScopeLocal::bind_ref`].
    #[inline]
    pub fn bind_ref_also<'a, T: Sync>(
        self,
        local: &'static ScopeLocal<T>,
        value: &'a T,
    ) -> Bindings<Bindings<P, B>, Borrowed<'a, T>> {
        Bindings::new(self, local, Borrowed(value))
    }

    /// Calls `f` with these bindings. They end when it returns or panics; what is borrowed is unbound for
    /// everybody then, what is owned lives on in tasks that inherited it.
    #[inline]
    pub fn run<R>(self, f: impl FnOnce() -> R) -> R {
        let mut cold = Cold::default();
        let place = Place::here();
        // SAFETY: X1: the running code's.
        let mut frame = unsafe { Frame::copy_of(place.context().get(), Thread::current()) };
        self.bind(&mut Target { frame: &mut frame, cold: &mut cold });
        // SAFETY: X1: dropped before the frame and the values (X3).
        let _restore = unsafe { Restore::at(place, frame.word()) };
        f()
    }
}

impl<P, B> fmt::Debug for Bindings<P, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bindings").finish_non_exhaustive()
    }
}

/// What can be put into a frame.
pub trait Bind: sealed::Sealed {
    #[doc(hidden)]
    fn bind(&self, target: &mut Target<'_>);
}

/// A frame in the making.
#[doc(hidden)]
#[derive(Debug)]
pub struct Target<'a> {
    frame: &'a mut Frame,
    cold: &'a mut Cold,
}

/// What a slot can point to.
pub trait Value: sealed::Sealed {
    #[doc(hidden)]
    fn pointer(&self) -> *const ();
    #[doc(hidden)]
    const OWNED: bool;
}

impl Bind for Unbound {
    #[inline(always)]
    fn bind(&self, _: &mut Target<'_>) {}
}

impl<P: Bind, B: Value> Bind for Bindings<P, B> {
    #[inline]
    fn bind(&self, target: &mut Target<'_>) {
        self.before.bind(target);
        target.frame.set(self.id, self.value.pointer(), B::OWNED, target.cold);
    }
}

impl<T> Value for Owned<T> {
    const OWNED: bool = true;

    #[inline(always)]
    fn pointer(&self) -> *const () {
        self.0.pointer()
    }
}

impl<T> Value for Borrowed<'_, T> {
    const OWNED: bool = false;

    #[inline(always)]
    fn pointer(&self) -> *const () {
        (self.0 as *const T).cast()
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Unbound {}
    impl<T> Sealed for super::Owned<T> {}
    impl<T> Sealed for super::Borrowed<'_, T> {}
    impl<P, B> Sealed for super::Bindings<P, B> {}
}
