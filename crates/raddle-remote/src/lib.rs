//! The futures of raddle on threads, on processes and on a cluster, chosen by a plan.
//!
//! A program says what can be done at the same time; its user says where: [`Plan`]. The results are the same.
//!
//! ```
//! use raddle::remote;
//!
//! fn count(text: String) -> usize { text.split_whitespace().count() }
//!
//! fn main() {
//!     remote::init(); // a worker goes no further
//!     let texts = ["warp and weft", "shuttle"].map(String::from);
//!     let counts = remote::map(count, texts).wait().unwrap();
//!     assert_eq!(counts, [3, 1]);
//! }
//! ```
//!
//! With `RADDLE_PLAN=processes:4` in the environment the same program runs in four processes, with `ray:auto` on the cluster
//! of this machine.
//!
//! [One machine is not enough](one_machine) says which plan pays when, and what each takes.
//!
//! # What can be called
//!
//! Any `fn(A) -> R` of the program: functions, methods, generic instances, closures that capture nothing. What they need goes
//! into the argument, which is sent by serde, as is the result: see [`Arg`]. Nothing is marked or registered. Functions in shared
//! libraries are refused: [`RemoteError::NotInProgram`].
//!
//! # What a task sees
//!
//! The same under every plan: its argument, [`task`], [`seed`]; no scope locals of its caller. [`spawn`] in a task goes to an
//! environment of the plan's [`nested`](Plan::nested) plan, which is sequential unless said otherwise.
//!
//! # How it ends
//!
//! | cause | the future fails with | the worker |
//! |---|---|---|
//! | panic | `Panicked`, with message and [`place`](raddle_core::Failure::place) | is kept |
//! | a signal, no memory, `panic = "abort"` | [`Died`](RemoteError::Died), [`Signalled`](Status::Signalled), the last of standard error | is replaced |
//! | `exit(n)` | `Died`, [`Exited`](Status::Exited) | is replaced |
//! | the same, where the status is not to be had | `Died`, [`Unknown`](Status::Unknown) | is replaced |
//! | [`kill`](raddle_core::Future::kill) | `Killed`, at once | ends with all it has started if it runs the task, else is kept |
//! | [`interrupt`](raddle_core::Future::interrupt) | what the task does when it asks [`interrupted`](raddle_core::interrupted()) | is kept |
//! | [`timeout`](TaskBuilder::timeout) | `TimedOut` | ends as by a kill |
//! | argument or result cannot be read or written | [`Decode`](RemoteError::Decode), [`Encode`](RemoteError::Encode), with the type | is kept |
//! | it is too long | [`TooLarge`](RemoteError::TooLarge), unsent | is kept |
//! | another build; not ready in time, three times; no `init` | [`BuildMismatch`](RemoteError::BuildMismatch); [`Start`](RemoteError::Start); [`NotInitialised`](RemoteError::NotInitialised) | there is none |
//! | garbage on the socket | [`Protocol`](RemoteError::Protocol) | ends |
//! | a machine or the bridge to the cluster is lost; the cluster cannot be reached | `Died`, [`Lost`](Status::Lost); [`Engine`](RemoteError::Engine) | |
//! | the environment was made before this process was forked from its parent | [`Engine`](RemoteError::Engine) | stays the parent's |
//!
//! What a task starts is ended with its worker if it is in the worker's process group: a child in a group or a session of its own
//! (`setsid`) lives on.
//!
//! After each of them the environment can be used: where the bridge was lost another one is started for what is queued, and for
//! what comes. When the driver ends, however it does, its workers and what they have started end too.

#![cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, unused_imports, reason = "what is of use to processes only")
)]

mod arg;
mod context;
#[cfg(target_os = "linux")]
mod crew;
#[cfg(target_os = "linux")]
mod entry;
mod env;
mod error;
#[cfg(target_os = "linux")]
mod frame;
mod here;
#[cfg(target_os = "linux")]
mod image;
mod init;
#[cfg(target_os = "linux")]
mod message;
#[cfg(target_os = "linux")]
mod os;
mod plan;
mod seed;
mod shared;
mod within;
#[cfg(target_os = "linux")]
mod worker;

#[doc = include_str!("one_machine.md")]
pub mod one_machine {}

use raddle_core::Future;

#[doc(hidden)]
pub use self::init::{Mark, init_test};
pub use self::{
    arg::Arg,
    context::{Progress, TaskInfo, progress, seed, task},
    env::{Env, TaskBuilder},
    error::{Death, RemoteError, Status},
    init::init,
    plan::{Output, ParsePlanError, Plan, Stream},
    shared::Shared,
};

/// The linker's name for this build of the program, by which a worker knows its driver; none if it gave it none.
pub fn build_id() -> Option<String> {
    #[cfg(target_os = "linux")]
    let id = image::Image::get().build_id();
    #[cfg(not(target_os = "linux"))]
    let id: Vec<u8> = Vec::new();
    let text: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    (!text.is_empty()).then_some(text)
}

/// Runs `f` with these arguments, in the [current](Env::current) environment, and returns the future of its result.
///
/// `f` is a function, a method or a closure that captures nothing; what it needs goes into the argument.
///
/// # Errors
///
/// The future fails with a panic of `f`, or a [`RemoteError`]: see the [table](crate#how-it-ends).
///
/// ```
/// use raddle::remote::spawn;
///
/// let longest = spawn(|words: Vec<String>| words.into_iter().max_by_key(String::len), vec!["warp".into(), "a".into()]);
/// assert_eq!(longest.wait()?.as_deref(), Some("warp"));
/// # Ok::<(), raddle::Failure>(())
/// ```
#[doc(alias = "future")]
#[doc(alias = "submit")]
pub fn spawn<A: Arg, R: Arg>(f: fn(A) -> R, args: A) -> Future<R> {
    Env::current().spawn(f, args)
}

/// Runs `f` with each of the items, in the [current](Env::current) environment; the results are in the order of the items.
///
/// Items go to workers in parts, some for each worker, so that the way costs little; in smaller ones where they would be longer than
/// [`Plan::max_frame`]. The results of a part come back as one, for which that limit holds too. If one fails so does the future,
/// with the first failure; others run on.
///
/// ```
/// use raddle::remote::map;
///
/// assert_eq!(map(|n: u32| n * n, 1..=3).wait()?, [1, 4, 9]);
/// # Ok::<(), raddle::Failure>(())
/// ```
#[doc(alias = "future_lapply")]
pub fn map<A: Arg, R: Arg>(f: fn(A) -> R, items: impl IntoIterator<Item = A>) -> Future<Vec<R>> {
    Env::current().map(f, items)
}
