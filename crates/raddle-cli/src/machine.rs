//! What the machine says about itself.

use std::fs;
use std::time::{Duration, Instant};

/// From so many processors on that other programs use, times are doubtful.
pub(crate) const BUSY: f64 = 0.1;

/// The name of the processor, as far as it can be had.
pub(crate) fn cpu_model() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        matches!(name.trim(), "model name" | "Model" | "cpu model").then(|| value.trim().to_owned())
    });
    model.unwrap_or_else(|| format!("unknown {} processor", std::env::consts::ARCH))
}

/// The processor time that the threads of this process have used so far, to the nanosecond.
///
/// Linux alone tells, and not every kernel does.
pub(crate) fn cpu_time() -> Option<Duration> {
    let mut total = Duration::ZERO;
    for task in fs::read_dir("/proc/self/task").ok()? {
        // A thread that ends meanwhile takes its time with it.
        let Ok(text) = fs::read_to_string(task.ok()?.path().join("schedstat")) else {
            continue;
        };
        let nanoseconds = text.split_whitespace().next()?.parse().ok()?;
        total += Duration::from_nanos(nanoseconds);
    }
    (!total.is_zero()).then_some(total)
}

/// Tells how much of the machine other programs use, without what this one does itself.
#[derive(Debug)]
pub(crate) struct Watch {
    start: Instant,
    ticks: Option<u64>,
}

impl Watch {
    pub(crate) fn start() -> Watch {
        Watch { start: Instant::now(), ticks: ticks_of_others() }
    }

    /// How many processors others have used since, on average.
    ///
    /// Linux alone tells, and in less than 50 ms it has not counted enough.
    pub(crate) fn others(&self) -> Option<f64> {
        let ticks = ticks_of_others()?.saturating_sub(self.ticks?);
        // The clock is read first at the start and last here: all that was counted was in this time.
        let time = self.start.elapsed();
        let seconds = ticks.saturating_sub(2) as f64 / 100.0;
        (time >= Duration::from_millis(50)).then(|| seconds / time.as_secs_f64())
    }
}

/// Hundredths of a second that all processors have worked, what the host has taken among them, less our own.
fn ticks_of_others() -> Option<u64> {
    let numbers = |text: &str, skip| -> Vec<u64> {
        text.split_whitespace().skip(skip).map_while(|number| number.parse().ok()).collect()
    };
    // cpu, then user, nice, system, (idle, iowait,) irq, softirq, steal.
    let all = numbers(fs::read_to_string("/proc/stat").ok()?.lines().next()?, 1);
    let busy: u64 = [0, 1, 2, 5, 6, 7].iter().filter_map(|&at| all.get(at)).sum();
    // After the name of the program, which may contain anything: state and ten fields, then user and system.
    let own = fs::read_to_string("/proc/self/stat").ok()?;
    let own: u64 = numbers(own.rsplit_once(')')?.1, 11).iter().take(2).sum();
    Some(busy.saturating_sub(own))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn work_costs_time_and_sleep_does_not() {
        let Some(start) = cpu_time() else { return };
        let clock = Instant::now();
        // Threads of other tests that end meanwhile take their time along.
        let busy = || cpu_time().unwrap_or_default().saturating_sub(start);
        while busy() < Duration::from_millis(5) {
            assert!(clock.elapsed() < Duration::from_secs(600), "{:?}", busy());
        }
    }

    /// The processors that `/proc/stat` is about: those of the host, of which this process may have fewer.
    fn processors() -> usize {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let names = stat.lines().filter_map(|line| line.split_whitespace().next());
        names.filter(|name| name.starts_with("cpu") && *name != "cpu").count()
    }

    #[test]
    fn our_own_work_is_not_that_of_others() {
        let watch = Watch::start();
        let (Some(own), processors) = (cpu_time(), processors()) else { return };
        let busy = || cpu_time().unwrap_or_default().saturating_sub(own).as_secs_f64();
        // All that we can get: what is left over says most.
        let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
        let enough = 0.3 * threads as f64;
        std::thread::scope(|scope| {
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
}
