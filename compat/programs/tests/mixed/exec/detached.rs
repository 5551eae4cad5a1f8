//! Tasks that nobody waits for, or that are waited for by yielding.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use rayon::Yield;

use crate::exec::{Env, item, run as run_node};
use crate::ir::{Detached, Node, Spun};
use crate::world::panic_on_purpose;

pub(super) fn run(kind: Detached, count: u32, inner: &'static Node, env: Env, x: u64) {
    if kind == Detached::Chained {
        return chained(0, count, inner, env, x);
    }
    for index in 0..u64::from(count) {
        let token = env.world.token();
        let task = move || env.world.add(item(inner, env, x, index));
        match kind {
            Detached::Spawn => rayon::spawn(move || {
                task();
                drop(token);
            }),
            Detached::Fifo => rayon::spawn_fifo(move || {
                task();
                drop(token);
            }),
            Detached::Broadcast => {
                // Dropped with the closure, after the last call.
                let token = Arc::new(token);
                rayon::spawn_broadcast(move |_| {
                    let _token = &token;
                    task();
                });
            }
            Detached::Future => drop(raddle::spawn(move || {
                task();
                drop(token);
            })),
            Detached::Chained => unreachable!("done above"),
        }
    }
}

fn chained(index: u32, count: u32, inner: &'static Node, env: Env, x: u64) {
    if index == count {
        return;
    }
    let token = env.world.token();
    rayon::spawn(move || {
        chained(index + 1, count, inner, env, x);
        env.world.add(item(inner, env, x, u64::from(index)));
        drop(token);
    });
}

pub(super) fn handled(count: u32, env: Env) {
    for _ in 0..count {
        let token = env.world.token();
        rayon::spawn(move || {
            let _token = token;
            panic_on_purpose();
        });
    }
}

/// Waits for a task by yielding.
pub(super) fn spin(kind: Spun, inner: &'static Node, env: Env, x: u64) -> u64 {
    if kind == Spun::Raddle {
        let future = raddle::spawn(move || run_node(inner, env, x));
        while !future.is_done() {
            raddle::yield_now();
        }
        return future.wait().unwrap_or_else(|failure| failure.resume());
    }
    let state = Arc::new((AtomicBool::new(false), AtomicU64::new(0), AtomicBool::new(false)));
    let task = {
        let state = Arc::clone(&state);
        move || {
            match panic::catch_unwind(AssertUnwindSafe(|| run_node(inner, env, x))) {
                Ok(value) => state.1.store(value, SeqCst),
                Err(_) => state.2.store(true, SeqCst),
            }
            state.0.store(true, SeqCst);
        }
    };
    match kind {
        Spun::Fifo => rayon::spawn_fifo(task),
        _ => rayon::spawn(task),
    }
    while !state.0.load(SeqCst) {
        if kind == Spun::Local && rayon::yield_local() == Some(Yield::Executed) {
            continue;
        }
        if rayon::yield_now() != Some(Yield::Executed) {
            std::thread::yield_now();
        }
    }
    if state.2.load(SeqCst) {
        panic_on_purpose();
    }
    state.1.load(SeqCst)
}
