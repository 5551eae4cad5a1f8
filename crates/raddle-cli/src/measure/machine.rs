//! What the machine says about itself.

use std::fs;
use std::time::Duration;

/// The name of the processor, as far as it can be had.
pub(super) fn cpu_model() -> String {
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
pub(super) fn cpu_time() -> Option<Duration> {
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn work_costs_time_and_sleep_does_not() {
        let Some(start) = cpu_time() else { return };
        let clock = Instant::now();
        while clock.elapsed() < Duration::from_millis(60) {}
        let busy = cpu_time().unwrap() - start;
        assert!(busy > Duration::from_millis(5), "{busy:?}");
    }
}
