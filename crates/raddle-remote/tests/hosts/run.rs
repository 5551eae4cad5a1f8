//! How scenarios are run: each in a process of its own, and those that fail are told once more at the end, as libtest does. Where
//! only the end of all that is kept it says why.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// One that takes so long hangs, however busy the machine.
const LIMIT: Duration = Duration::from_secs(1200);
/// So much is repeated of what one has said: the end of it.
const REPEATED: usize = 64 << 10;

/// Runs the scenarios whose name has one of the words in it, as libtest does.
pub(crate) fn run(scenarios: &[(&str, fn())], args: &[String]) -> ExitCode {
    let words: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
    let wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(*word));
    if args.iter().any(|arg| arg == "--list") {
        scenarios.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let (mut passed, mut failed, mut ignored) = (0, Vec::new(), 0);
    for (name, _) in scenarios.iter().filter(|(name, _)| wanted(name)) {
        if needs_ray(name) && ray().is_none() {
            println!("test {name} ... ignored, needs a head of Ray: cargo xtask ray");
            ignored += 1;
            continue;
        }
        let start = Instant::now();
        let ended = scenario(name);
        let verdict = if ended.is_ok() { "ok" } else { "FAILED" };
        println!("test {name} ... {verdict} ({:.1?})", start.elapsed());
        match ended {
            Ok(()) => passed += 1,
            Err(said) => failed.push((name, said)),
        }
    }
    if !failed.is_empty() {
        println!("\nfailures:");
        failed.iter().for_each(|(name, said)| println!("\n---- {name} ----\n{}", said.trim_end()));
        // Once more without the stack, which may be longer than what is kept.
        println!("\nfailures:");
        for (name, said) in &failed {
            println!("    {name}");
            reason(said).iter().for_each(|line| println!("        {line}"));
        }
    }
    let (all, failed) = (if failed.is_empty() { "ok" } else { "FAILED" }, failed.len());
    println!("\ntest result: {all}. {passed} passed; {failed} failed; {ignored} ignored");
    ExitCode::from(u8::from(failed > 0))
}

/// The address of the head that `cargo xtask ray` has started.
pub(crate) fn ray() -> Option<String> {
    std::env::var("RADDLE_TEST_RAY").ok()
}

fn needs_ray(name: &str) -> bool {
    name.contains("_ray")
}

/// Runs one, and shows what it says as it comes; if it fails, returns that.
fn scenario(name: &str) -> Result<(), String> {
    // No pipe: whom a scenario leaves behind may have it open for ever.
    let file = file();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .arg(format!("scenario={name}"))
        .env_remove("RADDLE_PLAN")
        .stdout(file.try_clone().unwrap())
        .stderr(file.try_clone().unwrap())
        .spawn()
        .unwrap();
    let start = Instant::now();
    let mut said = Vec::new();
    loop {
        let ended = child.try_wait().unwrap();
        show(&file, &mut said);
        let why = match ended {
            Some(status) if status.success() => return Ok(()),
            Some(status) => format!("{name} ended with {status}"),
            None if start.elapsed() > LIMIT => {
                let _ = child.kill();
                let _ = child.wait();
                show(&file, &mut said);
                format!("{name} takes longer than {LIMIT:?}")
            }
            None => {
                std::thread::sleep(Duration::from_millis(2));
                continue;
            }
        };
        let end = &said[said.len().saturating_sub(REPEATED)..];
        return Err(format!("{}\n{why}\n", String::from_utf8_lossy(end).trim_end()));
    }
}

/// A file without a name: all who write there have one place to write at.
fn file() -> File {
    let path = std::env::temp_dir().join(format!("raddle-hosts-{}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    file
}

/// Shows what has come since.
fn show(file: &File, said: &mut Vec<u8>) {
    let mut buffer = [0; 4096];
    // The place to write at stays where it is.
    while let Ok(read @ 1..) = file.read_at(&mut buffer, said.len() as u64) {
        let _ = io::stdout().write_all(&buffer[..read]);
        said.extend_from_slice(&buffer[..read]);
    }
    let _ = io::stdout().flush();
}

/// What the last panic said, and how the process ended; if none did, the last lines. Those before may be of tasks that are to panic.
fn reason(said: &str) -> Vec<&str> {
    let lines: Vec<&str> = said.lines().collect();
    let panic = lines.iter().rposition(|line| line.contains(" panicked at "));
    let Some(panic) = panic else { return lines[lines.len().saturating_sub(10)..].to_vec() };
    let is_over = |line: &&&str| line.starts_with("stack backtrace:") || line.starts_with("note: ");
    let mut reason: Vec<&str> =
        lines[panic..].iter().take_while(|line| !is_over(line)).copied().collect();
    if reason.last() != lines.last() {
        reason.extend(lines.last());
    }
    reason
}
