//! What the figures were measured on.

use std::{fmt, fs, num::NonZero, process::Command, thread, time::Duration};

use serde::Serialize;

#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) os: String,
    pub(crate) rustc: &'static str,
    /// The commit checked out, marked when the tree differs from it; none outside a checkout.
    pub(crate) commit: Option<String>,
    /// Load average over the last minute, before this program did anything.
    pub(crate) load: Option<f64>,
}

impl Machine {
    pub(crate) fn read() -> Machine {
        Machine {
            cpu: cpu().unwrap_or_else(|| std::env::consts::ARCH.into()),
            cores: thread::available_parallelism().map_or(1, NonZero::get),
            os: os(),
            rustc: env!("BENCH_RUSTC"),
            commit: commit(),
            load: load(),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} cores, {}", self.cpu, self.cores, self.os)?;
        if let Some(load) = self.load {
            write!(f, ", load {load:.2}")?;
        }
        write!(f, "\n{}, commit {}", self.rustc, self.commit.as_deref().unwrap_or("unknown"))?;
        if self.load.is_some_and(|load| load > 0.5) {
            write!(f, "\nother programs use this machine: read ratios of the minima, not medians")?;
        }
        Ok(())
    }
}

fn cpu() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn os() -> String {
    match fs::read_to_string("/proc/sys/kernel/osrelease") {
        Ok(release) => format!("Linux {}", release.trim()),
        Err(_) => std::env::consts::OS.to_owned(),
    }
}

fn commit() -> Option<String> {
    let output = Command::new("git")
        .args(["-C", env!("CARGO_MANIFEST_DIR"), "describe", "--always", "--dirty", "--exclude=*"])
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

fn load() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

/// CPU time used by all threads of this process so far, in milliseconds; none where the system
/// doesn't tell.
pub(crate) fn cpu_time() -> Option<f64> {
    #[cfg(unix)]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Some(time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6)
    }
    #[cfg(not(unix))]
    None
}

/// Time that all threads of this process have spent in the kernel so far, to 10 ms; none where the system doesn't tell.
pub(crate) fn system_time() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // After the name of the program, which may contain anything: the 13th field from there, in hundredths of a second.
    let ticks: u64 = stat.rsplit_once(')')?.1.split_whitespace().nth(12)?.parse().ok()?;
    Some(Duration::from_millis(10 * ticks))
}

/// How many threads this process has; none where the system doesn't tell.
pub(crate) fn thread_count() -> Option<usize> {
    Some(fs::read_dir("/proc/self/task").ok()?.count())
}

/// Bytes of memory that this process has; none where the system doesn't tell.
pub(crate) fn resident() -> Option<usize> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    Some(statm.split_whitespace().nth(1)?.parse::<usize>().ok()? * 4096)
}
