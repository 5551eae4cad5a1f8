//! Where nodes and tasks come from and go to.
//!
//! They are small, of few sizes, and made and freed at a rate at which the system's allocator is most of
//! the cost of an operation. So each thread keeps free blocks of each size for the next one: two batches of [`BATCH`] at
//! most. What is over that goes to a *depot* for all threads, a batch at a time, from where those take it who have none: long
//! chains, and promises that are made on one thread and completed on another, cost a lock for each batch. All depots keep
//! [`DEPOT`] bytes; what is over that, or of an unusual size, is the allocator's. With `--cfg raddle_plain_memory` all are, so that tools
//! that watch the allocator see every node: what is called is the same, but no thread keeps a block. Under models `ledger`
//! stands in for this.
//!
//! # Invariants
//!
//! - **M1** A block in a list is free, of the list's size, and belongs to the thread of the list, or to whoever has the lock of the
//!   depot, or to whoever took it out there.

use std::alloc::Layout;
use std::cell::Cell;
use std::hint;
use std::num::NonZero;
use std::ptr::{self, NonNull};
use std::sync::{Mutex, MutexGuard, TryLockError};

use raddle_sync::atomic::AtomicUsize;
use raddle_sync::atomic::Ordering::Relaxed;

/// Blocks of a size that go from thread to thread together.
const BATCH: usize = 256;
/// Bytes of all sizes that are kept for all threads.
const DEPOT: usize = 8 << 20;
/// Sizes in words, from two to fewer than this many.
const CLASSES: usize = 17;
/// Whether all blocks are the allocator's.
const PLAIN: bool = cfg!(any(raddle_plain_memory, miri));

/// A free block.
struct Block {
    next: *mut Block,
    /// How many blocks there are from here on.
    count: usize,
}

/// Whether the thread sees to its blocks when it ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Unregistered,
    Registered,
    Over,
}

thread_local! {
    static FREE: [Cell<*mut Block>; CLASSES] =
        const { [const { Cell::new(ptr::null_mut()) }; CLASSES] };
    /// A batch each, or nothing.
    static SPARE: [Cell<*mut Block>; CLASSES] =
        const { [const { Cell::new(ptr::null_mut()) }; CLASSES] };
    static ENDING: Cell<Ending> = const { Cell::new(Ending::Unregistered) };
    static AT_THREAD_END: AtThreadEnd = const { AtThreadEnd };
}

/// The list for blocks of a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Class(NonZero<u8>);

/// Where the memory of such a node goes, if that is a list and there is nothing to drop.
pub(crate) const fn class_of<N>() -> Option<Class> {
    match class::<N>() {
        Some(class) if !std::mem::needs_drop::<N>() => match NonZero::new(class as u8) {
            Some(class) => Some(Class(class)),
            None => None,
        },
        _ => None,
    }
}

/// Frees a node of this class, in which nothing is to be dropped.
///
/// # Safety
///
/// From `allocate`, once.
#[inline(always)]
pub(crate) unsafe fn free_of(node: NonNull<u8>, class: Class) {
    let class = usize::from(class.0.get());
    // SAFETY: made by `class_of` only.
    unsafe { hint::assert_unchecked(class < CLASSES) };
    count_freed();
    // SAFETY: contract.
    unsafe { put(node.cast(), class) };
}

/// The list for nodes of this type, if there is one.
const fn class<N>() -> Option<usize> {
    let words = size_of::<N>().div_ceil(8);
    if align_of::<N>() > 8 || size_of::<usize>() != 8 || words < 2 || words >= CLASSES {
        None
    } else {
        Some(words)
    }
}

fn layout(class: usize) -> Layout {
    Layout::array::<u64>(class).expect("a few words")
}

/// Nodes and tasks that there are.
static LIVE: AtomicUsize = AtomicUsize::new(0);

/// How many nodes and tasks there are; none in release builds, which don't count them. For tests: what is left over now and then
/// is less than what lists keep.
pub fn live() -> Option<usize> {
    // ORD: a number; who wants it exact has waited for all that others do.
    cfg!(debug_assertions).then(|| LIVE.load(Relaxed))
}

/// Memory for a node, to be written.
#[inline]
pub(crate) fn reserve<N>() -> NonNull<N> {
    if cfg!(debug_assertions) {
        // ORD: a number.
        LIVE.fetch_add(1, Relaxed);
    }
    match const { class::<N>() } {
        Some(class) => take(class).cast(),
        None => allocated(Layout::new::<N>()).cast(),
    }
}

#[inline(always)]
fn count_freed() {
    if cfg!(debug_assertions) {
        // ORD: a number.
        LIVE.fetch_sub(1, Relaxed);
    }
}

/// The first block of a list, or another.
#[inline]
fn take(class: usize) -> NonNull<Block> {
    let Some(block) = NonNull::new(FREE.with(|free| free[class].get())) else {
        return fresh(class);
    };
    // SAFETY: M1.
    let next = unsafe { block.as_ref() }.next;
    FREE.with(|free| free[class].set(next));
    block
}

#[inline]
pub(crate) fn allocate<N>(node: N) -> NonNull<N> {
    let place = reserve::<N>();
    // SAFETY: large enough, aligned, and nobody else's.
    unsafe { place.write(node) };
    place
}

#[cold]
#[inline(never)]
fn fresh(class: usize) -> NonNull<Block> {
    refill(class).unwrap_or_else(|| allocated(layout(class)).cast())
}

fn allocated(layout: Layout) -> NonNull<u8> {
    // SAFETY: nodes and blocks are not of size zero.
    let place = unsafe { std::alloc::alloc(layout) };
    NonNull::new(place).unwrap_or_else(|| std::alloc::handle_alloc_error(layout))
}

/// A block of another batch, if there is one.
fn refill(class: usize) -> Option<NonNull<Block>> {
    let spare = SPARE.with(|spare| spare[class].replace(ptr::null_mut()));
    let batch = NonNull::new(spare).or_else(|| DEPOTS[class].take(class))?;
    // What a thread that is about to end would not free.
    if !is_kept() {
        DEPOTS[class].put(batch, class);
        return None;
    }
    // SAFETY: M1.
    let next = unsafe { batch.as_ref() }.next;
    FREE.with(|free| free[class].set(next));
    Some(batch)
}

/// How many bytes are in depots.
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// Batches of a size that no thread wants at the moment.
struct Depot {
    /// How many there are; changed under the lock.
    batches: AtomicUsize,
    first: Mutex<Batches>,
}

/// A list of batches: the count of each one's first block leads to the next.
struct Batches(*mut Block);

// SAFETY: M1: what is free is nobody's.
unsafe impl Send for Batches {}

static DEPOTS: [Depot; CLASSES] =
    [const { Depot { batches: AtomicUsize::new(0), first: Mutex::new(Batches(ptr::null_mut())) } };
        CLASSES];

impl Depot {
    /// None if another thread has it: of a depot nobody waits for another, not even a child of `fork`, where that thread is not.
    fn try_lock(&self) -> Option<MutexGuard<'_, Batches>> {
        match self.first.try_lock() {
            Ok(first) => Some(first),
            Err(TryLockError::Poisoned(first)) => Some(first.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn take(&self, class: usize) -> Option<NonNull<Block>> {
        // ORD: a hint.
        if self.batches.load(Relaxed) == 0 {
            return None;
        }
        let mut first = self.try_lock()?;
        let mut batch = NonNull::new(first.0)?;
        // SAFETY: M1.
        let block = unsafe { batch.as_mut() };
        first.0 = ptr::with_exposed_provenance_mut(std::mem::replace(&mut block.count, BATCH));
        // ORD: as above.
        self.batches.fetch_sub(1, Relaxed);
        // ORD: a number.
        KEPT.fetch_sub(bytes(class), Relaxed);
        Some(batch)
    }

    /// Keeps a batch, or frees it if there are enough.
    fn put(&self, mut batch: NonNull<Block>, class: usize) {
        // ORD: a number.
        let fits = KEPT.fetch_add(bytes(class), Relaxed) + bytes(class) <= DEPOT;
        let Some(mut first) = self.try_lock().filter(|_| fits) else {
            // ORD: as above.
            KEPT.fetch_sub(bytes(class), Relaxed);
            return release(batch.as_ptr(), class);
        };
        // SAFETY: M1.
        unsafe { batch.as_mut() }.count = first.0.expose_provenance();
        first.0 = batch.as_ptr();
        // ORD: a hint for those who look without the lock.
        self.batches.fetch_add(1, Relaxed);
    }
}

/// How large a batch is.
fn bytes(class: usize) -> usize {
    layout(class).size() * BATCH
}

/// Gives a list of blocks back to the allocator.
fn release(mut list: *mut Block, class: usize) {
    // SAFETY: M1.
    while let Some(block) = unsafe { list.as_ref() } {
        let gone = list;
        list = block.next;
        // SAFETY: M1, and taken out of the list.
        unsafe { std::alloc::dealloc(gone.cast(), layout(class)) };
    }
}

/// Frees a node, after its fields were dropped if they want to be.
///
/// # Safety
///
/// From `allocate`, once.
#[inline]
pub(crate) unsafe fn free<N>(node: NonNull<N>) {
    if std::mem::needs_drop::<N>() {
        // SAFETY: contract.
        unsafe { node.drop_in_place() };
    }
    count_freed();
    match const { class::<N>() } {
        // SAFETY: contract.
        Some(class) => unsafe { put(node.cast(), class) },
        // SAFETY: contract.
        None => unsafe { std::alloc::dealloc(node.as_ptr().cast(), Layout::new::<N>()) },
    }
}

/// Makes a block the first of a list.
///
/// # Safety
///
/// It is of the list's size, and nobody else's.
#[inline(always)]
unsafe fn put(block: NonNull<Block>, class: usize) {
    let next = FREE.with(|free| free[class].get());
    // SAFETY: M1.
    let count = unsafe { next.as_ref() }.map_or(0, |next| next.count);
    if count >= BATCH || (count == 0 && ENDING.get() != Ending::Registered) {
        return begin_batch(block, class);
    }
    // SAFETY: contract.
    unsafe { block.write(Block { next, count: count + 1 }) };
    FREE.with(|free| free[class].set(block.as_ptr()));
}

/// Makes a free block the first of a batch; the one before is full, or this is the thread's first.
#[cold]
#[inline(never)]
fn begin_batch(block: NonNull<Block>, class: usize) {
    // SAFETY: two words at least, and nobody else's.
    unsafe { block.write(Block { next: ptr::null_mut(), count: 1 }) };
    if !is_kept() {
        return release(block.as_ptr(), class);
    }
    let full = FREE.with(|free| free[class].replace(block.as_ptr()));
    if !full.is_null() {
        let spare = SPARE.with(|spare| spare[class].replace(full));
        if let Some(spare) = NonNull::new(spare) {
            DEPOTS[class].put(spare, class);
        }
    }
}

/// Whether this thread may keep blocks; asked when it has none of a size.
#[inline]
fn is_kept() -> bool {
    !PLAIN && (ENDING.get() == Ending::Registered || register())
}

#[cold]
fn register() -> bool {
    if ENDING.get() == Ending::Over || AT_THREAD_END.try_with(|_| ()).is_err() {
        return false;
    }
    ENDING.set(Ending::Registered);
    true
}

struct AtThreadEnd;

impl Drop for AtThreadEnd {
    fn drop(&mut self) {
        ENDING.set(Ending::Over);
        let empty = |lists: &[Cell<*mut Block>; CLASSES]| {
            for (class, list) in lists.iter().enumerate() {
                release(list.replace(ptr::null_mut()), class);
            }
        };
        FREE.with(empty);
        SPARE.with(empty);
    }
}
