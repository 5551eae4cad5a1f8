//! What the drop-in brings into a program's lock.
//!
//! A lock has what any target might need, and what one crate asks for others may have an older version of. Then cargo keeps
//! the old rayon-core without a word, and the patch is not used. So as little as can be may come along, and it asks for no
//! newer version of what programs have.

use std::fs;
use std::io;
use std::path::Path;

use super::packages::patched;
use crate::steps::cargo;

/// rayon, what it asks for besides rayon-core, and what the system is called by.
const ALLOWED: &[&str] =
    &["either", "crossbeam-utils", "lock", "libc", "rayon", "rayon-core", "wasm_sync"];

/// A `libc` that locks of programs may have, of 2019.
const OLD_LIBC: &str = "0.2.60";

/// The crates beyond these, and raddle's own, that the lock of a program in `folder` has.
pub(super) fn foreign(folder: &Path, rayon: &str, ours: &Path) -> io::Result<Vec<String>> {
    fs::create_dir_all(folder.join("src"))?;
    fs::write(folder.join("src/lib.rs"), "")?;
    let manifest = format!(
        "[workspace]\n[package]\nname = \"lock\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\
         [dependencies]\nrayon = \"={rayon}\"\n{}",
        patched(ours)
    );
    fs::write(folder.join("Cargo.toml"), manifest)?;
    let made = cargo().current_dir(folder).args(["generate-lockfile", "--quiet"]).status()?;
    if !made.success() {
        return Err(io::Error::other("cargo cannot make a lock"));
    }
    Ok(beyond(&fs::read_to_string(folder.join("Cargo.lock"))?))
}

/// Whether the drop-in compiles where the lock in `folder`, which [`foreign`] has made, has an old `libc`.
pub(super) fn allows_old_libc(folder: &Path) -> io::Result<bool> {
    for command in [
        &["update", "--quiet", "--package", "libc", "--precise", OLD_LIBC][..],
        &["check", "--quiet", "--package", "rayon-core", "--target-dir", "target"],
    ] {
        if !cargo().current_dir(folder).args(command).status()?.success() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn beyond(lock: &str) -> Vec<String> {
    let names = lock.lines().filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    let expected = |name: &str| ALLOWED.contains(&name) || name.starts_with("raddle-");
    names.filter(|name| !expected(name)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_expected_is_found() {
        let lock = "[[package]]\nname = \"rayon\"\nversion = \"1\"\n\n[[package]]\nname = \"rand\"\n\
                    dependencies = [\n \"libc\",\n]\n\n[[package]]\nname = \"raddle-core\"\n";
        assert_eq!(beyond(lock), ["rand"]);
    }
}
