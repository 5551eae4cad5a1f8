//! The uncontended pair where it is not alone: in stolen work, with a strand of its own, beside another hold.

use super::{
    each,
    peers::{Fat, Lock, Mutex, ParkingLot, Std},
};
use crate::{args::Settings, harness::Contender};
use raddle_sync::strand;

pub(super) const STOLEN: &str = "lock and unlock, in stolen work";
pub(super) const FRESH: &str = "lock and unlock, each on a strand of its own";
pub(super) const BESIDE: &str = "lock and unlock, beside a fat hold";
pub(super) const THIRD: &str = "lock and unlock, beside two other holds";

/// Those that know no strands have nothing to enter, and hold locks of their own kind.
pub(super) fn rows(settings: &Settings) -> Vec<Contender> {
    let times = settings.size(2_000_000, 1_000);
    fn others<L: Lock>(times: u32) -> Vec<Contender> {
        let row = |section, holds: usize| {
            let (lock, held) = (L::make(), [L::make(), L::make()]);
            Contender::new(section, L::NAME, move || {
                let _held: Vec<_> = held[..holds].iter().map(L::take).collect();
                each(times, || drop(lock.take()))
            })
        };
        vec![row(STOLEN, 0), row(FRESH, 0), row(BESIDE, 1), row(THIRD, 2)]
    }
    let mut all = vec![
        Contender::new(STOLEN, Mutex::NAME, move || {
            let (lock, outer) = (Mutex::make(), Mutex::make());
            let _beneath = outer.take();
            let _foreign = strand::enter_foreign();
            each(times, || drop(lock.take()))
        }),
        Contender::new(FRESH, Mutex::NAME, move || {
            let lock = Mutex::make();
            each(times, || {
                let _foreign = strand::enter_foreign();
                drop(lock.take());
            })
        }),
        Contender::new(BESIDE, Mutex::NAME, move || {
            let (lock, fat) = (Mutex::make(), Fat::make());
            let _held = fat.take();
            each(times, || drop(lock.take()))
        }),
        Contender::new(THIRD, Mutex::NAME, move || {
            let (lock, held) = (Mutex::make(), [Mutex::make(), Mutex::make()]);
            let _held = held.each_ref().map(Mutex::take);
            each(times, || drop(lock.take()))
        }),
    ];
    all.extend(others::<ParkingLot>(times));
    all.extend(others::<Std>(times));
    all
}
