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
        if is_closed(0) {
            return Err(Error::input(path, "is closed, or /dev/null in its place"));
        }
        let mut bytes = Vec::new();
        io::stdin().lock().read_to_end(&mut bytes).map_err(refused)?;
        return Ok(bytes);
    }
    fs::read(path).map_err(refused)
}

/// Whether standard input (0) or output (1) is not there. The standard library opens `/dev/null` where a descriptor is closed, and
/// opens it for reading and writing: `< /dev/null` in a shell, which is empty on purpose, is for reading alone, and `> /dev/null`
/// for writing.
#[cfg(target_os = "linux")]
pub(crate) fn is_closed(descriptor: u32) -> bool {
    let file = fs::read_link(format!("/proc/self/fd/{descriptor}"));
    let null = file.is_ok_and(|file| file == Path::new("/dev/null"));
    let facts = fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}")).unwrap_or_default();
    let mut flags = facts.lines().filter_map(|line| line.strip_prefix("flags:"));
    // An octal number, whose last digit says what it is open for.
    null && flags.any(|flags| flags.trim().ends_with('2'))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn is_closed(_: u32) -> bool {
    false
}
