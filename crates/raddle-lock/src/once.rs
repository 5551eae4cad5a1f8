//! Values that are made once.
//!
//! | state | meaning |
//! |---|---|
//! | `EMPTY` | there is no value, and nobody makes one |
//! | `MAKING` | somebody makes it, and stands in the list of makers |
//! | `READY` | there is a value; nothing changes any more |
//!
//! **I1** The value is written by the one that moved the state from `EMPTY` to `MAKING`, and read after `READY` was seen.
//! **I2** All steps but that to `READY` are under the lock of the list, as are its makers and those who wait for them. Nothing
//! of a user's runs under it.

use crate::core::Patience;
use crate::deadlock;
use crate::queue::{Node, WAKE};
use raddle_sync::atomic::{AtomicU32, Ordering};
use raddle_sync::cell::UnsafeCell;
use raddle_sync::parker::Parker;
use raddle_sync::sync::Mutex;
use raddle_sync::{const_fn, strand, within};
use std::convert::Infallible;
use std::fmt;
use std::mem::{self, MaybeUninit};
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe, resume_unwind};
use std::ptr;

const EMPTY: u32 = 0;
const MAKING: u32 = 1;
const READY: u32 = 2;

/// One that makes the value of a state.
struct Maker {
    state: *const AtomicU32,
    strand: u32,
}

// SAFETY: the state is borrowed by the maker, and others may change it.
unsafe impl Send for Maker {}

/// The making of a value, for the code that is within it.
struct Making {
    state: *const AtomicU32,
    /// The one that this is within, or null.
    outer: *const Making,
}

/// The values within whose making the running code is, the innermost first.
fn values_within() -> Vec<*const AtomicU32> {
    let mut values = Vec::new();
    let mut making = within::current().cast::<Making>();
    // SAFETY: null, or of a `make` that has not returned: it waits for the running code, or is on its stack.
    while let Some(inner) = unsafe { making.as_ref() } {
        values.push(inner.state);
        making = inner.outer;
    }
    values
}

/// One that waits for the value of a state.
struct Waiter {
    state: *const AtomicU32,
    node: *const Node,
    /// The strands of its thread, all of which wait with it.
    strands: Vec<u32>,
    /// The values within whose making it waits.
    within: Vec<*const AtomicU32>,
}

// SAFETY: a node in the list is alive, and its parts that others touch are meant for that (Q2, Q3). The state is a name.
unsafe impl Send for Waiter {}

/// All that is being made, in the process. One list: values are made seldom.
pub(crate) struct Makers {
    makers: Vec<Maker>,
    waiters: Vec<Waiter>,
}

raddle_sync::lazy_static! {
    static MAKERS: Mutex<Makers> = Mutex::new(Makers { makers: Vec::new(), waiters: Vec::new() });
}

/// Locks the list.
#[cfg(all(unix, not(any(miri, raddle_model))))]
pub(crate) fn lock_all() -> raddle_sync::sync::MutexGuard<'static, Makers> {
    MAKERS.lock()
}

/// As which strands the calling thread has locks.
#[cfg(all(unix, not(any(miri, raddle_model))))]
pub(crate) type Names = Vec<u32>;

#[cfg(all(unix, not(any(miri, raddle_model))))]
pub(crate) fn names() -> Names {
    strand::with_local(|local| local.names())
}

impl Makers {
    /// In the child of a fork, where nobody waits: what others were making is not made.
    #[cfg(all(unix, not(any(miri, raddle_model))))]
    pub(crate) fn forget_others(&mut self, ours: &Names) {
        // Not freed: F5 of `fork`.
        self.waiters.drain(..).for_each(std::mem::forget);
        self.makers.retain(|maker| {
            let stays = ours.contains(&maker.strand);
            if !stays {
                // SAFETY: borrowed by the maker, until the fork.
                unsafe { &*maker.state }.store(EMPTY, Ordering::Relaxed); // I2
            }
            stays
        });
    }

    /// Whether what makes the value of `state` waits, by way of others, for one of `strands`, or for what is within the
    /// making of one of `values`.
    fn leads_to(
        &self,
        state: *const AtomicU32,
        strands: &[u32],
        values: &[*const AtomicU32],
    ) -> bool {
        let mut found = vec![state];
        let mut looked_at = 0;
        while let Some(&state) = found.get(looked_at) {
            looked_at += 1;
            let maker = self.makers.iter().find(|maker| ptr::eq(maker.state, state));
            let Some(maker) = maker else { continue };
            if strands.contains(&maker.strand) || values.contains(&state) {
                return true;
            }
            let waits = |waiter: &&Waiter| {
                waiter.strands.contains(&maker.strand) || waiter.within.contains(&state)
            };
            for waiter in self.waiters.iter().filter(waits) {
                if !found.contains(&waiter.state) {
                    found.push(waiter.state);
                }
            }
        }
        false
    }
}

/// A value that is made once, by whoever asks first.
///
/// ```
/// use raddle_lock::OnceLock;
///
/// static NAME: OnceLock<String> = OnceLock::new();
/// assert_eq!(NAME.get(), None);
/// assert_eq!(NAME.get_or_init(|| "weft".to_owned()), "weft");
/// assert_eq!(NAME.set("warp".to_owned()), Err("warp".to_owned()));
/// ```
///
/// What makes the value may fork, and wait. A thread of raddle's that waits takes on only what it waits for, so no
/// unrelated work comes to lie on top of the initialiser and asks for its value; others that ask wait, and give their
/// place in the pool away. But in a pool whose threads take on anything while they wait (`Waits::Host`) unrelated work may
/// come there: if it asks for the value it panics, as below. The initialiser is none the worse for that.
///
/// Where waiting could not end there is a panic instead: if the initialiser asks for its own value, also in a fork or a task of
/// a scope that another thread has stolen, if two ask for each other's, and if a task that runs on top of an initialiser asks
/// for its value. Not seen is a task that the initialiser has spawned, that another thread runs and that asks for the value
/// while the initialiser waits for it, nor a fork in what the initialiser runs by a snapshot of a context, or has follow a
/// future: the two wait for each other for ever.
///
/// Four bytes and the value. Asking costs a load once the value is there. As it drops a value that may not be there, and not an
/// `Option`, what it holds must outlive it strictly: of two values that refer to each other by such locks neither is
/// accepted, where the standard library's are.
pub struct OnceLock<T> {
    state: AtomicU32,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: sending it sends the value.
unsafe impl<T: Send> Send for OnceLock<T> {}
// SAFETY: one strand makes the value, others share it, and any may drop it (I1).
unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}

impl<T: UnwindSafe> UnwindSafe for OnceLock<T> {}
impl<T: RefUnwindSafe + UnwindSafe> RefUnwindSafe for OnceLock<T> {}

impl<T> OnceLock<T> {
    const_fn! {
        /// One without a value.
        pub const fn new() -> OnceLock<T> {
            OnceLock { state: AtomicU32::new(EMPTY), value: UnsafeCell::new(MaybeUninit::uninit()) }
        }
    }

    /// The value, if it is there.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // ORD: Acquire pairs with the Release in `make`: the value.
        (self.state.load(Ordering::Acquire) == READY).then(|| {
            self.value.with(|value| {
                // SAFETY: nobody writes after `READY` while `self` is borrowed (I1).
                let value = unsafe { &*value };
                // SAFETY: written before `READY` (I1).
                unsafe { value.assume_init_ref() }
            })
        })
    }

    /// The value, if it is there.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        (self.state.load(Ordering::Acquire) == READY).then(|| {
            self.value.with_mut(|value| {
                // SAFETY: `self` is borrowed exclusively.
                let value = unsafe { &mut *value };
                // SAFETY: written before `READY` (I1).
                unsafe { value.assume_init_mut() }
            })
        })
    }

    /// The value; made by `make`, if there is none and nobody makes it. If that panics there is still none, and the next
    /// one that asks tries again.
    ///
    /// # Panics
    ///
    /// If `make` does, or waiting for the value could not end; see [`OnceLock`].
    ///
    /// ```should_panic
    /// static SELF: raddle_lock::OnceLock<u32> = raddle_lock::OnceLock::new();
    /// SELF.get_or_init(|| SELF.get_or_init(|| 1) + 1); // would hang elsewhere
    /// ```
    #[inline]
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        match self.get() {
            Some(value) => value,
            None => match self.get_slow(|| Ok::<T, Infallible>(make())) {
                Ok(value) => value,
                Err(never) => match never {},
            },
        }
    }

    /// As [`get_or_init`](OnceLock::get_or_init), with a `make` that may fail. Then there is still no value, and the next one
    /// that asks tries again.
    ///
    /// # Panics
    ///
    /// As [`get_or_init`](OnceLock::get_or_init).
    ///
    /// ```
    /// let port = raddle_lock::OnceLock::new();
    /// assert!(port.get_or_try_init(|| "http".parse::<u16>()).is_err());
    /// assert_eq!(port.get_or_try_init(|| "80".parse::<u16>()), Ok(&80));
    /// ```
    pub fn get_or_try_init<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        match self.get() {
            Some(value) => Ok(value),
            None => self.get_slow(make),
        }
    }

    /// Gives it its value, if it has none; else gives `value` back. Waits for one who is making the value.
    ///
    /// # Panics
    ///
    /// If waiting could not end; see [`OnceLock`].
    pub fn set(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.get_or_init(|| value.take().expect("called once"));
        value.map_or(Ok(()), Err)
    }

    /// The value, if there is one.
    pub fn into_inner(mut self) -> Option<T> {
        self.take()
    }

    /// The value, if there is one, leaving none.
    pub fn take(&mut self) -> Option<T> {
        let state = mem::replace(&mut self.state, AtomicU32::new(EMPTY));
        (state.load(Ordering::Acquire) == READY).then(|| {
            self.value.with(|value| {
                // SAFETY: `self` is borrowed exclusively.
                let value = unsafe { &*value };
                // SAFETY: written before `READY`; the state says by now that it is not there.
                unsafe { value.assume_init_read() }
            })
        })
    }

    #[cold]
    fn get_slow<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        let state: *const AtomicU32 = &self.state;
        loop {
            let node = (self.state.load(Ordering::Relaxed) == MAKING).then(Node::new);
            let mut list = MAKERS.lock();
            // ORD: `Relaxed`: under the lock (I2), or looked at again by `get`.
            match self.state.load(Ordering::Relaxed) {
                EMPTY => {
                    self.state.store(MAKING, Ordering::Relaxed);
                    let name = strand::keep_name();
                    list.makers.push(Maker { state, strand: name.token() });
                    drop(list);
                    self.make(make)?;
                    return Ok(self.get().expect("made just now"));
                }
                MAKING => {
                    let strands = strand::with_local(|local| local.names());
                    let within = values_within();
                    if list.leads_to(state, &strands, &within) {
                        drop(list);
                        panic!("a value is asked for by what makes it, or by what that waits for");
                    }
                    let Some(node) = &node else { continue };
                    list.waiters.push(Waiter { state, node, strands, within });
                    drop(list);
                    self.sleep(node);
                }
                _ => {}
            }
            if let Some(value) = self.get() {
                return Ok(value);
            }
        }
    }

    /// Waits for the one that makes the value.
    fn sleep(&self, node: &Node) {
        let maker = || {
            let list = MAKERS.lock();
            let makers = list.makers.iter().filter(|maker| ptr::eq(maker.state, &self.state));
            makers.map(|maker| maker.strand).collect()
        };
        let address = ptr::from_ref(&self.state).addr();
        let what = deadlock::For { address, me: strand::token(), holders: &maker };
        if let Err(panic) = deadlock::sleep(&what, node, None, Patience::Until(None)) {
            let mut list = MAKERS.lock();
            let before = list.waiters.len();
            list.waiters.retain(|waiter| !ptr::eq(waiter.node, node));
            if list.waiters.len() < before {
                drop(list);
                resume_unwind(panic); // In the list no more, so that it may pass (Q2).
            }
            drop(list);
            deadlock::discard(Err(panic));
        }
    }

    /// Makes the value, or goes back to `EMPTY` if that fails or panics.
    fn make<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<(), E> {
        struct Ends<'a> {
            state: &'a AtomicU32,
            next: u32,
        }
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                let mut list = MAKERS.lock();
                // ORD: Release pairs with the Acquire in `get`: the value.
                self.state.store(self.next, Ordering::Release);
                list.makers.retain(|maker| !ptr::eq(maker.state, self.state));
                let mut parkers: Vec<&'static Parker> = Vec::new();
                list.waiters.retain(|waiter| {
                    let stays = !ptr::eq(waiter.state, self.state);
                    if !stays {
                        parkers.push(Node::signal(waiter.node, WAKE));
                    }
                    stays
                });
                drop(list); // Q4
                parkers.into_iter().for_each(Parker::unpark);
            }
        }
        let mut ends = Ends { state: &self.state, next: EMPTY };
        let making = Making { state: &self.state, outer: within::current().cast() };
        // SAFETY: a `Making`, which is what the locks take it for.
        let made = unsafe { within::run((&raw const making).cast(), make) }?;
        self.value.with_mut(|value| {
            // SAFETY: nobody else makes the value, or reads it before `READY` (I1).
            unsafe { (*value).write(made) };
        });
        ends.next = READY;
        Ok(())
    }
}

impl<T> Drop for OnceLock<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> OnceLock<T> {
        OnceLock::new()
    }
}

/// With the value that is there, if there is one.
impl<T: Clone> Clone for OnceLock<T> {
    fn clone(&self) -> OnceLock<T> {
        self.get().map_or_else(OnceLock::new, |value| OnceLock::from(value.clone()))
    }
}

impl<T: PartialEq> PartialEq for OnceLock<T> {
    fn eq(&self, other: &OnceLock<T>) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq> Eq for OnceLock<T> {}

impl<T> From<T> for OnceLock<T> {
    fn from(value: T) -> OnceLock<T> {
        OnceLock { state: AtomicU32::new(READY), value: UnsafeCell::new(MaybeUninit::new(value)) }
    }
}

impl<T: fmt::Debug> fmt::Debug for OnceLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            Some(value) => f.debug_tuple("OnceLock").field(value).finish(),
            None => f.write_str("OnceLock(<none>)"),
        }
    }
}

/// A value that is made when it is first asked for. As a [`OnceLock`] that knows how.
///
/// ```
/// use raddle_lock::LazyLock;
/// static NAMES: LazyLock<Vec<&str>> = LazyLock::new(|| vec!["warp", "weft"]);
/// assert_eq!(NAMES.len(), 2);
/// ```
///
/// # Panics
///
/// Asking for it panics as [`OnceLock::get_or_init`] does, and ever after once its initialiser has panicked.
pub struct LazyLock<T, F = fn() -> T> {
    once: OnceLock<T>,
    make: UnsafeCell<Option<F>>,
}

// SAFETY: the value is shared as that of a `OnceLock`; the initialiser is taken by the one strand that makes the value.
unsafe impl<T: Send + Sync, F: Send> Sync for LazyLock<T, F> {}

impl<T: RefUnwindSafe + UnwindSafe, F: UnwindSafe> RefUnwindSafe for LazyLock<T, F> {}

impl<T, F> LazyLock<T, F> {
    /// The value, if it has been made.
    #[inline]
    pub fn get(this: &Self) -> Option<&T> {
        this.once.get()
    }
}

impl<T, F: FnOnce() -> T> LazyLock<T, F> {
    const_fn! {
        /// One whose value `make` makes.
        pub const fn new(make: F) -> LazyLock<T, F> {
            LazyLock { once: OnceLock::new(), make: UnsafeCell::new(Some(make)) }
        }
    }

    /// The value, made now if need be.
    #[inline]
    pub fn force(this: &Self) -> &T {
        this.once.get_or_init(|| {
            let make = this.make.with_mut(|make| {
                // SAFETY: only the one that makes the value comes here, one at a time (I1).
                unsafe { &mut *make }.take()
            });
            make.expect("the initialiser of this value has panicked")()
        })
    }
}

impl<T, F: FnOnce() -> T> Deref for LazyLock<T, F> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        LazyLock::force(self)
    }
}

impl<T: Default> Default for LazyLock<T> {
    fn default() -> LazyLock<T> {
        LazyLock::new(T::default)
    }
}

impl<T: fmt::Debug, F> fmt::Debug for LazyLock<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.once.get() {
            Some(value) => f.debug_tuple("LazyLock").field(value).finish(),
            None => f.write_str("LazyLock(<none>)"),
        }
    }
}
