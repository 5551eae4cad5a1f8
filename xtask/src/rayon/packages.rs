//! Packages as they were published, and copies of them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::steps::cargo;

/// Where cargo has put them.
pub(super) struct Packages {
    pub(super) rayon: PathBuf,
    pub(super) rayon_core: PathBuf,
}

impl Packages {
    /// Has cargo fetch them, for a package made in `folder`.
    pub(super) fn fetch(folder: &Path, rayon: &str, rayon_core: &str) -> io::Result<Packages> {
        fs::create_dir_all(folder.join("src"))?;
        fs::write(folder.join("src/lib.rs"), "")?;
        let manifest = format!(
            "[workspace]\n[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\
             [dependencies]\nrayon = \"={rayon}\"\nrayon-core = \"={rayon_core}\"\n"
        );
        fs::write(folder.join("Cargo.toml"), manifest)?;
        let mut command = cargo();
        command.current_dir(folder).args(["metadata", "--format-version", "1"]);
        let output = command.stderr(std::process::Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err(io::Error::other("cargo cannot fetch the packages"));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let of = |name: &str, version: &str| {
            let ending = format!("{name}-{version}");
            let path = manifests(&text).find(|path| path.ends_with(&ending));
            path.ok_or_else(|| io::Error::other(format!("cargo does not say where {ending} is")))
        };
        Ok(Packages { rayon: of("rayon", rayon)?, rayon_core: of("rayon-core", rayon_core)? })
    }
}

/// The folders of the manifests that `cargo metadata` names.
fn manifests(metadata: &str) -> impl Iterator<Item = PathBuf> {
    let key = "\"manifest_path\":\"";
    metadata.split(key).skip(1).filter_map(|rest| {
        let path = rest.split('"').next()?.replace("\\\\", "\\");
        Some(Path::new(&path).parent()?.to_path_buf())
    })
}

/// Copies the sources, over what was copied before.
pub(super) fn copy_package(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, name) = (entry.path(), entry.file_name());
        if [".git", "target"].iter().any(|skipped| name == *skipped) {
            continue;
        }
        let target = to.join(&name);
        if source.is_dir() {
            copy_package(&source, &target)?;
        } else {
            // Written, not copied: the packages that cargo keeps may be read-only.
            fs::write(&target, fs::read(&source)?)?;
        }
    }
    Ok(())
}

/// What a user adds to a manifest.
pub(super) fn patched(ours: &Path) -> String {
    format!("\n[patch.crates-io]\nrayon-core = {{ path = {ours:?} }}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_found_in_metadata() {
        let text = r#"{"manifest_path":"/a/rayon-1.12.0/Cargo.toml","x":1,"manifest_path":"/b/Cargo.toml"}"#;
        let found: Vec<_> = manifests(text).collect();
        assert_eq!(found, [Path::new("/a/rayon-1.12.0"), Path::new("/b")]);
    }
}
