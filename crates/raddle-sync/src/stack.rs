//! How much stack a thread has left. Under models: enough.

use std::cell::Cell;

thread_local! {
    /// The lowest address that this thread's stack may reach; 0: not asked yet.
    static END: Cell<usize> = const { Cell::new(0) };
}

/// What a stack is taken to be where the system does not tell, counted from the first call on.
const GUESS: usize = 512 << 10;

/// About how many bytes of stack the calling thread has left. Costs a thread-local read after the first call on a
/// thread, which asks the system (a guess of 512 KiB from there on where that does not tell).
///
/// ```
/// assert!(raddle_sync::stack::remaining() > 64 << 10);
/// ```
#[inline]
pub fn remaining() -> usize {
    if cfg!(any(raddle_loom, raddle_shuttle)) {
        return 1 << 30;
    }
    let here = position();
    let mut end = END.get();
    if end == 0 {
        end = find_end(here);
        END.set(end);
    }
    here.saturating_sub(end)
}

/// About where the stack pointer is.
#[inline(never)]
fn position() -> usize {
    let here = 0_u8;
    std::ptr::from_ref(&here).addr()
}

#[cold]
fn find_end(here: usize) -> usize {
    sys::end().filter(|&end| end < here).unwrap_or(here.saturating_sub(GUESS)).max(1)
}

#[cfg(all(target_os = "linux", not(miri)))]
mod sys {
    /// The lowest address of this thread's stack, above its guard.
    pub(super) fn end() -> Option<usize> {
        // SAFETY: no arguments, no effects.
        let me = unsafe { libc::pthread_self() };
        let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
        // SAFETY: writes the attributes, which are to be destroyed if it says 0.
        if unsafe { libc::pthread_getattr_np(me, attributes.as_mut_ptr()) } != 0 {
            return None;
        }
        let (mut start, mut size, mut guard) = (std::ptr::null_mut(), 0, 0);
        // SAFETY: initialised above.
        let stack =
            unsafe { libc::pthread_attr_getstack(attributes.as_ptr(), &mut start, &mut size) };
        // SAFETY: as above. (glibc counts the guard to the stack, other libraries don't: rather too little.)
        let guarded = unsafe { libc::pthread_attr_getguardsize(attributes.as_ptr(), &mut guard) };
        // SAFETY: initialised above, and not used again.
        unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
        (stack == 0 && guarded == 0).then(|| start.addr() + guard)
    }
}

#[cfg(all(target_os = "macos", not(miri)))]
mod sys {
    /// The lowest address of this thread's stack.
    pub(super) fn end() -> Option<usize> {
        // SAFETY: no arguments, no effects.
        let me = unsafe { libc::pthread_self() };
        // SAFETY: a living thread.
        let top = unsafe { libc::pthread_get_stackaddr_np(me) };
        // SAFETY: as above.
        let size = unsafe { libc::pthread_get_stacksize_np(me) };
        Some(top.addr().saturating_sub(size))
    }
}

#[cfg(any(miri, not(any(target_os = "linux", target_os = "macos"))))]
mod sys {
    pub(super) fn end() -> Option<usize> {
        None
    }
}

#[cfg(all(test, not(any(raddle_loom, raddle_shuttle))))]
mod tests {
    use super::*;

    #[inline(never)]
    fn deeper(bytes: usize) -> usize {
        let filler = [1_u8; 4096];
        if bytes <= 4096 {
            return remaining() + usize::from(std::hint::black_box(&filler)[0]) - 1;
        }
        deeper(bytes - 4096) + usize::from(std::hint::black_box(&filler)[7]) - 1
    }

    #[test]
    #[cfg_attr(miri, ignore = "there is no stack in one piece")]
    fn what_is_left_shrinks_by_what_is_used() {
        let size = 1 << 20;
        let thread = std::thread::Builder::new().stack_size(size).spawn(|| {
            let before = remaining();
            (before, deeper(128 << 10))
        });
        let (before, after) = thread.unwrap().join().unwrap();
        // A thread has what it asked for, or somewhat more.
        assert!(before > 128 << 10 && before < 4 * size, "{before}");
        assert!(before - after >= 120 << 10, "{before} {after}");
    }
}
