//! The pages of `raddle trace html`, in a real browser without a window.

mod made_up;
mod pictures;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, io};

use crate::steps::{Outcome, cargo, outcome, target_dir};

const NAMES: &[&str] = &["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
/// Before everything else, so that no error goes unnoticed.
const WATCH: &str = "<script>window.faultsSoFar = [];\
    window.addEventListener('error', e => faultsSoFar.push('error: ' + e.message));\
    for (const kind of ['error', 'warn']) console[kind] = (...a) => faultsSoFar.push(kind + ': ' + a);\
    </script>";
const REDRAWS: u32 = 100;
const SLOWEST: Duration = Duration::from_millis(250);
/// So often a redraw may be slow, for want of a processor.
const TRIES: u32 = 5;
const CHECK: &str = include_str!("page/check.js");

/// Compares pictures of pages with those that were found good; records runs, draws them, and does to the pages what a user
/// does.
pub(crate) fn page() -> Outcome {
    let (browser, room) = match ready() {
        Ok(ready) => ready,
        Err(outcome) => return outcome,
    };
    let pictures = told(pictures::pictures(&browser, &room, false));
    let used = used(&browser, &room);
    if pictures == Outcome::Passed { used } else { pictures }
}

/// Has pictures of pages as they are now be those to compare with.
pub(crate) fn accept() -> Outcome {
    match ready() {
        Ok((browser, room)) => told(pictures::pictures(&browser, &room, true)),
        Err(outcome) => outcome,
    }
}

fn told(result: Result<(), String>) -> Outcome {
    match result {
        Ok(()) => Outcome::Passed,
        Err(error) => {
            eprintln!("xtask: {error}");
            Outcome::Failed
        }
    }
}

/// A browser, and a place for what it makes.
fn ready() -> Result<(PathBuf, PathBuf), Outcome> {
    let Some(browser) = browser() else {
        return Err(Outcome::ToolMissing(
            "no chromium, and it cannot be installed: the page is unchecked",
        ));
    };
    let room = target_dir("page");
    match fs::create_dir_all(&room) {
        Ok(()) => Ok((browser, room)),
        Err(error) => Err(told(Err(format!("{}: {error}", room.display())))),
    }
}

fn used(browser: &Path, room: &Path) -> Outcome {
    // Small ones of both levels, and one of more than a million events.
    for line in [
        "run fib --n 24 --threads 2 --trace-level phase",
        "run fib --n 16 --threads 3 --trace-level tasks",
        "run sort --threads 2 --trace-level tasks",
        "run fib --n 28 --threads 2 --trace-level tasks",
    ] {
        let (trace, html) = (room.join("t.trace"), room.join("t.html"));
        let run = line.split_whitespace().map(Path::new);
        let made = raddle(run.chain([Path::new("--trace"), &trace]))
            && raddle([Path::new("trace"), Path::new("html"), &trace, Path::new("-o"), &html]);
        if !made {
            return Outcome::Failed;
        }
        // Once, and with redraws: the difference is what those take. The machine may be slow at one of them.
        let mut redraw = Duration::MAX;
        for _ in 0..TRIES {
            let mut times = Vec::new();
            for redraws in [0, REDRAWS] {
                let start = Instant::now();
                match look(browser, &html, room, redraws) {
                    Ok(verdict) if verdict.starts_with("OK") => {
                        times.push(start.elapsed());
                        println!("xtask: {line}: {verdict}");
                    }
                    Ok(verdict) => {
                        eprintln!("xtask: {line}: {verdict}");
                        return Outcome::Failed;
                    }
                    Err(error) => {
                        eprintln!("xtask: {line}: {error}");
                        return Outcome::Failed;
                    }
                }
            }
            redraw = redraw.min(times[1].saturating_sub(times[0]) / REDRAWS);
            if redraw <= SLOWEST {
                break;
            }
        }
        println!("xtask: {line}: {} ms to redraw all of it", redraw.as_millis());
        if redraw > SLOWEST {
            eprintln!("xtask: {line}: too slow to be used");
            return Outcome::Failed;
        }
    }
    Outcome::Passed
}

fn raddle<'a>(args: impl IntoIterator<Item = &'a Path>) -> bool {
    let mut command = cargo();
    command.args(["run", "--quiet", "--release", "-p", "raddle-cli", "--"]).args(args);
    outcome(command.stdout(Stdio::null())) == Outcome::Passed
}

/// What the check wrote into the page, or what kept it from writing.
fn look(browser: &Path, html: &Path, room: &Path, redraws: u32) -> io::Result<String> {
    let page = fs::read_to_string(html)?;
    let page = page.replacen("<head>", &format!("<head>{WATCH}"), 1);
    let page = page.replacen("</body>", &format!("<script>{CHECK}</script></body>"), 1);
    let checked = room.join("checked.html");
    fs::write(&checked, page)?;
    let output = browse(browser, room, (1200, 800))
        .arg("--dump-dom")
        .arg(format!("file://{}#{redraws}", checked.display()))
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    // Its advice on reading pixels back is for the check, which does.
    let told = |line: &&str| line.contains("CONSOLE") && !line.contains("willReadFrequently");
    if let Some(line) = errors.lines().find(told) {
        return Ok(format!("the console says: {line}"));
    }
    let dom = String::from_utf8_lossy(&output.stdout);
    let verdict =
        dom.split_once("<pre id=\"verdict\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    verdict.map(|(text, _)| text.to_owned()).ok_or_else(|| {
        let last = errors.lines().last().unwrap_or_default();
        io::Error::other(format!("the page did not get to its verdict; the browser says: {last}"))
    })
}

/// The browser without a window, as if it had one of this size.
fn browse(browser: &Path, room: &Path, (width, height): (u32, u32)) -> Command {
    let mut command = Command::new(browser);
    command
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--virtual-time-budget=20000", "--enable-logging=stderr"])
        .arg(format!("--window-size={width},{height}"))
        .arg(format!("--user-data-dir={}", room.join("profile").display()))
        .stdin(Stdio::null());
    command
}

/// A browser, installed if there is none and we may.
fn browser() -> Option<PathBuf> {
    find().or_else(|| {
        eprintln!("xtask: no chromium here; trying to install it");
        let apt = |args: &[&str]| {
            let mut command = Command::new("apt-get");
            command.args(args).env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        let installed = apt(&["update", "-qq"])
            && apt(&["install", "-y", "-qq", "--no-install-recommends", "chromium"]);
        if installed { find() } else { None }
    })
}

fn find() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let names =
        env::split_paths(&path).flat_map(|dir| NAMES.iter().map(move |name| dir.join(name)));
    names.into_iter().find(|candidate| candidate.is_file())
}
