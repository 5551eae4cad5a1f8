//! Runs the program that is named; `--issues` lists those of rayon's issues.

use std::process::ExitCode;

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    if name == "--issues" {
        rayon_programs::OF_ISSUES.iter().for_each(|(name, _)| println!("{name}"));
        return ExitCode::SUCCESS;
    }
    let Some(program) = rayon_programs::program(&name) else {
        eprintln!("no program is called '{name}'");
        return ExitCode::from(2);
    };
    program();
    println!("{name} has ended");
    ExitCode::SUCCESS
}
