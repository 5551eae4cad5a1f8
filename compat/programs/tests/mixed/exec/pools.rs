//! Pools that are entered, built and dropped.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use raddle::Waits;

use crate::exec::{Env, item, run};
use crate::ir::{Fresh, Node, Way};
use crate::oracle::{dropped, leaf};
use crate::rng::mix;
use crate::world::{BOUND, OnePool, Spot, native, team};

pub(super) fn enter(pool: usize, way: Way, inner: &'static Node, env: Env, x: u64) -> u64 {
    let spot = env.world.spots[pool];
    let there = Env { here: spot, ..env };
    match &spot.pool {
        OnePool::Team(_) => into_team(&spot.pool.team().expect("in use"), way, inner, there, x),
        OnePool::Native(_) => {
            into_native(&spot.pool.native().expect("in use"), way, inner, there, x)
        }
        // From outside, as generated, or where it is.
        _ => into_global(way, inner, there, x),
    }
}

fn into_team(pool: &rayon::ThreadPool, way: Way, inner: &'static Node, env: Env, x: u64) -> u64 {
    match way {
        Way::Call | Way::Spawn => pool.install(|| run(inner, env, x)),
        Way::Join => {
            let (a, b) = pool.join(|| run(inner, env, x), || leaf(x));
            mix(a, b)
        }
        Way::Scope => pool.scope(|_| run(inner, env, x)),
        Way::InPlace => {
            let value = AtomicU64::new(0);
            pool.in_place_scope(|s| s.spawn(|_| value.store(run(inner, env, x), Relaxed)));
            value.into_inner()
        }
    }
}

fn into_native(pool: &raddle::Pool, way: Way, inner: &'static Node, env: Env, x: u64) -> u64 {
    match way {
        Way::Call => pool.run(|_| run(inner, env, x)),
        Way::Join => {
            let (a, b) = pool.join(|| run(inner, env, x), || leaf(x));
            mix(a, b)
        }
        Way::Scope | Way::InPlace => {
            let value = AtomicU64::new(0);
            pool.scope(|s| s.spawn(|_| value.store(run(inner, env, x), Relaxed)));
            value.into_inner()
        }
        Way::Spawn => {
            let env = env.away();
            let future = pool.spawn(move || run(inner, env, x));
            future.wait().unwrap_or_else(|failure| failure.resume())
        }
    }
}

fn into_global(way: Way, inner: &'static Node, env: Env, x: u64) -> u64 {
    match way {
        Way::Call => rayon::join(|| run(inner, env, x), || ()).0,
        Way::Join => {
            let (a, b) = raddle::join(|| run(inner, env, x), || leaf(x));
            mix(a, b)
        }
        Way::Scope => rayon::scope(|_| run(inner, env, x)),
        Way::InPlace => {
            let value = AtomicU64::new(0);
            rayon::in_place_scope(|s| s.spawn(|_| value.store(run(inner, env, x), Relaxed)));
            value.into_inner()
        }
        Way::Spawn => {
            let env = env.away();
            let future = raddle::spawn(move || run(inner, env, x));
            future.wait().unwrap_or_else(|failure| failure.resume())
        }
    }
}

pub(super) fn fresh(kind: Fresh, threads: usize, inner: &'static Node, env: Env, x: u64) -> u64 {
    let env = Env { here: Spot::elsewhere(), ..env };
    match kind {
        Fresh::Team => team(threads).build().unwrap().install(|| run(inner, env, x)),
        Fresh::Scoped => {
            let wrapper = |thread: rayon::ThreadBuilder| thread.run();
            let call = |pool: &rayon::ThreadPool| pool.install(|| run(inner, env, x));
            team(threads).build_scoped(wrapper, call).unwrap()
        }
        Fresh::CurrentThread => of_current_thread(threads, inner, env, x),
        Fresh::Native => native(threads).build().unwrap().run(|_| run(inner, env, x)),
        Fresh::NativeHost => {
            let pool = native(threads).waits(Waits::Host).build().unwrap();
            pool.run(|_| run(inner, env, x))
        }
        Fresh::Dropped => {
            queued_in_dropped(threads, inner, env.away(), x);
            x
        }
    }
}

fn of_current_thread(threads: usize, inner: &'static Node, env: Env, x: u64) -> u64 {
    let env = env.away();
    let body = move || {
        let pool = team(threads).use_current_thread().build().unwrap();
        let body = || match env.bound {
            Some(value) => BOUND.bind(value).run(|| run(inner, env, x)),
            None => run(inner, env, x),
        };
        let value = panic::catch_unwind(AssertUnwindSafe(body));
        drop(pool);
        value
    };
    let thread = thread::Builder::new().stack_size(64 << 20).spawn(body).unwrap();
    thread
        .join()
        .expect("panics are caught")
        .unwrap_or_else(|payload| panic::resume_unwind(payload))
}

fn queued_in_dropped(threads: usize, inner: &'static Node, env: Env, x: u64) {
    let by_rayon = mix(x, 6) % 2 == 0;
    let (team, native) = match by_rayon {
        true => (Some(team(threads).build().unwrap()), None),
        false => (None, Some(native(threads).build().unwrap())),
    };
    for index in 0..dropped(x) {
        let token = env.world.token();
        let task = move || {
            env.world.add(item(inner, env, x, index));
            drop(token);
        };
        match (&team, &native) {
            (Some(team), _) if index % 3 == 0 => team.spawn_fifo(task),
            (Some(team), _) => team.spawn(task),
            (_, Some(native)) => drop(native.spawn(task)),
            _ => unreachable!("one of them is there"),
        }
    }
}
