//! Places in the source, numbered for events.

use std::cell::Cell;
use std::collections::HashMap;
use std::panic::Location;
use std::sync::{Mutex, MutexGuard};

/// Where users called: handed down to where it is recorded, at no cost where nothing is.
pub(crate) type Place = &'static Location<'static>;

/// The places that were seen, by all pools.
#[derive(Default)]
struct Places {
    numbers: Option<HashMap<usize, u16>>,
    list: Vec<Place>,
}

static PLACES: Mutex<Places> = Mutex::new(Places { numbers: None, list: Vec::new() });

/// Room for so many is made when recording begins, so that it allocates nothing later.
const ROOM: usize = 1024;
/// Places that a thread finds without a lock.
const NEAR: usize = 16;

thread_local! {
    static LAST: [Cell<(usize, u16)>; NEAR] = const { [const { Cell::new((0, 0)) }; NEAR] };
}

fn places() -> MutexGuard<'static, Places> {
    PLACES.lock().unwrap_or_else(|e| e.into_inner())
}

/// The number of a place, from 1 on; 0 if there are too many.
pub(super) fn number(place: Place) -> u16 {
    let address = std::ptr::from_ref(place) as usize;
    LAST.with(|last| {
        let near = &last[address / 8 % NEAR];
        let (known, number) = near.get();
        if known == address {
            return number;
        }
        let number = find(place, address);
        near.set((address, number));
        number
    })
}

fn find(place: Place, address: usize) -> u16 {
    let mut places = places();
    let next = places.list.len() + 1;
    let numbers = places.numbers.get_or_insert_default();
    if let Some(&number) = numbers.get(&address) {
        return number;
    }
    let number = u16::try_from(next).unwrap_or(0);
    numbers.insert(address, number);
    if number != 0 {
        places.list.push(place);
    }
    number
}

pub(super) fn reserve() {
    let mut places = places();
    places.list.reserve(ROOM);
    places.numbers.get_or_insert_default().reserve(ROOM);
}

/// All places from this one on, as traces name them.
pub(super) fn from(first: usize) -> Vec<String> {
    places().list.iter().skip(first).map(ToString::to_string).collect()
}
