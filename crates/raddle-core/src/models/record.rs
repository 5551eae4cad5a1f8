//! A ring of events: its writer against a reader.

use std::sync::Arc;

use loom::thread;

use crate::models::{Tally, check};
use crate::record::{Copy, Record};

/// Writes events 0 to `count`, while another thread takes a copy.
fn copy_meanwhile(overwrite: bool, count: u64) -> (Copy, Arc<Record>) {
    let record = Arc::new(Record::new(2, overwrite).unwrap());
    let reader = thread::spawn({
        let record = Arc::clone(&record);
        move || record.copy()
    });
    (0..count).for_each(|n| record.push([n, n + 100]));
    (reader.join().unwrap(), record)
}

fn assert_whole(copy: &Copy) {
    for (number, event) in (copy.first..).zip(&copy.events) {
        assert_eq!(*event, [number, number + 100]);
    }
}

/// Whatever the reader copies is whole and in order, while the ring goes round once and a half.
#[test]
fn a_copy_is_whole() {
    let (some, overtaken) = (Tally::default(), Tally::default());
    let (seen, lost) = (some.clone(), overtaken.clone());
    check(3, move || {
        let (copy, record) = copy_meanwhile(true, 3);
        assert_whole(&copy);
        if !copy.events.is_empty() {
            some.add();
        } else if copy.first > 0 {
            overtaken.add();
        }
        assert_eq!(record.copy().events, [[2, 102]]);
    });
    assert!(seen.count() > 0 && lost.count() > 0, "both ends of the race were explored");
}

/// A ring that keeps its oldest never changes what a reader has seen.
#[test]
fn what_is_kept_stays() {
    let some = Tally::default();
    let seen = some.clone();
    check(3, move || {
        let (copy, record) = copy_meanwhile(false, 3);
        assert_eq!(copy.first, 0);
        assert_whole(&copy);
        if copy.events.len() == 1 {
            some.add();
        }
        let copy = record.copy();
        assert_eq!((copy.events.len(), copy.refused), (2, 1));
    });
    assert!(seen.count() > 0, "the race was explored");
}
