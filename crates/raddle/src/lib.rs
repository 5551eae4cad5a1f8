//! A runtime for parallel work whose tasks may be as small as one addition.
//!
//! | you have | use |
//! |---|---|
//! | two things to do, and need both results | [`join`], or [`Worker::join`] for the cheapest form |
//! | any number of tasks that borrow from here | [`scope`] |
//! | a task that outlives this function, whose result is wanted later | [`spawn`] and [`Future::wait`] |
//! | a value that will be there, and what is to be made of it then | [`Promise`], [`Future::map`] and its kin |
//! | several futures, all or the first of them | [`collect`](fn@collect), [`first`], [`select`] |
//! | a value that all tasks of a request see | [`scope_local!`] |
//! | a number of threads, stacks or hooks of your own | [`Pool::builder`] |
//! | a call that blocks outside of raddle | [`blocking`] |
//! | something to be called on every thread of a pool | [`broadcast`](fn@broadcast) |
//! | a lock that takes four bytes | [`lock::Mutex`] |
//!
//! Nothing has to be set up: from outside of a pool all of these use [`Pool::global`], which is built
//! on first use.
//!
//! # Two at a time: `join`
//!
//! [`join`] calls both closures, perhaps in parallel, and returns both results. They may borrow.
//!
//! ```
//! fn largest(numbers: &[u32]) -> Option<u32> {
//!     if numbers.len() <= 100 {
//!         return numbers.iter().copied().max();
//!     }
//!     let (left, right) = numbers.split_at(numbers.len() / 2);
//!     let (left, right) = raddle::join(|| largest(left), || largest(right));
//!     left.max(right)
//! }
//!
//! let numbers: Vec<u32> = (0..10_000).map(|n| n * 7919 % 10_007).collect();
//! assert_eq!(largest(&numbers), Some(10_006));
//! ```
//!
//! The second closure can be stolen by an idle thread from the moment of the call, however long the
//! first one runs. If nobody steals it, it runs here, and the fork has cost a few nanoseconds; so a
//! cut-off serves the code of the leaf, a loop that the compiler vectorises say, and not the runtime.
//!
//! [`join`] finds its worker through a thread-local variable. [`Worker::join`] has it at hand, which
//! is the cheapest form; [`Pool::run`] gives the first [`Worker`], and every closure is handed its own:
//!
//! ```
//! use raddle::{Pool, Worker};
//!
//! struct Tree { weight: u64, children: Option<Box<(Tree, Tree)>> }
//!
//! fn weigh(worker: &Worker, tree: &Tree) -> u64 {
//!     let Some(children) = &tree.children else { return tree.weight };
//!     let (left, right) = worker.join(|w| weigh(w, &children.0), |w| weigh(w, &children.1));
//!     tree.weight + left + right
//! }
//!
//! fn grow(depth: u32) -> Tree {
//!     let children = (depth > 0).then(|| Box::new((grow(depth - 1), grow(depth - 1))));
//!     Tree { weight: 1, children }
//! }
//!
//! let tree = grow(10);
//! assert_eq!(Pool::global().run(|worker| weigh(worker, &tree)), 2047);
//! ```
//!
//! The two forms mix freely. Code that can't be given a worker, a callback say, calls [`join`].
//!
//! # Many at a time: `scope`
//!
//! Tasks of a [`scope`] may borrow what lives outside of it, because it ends after they do. Each is
//! given the scope, to spawn more:
//!
//! ```
//! use std::sync::atomic::{AtomicUsize, Ordering};
//! use raddle::Scope;
//!
//! fn visit<'a>(scope: &Scope<'a>, depth: usize, seen: &'a AtomicUsize) {
//!     seen.fetch_add(1, Ordering::Relaxed);
//!     for _ in 0..depth {
//!         scope.spawn(move |scope| visit(scope, depth - 1, seen));
//!     }
//! }
//!
//! let seen = AtomicUsize::new(0);
//! raddle::scope(|scope| visit(scope, 5, &seen));
//! assert_eq!(seen.into_inner(), 326);
//! ```
//!
//! A task costs an allocation, a fork costs none: use [`join`] where the work halves.
//!
//! # Later: `spawn`, `wait` and `Failure`
//!
//! [`spawn`] returns a [`Future`] at once. [`wait`](Future::wait) blocks until its result is there and
//! gives that, or the [`Failure`] why there is none:
//!
//! ```
//! use raddle::{Failure, FailureKind, spawn};
//!
//! fn main() -> Result<(), Failure> {
//!     let words = spawn(|| "warp and weft".split(' ').count());
//!     let torn = spawn(|| -> usize { panic!("a thread is torn") });
//!     assert_eq!(words.wait()?, 3);
//!
//!     let failure = torn.wait().unwrap_err();
//!     assert_eq!(failure.kind(), FailureKind::Panicked);
//!     assert_eq!(failure.to_string(), "panicked: a thread is torn");
//!     Ok(())
//! }
//! ```
//!
//! - A closure that returns a `Result` makes a `Future<Result<T, E>>`, whose `wait()` gives a result in
//!   a result: `future.wait()??` in a function that fails with a boxed error. A [`Failure`] is an error as others are, and
//!   is made of whatever converts into a boxed one: [`Failure::new`]. `?` takes an error of your own, too,
//!   given an `impl From<MyError> for Failure { .. Failure::new(error) .. }`, as [`Failure`] shows.
//! - Waiting inside of a pool starves nobody: see [below](#waiting). A task, or a closure of `map` and its like,
//!   that waits for itself fails with [`FailureKind::Cycle`], as far as raddle sees the circle: on the thread that waits, and
//!   along [`flat_map`](Future::flat_map), [`collect`] and [links](Promise::link). Tasks on two threads that `wait` for each
//!   other hang: `raddle trace doctor` names them. So do `async` ones that await each other, which are on no thread and are not named.
//! - [`Future::kill`] fails the future at once. A task that has not started never does; one that runs can
//!   ask [`killed`] now and then. One that waits for another future goes on waiting.
//! - Dropping a future detaches its task, which runs all the same, but not beyond the end of `main`: the
//!   global pool is never dropped, so what it has not run by then is lost. A pool of your own finishes
//!   what was spawned when it is dropped.
//! - The prelude of Rust 2024 has a trait of the same name, that of `async` code, which a [`Future`] implements.
//!   `use raddle::Future` takes its place in a module; `use raddle::prelude::*` does not.
//!
//! # And then: `map`, `flat_map`, `collect`
//!
//! Operations on a future say what is to be made of its value when it is there; nobody waits meanwhile.
//! A [`Promise`] is a future that something else than a closure of the pool completes: another thread, a callback, a timer.
//!
//! ```
//! use raddle::{Future, Promise, collect, spawn};
//!
//! fn measure(thread: &'static str) -> Future<usize> {
//!     spawn(move || thread.len())
//! }
//!
//! let (loom, ready) = Promise::<()>::new();
//! let lengths = ready
//!     .flat_map(|()| collect(["warp", "weft", "selvage"].map(measure)))
//!     .map(|lengths| lengths.into_iter().sum::<usize>());
//! std::thread::spawn(move || loom.set(()));
//! assert_eq!(lengths.wait()?, 15);
//! # Ok::<(), raddle::Failure>(())
//! ```
//!
//! - A failure passes by closures that ask for a value, up to [`recover`](Future::recover),
//!   [`rescue`](Future::rescue) or [`wait`](Future::wait).
//! - A closure runs on the thread that completes the future, or at once if it is done. To do more than a little, or where
//!   locks are held, go [`on`](Future::on) a pool.
//! - [`interrupt`](Future::interrupt) asks whoever produces the value to stop; it goes upstream through all operations.
//!   [`within`](Future::within) and [`interrupt_after`](Future::interrupt_after) limit the time.
//! - One rule for drops: dropping a future detaches, be it awaited or not; what
//!   [`cancel_on_drop`](Future::cancel_on_drop) wraps is interrupted.
//! - `future.await` works in any async runtime, and [`Future::from_async`] has the pool drive an async one.
//! - An operation is one allocation and two or three atomic operations; on a future that is done it is none. (Those that have
//!   several inputs or consumers, a limit, a delay or a pool take a few.) Nothing recurses: chains and loops may be millions long.
//!
//! [`names`] has the names of all this in other libraries. Programs of a page each, among the examples of this crate: `retries`
//! (a few at a time, again after a pause), `mirrors` (the first of several, and an end for the others), `edit_distance` (a recursion
//! that remembers, by [`Shared`]) and `service` (beside tokio).
//!
//! # Pools, guests, hooks
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicUsize, Ordering};
//! use std::time::Duration;
//! use raddle::{Outcome, Pool, PoolBuildError};
//!
//! fn main() -> Result<(), PoolBuildError> {
//!     let started = Arc::new(AtomicUsize::new(0));
//!     let pool = Pool::builder()
//!         .threads(4)
//!         .thread_name("loom") // loom-0, loom-1, ..
//!         .keep_alive(Duration::from_secs(5))
//!         .before_start({
//!             let started = Arc::clone(&started);
//!             move |_id| { started.fetch_add(1, Ordering::Relaxed); }
//!         })
//!         .after_finish(|id, outcome| {
//!             if outcome != Outcome::Completed {
//!                 eprintln!("task {id}: {outcome:?}");
//!             }
//!         })
//!         .build()?;
//!
//!     let (a, b) = pool.run(|worker| worker.join(|_| 1, |_| 2));
//!     assert_eq!(a + b, 3);
//!     assert_eq!(pool.spawn(|| 6 * 7).wait().unwrap(), 42);
//!     assert_eq!(started.load(Ordering::Relaxed), 1); // hooks are for spawned futures
//!     Ok(())
//! } // dropping the pool finishes what was spawned, and ends its threads
//! ```
//!
//! - **The caller takes part.** [`Pool::run`] calls its closure on the calling thread, at once, as a
//!   *guest* whose forks the pool's threads steal; so do [`join`] and [`scope`] from outside. `threads` is the number of
//!   *places*: so many threads work at once, guests included; for a guest that finds none free, the next thread that ends its
//!   task makes way. On a pool of one thread a guest works alone.
//! - If as many guests work already as there are places, or others wait to come in, the closure is queued for the pool and its
//!   caller blocks.
//! - **Idle threads leave** after [`keep_alive`](PoolBuilder::keep_alive), 30 seconds unless you say
//!   otherwise, and are started again when there is work. Until then they sleep and use no processor time.
//! - **Hooks** are called round every spawned future, on the thread that runs it, not round forks and
//!   tasks of a scope: a call would cost more than most of those do. An async future counts once, however often it is polled: before its
//!   first poll, and when it is over, which may be on another thread. Others are called when a thread of the pool
//!   starts and leaves: [`on_thread_start`](PoolBuilder::on_thread_start).
//! - The global pool has `RADDLE_NUM_THREADS` threads if that is set in the environment, otherwise as
//!   many as the machine has processors for this program. [Other variables](#variables-of-the-environment) are below.
//!
//! # Waiting
//!
//! A thread of a pool that waits runs what it waits for, on top of its own stack, and nothing else: of a [`join`] what was
//! forked from the half that another thread has, of a [`scope`] its tasks, of a future its task and those upstream of it that
//! nobody has started. If there is nothing of the kind it blocks, and another thread works in its place, a spare one if need
//! be. So a program that would end with a thread for each task ends on a pool of one thread:
//!
//! ```
//! use raddle::{Pool, Promise};
//!
//! let pool = Pool::new(1)?;
//! let (promise, future) = Promise::new();
//! let waits = pool.spawn(move || future.wait());
//! drop(pool.spawn(move || promise.set(7)));
//! assert_eq!(waits.wait()??, 7);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - So it is with [locks](lock) and conditions. What blocks elsewhere, in a system call, a channel or a lock of `std`, keeps
//!   its place, unless it is called by way of [`blocking`].
//! - A wait that is over goes on at once, for the rest of its task as one thread more than there are places if need be.
//! - Spare threads are started when they are needed, and leave after `keep_alive`. There are 256, or
//!   [`max_spare_threads`](PoolBuilder::max_spare_threads); more only where work has lain for seconds that nobody may take, or for 100 ms
//!   while one waits for a lock or is [`blocking`]. **If
//!   more threads are blocked at once** than that and nobody works for 100 ms, or the system refuses threads, those that wait take
//!   on unrelated work; then a task that lands on
//!   the stack of what it waits for fails with [`FailureKind::Cycle`], or hangs. [`Pool::stats`] says whether that has come up (`hosted`).
//! - [`Waits::Host`] has waiting threads take on anything, as rayon's do, and uses no spare threads unless they are asked for.
//! - [`wait_timeout`](Future::wait_timeout) runs no tasks meanwhile, so that the limit is one; nor does a wait for what is behind
//!   [`within`](Future::within), [`interrupt_after`](Future::interrupt_after), [`first`] or [`select`] run that.
//! - A process that was forked has none of the threads of its parent's pools. To use one there panics, and says why;
//!   see [`Pool`].
//!
//! # Context that follows tasks
//!
//! A scope local is a variable that is bound for the time of a call, and for all that is done on behalf of it,
//! on whichever thread: a task sees what its parent saw when it was forked, spawned or attached, and nothing
//! of the thread that happens to run it.
//!
//! ```
//! raddle::scope_local! {
//!     /// Who asked.
//!     static USER: String;
//!     static WORDS: Vec<&'static str>;
//! }
//!
//! let words = vec!["warp", "weft"];
//! USER.bind("ada".into()).bind_ref_also(&WORDS, &words).run(|| {
//!     let (a, b) = raddle::join(|| WORDS.with(|w| w[0].len()), || WORDS.with(|w| w[1].len()));
//!     assert_eq!(a + b, 8);
//!     let user = raddle::spawn(|| (USER.get(), WORDS.is_bound())).wait();
//!     assert_eq!(user.unwrap(), (Some("ada".into()), false));
//! });
//! ```
//!
//! - [`bind`](ScopeLocal::bind) takes a value, which all tasks share; [`bind_ref`](ScopeLocal::bind_ref) a reference,
//!   which forks and scopes inherit. What may outlive the call, spawned tasks and continuations, finds it
//!   unbound.
//! - Inheriting costs a fork nothing, also if nobody reads. A read is a few loads, however deep bindings
//!   nest; the first eight locals that a program binds are one load nearer than the others.
//! - [`Snapshot`] takes bindings to threads and callbacks that raddle knows nothing of.
//! - With the feature `tracing`, spans follow tasks like bindings do. Other libraries' state does when a
//!   [`Follow`] says how. As soon as anything follows so (a subscriber exists), a fork costs 30 to 50
//!   nanoseconds; until then, nothing.
//!
//! # Where the time went: `trace`
//!
//! A pool that is built with [`PoolBuilder::trace`], or told so later by [`Pool::set_trace`], records what its
//! workers do; [`Pool::trace`] is a copy of that, and [`PoolBuilder::trace_to`] writes it to a file meanwhile. At level
//! [`Tasks`](trace::TraceLevel::Tasks) [`scale`](trace::Trace::scale) says what bounds a program and what more processors would
//! give, with the places in the source. [`trace`] says what can be made of it: the five phases of
//! every region, a table, a page for a browser, JSON for Perfetto, a file.
//!
//! ```
//! use raddle::{Pool, trace::TraceLevel};
//!
//! let pool = Pool::builder().threads(2).trace(TraceLevel::Phase).build()?;
//! pool.run(|worker| worker.join(|_| 1, |_| 2));
//! let phases = pool.trace().phases();
//! println!("ramp-up took {:?} of {:?}", phases[0].ramp_up, phases[0].total);
//! # Ok::<(), raddle::PoolBuildError>(())
//! ```
//!
//! # Loops: `par`
//!
//! [`par`] has loops, collections, scans and sorts on slices and ranges. There is no grain to choose: a loop is sequential
//! until a thread has nothing to do, then it forks half of what is left.
//!
//! ```
//! use raddle::par;
//!
//! let mut numbers = par::map_collect(0..1_000_u64, |i| i * 7_919 % 1_000);
//! par::for_each(&mut numbers, |n| *n += 1);
//! par::sort(&mut numbers);
//! assert_eq!((numbers[0], par::map_reduce(&numbers, 0, |&n| n, |a, b| a + b)), (1, 500_500));
//! ```
//!
//! # What a panic does
//!
//! | where | what happens |
//! |---|---|
//! | a half of a `join` | goes on in the caller after both halves are done; if both panic, that of the first |
//! | a task of a `scope` | goes on in the caller after all tasks are over; the body's first, else that of the task that panicked first |
//! | the closure of `Pool::run` | goes on in the caller |
//! | a spawned closure | `wait` returns a [`Failure`] of the kind `Panicked`; [`Failure::resume`] goes on with the panic |
//! | a spawned closure whose future was dropped | its message on standard error, by the panic hook, is all |
//! | the hook `before_start` | the future fails with it, and its closure is not called; an async one is dropped without a poll |
//! | the hook `after_finish` | its message on standard error; the future keeps its result |
//!
//! No panic of yours ends a thread of a pool. A program built with `panic = "abort"` aborts, as ever.
//!
//! # Coming from rayon
//!
//! | rayon | raddle | what differs |
//! |---|---|---|
//! | `join` | [`join`], [`Worker::join`] | from outside, the caller takes part instead of blocking |
//! | `join_context` | [`Worker::join`] | tells nothing about `migrated()` |
//! | `scope`, `in_place_scope` | [`scope`] | the body always runs on the calling thread |
//! | `spawn` | [`spawn`] | returns a [`Future`]; dropping it detaches. A panic fails the future, and aborts nothing |
//! | `ThreadPoolBuilder` | [`Pool::builder`], [`Pool::new`] | 0 threads is an error; for the default say nothing |
//! | `build_global` | `RADDLE_NUM_THREADS` | there is no call for it |
//! | `ThreadPool::install` | [`Pool::run`] | stays on the calling thread if there is a place, and gives a [`Worker`] |
//! | `pool.join(a, b)`, `pool.scope(f)` | [`Pool::join`], [`Pool::scope`] | |
//! | `pool.spawn(f)` | [`Pool::spawn`] | returns a [`Future`] |
//! | `panic_handler` | [`Failure`], [`PoolBuilder::after_finish`] | |
//! | `start_handler`, `exit_handler` | [`PoolBuilder::on_thread_start`], [`PoolBuilder::on_thread_exit`] | spare threads call them too, guests do not |
//! | `current_num_threads` | [`current_num_threads`], [`Pool::num_threads`] | |
//! | `current_thread_index` | [`current_worker_index`] | the place's: it may change when a task waits, and guests have one too; one that came while all places were taken may have none |
//! | `broadcast`, `yield_now` | [`broadcast`](fn@broadcast), [`yield_now`] | |
//! | waiting threads take on any work | [`Waits::Host`] | by default they run what they wait for, and give their place away |
//! | `RAYON_NUM_THREADS` | `RADDLE_NUM_THREADS` | |
//! | `spawn_fifo`, `scope_fifo` | none | |
//! | `par_iter_mut().for_each`, `par_chunks_mut`, `map().collect()`, `reduce`, `filter`, `find_any`, `par_sort` .. | [`par`] | functions on slices and ranges; closures need not be `Send` |
//! | chains of parallel iterators | none | |
#![doc = include_str!("settings.md")]
#![forbid(unsafe_code)]

// All of it: what is public there is there for users.
#[doc(inline)]
pub use raddle_core::*;

/// What most programs name, for `use raddle::prelude::*`: all but [`Future`], which would hide the trait of that name.
///
/// ```
/// use raddle::prelude::*;
///
/// // The trait of async Rust.
/// fn measure(word: &'static str) -> impl Future<Output = Result<usize, Failure>> {
///     spawn(move || word.len())
/// }
///
/// let both = join(|| spawn(|| 1).wait(), || raddle::Future::from_async(measure("weft")).wait());
/// assert_eq!(both.1??, 4);
/// # Ok::<(), Failure>(())
/// ```
pub mod prelude {
    #[doc(no_inline)]
    pub use raddle_core::{
        CancelOnDrop, Failure, FailureKind, Interrupt, Killed, Pool, Promise, Scope, ScopeLocal,
        Shared, SharedPromise, Snapshot, Worker, collect, first, join, scope, scope_local, select,
        spawn,
    };
}

#[doc = include_str!("names.md")]
pub mod names {
    #[allow(unused_imports, reason = "for the links")]
    use raddle_core::*;
}

/// Locks of four bytes: the crate `raddle-lock`.
///
/// ```
/// use raddle::lock::Mutex;
///
/// let words = Mutex::new(vec!["warp"]);
/// raddle::join(|| words.lock().push("weft"), || words.lock().push("selvage"));
/// assert_eq!(words.lock().len(), 3);
/// ```
pub mod lock {
    #[doc(inline)]
    pub use raddle_lock::*;
}
/// Parallel loops, collections, scans and sorts on slices and ranges.
///
/// ```
/// use raddle::par;
///
/// let mut squares = par::map_collect(0..1_000_u64, |i| i * i % 1_000);
/// par::for_each(&mut squares, |x| *x += 1);
/// par::sort(&mut squares);
/// assert_eq!(squares[0], 1);
/// ```
pub mod par {
    #[doc(inline)]
    pub use raddle_core::par::*;
}
/// The same futures on threads, on processes and on a cluster, chosen by a plan: the crate `raddle-remote`.
#[cfg(feature = "remote")]
pub mod remote {
    #[doc(inline)]
    pub use raddle_remote::*;
}
/// Traces, and where their time went: how to record them, and the crate `raddle-trace`.
///
/// ```
/// use raddle::{Pool, trace, trace::TraceLevel};
///
/// let pool = Pool::builder().threads(2).trace(TraceLevel::Phase).build()?;
/// {
///     let _region = trace::region("twins");
///     pool.run(|worker| worker.join(|_| 1, |_| 2));
/// }
/// let trace = pool.trace();
/// assert_eq!(trace.phases()[0].name.as_deref(), Some("twins"));
/// print!("{}", trace.summary());
/// # Ok::<(), raddle::PoolBuildError>(())
/// ```
pub mod trace {
    #[doc(inline)]
    pub use raddle_core::trace::{RegionGuard, region};
    #[doc(inline)]
    pub use raddle_trace::*;
}

/// Compiles and runs the examples of the README and of the book.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    pub struct Readme;
    #[doc = include_str!("../../../book/src/tutorial.md")]
    pub struct Tutorial;
    #[doc = include_str!("../../../book/src/from-rayon.md")]
    pub struct FromRayon;
    #[doc = include_str!("../../../book/src/from-tokio.md")]
    pub struct FromTokio;
}

/// What stands for nothing but itself.
#[cfg(doctest)]
mod invariance;

/// A worker is not sent to another thread, nor shared with one: forks go where its thread is.
///
/// ```compile_fail,E0277
/// fn is_send<T: Send>() {}
/// is_send::<raddle::Worker>();
/// ```
///
/// ```compile_fail,E0277
/// fn is_sync<T: Sync>() {}
/// is_sync::<raddle::Worker>();
/// ```
///
/// So a closure that another thread may run cannot take one along, and forks through the one it is given:
///
/// ```compile_fail,E0277
/// raddle::Pool::global().run(|worker| worker.join(|_| worker.index(), |_| 0));
/// ```
///
/// ```
/// raddle::Pool::global().run(|worker| worker.join(|w| w.index(), |_| 0));
/// ```
///
/// Neither leaves it the call it was given in, where another thread might find it:
///
/// ```compile_fail,E0277
/// let mut kept = None;
/// raddle::Pool::global().run(|worker| kept = Some(worker));
/// ```
#[cfg(doctest)]
pub struct WorkersStayOnTheirThread;

/// A scope's lifetime is invariant: with a shorter one a task could borrow what is gone before it runs,
/// with a longer one it could leave behind what does not live as long.
///
/// ```compile_fail,E0597
/// fn tasks_may_borrow<'scope>(_: &raddle::Scope<'scope>, _: &'scope str) {}
/// fn shorter(scope: &raddle::Scope<'static>) {
///     let local = String::new();
///     tasks_may_borrow(scope, &local);
/// }
/// ```
///
/// ```compile_fail,E0521
/// fn tasks_leave_behind(_: &raddle::Scope<'static>) {}
/// fn longer(scope: &raddle::Scope<'_>) { tasks_leave_behind(scope) }
/// ```
#[cfg(doctest)]
pub struct ScopesAreInvariant;
