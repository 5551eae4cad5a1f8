//! Sizes, and which types may cross threads; checked when this file compiles.

#![cfg(not(raddle_model))]

use raddle_lock::{
    Condvar, HeaderGuard, LazyLock, LockStats, MappedMutexGuard, Mutex, MutexGuard, ObjectHeader,
    OnceLock, RawFairThinLock, RawRwLock, RawThinLock, ReentrantLock, ReentrantLockGuard, RwLock,
    RwLockReadGuard, RwLockUpgradableReadGuard, RwLockWriteGuard, WaitResult,
};
use std::cell::Cell;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::rc::Rc;

const _: () = {
    assert!(size_of::<RawThinLock>() == 4);
    assert!(align_of::<RawThinLock>() == 4);
    assert!(size_of::<RawFairThinLock>() == 4);
    assert!(size_of::<Mutex<()>>() == 4);
    assert!(size_of::<ObjectHeader>() == 4);
    assert!(align_of::<ObjectHeader>() == 4);
    assert!(size_of::<ReentrantLock<()>>() == 4);
    assert!(size_of::<Condvar>() == 4);
    assert!(size_of::<Option<HeaderGuard<'_>>>() == size_of::<usize>());
    assert!(size_of::<Mutex<u32>>() == 8);
    assert!(size_of::<Mutex<[u8; 4]>>() == 8);
    assert!(size_of::<Option<MutexGuard<'_, u32>>>() == size_of::<usize>());
};

static IN_A_STATIC: Mutex<u32> = Mutex::new(0);
const _: (ObjectHeader, ReentrantLock<u8>, Condvar, RawThinLock) =
    (ObjectHeader::new(), ReentrantLock::new(0), Condvar::new(), RawThinLock::new());

macro_rules! is {
    ($($t:ty: $bound:path),* $(,)?) => { $(const _: fn() = || {
        fn holds<T: ?Sized + $bound>() {}
        holds::<$t>();
    };)* };
}

/// Fails to compile, as ambiguous, if the type has the bound.
macro_rules! is_not {
    ($($t:ty: $bound:path),* $(,)?) => { $(const _: fn() = || {
        trait Ambiguous<A> { fn choose() {} }
        impl<T: ?Sized> Ambiguous<()> for T {}
        struct Bound;
        impl<T: ?Sized + $bound> Ambiguous<Bound> for T {}
        <$t as Ambiguous<_>>::choose();
    };)* };
}

// `Cell` is Send and not Sync, `Rc` is neither.
is! {
    RawThinLock: Send, RawThinLock: Sync,
    RawFairThinLock: Send, RawFairThinLock: Sync,
    Mutex<u32>: Send, Mutex<u32>: Sync,
    Mutex<Cell<u32>>: Send, Mutex<Cell<u32>>: Sync,
    Mutex<dyn Send>: Sync,
    MutexGuard<'static, u32>: Sync,
    MappedMutexGuard<'static, u32>: Sync,
    ObjectHeader: Send, ObjectHeader: Sync,
    Condvar: Send, Condvar: Sync,
    ReentrantLock<Cell<u32>>: Send, ReentrantLock<Cell<u32>>: Sync,
    ReentrantLockGuard<'static, u32>: Sync,
    HeaderGuard<'static>: Sync,
    WaitResult: Send, LockStats: Send,
}
// Nothing is poisoned: what a lock guards may be looked at after a panic. What gives shared access only says by its value.
is! {
    Mutex<Cell<u32>>: UnwindSafe, Mutex<Cell<u32>>: RefUnwindSafe,
    RwLock<Cell<u32>>: UnwindSafe, RwLock<Cell<u32>>: RefUnwindSafe,
    ReentrantLock<u32>: UnwindSafe, ReentrantLock<u32>: RefUnwindSafe,
    OnceLock<u32>: UnwindSafe, OnceLock<u32>: RefUnwindSafe,
    LazyLock<u32>: UnwindSafe, LazyLock<u32>: RefUnwindSafe,
    Condvar: UnwindSafe, Condvar: RefUnwindSafe,
    ObjectHeader: UnwindSafe, ObjectHeader: RefUnwindSafe,
    RawThinLock: UnwindSafe, RawThinLock: RefUnwindSafe,
    RawFairThinLock: UnwindSafe, RawFairThinLock: RefUnwindSafe,
    RawRwLock: UnwindSafe, RawRwLock: RefUnwindSafe,
    MutexGuard<'static, Cell<u32>>: UnwindSafe,
    RwLockReadGuard<'static, Cell<u32>>: UnwindSafe,
    RwLockWriteGuard<'static, Cell<u32>>: UnwindSafe,
    RwLockUpgradableReadGuard<'static, Cell<u32>>: UnwindSafe,
    HeaderGuard<'static>: UnwindSafe,
}
is_not! {
    ReentrantLock<Cell<u32>>: RefUnwindSafe,
    OnceLock<Cell<u32>>: RefUnwindSafe,
    LazyLock<Cell<u32>>: RefUnwindSafe,
}
is_not! {
    Mutex<Rc<u32>>: Send, Mutex<Rc<u32>>: Sync,
    MutexGuard<'static, u32>: Send,
    MutexGuard<'static, Cell<u32>>: Sync,
    MappedMutexGuard<'static, u32>: Send,
    MappedMutexGuard<'static, Cell<u32>>: Sync,
    HeaderGuard<'static>: Send,
    ReentrantLock<Rc<u32>>: Send, ReentrantLock<Rc<u32>>: Sync,
    ReentrantLockGuard<'static, u32>: Send,
    ReentrantLockGuard<'static, Cell<u32>>: Sync,
}

#[test]
fn a_static_mutex_needs_no_initialisation() {
    *IN_A_STATIC.lock() += 1;
    assert_eq!(*IN_A_STATIC.lock(), 1);
}
