//! Memory that is kept for its addresses alone.

/// Gives what lies within back to the system, if that takes it: from then on it reads as zeros, and is had anew when it is written. Whole
/// pages only. Costs a call of the system, and nothing but that where there is nothing to give.
///
/// Where the system has no such call, and under Miri and the model checkers, nothing happens.
///
/// # Safety
///
/// From `start` on `len` bytes belong to one allocation, which stays; whoever reads them meanwhile or later takes zeros as well as what was
/// there, and reads them as atomics if that is at the same time; nobody writes them meanwhile.
pub unsafe fn give_back(start: *mut u8, len: usize) {
    // SAFETY: by contract.
    unsafe { os::give_back(start, len) };
}

#[cfg(all(target_os = "linux", not(any(miri, raddle_model))))]
mod os {
    pub(super) unsafe fn give_back(start: *mut u8, len: usize) {
        // SAFETY: no pointers.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let Some(page) = usize::try_from(page).ok().filter(|page| page.is_power_of_two()) else {
            return;
        };
        let before = start.align_offset(page);
        let Some(whole) = len.checked_sub(before).map(|rest| rest & !(page - 1)) else { return };
        if whole == 0 {
            return;
        }
        let first = start.wrapping_add(before);
        // SAFETY: whole pages of the caller's. If the system refuses, nothing has happened.
        unsafe { libc::madvise(first.cast(), whole, libc::MADV_DONTNEED) };
    }
}

#[cfg(not(all(target_os = "linux", not(any(miri, raddle_model)))))]
mod os {
    pub(super) unsafe fn give_back(_start: *mut u8, _len: usize) {}
}

#[cfg(all(test, target_os = "linux", not(any(miri, raddle_model))))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn whole_pages_read_as_zeros_and_their_neighbours_stay() {
        for len in [0, 1, 511, 512, 1023, 1 << 16] {
            let words: Vec<AtomicUsize> = (0..len).map(|_| AtomicUsize::new(7)).collect();
            // SAFETY: they are atomics, and nobody else has them.
            unsafe { give_back(words.as_ptr().cast_mut().cast(), len * size_of::<usize>()) };
            let left = words.iter().filter(|word| word.load(Ordering::Relaxed) == 7).count();
            // At both ends up to a page.
            assert!(left <= 2 * (64 << 10) / size_of::<usize>(), "{left} of {len}");
            assert!(words.iter().all(|word| matches!(word.load(Ordering::Relaxed), 0 | 7)));
            words.iter().for_each(|word| word.store(9, Ordering::Relaxed));
            assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 9));
        }
    }
}
