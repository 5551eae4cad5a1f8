//! [`Block`]: an owned value with a count of its shares.
//!
//! Like an `Arc`, but made for values that are bound and soon unbound. Whoever holds the only share
//! lets go of it without a read-modify-write. Small blocks are kept by the thread that let go of them, up to
//! [`KEPT`], since the allocator takes longer than all the rest of a binding. And who holds a pointer to a value
//! need not know its type to share it or to let go of it.
//!
//! ```text
//!   | padding, if the value's alignment asks for it | Header | value |
//!                                                            ^ what slots of frames point to
//! ```
//!
//! # Invariants
//!
//! - **B1** The header lies right below the value, and lives as long as there are shares. Who holds a share may
//!   make another.
//! - **B2** A thread's list holds blocks of [`SMALL`] that nobody else points to, each written over with a
//!   [`Spare`], up to [`END`]. It is null until the thread has a [`Keeper`] to free it, and again
//!   once that is gone.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Header {
    shares: AtomicUsize,
    /// Drops the value and frees the block.
    free: unsafe fn(NonNull<()>),
}

/// A share of a value.
pub(crate) struct Block<T> {
    value: NonNull<T>,
    _value: PhantomData<T>,
}

// SAFETY: as `Arc<T>`.
unsafe impl<T: Send + Sync> Send for Block<T> {}
// SAFETY: as `Arc<T>`.
unsafe impl<T: Send + Sync> Sync for Block<T> {}

/// What threads keep: room for the header and a value of 48 bytes.
// SAFETY: a power of two, and no overflow.
const SMALL: Layout = unsafe { Layout::from_size_align_unchecked(64, 16) };
/// How many blocks a thread keeps.
const KEPT: usize = 32;

impl<T> Block<T> {
    /// Where the value begins.
    const OFFSET: usize =
        if align_of::<T>() > size_of::<Header>() { align_of::<T>() } else { size_of::<Header>() };
    const SMALL: bool = align_of::<T>() <= SMALL.align()
        && Self::OFFSET + size_of::<T>() <= SMALL.size()
        // So that the checkers see who uses what has been freed.
        && !cfg!(any(miri, raddle_asan));

    fn layout() -> Layout {
        if Self::SMALL {
            return SMALL;
        }
        let (value, header) = (Layout::new::<T>(), Layout::new::<Header>());
        let size = value.size().checked_add(Self::OFFSET).expect("a size that fits");
        Layout::from_size_align(size, value.align().max(header.align())).expect("a size that fits")
    }

    #[inline]
    pub(crate) fn new(value: T) -> Block<T> {
        let block = if Self::SMALL { take_small() } else { allocate(Self::layout()) };
        // SAFETY: within the block.
        let place = unsafe { block.byte_add(Self::OFFSET) }.cast::<T>();
        // SAFETY: fresh memory for a value.
        unsafe { place.write(value) };
        let header = Header { shares: AtomicUsize::new(1), free: Self::free };
        // SAFETY: B1: fresh memory, aligned as `OFFSET` is a multiple of the header's size.
        unsafe { header_of(place.cast()).write(header) };
        Block { value: place, _value: PhantomData }
    }

    /// What slots hold.
    #[inline(always)]
    pub(crate) fn pointer(&self) -> *const () {
        self.value.as_ptr().cast_const().cast()
    }

    /// # Safety
    ///
    /// A value of such a block, to which there is no share any more.
    unsafe fn free(value: NonNull<()>) {
        /// Also if the value's `Drop` panics.
        struct Emptied(NonNull<u8>, bool, Layout);
        impl Drop for Emptied {
            #[inline]
            fn drop(&mut self) {
                if self.1 {
                    // SAFETY: B2: no share (contract).
                    unsafe { keep_small(self.0) };
                } else {
                    // SAFETY: allocated with this layout, and nobody's (contract).
                    unsafe { dealloc(self.0.as_ptr(), self.2) };
                }
            }
        }
        // SAFETY: within the block.
        let block = unsafe { value.byte_sub(Self::OFFSET) }.cast();
        let _emptied = Emptied(block, Self::SMALL, Self::layout());
        // SAFETY: contract.
        unsafe { value.cast::<T>().drop_in_place() };
    }
}

impl<T> Drop for Block<T> {
    #[inline]
    fn drop(&mut self) {
        let value = self.value.cast();
        // SAFETY: B1: this share.
        if unsafe { last(value) } {
            // SAFETY: there is none any more.
            unsafe { Self::free(value) };
        }
    }
}

/// # Safety
///
/// The value of a block.
#[inline(always)]
unsafe fn header_of(value: NonNull<()>) -> NonNull<Header> {
    // SAFETY: B1.
    unsafe { value.byte_sub(size_of::<Header>()) }.cast()
}

/// Takes a further share of a value.
///
/// # Safety
///
/// The value of a block of which there is a share.
pub(crate) unsafe fn retain(value: NonNull<()>) {
    // SAFETY: contract.
    let header = unsafe { header_of(value) };
    // SAFETY: B1.
    let shares = unsafe { &(*header.as_ptr()).shares };
    // ORD: as in `Arc`: who has a share passes it on by other means.
    shares.fetch_add(1, Ordering::Relaxed);
}

/// Lets go of a share, whose value may then be dropped.
///
/// # Safety
///
/// The value of a block, and a share of the caller's.
pub(crate) unsafe fn release(value: NonNull<()>) {
    // SAFETY: contract.
    if unsafe { last(value) } {
        // SAFETY: contract.
        let header = unsafe { header_of(value) };
        // SAFETY: B1: alive until it is freed.
        let free = unsafe { (*header.as_ptr()).free };
        // SAFETY: nobody has a share.
        unsafe { free(value) };
    }
}

/// Gives a share back; whether it was the last.
///
/// # Safety
///
/// As [`release`].
#[inline(always)]
unsafe fn last(value: NonNull<()>) -> bool {
    // SAFETY: contract.
    let header = unsafe { header_of(value) };
    // SAFETY: B1.
    let shares = unsafe { &(*header.as_ptr()).shares };
    // ORD: Acquire pairs with the Release of the shares that have gone: what they did to the value is
    // over. Nobody adds to a single share but who holds it (B1).
    shares.load(Ordering::Acquire) == 1 || shares.fetch_sub(1, Ordering::AcqRel) == 1
}

/// A block that is kept.
struct Spare {
    next: *const Spare,
    /// How many there are from here on.
    length: usize,
}

/// The end of every list.
static END: End = End(Spare { next: ptr::null(), length: 0 });

struct End(Spare);

// SAFETY: never changed.
unsafe impl Sync for End {}

raddle_sync::thread_local! {
    static SPARES: Cell<*const Spare> = const { Cell::new(ptr::null()) };
}

#[cfg(not(any(raddle_loom, raddle_shuttle)))]
thread_local! {
    static KEEPER: Keeper = const { Keeper };
}

/// Frees what a thread has kept when it ends.
struct Keeper;

impl Drop for Keeper {
    fn drop(&mut self) {
        let mut next = SPARES.with(|spares| spares.replace(ptr::null()));
        // SAFETY: B2: null, or alive.
        while let Some(spare) = unsafe { next.as_ref() }.filter(|spare| spare.length > 0) {
            let block = ptr::from_ref(spare).cast_mut().cast();
            next = spare.next;
            // SAFETY: B2.
            unsafe { dealloc(block, SMALL) };
        }
    }
}

#[inline]
fn take_small() -> NonNull<u8> {
    SPARES.with(|spares| {
        // SAFETY: B2: null, or alive.
        match unsafe { spares.get().as_ref() } {
            Some(spare) if spare.length > 0 => {
                spares.set(spare.next);
                NonNull::from(spare).cast()
            }
            _ => allocate(SMALL),
        }
    })
}

/// Keeps a block for later, or frees it.
///
/// # Safety
///
/// A block of `SMALL` that is nobody's.
#[inline]
unsafe fn keep_small(block: NonNull<u8>) {
    SPARES.with(|spares| {
        // SAFETY: B2: null, or alive.
        let next = match unsafe { spares.get().as_ref() } {
            Some(next) if next.length < KEPT => next,
            None if has_keeper() => &END.0,
            // SAFETY: contract.
            _ => return unsafe { dealloc(block.as_ptr(), SMALL) },
        };
        let block = block.cast::<Spare>();
        // SAFETY: B2: large enough, and nobody's.
        unsafe { block.write(Spare { next, length: next.length + 1 }) };
        spares.set(block.as_ptr());
    });
}

/// Whether what the thread keeps will be freed.
#[cold]
#[inline(never)]
fn has_keeper() -> bool {
    #[cfg(not(any(raddle_loom, raddle_shuttle)))]
    let has = KEEPER.try_with(|_| ()).is_ok();
    #[cfg(any(raddle_loom, raddle_shuttle))]
    let has = false;
    has
}

#[cold]
#[inline(never)]
fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: not of size zero: there is a header.
    NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

#[cfg(all(test, not(any(raddle_loom, raddle_shuttle))))]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[repr(align(64))]
    struct Aligned([u8; 3], Arc<()>);

    fn value<T>(block: &Block<T>) -> NonNull<()> {
        NonNull::new(block.pointer().cast_mut()).unwrap()
    }

    #[test]
    fn values_of_all_sorts_live_until_the_last_share_goes() {
        fn check<T>(make: impl Fn(Arc<()>) -> T) {
            let witness = Arc::new(());
            let block = Block::new(make(Arc::clone(&witness)));
            assert_eq!(block.pointer().addr() % align_of::<T>(), 0);
            // SAFETY: there is a share.
            unsafe { retain(value(&block)) };
            let shared = value(&block);
            drop(block);
            assert_eq!(Arc::strong_count(&witness), 2);
            // SAFETY: the share from above.
            unsafe { release(shared) };
            assert_eq!(Arc::strong_count(&witness), 1);
        }
        check(|witness| witness);
        check(|witness| (witness, [0_u8; 100]));
        check(|witness| Aligned([1; 3], witness));
        check(|witness| (witness, [0_u128; 1]));
        assert_eq!(Aligned([1; 3], Arc::default()).0, [1; 3]);
    }

    #[test]
    fn a_thread_keeps_a_few_blocks() {
        if !Block::<u64>::SMALL {
            return;
        }
        let kept = || {
            let spares = SPARES.with(Cell::get);
            // SAFETY: B2.
            unsafe { spares.as_ref() }.map_or(0, |spare| spare.length)
        };
        std::thread::spawn(move || {
            let blocks: Vec<Block<usize>> = (0..2 * KEPT).map(Block::new).collect();
            assert_eq!(kept(), 0);
            drop(blocks);
            assert_eq!(kept(), KEPT);
            let block = Block::new([7_u64; 6]);
            assert_eq!(kept(), KEPT - 1);
            drop(block);
            let large = Block::new([7_u64; 7]);
            assert_eq!(kept(), KEPT);
            drop(large);
            assert_eq!(kept(), KEPT);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_block_is_freed_though_its_value_panics() {
        struct Panics;
        impl Drop for Panics {
            fn drop(&mut self) {
                panic!("in drop");
            }
        }
        let block = Block::new(Panics);
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(block))).is_err());
    }

    #[test]
    fn blocks_outlive_the_threads_that_made_them_and_the_keeper() {
        thread_local! {
            static LATE: Cell<Option<Block<String>>> = const { Cell::new(None) };
        }
        let block = std::thread::spawn(|| {
            // Its destructor runs after the keeper's, which the first block to go registers.
            LATE.set(Some(Block::new("late".to_string())));
            drop(Block::new(1));
            Block::new("here".to_string())
        });
        let block = block.join().unwrap();
        // SAFETY: a share is held.
        assert_eq!(unsafe { block.value.as_ref() }, "here");
    }
}
