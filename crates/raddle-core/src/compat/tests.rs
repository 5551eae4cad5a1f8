//! Closures that nobody waits for, and the end of a team.

use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use raddle_sync::atomic::{AtomicUsize, Ordering};
use raddle_trace::{EventKind, TraceLevel};

use super::*;

/// A team and its threads.
fn team(settings: Settings) -> (Team, Vec<JoinHandle<()>>) {
    let team = Team::new(settings).unwrap();
    let start = |index| {
        let seat = team.seat(index);
        thread::spawn(move || seat.run())
    };
    let threads = (0..team.num_threads()).map(start).collect();
    (team, threads)
}

fn end(team: &Team, threads: Vec<JoinHandle<()>>) {
    team.end();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// It was a future that nobody had: three times the size, and with a state that two parties shared.
#[test]
fn what_nobody_waits_for_is_no_future() {
    let (team, threads) = team(Settings::default());
    let (send, receive) = channel();
    let task = task_in(&team.0, move || send.send(7).unwrap());
    // SAFETY: it has not been queued yet.
    let vtable = unsafe { task.as_ref() }.vtable;
    assert!(vtable.kill.is_none());
    pool::queue(&team.0, task, None);
    assert_eq!(receive.recv(), Ok(7));
    end(&team, threads);
}

/// Says how often it was called, when it goes.
struct Calls(AtomicUsize, Sender<usize>);

impl Calls {
    fn new(send: &Sender<usize>) -> Calls {
        Calls(AtomicUsize::new(0), send.clone())
    }

    fn call(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        self.1.send(*self.0.get_mut()).unwrap();
    }
}

const THREADS: usize = 3;

#[test]
fn what_each_thread_calls_goes_once_after_the_last() {
    let (team, threads) = team(Settings { threads: THREADS, ..Settings::default() });
    let (send, receive) = channel();
    for _ in 0..100 {
        let calls = Calls::new(&send);
        team.spawn_each(Location::caller(), move |_| calls.call());
    }
    end(&team, threads);
    drop(send);
    assert_eq!(receive.iter().collect::<Vec<_>>(), [THREADS; 100]);
}

#[test]
fn and_in_a_scope_before_that_is_over() {
    let (team, threads) = team(Settings { threads: THREADS, ..Settings::default() });
    let (send, receive) = channel();
    for round in 0..100 {
        let calls = Calls::new(&send);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            team.scope(Location::caller(), |scope| {
                scope_spawn_each(scope, Location::caller(), move |_, index| {
                    calls.call();
                    assert!(round % 2 == 0 || index > 0, "the first");
                });
            });
        }));
        assert_eq!(result.is_err(), round % 2 == 1);
        assert_eq!(receive.try_recv(), Ok(THREADS));
    }
    end(&team, threads);
}

/// Panics when it goes.
struct Last;

impl Drop for Last {
    fn drop(&mut self) {
        panic!("the last");
    }
}

#[test]
fn panics_of_what_goes_are_the_team_s_too() {
    let (send, receive) = channel();
    let on_panic: PanicHook = Box::new(move |payload| {
        send.send(*payload.downcast_ref::<&str>().unwrap()).unwrap();
    });
    let on_panic = Some(on_panic);
    let (team, threads) = team(Settings { threads: THREADS, on_panic, ..Settings::default() });
    let last = Last;
    team.spawn_each(Location::caller(), move |_| _ = &last);
    assert_eq!(receive.recv(), Ok("the last"));
    let last = Last;
    team.spawn(Location::caller(), move || drop(last));
    assert_eq!(receive.recv(), Ok("the last"));
    let last = Last;
    let scope = || {
        team.scope(Location::caller(), |scope| {
            scope_spawn_each(scope, Location::caller(), move |_, _| _ = &last)
        });
    };
    let payload = std::panic::catch_unwind(std::panic::AssertUnwindSafe(scope)).unwrap_err();
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"the last"));
    end(&team, threads);
    assert!(receive.try_recv().is_err());
}

/// Its thread searched first, as one that may be called again.
#[test]
fn a_team_that_is_to_end_ends_with_its_last_task() {
    let (team, threads) = team(Settings::default());
    team.0.set_level(TraceLevel::Tasks);
    let (go, gate) = channel::<()>();
    let (begun, begins) = channel();
    team.spawn(Location::caller(), move || {
        begun.send(()).unwrap();
        gate.recv().unwrap();
    });
    begins.recv().unwrap();
    team.end();
    go.send(()).unwrap();
    end(&team, threads);
    let trace = team.0.trace();
    let kinds = || trace.lanes[0].events.iter().map(|event| event.kind).rev();
    let after: Vec<_> = kinds().take_while(|&kind| kind != EventKind::Executed).collect();
    assert!(kinds().count() > after.len());
    assert!(!after.contains(&EventKind::Search) && !after.contains(&EventKind::Park), "{after:?}");
}

/// A thread of the parent's may be at the gate when the process forks: here the one that does.
#[test]
#[cfg(target_os = "linux")]
fn the_end_of_a_parent_s_team_waits_for_nobody() {
    let (team, threads) = team(Settings::default());
    let ends_in_a_child = || {
        // SAFETY: what the child uses no other thread holds.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: ends the child, should it hang.
            unsafe { libc::alarm(60) };
            team.end();
            // SAFETY: ends the process.
            unsafe { libc::_exit(0) };
        }
        let mut status = 0;
        // SAFETY: our child, and room for what it says.
        let ended = unsafe { libc::waitpid(child, &mut status, 0) };
        ended == child && libc::WIFEXITED(status)
    };
    let ended = team.0.gate.home().with((), |_, ()| ends_in_a_child());
    assert_eq!(ended, Ok(true));
    end(&team, threads);
}
