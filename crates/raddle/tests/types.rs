//! Which types may cross threads, and how large they are; checked when this file compiles.

use std::cell::Cell;
use std::rc::Rc;

use raddle::{
    Binding, BindingRef, Failure, Future, Killed, Outcome, Pool, PoolBuildError, PoolBuilder,
    Scope, ScopeLocal, Snapshot, TaskId, Worker,
};

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
    Failure: Send, Failure: Sync,
    // A shared future gives no reference to its value, so the value need not be Sync.
    Future<u32>: Send, Future<u32>: Sync,
    Future<Cell<u32>>: Send, Future<Cell<u32>>: Sync,
    PoolBuildError: Send, PoolBuildError: Sync, PoolBuildError: std::error::Error,
    TaskId: Send, TaskId: Sync,
    Outcome: Send, Outcome: Sync,
    Killed: Send, Killed: Sync,
    // The key is everybody's, whatever its values are.
    ScopeLocal<Rc<u32>>: Send, ScopeLocal<Rc<u32>>: Sync,
    Snapshot: Send, Snapshot: Sync,
    Binding<u32>: Send, Binding<u32>: Sync,
    BindingRef<'static, u32>: Send,
}
is_not! {
    Worker: Send, Worker: Sync,
    Future<Rc<u32>>: Send, Future<Rc<u32>>: Sync,
    Binding<Cell<u32>>: Send, Binding<Cell<u32>>: Sync,
    BindingRef<'static, Cell<u32>>: Send,
    // It holds the function that names threads, which is called by `build` and need not be Send.
    PoolBuilder: Send, PoolBuilder: Sync,
    // So that any error converts into one: `From<E: Error>` leaves no room for it.
    Failure: std::error::Error,
}
