//! Where entries live: segments that are added and never moved or freed.
//!
//! **T1** A segment is made, and its pointer set, once, before any index of it is given out. A word that holds an index
//! was written, with Release, after that; whoever reads the word with Acquire finds the segment.
//! **T2** An entry is in one free list, or belongs to one caller of [`take`] until it is given back.

use crate::entry::{DEAD, Entry, LOCKED};
use crate::stats::{Count, count};
use crate::word;
use raddle_sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use raddle_sync::strand::{self, Local};
use raddle_sync::sync::Mutex;
use std::ptr;
#[cfg(not(raddle_model))]
use std::{cell::UnsafeCell, mem::MaybeUninit};
#[cfg(all(unix, not(any(miri, raddle_model))))]
use {crate::entry::Inner, raddle_sync::sync::MutexGuard};

const MODEL: bool = cfg!(raddle_model);
/// Entries in a segment.
const SEGMENT: u32 = if MODEL { 1 } else { 1024 };
/// All entries that an index can name are 65,536 segments.
const SEGMENTS: u32 = if MODEL { 16 } else { (word::INDEX + 1) / SEGMENT };
/// Free lists, so that strands seldom meet at one.
const LISTS: usize = if MODEL { 1 } else { 16 };
/// Hot locks that stay fat, at most; a guard against an address space full of them.
const MAX_STICKY: u32 = if MODEL { 1 } else { 4096 };
/// No index.
const NONE: u32 = u32::MAX;

struct Table {
    segments: [AtomicPtr<Entry>; SEGMENTS as usize],
    /// The first index that was never given out.
    next: Mutex<u32>,
    free: [FreeList; LISTS],
    sticky: AtomicU32,
}

#[repr(align(128))]
struct FreeList(Mutex<u32>);

#[cfg(not(raddle_model))]
static TABLE: Table = Table {
    segments: [const { AtomicPtr::new(ptr::null_mut()) }; SEGMENTS as usize],
    next: Mutex::new(0),
    free: [const { FreeList(Mutex::new(NONE)) }; LISTS],
    sticky: AtomicU32::new(0),
};

#[cfg(raddle_model)]
raddle_sync::lazy_static! {
    static TABLE: Table = Table {
        segments: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
        next: Mutex::new(0),
        free: std::array::from_fn(|_| FreeList(Mutex::new(NONE))),
        sticky: AtomicU32::new(0),
    };
}

/// The first segment, which few programs need more than: found without a look at the table. Nothing to the program as long
/// as no lock is fat.
#[cfg(not(raddle_model))]
struct First(UnsafeCell<[MaybeUninit<Entry>; SEGMENT as usize]>);

// SAFETY: written by `grow` alone, once, before any index of it is given out (T1); entries may be shared.
#[cfg(not(raddle_model))]
unsafe impl Sync for First {}

#[cfg(not(raddle_model))]
static FIRST: First = First(UnsafeCell::new([const { MaybeUninit::uninit() }; SEGMENT as usize]));

/// A model's table goes with the model's execution.
#[cfg(raddle_model)]
impl Drop for Table {
    fn drop(&mut self) {
        for segment in &self.segments {
            let first = segment.load(Ordering::Relaxed);
            if !first.is_null() {
                let entries = ptr::slice_from_raw_parts_mut(first, SEGMENT as usize);
                // SAFETY: made of a box of that size in `grow`; the execution is over.
                drop(unsafe { Box::from_raw(entries) });
            }
        }
    }
}

/// The entry of an index that a word contained.
#[inline]
pub(crate) fn entry(index: u32) -> &'static Entry {
    let segment = index / SEGMENT % SEGMENTS;
    #[cfg(not(raddle_model))]
    let first = match segment {
        0 => FIRST.0.get().cast::<Entry>().cast_const(),
        _ => later(segment),
    };
    #[cfg(raddle_model)]
    let first = later(segment);
    // SAFETY: a segment that is there (T1) has `SEGMENT` entries.
    let entry = unsafe { first.add((index % SEGMENT) as usize) };
    // SAFETY: entries are never freed (E1).
    unsafe { &*entry }
}

/// The entries of a segment.
#[inline]
fn later(segment: u32) -> *const Entry {
    // ORD: Acquire pairs with the Release in `grow` (T1).
    let first = TABLE.segments[segment as usize].load(Ordering::Acquire);
    debug_assert!(!first.is_null());
    first
}

/// An entry for one lock, `LOCKED` and otherwise as new.
pub(crate) fn take() -> &'static Entry {
    let own = own_list();
    let entry = (0..LISTS).find_map(|n| pop((own + n) % LISTS)).unwrap_or_else(grow);
    debug_assert_ne!(entry.state.load(Ordering::Relaxed) & DEAD, 0);
    entry.owner.store(0, Ordering::Relaxed);
    entry.levels.store(0, Ordering::Relaxed);
    entry.starving.store(0, Ordering::Relaxed);
    entry.restore.store(word::FREE, Ordering::Relaxed);
    // ORD: `Relaxed`: whoever learns of the entry learns of it from a word or a list, later.
    entry.update(Ordering::Relaxed, |state| {
        (state & word::GENERATIONS).wrapping_add(word::GENERATION) & word::GENERATIONS | LOCKED
    });
    entry
}

/// The list that the running strand looks at first.
fn own_list() -> usize {
    strand::with_local(Local::token_or_zero) as usize % LISTS
}

/// Gives an entry back; nobody has it but the caller, and stragglers that will find it changed.
pub(crate) fn give_back(entry: &'static Entry) {
    if entry.sticky.swap(0, Ordering::Relaxed) != 0 {
        TABLE.sticky.fetch_sub(1, Ordering::Relaxed);
    }
    entry.clean.store(0, Ordering::Relaxed);
    let inner = entry.inner.lock();
    debug_assert!(inner.lock.is_empty() && inner.notice.is_empty());
    let armed = entry.armed.swap(0, Ordering::Relaxed);
    drop(inner);
    if armed != 0 {
        crate::slot::disarm(armed); // A guard was forgotten.
    }
    entry.update(Ordering::Release, |state| state & word::GENERATIONS | LOCKED | DEAD);
    let mut head = TABLE.free[own_list()].0.lock();
    entry.next_free.store(*head, Ordering::Relaxed);
    *head = entry.index;
}

/// Marks an entry to stay with its lock, unless there are too many such.
pub(crate) fn make_sticky(entry: &Entry) {
    if TABLE.sticky.fetch_add(1, Ordering::Relaxed) < MAX_STICKY {
        entry.sticky.store(1, Ordering::Relaxed);
    } else {
        TABLE.sticky.fetch_sub(1, Ordering::Relaxed);
    }
}

fn pop(list: usize) -> Option<&'static Entry> {
    let mut head = TABLE.free[list].0.lock();
    if *head == NONE {
        return None;
    }
    let first = entry(*head);
    *head = first.next_free.load(Ordering::Relaxed);
    Some(first)
}

/// An entry never used before; a segment of them, if need be.
#[cold]
fn grow() -> &'static Entry {
    let mut next = TABLE.next.lock();
    let index = *next;
    assert!(index < SEGMENTS * SEGMENT, "more than {index} locks are fat at once");
    if index % SEGMENT == 0 {
        add_segment(index / SEGMENT);
    }
    *next += 1;
    drop(next);
    entry(index)
}

/// Makes the entries of a segment, under the lock of `next`.
fn add_segment(segment: u32) {
    let indices = segment * SEGMENT..(segment + 1) * SEGMENT;
    #[cfg(not(raddle_model))]
    if segment == 0 {
        let first = FIRST.0.get().cast::<Entry>();
        for index in indices {
            // SAFETY: `first` is the first of as many.
            let entry = unsafe { first.add(index as usize) };
            // SAFETY: nobody knows of it yet (T1).
            unsafe { entry.write(Entry::new(index)) };
        }
        return;
    }
    let entries: Box<[Entry]> = indices.map(Entry::new).collect();
    let first = Box::into_raw(entries).cast::<Entry>();
    // ORD: Release pairs with the Acquire in `later` (T1).
    TABLE.segments[segment as usize].store(first, Ordering::Release);
}

/// The locked free lists, and the lock under which the table grows.
#[cfg(all(unix, not(any(miri, raddle_model))))]
pub(crate) type Locked = (MutexGuard<'static, u32>, Vec<MutexGuard<'static, u32>>);

/// Locks all lists.
#[cfg(all(unix, not(any(miri, raddle_model))))]
pub(crate) fn lock_all() -> Locked {
    (TABLE.next.lock(), TABLE.free.iter().map(|list| list.0.lock()).collect())
}

/// Says of the entries in the free lists that they belong to no lock.
#[cfg(all(unix, not(any(miri, raddle_model))))]
pub(crate) fn bury_free(locked: &Locked) {
    for list in &locked.1 {
        let mut index = **list;
        while index != NONE {
            let free = entry(index);
            free.update(Ordering::Relaxed, |state| state & word::GENERATIONS | LOCKED | DEAD);
            index = free.next_free.load(Ordering::Relaxed);
        }
    }
}

/// Locks the queues of all entries.
#[cfg(all(unix, not(any(miri, raddle_model))))]
pub(crate) fn lock_entries(locked: &Locked) -> Vec<MutexGuard<'static, Inner>> {
    (0..*locked.0).map(|index| entry(index).inner.lock()).collect()
}

/// Counts a lock that has become fat.
pub(crate) fn inflated() {
    count(Count::Inflations);
}

/// Counts a lock that is fat no more.
pub(crate) fn deflated() {
    count(Count::Deflations);
}
