//! Closures that panic: the panic comes out, and each value is dropped once.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once};

use raddle_core::{Pool, par};

/// Counts how many of it there are, and notices when one is dropped twice.
struct Counted {
    value: usize,
    alive: Arc<AtomicIsize>,
    /// Freed when dropped: so a second drop is one of the allocator's errors, too.
    _heap: Box<usize>,
}

impl Counted {
    fn new(value: usize, alive: &Arc<AtomicIsize>) -> Counted {
        alive.fetch_add(1, Ordering::Relaxed);
        Counted { value, alive: Arc::clone(alive), _heap: Box::new(value) }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Calls `check` on pools of several sizes, and keeps the panics that it expects to itself.
fn on_pools(check: impl Fn() + Sync) {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let loud = take_hook();
        set_hook(Box::new(move |info| {
            if info.payload().downcast_ref() != Some(&"expected") {
                loud(info);
            }
        }));
    });
    for threads in [1, 2, 8] {
        Pool::new(threads).expect("a pool").run(|_| check());
    }
}

/// Panics at the call of this number.
struct Trap {
    calls: AtomicUsize,
    at: usize,
}

impl Trap {
    fn new(at: usize) -> Trap {
        Trap { calls: AtomicUsize::new(0), at }
    }

    fn step(&self) {
        if self.calls.fetch_add(1, Ordering::Relaxed) == self.at {
            std::panic::panic_any("expected");
        }
    }
}

/// Whether the call panicked with what a trap panics with.
fn is_trapped<R>(call: impl FnOnce() -> R) -> bool {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => {
            drop(result);
            false
        }
        Err(payload) => {
            assert_eq!(payload.downcast_ref(), Some(&"expected"));
            true
        }
    }
}

/// Every place for a while, then some.
fn places(calls: usize) -> impl Iterator<Item = usize> {
    (0..calls).filter(move |&at| at < 40 || at % (calls / 40 + 1) == 0 || at + 3 > calls)
}

#[test]
fn results_are_dropped_once_wherever_a_loop_panics() {
    const COUNT: usize = 300;
    on_pools(|| {
        for at in places(COUNT) {
            let alive = Arc::new(AtomicIsize::new(0));
            let new = |value| Counted::new(value, &alive);
            let trap = Trap::new(at);
            assert!(is_trapped(|| {
                par::map_collect(0..COUNT, |i| {
                    trap.step();
                    new(i)
                })
            }));
            assert_eq!(alive.load(Ordering::Relaxed), 0, "map_collect");
            let trap = Trap::new(at);
            assert!(is_trapped(|| {
                par::filter_map(0..COUNT, |i| {
                    trap.step();
                    (i % 3 > 0).then(|| new(i))
                })
            }));
            assert_eq!(alive.load(Ordering::Relaxed), 0, "filter_map");
            for reduces in [false, true] {
                let trap = Trap::new(at);
                assert!(is_trapped(|| {
                    let step = |here: bool| _ = here.then(|| trap.step());
                    let map = |i| {
                        step(!reduces);
                        new(i)
                    };
                    par::map_reduce(
                        0..COUNT,
                        || new(0),
                        map,
                        |a, b| {
                            step(reduces);
                            new(a.value + b.value)
                        },
                    )
                }));
                assert_eq!(alive.load(Ordering::Relaxed), 0, "map_reduce");
            }
        }
    });
}

#[test]
fn a_loop_that_panics_leaves_its_slice_whole() {
    const COUNT: usize = 300;
    on_pools(|| {
        for at in places(COUNT / 7) {
            let alive = Arc::new(AtomicIsize::new(0));
            let mut data: Vec<Counted> = (0..COUNT).map(|i| Counted::new(i, &alive)).collect();
            let trap = Trap::new(at);
            let replace = |one: &mut Counted| {
                trap.step();
                *one = Counted::new(one.value, &alive);
            };
            assert!(is_trapped(|| par::for_each(&mut data, replace)));
            assert!(data.iter().map(|one| one.value).eq(0..COUNT));
            let trap = Trap::new(at);
            assert!(is_trapped(|| par::chunks_mut(&mut data, 7, |chunk| {
                trap.step();
                chunk.reverse();
            })));
            assert_eq!(alive.load(Ordering::Relaxed), COUNT as isize);
            drop(data);
            assert_eq!(alive.load(Ordering::Relaxed), 0);
        }
    });
}

#[test]
fn scans_that_panic_drop_each_once() {
    const COUNT: usize = 1_000;
    on_pools(|| {
        for at in places(COUNT - 1) {
            let alive = Arc::new(AtomicIsize::new(0));
            for exclusive in [false, true] {
                let mut data: Vec<Counted> = (0..COUNT).map(|i| Counted::new(i, &alive)).collect();
                let trap = Trap::new(at);
                let op = |a: &Counted, b: &Counted| {
                    trap.step();
                    Counted::new(a.value + b.value, &alive)
                };
                assert!(is_trapped(|| {
                    if exclusive {
                        drop(par::exclusive_scan(&mut data, Counted::new(0, &alive), op));
                    } else {
                        par::inclusive_scan(&mut data, op);
                    }
                }));
                assert_eq!(alive.load(Ordering::Relaxed), COUNT as isize);
                drop(data);
                assert_eq!(alive.load(Ordering::Relaxed), 0);
            }
        }
    });
}

/// A value whose drop may panic.
struct Falling<'a> {
    counted: Counted,
    trap: &'a Trap,
}

impl Drop for Falling<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.trap.step();
        }
    }
}

#[test]
fn scans_drop_each_once_also_where_a_drop_panics() {
    const COUNT: usize = 1_000;
    on_pools(|| {
        for at in places(3 * COUNT) {
            let alive = Arc::new(AtomicIsize::new(0));
            let trap = Trap::new(at);
            let new = |i| Falling { counted: Counted::new(i, &alive), trap: &trap };
            let op = |a: &Falling<'_>, b: &Falling<'_>| new(a.counted.value + b.counted.value);
            for exclusive in [false, true] {
                is_trapped(|| {
                    let mut data: Vec<Falling<'_>> = (0..COUNT).map(new).collect();
                    if exclusive {
                        drop(par::exclusive_scan(&mut data, new(0), op));
                    } else {
                        par::inclusive_scan(&mut data, op);
                    }
                });
                assert_eq!(alive.load(Ordering::Relaxed), 0, "at {at}, exclusive: {exclusive}");
                trap.calls.store(0, Ordering::Relaxed);
            }
        }
    });
}

#[test]
fn results_are_dropped_where_the_drop_of_a_closure_panics() {
    const COUNT: usize = 1_000;
    on_pools(|| {
        let alive = Arc::new(AtomicIsize::new(0));
        let new = |i| Counted::new(i, &alive);
        let check = |call: &dyn Fn(Falling<'_>)| {
            let trap = Trap::new(0);
            assert!(is_trapped(|| call(Falling { counted: new(0), trap: &trap })));
            assert_eq!(alive.load(Ordering::Relaxed), 0);
        };
        check(&|held| {
            drop(par::map_collect(0..COUNT, move |i| {
                let _held = &held;
                new(i)
            }));
        });
        check(&|held| {
            drop(par::filter_map(0..COUNT, move |i| {
                let _held = &held;
                Some(new(i))
            }));
        });
        check(&|held| {
            let sum = |a: Counted, b: Counted| new(a.value + b.value);
            let zero = move || {
                let _held = &held;
                new(0)
            };
            drop(par::map_reduce(0..COUNT, zero, new, sum));
        });
        check(&|held| {
            let mut data: Vec<Counted> = (0..COUNT).map(new).collect();
            let op = move |a: &Counted, b: &Counted| {
                let _held = &held;
                new(a.value + b.value)
            };
            drop(par::exclusive_scan(&mut data, new(0), op));
        });
    });
}

#[test]
fn sorts_that_panic_keep_each_element_once() {
    const COUNT: usize = 6_000;
    // How often a sort compares, about, at the least.
    const CALLS: usize = 40_000;
    on_pools(|| {
        for at in places(CALLS) {
            for stable in [true, false] {
                let alive = Arc::new(AtomicIsize::new(0));
                let new = |i: usize| Counted::new(i * 7_919 % COUNT, &alive);
                let mut data: Vec<Counted> = (0..COUNT).map(new).collect();
                let trap = Trap::new(at);
                let compare = |a: &Counted, b: &Counted| {
                    trap.step();
                    match a.value.cmp(&b.value) {
                        Less => Less,
                        Equal => Equal,
                        Greater => Greater,
                    }
                };
                assert!(is_trapped(|| {
                    let sort = if stable { par::sort_by } else { par::sort_unstable_by };
                    sort(&mut data, compare);
                }));
                assert_eq!(alive.load(Ordering::Relaxed), COUNT as isize);
                data.sort_unstable_by_key(|one| one.value);
                assert!(data.iter().map(|one| one.value).eq(0..COUNT));
                drop(data);
                assert_eq!(alive.load(Ordering::Relaxed), 0);
            }
        }
    });
}

#[test]
fn elements_that_are_compared_may_change() {
    // What a comparison has done to an element is there afterwards, wherever that has gone.
    struct Noted {
        value: usize,
        compared: Mutex<usize>,
    }
    const COUNT: usize = 6_000;
    on_pools(|| {
        for at in [usize::MAX, 20_000, 39_000, 50_000, 60_000, 62_000] {
            let new = |i: usize| Noted { value: i * 7_919 % COUNT, compared: Mutex::new(0) };
            let mut data: Vec<Noted> = (0..COUNT).map(new).collect();
            let trap = Trap::new(at);
            let trapped = is_trapped(|| {
                par::sort_by(&mut data, |a, b| {
                    trap.step();
                    *a.compared.lock().expect("no panic") += 1;
                    *b.compared.lock().expect("no panic") += 1;
                    a.value.cmp(&b.value)
                });
            });
            let noted: usize = data.iter().map(|one| *one.compared.lock().expect("no panic")).sum();
            // After a panic the comparisons of other threads may have gone on.
            let calls = trap.calls.into_inner() - usize::from(trapped);
            assert_eq!(noted, 2 * calls);
        }
    });
}
