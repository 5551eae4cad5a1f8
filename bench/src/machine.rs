//! What the figures were measured on.

use std::{
    collections::BTreeMap,
    fmt, fs,
    num::NonZero,
    process::Command,
    thread,
    time::{Duration, Instant, SystemTime},
};

use serde::Serialize;

use crate::{jvm, report::BUSY};

#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    /// The day, in Greenwich.
    pub(crate) date: String,
    pub(crate) cpu: String,
    /// What tells two processors of one name apart: family, model, stepping.
    pub(crate) cpu_numbers: Option<[u32; 3]>,
    /// The fastest that any processor runs at now.
    pub(crate) mhz: Option<f64>,
    pub(crate) cores: usize,
    pub(crate) os: String,
    pub(crate) rustc: &'static str,
    /// Profile, target, flags.
    pub(crate) build: &'static str,
    /// Names and versions.
    pub(crate) peers: BTreeMap<String, String>,
    /// The commit checked out, marked when the tree differs from it; none outside a checkout.
    pub(crate) commit: Option<String>,
    /// How many processors other programs used just before the first measurement.
    pub(crate) processors_used_by_others: Option<f64>,
}

impl Machine {
    pub(crate) fn read() -> Machine {
        Machine {
            date: date(
                SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default(),
            ),
            cpu: field("model name").unwrap_or_else(|| std::env::consts::ARCH.into()),
            cpu_numbers: numbers(),
            mhz: mhz(),
            cores: thread::available_parallelism().map_or(1, NonZero::get),
            os: os(),
            rustc: env!("BENCH_RUSTC"),
            build: env!("BENCH_BUILD"),
            peers: peers(),
            commit: commit(),
            processors_used_by_others: others_before(),
        }
    }
}

/// Those in Rust as they were built, and those on the JVM.
fn peers() -> BTreeMap<String, String> {
    let built = env!("BENCH_PEERS").split(',').filter_map(|peer| peer.split_once(' '));
    built.map(|(name, version)| (name.into(), version.into())).chain(jvm::versions()).collect()
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cpu)?;
        if let Some([family, model, stepping]) = self.cpu_numbers {
            write!(f, " (family {family}, model {model}, stepping {stepping})")?;
        }
        write!(f, ", {} cores", self.cores)?;
        if let Some(mhz) = self.mhz {
            write!(f, ", {mhz:.0} MHz")?;
        }
        write!(f, ", {}, {}\n{}, {}", self.os, self.date, self.rustc, self.build)?;
        write!(f, "\ncommit {}", self.commit.as_deref().unwrap_or("unknown"))?;
        if let Some(others) = self.processors_used_by_others.filter(|others| *others > BUSY) {
            write!(
                f,
                "\nother programs use {others:.2} processors: read ratios of the minima, not medians"
            )?;
        }
        Ok(())
    }
}

/// The first value of that name among what the system says of the processors.
fn field(name: &str) -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    text.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == name).then(|| value.trim().to_owned())
    })
}

fn numbers() -> Option<[u32; 3]> {
    let number = |name| field(name)?.parse().ok();
    Some([number("cpu family")?, number("model")?, number("stepping")?])
}

fn mhz() -> Option<f64> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let each = text.lines().filter_map(|line| line.strip_prefix("cpu MHz")?.split_once(':'));
    each.filter_map(|(_, mhz)| mhz.trim().parse().ok()).max_by(f64::total_cmp)
}

/// `2026-11-22`, from the time since 1970 began.
fn date(since: Duration) -> String {
    let mut days = since.as_secs() / 86_400;
    let leap =
        |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let months = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= months[month] {
        days -= months[month];
        month += 1;
    }
    format!("{year}-{:02}-{:02}", month + 1, days + 1)
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

/// Tells how much of the machine others use, without what this process and its children use themselves: a load average
/// would count those too, and the build that came just before.
#[derive(Debug)]
pub(crate) struct Watch {
    start: Instant,
    ticks: Option<u64>,
}

impl Watch {
    pub(crate) fn start() -> Watch {
        Watch { start: Instant::now(), ticks: ticks_of_others() }
    }

    /// How many processors others have used since, on average; none where the system doesn't tell.
    pub(crate) fn others(&self) -> Option<f64> {
        let ticks = ticks_of_others()?.saturating_sub(self.ticks?);
        // The clock is read first at the start and last here: all that was counted was in this time. Two clocks that count in hundredths of a second may differ by one.
        Some(ticks.saturating_sub(1) as f64 / 100.0 / self.start.elapsed().as_secs_f64())
    }
}

fn others_before() -> Option<f64> {
    let watch = Watch::start();
    thread::sleep(Duration::from_millis(500));
    watch.others()
}

/// Hundredths of a second that all processors have worked, time stolen by the host among them, less our own.
fn ticks_of_others() -> Option<u64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let all: Vec<u64> =
        stat.lines().next()?.split_whitespace().skip(1).filter_map(|n| n.parse().ok()).collect();
    // user, nice, system, (idle, iowait,) irq, softirq, steal
    let busy: u64 = [0, 1, 2, 5, 6, 7].iter().filter_map(|&at| all.get(at)).sum();
    let own = fs::read_to_string("/proc/self/stat").ok()?;
    // After the name of the program, which may contain anything: utime, stime, and those of children that have ended.
    let own: u64 = own
        .rsplit_once(')')?
        .1
        .split_whitespace()
        .skip(11)
        .take(4)
        .filter_map(|n| n.parse::<u64>().ok())
        .sum();
    Some(busy.saturating_sub(own))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_dates() {
        let day = |days: u64| date(Duration::from_secs(days * 86_400 + 5));
        assert_eq!([day(0), day(58), day(59)], ["1970-01-01", "1970-02-28", "1970-03-01"]);
        assert_eq!([day(11_016), day(11_017)], ["2000-02-29", "2000-03-01"]);
        assert_eq!(day(20_779), "2026-11-22");
    }

    /// The processors that `/proc/stat` is about: those of the host, of which this process may have fewer.
    #[cfg(target_os = "linux")]
    fn processors() -> usize {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let names = stat.lines().filter_map(|line| line.split_whitespace().next());
        names.filter(|name| name.starts_with("cpu") && *name != "cpu").count()
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn our_own_work_is_not_that_of_others() {
        let watch = Watch::start();
        let (Some(own), processors) = (cpu_time(), processors()) else { return };
        let busy = || (cpu_time().unwrap_or_default() - own) / 1e3;
        // All that we can get: what is left over says most.
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        let enough = 0.3 * threads as f64;
        thread::scope(|scope| {
            let spin = || while busy() < enough {};
            (1..threads).for_each(|_| drop(scope.spawn(spin)));
            spin();
        });
        let Some(others) = watch.others() else { return };
        let time = watch.start.elapsed().as_secs_f64();
        // They had what we left over, at most; of each processor a few ticks may be counted early or late.
        let most = processors as f64 - (enough - 0.04 * processors as f64) / time;
        assert!(processors == 0 || others <= most, "{others} of {processors} in {time} s");
    }

    #[test]
    fn the_machine_is_told_apart() {
        let machine = Machine::read();
        assert!(machine.peers["parking_lot"].starts_with("0."), "{:?}", machine.peers);
        assert!(machine.build.contains("opt-level"), "{}", machine.build);
        #[cfg(target_arch = "x86_64")]
        #[cfg(target_os = "linux")]
        assert!(machine.cpu_numbers.is_some() && machine.mhz.is_some());
    }
}
