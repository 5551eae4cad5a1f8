//! What makes raddle at home in a shell: completions, and pages for `man`.

use clap_complete::Shell;

use crate::command_line::command;
use crate::error::Error;
use crate::report::print;

/// Prints the completions for a shell.
pub(crate) fn completions(shell: Shell) -> Result<(), Error> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "raddle", &mut script);
    print(&String::from_utf8_lossy(&script))
}

/// Prints the manual's page of a command, given by its words: none for raddle itself.
pub(crate) fn man(words: &[String]) -> Result<(), Error> {
    let mut command = command();
    // Global options and full names reach the subcommands.
    command.build();
    for word in words {
        let found = command.find_subcommand(word).cloned();
        command = found.ok_or_else(|| Error::usage(format!("no command `{}`", words.join(" "))))?;
    }
    let mut page = Vec::new();
    let rendered = clap_mangen::Man::new(command).render(&mut page);
    rendered.map_err(|error| Error::failure(format!("the page cannot be made: {error}")))?;
    print(&String::from_utf8_lossy(&page))
}
