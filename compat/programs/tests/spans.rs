//! Spans of `tracing` follow parallel iterators: the feature `tracing` of this `rayon-core`.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use rayon::prelude::*;
use rayon_programs::{alone, on_each_thread};
use tracing::span::{Attributes, Id};
use tracing::{Span, Subscriber, info_span};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

/// How many spans of each name there have been, by the names of their parents.
#[derive(Clone, Default)]
struct Parents(Arc<Mutex<BTreeMap<(&'static str, &'static str), usize>>>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Parents {
    fn on_new_span(&self, _: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        let parent = span.parent().map_or("none", |parent| parent.name());
        *self.0.lock().unwrap().entry((span.name(), parent)).or_default() += 1;
    }
}

/// Those of this process, as a program would have them.
fn parents() -> Parents {
    static PARENTS: OnceLock<Parents> = OnceLock::new();
    let set = || {
        let parents = Parents::default();
        let subscriber = Registry::default().with(parents.clone());
        tracing::subscriber::set_global_default(subscriber).unwrap();
        parents
    };
    PARENTS.get_or_init(set).clone()
}

#[test]
fn the_span_around_an_iterator_is_the_current_one_on_every_thread() {
    let (_alone, _) = (alone(), parents());
    let (outer, threads) = (info_span!("outer"), Mutex::new(HashSet::new()));
    assert!(outer.id().is_some());
    outer.in_scope(|| {
        on_each_thread(|| {
            assert_eq!(Span::current().id(), outer.id());
            threads.lock().unwrap().insert(thread::current().id());
            (0..100).into_par_iter().with_max_len(1).for_each(|_| {
                assert_eq!(Span::current().id(), outer.id());
            });
            let inner = info_span!("inner");
            inner.in_scope(|| {
                (0..100).into_par_iter().with_max_len(1).for_each(|_| {
                    assert_eq!(Span::current().id(), inner.id());
                });
            });
            assert_eq!(Span::current().id(), outer.id());
        });
    });
    assert_eq!(threads.into_inner().unwrap().len(), rayon::current_num_threads());
    // And it stays on none of them.
    on_each_thread(|| assert_eq!(Span::current().id(), None));
}

#[test]
fn spans_of_items_have_the_span_around_the_iterator_as_their_parent() {
    let (_alone, parents) = (alone(), parents());
    info_span!("pages").in_scope(|| {
        (0..1000).into_par_iter().with_max_len(1).for_each(|_| info_span!("page").in_scope(|| ()));
        let mut sizes: Vec<u32> = (0..10_000).rev().collect();
        sizes.par_sort_by_key(|size| {
            if size % 1000 == 0 {
                drop(info_span!("key"));
            }
            *size
        });
        (0..100).par_bridge().for_each(|_| drop(info_span!("line")));
        rayon::scope(|s| (0..100).for_each(|_| s.spawn(|_| drop(info_span!("task")))));
    });
    let parents = parents.0.lock().unwrap();
    let of = |name| parents.iter().filter(move |((its, _), _)| *its == name);
    for (name, count) in [("page", 1000), ("line", 100), ("task", 100)] {
        let found: Vec<_> = of(name).collect();
        assert_eq!(found, [(&(name, "pages"), &count)]);
    }
    assert!(of("key").all(|((_, parent), _)| *parent == "pages") && of("key").count() == 1);
}
