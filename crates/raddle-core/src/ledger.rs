//! The memory of nodes under models: freed in name only until the execution is over, so that a use after the
//! free is told apart, and counted, so that a leak is.
//!
//! All threads of a model run on one thread of the system, which is why the book is kept there and its
//! entries are no steps of the model's.

use std::alloc::{Layout, dealloc};
use std::cell::RefCell;
use std::ptr::NonNull;

struct Entry {
    node: NonNull<u8>,
    layout: Layout,
    of: &'static str,
    live: bool,
}

thread_local! {
    static BOOK: RefCell<Vec<Entry>> = const { RefCell::new(Vec::new()) };
}

/// How to free a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Class(unsafe fn(NonNull<u8>));

/// Every node has one, also where there seems to be something to drop: that is what watches its use, and takes no room
/// but in models.
pub(crate) const fn class_of<N>() -> Option<Class> {
    // SAFETY: contract of `free_of`.
    Some(Class(|node| unsafe { free(node.cast::<N>()) }))
}

/// Frees a node of this class.
///
/// # Safety
///
/// From `allocate`, once.
pub(crate) unsafe fn free_of(node: NonNull<u8>, class: Class) {
    // SAFETY: contract.
    unsafe { (class.0)(node) };
}

pub(crate) fn allocate<N>(node: N) -> NonNull<N> {
    let place = reserve::<N>();
    // SAFETY: just made.
    unsafe { place.write(node) };
    place
}

/// Memory for a node, to be written.
pub(crate) fn reserve<N>() -> NonNull<N> {
    let place = NonNull::from(Box::leak(Box::<N>::new_uninit())).cast();
    let entry = Entry {
        node: place.cast(),
        layout: Layout::new::<N>(),
        of: std::any::type_name::<N>(),
        live: true,
    };
    BOOK.with_borrow_mut(|book| book.push(entry));
    place
}

/// Drops a node, but not what its slot holds.
///
/// # Safety
///
/// From `allocate`, once.
pub(crate) unsafe fn free<N>(node: NonNull<N>) {
    BOOK.with_borrow_mut(|book| {
        let entry = book.iter_mut().find(|entry| entry.node == node.cast());
        let entry = entry.expect("it was allocated in this execution");
        assert!(entry.live, "freed twice: {}", entry.of);
        assert_eq!(entry.layout, Layout::new::<N>(), "freed as another: {}", entry.of);
        entry.live = false;
    });
    // SAFETY: contract; the memory stays.
    unsafe { node.drop_in_place() };
}

/// At the beginning of an execution: forgets one that failed.
pub(crate) fn open() {
    BOOK.take();
}

/// At the end of an execution, when all its threads have been joined: all nodes are freed.
#[track_caller]
pub(crate) fn close() {
    let book = BOOK.take();
    let leaked: Vec<_> = book.iter().filter(|entry| entry.live).map(|entry| entry.of).collect();
    assert!(leaked.is_empty(), "not freed: {leaked:?}");
    for Entry { node, layout, .. } in book {
        // SAFETY: leaked from a box in `allocate`, and what was in it has been dropped, or is leaked.
        unsafe { dealloc(node.as_ptr(), layout) };
    }
}
