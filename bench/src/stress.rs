//! Cold regions of random shape and spacing, as many as there is time for: is a wake-up ever lost?
//!
//! In every region two or more workers have to meet, so one that is not woken leaves the region hanging,
//! and a watchdog says so. Between regions the pool is left alone for about as long as its workers take to
//! give up searching, a little less or more, so that regions begin while they fall asleep.

use std::{
    io,
    process::exit,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc::{RecvTimeoutError, channel},
    },
    thread,
    time::{Duration, Instant},
};

use raddle::{Pool, Worker};

/// No region takes as long as this, however busy the machine.
const HANGS: Duration = Duration::from_secs(60);

/// Threads that wait for each other, and let the processor go meanwhile.
struct Meeting(AtomicUsize);

impl Meeting {
    fn wait(&self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
        let mut turns = 0_u32;
        while self.0.load(Ordering::Acquire) > 0 {
            turns += 1;
            if turns.is_multiple_of(64) { thread::yield_now() } else { std::hint::spin_loop() }
        }
    }
}

/// Random numbers: xorshift (Marsaglia, 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

/// Forks down to `count` leaves that all have to meet.
fn meet(worker: &Worker, meeting: &Meeting, count: usize) {
    if count <= 1 {
        return meeting.wait();
    }
    let half = count / 2;
    worker.join(|w| meet(w, meeting, count - half), |w| meet(w, meeting, half));
}

fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

fn region(pool: &Pool, random: &mut Random) {
    let most = pool.num_threads() as u64;
    let count = 2 + random.below(most - 1) as usize;
    let meeting = Arc::new(Meeting(AtomicUsize::new(count)));
    match random.below(6) {
        0 => {
            // A long leaf, and a fork that it must not keep.
            let lead = Duration::from_nanos(random.below(20_000));
            pool.run(|w| {
                let meeting = Meeting(AtomicUsize::new(2));
                spin(lead);
                w.join(|_| meeting.wait(), |_| meeting.wait());
            });
        }
        1 => pool.run(|_| {
            raddle::scope(|scope| {
                for _ in 1..count {
                    scope.spawn(|_| meeting.wait());
                }
                meeting.wait();
            });
        }),
        2 => {
            let tasks: Vec<_> = (1..count)
                .map(|_| {
                    let meeting = Arc::clone(&meeting);
                    pool.spawn(move || meeting.wait())
                })
                .collect();
            // Not by a worker, so one less may have to come.
            meeting.wait();
            for task in tasks {
                task.wait().expect("no panic");
            }
        }
        3 => pool.run(|w| {
            // Forks that need nobody before the one that does.
            let depth = random_depth(count);
            for _ in 0..depth {
                w.join(|_| (), |_| ());
            }
            meet(w, &meeting, count);
        }),
        _ => pool.run(|w| meet(w, &meeting, count)),
    }
}

fn random_depth(count: usize) -> usize {
    (count * 7) % 5
}

/// Runs for so many seconds and says how many regions there were. A region that hangs ends the program.
pub(crate) fn run(time: Duration, out: &mut impl io::Write) -> io::Result<()> {
    let done = Arc::new(AtomicU64::new(0));
    let watched = Arc::clone(&done);
    // Gone when this function has ended, however it does.
    let (_running, ended) = channel::<()>();
    thread::spawn(move || {
        let mut last = 0;
        while ended.recv_timeout(HANGS) == Err(RecvTimeoutError::Timeout) {
            let now = watched.load(Ordering::Relaxed);
            if now == last {
                eprintln!("a region hangs, after {now} that did not: a wake-up was lost");
                exit(1);
            }
            last = now;
        }
    });
    let pools: Vec<Pool> = [2, 3, 4, 6].map(|threads| Pool::new(threads).expect("a pool")).into();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let start = Instant::now();
    while start.elapsed() < time {
        // A few in a row, so that workers go from searching to sleep and back in every way.
        let pool = &pools[random.below(pools.len() as u64) as usize];
        for _ in 0..1 + random.below(64) {
            match random.below(16) {
                0 => thread::sleep(Duration::from_micros(50 + random.below(1_000))),
                1..=11 => spin(Duration::from_nanos(random.below(60_000))),
                _ => {}
            }
            region(pool, &mut random);
            done.fetch_add(1, Ordering::Relaxed);
        }
    }
    let regions = done.load(Ordering::Relaxed);
    writeln!(
        out,
        "{regions} regions in {:.0} s, none lost a wake-up",
        start.elapsed().as_secs_f64()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_of_stress() {
        let mut out = Vec::new();
        run(Duration::from_millis(200), &mut out).unwrap();
        assert!(String::from_utf8(out).unwrap().ends_with("none lost a wake-up\n"));
    }
}
