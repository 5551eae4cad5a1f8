//! The allocator of this program: the system's or mimalloc, and a count of what it is asked for.
//!
//! A process has one allocator from its first allocation to its last, so that nobody frees what the
//! other has allocated; `RADDLE_BENCH_ALLOCATOR` in the environment says which. The choice costs
//! each call a load and a branch.
//!
//! | mode | allocates and frees | counts |
//! |---|---|---|
//! | `UNDECIDED` | nothing yet | |
//! | `SYSTEM` | the system's | no |
//! | `COUNTING` | the system's | yes |
//! | `MIMALLOC` | mimalloc | no |
//!
//! **A1** The mode is `UNDECIDED` until the first allocation and never again.
//! **A2** It is `MIMALLOC` from the first allocation to the end of the process, or never.
//! By A1 and A2 what is freed was allocated by the same allocator.
#![allow(unsafe_code)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    ffi::{CStr, c_char},
    sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed},
};

use mimalloc::MiMalloc;

use crate::harness::Memory;

/// The variable that names the allocator: `system` (the default) or `mimalloc`.
pub(crate) const VARIABLE: &str = "RADDLE_BENCH_ALLOCATOR";
const VARIABLE_C: &CStr = c"RADDLE_BENCH_ALLOCATOR";

/// What the variable says for mimalloc.
pub(crate) const MIMALLOC_NAME: &str = "mimalloc";

const UNDECIDED: u8 = 0;
const SYSTEM: u8 = 1;
const COUNTING: u8 = 2;
const MIMALLOC: u8 = 3;

// Relaxed throughout: a thread that sees an older mode than another sees the same allocator (A2),
// and the counts are read by the thread that made them.
static MODE: AtomicU8 = AtomicU8::new(UNDECIDED);
static BYTES: AtomicU64 = AtomicU64::new(0);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
/// Bytes that glibc took for them.
static HEAP: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static ALLOCATOR: Switch = Switch;

struct Switch;

impl Switch {
    #[inline]
    fn mode(&self) -> u8 {
        match MODE.load(Relaxed) {
            UNDECIDED => decide(),
            mode => mode,
        }
    }

    /// Counts an allocation of so many bytes, and what glibc took for it.
    #[inline]
    fn count(&self, mode: u8, bytes: usize, place: *mut u8) -> *mut u8 {
        if mode == COUNTING {
            BYTES.fetch_add(bytes as u64, Relaxed);
            ALLOCATIONS.fetch_add(1, Relaxed);
            HEAP.fetch_add(chunk(place), Relaxed);
        }
        place
    }
}

/// What glibc takes for a block: with its header.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn chunk(place: *mut u8) -> u64 {
    // SAFETY: null, or just allocated by it.
    let usable = unsafe { libc::malloc_usable_size(place.cast()) };
    if usable == 0 { 0 } else { (usable + size_of::<usize>()) as u64 }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn chunk(_: *mut u8) -> u64 {
    0
}

/// Reads the environment without allocating.
#[cold]
fn decide() -> u8 {
    // SAFETY: a C string; nothing in this program changes the environment.
    let value: *const c_char = unsafe { libc::getenv(VARIABLE_C.as_ptr()) };
    let mimalloc = !value.is_null() && {
        // SAFETY: not null, so a C string of the environment, which nothing changes.
        let value = unsafe { CStr::from_ptr(value) };
        value.to_bytes() == MIMALLOC_NAME.as_bytes()
    };
    let mode = if mimalloc { MIMALLOC } else { SYSTEM };
    MODE.store(mode, Relaxed);
    mode
}

// SAFETY: each method passes its arguments, and so its contract, to one of two allocators, the same
// for allocating and freeing (A1, A2).
unsafe impl GlobalAlloc for Switch {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let mode = self.mode();
        if mode == MIMALLOC {
            // SAFETY: the caller's contract.
            unsafe { MiMalloc.alloc(layout) }
        } else {
            // SAFETY: the caller's contract.
            self.count(mode, layout.size(), unsafe { System.alloc(layout) })
        }
    }

    #[inline]
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        if self.mode() == MIMALLOC {
            // SAFETY: the caller's contract, and A2.
            unsafe { MiMalloc.dealloc(ptr, layout) }
        } else {
            // SAFETY: the caller's contract, and A2.
            unsafe { System.dealloc(ptr, layout) }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let mode = self.mode();
        if mode == MIMALLOC {
            // SAFETY: the caller's contract.
            unsafe { MiMalloc.alloc_zeroed(layout) }
        } else {
            // SAFETY: the caller's contract.
            self.count(mode, layout.size(), unsafe { System.alloc_zeroed(layout) })
        }
    }

    #[inline]
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let mode = self.mode();
        if mode == MIMALLOC {
            // SAFETY: the caller's contract, and A2.
            unsafe { MiMalloc.realloc(ptr, layout, size) }
        } else {
            // SAFETY: the caller's contract, and A2.
            let place = unsafe { System.realloc(ptr, layout, size) };
            self.count(mode, size.saturating_sub(layout.size()), place)
        }
    }
}

/// What is allocated while something runs, by any thread; none if the allocator is mimalloc.
pub(crate) fn counted(run: impl FnOnce()) -> Option<Memory> {
    // A2 forbids to count there.
    MODE.compare_exchange(SYSTEM, COUNTING, Relaxed, Relaxed).ok()?;
    let counted = || [&BYTES, &ALLOCATIONS, &HEAP].map(|count| count.load(Relaxed));
    let before = counted();
    run();
    let after = counted();
    MODE.store(SYSTEM, Relaxed);
    let [bytes, allocations, heap] = [0, 1, 2].map(|at| (after[at] - before[at]) as f64);
    Some(Memory {
        bytes,
        allocations: Some(allocations),
        heap: Some(heap).filter(|_| cfg!(target_env = "gnu")),
        warm: None,
    })
}
