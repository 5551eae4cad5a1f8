//! Models of the ground, explored exhaustively:
//! `RUSTFLAGS="--cfg raddle_model --cfg raddle_loom" cargo test -p raddle-sync --release --test loom`

#![cfg(raddle_loom)]

use raddle_sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use raddle_sync::cell::UnsafeCell;
use raddle_sync::parker::{self, Parker};
use raddle_sync::strand::{self, Dispenser};
use raddle_sync::sync::Arc;
use raddle_sync::{fence, futex, thread};

/// A model of three threads, explored with at most three preemptions: each model below of two threads
/// is complete, but with a third the number of executions is beyond reach.
fn bounded_model(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// A wake-up lost shows as a deadlock, which loom reports.
#[test]
fn parker_loses_no_wake_up_and_orders_memory() {
    loom::model(|| {
        let data = Arc::new((AtomicUsize::new(0), UnsafeCell::new(0)));
        let me = parker::current();
        let other = Arc::clone(&data);
        let thread = thread::spawn(move || {
            // SAFETY: the cell is read only after the flag, set below, was seen.
            other.1.with_mut(|p| unsafe { *p = 7 });
            other.0.store(1, Ordering::Relaxed);
            me.unpark();
        });
        me.park();
        // One unparker, so this is its token: it must carry the flag and the data (I2).
        assert_eq!(data.0.load(Ordering::Relaxed), 1);
        // SAFETY: the flag says that the writer is done.
        assert_eq!(data.1.with(|p| unsafe { *p }), 7);
        thread.join().unwrap();
    });
}

#[test]
fn two_unparkers_leave_no_sleeper() {
    bounded_model(|| {
        let count = Arc::new(AtomicUsize::new(0));
        let me = parker::current();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let count = Arc::clone(&count);
                thread::spawn(move || {
                    count.fetch_add(1, Ordering::Relaxed);
                    me.unpark();
                })
            })
            .collect();
        while count.load(Ordering::Relaxed) < 2 {
            me.park();
        }
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

#[test]
fn a_late_unpark_reaches_at_worst_the_next_holder() {
    bounded_model(|| {
        let lease = Parker::lease();
        let parker = lease.get();
        let late = thread::spawn(move || parker.unpark());
        drop(lease);
        let next = Parker::lease();
        let done = Arc::new(AtomicU32::new(0));
        let (flag, target) = (Arc::clone(&done), next.get());
        let wakes = thread::spawn(move || {
            flag.store(1, Ordering::Release);
            target.unpark();
        });
        while done.load(Ordering::Acquire) == 0 {
            next.park();
        }
        wakes.join().unwrap();
        late.join().unwrap();
    });
}

#[test]
fn futex_wake_after_a_change_is_never_missed() {
    loom::model(|| {
        let word = Arc::new(AtomicU32::new(0));
        let other = Arc::clone(&word);
        let thread = thread::spawn(move || {
            other.store(1, Ordering::Release);
            futex::wake(&other, 1);
        });
        while word.load(Ordering::Acquire) == 0 {
            futex::wait(&word, 0, None);
        }
        thread.join().unwrap();
    });
}

#[test]
fn dispenser_of_three_hands_out_unique_ids_and_recycles_them() {
    loom::model(|| {
        let dispenser = Arc::new(Dispenser::new(3));
        let held = Arc::new([(); 4].map(|()| UnsafeCell::new(())));
        let use_one = |dispenser: &Dispenser, held: &[UnsafeCell<()>; 4]| {
            if let Some(id) = dispenser.take() {
                // Loom reports two holders as overlapping writes, and an id handed on without a
                // happens-before edge as a race.
                held[usize::from(id.get())].with_mut(|_| ());
                dispenser.give_back(id);
            }
        };
        // Two of the three ids are in use, so both threads want the third.
        let kept = [dispenser.take().unwrap(), dispenser.take().unwrap()];
        let (d, h) = (Arc::clone(&dispenser), Arc::clone(&held));
        let thread = thread::spawn(move || use_one(&d, &h));
        use_one(&dispenser, &held);
        thread.join().unwrap();
        kept.into_iter().for_each(|id| dispenser.give_back(id));
        // Nobody is in the middle of anything: every id must be found again.
        let mut all: Vec<u16> =
            std::iter::from_fn(|| dispenser.take()).map(strand::StrandId::get).collect();
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3]);
    });
}

#[test]
fn dispenser_full_bit_does_not_outlive_a_give_back() {
    loom::model(|| {
        let dispenser = Arc::new(Dispenser::new(2)); // one leaf of two ids
        let first = dispenser.take().unwrap();
        let other = Arc::clone(&dispenser);
        // One thread fills the leaf while the other makes room in it.
        let thread = thread::spawn(move || other.take().unwrap());
        dispenser.give_back(first);
        let second = thread.join().unwrap();
        let third = dispenser.take().expect("one of the two ids is free");
        assert_ne!(second, third);
        assert_eq!(dispenser.take(), None);
    });
}

#[test]
fn strands_of_two_threads_differ_and_foreign_ones_restore() {
    loom::model(|| {
        let thread = thread::spawn(|| {
            let mine = strand::current();
            let foreign = strand::enter_foreign();
            let other = strand::current();
            assert_ne!(mine, other);
            drop(foreign);
            assert_eq!(strand::current(), mine);
            mine
        });
        let mine = strand::current();
        assert_ne!(thread.join().unwrap(), mine);
    });
}

#[test]
fn dekker_form_of_the_fence() {
    loom::model(|| {
        assert!(fence::init());
        let words = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
        let other = Arc::clone(&words);
        let a = thread::spawn(move || {
            other.0.store(1, Ordering::Relaxed);
            fence::light();
            other.1.load(Ordering::Relaxed)
        });
        words.1.store(1, Ordering::Relaxed);
        fence::heavy();
        let x = words.0.load(Ordering::Relaxed);
        let y = a.join().unwrap();
        assert!(x == 1 || y == 1, "neither side saw the other");
    });
}

/// Whoever asks for a barrier has had one that began after it had asked (B3), its own or another's: that one has seen what was
/// stored before, and what it saw is to be seen afterwards.
#[test]
fn barriers_are_shared_by_those_who_ask_in_time() {
    const ASKING: usize = 2;
    #[derive(Default)]
    struct World {
        shared: fence::SharedBarrier,
        asked: [AtomicUsize; ASKING],
        /// Whether a barrier has seen that this one had asked.
        seen: [AtomicUsize; ASKING],
    }
    impl World {
        fn ask(&self, who: usize) {
            self.asked[who].store(1, Ordering::Relaxed);
            self.shared.wait_or_issue(0, || {
                for (asked, seen) in self.asked.iter().zip(&self.seen) {
                    if asked.load(Ordering::Relaxed) == 1 {
                        seen.store(1, Ordering::Relaxed);
                    }
                }
            });
            assert_eq!(self.seen[who].load(Ordering::Relaxed), 1, "no barrier since it asked");
        }
    }
    bounded_model(|| {
        let world = Arc::new(World::default());
        let others: Vec<_> = (1..ASKING)
            .map(|who| {
                let world = Arc::clone(&world);
                thread::spawn(move || world.ask(who))
            })
            .collect();
        world.ask(0);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}
