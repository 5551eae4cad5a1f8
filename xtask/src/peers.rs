//! `cargo xtask peers`: plans beside ProcessPoolExecutor and loky, as tables that are written into the page on plans.

use std::process::{Command, Stdio};

use crate::compare::filled;
use crate::ray::{self, Head};
use crate::steps::{Outcome, cargo, root};

/// Where the tables go.
const PAGE: &str = "crates/raddle-remote/src/one_machine.md";

pub(crate) fn peers() -> Outcome {
    let Some(python) = ray::python() else {
        return Outcome::ToolMissing("python3 with venv, and PyPI for `pip install ray loky`");
    };
    let Some(token) = ray::token() else { return Outcome::Failed };
    let Some(head) = Head::start(&python, &token) else { return Outcome::Failed };
    let mut command = cargo();
    command.args(["run", "--release", "-p", "raddle-remote", "--example", "peers"]);
    head.tell(&mut command, &python, &token);
    let output = command.stderr(Stdio::inherit()).output();
    drop(head);
    let tables = match output {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).into_owned()
        }
        _ => return Outcome::Failed,
    };
    print!("{tables}");
    match write(&tables) {
        Ok(()) => Outcome::Passed,
        Err(why) => {
            eprintln!("xtask: {why}");
            Outcome::Failed
        }
    }
}

fn write(tables: &str) -> Result<(), String> {
    let page = root().join(PAGE);
    let before = std::fs::read_to_string(&page).map_err(|error| format!("{PAGE}: {error}"))?;
    let text = format!(
        "On {}, at commit {}: believe ratios, as other programs may have used it, too. `cargo xtask peers` writes this, on two\n\
         workers; the first answer counts from nothing, and the time of 1000 resets is scaled up from fewer where they take long.\n\n{tables}",
        machine(),
        commit()
    );
    let after = filled(PAGE, &before, &[("peers", text)])?;
    std::fs::write(&page, after).map_err(|error| format!("{PAGE}: {error}"))
}

fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named =
        |line: &str| Some(line.strip_prefix("model name")?.split_once(':')?.1.trim().to_owned());
    let name = info.lines().find_map(named).unwrap_or_else(|| "unnamed processor".to_owned());
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{count} processor{} of an {name}", if count == 1 { "" } else { "s" })
}

fn commit() -> String {
    let git =
        Command::new("git").args(["rev-parse", "--short", "HEAD"]).current_dir(root()).output();
    git.map_or_else(
        |_| "unknown".to_owned(),
        |git| String::from_utf8_lossy(&git.stdout).trim().to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::{PAGE, root};

    /// The command finds where its tables go, and they are there.
    #[test]
    fn the_page_has_the_tables() {
        let page = std::fs::read_to_string(root().join(PAGE)).unwrap();
        let (_, rest) = page.split_once("<!-- peers -->\n").unwrap();
        let (tables, _) = rest.split_once("<!-- /peers -->").unwrap();
        for row in ["there and back", "0.1 ms", "4 ms", "100 rounds", "map-reduce", "1000 resets"] {
            assert!(tables.contains(row), "{row}");
        }
    }
}
