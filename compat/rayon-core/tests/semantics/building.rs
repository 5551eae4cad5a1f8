//! How pools come to be: names, stacks, handlers, errors.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rayon_core::ThreadPoolBuilder;

use crate::asleep::{here, until_asleep};
use crate::{block_until, pool};

#[test]
fn names_are_asked_for_just_before_threads_start() {
    let (send, receive) = channel();
    let started = send.clone();
    let pool = ThreadPoolBuilder::new()
        .num_threads(3)
        .thread_name(move |index| {
            send.send(format!("name {index}")).unwrap();
            format!("heddle {index}")
        })
        .spawn_handler(move |thread| {
            assert_eq!(thread.name(), Some(&*format!("heddle {}", thread.index())));
            started.send(format!("start {}", thread.index())).unwrap();
            thread::Builder::new().name(thread.name().unwrap().into()).spawn(|| thread.run())?;
            Ok(())
        })
        .build()
        .unwrap();
    let all: Vec<_> = receive.iter().collect();
    assert_eq!(all, ["name 0", "start 0", "name 1", "start 1", "name 2", "start 2"]);
    let name = pool.install(|| thread::current().name().map(str::to_owned));
    assert!(name.unwrap().starts_with("heddle "));
}

#[test]
fn threads_have_no_names_by_default() {
    assert_eq!(pool(1).install(|| thread::current().name().map(str::to_owned)), None);
}

#[test]
fn stacks_are_as_large_as_asked_for() {
    #[inline(never)]
    fn deep(left: usize) -> u8 {
        let filler = std::hint::black_box([1_u8; 16 << 10]);
        if left == 0 { filler[0] } else { deep(left - 1).max(filler[7]) }
    }
    let pool = ThreadPoolBuilder::new().num_threads(1).stack_size(64 << 20).build().unwrap();
    assert_eq!(pool.install(|| deep(1500)), 1);
}

#[test]
fn if_a_thread_cannot_start_those_that_were_end_with_their_handlers() {
    let (send, receive) = channel();
    let result = ThreadPoolBuilder::new()
        .num_threads(4)
        .exit_handler(move |index| send.send(index).unwrap())
        .spawn_handler(|thread| {
            if thread.index() == 2 {
                return Err(std::io::Error::other("no more"));
            }
            thread::spawn(|| thread.run());
            Ok(())
        })
        .build();
    let error = result.unwrap_err();
    assert_eq!(error.to_string(), "no more");
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "no more");
    let mut ended: Vec<_> = receive.iter().collect();
    ended.sort_unstable();
    assert_eq!(ended, [0, 1]);
}

#[test]
fn a_panic_of_a_name_goes_out_of_the_build() {
    let (send, receive) = channel();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        ThreadPoolBuilder::new()
            .num_threads(3)
            .exit_handler(move |index| send.send(index).unwrap())
            .thread_name(|index| if index == 1 { panic!("nameless") } else { String::new() })
            .build()
    }));
    assert_eq!(result.unwrap_err().downcast_ref::<&str>(), Some(&"nameless"));
    assert_eq!(receive.iter().collect::<Vec<_>>(), [0]);
}

#[test]
fn handlers_are_called_once_per_thread_even_if_the_pool_goes_at_once() {
    let (starts, exits) = (Arc::new(Mutex::new(vec![])), Arc::new(Mutex::new(vec![])));
    let (s, e) = (Arc::clone(&starts), Arc::clone(&exits));
    let (alive, gone) = channel::<()>();
    let pool = ThreadPoolBuilder::new()
        .num_threads(5)
        .start_handler(move |index| s.lock().unwrap().push(index))
        .exit_handler(move |index| {
            let _alive = &alive;
            e.lock().unwrap().push(index);
        })
        .build()
        .unwrap();
    drop(pool);
    // The handlers are dropped when the last thread is gone.
    assert_eq!(gone.recv_timeout(Duration::from_secs(60)), Err(RecvTimeoutError::Disconnected));
    for indices in [starts, exits] {
        let mut indices = indices.lock().unwrap().clone();
        indices.sort_unstable();
        assert_eq!(indices, [0, 1, 2, 3, 4]);
    }
}

#[test]
fn a_start_handler_that_blocks_holds_up_nobody_else() {
    let go = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&go);
    let pool = ThreadPoolBuilder::new()
        .num_threads(2)
        .start_handler(move |index| {
            if index == 0 {
                block_until(&gate);
            }
        })
        .build()
        .unwrap();
    for _ in 0..20 {
        let (index, other) = pool.install(|| (rayon_core::current_thread_index(), here()));
        assert_eq!(index, Some(1));
        // The next call has to wake it.
        until_asleep(&other);
    }
    go.store(true, SeqCst);
}
