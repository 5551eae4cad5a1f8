//! The command line as `clap` has it: which options a command's help has.

use clap::{CommandFactory, FromArgMatches};

use crate::args::Cli;

/// What there is on a command line. Every command knows the options of all, to say where they belong; its help has those that it
/// does not refuse.
pub(crate) fn command() -> clap::Command {
    let program = Cli::command();
    let all: Vec<clap::Arg> =
        program.get_arguments().filter(|option| option.is_global_set()).cloned().collect();
    let showing = |command: clap::Command, used: &[&str]| {
        let refused = all.iter().filter(|option| !used.contains(&option.get_id().as_str()));
        command.args(refused.map(|option| option.clone().hide(true)))
    };
    let drawn = ["html", "chrome", "perfetto"];
    program
        .mut_subcommand("trace", |trace| {
            let draws = |trace: clap::Command, name| {
                trace.mut_subcommand(name, |command| showing(command, &[]))
            };
            drawn.into_iter().fold(showing(trace, &["json"]), draws)
        })
        .mut_subcommand("plan", |plan| showing(plan, &["json"]))
        .mut_subcommand("completions", |completions| showing(completions, &[]))
        .mut_subcommand("man", |man| showing(man, &[]))
}

/// The command line of this process.
pub(crate) fn parse() -> Result<Cli, clap::Error> {
    let matches = command().try_get_matches()?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_has_no_option_that_is_refused() {
        let mut program = command();
        program.build();
        let mut help = |path: &str| {
            let words = path.split(' ');
            let found = words.fold(&mut program, |command, word| {
                command.find_subcommand_mut(word).expect("there is such a command")
            });
            found.render_long_help().to_string()
        };
        let run = ["--threads", "--runs", "--trace ", "--trace-level", "--trace-room", "--plan"];
        for (path, has_json) in [
            ("trace", true),
            ("trace summary", true),
            ("trace scale", true),
            ("trace doctor", true),
            ("trace diff", true),
            ("trace html", false),
            ("trace chrome", false),
            ("trace perfetto", false),
            ("plan", true),
            ("completions", false),
            ("man", false),
        ] {
            let help = help(path);
            for option in run.iter().chain(&["--retries"]) {
                assert!(!help.contains(&format!("  {option}")), "{path}: {option} in {help}");
            }
            assert_eq!(help.contains("  --json"), has_json, "{path}: {help}");
        }
        for option in run {
            assert!(help("run sort").contains(option), "{option}");
        }
    }
}
