//! What is deprecated does what it is deprecated for.
#![allow(deprecated)]

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use rayon_core::{Configuration, ThreadPool};

/// Larger than any stack is by default, but for this.
const STACK: usize = 96 << 20;

/// All that can be set, and what start handler, exit handler and panic handler tell.
pub(crate) fn all_set(threads: usize) -> (Configuration, [Receiver<String>; 3]) {
    let ((starts, started), (exits, exited), (panics, panicked)) =
        (channel(), channel(), channel());
    // Who does not listen does not care.
    let tell = |to: Sender<String>| move |what: &dyn ToString| _ = to.send(what.to_string());
    let (start, exit, panics) = (tell(starts), tell(exits), tell(panics));
    let configuration = Configuration::new()
        .num_threads(threads)
        .thread_name(|index| format!("shuttle {index}"))
        .stack_size(STACK)
        .breadth_first()
        .start_handler(move |index| start(&index))
        .exit_handler(move |index| exit(&index))
        .panic_handler(move |panic| panics(panic.downcast_ref::<&str>().unwrap()));
    (configuration, [started, exited, panicked])
}

fn told(receive: &Receiver<String>, count: usize) -> Vec<String> {
    let mut all: Vec<_> = receive.iter().take(count).collect();
    all.sort_unstable();
    all
}

/// The pool is as [`all_set`] asks for.
pub(crate) fn is_as_set(told_by: &[Receiver<String>; 3], threads: usize) {
    let indices: Vec<_> = (0..threads).map(|index| index.to_string()).collect();
    assert_eq!(rayon_core::current_num_threads(), threads);
    assert_eq!(told(&told_by[0], threads), indices);
    let names = rayon_core::broadcast(|_| thread::current().name().map(str::to_owned));
    let wanted: Vec<_> = indices.iter().map(|index| Some(format!("shuttle {index}"))).collect();
    assert_eq!(names, wanted);
    let room = rayon_core::broadcast(|_| stacker::remaining_stack().unwrap_or(STACK));
    assert!(room.iter().all(|room| *room > STACK / 2), "{room:?}");
    rayon_core::spawn(|| panic!("slub"));
    assert_eq!(told_by[2].recv().unwrap(), "slub");
    assert!(told_by[1].try_recv().is_err());
}

fn of_a_pool(build: impl Fn(Configuration) -> ThreadPool) {
    let (configuration, told_by) = all_set(2);
    let pool = build(configuration);
    let told_by = pool.install(move || {
        is_as_set(&told_by, 2);
        told_by
    });
    drop(pool);
    assert_eq!(told(&told_by[1], 2), ["0", "1"]);
    assert_eq!(told_by[1].recv().ok(), None);

    let (configuration, _told_by) = all_set(1);
    let pool = build(configuration);
    let (send, receive) = channel();
    pool.install(|| {
        for i in 0..10 {
            let send = send.clone();
            rayon_core::spawn(move || send.send(i).unwrap());
        }
    });
    drop((pool, send));
    // The oldest first.
    assert_eq!(receive.iter().collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
}

#[test]
fn a_configuration_builds_a_pool() {
    of_a_pool(|configuration| configuration.build().unwrap());
    of_a_pool(|configuration| ThreadPool::new(configuration).unwrap());
}

#[test]
fn a_configuration_shows_what_it_was_given() {
    let shown = format!("{:?}", all_set(3).0);
    for part in
        ["num_threads: 3", "stack_size: Some(", "breadth_first: true", "exit_handler: Some("]
    {
        assert!(shown.contains(part), "{shown}");
    }
}
