//! Programs at random that mix rayon's functions with raddle's own and cannot deadlock, each compared with a sequential interpreter.
//!
//! ```console
//! $ cargo test --test mixed                                  # some hundreds
//! $ cargo test --release --test mixed -- --seeds 0..20000
//! $ cargo test --test mixed -- --seed 17 --threads 2 --waits host
//! $ cargo test --test mixed -- --help
//! ```
//!
//! Programs run in processes of their own, so that one that hangs or crashes is a number printed, and the others go on. The
//! package `raddle` has another such test (`programs`), of all that raddle itself has; this one is for what it
//! has for rayon's programs, and for both in one program.
//!
//! | file          | what it holds                                                             |
//! |---------------|---------------------------------------------------------------------------|
//! | `ir.rs`       | what a program is. **Start here**                                            |
//! | `generate.rs`, `generate/` | how programs are made up, and why they cannot deadlock              |
//! | `oracle.rs`   | what comes of a program: the sequential interpreter                          |
//! | `exec/`       | the interpreter that runs on raddle                                         |
//! | `locks.rs`    | locks of several kinds                                                      |
//! | `world.rs`    | what the nodes of a program share; what is checked in the end                  |
//! | `parent.rs`, `child.rs`, `options.rs` | processes and command line                          |

mod child;
mod exec;
mod generate;
mod ir;
mod locks;
mod options;
mod oracle;
mod parent;
// The same as the other generator has.
#[path = "../../../../crates/raddle/tests/programs/rng.rs"]
mod rng;
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
        println!("mixed: test");
        return ExitCode::SUCCESS;
    }
    if options.print {
        println!("{:#?}", child::program(&options, options.seeds.start));
        return ExitCode::SUCCESS;
    }
    if options.here { child::run(&options) } else { parent::run(&options) }
}
