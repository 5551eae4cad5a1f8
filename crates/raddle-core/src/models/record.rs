//! A ring of events: its writer against a reader.

use std::sync::Arc;

use loom::thread;

use crate::models::check;
use crate::record::Record;

/// Whatever the reader copies is whole and in order, while the ring goes round once and a half.
#[test]
fn a_copy_is_whole() {
    check(3, || {
        let record = Arc::new(Record::new(2, true));
        let writer = thread::spawn({
            let record = Arc::clone(&record);
            move || (0..4).for_each(|n| record.push([n, n + 100]))
        });
        let copy = record.copy();
        for (offset, event) in copy.events.iter().enumerate() {
            let number = copy.first + offset as u64;
            assert_eq!(*event, [number, number + 100]);
        }
        writer.join().unwrap();
        assert_eq!(record.copy().events, [[3, 103]]);
    });
}

/// A ring that keeps its oldest never changes what a reader has seen.
#[test]
fn what_is_kept_stays() {
    check(3, || {
        let record = Arc::new(Record::new(2, false));
        let writer = thread::spawn({
            let record = Arc::clone(&record);
            move || (0..3).for_each(|n| record.push([n, n + 100]))
        });
        let copy = record.copy();
        assert_eq!(copy.first, 0);
        for (number, event) in (0..).zip(&copy.events) {
            assert_eq!(*event, [number, number + 100]);
        }
        writer.join().unwrap();
        let copy = record.copy();
        assert_eq!((copy.events.len(), copy.refused), (2, 1));
    });
}
