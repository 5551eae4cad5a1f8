//! What a run works on: a file, standard input, or nothing.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::error::{Error, reason};

/// Where the data are: `FILE` and `--input FILE` mean the same.
#[derive(Debug, Args)]
pub(crate) struct Input {
    /// The input [default: made-up data] [- is standard input]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The same as FILE
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    input: Option<PathBuf>,
}

impl Input {
    pub(crate) fn path(&self) -> Option<&Path> {
        self.file.as_deref().or(self.input.as_deref())
    }
}

/// Whether a path means standard input, or output.
pub(crate) fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Reads the whole of a file, or of standard input for `-`, or says why it cannot.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let refused = |error: io::Error| Error::input(path, reason(&error));
    if is_standard(path) {
        let mut bytes = Vec::new();
        io::stdin().lock().read_to_end(&mut bytes).map_err(refused)?;
        return Ok(bytes);
    }
    fs::read(path).map_err(refused)
}
