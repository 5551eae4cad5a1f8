//! Workers that are smuggled past the forks they belong to.

use std::any::Any;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use raddle_core::{Waits, Worker};

use super::*;

scoped_tls::scoped_thread_local!(static OUTER: Worker);
scoped_tls::scoped_thread_local!(static DEEP: Worker);

/// Thieves that hold on to what they stole, and a second half that must not run twice.
#[derive(Default)]
struct Smuggle {
    stolen: AtomicUsize,
    release: AtomicBool,
    runs: AtomicUsize,
    drops: AtomicUsize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

struct Owned<'a>(&'a Smuggle);

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        self.0.drops.fetch_add(1, Ordering::SeqCst);
    }
}

impl Smuggle {
    fn thief(&self) {
        self.stolen.fetch_add(1, Ordering::SeqCst);
        until(&self.release);
    }

    /// So many forks, one in the other, all stolen; then `then` in the innermost.
    fn below(&self, worker: &Worker, forks: usize, then: &(dyn Fn(&Worker) + Sync)) {
        if forks == 0 {
            return then(worker);
        }
        let next = self.stolen.load(Ordering::SeqCst) + 1;
        worker.join(
            |worker| {
                while self.stolen.load(Ordering::SeqCst) < next {
                    thread::yield_now();
                }
                self.below(worker, forks - 1, then);
            },
            |_| self.thief(),
        );
    }

    /// A fork whose second half is long there for a thief, and owns something.
    fn fork(&self, worker: &Worker) {
        let owned = Owned(self);
        worker.join(
            |_| {
                // Whether one comes is open: time for it is all that there is.
                thread::sleep(std::time::Duration::from_millis(20));
                // Whoever joins what is not its own waits for those that stole it.
                raise(&self.release);
            },
            move |_| {
                self.runs.fetch_add(1, Ordering::SeqCst);
                drop(owned);
            },
        );
    }

    fn caught(&self, f: impl FnOnce()) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
            *self.panic.lock().unwrap() = Some(payload);
        }
    }
}

/// What is done with the worker from further out, and with the one further down, where `forks` have been stolen.
type Misuse = fn(&Smuggle, &Worker);

const MISUSES: [(&str, Misuse); 4] = [
    ("a fork of the outer one", |all, _| OUTER.with(|outer| all.fork(outer))),
    ("a fork of the inner one, in one of the outer one", |all, inner| {
        DEEP.set(inner, || {
            OUTER.with(|outer| {
                // Sent nowhere: the first half stays on this thread.
                outer.join(|_| DEEP.with(|deep| all.fork(deep)), |_| ());
            });
        });
    }),
    ("a fork of the outer one, in one of the inner one", |all, inner| {
        inner.join(|_| OUTER.with(|outer| all.fork(outer)), |_| ());
    }),
    ("many in turn", |all, inner| {
        raise(&all.release);
        DEEP.set(inner, || {
            OUTER.with(|outer| {
                for _ in 0..3 {
                    outer.join(
                        |_| {
                            DEEP.with(|deep| {
                                deep.join(
                                    |_| OUTER.with(|outer| outer.join(|_| (), |_| ())),
                                    |_| (),
                                )
                            })
                        },
                        |_| (),
                    );
                }
                all.fork(outer);
            });
        });
    }),
];

#[test]
fn a_smuggled_worker_runs_nothing_twice() {
    for waits in [Waits::Substitute, Waits::Host] {
        runs_nothing_twice(waits);
    }
}

fn runs_nothing_twice(waits: Waits) {
    for (name, misuse) in MISUSES {
        for forks in 0..=3 {
            ends(name, move || {
                let pool = Pool::builder().threads(5).waits(waits).build().unwrap();
                let all = Smuggle::default();
                pool.run(|worker| {
                    OUTER.set(worker, || {
                        all.below(worker, forks, &|inner| {
                            all.caught(|| misuse(&all, inner));
                            raise(&all.release);
                        });
                    });
                });
                let (runs, drops) = (all.runs.into_inner(), all.drops.into_inner());
                assert!(runs <= 1 && drops <= 1, "{name}, {forks}: {runs} runs, {drops} drops");
                match all.panic.into_inner().unwrap() {
                    Some(payload) => {
                        let text = payload.downcast_ref::<&str>().copied().unwrap_or_default();
                        assert!(text.contains("unfinished join"), "{name}, {forks}: {text}");
                    }
                    None => assert_eq!((runs, drops), (1, 1), "{name}, {forks}"),
                }
                assert_eq!(pool.run(|worker| worker.join(|_| 1, |_| 2)), (1, 2));
            });
        }
    }
}
