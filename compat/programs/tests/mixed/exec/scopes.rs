//! Scopes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rayon::{Scope, ScopeFifo};

use crate::exec::{Env, item};
use crate::ir::{Node, ScopeKind, Spread};

/// What the tasks of a scope share.
struct Tasks<'a> {
    sum: &'a AtomicU64,
    kind: ScopeKind,
    spread: Spread,
    count: u32,
    inner: &'static Node,
    env: Env,
    x: u64,
}

pub(super) fn run(
    kind: ScopeKind,
    spread: Spread,
    count: u32,
    inner: &'static Node,
    env: Env,
    x: u64,
) -> u64 {
    let sum = AtomicU64::new(0);
    let tasks = Tasks { sum: &sum, kind, spread, count, inner, env, x };
    tasks.open(0);
    sum.into_inner()
}

impl Tasks<'_> {
    /// Has what one of the tasks does, itself.
    fn one(&self, index: u32) {
        self.env.check("a task of a scope");
        let value = item(self.inner, self.env, self.x, u64::from(index));
        self.sum.fetch_add(value, Relaxed);
    }

    /// A scope for those from that index on.
    fn open(&self, from: u32) {
        match self.kind {
            ScopeKind::Usual => rayon::scope(|s| self.begin(&s, from)),
            ScopeKind::InPlace => rayon::in_place_scope(|s| self.begin(&s, from)),
            ScopeKind::Fifo => rayon::scope_fifo(|s| self.begin(&s, from)),
            ScopeKind::InPlaceFifo => rayon::in_place_scope_fifo(|s| self.begin(&s, from)),
            ScopeKind::Raddle => raddle::scope(|s| self.begin(&s, from)),
        }
    }

    fn begin<'scope, S: AnyScope<'scope>>(&'scope self, scope: &S, from: u32) {
        match self.spread {
            Spread::Flat => (from..self.count).for_each(|i| scope.task(self, i)),
            Spread::Everywhere => (from..self.count).for_each(|i| scope.everywhere(self, i)),
            Spread::Chained | Spread::Tree | Spread::Nested if from < self.count => {
                scope.task(self, from);
            }
            _ => {}
        }
    }

    /// A task has run in this scope.
    fn go_on<'scope, S: AnyScope<'scope>>(&'scope self, scope: &S, index: u32) {
        match self.spread {
            Spread::Chained if index + 1 < self.count => scope.task(self, index + 1),
            Spread::Tree => {
                let next = [2 * index + 1, 2 * index + 2];
                let next = next.into_iter().filter(|i| *i < self.count);
                next.for_each(|i| scope.task(self, i));
            }
            Spread::Nested if index + 1 < self.count => self.open(index + 1),
            _ => {}
        }
    }
}

/// Any of the types of scopes.
trait AnyScope<'scope> {
    fn task(&self, tasks: &'scope Tasks<'scope>, index: u32);
    fn everywhere(&self, tasks: &'scope Tasks<'scope>, index: u32);
}

impl<'scope> AnyScope<'scope> for &Scope<'scope> {
    fn task(&self, tasks: &'scope Tasks<'scope>, index: u32) {
        self.spawn(move |s| {
            tasks.one(index);
            tasks.go_on(&s, index);
        });
    }

    fn everywhere(&self, tasks: &'scope Tasks<'scope>, index: u32) {
        self.spawn_broadcast(move |_, _| tasks.one(index));
    }
}

impl<'scope> AnyScope<'scope> for &ScopeFifo<'scope> {
    fn task(&self, tasks: &'scope Tasks<'scope>, index: u32) {
        self.spawn_fifo(move |s| {
            tasks.one(index);
            tasks.go_on(&s, index);
        });
    }

    fn everywhere(&self, tasks: &'scope Tasks<'scope>, index: u32) {
        self.spawn_broadcast(move |_, _| tasks.one(index));
    }
}

impl<'scope> AnyScope<'scope> for &raddle::Scope<'scope> {
    fn task(&self, tasks: &'scope Tasks<'scope>, index: u32) {
        self.spawn(move |s| {
            tasks.one(index);
            tasks.go_on(&s, index);
        });
    }

    fn everywhere(&self, _: &'scope Tasks<'scope>, _: u32) {
        unreachable!("raddle's scopes have no such tasks");
    }
}
