//! The types that are invariant, each with its reason: neither may `Of<Any>` stand for `Of<Static>`, though one that takes
//! any string is one that takes those that live for ever, nor the other way round. `tests/types.rs` has the others.
//!
//! The example that compiles is there so that the others fail for no misspelling.

macro_rules! example {
    ($how:literal, $of:literal, $coerces:literal, $more:literal) => {
        concat!(
            "```",
            $how,
            "\ntype Any = for<'a> fn(&'a str);\ntype Static = fn(&'static str);\ntype Of<X> = ",
            $of,
            ";\nfn ",
            $coerces,
            " { it }\n",
            $more,
            "\n```\n",
        )
    };
}

macro_rules! invariant {
    ($($name:ident: $of:literal),* $(,)?) => {$(
        #[doc = example!("", $of, "any(it: Of<Any>) -> Of<Any>", "fn fixed(it: Of<Static>) -> Of<Static> { it }")]
        #[doc = example!("compile_fail,E0308", $of, "narrow(it: Of<Any>) -> Of<Static>", "")]
        #[doc = example!("compile_fail,E0308", $of, "widen(it: Of<Static>) -> Of<Any>", "")]
        pub struct $name;
    )*};
}

invariant! {
    // Whoever has the future takes what goes in here for what was promised.
    Promise: "raddle::Promise<X>",
    SharedPromise: "raddle::SharedPromise<X>",
    // Each clone of a `Shared` makes promises that all others find in the one list. They are completed with what the source
    // gave, so that a narrower type would do; but the list is behind a lock.
    Shared: "raddle::Shared<X>",
    // The same goes for the list of what is done.
    AsCompleted: "raddle::AsCompleted<X>",
    // `bind` puts one in, `with` takes one out.
    ScopeLocal: "raddle::ScopeLocal<X>",

    // What one puts in by way of a shared reference another takes out.
    Mutex: "raddle::lock::Mutex<X>",
    RwLock: "raddle::lock::RwLock<X>",
    OnceLock: "raddle::lock::OnceLock<X>",
    LazyLock: "raddle::lock::LazyLock<X, fn() -> u32>",
    // Put in by whoever makes the lock, and taken out once: a covariant cell would do, which Rust has not.
    LazyLockByFunction: "raddle::lock::LazyLock<u32, X>",
    // Its guards give shared access only: here, too.
    ReentrantLock: "raddle::lock::ReentrantLock<X>",
    ReentrantLockGuard: "raddle::lock::ReentrantLockGuard<'static, X>",

    // As `&mut T`.
    MutexGuard: "raddle::lock::MutexGuard<'static, X>",
    MappedMutexGuard: "raddle::lock::MappedMutexGuard<'static, X>",
    RwLockWriteGuard: "raddle::lock::RwLockWriteGuard<'static, X>",
    MappedRwLockWriteGuard: "raddle::lock::MappedRwLockWriteGuard<'static, X>",
    // It becomes one that writes.
    RwLockUpgradableReadGuard: "raddle::lock::RwLockUpgradableReadGuard<'static, X>",
    // It only reads, but leads to its lock, whose next guard may write.
    RwLockReadGuard: "raddle::lock::RwLockReadGuard<'static, X>",

    // The ground: as the locks above, and as a cell.
    GroundMutex: "raddle_sync::sync::Mutex<X>",
    GroundCell: "raddle_sync::cell::UnsafeCell<X>",
}
