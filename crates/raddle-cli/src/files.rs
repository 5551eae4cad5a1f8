//! Which files a run reads and writes: no two of them may be one, whatever they are called.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use same_file::Handle;

use crate::error::Error;
use crate::input::is_standard;

/// The files of one run, as far as they are known by now.
///
/// Files are told apart by what they are, not by name: a link, a hard link or another spelling of a path is found. So is
/// what the shell has redirected: a result that goes to `FILE` by `> FILE` may not be replaced by a trace.
#[derive(Debug, Clone)]
pub(crate) struct Files(Rc<RefCell<Vec<Known>>>);

#[derive(Debug)]
struct Known {
    /// What it is to the run: `the input`.
    role: &'static str,
    path: PathBuf,
    /// The file while it is there. Open, so that nothing else can take its identity.
    handle: Option<Handle>,
}

impl Files {
    /// What a run knows that reads this file, or standard input, or nothing.
    ///
    /// # Errors
    ///
    /// If it is what standard output goes to.
    pub(crate) fn of(input: Option<&Path>) -> Result<Files, Error> {
        let files = Files::new();
        if let Some(path) = input {
            outlives_standard_output(path)?;
        }
        if let Some(path) = input.filter(|path| !is_standard(path)) {
            files.add("the input", path);
        }
        Ok(files)
    }

    fn new() -> Files {
        let files = Files(Rc::default());
        for (role, handle) in [
            ("standard input", Handle::stdin()),
            ("standard output", Handle::stdout()),
            ("standard error", Handle::stderr()),
        ] {
            if let Some(handle) = handle.ok().filter(is_regular) {
                let known = Known { role, path: PathBuf::new(), handle: Some(handle) };
                files.0.borrow_mut().push(known);
            }
        }
        files
    }

    /// A file that the run is to write; it must be none of those that are known.
    pub(crate) fn writes(&self, role: &'static str, path: &Path) -> Result<(), Error> {
        self.check(path, None)?;
        self.add(role, path);
        Ok(())
    }

    /// Whether `path`, which the run writes as `role`, is still none of the others: links may have changed meanwhile,
    /// and another output may have come to be.
    pub(crate) fn check_again(&self, role: &'static str, path: &Path) -> Result<(), Error> {
        self.check(path, Some(role))
    }

    fn add(&self, role: &'static str, path: &Path) {
        let known = Known { role, path: path.to_owned(), handle: identity(path) };
        self.0.borrow_mut().push(known);
    }

    fn check(&self, path: &Path, role: Option<&'static str>) -> Result<(), Error> {
        let handle = identity(path);
        for known in self.0.borrow().iter().filter(|known| Some(known.role) != role) {
            if known.is(path, handle.as_ref()) {
                let message = format!("would overwrite {}", known.role);
                return Err(Error::input(path, message));
            }
        }
        Ok(())
    }
}

/// A terminal, a pipe or a device can be several things at once, and cannot be lost.
fn is_regular(handle: &Handle) -> bool {
    handle.as_file().metadata().is_ok_and(|metadata| metadata.is_file())
}

/// Whether a file to be read is not the one that standard output goes to, by `>> FILE` or `1<> FILE`: a report would lie in it, or on it.
pub(crate) fn outlives_standard_output(path: &Path) -> Result<(), Error> {
    let input = if is_standard(path) { Handle::stdin().ok() } else { identity(path) };
    let out = Handle::stdout().ok().filter(is_regular);
    match (input, out) {
        (Some(input), Some(out)) if input == out => {
            Err(Error::input(path, "standard output goes to this very file"))
        }
        _ => Ok(()),
    }
}

impl Known {
    fn is(&self, path: &Path, handle: Option<&Handle>) -> bool {
        let same = |known: &Handle| handle.is_some_and(|handle| known == handle);
        if self.handle.as_ref().is_some_and(same) {
            return true;
        }
        // What was not there at first may be there now.
        match (identity(&self.path), handle) {
            (Some(known), Some(handle)) => known == *handle,
            (None, None) => place(&self.path).is_some_and(|known| Some(known) == place(path)),
            _ => false,
        }
    }
}

/// The file that is there, if it is a regular one: whoever opens a pipe waits for its other end, and keeps it open.
fn identity(path: &Path) -> Option<Handle> {
    fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    Handle::from_path(path).ok()
}

/// Where links lead, also to what is not there.
pub(crate) fn followed(path: &Path) -> PathBuf {
    const MOST: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..MOST {
        let Ok(target) = fs::read_link(&path) else { break };
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    path
}

/// Where a file is to be that is not there: its directory, with links followed, and its name.
fn place(path: &Path) -> Option<PathBuf> {
    let path = followed(path);
    let directory = match path.parent()? {
        parent if parent.as_os_str().is_empty() => Path::new("."),
        parent => parent,
    };
    Some(directory.canonicalize().ok()?.join(path.file_name()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("raddle-files-{name}-{}", std::process::id()));
        _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("sub")).unwrap();
        path
    }

    #[test]
    fn one_file_by_two_names() {
        let room = directory("names");
        fs::write(room.join("in"), "1").unwrap();
        fs::hard_link(room.join("in"), room.join("hard")).unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(room.join("sub/../in"), room.join("soft")).unwrap();
        let files = Files::of(Some(&room.join("in"))).unwrap();
        let mut names = vec!["in", "sub/../in", "hard"];
        if cfg!(unix) {
            names.push("soft");
        }
        for name in names {
            let error = files.writes("the output", &room.join(name)).unwrap_err().to_string();
            assert!(error.ends_with(&format!("{name}: would overwrite the input")), "{error}");
        }
        fs::remove_dir_all(room).unwrap();
    }

    #[test]
    fn files_that_are_not_there_yet() {
        let room = directory("new");
        let files = Files::of(None).unwrap();
        files.writes("the output", &room.join("out")).unwrap();
        files.writes("the trace", &room.join("sub/out")).unwrap();
        files.writes("a third", &room.join("sub/../out")).unwrap_err();
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("sub/../out", room.join("link")).unwrap();
            files.writes("a third", &room.join("link")).unwrap_err();
        }
        files.check_again("the output", &room.join("out")).unwrap();
        // Whoever makes them one meanwhile is found out too.
        fs::write(room.join("out"), "1").unwrap();
        fs::hard_link(room.join("out"), room.join("sub/out")).unwrap();
        files.check_again("the trace", &room.join("sub/out")).unwrap_err();
        fs::remove_dir_all(room).unwrap();
    }
}
