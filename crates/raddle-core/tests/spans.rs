//! Spans of `tracing` follow tasks.

#![cfg(feature = "tracing")]

use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;

use raddle_core::{Pool, Promise, Snapshot, join, scope, spawn};
use tracing::subscriber::{DefaultGuard, with_default};
use tracing::{Dispatch, Span, info_span};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

/// Parents of spans, and which spans are open.
#[derive(Clone, Default)]
struct Record(Arc<Mutex<Recorded>>);

#[derive(Default)]
struct Recorded {
    parents: Vec<(&'static str, Option<&'static str>)>,
    open: Vec<&'static str>,
    /// How often it was entered, less how often it was left.
    inside: std::collections::BTreeMap<&'static str, i32>,
}

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Record {
    fn on_new_span(
        &self,
        _: &tracing::span::Attributes<'_>,
        id: &tracing::span::Id,
        ctx: Context<'_, S>,
    ) {
        let span = ctx.span(id).unwrap();
        let mut recorded = self.0.lock().unwrap();
        recorded.parents.push((span.name(), span.parent().map(|parent| parent.name())));
        recorded.open.push(span.name());
    }

    fn on_enter(&self, id: &tracing::span::Id, ctx: Context<'_, S>) {
        *self.0.lock().unwrap().inside.entry(ctx.span(id).unwrap().name()).or_default() += 1;
    }

    fn on_exit(&self, id: &tracing::span::Id, ctx: Context<'_, S>) {
        *self.0.lock().unwrap().inside.entry(ctx.span(id).unwrap().name()).or_default() -= 1;
    }

    fn on_close(&self, id: tracing::span::Id, ctx: Context<'_, S>) {
        let name = ctx.span(&id).unwrap().name();
        let mut recorded = self.0.lock().unwrap();
        let at = recorded.open.iter().position(|open| *open == name).unwrap();
        recorded.open.remove(at);
    }
}

impl Record {
    fn new() -> (Record, Dispatch) {
        let record = Record::default();
        let subscriber = Dispatch::new(Registry::default().with(record.clone()));
        (record, subscriber)
    }

    /// The parents of the spans of that name.
    fn parents(&self, name: &str) -> Vec<Option<&'static str>> {
        let recorded = self.0.lock().unwrap();
        recorded.parents.iter().filter(|(n, _)| *n == name).map(|(_, parent)| *parent).collect()
    }

    /// Every span was left as often as it was entered, and all are closed.
    fn is_over(&self) -> bool {
        let recorded = self.0.lock().unwrap();
        recorded.inside.values().all(|n| *n == 0) && recorded.open.is_empty()
    }
}

fn set(subscriber: &Dispatch) -> DefaultGuard {
    tracing::dispatcher::set_default(subscriber)
}

#[test]
fn stolen_forks_are_in_the_span_that_forked_them() {
    let (record, subscriber) = Record::new();
    let _subscriber = set(&subscriber);
    let pool = Pool::new(2).unwrap();
    let both = Barrier::new(2);
    let meet = |name: &'static str| {
        both.wait();
        match name {
            "a" => info_span!("a").in_scope(|| ()),
            _ => info_span!("b").in_scope(|| ()),
        }
    };
    info_span!("outside").in_scope(|| {
        pool.run(|worker| {
            info_span!("fork").in_scope(|| worker.join(|_| meet("a"), |_| meet("b")));
            info_span!("fork").in_scope(|| join(|| meet("a"), || meet("b")));
            // What the first half enters meanwhile is not the second half's.
            worker.join(|_| info_span!("other").in_scope(|| meet("a")), |_| meet("b"));
        });
    });
    assert_eq!(record.parents("a"), [Some("fork"), Some("fork"), Some("other")]);
    assert_eq!(record.parents("b"), [Some("fork"), Some("fork"), Some("outside")]);
    assert_eq!(record.parents("fork"), [Some("outside"); 2]);
    drop(pool);
    assert!(record.is_over());
}

#[test]
fn tasks_and_continuations_are_in_the_span_that_made_them() {
    let (record, subscriber) = Record::new();
    let _subscriber = set(&subscriber);
    let pool = Pool::new(2).unwrap();
    let inner = || info_span!("inner").in_scope(|| ());
    let on_thread = pool.run(|_| {
        info_span!("scope").in_scope(|| {
            scope(|s| {
                s.spawn(move |_| inner());
                info_span!("later").in_scope(|| s.spawn(move |s| s.spawn(move |_| inner())));
            });
        });
        info_span!("spawn").in_scope(|| {
            spawn(move || spawn(inner).wait().unwrap()).wait().unwrap();
        });
        let (promise, future) = Promise::new();
        let mapped = info_span!("map").in_scope(|| future.map(move |()| inner()));
        let chained = info_span!("chain").in_scope(|| mapped.flat_map(move |()| spawn(inner)));
        info_span!("completes").in_scope(|| promise.set(()));
        chained.wait().unwrap();
        let snapshot = info_span!("snapshot").in_scope(Snapshot::capture);
        thread::spawn(move || snapshot.run(inner))
    });
    on_thread.join().unwrap();
    let mut parents = record.parents("inner");
    parents.sort();
    let expected = ["chain", "later", "map", "scope", "snapshot", "spawn"].map(Some);
    assert_eq!(parents, expected);
    drop(pool);
    assert!(record.is_over());
}

#[test]
fn who_waits_keeps_his_span_to_himself() {
    let (record, subscriber) = Record::new();
    let _subscriber = set(&subscriber);
    let pool = Pool::new(1).unwrap();
    let (release, released) = mpsc::channel::<()>();
    let (started, start) = mpsc::channel();
    let busy = pool.spawn(move || {
        started.send(()).unwrap();
        released.recv().unwrap_err();
    });
    start.recv().unwrap();
    let task = || info_span!("task").in_scope(|| ());
    pool.run(|_| {
        let alone = spawn(task);
        let within = info_span!("maker").in_scope(|| spawn(task));
        let (promise, future) = Promise::new();
        let attached = future.map(move |()| info_span!("continuation").in_scope(|| ()));
        info_span!("waits").in_scope(|| {
            info_span!("deeper").in_scope(|| {
                // Run here: the only thread is busy.
                alone.wait().unwrap();
                within.wait().unwrap();
                promise.set(());
                attached.wait().unwrap();
                info_span!("own").in_scope(|| ());
            });
            scope(|_| ());
            info_span!("own").in_scope(|| ());
        });
        info_span!("own").in_scope(|| ());
    });
    assert_eq!(record.parents("task"), [None, Some("maker")]);
    assert_eq!(record.parents("continuation"), [None]);
    assert_eq!(record.parents("own"), [Some("deeper"), Some("waits"), None]);
    drop(release);
    busy.wait().unwrap();
    drop(pool);
    assert!(record.is_over());
}

/// A subscriber that comes while forks are under way, and one that is not everybody's.
#[test]
fn subscribers_may_come_late_and_follow_too() {
    let pool = Pool::new(2).unwrap();
    let both = Barrier::new(2);
    let (record, seen) = pool.run(|worker| {
        let (record, subscriber) = Record::new();
        let (_, seen) = tracing::dispatcher::with_default(&subscriber, || {
            let span = info_span!("late");
            let _inside = span.enter();
            worker.join(
                |_| both.wait(),
                |_| {
                    both.wait();
                    info_span!("b").in_scope(|| Span::current().id())
                },
            )
        });
        (record, seen)
    });
    assert!(seen.is_some());
    assert_eq!(record.parents("b"), [Some("late")]);
    drop(pool);
    assert!(record.is_over());
}

#[test]
fn panics_leave_no_span_behind() {
    let (record, subscriber) = Record::new();
    let _subscriber = set(&subscriber);
    let pool = Pool::new(2).unwrap();
    let both = Barrier::new(2);
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        pool.run(|worker| {
            info_span!("fork").in_scope(|| {
                worker.join(
                    |_| both.wait(),
                    |_| {
                        both.wait();
                        info_span!("b").in_scope(|| std::panic::resume_unwind(Box::new("b")))
                    },
                )
            })
        })
    }));
    assert!(caught.is_err());
    let task = info_span!("spawn").in_scope(|| pool.spawn(|| -> () { panic!("in the task") }));
    assert!(task.wait().is_err());
    pool.run(|worker| worker.join(|_| (), |_| ()));
    assert_eq!(record.parents("b"), [Some("fork")]);
    drop(pool);
    assert!(record.is_over());
}

/// Deep and wide, with steals at random: each span's parent is that of its fork.
#[test]
fn trees_of_spans_are_those_of_their_forks() {
    fn tree(worker: &raddle_core::Worker, depth: u32) -> u32 {
        let span = info_span!("node", depth);
        let _inside = span.enter();
        if depth == 0 {
            return 1;
        }
        let (a, b) = worker.join(|w| tree(w, depth - 1), |w| tree(w, depth - 1));
        a + b
    }

    /// Checks that the parent of a node is the node one higher.
    #[derive(Clone, Default)]
    struct Depths(Arc<Mutex<Vec<(u64, u64)>>>);
    struct Depth(u64);
    struct Visit(u64);

    impl tracing::field::Visit for Visit {
        fn record_u64(&mut self, _: &tracing::field::Field, value: u64) {
            self.0 = value;
        }
        fn record_debug(&mut self, _: &tracing::field::Field, _: &dyn std::fmt::Debug) {}
    }

    impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Depths {
        fn on_new_span(
            &self,
            attributes: &tracing::span::Attributes<'_>,
            id: &tracing::span::Id,
            ctx: Context<'_, S>,
        ) {
            let span = ctx.span(id).unwrap();
            let mut visit = Visit(0);
            attributes.record(&mut visit);
            let above = span.parent().map(|p| p.extensions().get::<Depth>().unwrap().0);
            span.extensions_mut().insert(Depth(visit.0));
            self.0.lock().unwrap().push((visit.0, above.unwrap_or(visit.0 + 1)));
        }
    }

    let depths = Depths::default();
    let subscriber = Registry::default().with(depths.clone());
    with_default(subscriber, || {
        let pool = Pool::new(8).unwrap();
        for _ in 0..20 {
            assert_eq!(pool.run(|worker| tree(worker, 8)), 256);
        }
    });
    let pairs = depths.0.lock().unwrap();
    assert_eq!(pairs.len(), 20 * 511);
    assert!(pairs.iter().all(|(depth, above)| depth + 1 == *above));
}
