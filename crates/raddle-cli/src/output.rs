//! Files that are written whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek, Write};
#[cfg(target_os = "linux")]
use std::os::{fd::AsRawFd, unix::fs::MetadataExt};
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
#[cfg(unix)]
use same_file::Handle;

use crate::error::{Error, reason};
use crate::files::{Files, followed};
use crate::input::{is_closed, is_standard};

/// Where a result goes: known to be writable from the start, written at the end.
#[derive(Debug)]
pub(crate) struct Output {
    /// The path as the user gave it.
    named: PathBuf,
    /// What it is to the run.
    role: &'static str,
    files: Files,
    target: Target,
}

#[derive(Debug)]
enum Target {
    /// `-`, or a path of the same pipe or terminal
    Stdout,
    /// A device or a pipe: nothing to replace, so it is written as it is.
    Stream,
    /// A regular file, there already or not, with links followed: it is replaced by a whole new
    /// one.
    File(PathBuf),
}

impl Output {
    /// Finds out now, before anything is computed, whether `path` can be written, and that it is no other file of the
    /// run.
    pub(crate) fn prepare(role: &'static str, path: &Path, files: &Files) -> Result<Output, Error> {
        let refused =
            |error: io::Error| Error::input(path, format!("cannot be written: {}", reason(&error)));
        let target = match fs::metadata(path) {
            _ if is_standard(path) => {
                if is_closed(1) {
                    // Who starts programs may have opened it just like that, to hear nothing.
                    let lost = "raddle: standard output is closed, or /dev/null in its place: what goes there is lost";
                    _ = writeln!(io::stderr(), "{lost}");
                }
                Target::Stdout
            }
            Ok(found) if found.is_dir() => {
                return Err(Error::input(path, "cannot be written: is a directory"));
            }
            Ok(found) if is_descriptor_1(&found) => Target::Stdout,
            Ok(found) if !found.is_file() => Target::Stream,
            Ok(_) => {
                // A file that may not be written must not be replaced either.
                OpenOptions::new().write(true).open(path).map_err(refused)?;
                Target::File(fs::canonicalize(path).map_err(refused)?)
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(refused(error)),
            // What is not there and is to be a directory is no file.
            Err(_) if ends_as_directory(&followed(path)) => {
                return Err(Error::input(path, "cannot be written: no such directory"));
            }
            Err(_) => Target::File(followed(path)),
        };
        if let Target::File(place) = &target {
            files.writes(role, path)?;
            // Made, with a name as it will have one, and removed again: an interrupted computation leaves nothing behind.
            Draft::named(place).map_err(refused)?;
        }
        Ok(Output { named: path.to_owned(), role, files: files.clone(), target })
    }

    pub(crate) fn is_stdout(&self) -> bool {
        matches!(self.target, Target::Stdout)
    }

    pub(crate) fn is_file(&self) -> bool {
        matches!(self.target, Target::File(_))
    }

    /// Whether it is still no other file of the run.
    pub(crate) fn check_again(&self) -> Result<(), Error> {
        self.files.check_again(self.role, &self.named)
    }

    pub(crate) fn name(&self) -> String {
        self.named.display().to_string()
    }

    /// Writes everything, or leaves what was there before.
    pub(crate) fn write(
        &self,
        content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Error> {
        let failed = |error: io::Error| {
            Error::file_failure(&self.named, format!("cannot be written: {}", reason(&error)))
        };
        match &self.target {
            Target::Stdout => buffered(io::stdout().lock(), content).map_err(|e| Error::stdout(&e)),
            Target::Stream => OpenOptions::new()
                .write(true)
                .open(&self.named)
                .and_then(|file| buffered(file, content))
                .map_err(failed),
            Target::File(path) => {
                let draft = Draft::beside(path).map_err(failed)?;
                let to = Limited { to: &draft.file, left: most_bytes() };
                buffered(to, content).map_err(failed)?;
                self.check_again()?;
                draft.replace().map_err(failed)
            }
        }
    }
}

/// Whether standard output goes to this pipe or terminal, as to that of `/dev/stdout`.
#[cfg(unix)]
fn is_descriptor_1(found: &fs::Metadata) -> bool {
    use std::io::IsTerminal;
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let kind = found.file_type();
    let mixes = kind.is_fifo() || kind.is_socket() || io::stdout().is_terminal();
    let identity = |metadata: &fs::Metadata| (metadata.dev(), metadata.ino());
    let out = Handle::stdout().and_then(|out| out.as_file().metadata());
    mixes && out.is_ok_and(|out| !out.is_file() && identity(&out) == identity(found))
}

#[cfg(not(unix))]
fn is_descriptor_1(_: &fs::Metadata) -> bool {
    false
}

/// Whether nothing but a directory can be called so: `new/`, `new/.`, `new/..`.
fn ends_as_directory(path: &Path) -> bool {
    let bytes = path.as_os_str().as_encoded_bytes();
    let last = bytes.rsplit(|&byte| std::path::is_separator(byte.into())).next();
    matches!(last, Some(b"" | b"." | b".."))
}

fn buffered(
    to: impl Write,
    content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut to = BufWriter::with_capacity(1 << 16, to);
    content(&mut to)?;
    to.flush()
}

/// A new file that grows as far as files may: who wants more is refused by a signal, which ends the program before it can tell anything.
struct Limited<W> {
    to: W,
    left: u64,
}

impl<W: Write> Write for Limited<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() as u64 > self.left {
            return Err(io::Error::other("larger than files may be here (ulimit -f)"));
        }
        let written = self.to.write(bytes)?;
        self.left -= written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// How large a file may be.
#[cfg(target_os = "linux")]
fn most_bytes() -> u64 {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max file size"));
    let now = line.and_then(|line| line.split_whitespace().next());
    now.and_then(|bytes| bytes.parse().ok()).unwrap_or(u64::MAX)
}

#[cfg(not(target_os = "linux"))]
fn most_bytes() -> u64 {
    u64::MAX
}

/// A file that is to be at `to`. On Linux it has no name until it is whole, so that whatever ends the program leaves nothing; where
/// a file system has no such files, it has another name in the same directory, and goes away unless it is kept.
#[derive(Debug)]
struct Draft {
    to: PathBuf,
    file: File,
    /// What it is called meanwhile.
    name: Option<PathBuf>,
}

impl Draft {
    /// With the owner and the permissions of what is at `path`, which it is to replace.
    fn beside(path: &Path) -> io::Result<Draft> {
        match nameless(directory_of(path)) {
            Some(file) => Draft { to: path.to_owned(), file, name: None }.like_the_old_one(),
            None => Draft::named(path),
        }
    }

    fn named(path: &Path) -> io::Result<Draft> {
        let create = |name: &Path| OpenOptions::new().write(true).create_new(true).open(name);
        let (name, file) = first_free(path, create)?;
        Draft { to: path.to_owned(), file, name: Some(name) }.like_the_old_one()
    }

    fn like_the_old_one(self) -> io::Result<Draft> {
        // From the start, so that nobody reads what is a secret.
        if let Ok(old) = fs::metadata(&self.to) {
            self.file.set_permissions(old.permissions())?;
            keep_owner(&self.file, &old);
            // Another owner may cost it some, and may be the only one who can give them back.
            _ = self.file.set_permissions(old.permissions());
        }
        Ok(self)
    }

    /// Takes the place of what is there.
    fn replace(mut self) -> io::Result<()> {
        // Some systems say only now that the disk is full.
        self.file.sync_all()?;
        if self.name.is_none() {
            match first_free(&self.to, |name| give_name(&self.file, name)) {
                Ok((name, ())) => self.name = Some(name),
                // There are rules for who may do what to which file that do not know one without a name.
                Err(refused) => self = self.copied().map_err(|_| refused)?,
            }
        }
        if let Some(name) = &self.name {
            fs::rename(name, &self.to)?;
        }
        // From now on that may be somebody else's.
        self.name = None;
        Ok(())
    }

    /// The same in a file with a name.
    fn copied(mut self) -> io::Result<Draft> {
        let mut copy = Draft::named(&self.to)?;
        self.file.rewind()?;
        io::copy(&mut self.file, &mut copy.file)?;
        copy.file.sync_all()?;
        Ok(copy)
    }
}

/// A name beside `path` that nobody has, and what `take` makes of it.
fn first_free<T>(path: &Path, take: impl Fn(&Path) -> io::Result<T>) -> io::Result<(PathBuf, T)> {
    let mut number = 0;
    loop {
        let name = path.with_file_name(format!(".raddle-{}-{number}.tmp", std::process::id()));
        match take(&name) {
            // Left by a program that was killed, whose number we have now.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 100 => {
                number += 1;
            }
            taken => return Ok((name, taken?)),
        }
    }
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A file in a directory that has no name, and can be given one.
#[cfg(target_os = "linux")]
fn nameless(directory: &Path) -> Option<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o666);
    let file = File::from(rustix::fs::open(directory, flags, mode).ok()?);
    is_masked(&file).then_some(file)
}

/// Whether a new file lacks the permissions that the user gives to none: some systems forget that where there is no name. Not
/// where `/proc`, which a name is given by, does not say.
#[cfg(target_os = "linux")]
fn is_masked(file: &File) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let mask = mask.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok());
    let mode = file.metadata().map(|status| status.mode());
    mask.zip(mode.ok()).is_some_and(|(mask, mode)| mode & mask == 0)
}

/// What leads to an open file.
#[cfg(target_os = "linux")]
fn link_to(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

#[cfg(target_os = "linux")]
fn give_name(file: &File, name: &Path) -> io::Result<()> {
    Ok(rustix::fs::linkat(CWD, link_to(file), CWD, name, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(not(target_os = "linux"))]
fn nameless(_: &Path) -> Option<File> {
    None
}

#[cfg(not(target_os = "linux"))]
fn give_name(_: &File, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Gives a file to whom the old one belongs, as far as that is ours to do: root may, others at most to a group of theirs.
#[cfg(unix)]
fn keep_owner(file: &File, old: &fs::Metadata) {
    use std::os::unix::fs::{MetadataExt, fchown};
    let group = Some(old.gid());
    _ = fchown(file, Some(old.uid()), group).or_else(|_| fchown(file, None, group));
}

#[cfg(not(unix))]
fn keep_owner(_: &File, _: &fs::Metadata) {}

impl Drop for Draft {
    fn drop(&mut self) {
        _ = self.name.as_ref().map(fs::remove_file);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use super::*;

    fn directory(name: &str) -> PathBuf {
        let path =
            std::env::temp_dir().join(format!("raddle-output-{name}-{}", std::process::id()));
        _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        path
    }

    fn prepare(path: &Path) -> Result<Output, Error> {
        Output::prepare("the output", path, &Files::of(None).unwrap())
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn preparing_leaves_nothing_behind() {
        let directory = directory("prepare");
        prepare(&directory.join("new")).unwrap();
        assert!(names(&directory).is_empty());
        prepare(&directory).unwrap_err();
        prepare(&directory.join("none/new")).unwrap_err();
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_failure_half_way_leaves_the_old_file() {
        let directory = directory("half");
        let path = directory.join("file");
        fs::write(&path, "old").unwrap();
        let half = |to: &mut dyn Write| {
            to.write_all(&[b'x'; 1 << 17])?;
            Err(io::Error::other("enough"))
        };
        let error = prepare(&path).unwrap().write(half).unwrap_err();
        assert!(error.to_string().ends_with("cannot be written: enough"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(&directory), ["file"]);

        prepare(&path).unwrap().write(|to| to.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(&directory), ["file"]);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn what_a_killed_program_left_is_not_in_the_way() {
        let directory = directory("left");
        let left = format!(".raddle-{}-0.tmp", std::process::id());
        fs::write(directory.join(&left), "theirs").unwrap();
        prepare(&directory.join("file")).unwrap().write(|to| to.write_all(b"new")).unwrap();
        assert_eq!(fs::read(directory.join("file")).unwrap(), b"new");
        assert_eq!(fs::read(directory.join(&left)).unwrap(), b"theirs");
        fs::remove_dir_all(directory).unwrap();
    }

    /// Where there are files without names.
    #[test]
    fn a_program_that_is_killed_leaves_nothing() {
        const ROOM: &str = "RADDLE_TEST_OUTPUT_ROOM";
        if let Some(room) = std::env::var_os(ROOM) {
            let write = |to: &mut dyn Write| -> io::Result<()> {
                to.write_all(&[b'x'; 1 << 17])?;
                // Above the harness, which has standard output.
                _ = writeln!(io::stderr(), "half");
                loop {
                    std::thread::park();
                }
            };
            return prepare(&Path::new(&room).join("file")).unwrap().write(write).unwrap();
        }
        let directory = directory("killed");
        fs::write(directory.join("file"), "old").unwrap();
        if nameless(&directory).is_some() {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "output::tests::a_program_that_is_killed_leaves_nothing"])
                .arg("--nocapture")
                .env(ROOM, &directory)
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let told = BufReader::new(child.stderr.take().unwrap());
            assert!(told.lines().any(|line| line.unwrap() == "half"));
            child.kill().unwrap();
            child.wait().unwrap();
            assert_eq!(names(&directory), ["file"]);
            assert_eq!(fs::read(directory.join("file")).unwrap(), b"old");
        }
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn what_cannot_be_given_a_name_is_copied() {
        let directory = directory("copied");
        let path = directory.join("file");
        fs::write(&path, "old").unwrap();
        let mut draft = Draft::beside(&path).unwrap();
        draft.file.write_all(b"new").unwrap();
        if draft.name.is_none() {
            draft.copied().unwrap().replace().unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"new");
        }
        assert_eq!(names(&directory), ["file"]);
        fs::remove_dir_all(directory).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_permissions_kept() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let directory = directory("links");
        let (file, link) = (directory.join("file"), directory.join("link"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&file, &link).unwrap();
        let mode = |file: &File| file.metadata().unwrap().permissions().mode() & 0o777;
        // The draft, too, is nobody else's.
        for draft in [Draft::beside, Draft::named] {
            assert_eq!(mode(&draft(&file).unwrap().file), 0o640);
        }
        prepare(&link).unwrap().write(|to| to.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        fs::remove_dir_all(directory).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn the_owner_is_kept() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
        let directory = directory("owner");
        let file = directory.join("file");
        fs::write(&file, "old").unwrap();
        // Only root gives files away; to others the file is theirs, before and after.
        _ = chown(&file, Some(65534), Some(65533));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        let of = || {
            let found = fs::metadata(&file).unwrap();
            (found.uid(), found.gid(), found.mode() & 0o777)
        };
        let before = of();
        prepare(&file).unwrap().write(|to| to.write_all(b"new")).unwrap();
        assert_eq!((of(), fs::read(&file).unwrap()), (before, b"new".to_vec()));
        fs::remove_dir_all(directory).unwrap();
    }
}
