//! What a fork leaves of the locks to the child.
//!
//! The child has a copy of one thread, and of everything that the others were in the middle of. What they held is
//! held for ever. What they waited for is another matter: they do so no more, and neither the queues that they were
//! in nor the mutexes of those may stand in the way of the child's own strands.
//!
//! **F1** Whoever forks has all mutexes of this crate, taken before the fork and let go of after it. So in the child the lists
//! under them are whole. They are taken in the order in which others nest them.
//! **F2** In the child nobody waits: the one that runs forks. So all lists of those who wait are emptied, with the
//! nodes untouched, whose stacks the child may use again; and what words, states and flags say of them is taken back.
//! **F3** A fat lock without an `owner` is held by nobody who has begun to use it, or has not ended: an owner is
//! written down before, and taken away after (E5). It is free in the child, unless it is a thin lock's, in a bucket.
//! So is one whose entry is dead, but in no free list yet: it was about to be thin.
//! **F4** A value that another thread was making is not made, as after a panic.
//! **F5** In the child nothing is allocated and nothing is freed here.

use crate::entry::Inner;
use crate::pending::Pending;
use crate::{condvar, deadlock, entry, linger, monitor, once, pending, rw, slot, table};
use raddle_sync::fork;
use raddle_sync::sync::MutexGuard;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::mem::ManuallyDrop;

/// All mutexes of this crate (F1).
struct Locked {
    deadlock: deadlock::Locked,
    pending: Vec<MutexGuard<'static, Vec<Pending>>>,
    conditions: Vec<MutexGuard<'static, VecDeque<condvar::Waiter>>>,
    readers: Vec<MutexGuard<'static, VecDeque<rw::Waiter>>>,
    makers: MutexGuard<'static, once::Makers>,
    /// As which strands the thread that forks has locks.
    ours: once::Names,
    table: table::Locked,
    inner: Vec<MutexGuard<'static, Inner>>,
}

std::thread_local! {
    /// Without a destructor: a thread may fork while its locals are being destroyed.
    static LOCKED: RefCell<ManuallyDrop<Option<Locked>>> =
        const { RefCell::new(ManuallyDrop::new(None)) };
}

extern "C" fn before() {
    // A `Once` that another thread is within is a lock too.
    entry::clock();
    monitor::force_statics();
    slot::keep_names();
    LOCKED.with_borrow_mut(|locked| {
        // From here on in the order of nesting.
        let deadlock = deadlock::lock_all();
        let (pending, conditions) = (pending::lock_all(), condvar::lock_all());
        let (readers, makers) = (rw::lock_all(), once::lock_all());
        let table = table::lock_all();
        let inner = table::lock_entries(&table);
        let ours = once::names();
        let all = Locked { deadlock, pending, conditions, readers, makers, ours, table, inner };
        **locked = Some(all);
    });
}

extern "C" fn in_parent() {
    drop(LOCKED.with_borrow_mut(|locked| locked.take()));
}

extern "C" fn in_child() {
    let Some(mut locked) = LOCKED.with_borrow_mut(|locked| locked.take()) else { return };
    locked.deadlock.forget_all();
    slot::forget_contenders();
    linger::forget_others();
    for (index, inner) in (0..).zip(&mut locked.inner) {
        table::entry(index).forget_waiters(inner);
    }
    table::bury_free(&locked.table); // F3
    for left in locked.pending.iter().flat_map(|list| list.iter()) {
        left.entry.lock_again(); // P2
        if left.armed != pending::NOBODY {
            slot::arm_quietly(left.armed);
        }
    }
    locked.conditions.iter_mut().for_each(|list| condvar::forget_waiters(list));
    locked.readers.iter_mut().for_each(|list| rw::forget_waiters(list));
    locked.makers.forget_others(&locked.ours);
    // Unlocked in the order of nesting reversed, and not freed.
    let Locked { deadlock, pending, conditions, readers, makers, ours, table, inner } = locked;
    unlock(inner);
    drop(table.0);
    unlock(table.1);
    std::mem::forget(ours);
    drop(makers);
    unlock(readers);
    unlock(conditions);
    unlock(pending);
    drop(deadlock);
}

/// Frees nothing: an allocator may have a lock, which another thread had when this one forked. std, too, allocates nothing in what it
/// forks for a command.
fn unlock<G>(guards: Vec<G>) {
    ManuallyDrop::new(guards).drain(..).for_each(drop);
}

/// Called by the loader, before `main` and before any lock is taken: so the handlers are there before others', which may take
/// locks of this crate, and which are called sooner before a fork.
extern "C" fn register() {
    fork::init(); // Parkers are leased under mutexes of this crate.
    fork::around(before, in_parent, in_child);
}

#[used]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
#[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".init_array"))]
// SAFETY: an array of functions without arguments; this one calls the allocator and the system.
static REGISTER: extern "C" fn() = register;

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use crate::core::Core;

    /// F3: it was waited for in the child, for ever, until the thread that is not there would have changed the word.
    #[test]
    fn a_lock_that_was_about_to_be_thin_is_free_in_a_child() {
        let core = Core::new();
        core.leave_dying();
        // SAFETY: the locks are whole in the child, and nothing else is relied upon there.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: no memory is touched.
            unsafe { libc::alarm(60) };
            core.acquire::<false>();
            core.release::<false>();
            // SAFETY: ends the process.
            unsafe { libc::_exit(core.is_locked().into()) };
        }
        let mut status = 0;
        // SAFETY: our child.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
    }
}
