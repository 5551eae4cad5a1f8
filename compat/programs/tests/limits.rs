//! Time limits, interrupts and kills of a task reach into its parallel iterators, on every thread.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use raddle::{FailureKind, Future, interrupted, killed, spawn};
use rayon::prelude::*;
use rayon_programs::{alone, on_each_thread};

/// A task that is on every thread until `stop` says that it is to stop; and what tells, once for each thread, that it is
/// there, and that it has stopped.
fn everywhere(stop: fn() -> bool) -> (Future<()>, Receiver<()>, Receiver<()>) {
    // As the first thing, so that rayon's rules are those of the pool.
    _ = rayon::current_num_threads();
    let ((enters, entered), (stops, stopped)) = (channel(), channel());
    let task = move || {
        let tell = |to: &Sender<()>| to.send(()).unwrap();
        on_each_thread(|| {
            tell(&enters);
            while !stop() {
                thread::yield_now();
            }
            tell(&stops);
        });
    };
    (spawn(task), entered, stopped)
}

fn once_for_each_thread(receive: &Receiver<()>) {
    (0..rayon::current_num_threads()).for_each(|_| receive.recv().unwrap());
}

#[test]
fn an_interrupt_reaches_every_thread_of_an_iterator() {
    let _alone = alone();
    let (future, entered, stopped) = everywhere(interrupted);
    once_for_each_thread(&entered);
    future.interrupt("enough");
    once_for_each_thread(&stopped);
    future.wait().unwrap();
}

#[test]
fn a_kill_reaches_every_thread_of_an_iterator() {
    let _alone = alone();
    let (future, entered, stopped) = everywhere(killed);
    once_for_each_thread(&entered);
    future.kill();
    assert_eq!(future.wait().unwrap_err().kind(), FailureKind::Killed);
    once_for_each_thread(&stopped);
}

#[test]
fn a_time_limit_reaches_every_thread_of_an_iterator() {
    let _alone = alone();
    let (future, entered, stopped) = everywhere(interrupted);
    once_for_each_thread(&entered);
    let limited = future.interrupt_after(Duration::from_millis(1)).wait();
    // It may have stopped, and be over, before the one who waits is told.
    assert!(limited.map_err(|failure| failure.kind()) != Err(FailureKind::Panicked));
    once_for_each_thread(&stopped);
}

/// An iterator that takes years, but for its limit.
#[test]
fn an_iterator_that_asks_ends_when_its_time_is_over() {
    let _alone = alone();
    _ = rayon::current_num_threads();
    let (tell, told) = channel();
    let task = move || {
        let goes_on = |_| if interrupted() { None } else { Some(()) };
        tell.send((0..u64::MAX).into_par_iter().try_for_each(goes_on)).unwrap();
    };
    let limited = spawn(task).interrupt_after(Duration::from_millis(200)).wait();
    // One that has not started never does.
    match told.recv() {
        Ok(result) => assert_eq!(result, None),
        Err(_) => assert!(limited.is_err()),
    }
}
