//! `cargo xtask peers`: plans beside ProcessPoolExecutor and loky, as a table.

use crate::ray;
use crate::steps::{Outcome, cargo, outcome};

pub(crate) fn peers() -> Outcome {
    let Some(python) = ray::python() else {
        return Outcome::ToolMissing("python3 with venv, and PyPI for `pip install loky`");
    };
    let mut command = cargo();
    command.args(["run", "--release", "-p", "raddle-remote", "--example", "peers"]);
    outcome(command.env("RADDLE_TEST_PYTHON", python))
}
