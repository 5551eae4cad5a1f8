//! Models of mail, with real places, queues and parkers: each letter is opened, by the one thread that is there or comes for it.
//!
//! The pool has one worker and one place. A letter that nobody opens is a deadlock, or is missed at the end; a memory that
//! two threads are in is a race, which loom reports. The steps are those of `pool::starts`, `pool::search` and
//! `pool::broadcast`. Explored with two to five preemptions.
//!
//! What each fails without: the letter before token and bit; the token; a sender's try at `vacant`, also after the system has
//! refused a thread; the look of whoever has set the bit there, after it (a thread that leaves, or who was refused one), and that it
//! takes the bit out; the look after a token; that a thread which wakes for mail takes its bit out of `parked`, and a place
//! unless it was claimed; that whoever starts one for mail has a place for it, and gives it back if there is none; Release and Acquire of
//! whoever sets and takes a bit. What they show no need of: an order of token and `vacant`; a look before the first park, as a token is
//! there then; a fence.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use raddle_sync::atomic::fence;
use raddle_sync::cell::UnsafeCell;
use raddle_sync::fence::heavy;
use raddle_sync::parker::Parker;
use raddle_sync::thread::{self, JoinHandle};

use crate::mail::Mail;
use crate::models::{Tally, check, idle_tasks, parker, together};
use crate::places::{Crew, Places};
use crate::queue::{Injector, Task};

/// The only worker.
const ME: usize = 0;

/// A pool, as far as mail goes.
struct Pool {
    me: Weak<Pool>,
    places: Places,
    mail: Mail,
    injector: Injector,
    parker: &'static Parker,
    /// The worker's, which one thread is in at a time.
    memory: UnsafeCell<()>,
    /// The system refuses the next thread; it has refused one.
    refuses: AtomicBool,
    refused: AtomicBool,
    /// Letters and tasks in all.
    all: u32,
    done: Tally,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

// SAFETY: `memory` is used by whoever is the worker, which the models check.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Crew for Pool {
    fn sees_work(&self) -> bool {
        self.injector.len() > 0
    }

    fn look_around(&self) -> bool {
        heavy();
        self.sees_work()
    }

    fn rouse(&self, _: usize) {
        self.parker.unpark();
    }

    /// Not for long after the system has refused a thread.
    fn may_start(&self) -> bool {
        !self.refused.load(Ordering::Relaxed)
    }

    /// As `Registry::start_one`, but for the timer.
    fn start(&self) -> bool {
        if !self.may_start() || self.places.vacant.take_lowest().is_none() {
            return false;
        }
        let starts = self.start();
        if !starts {
            self.places.vacant.set(ME);
            self.await_thread_for_mail();
        }
        starts
    }

    fn rouse_host(&self, _: usize) {
        unreachable!("nobody hosts")
    }
}

impl Pool {
    /// As `Registry::start`. False: the system has refused it.
    fn start(&self) -> bool {
        if self.refuses.swap(false, Ordering::Relaxed) {
            self.refused.store(true, Ordering::Relaxed);
            return false;
        }
        let me = self.me.upgrade().expect("the model has it");
        let thread = thread::spawn(move || me.serve(false));
        self.threads.lock().unwrap().push(thread);
        true
    }

    /// As `Registry::see_to_mail`.
    fn see_to_mail(&self) -> bool {
        if !self.mail.claim(&self.places, ME) {
            return true;
        }
        let starts = self.start();
        if !starts {
            self.places.vacant.set(ME);
            let _ = self.places.stop_search();
            self.places.release(self);
        }
        starts
    }

    /// As `Registry::await_thread_for_mail`.
    fn await_thread_for_mail(&self) {
        while !self.see_to_mail() {
            thread::yield_now();
        }
    }

    /// As `Registry::send_each`.
    fn send(&self) {
        self.mail.put(task());
        self.parker.unpark();
        self.await_thread_for_mail();
    }

    /// As `Registry::inject_again`.
    fn inject(&self) {
        self.injector.push([task()]);
        fence(Ordering::SeqCst);
        self.places.wake_if_needed(self);
        if self.places.has_stranded() {
            self.places.recall(self);
        }
    }

    fn is_over(&self) -> bool {
        self.done.count() == self.all
    }

    /// As `Registry::serve`. The thread's first sleep may time out.
    fn serve(&self, mut times_out: bool) {
        loop {
            self.memory.with_mut(|_| ());
            self.work(times_out);
            self.memory.with_mut(|_| ());
            if self.is_over() || !self.mail.calls_back(&self.places, self, ME) {
                return;
            }
            times_out = false;
        }
    }

    /// As `WorkerMemory::work`, by a thread that counts as a searcher all the time, until all is done or it is to leave.
    fn work(&self, times_out: bool) {
        loop {
            while self.mail.open().or_else(|| self.injector.take_one()).is_some() {
                self.done.add();
            }
            if self.is_over() || !self.sleep(times_out) {
                return;
            }
        }
    }

    /// As `WorkerMemory::sleep`. False: the thread leaves.
    fn sleep(&self, times_out: bool) -> bool {
        let awake = self.places.fall_asleep(self, ME, true);
        if awake || self.mail.wakes(&self.places, ME) {
            return true;
        }
        self.places.recall(self);
        loop {
            let awake = !self.places.parked.has(ME);
            if awake || self.mail.wakes(&self.places, ME) {
                return true;
            }
            let late = if times_out {
                !self.parker.park_timeout(Duration::ZERO)
            } else {
                self.parker.park();
                false
            };
            if late && self.places.parked.take(ME) {
                return false;
            }
        }
    }
}

fn task() -> Task {
    idle_tasks::<1>()[0]
}

/// Who the worker's thread is to begin with.
#[derive(Clone, Copy)]
enum Thread {
    /// It sleeps until it is woken.
    Stays,
    /// It leaves when it finds nothing.
    Leaves,
    /// There is none.
    Vacant,
    /// There is none, and the system refuses the first that is asked for.
    Refused,
}

/// A worker, and parties that bring something each.
fn play(preemptions: usize, worker: Thread, parties: &'static [fn(&Pool)]) {
    check(preemptions, move || {
        let pool = Arc::new_cyclic(|me: &Weak<Pool>| Pool {
            me: me.clone(),
            places: Places::new(1, 1),
            mail: Mail::new(),
            injector: Injector::new(),
            parker: parker(),
            memory: UnsafeCell::new(()),
            refuses: AtomicBool::new(matches!(worker, Thread::Refused)),
            refused: AtomicBool::new(false),
            all: parties.len() as u32,
            done: Tally::default(),
            threads: Mutex::default(),
        });
        match worker {
            Thread::Stays | Thread::Leaves => {
                pool.places.take_searching();
                let (me, times_out) = (Arc::clone(&pool), matches!(worker, Thread::Leaves));
                pool.threads.lock().unwrap().push(thread::spawn(move || me.serve(times_out)));
            }
            Thread::Vacant | Thread::Refused => pool.places.vacant.set(ME),
        }
        together(&pool, parties);
        loop {
            let thread = pool.threads.lock().unwrap().pop();
            let Some(thread) = thread else { break };
            thread.join().unwrap();
        }
        assert_eq!(pool.done.count(), pool.all, "each was seen to");
        let counts = pool.places.counts();
        assert_eq!(counts.searching(), 1, "the last thread alone");
    });
}

#[test]
fn mail_against_a_thread_that_falls_asleep() {
    play(5, Thread::Stays, &[Pool::send]);
}

#[test]
fn mail_against_a_thread_that_leaves() {
    play(5, Thread::Leaves, &[Pool::send]);
}

#[test]
fn two_letters_against_a_thread_that_leaves() {
    play(2, Thread::Leaves, &[Pool::send, Pool::send]);
}

/// A task wakes the thread that wakes for mail itself, or has one started.
#[test]
fn mail_and_a_task_against_a_thread_that_falls_asleep() {
    play(3, Thread::Stays, &[Pool::send, Pool::inject]);
}

#[test]
fn mail_and_a_task_against_a_thread_that_leaves() {
    play(2, Thread::Leaves, &[Pool::send, Pool::inject]);
}

/// One of them starts the thread, which opens both.
#[test]
fn two_letters_for_a_thread_that_is_to_be_started() {
    play(3, Thread::Vacant, &[Pool::send, Pool::send]);
}

/// Whoever brings the task starts a thread, which falls asleep before it sees the mail, or not.
#[test]
fn mail_and_a_task_for_a_thread_that_is_to_be_started() {
    play(3, Thread::Vacant, &[Pool::send, Pool::inject]);
}

/// The sender may come while the worker is in no set, since a thread for it is asked for, in vain.
#[test]
fn mail_and_a_task_for_a_thread_that_is_refused() {
    play(3, Thread::Refused, &[Pool::send, Pool::inject]);
}
