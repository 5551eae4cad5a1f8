//! Which types may cross threads, and which may not: checked when this file compiles.

use std::fmt::Debug;

use rayon_core::*;

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

is! {
    ThreadPool: Send, ThreadPool: Sync, ThreadPool: Debug,
    Scope<'static>: Send, Scope<'static>: Sync, Scope<'static>: Debug,
    ScopeFifo<'static>: Send, ScopeFifo<'static>: Sync, ScopeFifo<'static>: Debug,
    ThreadPoolBuildError: Send, ThreadPoolBuildError: Sync, ThreadPoolBuildError: std::error::Error,
    Yield: Send, Yield: Sync, Yield: Copy, Yield: Eq, Yield: Debug,
    // It goes to its thread.
    ThreadBuilder: Send, ThreadBuilder: Debug,
    ThreadPoolBuilder: Debug, ThreadPoolBuilder: Default,
    FnContext: Debug, BroadcastContext<'static>: Debug,
}
is_not! {
    // What names threads need not be either.
    ThreadPoolBuilder: Send, ThreadPoolBuilder: Sync, ThreadPoolBuilder: Clone,
    ThreadBuilder: Sync, ThreadBuilder: Clone,
    // Of one call, on one thread.
    FnContext: Send, FnContext: Sync, FnContext: Clone,
    BroadcastContext<'static>: Send, BroadcastContext<'static>: Sync, BroadcastContext<'static>: Clone,
    ThreadPool: Clone, Scope<'static>: Clone, ScopeFifo<'static>: Clone, ThreadPoolBuildError: Clone,
}

#[allow(deprecated)]
mod former {
    use super::*;

    is! { Configuration: Debug, Configuration: Default }
    is_not! { Configuration: Send, Configuration: Sync, Configuration: Clone }
}
