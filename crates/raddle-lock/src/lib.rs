//! Locks of four bytes.
//!
//! ```
//! use raddle_lock::Mutex;
//!
//! static NAMES: Mutex<Vec<&str>> = Mutex::new(Vec::new());
//!
//! NAMES.lock().push("weft");
//! assert_eq!(*NAMES.lock(), ["weft"]);
//! ```
//!
//! | for | there is | bytes |
//! |---|---|---|
//! | a value that one strand at a time may change | [`Mutex`], with [`Condvar`] | 4 + the value, 4 |
//! | a value whose owner comes back in | [`ReentrantLock`] | 4 + the value |
//! | a value that is read often and written seldom | [`RwLock`] | 4 + the value |
//! | a value that is made when it is first asked for | [`OnceLock`], [`LazyLock`] | 4 + the value |
//! | an object of a language: monitor and identity hash | [`ObjectHeader`] | 4 |
//! | code that is written for the traits of `lock_api` | `RawThinLock`, `RawFairThinLock`, `RawRwLock` | 4 |
//!
//! None of them needs a pool, and none allocates as long as nobody fights for it or waits on it, but for the first lock of each
//! thread, values that are made, headers that have a hash, and the third nest of locks that a strand holds at once
//! ([below](#how-a-lock-changes)). So an allocator cannot be written with them. All know their owner, but for readers that are
//! counted or may write later and writers without an id:
//!
//! - **The owner is a strand, not a thread** ([`raddle_sync::strand`]). Foreign work that runs on a
//!   thread while the work beneath it waits is another strand, and waits for its turn like any other.
//! - **Waiting for a lock that the same strand has panics** with a clear message, as far as that is known: it is not of readers
//!   that are counted, of one that may write later, nor of a writer without an id. They hang there. An attempt, or a wait with a
//!   limit, just fails.
//! - **A strand that ends with a lock held** leaves it locked and is reported ([`set_abandon_hook`]); its name
//!   is not used again, so nobody is taken for the owner. This does not go for readers whose guards were forgotten: nobody is
//!   told of them, and a later strand of the same name may be taken for one of them ([`RwLock`]). A guard that is kept in a
//!   thread-local and dropped with it is reported too, though its lock is let go of in the end.
//! - **A circle of strands that wait for each other** is reported ([`set_deadlock_hook`]), in debug builds and
//!   with the feature `deadlock`. One that leads through a future, a scope or a join on another thread is not seen.
//!
//! # What it costs
//!
//! One atomic read-modify-write for each uncontended pair of a lock and its unlock, where others that can sleep need two. (A
//! readers-writer lock needs two, but none for a reader that is published.) Taking
//! a lock is a compare-exchange. Its release is a plain store, because of a light fence: whoever is the first to want to
//! sleep for the lock pays for both sides with a barrier on all processors, 0.2 to 20 us by machine.
//! A process in which that happens often goes over to releasing by a read-modify-write too,
//! and back when it is over. Without the barrier (a filter of system calls that forbids it, `RADDLE_FENCE=portable`) it
//! always does; on systems that have none (macOS, the BSDs) a release has a fence instead. Of the locks that a strand holds at the same time this goes for the newest and for one other; the rest are let
//! go of by a detour of some nanoseconds.
//!
//! Whoever finds a lock taken spins, for some 270 pauses of the processor or 1 to 13 us, and sleeps then; mostly at once if others sleep.
//! Whoever runs may take the lock ahead of those who sleep, at the cost of two read-modify-writes. But the one that has waited
//! longest is woken at once, asks for the lock some 50 us later, and is handed it by the next unlock; or, if it gets no
//! processor, after 150 us and at most as many unlocks as came in 20 us before. If one had to wait for more than a millisecond the lock is handed over by each unlock, until one
//! waits less. So no strand starves. `unlock_fair` hands it over at once.
//!
//! # How a lock changes
//!
//! | the word is | the lock is | who writes the word | becomes |
//! |---|---|---|---|
//! | 0 | free | anybody, by compare-exchange | thin, hashed |
//! | owner | *thin*: held | its owner alone, by plain stores | free; fat |
//! | hash | free, with an identity hash | anybody, by compare-exchange | fat |
//! | index of an entry | *fat*: held, fought for or waited on | the holder of the entry's lock | free, hashed, aside |
//! | aside, owner or none | held or free, and the one that has waited longest is awake, or soon will be | by compare-exchange | fat, free, thin, hashed |
//!
//! Entries live in a table of segments of 1,024 that never move: the first is part of the program, more are allocated when there
//! are none left to lend.
//! A thin lock that a strand wants to sleep for, or gives a hash, becomes fat when its owner releases it. A lock is fat as well
//! while somebody waits on it, while its owner has taken it more than once and two others as
//! well, while it is held and has a hash, and while it is held by a strand without an id, all 65,535 being taken. The unlock
//! that finds no reason left makes it thin again; but a header with a hash that is locked often stays fat, as long as there are
//! no more than 4,096 of these.
//! The bits are in `word.rs`, the protocol of thin locks in `slot.rs`, that of fat ones in `entry.rs`, of those aside in
//! `aside.rs`.
//!
//! The ideas: .NET NativeAOT's thin locks and sync table (dotnet/runtime #79519), of which the layout of the
//! word and the inflation are; the asymmetric Dekker of biased locks (Dice, Huang and Yang, "Asymmetric
//! Dekker Synchronization", 2001), here for every owner rather than a favoured one; hand-offs at intervals from
//! `parking_lot` and WebKit's locks.
//!
//! # What `lock_api` adds
//!
//! Guards that keep an `Arc` instead of a reference (with the feature `arc_lock`) and a re-entrant mutex of one's own come with the
//! crate `lock_api`, over `RawThinLock` and `RawRwLock`. A mutex over `RawFairThinLock` goes to whoever has waited longest at
//! each unlock. With the feature `serde` [`Mutex`], [`ReentrantLock`] and [`RwLock`] are serialized as their values.
//!
//! # Signals and destructors of threads
//!
//! A handler of a signal may use a lock that nothing else uses, as long as the thread that it interrupts has had a lock before, and
//! holds one at most, and none that others fight for. It is not safe otherwise: the first lock of a thread allocates, and what it
//! interrupts may be in the middle of writing down what it holds, or have a mutex of this crate.
//!
//! Destructors of thread-locals may use locks. In one that is older than the thread's first lock the strand has ended
//! already: it has no id any more, each lock becomes fat, and one of some four billion names is used up.
//!
//! # Forks
//!
//! The child of a process of several threads may use all locks but those that another thread held at the moment of the
//! fork, was just taking or letting go of, or had just been handed: they may stay locked for ever. Locks that the forking strand held are
//! still its own. Those who slept for a lock, or waited for a notification, do so no more in the child, and are in
//! nobody's way. Values that other threads were making ([`OnceLock`]) are not made: the next one that asks makes them; a
//! [`LazyLock`] is then as after a panic. Locks that other threads only *read* at that moment stay read.
//!
//! For that a fork has all mutexes inside this crate: it costs 0.3 ms or so more, and some 0.3 us for each entry of the table of
//! fat locks. It must not come from a signal handler that may have interrupted a call of this crate. Forks that call no
//! handlers (`vfork`, `_Fork`, a system call of one's own) promise nothing, nor do systems that load programs in
//! other ways than Linux, the BSDs and macOS.
//!
//! # No poisoning
//!
//! A panic while a lock is held releases it and leaves the value as it was at that moment, as in
//! `parking_lot`. Whether a half-made change matters is known where the change is made, and there it
//! can be put right; a flag that every later user has to unwrap turns one failed task into the failure
//! of all that share the lock, without telling any of them what is wrong. A task's panic is already
//! reported where its result is asked for.

#[cfg(feature = "serde")]
mod serialize;

mod armed;
mod aside;
mod condvar;
mod core;
mod deadlock;
mod entry;
mod fat;
#[cfg(all(unix, not(any(miri, raddle_model))))]
mod fork;
mod header;
mod inflate;
mod linger;
mod look;
mod monitor;
mod mutex;
mod once;
mod pending;
mod queue;
mod raw;
mod reentrant;
mod rw;
mod slot;
mod spin;
mod stats;
mod table;
mod turn;
mod wait_result;
#[cfg(all(test, not(raddle_model)))]
mod watched;
mod word;

pub use condvar::Condvar;
pub use deadlock::{Deadlock, DeadlockHook, Wait, set_deadlock_hook};
pub use header::{HeaderGuard, ObjectHeader};
/// The traits of `RawThinLock` and its kin, and the locks over them.
pub use lock_api;
pub use mutex::{MappedMutexGuard, Mutex, MutexGuard};
pub use once::{LazyLock, OnceLock};
pub use raddle_sync::strand::{AbandonHook, Abandoned, set_abandon_hook};
#[cfg(not(raddle_loom))]
pub use raw::RawFairThinLock;
pub use raw::RawThinLock;
pub use reentrant::{ReentrantLock, ReentrantLockGuard};
#[cfg(not(raddle_loom))]
pub use rw::RawRwLock;
pub use rw::{
    MappedRwLockReadGuard, MappedRwLockWriteGuard, RwLock, RwLockReadGuard,
    RwLockUpgradableReadGuard, RwLockWriteGuard,
};
pub use stats::{LockStats, stats};

/// What locks do as readers are published for the first time: for models, of which each execution is to be the same.
#[cfg(raddle_model)]
#[doc(hidden)]
pub fn keep_names() {
    slot::keep_names();
}
pub use wait_result::WaitResult;
