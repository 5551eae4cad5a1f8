//! Where nodes and tasks come from and go to.
//!
//! They are small, of few sizes, and made and freed at a rate at which the system's allocator is most of
//! the cost of an operation. So each thread keeps a few free blocks of each size for the next one. What
//! is over the limit, or of an unusual size, is the allocator's. With `--cfg raddle_plain_memory` all are, so that tools
//! that watch the allocator see every node. Under models `ledger` stands in for this.
//!
//! # Invariants
//!
//! - **M1** A block in a list is free, of the list's size, and belongs to the thread of the list.

use std::alloc::Layout;
use std::cell::Cell;
use std::ptr::{self, NonNull};

/// How many blocks of a size a thread keeps.
const LIMIT: usize = 256;
/// Sizes in words, from two to fewer than this many.
const CLASSES: usize = 17;

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
    static ENDING: Cell<Ending> = const { Cell::new(Ending::Unregistered) };
    static AT_THREAD_END: AtThreadEnd = const { AtThreadEnd };
}

/// The list for nodes of this type, if there is one.
const fn class<N>() -> Option<usize> {
    let words = size_of::<N>().div_ceil(8);
    let plain = cfg!(any(raddle_plain_memory, miri));
    if plain || align_of::<N>() > 8 || size_of::<usize>() != 8 || words < 2 || words >= CLASSES {
        None
    } else {
        Some(words)
    }
}

fn layout(class: usize) -> Layout {
    Layout::array::<u64>(class).expect("a few words")
}

/// Memory for a node, to be written.
#[inline]
pub(crate) fn reserve<N>() -> NonNull<N> {
    let Some(class) = (const { class::<N>() }) else { return fresh::<N>() };
    match NonNull::new(FREE.with(|free| free[class].get())) {
        Some(block) => {
            // SAFETY: M1.
            let next = unsafe { block.as_ref() }.next;
            FREE.with(|free| free[class].set(next));
            block.cast()
        }
        None => fresh::<N>(),
    }
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
fn fresh<N>() -> NonNull<N> {
    let layout = const { class::<N>() }.map_or(Layout::new::<N>(), layout);
    // SAFETY: nodes have a state, so they are not of size zero.
    let place = unsafe { std::alloc::alloc(layout) };
    NonNull::new(place.cast()).unwrap_or_else(|| std::alloc::handle_alloc_error(layout))
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
    let Some(class) = (const { class::<N>() }) else {
        // SAFETY: contract.
        return unsafe { std::alloc::dealloc(node.as_ptr().cast(), Layout::new::<N>()) };
    };
    let next = FREE.with(|free| free[class].get());
    // SAFETY: M1.
    let count = unsafe { next.as_ref() }.map_or(0, |next| next.count);
    if count >= LIMIT || (count == 0 && !is_kept()) {
        // SAFETY: contract, with this layout.
        return unsafe { std::alloc::dealloc(node.as_ptr().cast(), layout(class)) };
    }
    let block = node.cast::<Block>();
    // SAFETY: two words at least, and nobody else's.
    unsafe { block.write(Block { next, count: count + 1 }) };
    FREE.with(|free| free[class].set(block.as_ptr()));
}

/// Whether this thread may keep blocks; asked when it has none of a size.
#[inline]
fn is_kept() -> bool {
    ENDING.get() == Ending::Registered || register()
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
        FREE.with(|free| {
            for (class, list) in free.iter().enumerate() {
                let mut next = list.replace(ptr::null_mut());
                // SAFETY: M1.
                while let Some(block) = unsafe { next.as_ref() } {
                    let gone = next;
                    next = block.next;
                    // SAFETY: M1, and taken out of the list.
                    unsafe { std::alloc::dealloc(gone.cast(), layout(class)) };
                }
            }
        });
    }
}
