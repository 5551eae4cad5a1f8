//! Finding strands that wait for each other in a circle. Built with debug assertions, or with the feature
//! `deadlock`; otherwise nothing here costs anything.
//!
//! A strand that has slept for a lock, or for a value that another makes, for some time registers: what it waits for, and
//! which strands have that, all of which it waits for. It looks again at intervals, and then follows the holders: from
//! one that it waits for to those which that waits for, and so on. Back at itself, it has found a deadlock.
//!
//! **D1** No false alarm. An edge from `a` to `b` counts if `a` saw `b` hold the lock *after* `b` had
//! registered, and both still are. A registered strand sleeps; asleep it releases nothing; so `b` holds the
//! lock still. Beneath a strand that sleeps, on the same thread, others sleep with it, and are registered along: they
//! go on when it does. A wait that ends by itself, at a deadline, is not registered, nor is a strand while it runs the hook.
//! **D2** A panic of the hook's is caught, and passed on when the strand has left the lock's queue (Q2). Where there is a guard
//! already nobody may unwind, so a strand that takes a lock back leaves a circle to one of its others that may.
//! **D3** A circle is complete when the last of its edges comes to count, or is another one. The strand that looks then is one
//! of the circle, and finds it; so nobody else has to follow the holders, but those to whom it is left (D2).

use crate::core::Patience;
use crate::queue::Node;
use raddle_sync::time::Instant;
use raddle_sync::watch::LockWait;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A circle of strands that wait for what others of them have; see [`set_deadlock_hook`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    waits: Vec<Wait>,
    /// Which strand has what each of them waits for: the next one, or one beneath it on its thread.
    holders: Vec<u32>,
}

/// One strand of a [`Deadlock`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The name of the thread that it runs on.
    pub thread: Option<String>,
    /// The number of the strand.
    pub strand: u32,
    /// The address of the lock that it waits for, or of the value that another makes.
    pub lock: usize,
}

impl Deadlock {
    /// Who waits; each for a lock that the next one holds, and the last for one of the first's. Or a strand holds it that lies
    /// beneath that one on its thread, and goes on when it does; so one alone may be a circle.
    pub fn waits(&self) -> &[Wait] {
        &self.waits
    }
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.waits.len() == 1 { "" } else { "s" };
        write!(f, "deadlock of {} strand{plural}:", self.waits.len())?;
        let next = self.waits.iter().cycle().skip(1);
        for ((wait, next), holder) in self.waits.iter().zip(next).zip(&self.holders) {
            let name = |wait: &Wait| wait.thread.clone().unwrap_or_else(|| "<unnamed>".into());
            write!(
                f,
                "\n  strand {} on thread '{}' waits for the lock at {:#x}, held by strand {} on '{}'",
                wait.strand,
                name(wait),
                wait.lock,
                holder,
                name(next)
            )?;
            if *holder != next.strand {
                let above = next.strand;
                write!(f, ", which lies beneath strand {above} there and cannot go on before it")?;
            }
        }
        Ok(())
    }
}

#[cfg(all(any(debug_assertions, feature = "deadlock"), not(raddle_model)))]
mod detector {
    use super::{Deadlock, DeadlockHook, For, Instant, Node, Panic, Patience, Wait};
    use crate::queue::WAITING;
    use raddle_sync::strand;
    use std::collections::{HashMap, HashSet};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::{Mutex, MutexGuard, PoisonError};
    use std::time::Duration;

    /// How long a strand sleeps before it registers, and between two looks.
    const INTERVAL: Duration = Duration::from_millis(100);

    struct Edge {
        wait: Wait,
        /// The strands of the thread, which sleep along.
        names: Vec<u32>,
        holders: Vec<u32>,
        /// When the strand registered, and when it last saw the holders: in steps of the registry.
        since: u64,
        seen: u64,
        /// The strand has to follow them, as there may be a circle that is not reported (D3).
        is_due: bool,
        /// Has been part of a deadlock that was reported.
        reported: bool,
        /// Whether a panic of the hook's may come out of the wait (D2).
        unwinds: bool,
    }

    type Edges = HashMap<u32, Edge>;
    /// Who sleeps on the thread of a strand.
    type Sleeps = HashMap<u32, u32>;

    #[derive(Default)]
    struct Registry {
        step: u64,
        edges: Option<Edges>,
        sleeps: Option<Sleeps>,
    }

    static REGISTRY: Mutex<Registry> = Mutex::new(Registry { step: 0, edges: None, sleeps: None });

    pub(super) static HOOK: Mutex<Option<DeadlockHook>> = Mutex::new(None);

    pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be whole in the child of a fork.
    #[cfg(all(unix, not(any(miri, raddle_model))))]
    pub(crate) struct Locked {
        registry: MutexGuard<'static, Registry>,
        _hook: MutexGuard<'static, Option<DeadlockHook>>,
    }

    #[cfg(all(unix, not(any(miri, raddle_model))))]
    pub(crate) fn lock_all() -> Locked {
        Locked { registry: locked(&REGISTRY), _hook: locked(&HOOK) }
    }

    #[cfg(all(unix, not(any(miri, raddle_model))))]
    impl Locked {
        /// In the child, where nobody waits.
        pub(crate) fn forget_all(&mut self) {
            // Not freed: F5 of `fork`.
            std::mem::forget(self.registry.edges.take());
            std::mem::forget(self.registry.sleeps.take());
        }
    }

    pub(crate) fn sleep(
        what: &For<'_>,
        node: &Node,
        until: Option<Instant>,
        patience: Patience,
    ) -> Result<u32, Panic> {
        if until.is_some() || patience.deadline().is_some() {
            return Ok(node.sleep_until(until)); // D1
        }
        let unwinds = !matches!(patience, Patience::Back);
        let mut registered = Registered { me: what.me, is_listed: false, told: false };
        loop {
            let signal = node.sleep_until(Some(Instant::now() + INTERVAL));
            if signal != WAITING {
                return Ok(signal);
            }
            // It is in the lock's queue (Q2).
            let found =
                raddle_sync::unwinds_nowhere("the detector of deadlocks has panicked", || {
                    look_round(what, &mut registered, unwinds)
                });
            if let Some(deadlock) = found {
                registered.told = true;
                registered.leave();
                match catch_unwind(AssertUnwindSafe(|| tell(&deadlock))) {
                    Err(panic) if unwinds => return Err(panic),
                    told => super::discard(told.map(|()| 0)), // D2: nobody in the circle may unwind.
                }
            }
        }
    }

    /// Says that a deadlock was found.
    fn tell(deadlock: &Deadlock) {
        let hook = locked(&HOOK).clone();
        match hook {
            Some(hook) => hook(deadlock),
            None => raddle_sync::say(format_args!("{deadlock}")),
        }
    }

    /// A strand that sleeps, and may be in the registry.
    struct Registered {
        me: u32,
        /// It is there. Most waits are over before that.
        is_listed: bool,
        /// Has been part of a deadlock that it told of.
        told: bool,
    }

    impl Registered {
        fn enter(&mut self, edges: &mut Edges, sleeps: &mut Sleeps, edge: Edge) {
            sleeps.extend(edge.names.iter().map(|name| (*name, self.me)));
            edges.insert(self.me, edge);
            self.is_listed = true;
        }

        fn leave(&mut self) {
            if !std::mem::take(&mut self.is_listed) {
                return;
            }
            let mut registry = locked(&REGISTRY);
            let Registry { edges, sleeps, .. } = &mut *registry;
            let edge = edges.get_or_insert_default().remove(&self.me);
            let sleeps = sleeps.get_or_insert_default();
            for name in edge.iter().flat_map(|edge| &edge.names) {
                sleeps.remove(name);
            }
        }
    }

    impl Drop for Registered {
        fn drop(&mut self) {
            self.leave();
        }
    }

    /// Registers, or looks again; a deadlock that was not reported yet, and is this strand's to report.
    fn look_round(what: &For<'_>, registered: &mut Registered, unwinds: bool) -> Option<Deadlock> {
        let me = what.me;
        let new = (!registered.is_listed).then(|| {
            let thread = raddle_sync::thread_name();
            let mut names = strand::with_local(|local| local.names());
            names.push(me);
            (Wait { thread, strand: me, lock: what.address }, names)
        });
        let mut registry = locked(&REGISTRY);
        registry.step += 1;
        let now = registry.step;
        let Registry { edges, sleeps, .. } = &mut *registry;
        let (edges, sleeps) = (edges.get_or_insert_default(), sleeps.get_or_insert_default());
        if let Some((wait, names)) = new {
            let (since, seen, holders) = (now, now, Vec::new());
            let (is_due, reported) = (false, registered.told);
            let edge = Edge { wait, names, holders, since, seen, is_due, reported, unwinds };
            registered.enter(edges, sleeps, edge);
        }
        let holders = (what.holders)();
        // None: in a process that was forked by a signal's handler meanwhile, which has forgotten all of them.
        let is_news = is_news(edges, sleeps, edges.get(&me)?, &holders);
        let edge = edges.get_mut(&me)?;
        (edge.holders, edge.seen) = (holders, now);
        edge.is_due |= is_news;
        if !edge.is_due {
            return None;
        }
        let circle = circle(edges, sleeps, me);
        edges.get_mut(&me)?.is_due = circle.is_some();
        let circle = circle?;
        if !unwinds && circle.iter().any(|strand| edges[strand].unwinds) {
            // D2: it looks, too; and this one again, as there may be another circle.
            for strand in &circle {
                edges.get_mut(strand).expect("just seen").is_due = true;
            }
            return None;
        }
        let (mut waits, mut holders) = (Vec::new(), Vec::new());
        for (strand, next) in circle.iter().zip(circle.iter().cycle().skip(1)) {
            let edge = edges.get_mut(strand).expect("just seen");
            edge.reported = true;
            waits.push(edge.wait.clone());
            let leads_there = |holder: &&u32| sleeps.get(holder) == Some(next);
            holders.push(*edge.holders.iter().find(leads_there).expect("just followed"));
        }
        Some(Deadlock { waits, holders })
    }

    /// Whether an edge, whose strand sees these `holders` now, counts where it did not when the strand last looked (D1).
    fn is_news(edges: &Edges, sleeps: &Sleeps, edge: &Edge, holders: &[u32]) -> bool {
        let is_new = |sleeper: &u32| edges[sleeper].since > edge.seen;
        holders != edge.holders
            || holders.iter().filter_map(|holder| sleeps.get(holder)).any(is_new)
    }

    /// The strands from `me` to one that waits for it, each of which waits for the next. Of a circle that has been reported
    /// there may be another beside it.
    fn circle(edges: &Edges, sleeps: &Sleeps, me: u32) -> Option<Vec<u32>> {
        // How far each strand's holders have been followed; not by recursion, as chains are as long as there are threads.
        let (mut path, mut left) = (vec![me], vec![edges[&me].holders.iter()]);
        let mut been = HashSet::new();
        while let (Some(strand), Some(holders)) = (path.last(), left.last_mut()) {
            let Some(holder) = holders.next() else {
                path.pop();
                left.pop();
                continue;
            };
            let Some(next) = sleeps.get(holder) else { continue };
            if edges[strand].seen < edges[next].since {
                continue; // D1: it may have been awake then.
            }
            if *next == me {
                if path.iter().any(|strand| !edges[strand].reported) {
                    return Some(path);
                }
                continue;
            }
            // A circle without us is its own members' to report.
            if been.insert(*next) {
                path.push(*next);
                left.push(edges[next].holders.iter());
            }
        }
        None
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn edge(strand: u32, holder: u32) -> Edge {
            let wait = Wait { thread: None, strand, lock: 0 };
            let (names, holders) = (vec![strand], vec![holder]);
            let (since, seen, is_due, reported) = (1, 1, false, false);
            Edge { wait, names, holders, since, seen, is_due, reported, unwinds: true }
        }

        /// It took the stack of a thread that looked.
        #[test]
        fn long_chains_are_followed() {
            const LONG: u32 = if cfg!(miri) { 1_000 } else { 100_000 };
            let mut edges: Edges = (1..=LONG).map(|n| (n, edge(n, n + 1))).collect();
            let sleeps: Sleeps = (1..=LONG).map(|n| (n, n)).collect();
            assert_eq!(circle(&edges, &sleeps, 1), None);
            edges.insert(LONG, edge(LONG, 1));
            assert_eq!(circle(&edges, &sleeps, 1), Some((1..=LONG).collect()));
            edges.insert(LONG, edge(LONG, 2)); // not ours
            assert_eq!(circle(&edges, &sleeps, 1), None);
        }

        #[test]
        fn an_edge_is_news_once() {
            let mut edges: Edges = [(1, edge(1, 2))].into();
            let mut sleeps = Sleeps::new();
            let is_news = |edges: &Edges, sleeps: &Sleeps, holder| {
                super::is_news(edges, sleeps, &edges[&1], &[holder])
            };
            assert!(!is_news(&edges, &sleeps, 2) && is_news(&edges, &sleeps, 3));
            // Since the last look.
            edges.insert(2, Edge { since: 2, ..edge(2, 1) });
            sleeps.insert(2, 2);
            assert!(is_news(&edges, &sleeps, 2));
            edges.insert(1, Edge { seen: 3, ..edge(1, 2) });
            assert!(!is_news(&edges, &sleeps, 2));
        }

        /// It locked the registry, and looked through all of it, at the end of each wait.
        #[test]
        fn a_wait_that_has_not_registered_leaves_the_registry_alone() {
            let _registry = locked(&REGISTRY);
            drop(Registered { me: 1, is_listed: false, told: false });
        }
    }
}

#[cfg(all(any(debug_assertions, feature = "deadlock"), not(raddle_model)))]
use detector::sleep as sleep_watching;

#[cfg(all(unix, not(any(miri, raddle_model))))]
pub(crate) use forked::{Locked, lock_all};

#[cfg(all(unix, not(any(miri, raddle_model))))]
mod forked {
    #[cfg(any(debug_assertions, feature = "deadlock"))]
    pub(crate) use super::detector::{Locked, lock_all};

    #[cfg(not(any(debug_assertions, feature = "deadlock")))]
    pub(crate) struct Locked;

    #[cfg(not(any(debug_assertions, feature = "deadlock")))]
    pub(crate) fn lock_all() -> Locked {
        Locked
    }

    #[cfg(not(any(debug_assertions, feature = "deadlock")))]
    impl Locked {
        pub(crate) fn forget_all(&mut self) {}
    }
}

#[cfg(not(all(any(debug_assertions, feature = "deadlock"), not(raddle_model))))]
fn sleep_watching(
    _what: &For<'_>,
    node: &Node,
    until: Option<Instant>,
    _patience: Patience,
) -> Result<u32, Panic> {
    Ok(node.sleep_until(until))
}

/// Sleeps in a queue until the node is signalled or the time has come; who records traces is told.
pub(crate) fn sleep(
    what: &For<'_>,
    node: &Node,
    until: Option<Instant>,
    patience: Patience,
) -> Result<u32, Panic> {
    let holder = || (what.holders)().first().copied();
    let _told = LockWait::begin(what.address, what.me, holder);
    sleep_watching(what, node, until, patience)
}

/// What is slept for.
#[cfg_attr(
    not(any(debug_assertions, feature = "deadlock")),
    allow(dead_code, reason = "not asked")
)]
#[cfg_attr(raddle_model, allow(dead_code, reason = "not asked"))]
pub(crate) struct For<'a> {
    pub(crate) address: usize,
    /// The strand that sleeps.
    pub(crate) me: u32,
    /// The strands that have it, as far as they are known; all of them are waited for. Called with the registry locked.
    pub(crate) holders: &'a dyn Fn() -> Vec<u32>,
}

/// What a hook has panicked with.
pub(crate) type Panic = Box<dyn Any + Send>;

/// Drops what a sleep has ended with that the strand does not unwind for, because it has been woken after all. A panic's
/// payload is forgotten: its own drop might panic, with a lock taken.
pub(crate) fn discard(slept: Result<u32, Panic>) {
    slept.unwrap_or_else(|panic| {
        std::mem::forget(panic);
        0
    });
}

/// What [`set_deadlock_hook`] takes.
pub type DeadlockHook = Arc<dyn Fn(&Deadlock) + Send + Sync>;

/// Has `hook` told of strands that wait for each other in a circle; `None` goes back to a report on
/// standard error. Each circle is told once, within about 200 ms. The strands go on waiting.
///
/// Where the detector is not built, in release builds without the feature `deadlock`, this does nothing.
///
/// The hook runs on one of the threads that hang, and must not take a lock that may be held by one of them. If it panics, that strand stops waiting and the panic comes out of
/// its `lock()`, so that the others may go on. Nothing may unwind out of what takes a lock back ([`Condvar::wait`] and
/// [`MutexGuard::unlocked`], for instance, and what of `lock_api` waits without a limit, which locks anew in the same way): such a strand
/// leaves the report to another one of the circle, and where there is none, all go on waiting.
///
/// Seen are waits for mutexes, re-entrant locks and headers; for a readers-writer lock, as far as it is known who
/// has it: its writer, the writer that others let by, and readers that are published ([`RwLock`]), but not those that
/// are counted, nor one that may write later; and for values that others make ([`OnceLock`]).
///
/// A wait with a time limit is never part of a report, for it ends by itself. Nor is one for a notification, of which nobody
/// knows where it is to come from.
///
/// [`Condvar::wait`]: crate::Condvar::wait
/// [`OnceLock`]: crate::OnceLock
/// [`RwLock`]: crate::RwLock
/// [`MutexGuard::unlocked`]: crate::MutexGuard::unlocked
///
/// ```
/// use std::sync::Arc;
/// raddle_lock::set_deadlock_hook(Some(Arc::new(|deadlock| {
///     eprintln!("{deadlock}");
///     std::process::abort(); // better than a hang
/// })));
/// # raddle_lock::set_deadlock_hook(None);
/// ```
pub fn set_deadlock_hook(hook: Option<DeadlockHook>) {
    #[cfg(all(any(debug_assertions, feature = "deadlock"), not(raddle_model)))]
    {
        // The old hook is dropped when the lock is released again.
        let _old = std::mem::replace(&mut *detector::locked(&detector::HOOK), hook);
    }
    #[cfg(not(all(any(debug_assertions, feature = "deadlock"), not(raddle_model))))]
    drop(hook);
}
