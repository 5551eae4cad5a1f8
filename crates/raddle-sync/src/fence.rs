//! An asymmetric fence: free on the side that runs often, dear on the side that runs seldom.
//!
//! # The form it serves
//!
//! Two threads each write one word and then read the other's (Dekker's form). `X` and `Y` are
//! atomic and start at 0:
//!
//! ```text
//! A, often:    X.store(1, Relaxed);  light();  y = Y.load(Relaxed);
//! B, seldom:   Y.store(1, Relaxed);  heavy();  x = X.load(Relaxed);
//! ```
//!
//! **B1** At least one of them sees the other: `x == 1 || y == 1`.
//!
//! With `fence(SeqCst)` at both places B1 is the language's own guarantee. A full fence costs A
//! about 5 ns each time, though, and A is the side that pushes a job or unlocks a lock.
//!
//! # Why `light` may be a compiler fence
//!
//! [`heavy`] is `membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)`. The kernel promises (membarrier(2))
//! that upon its return *all running threads of the process have passed through a state where all
//! memory accesses to user-space addresses match program order between entry to and return from
//! the system call*; threads that are not running are de facto in such a state. In other words a
//! full barrier is executed on A's processor at some point P of A's program, between B's entry
//! and B's return.
//!
//! - `X.store` is before P in A's program: the barrier at P makes it visible to everything that
//!   follows B's return, so `x == 1`.
//! - `X.store` is after P: then so is `Y.load`, because the compiler fence keeps the two in program
//!   order in the machine code, which is all that a *point* of A's program needs. B's `Y.store` was
//!   complete before P (the system call is itself a full barrier on B's processor), so `y == 1`.
//!
//! There is no third case: P is one point of A's instruction stream. That is why nothing stronger
//! than a compiler fence is needed on A's side: the processor may reorder the store after the load
//! only as long as no barrier comes between them, and when one matters, B makes it happen. Both
//! words must be accessed atomically (`Relaxed` is enough), or the compiler is free to tear or
//! repeat the accesses.
//!
//! On Windows `FlushProcessWriteBuffers` gives the same promise.
//!
//! # Where there is no process-wide barrier
//!
//! On systems that never have one (macOS, the BSDs) both fences are `fence(SeqCst)`, so that B1 is the language's own guarantee,
//! and [`process_wide`] is true: A pays for a fence, and no more than that. This is what models explore.
//!
//! Whether [`light`] is one is decided when the program is built. So where the system could have a barrier and this process has
//! none, under a seccomp filter that forbids the call, or with `RADDLE_FENCE=portable`
//! in the environment, [`heavy`] is `fence(SeqCst)`: it orders B only, and [`light`] orders nothing.
//! [`process_wide`] is then false, and A must take a path of its own with a real fence:
//!
//! ```
//! # use raddle_sync::{atomic::{AtomicU32, Ordering}, fence};
//! # let (x, y) = (AtomicU32::new(0), AtomicU32::new(0));
//! fence::init(); // once, when the program or the pool starts
//! x.store(1, Ordering::Relaxed);
//! if fence::process_wide() {
//!     fence::light();
//! } else {
//!     raddle_sync::atomic::fence(Ordering::SeqCst);
//! }
//! let seen = y.load(Ordering::Relaxed);
//! # assert_eq!(seen, 0);
//! ```
//!
//! **B2** Once `process_wide()` has returned true to any thread, every `heavy()` is the process-wide
//! barrier, or every `light()` is a full fence: the answer is decided once, by one compare-exchange from "undecided", never changes
//! afterwards, and `heavy()` decides it if it is still undecided. A `process_wide()` that misses the
//! decision returns false, which only makes its caller take the dearer path; a real fence on A's
//! side is right whichever barrier B uses.
//!
//! Threads that ask at the same time share a barrier: see `shared`, with B3 and B4.
//!
//! Under loom and shuttle both fences are `fence(SeqCst)` and `process_wide()` is true, so that
//! models explore the light path.

#[cfg(not(raddle_model))]
mod barrier;
#[cfg_attr(not(raddle_model), allow(unreachable_pub, reason = "models run it"))]
mod shared_barrier;

#[cfg(raddle_model)]
pub use shared_barrier::SharedBarrier;

#[cfg(not(raddle_model))]
pub use real::{heavy, init, light, process_wide};

#[cfg(raddle_model)]
pub use modelled::{heavy, init, light, process_wide};

#[cfg(not(raddle_model))]
mod real {
    use super::barrier;
    use super::shared_barrier::SharedBarrier;
    use crate::atomic::{AtomicU8, Ordering, fence};
    use crate::fork;
    use std::sync::atomic::compiler_fence;

    const UNDECIDED: u8 = 0;
    const PROCESS_WIDE: u8 = 1;
    const PORTABLE: u8 = 2;

    /// Whether the system may have a barrier; where it never has, [`light`] is a fence itself.
    const MAY_HAVE_BARRIER: bool =
        cfg!(any(target_os = "linux", target_os = "android", windows, miri));

    static MODE: AtomicU8 = AtomicU8::new(UNDECIDED);
    static SHARED: SharedBarrier = SharedBarrier::new();

    /// Decides, once, whether this process has a process-wide barrier, or does without by real fences on both sides; true if so.
    ///
    /// Idempotent and safe to call from any thread. Call it when a pool or a lock table is built:
    /// until somebody does, [`process_wide`] is false and its callers pay for real fences. The
    /// environment variable `RADDLE_FENCE=portable` makes the answer false; it is read here only.
    ///
    /// ```
    /// let answer = raddle_sync::fence::init();
    /// assert_eq!(raddle_sync::fence::process_wide(), answer);
    /// ```
    pub fn init() -> bool {
        decided() == PROCESS_WIDE
    }

    /// The decision, made now if need be (B2).
    fn decided() -> u8 {
        // ORD: `Relaxed` throughout: the word carries no data besides itself, and it changes once.
        match MODE.load(Ordering::Relaxed) {
            UNDECIDED => decide(),
            mode => mode,
        }
    }

    #[cold]
    fn decide() -> u8 {
        // Miri has no such barrier; with real fences it sees what they order.
        let portable =
            cfg!(miri) || std::env::var_os("RADDLE_FENCE").is_some_and(|v| v == "portable");
        let wide = !portable && (!MAY_HAVE_BARRIER || barrier::register());
        let mode = if wide { PROCESS_WIDE } else { PORTABLE };
        match MODE.compare_exchange(UNDECIDED, mode, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => mode,
            Err(earlier) => earlier,
        }
    }

    /// True if [`light`] is enough on the other side: because [`heavy`] reaches every thread of the process, or because both are
    /// real fences. False before [`init`]. Costs one load.
    #[inline(always)]
    pub fn process_wide() -> bool {
        MODE.load(Ordering::Relaxed) == PROCESS_WIDE
    }

    /// The side that runs often: orders nothing but the compiler, and costs nothing, but on systems that have no barrier, where it
    /// is a fence. Rely on it only where [`process_wide`] is true.
    #[inline(always)]
    pub fn light() {
        // ORD: A's half of the Dekker form; pairs with `heavy`.
        if MAY_HAVE_BARRIER {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    /// The side that runs seldom: a full barrier on every running thread of the process where
    /// [`process_wide`] is true (a few microseconds to tens of them; at most twice that if others ask at the same time),
    /// `fence(SeqCst)` elsewhere, and on systems that have no barrier.
    pub fn heavy() {
        if decided() == PROCESS_WIDE && MAY_HAVE_BARRIER {
            // ORD: B's half of the Dekker form; pairs with `light` on every other thread (B1). The
            // compiler fences keep B's own store and load on their sides of the call.
            compiler_fence(Ordering::SeqCst);
            SHARED.wait_or_issue(fork::generation(), barrier::issue);
            compiler_fence(Ordering::SeqCst);
        } else {
            // ORD: B's half where `light` is a `fence(SeqCst)`, or A uses one of its own.
            fence(Ordering::SeqCst);
        }
    }
}

#[cfg(raddle_model)]
mod modelled {
    use crate::atomic::{Ordering, fence};

    /// True: the model's fences order every thread.
    pub fn init() -> bool {
        true
    }

    /// True: the model's fences order every thread.
    pub fn process_wide() -> bool {
        true
    }

    /// A full fence, which is what the pair promises its callers.
    pub fn light() {
        // ORD: A's half of the Dekker form; pairs with `heavy`.
        fence(Ordering::SeqCst);
    }

    /// A full fence, which is what the pair promises its callers.
    pub fn heavy() {
        // ORD: B's half of the Dekker form; pairs with `light`.
        fence(Ordering::SeqCst);
    }
}
