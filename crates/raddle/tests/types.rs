//! Which types may cross threads, how large they are, and which stand for which: of all public types, checked when this file
//! compiles. That none is missing is a test.
//!
//! What must not compile has a `compile_fail` example: types that stand for nothing but themselves in `src/invariance.rs`, what
//! else there is in the documentation of the type.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::path::Path;
use std::rc::Rc;
use std::sync::MutexGuard as StdGuard;

use raddle::compat::{Here, Seat, Settings, Team};
use raddle::lock::{
    Condvar, Deadlock, HeaderGuard, LazyLock, LockStats, MappedMutexGuard, MappedRwLockReadGuard,
    MappedRwLockWriteGuard, Mutex, MutexGuard, ObjectHeader, OnceLock, RawFairThinLock, RawRwLock,
    RawThinLock, ReentrantLock, ReentrantLockGuard, RwLock, RwLockReadGuard,
    RwLockUpgradableReadGuard, RwLockWriteGuard, Wait, WaitResult,
};
use raddle::par::Items;
use raddle::policy::{Policy, Who};
use raddle::trace::file::{Damage, LoadError, Ring};
use raddle::trace::{
    Advice, Bound, Change, ClockPair, Costs, Diagnosis, Diff, Edge, EdgeKind, Event, EventKind,
    Lane, Lengths, Measured, Named, Phases, Place, Point, Profile, Refusal, RegionGuard,
    RegionScale, Scale, Segment, State, Subject, Times, Trace, TraceLevel, UnknownKind, Wakes,
    WhatIf, Writer,
};
use raddle::{
    AsCompleted, Binding, BindingRef, Bindings, BroadcastContext, CancelOnDrop, CurrentPool,
    Failure, FailureKind, Future, Interrupt, Killed, Outcome, Pool, PoolBuildError, PoolBuilder,
    PoolStats, Promise, Retry, Scope, ScopeLocal, Shared, SharedPromise, Snapshot, StaticFailure,
    TaskId, Waits, Worker,
};
use raddle_sync::affinity::WakeAffinity;
use raddle_sync::cell::UnsafeCell;
use raddle_sync::crowd::Crowd;
use raddle_sync::padded::CachePadded;
use raddle_sync::parker::{Hooks, Parker, ParkerLease};
use raddle_sync::strand::{
    Abandoned, Dispenser, ForeignStrand, KeptName, Local, Release, StrandId,
};
use raddle_sync::watch::{LockHooks, LockWait};
use raddle_sync::within::Inheritance;
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

// Types that have no name outside of their crate.

/// What a chain of bindings consists of.
trait Links {
    type Before;
    type Value;
}

impl<P, B> Links for Bindings<P, B> {
    type Before = P;
    type Value = B;
}

type Unbound = <Binding<u32> as Links>::Before;
type Owned<T> = <Binding<T> as Links>::Value;
type Borrowed<'a, T> = <BindingRef<'a, T> as Links>::Value;
/// What a range is to a loop.
type Span<T> = <Range<T> as Items>::Parts;

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
    // As what it gives: to whoever has it alone.
    AsCompleted<Cell<u32>>: Send, AsCompleted<Cell<u32>>: Sync,
    // It goes to whoever runs it, with the function that judges failures.
    Retry: Send,
    Interrupt: Send, Interrupt: Sync, FailureKind: Send, FailureKind: Sync, StaticFailure: Send, StaticFailure: Sync,
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
    // What bindings consist of, and a longer chain, are as their parts.
    Unbound: Send, Unbound: Sync, Owned<u32>: Send, Owned<u32>: Sync,
    Borrowed<'static, u32>: Send, Borrowed<'static, u32>: Sync,
    Borrowed<'static, StdGuard<'static, u32>>: Send,
    Bindings<Binding<u32>, Borrowed<'static, u32>>: Send,
    Bindings<Binding<u32>, Borrowed<'static, u32>>: Sync,
    // Two integers.
    Span<u32>: Send, Span<u32>: Sync,
    // A handle, as a pool is. Whoever has a seat brings a thread, on whichever it is; its hooks are called on others.
    Team: Send, Team: Sync, Seat: Send, Seat: Sync, Settings: Send, Settings: Sync,
    // Numbers.
    Policy: Send, Policy: Sync, Who: Send, Who: Sync,
}
is_not! {
    Owned<Cell<u32>>: Send, Owned<Cell<u32>>: Sync,
    Owned<StdGuard<'static, u32>>: Send, Owned<StdGuard<'static, u32>>: Sync,
    Borrowed<'static, Cell<u32>>: Send, Borrowed<'static, Cell<u32>>: Sync,
    Bindings<Binding<Cell<u32>>, Borrowed<'static, u32>>: Send,
    Bindings<Binding<u32>, Borrowed<'static, Cell<u32>>>: Send,
    // Of this thread, as a worker is.
    Here<'static>: Send, Here<'static>: Sync,
    AsCompleted<Rc<u32>>: Send, AsCompleted<Rc<u32>>: Sync,
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
    // That function is called by one at a time.
    Retry: Sync,
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
    RawFairThinLock: Send, RawFairThinLock: Sync,
    Condvar: Send, Condvar: Sync,
    // Readers share the value, and a writer has it, wherever they are.
    RwLock<u32>: Send, RwLock<u32>: Sync, RwLock<Cell<u32>>: Send,
    RawRwLock: Send, RawRwLock: Sync,
    // One strand makes the value, all share it, any may drop it.
    OnceLock<u32>: Send, OnceLock<u32>: Sync, OnceLock<Cell<u32>>: Send,
    // The function is called once, by whoever comes first: it is sent there, and shared by nobody.
    LazyLock<u32, Cell<u32>>: Send, LazyLock<u32, Cell<u32>>: Sync, LazyLock<Cell<u32>>: Send,
    // A shared guard is a reference to its value.
    MutexGuard<'static, u32>: Sync,
    MappedMutexGuard<'static, u32>: Sync,
    ReentrantLockGuard<'static, u32>: Sync,
    HeaderGuard<'static>: Sync,
    RwLockReadGuard<'static, u32>: Sync, MappedRwLockReadGuard<'static, u32>: Sync,
    RwLockWriteGuard<'static, u32>: Sync, MappedRwLockWriteGuard<'static, u32>: Sync,
    RwLockUpgradableReadGuard<'static, u32>: Sync,
    // Numbers and texts.
    Deadlock: Send, Deadlock: Sync, Wait: Send, Wait: Sync,
    LockStats: Send, LockStats: Sync, WaitResult: Send, WaitResult: Sync,
}
is_not! {
    Mutex<Rc<u32>>: Send, Mutex<Rc<u32>>: Sync,
    ReentrantLock<Rc<u32>>: Send, ReentrantLock<Rc<u32>>: Sync,
    RwLock<Rc<u32>>: Send, RwLock<Cell<u32>>: Sync,
    // Send alone is not enough: readers are several. Sync alone is not: whoever writes may take the value away.
    RwLock<StdGuard<'static, u32>>: Sync, OnceLock<StdGuard<'static, u32>>: Sync,
    OnceLock<Rc<u32>>: Send, OnceLock<Cell<u32>>: Sync,
    LazyLock<Rc<u32>>: Send, LazyLock<Cell<u32>>: Sync, LazyLock<StdGuard<'static, u32>>: Sync,
    LazyLock<u32, Rc<u32>>: Send, LazyLock<u32, Rc<u32>>: Sync,
    // They belong to a strand, which stays on its thread.
    MutexGuard<'static, u32>: Send,
    MappedMutexGuard<'static, u32>: Send,
    ReentrantLockGuard<'static, u32>: Send,
    HeaderGuard<'static>: Send,
    RwLockReadGuard<'static, u32>: Send, MappedRwLockReadGuard<'static, u32>: Send,
    RwLockWriteGuard<'static, u32>: Send, MappedRwLockWriteGuard<'static, u32>: Send,
    RwLockUpgradableReadGuard<'static, u32>: Send,
    RwLockReadGuard<'static, Cell<u32>>: Sync, MappedRwLockReadGuard<'static, Cell<u32>>: Sync,
    RwLockWriteGuard<'static, Cell<u32>>: Sync, MappedRwLockWriteGuard<'static, Cell<u32>>: Sync,
    RwLockUpgradableReadGuard<'static, Cell<u32>>: Sync,
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
    // Numbers that any thread notes.
    Crowd: Send, Crowd: Sync,
    StrandId: Send, StrandId: Sync, Dispenser: Send, Dispenser: Sync,
    Abandoned: Send, Abandoned: Sync,
    Backoff: Send, Backoff: Sync,
    sync::Mutex<Cell<u32>>: Send, sync::Mutex<Cell<u32>>: Sync,
    sync::Condvar: Send, sync::Condvar: Sync,
    UnsafeCell<Cell<u32>>: Send,
    // As its value.
    CachePadded<Cell<u32>>: Send, CachePadded<u32>: Sync,
    // Functions, and numbers. (A sleep is over where it began, as it is never moved; which is no matter of memory.)
    Hooks: Send, Hooks: Sync, LockHooks: Send, LockHooks: Sync, Inheritance: Send, Inheritance: Sync, LockWait: Send, LockWait: Sync,
    Release: Send, Release: Sync,
    // Plain cells.
    Local: Send,
}
is_not! {
    sync::Mutex<Rc<u32>>: Send, sync::Mutex<Rc<u32>>: Sync,
    UnsafeCell<u32>: Sync,
    // What the thread runs as.
    ForeignStrand: Send, ForeignStrand: Sync, KeptName: Send, KeptName: Sync,
    Local: Sync,
    UnsafeCell<Rc<u32>>: Send,
    CachePadded<Rc<u32>>: Send, CachePadded<Cell<u32>>: Sync,
}

// Traces: a copy of what was recorded, and what was made of it. Numbers and texts, all of it.
is! {
    Advice: Send, Advice: Sync, Bound: Send, Bound: Sync, ClockPair: Send, ClockPair: Sync, Costs: Send, Costs: Sync,
    Change: Send, Change: Sync, Damage: Send, Damage: Sync, Diagnosis: Send, Diagnosis: Sync,
    Diff: Send, Diff: Sync, Edge: Send, Edge: Sync, Profile: Send, Profile: Sync,
    EdgeKind: Send, EdgeKind: Sync, Event: Send, Event: Sync, EventKind: Send, EventKind: Sync,
    Lane: Send, Lane: Sync, Lengths: Send, Lengths: Sync, LoadError: Send, LoadError: Sync,
    Measured: Send, Measured: Sync, Named: Send, Named: Sync, Phases: Send, Phases: Sync,
    Place: Send, Place: Sync, Point: Send, Point: Sync, Refusal: Send, Refusal: Sync,
    RegionScale: Send, RegionScale: Sync, Ring: Send, Ring: Sync, Scale: Send, Scale: Sync,
    Segment: Send, Segment: Sync, State: Send, State: Sync, Subject: Send, Subject: Sync,
    Times: Send, Times: Sync, Trace: Send, Trace: Sync, TraceLevel: Send, TraceLevel: Sync,
    UnknownKind: Send, UnknownKind: Sync, Wakes: Send, Wakes: Sync, WhatIf: Send, WhatIf: Sync,
    LoadError: std::error::Error, UnknownKind: std::error::Error,
    // As what it writes to.
    Writer<std::fs::File>: Send, Writer<std::fs::File>: Sync,
}
is_not! {
    Writer<Box<dyn std::io::Write>>: Send, Writer<Box<dyn std::io::Write>>: Sync,
}

#[cfg(feature = "remote")]
mod remote {
    use super::*;
    use raddle::remote;
    use raddle::remote::{
        Death, Env, Mark, Output, ParsePlanError, Plan, Progress, RemoteError, Status, Stream,
        TaskBuilder, TaskInfo,
    };

    is! {
        // Handles, which tasks take with them; a plan's hooks are called on any thread.
        Env: Send, Env: Sync, Plan: Send, Plan: Sync, TaskBuilder: Send, TaskBuilder: Sync,
        // As pools.
        Env: UnwindSafe, Env: RefUnwindSafe, TaskBuilder: UnwindSafe, TaskBuilder: RefUnwindSafe,
        // As an `Arc`.
        remote::Shared<u32>: Send, remote::Shared<u32>: Sync,
        // Numbers and texts.
        Death: Send, Death: Sync, Mark: Send, Mark: Sync, Output: Send, Output: Sync,
        ParsePlanError: Send, ParsePlanError: Sync, Progress: Send, Progress: Sync,
        RemoteError: Send, RemoteError: Sync, Status: Send, Status: Sync, Stream: Send, Stream: Sync,
        TaskInfo: Send, TaskInfo: Sync,
        RemoteError: std::error::Error, ParsePlanError: std::error::Error,
    }
    is_not! {
        remote::Shared<Cell<u32>>: Send, remote::Shared<Cell<u32>>: Sync,
        remote::Shared<StdGuard<'static, u32>>: Send,
        remote::Shared<StdGuard<'static, u32>>: Sync,
    }
}

/// Types that stand for others: each of these functions is a coercion without any code. A value of what takes any
/// string is one of what takes strings that live for ever, and a longer borrow is a shorter one.
#[allow(dead_code, reason = "compiled")]
mod variance {
    use super::*;
    #[cfg(feature = "remote")]
    use raddle::remote;

    type TakesAny = for<'a> fn(&'a str);
    type TakesStatic = fn(&'static str);

    // A future gives its value to whoever has it alone, and takes none: what is made of it takes the value for what the
    // future is one of. As a `Box`.
    fn future(f: Future<TakesAny>) -> Future<TakesStatic> {
        f
    }
    fn future_of_borrows<'short>(f: Future<&'static str>) -> Future<&'short str> {
        f
    }
    fn cancel_on_drop(f: CancelOnDrop<TakesAny>) -> CancelOnDrop<TakesStatic> {
        f
    }

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
    fn owned(b: Owned<TakesAny>) -> Owned<TakesStatic> {
        b
    }
    fn borrowed<'short>(b: Borrowed<'static, TakesAny>) -> Borrowed<'short, TakesStatic> {
        b
    }
    fn bindings<'short>(
        b: Bindings<Binding<TakesAny>, Borrowed<'static, TakesAny>>,
    ) -> Bindings<Binding<TakesStatic>, Borrowed<'short, TakesStatic>> {
        b
    }

    // It may be known for a shorter time which pool this is.
    fn here<'short>(h: Here<'static>) -> Here<'short> {
        h
    }

    // (A `Span<T>` is of integers, none of which stands for another.)

    // As its value, or what it writes to.
    fn padded(p: CachePadded<TakesAny>) -> CachePadded<TakesStatic> {
        p
    }
    fn writer<'short>(w: Writer<&'static std::fs::File>) -> Writer<&'short std::fs::File> {
        w
    }

    // As an `Arc`.
    #[cfg(feature = "remote")]
    fn remote_shared(s: remote::Shared<TakesAny>) -> remote::Shared<TakesStatic> {
        s
    }

    // A guard of a part that is read does not lead to its lock: as `&'a T`.
    fn mapped_read<'short>(
        g: MappedRwLockReadGuard<'static, TakesAny>,
    ) -> MappedRwLockReadGuard<'short, TakesStatic> {
        g
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
    fn read<'short, T>(g: RwLockReadGuard<'static, T>) -> RwLockReadGuard<'short, T> {
        g
    }
    fn write<'short, T>(g: RwLockWriteGuard<'static, T>) -> RwLockWriteGuard<'short, T> {
        g
    }
    fn upgradable<'short, T>(
        g: RwLockUpgradableReadGuard<'static, T>,
    ) -> RwLockUpgradableReadGuard<'short, T> {
        g
    }
    fn mapped_write<'short, T>(
        g: MappedRwLockWriteGuard<'static, T>,
    ) -> MappedRwLockWriteGuard<'short, T> {
        g
    }
}

/// Public types that the table need not have: crate, names, and why.
const UNNAMED: [(&str, &[&str], &str); 3] = [
    ("core", &["SpanIter", "Name", "Target"], "lives within one call, and has no name outside"),
    ("core", &["Value", "Made"], "tells implementations of a trait apart: there is no value of it"),
    ("sync", &["Builder", "JoinHandle", "Instant", "SharedBarrier"], "a model checker's"),
];

/// A type that some crate's source says is public, which `unreachable_pub` sees to that it is.
struct Public {
    krate: &'static str,
    name: String,
    /// Whether it has parameters, of types or of lifetimes.
    generic: bool,
}

fn public_types(krate: &'static str, folder: &Path, found: &mut Vec<Public>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            public_types(krate, &path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            for line in text.lines() {
                let line = line.trim_start();
                let kinds = ["pub struct ", "pub enum ", "pub union "];
                let Some(rest) = kinds.iter().find_map(|kind| line.strip_prefix(kind)) else {
                    continue;
                };
                let end = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
                let (name, rest) = rest.split_at(end);
                found.push(Public { krate, name: name.into(), generic: rest.starts_with('<') });
            }
        }
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// What follows each mention of the type.
fn mentions<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    text.match_indices(name).filter_map(move |(at, _)| {
        let (before, after) = (&text[..at], &text[at + name.len()..]);
        let whole = !before.ends_with(|c| is_word(c) || c == ':') && !after.starts_with(is_word);
        whole.then_some(after)
    })
}

/// Whether the table says of the type whether it has this bound.
fn says(table: &str, name: &str, bound: &str) -> bool {
    mentions(table, name).any(|after| {
        let mut depth = 0;
        let end = after.find(|c| {
            depth += i32::from(c == '<') - i32::from(c == '>');
            depth == 0 && c != '>'
        });
        end.is_some_and(|end| after[end..].starts_with(&format!(": {bound}")))
    })
}

#[test]
#[cfg_attr(miri, ignore = "reads files")]
fn no_public_type_is_missing() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut types = Vec::new();
    // Those whose names come twice have their crate's before it, but for the first.
    for krate in ["core", "lock", "sync", "trace", "remote"] {
        let source = crates.join(format!("raddle-{krate}")).join("src");
        if !source.exists() {
            return; // Packed, without the others.
        }
        public_types(krate, &source, &mut types);
    }
    assert!(types.len() > 100, "only {} types have been found", types.len());

    let text = include_str!("types.rs");
    let (table, rest) = text.split_once("\nmod variance").unwrap();
    let (variance, _) = rest.split_once("/// Public types that").unwrap();
    let (_, scopes) = include_str!("../src/lib.rs").split_once("/// A scope's lifetime").unwrap();
    let variance = [variance, scopes, include_str!("../src/invariance.rs")];
    let mut seen = BTreeSet::new();
    let mut missing = Vec::new();
    for Public { krate, name, generic } in types {
        if UNNAMED.iter().any(|(of, names, _)| *of == krate && names.contains(&name.as_str())) {
            continue;
        }
        let name = if seen.insert(name.clone()) { name } else { format!("{krate}::{name}") };
        for bound in ["Send", "Sync"] {
            if !says(table, &name, bound) {
                missing.push(format!("{name}: {bound}"));
            }
        }
        if generic && !variance.iter().any(|text| text.contains(&format!("{name}<"))) {
            missing.push(format!("the variance of {name}"));
        }
    }
    assert!(missing.is_empty(), "the table lacks {missing:#?}");
}
