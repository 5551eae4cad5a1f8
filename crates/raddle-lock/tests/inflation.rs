//! Locks that contention inflates are thin again afterwards. A test program of its own, because the
//! counters are the process's.

#![cfg(not(raddle_model))]

use raddle_lock::{Mutex, ObjectHeader, stats};

/// Ten million with `RADDLE_LOCK_MANY=10000000`.
fn many() -> usize {
    std::env::var("RADDLE_LOCK_MANY").ok().and_then(|n| n.parse().ok()).unwrap_or(if cfg!(miri) {
        10
    } else {
        2_000
    })
}

fn resident_bytes() -> Option<usize> {
    if cfg!(miri) {
        return None; // That would be Miri's own memory.
    }
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(statm.split_whitespace().nth(1)?.parse::<usize>().ok()? * 4096)
}

const HEADERS: u64 = if cfg!(miri) { 4 } else { 50 };
const LEVELS: usize = 3;
/// Nests that a strand holds without an entry for each.
const NESTS: u64 = 2;

#[test]
fn locks_inflated_once_by_contention_deflate() {
    let before = stats();
    let mutexes: Vec<Mutex<u32>> = (0..many()).map(|_| Mutex::new(0)).collect();
    let memory = resident_bytes();
    std::thread::scope(|s| {
        // Each is held until the other sleeps for it, so that each is inflated; and the next one is taken
        // before that, so that the other does not get past it.
        let mut held = mutexes[0].lock();
        let parks = stats().parks;
        s.spawn(|| mutexes.iter().for_each(|mutex| *mutex.lock() += 1));
        for (sleeps, next) in (1..).zip(&mutexes[1..]) {
            let next = next.lock();
            while stats().parks < parks + sleeps {
                std::hint::spin_loop();
            }
            held = next; // releases the last one
        }
        drop(held);
    });
    let after = stats();
    assert!(after.inflations - before.inflations >= many() as u64 - 1);
    assert_eq!(after.fat_live, before.fat_live, "{after:?}");
    if let (Some(before), Some(after)) = (memory, resident_bytes()) {
        let grown = after.saturating_sub(before);
        assert!(grown < 8 << 20, "{grown} bytes more for locks that are thin");
    }
    assert!(mutexes.iter_mut_all_one());

    // What is held counts, and what is dropped does not.
    let headers: Vec<ObjectHeader> = (0..HEADERS).map(|_| ObjectHeader::new()).collect();
    let guards: Vec<_> = headers.iter().flat_map(|h| (0..LEVELS).map(|_| h.lock())).collect();
    assert_eq!(stats().fat_live, after.fat_live + HEADERS - NESTS);
    drop(guards);
    assert_eq!(stats().fat_live, after.fat_live);

    // A hashed lock that is locked again and again stays fat, until it is dropped.
    for header in &headers {
        header.identity_hash();
        for _ in 0..10 {
            drop(header.lock());
        }
        assert!(header.is_fat() && !header.is_locked());
    }
    assert_eq!(stats().fat_live, after.fat_live + HEADERS);
    drop(headers);
    assert_eq!(stats().fat_live, after.fat_live);
}

trait AllOne {
    fn iter_mut_all_one(self) -> bool;
}

impl AllOne for Vec<Mutex<u32>> {
    fn iter_mut_all_one(mut self) -> bool {
        self.iter_mut().all(|mutex| *mutex.get_mut() == 1)
    }
}
