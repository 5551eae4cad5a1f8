//! Programs at random that cannot deadlock, each run on raddle and compared with a sequential interpreter.
//!
//! ```console
//! $ cargo test -p raddle --test programs                         # some hundreds
//! $ cargo test --release -p raddle --test programs -- --seeds 0..20000
//! $ cargo test -p raddle --test programs -- --seed 17 --threads 2
//! $ cargo test -p raddle --test programs -- --help
//! ```
//!
//! Programs run in processes of their own, so that one that hangs or crashes is a number printed, and the others go on.
//!
//! | file          | what it holds                                                             |
//! |---------------|---------------------------------------------------------------------------|
//! | `ir.rs`       | what a program is. **Start here**                                            |
//! | `generate/`   | how programs are made up, and why they cannot deadlock                       |
//! | `oracle.rs`   | what comes of a program: the sequential interpreter                          |
//! | `exec.rs`, `waits.rs`, `promise.rs`, `derive.rs`, `formula.rs`, `formula/` | the interpreter that runs on raddle |
//! | `locks.rs`    | locks of several kinds, and ways to hold them                               |
//! | `world.rs`    | what strands share; what is checked in the end; how pools are set up          |
//! | `model.rs`    | the interpreter with a thread of the system for each task: is a program legal? |
//! | `parent.rs`, `child.rs`, `options.rs` | processes and command line                          |

mod child;
mod derive;
mod exec;
mod formula;
mod generate;
mod ir;
mod locks;
mod model;
mod options;
mod oracle;
mod parent;
mod promise;
mod rng;
mod waits;
mod world;

use std::process::ExitCode;

use options::{Options, USAGE};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let options = match Options::parse(args.into_iter()) {
        Ok(options) => options,
        Err(why) => {
            eprintln!("{why}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if options.nothing {
        return ExitCode::SUCCESS;
    }
    if options.list {
        println!("programs: test");
        return ExitCode::SUCCESS;
    }
    if options.print {
        println!("{:#?}", child::program(&options, options.seeds.start));
        return ExitCode::SUCCESS;
    }
    if options.here { child::run(&options) } else { parent::run(&options) }
}
