//! [`Block`]: an owned value with a count of its shares.
//!
//! Like an `Arc`, but made for values that are bound and soon unbound. Whoever holds the only share lets go
//! of it without a read-modify-write. The memory comes from where that of nodes does, since the allocator
//! takes longer than all the rest of a binding. And whoever holds a pointer to a value need not know its type to share
//! it or to let go of it.
//!
//! ```text
//!   | padding, if the value's alignment asks for it | Header | value |
//!                                                            ^ what slots of frames point to
//! ```
//!
//! # Invariants
//!
//! - **BL1** The header lies right below the value, and lives as long as there are shares. Whoever holds a share may
//!   make another.

use std::marker::PhantomData;
use std::mem::{MaybeUninit, offset_of};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::memory;

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

/// Room for a value, with the header or more below it.
#[repr(C)]
struct Room<T> {
    header: MaybeUninit<Header>,
    value: MaybeUninit<T>,
}

impl<T> Block<T> {
    #[inline]
    pub(crate) fn new(value: T) -> Block<T> {
        let room = memory::reserve::<Room<T>>();
        // SAFETY: within the room.
        let place = unsafe { room.byte_add(offset_of!(Room<T>, value)) }.cast::<T>();
        // SAFETY: fresh memory for a value.
        unsafe { place.write(value) };
        let header = Header { shares: AtomicUsize::new(1), free: Self::free };
        // SAFETY: BL1: within the room.
        let above = unsafe { header_of(place.cast()) };
        // SAFETY: fresh memory, aligned as the value's offset is a multiple of the header's alignment.
        unsafe { above.write(header) };
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
        struct Emptied<T>(NonNull<Room<T>>);
        impl<T> Drop for Emptied<T> {
            #[inline]
            fn drop(&mut self) {
                // SAFETY: reserved, and nobody's (contract).
                unsafe { memory::free(self.0) };
            }
        }
        // SAFETY: within the room.
        let room = unsafe { value.byte_sub(offset_of!(Room<T>, value)) }.cast::<Room<T>>();
        let _emptied = Emptied(room);
        // SAFETY: contract.
        unsafe { value.cast::<T>().drop_in_place() };
    }
}

impl<T> Drop for Block<T> {
    #[inline]
    fn drop(&mut self) {
        let value = self.value.cast();
        // SAFETY: BL1: this share.
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
    // SAFETY: BL1.
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
    // SAFETY: BL1.
    let shares = unsafe { &(*header.as_ptr()).shares };
    // ORD: as in `Arc`: whoever has a share passes it on by other means.
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
        // SAFETY: BL1: alive until it is freed.
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
    // SAFETY: BL1.
    let shares = unsafe { &(*header.as_ptr()).shares };
    // ORD: Acquire pairs with the Release of the shares that have gone: what they did to the value is
    // over. Nobody adds to a single share but its holder (BL1).
    shares.load(Ordering::Acquire) == 1 || shares.fetch_sub(1, Ordering::AcqRel) == 1
}

#[cfg(all(test, not(raddle_model)))]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use super::*;

    #[repr(align(64))]
    struct Aligned([u8; 3], #[expect(dead_code, reason = "dropped")] Arc<()>);

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
    fn blocks_outlive_the_threads_that_made_them() {
        thread_local! {
            static LATE: Cell<Option<Block<String>>> = const { Cell::new(None) };
        }
        let block = std::thread::spawn(|| {
            // Goes when the thread may keep no memory any more.
            LATE.set(Some(Block::new("late".to_string())));
            drop(Block::new(1));
            Block::new("here".to_string())
        });
        let block = block.join().unwrap();
        // SAFETY: a share is held.
        assert_eq!(unsafe { block.value.as_ref() }, "here");
    }
}
