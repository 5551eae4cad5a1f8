//! Runs programs one after the other and says which it is at: the process that may hang.

use std::io::Write;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use raddle::{Follow, follow};

use crate::exec::Start;
use crate::generate::generate;
use crate::ir::Program;
use crate::model;
use crate::options::Options;
use crate::world::{SPARE, World};

/// Threads of pools, unless said otherwise.
const THREADS: usize = 2;

/// Of a process the number of whose first program has an odd number of bits that are set, so many run before something comes to follow tasks, in the middle of the next.
const UNFOLLOWED: u64 = 3;

/// Follows every task.
struct Anything;

impl Follow for Anything {
    type State = ();
    type Guard = ();

    fn capture(&self) -> Option<()> {
        Some(())
    }

    fn enter(&self, _: Option<&()>) {}
}

/// The program of a seed.
pub(crate) fn program(options: &Options, seed: u64) -> Program {
    generate(seed, options.threads.unwrap_or(THREADS), options.size, options.features)
}

/// Runs them all; lines on standard output say what begins (`> SEED`), what is wrong (`! SEED WHAT`), and that all is done.
pub(crate) fn run(options: &Options) -> ExitCode {
    let options = options.clone();
    SPARE.get_or_init(|| options.spare);
    // Programs nest within limits, but what writes them down and foresees them recurses as it likes.
    let all = thread::Builder::new().stack_size(64 << 20).spawn(move || {
        let watched = Arc::new(Mutex::new((Instant::now(), None)));
        watch(watched.clone(), options.limit.mul_f32(0.7));
        for seed in options.seeds.clone() {
            for _ in 0..options.times {
                say(&format!("> {seed}"));
                if options.model {
                    match model::ends(program(&options, seed), options.limit) {
                        Some(time) => say(&format!("= {seed} is legal, after {time:?}")),
                        None => say(&format!("! {seed} is ILLEGAL: it hangs without raddle")),
                    }
                    continue;
                }
                let world = World::new(program(&options, seed));
                let first = options.seeds.start;
                if first.count_ones() % 2 == 1 && seed == first + UNFOLLOWED {
                    thread::spawn(move || {
                        // While it is under way, more or less.
                        (0..seed % 512).for_each(|_| thread::yield_now());
                        follow(Anything);
                    });
                }
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
    let main = thread::spawn(move || world.catch("main", || Start::main(world).run(None, None).0));
    match main.join() {
        Ok(result) => world.finish(result),
        Err(_) => vec!["the main strand has panicked".into()],
    }
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
                eprintln!("{} has been running for {limit:?}:", world.program.seed);
                eprintln!("{}", world.diagnosis());
            }
        }
    });
}
