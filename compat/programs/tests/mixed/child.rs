//! Runs programs one after the other and says which it is at: the process that may hang.

use std::io::Write;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::exec::{Env, run as run_node};
use crate::generate::{Shape, generate};
use crate::ir::Program;
use crate::options::Options;
use crate::rng::mix;
use crate::world::{Spot, World, team, text};

/// Of threads that run a root: sequential code may be nested as deep as you like.
const STACK: usize = 256 << 20;

/// The program of a seed.
pub(crate) fn program(options: &Options, seed: u64) -> Program {
    let setting = options.setting();
    let shape = Shape {
        threads: setting.threads,
        substitute: setting.substitute,
        raddle_first: setting.raddle_first,
        size: options.size,
    };
    generate(seed, shape)
}

/// Runs them all; lines on standard output say what begins (`> SEED`), what is wrong (`! SEED WHAT`), and that all is done.
pub(crate) fn run(options: &Options) -> ExitCode {
    let setting = options.setting();
    if setting.raddle_first {
        assert_eq!(raddle::current_num_threads(), setting.threads, "RADDLE_NUM_THREADS");
    } else {
        team(setting.threads).build_global().unwrap();
    }
    let options = options.clone();
    let all = thread::Builder::new().stack_size(STACK).spawn(move || {
        let watched = Arc::new(Mutex::new((Instant::now(), None)));
        watch(watched.clone(), options.limit.mul_f32(0.7));
        for seed in options.seeds.clone() {
            for _ in 0..options.times {
                say(&format!("> {seed}"));
                let world = World::new(program(&options, seed));
                *watched.lock().unwrap() = (Instant::now(), Some(world));
                for error in one(world) {
                    say(&format!("! {seed} {}", error.replace('\n', " / ")));
                }
            }
        }
        say("done");
    });
    match all.unwrap().join() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn one(world: &'static World) -> Vec<String> {
    let env = Env { world, here: Spot::elsewhere(), bound: None, lent: None };
    let root = |(index, node)| {
        let body = move || panic::catch_unwind(AssertUnwindSafe(|| run_node(node, env, index)));
        thread::Builder::new().stack_size(STACK).spawn(body).unwrap()
    };
    let roots: Vec<_> = (0..).zip(&world.program.roots).map(root).collect();
    let mut value = 0;
    for (index, root) in roots.into_iter().enumerate() {
        match root.join().unwrap() {
            Ok(one) => value = mix(value, one),
            Err(payload) => world.complain(format!("root {index} panicked: {}", text(&*payload))),
        }
    }
    world.finish(value)
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // Nobody to be told any more: then whoever listened has seen enough.
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        std::process::exit(3);
    }
}

/// Says once where a program is that takes too long.
fn watch(watched: Arc<Mutex<(Instant, Option<&'static World>)>>, limit: Duration) {
    thread::spawn(move || {
        let mut told = None;
        loop {
            thread::sleep(Duration::from_millis(100));
            let (since, world) = *watched.lock().unwrap();
            let Some(world) = world else { continue };
            if since.elapsed() > limit && told != Some(since) {
                told = Some(since);
                eprintln!("it has been running for {limit:?}: {}", world.diagnosis());
            }
        }
    });
}
