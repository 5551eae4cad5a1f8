//! What the parts cost that futures are made of: the allocations of an operation, and its atomic read-modify-writes.

use std::{
    hint::black_box,
    sync::{
        Arc,
        atomic::{
            AtomicUsize,
            Ordering::{AcqRel, Relaxed},
        },
    },
};

use super::{LINKS, ONE, Repeat, repeat, repeat_make};

/// A node: two words, and more.
struct Node<const MORE: usize> {
    state: AtomicUsize,
    before: Option<Box<Node<MORE>>>,
    _more: [usize; MORE],
}

/// That of a map whose closure takes no room has three words; that of a `flat_map` five.
const MAP: usize = 1;
const FLAT_MAP: usize = 3;

pub(super) fn operation(name: &str) -> Option<Repeat> {
    Some(match name {
        // The nodes of a promise and a map of it, which live at the same time: the one is attached to the other, and the map
        // is left by one of the two who have it.
        "createMap" => repeat_make!({
            let (root, node) = (Box::new((AtomicUsize::new(0), ONE)), Box::new(map()));
            attach(&root.0);
            attach(&node.state);
            (root, node)
        }),
        // The first to leave tells the other.
        "newPromise" => repeat_make!({
            let root = Box::new((AtomicUsize::new(0), ONE));
            attach(&root.0);
            root
        }),
        // Whoever shares a failure is counted, in and out.
        "exceptionShared" => |n| {
            let failure = Arc::new(std::fmt::Error);
            repeat_make!(Arc::clone(&failure))(n)
        },
        // One atomic read-modify-write.
        "mapSatisfied" => repeat!({
            let word = AtomicUsize::new(ONE as usize);
            black_box(&word).swap(0, AcqRel) as u64
        }),
        "setValue" => repeat!(nodes::<0, MAP>()),
        "mapPromise" | "ensurePromise" => repeat!(nodes::<1, MAP>()),
        "mapPromiseN" | "setValueN" | "ensurePromiseN" => {
            repeat!(nodes::<{ LINKS as usize }, MAP>())
        }
        "mapPromise10" => repeat!(nodes::<10, MAP>()),
        "mapPromise300" => repeat!(nodes::<300, MAP>()),
        "mapPromise1000" => repeat!(nodes::<1_000, MAP>()),
        "flatMapPromise" => repeat!(nodes::<1, FLAT_MAP>()),
        "flatMapPromiseN" => repeat!(nodes::<{ LINKS as usize }, FLAT_MAP>()),
        _ => return None,
    })
}

/// Makes the node of a promise and so many others, to each of which the next is attached by a read-modify-write, the last
/// of which is completed by one, and frees them one by one.
fn nodes<const COUNT: usize, const MORE: usize>() -> u64 {
    let root = Box::new((AtomicUsize::new(0), ONE));
    let mut last = None;
    for _ in 0..COUNT {
        let node = Node { state: AtomicUsize::new(0), before: last, _more: [0; MORE] };
        let node = Box::new(node);
        attach(node.before.as_ref().map_or(&root.0, |before| &before.state));
        last = Some(node);
    }
    attach(last.as_ref().map_or(&root.0, |last| &last.state));
    while let Some(node) = last {
        last = node.before;
    }
    root.1
}

fn map() -> Node<MAP> {
    Node { state: AtomicUsize::new(0), before: None, _more: [0; MAP] }
}

fn attach(state: &AtomicUsize) {
    let attached = black_box(state).compare_exchange(0, 1, AcqRel, Relaxed);
    assert!(attached.is_ok(), "nobody else attaches");
}
