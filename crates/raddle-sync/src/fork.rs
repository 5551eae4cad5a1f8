//! Which copy of the process this is, and what has to be done so that a copy is whole.
//!
//! After `fork()` the child has the parent's memory and one thread, the one that forked. Numbers of threads that it
//! remembers name threads of the parent. Whoever keeps such a number keeps the generation along, and leaves it
//! alone in a later one. A mutex that another thread of the parent had stays locked in the child for ever: so those of
//! this crate, and of others that ask for it by [`around`], are taken before a fork and let go of after it.
//!
//! `vfork`, and processes cloned by system calls of one's own, are not noticed. Where the system has no forks, and
//! under the model checkers, the generation is always 0.

pub use sys::{around, generation, init};

#[cfg(all(unix, not(any(miri, raddle_model))))]
mod sys {
    use crate::atomic::{AtomicBool, AtomicU32, Ordering};
    use crate::{futex, parker, strand};
    use std::cell::RefCell;
    use std::mem::ManuallyDrop;

    static GENERATION: AtomicU32 = AtomicU32::new(0);
    // No `Once`: forked while another thread is within, it would be locked in the child for ever. Two threads may
    // register at the same time; then a fork counts twice, which is as good.
    static REGISTERED: AtomicBool = AtomicBool::new(false);

    std::thread_local! {
        /// What the thread that forks has locked meanwhile. Without a destructor: a thread may fork while its locals are
        /// being destroyed.
        static LOCKED: RefCell<ManuallyDrop<Option<Locked>>> =
            const { RefCell::new(ManuallyDrop::new(None)) };
    }

    /// In place: the child may not allocate, nor free, as another thread may have been at that. std does not, in what it forks for a
    /// command.
    struct Locked {
        _hook: strand::HookLock,
        _free_list: parker::FreeListLock,
        sleepers: futex::AllLocks,
    }

    /// How often the process has been forked since [`init`], counted along its ancestors: 0 before any fork, more
    /// in a child than in its parent. Costs a load.
    ///
    /// ```
    /// raddle_sync::fork::init();
    /// assert_eq!(raddle_sync::fork::generation(), 0);
    /// ```
    #[inline]
    pub fn generation() -> u32 {
        // ORD: it changes only while there is no other thread.
        GENERATION.load(Ordering::Relaxed)
    }

    /// Has forks counted from now on, and the mutexes of this crate cared for. Idempotent, and callable from any thread.
    pub fn init() {
        // ORD: Acquire pairs with the Release below: whoever returns from here has the handlers in place.
        if REGISTERED.load(Ordering::Acquire) {
            return;
        }
        around(before, in_parent, in_child);
        REGISTERED.store(true, Ordering::Release);
    }

    /// Has `before` called by whoever forks, before each fork from now on, and then `in_parent` and `in_child`, by
    /// that thread and by its copy: to lock what must be whole in the child, and to unlock it.
    ///
    /// Whoever asks later is called sooner before a fork, and later after it. So one whose mutexes are locked under
    /// others asks before those do, and an allocator, for which this allocates, before all.
    ///
    /// Without memory for the handlers they are not called, as where there are no forks.
    pub fn around(before: extern "C" fn(), in_parent: extern "C" fn(), in_child: extern "C" fn()) {
        // An allocator registers its own handlers when it is first used.
        drop(std::hint::black_box(Box::new(0_u64)));
        let [before, in_parent, in_child] =
            [before, in_parent, in_child].map(|f| Some(f as unsafe extern "C" fn()));
        // SAFETY: functions that live for ever, as long as this code is loaded.
        unsafe { libc::pthread_atfork(before, in_parent, in_child) };
    }

    extern "C" fn before() {
        LOCKED.with_borrow_mut(|locked| {
            if locked.is_none() {
                strand::force_statics(); // A `Once` that another thread is within is a lock too.
                let (_hook, _free_list) = (strand::lock_hook(), parker::lock_free_list());
                **locked = Some(Locked { _hook, _free_list, sleepers: futex::lock_all() });
            }
        });
    }

    extern "C" fn in_parent() {
        drop(LOCKED.with_borrow_mut(|locked| locked.take()));
    }

    extern "C" fn in_child() {
        GENERATION.fetch_add(1, Ordering::Relaxed);
        if let Some(locked) = LOCKED.with_borrow_mut(|locked| locked.take()) {
            futex::unlock_all(locked.sleepers);
        }
        futex::forget_sleepers();
    }
}

#[cfg(not(all(unix, not(any(miri, raddle_model)))))]
mod sys {
    /// How often the process has been forked: 0, since there are no forks here.
    #[inline]
    pub fn generation() -> u32 {
        0
    }

    /// Has forks counted from now on, of which there are none.
    pub fn init() {}

    /// Has these called round each fork, of which there are none.
    pub fn around(_: extern "C" fn(), _: extern "C" fn(), _: extern "C" fn()) {}
}
