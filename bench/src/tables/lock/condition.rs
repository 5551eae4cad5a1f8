//! Two threads that wait for each other's notifications in turn.

use std::{cell::Cell, sync::PoisonError, thread, time::Instant};

use raddle::lock;

/// Something with a number, that can be waited for.
pub(super) trait Turn: Sync + Default {
    const NAME: &str;
    /// Waits until the number is `turn`, makes it one more, and notifies.
    fn pass(&self, turn: u32);
}

/// Microseconds for there and back.
pub(super) fn ping_pong<T: Turn>(rounds: u32) -> f64 {
    let turn = T::default();
    let play = |parity| (parity..2 * rounds).step_by(2).for_each(|round| turn.pass(round));
    thread::scope(|s| {
        let other = s.spawn(|| play(1));
        let start = Instant::now();
        play(0);
        other.join().expect("no panic");
        start.elapsed().as_nanos() as f64 / 1e3 / f64::from(rounds)
    })
}

#[derive(Default)]
pub(super) struct Raddle(lock::Mutex<u32>, lock::Condvar);

impl Turn for Raddle {
    const NAME: &str = "raddle";

    fn pass(&self, turn: u32) {
        let mut number = self.0.lock();
        self.1.wait_while(&mut number, |number| *number != turn);
        *number += 1;
        self.1.notify_one();
    }
}

/// The header's own condition; the number lies in a lock that only this one protects from contention.
#[derive(Default)]
pub(super) struct Header(lock::ObjectHeader, lock::ReentrantLock<Cell<u32>>);

impl Turn for Header {
    const NAME: &str = "raddle ObjectHeader";

    fn pass(&self, turn: u32) {
        let mut guard = self.0.lock();
        while self.1.lock().get() != turn {
            self.0.wait(&mut guard);
        }
        self.1.lock().set(turn + 1);
        self.0.notify_one();
    }
}

#[derive(Default)]
pub(super) struct ParkingLot(parking_lot::Mutex<u32>, parking_lot::Condvar);

impl Turn for ParkingLot {
    const NAME: &str = "parking_lot";

    fn pass(&self, turn: u32) {
        let mut number = self.0.lock();
        self.1.wait_while(&mut number, |number| *number != turn);
        *number += 1;
        self.1.notify_one();
    }
}

#[derive(Default)]
pub(super) struct Std(std::sync::Mutex<u32>, std::sync::Condvar);

impl Turn for Std {
    const NAME: &str = "std";

    fn pass(&self, turn: u32) {
        let number = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = self.1.wait_while(number, |number| *number != turn);
        *number.unwrap_or_else(PoisonError::into_inner) += 1;
        self.1.notify_one();
    }
}
