//! How much stack a thread has left. Under models: enough.

use std::cell::Cell;
use std::ops::Range;

/// From the lowest address that a stack may reach up to its top.
type Bounds = (usize, usize);

/// The system has not been asked yet.
const NEW: Bounds = (0, 0);
/// It does not tell: no address is on such a stack.
const UNKNOWN: Bounds = (1, 1);

thread_local! {
    /// This thread's.
    static STACK: Cell<Bounds> = const { Cell::new(NEW) };
}

/// What is said where nobody knows.
const GUESS: usize = 512 << 10;

/// About how many bytes of stack the calling thread has left. Costs a thread-local read after the first call on a
/// thread, which asks the system.
///
/// Where that does not tell, and on a stack that is not the thread's own, as of a coroutine, nobody knows: it always says 512 KiB
/// there, however deep the calls.
///
/// ```
/// assert!(raddle_sync::stack::remaining() > 64 << 10);
/// ```
#[inline]
pub fn remaining() -> usize {
    let (left, _) = look();
    left
}

/// As [`remaining`]; none where that is a guess.
#[inline]
pub fn known() -> Option<usize> {
    let (left, is_known) = look();
    is_known.then_some(left)
}

/// Whether something at this address lies on the calling thread's stack, beneath what runs now. Not on a stack that is not the
/// thread's own, and where the system does not tell.
pub fn is_beneath(address: usize) -> bool {
    if cfg!(any(raddle_model, miri)) {
        return true;
    }
    let (_, is_known) = look();
    let (_, top) = STACK.get();
    is_known && (position()..top).contains(&address)
}

/// How much is left, and whether that is more than a guess.
#[inline]
fn look() -> (usize, bool) {
    if cfg!(raddle_model) {
        return (1 << 30, true);
    }
    let here = position();
    let mut stack = STACK.get();
    if stack == NEW {
        stack = find();
        STACK.set(stack);
    }
    left(here, stack)
}

/// As `look`, from `here` on a stack with such bounds. Not counted down where they are not known: what is left would be little at
/// some depth, and waits would stand still there, in whose stead nobody comes.
#[inline]
fn left(here: usize, (end, top): Bounds) -> (usize, bool) {
    if (end..top).contains(&here) { (here - end, true) } else { (GUESS, false) }
}

/// About where the stack pointer is.
#[inline(never)]
fn position() -> usize {
    let here = 0_u8;
    std::ptr::from_ref(&here).addr()
}

#[cold]
fn find() -> Bounds {
    sys::stack().map_or(UNKNOWN, |stack| (stack.start, stack.end))
}

#[cfg(all(any(target_os = "linux", target_os = "android"), not(miri)))]
mod sys {
    use super::Range;

    /// This thread's stack, above its guard.
    pub(super) fn stack() -> Option<Range<usize>> {
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
        let range = || start.addr() + guard..start.addr() + size;
        (stack == 0 && guarded == 0).then(range)
    }
}

#[cfg(all(target_os = "macos", not(miri)))]
mod sys {
    use super::Range;

    /// This thread's stack.
    pub(super) fn stack() -> Option<Range<usize>> {
        // SAFETY: no arguments, no effects.
        let me = unsafe { libc::pthread_self() };
        // SAFETY: a living thread.
        let top = unsafe { libc::pthread_get_stackaddr_np(me) };
        // SAFETY: as above.
        let size = unsafe { libc::pthread_get_stacksize_np(me) };
        Some(top.addr().saturating_sub(size)..top.addr())
    }
}

#[cfg(all(windows, not(miri)))]
mod sys {
    use super::Range;

    #[link(name = "kernel32")]
    unsafe extern "system" {
        fn GetCurrentThreadStackLimits(low: *mut usize, high: *mut usize);
    }

    /// This thread's stack: what is reserved for it.
    pub(super) fn stack() -> Option<Range<usize>> {
        let (mut low, mut high) = (0, 0);
        // SAFETY: writes two numbers, and cannot fail.
        unsafe { GetCurrentThreadStackLimits(&mut low, &mut high) };
        Some(low..high)
    }
}

#[cfg(any(
    miri,
    not(any(target_os = "linux", target_os = "android", target_os = "macos", windows))
))]
mod sys {
    use super::Range;

    pub(super) fn stack() -> Option<Range<usize>> {
        None
    }
}

#[cfg(all(test, not(raddle_model)))]
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

    #[test]
    #[cfg_attr(miri, ignore = "nobody knows there where a stack is")]
    fn a_stack_that_is_not_the_thread_s_has_room() {
        let thread = std::thread::spawn(|| {
            let own = remaining();
            assert!(known().is_some() || STACK.get() == UNKNOWN);
            let (end, top) = STACK.get();
            // As seen from a stack below, and from one above.
            STACK.set((end + (1 << 40), top + (1 << 40)));
            let below = remaining();
            STACK.set((1, 2));
            (own, below, remaining())
        });
        let (own, below, above) = thread.join().unwrap();
        assert!(own > 64 << 10);
        assert_eq!((below, above), (GUESS, GUESS));
    }

    /// It was counted down from the first call on, and began anew 512 KiB deeper.
    #[test]
    fn where_nobody_knows_there_is_room_at_any_depth() {
        let first: usize = 1 << 40;
        for depth in (0..4 * GUESS).step_by(4096) {
            assert_eq!(left(first - depth, UNKNOWN), (GUESS, false), "{depth}");
        }
        assert_eq!(left(first, (first - 100, first + 1)), (100, true));
    }
}
