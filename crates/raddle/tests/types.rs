//! Which types may cross threads, how large they are, and which stand for which; checked when this file compiles.
//!
//! What must not compile has a `compile_fail` example in the documentation of its type.

use std::cell::Cell;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::rc::Rc;
use std::sync::MutexGuard as StdGuard;

use raddle::lock::{
    Condvar, Deadlock, HeaderGuard, LockStats, MappedMutexGuard, Mutex, MutexGuard, ObjectHeader,
    RawThinLock, ReentrantLock, ReentrantLockGuard, Wait, WaitResult,
};
use raddle::trace::RegionGuard;
use raddle::{
    AsCompleted, Binding, BindingRef, BroadcastContext, CancelOnDrop, CurrentPool, Failure,
    FailureKind, Future, Interrupt, Killed, Outcome, Pool, PoolBuildError, PoolBuilder, PoolStats,
    Promise, Scope, ScopeLocal, Shared, SharedPromise, Snapshot, TaskId, Waits, Worker,
};
use raddle_sync::affinity::WakeAffinity;
use raddle_sync::cell::UnsafeCell;
use raddle_sync::parker::{Parker, ParkerLease};
use raddle_sync::strand::{Abandoned, Dispenser, ForeignStrand, Local, StrandId};
use raddle_sync::{spin::Backoff, sync};

const _: () = {
    assert!(size_of::<Failure>() == size_of::<usize>());
    assert!(size_of::<Pool>() == size_of::<usize>());
};

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
    Pool: Send, Pool: Sync,
    Scope<'static>: Send, Scope<'static>: Sync,
    Failure: Send, Failure: Sync, Failure: std::error::Error, Interrupt: std::error::Error,
    // What `catch_unwind` asks for, so that one may resume within it, or wait.
    Failure: UnwindSafe, Failure: RefUnwindSafe, Interrupt: UnwindSafe, Interrupt: RefUnwindSafe,
    Future<Cell<u32>>: UnwindSafe, Future<Cell<u32>>: RefUnwindSafe,
    Shared<Cell<u32>>: UnwindSafe, Shared<Cell<u32>>: RefUnwindSafe,
    Promise<Cell<u32>>: UnwindSafe, SharedPromise<Cell<u32>>: UnwindSafe, CancelOnDrop<u32>: UnwindSafe,
    Pool: UnwindSafe, Pool: RefUnwindSafe, Scope<'static>: RefUnwindSafe, Worker: RefUnwindSafe,
    ScopeLocal<Rc<u32>>: RefUnwindSafe,
    // What async Rust and its combinators ask for.
    Future<Cell<u32>>: std::future::Future, Future<std::marker::PhantomPinned>: Unpin,
    CancelOnDrop<u32>: std::future::Future, Shared<u32>: IntoFuture,
    // A shared future gives no reference to its value, so the value need not be Sync.
    Future<u32>: Send, Future<u32>: Sync,
    Future<Cell<u32>>: Send, Future<Cell<u32>>: Sync,
    // As futures: whoever has the promise gives the value away; consumers of a shared one get clones.
    Promise<u32>: Send, Promise<u32>: Sync,
    Promise<Cell<u32>>: Send, Promise<Cell<u32>>: Sync,
    Shared<u32>: Send, Shared<u32>: Sync,
    CancelOnDrop<Cell<u32>>: Send, CancelOnDrop<Cell<u32>>: Sync,
    SharedPromise<Cell<u32>>: Send, SharedPromise<Cell<u32>>: Sync,
    AsCompleted<Cell<u32>>: Send,
    Interrupt: Send, Interrupt: Sync, FailureKind: Send, FailureKind: Sync,
    // Two numbers.
    BroadcastContext: Send, BroadcastContext: Sync,
    PoolStats: Send, PoolStats: Sync, Waits: Send, Waits: Sync,
    PoolBuildError: Send, PoolBuildError: Sync, PoolBuildError: std::error::Error,
    TaskId: Send, TaskId: Sync,
    Outcome: Send, Outcome: Sync,
    Killed: Send, Killed: Sync,
    // The key is everybody's, whatever its values are.
    ScopeLocal<Rc<u32>>: Send, ScopeLocal<Rc<u32>>: Sync,
    // What is bound so that it may be in a snapshot is Send and Sync.
    Snapshot: Send, Snapshot: Sync,
    // A share of a value, as an `Arc`; a reference, as `&T`.
    Binding<u32>: Send, Binding<u32>: Sync,
    BindingRef<'static, u32>: Send, BindingRef<'static, u32>: Sync,
    // Sync and not Send: others see it, and do not get it.
    BindingRef<'static, StdGuard<'static, u32>>: Send,
}
is_not! {
    Worker: Send, Worker: Sync,
    // Of this thread, for which the pool waits.
    CurrentPool: Send, CurrentPool: Sync,
    // It ends the region on the thread that began it.
    RegionGuard: Send, RegionGuard: Sync,
    Promise<Rc<u32>>: Send, Promise<Rc<u32>>: Sync,
    Shared<Rc<u32>>: Send, Shared<Rc<u32>>: Sync,
    Future<Rc<u32>>: Send, Future<Rc<u32>>: Sync,
    Binding<Cell<u32>>: Send, Binding<Cell<u32>>: Sync,
    // Sync alone is not enough: the last task drops the value, wherever it runs.
    Binding<StdGuard<'static, u32>>: Send, Binding<StdGuard<'static, u32>>: Sync,
    BindingRef<'static, Cell<u32>>: Send, BindingRef<'static, Cell<u32>>: Sync,
    // It holds the function that names threads, which is called by `build` and need not be Send.
    PoolBuilder: Send, PoolBuilder: Sync,
}

// Locks.
is! {
    // A lock hands its value from thread to thread, and never to two: Send is enough, for re-entrant ones too, whose
    // guards are all on one thread.
    Mutex<Cell<u32>>: Send, Mutex<Cell<u32>>: Sync,
    ReentrantLock<Cell<u32>>: Send, ReentrantLock<Cell<u32>>: Sync,
    ObjectHeader: Send, ObjectHeader: Sync,
    RawThinLock: Send, RawThinLock: Sync,
    Condvar: Send, Condvar: Sync,
    // A shared guard is a reference to its value.
    MutexGuard<'static, u32>: Sync,
    MappedMutexGuard<'static, u32>: Sync,
    ReentrantLockGuard<'static, u32>: Sync,
    HeaderGuard<'static>: Sync,
    // Numbers and texts.
    Deadlock: Send, Deadlock: Sync, Wait: Send, Wait: Sync,
    LockStats: Send, LockStats: Sync, WaitResult: Send, WaitResult: Sync,
}
is_not! {
    Mutex<Rc<u32>>: Send, Mutex<Rc<u32>>: Sync,
    ReentrantLock<Rc<u32>>: Send, ReentrantLock<Rc<u32>>: Sync,
    // They belong to a strand, which stays on its thread.
    MutexGuard<'static, u32>: Send,
    MappedMutexGuard<'static, u32>: Send,
    ReentrantLockGuard<'static, u32>: Send,
    HeaderGuard<'static>: Send,
    MutexGuard<'static, Cell<u32>>: Sync,
    MappedMutexGuard<'static, Cell<u32>>: Sync,
    ReentrantLockGuard<'static, Cell<u32>>: Sync,
}

// The ground.
is! {
    Parker: Send, Parker: Sync,
    // Whoever has a lease may park, and one at a time does: but that is no matter of memory.
    ParkerLease: Send, ParkerLease: Sync,
    WakeAffinity: Send, WakeAffinity: Sync,
    StrandId: Send, StrandId: Sync, Dispenser: Send, Dispenser: Sync,
    Abandoned: Send, Abandoned: Sync,
    Backoff: Send, Backoff: Sync,
    sync::Mutex<Cell<u32>>: Send, sync::Mutex<Cell<u32>>: Sync,
    sync::Condvar: Send, sync::Condvar: Sync,
    UnsafeCell<Cell<u32>>: Send,
}
is_not! {
    sync::Mutex<Rc<u32>>: Send, sync::Mutex<Rc<u32>>: Sync,
    UnsafeCell<u32>: Sync,
    // What the thread runs as.
    ForeignStrand: Send, ForeignStrand: Sync,
    Local: Sync,
}

/// Types that stand for others: each of these functions is a coercion without any code. A value of what takes any
/// string is one of what takes strings that live for ever, and a longer borrow is a shorter one.
#[allow(dead_code, reason = "compiled")]
mod variance {
    use super::*;

    type TakesAny = for<'a> fn(&'a str);
    type TakesStatic = fn(&'static str);

    // A binding gives its value to the slot of its key and to nobody else, and takes none: covariant as `Arc<T>`
    // and `&T` are. The key itself is invariant.
    fn binding(b: Binding<TakesAny>) -> Binding<TakesStatic> {
        b
    }
    fn binding_ref<'short>(b: BindingRef<'static, TakesAny>) -> BindingRef<'short, TakesStatic> {
        b
    }
    fn binding_ref_of_borrows<'short>(
        b: BindingRef<'static, &'static str>,
    ) -> BindingRef<'short, &'short str> {
        b
    }

    // A guard may count as one for a shorter time, when it lets go all the same; in its value it is invariant.
    fn mutex_guard<'short, T>(g: MutexGuard<'static, T>) -> MutexGuard<'short, T> {
        g
    }
    fn mapped<'short, T>(g: MappedMutexGuard<'static, T>) -> MappedMutexGuard<'short, T> {
        g
    }
    fn reentrant<'short, T>(g: ReentrantLockGuard<'static, T>) -> ReentrantLockGuard<'short, T> {
        g
    }
    fn header<'short>(g: HeaderGuard<'static>) -> HeaderGuard<'short> {
        g
    }
}
