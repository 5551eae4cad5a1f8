//! What a strand does that waits for a notification, before it sleeps: it gives its processor to others for a moment.
//!
//! Where strands pass things on by a condition the notification often comes within a microsecond or two, and a sleep and a
//! wake take fifty. As giving a processor away costs half a microsecond or so if nobody wants it, some tens of these are no
//! dearer than what they may save. Those for which that was in vain mostly do without (Karlin et al., "Competitive
//! randomized algorithms for nonuniform problems", 1990); and of the rest no more do so than there are processors, as each of
//! them runs only while the others don't.

use crate::queue::{Node, WAITING};
use raddle_sync::time::Instant;
use std::cell::Cell;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// How often it looks.
const LOOKS: u32 = if cfg!(miri) { 2 } else { 30 };
/// The most waits that go without, after one that was in vain.
const MOST_SKIPPED: u32 = 7;

/// How many do so now. It orders nothing: a few more do no harm.
static LINGERING: AtomicUsize = AtomicUsize::new(0);

std::thread_local! {
    static HABIT: Cell<Habit> = const { Cell::new(Habit { left: 0, skipped: 0 }) };
}

/// Whether a thread lingers, as that was worth while before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Habit {
    /// Waits to come that go without.
    left: u32,
    /// How many those were at first.
    skipped: u32,
}

impl Habit {
    /// The next wait: whether it lingers, and what comes after.
    fn next(self) -> (bool, Habit) {
        match self.left.checked_sub(1) {
            Some(left) => (false, Habit { left, ..self }),
            None => (true, self),
        }
    }

    /// After one that lingered.
    fn learn(self, worth_while: bool) -> Habit {
        let skipped = if worth_while { 0 } else { (2 * self.skipped + 1).min(MOST_SKIPPED) };
        Habit { left: skipped, skipped }
    }
}

/// Waits for the node's signal for a moment, if that may be worth while, and not beyond the deadline: where others want the
/// processor, it may be a long time until a thread that has given it away has it again.
pub(crate) fn linger(node: &Node, deadline: Option<Instant>) {
    if cfg!(raddle_model) {
        return;
    }
    let (lingers, habit) = HABIT.get().next();
    HABIT.set(habit);
    if !lingers {
        return;
    }
    if LINGERING.fetch_add(1, Ordering::Relaxed) < processors() {
        let is_over = || deadline.is_some_and(|deadline| deadline <= Instant::now());
        look_on(node, is_over, thread::yield_now);
        let signalled = node.signalled() != WAITING;
        // Nothing is learnt of a look that was cut short.
        if signalled || !is_over() {
            HABIT.set(habit.learn(signalled));
        }
    }
    LINGERING.fetch_sub(1, Ordering::Relaxed);
}

/// Pauses between its looks, until there is a signal or the time is over.
fn look_on(node: &Node, is_over: impl Fn() -> bool, pause: impl Fn()) {
    let looks = (0..LOOKS).take_while(|_| node.signalled() == WAITING && !is_over());
    looks.for_each(|_| pause());
}

/// In the child of a fork, where nobody else does.
#[cfg(all(unix, not(any(miri, raddle_model))))]
pub(crate) fn forget_others() {
    LINGERING.store(0, Ordering::Relaxed);
}

/// How many there are, asked once. By no `Once`: in the child of a fork that came while another thread was within, it would be
/// locked for ever.
fn processors() -> usize {
    static KNOWN: AtomicUsize = AtomicUsize::new(0);
    match KNOWN.load(Ordering::Relaxed) {
        0 => {
            let asked = thread::available_parallelism().map_or(1, NonZero::get);
            KNOWN.store(asked, Ordering::Relaxed);
            asked
        }
        known => known,
    }
}

#[cfg(all(test, not(raddle_model)))]
mod tests {
    use super::*;
    use crate::queue::WAKE;

    #[test]
    fn one_wait_in_eight_lingers_where_that_is_in_vain() {
        let mut habit = Habit { left: 0, skipped: 0 };
        let mut lingered = Vec::new();
        for wait in 0..40 {
            let (lingers, next) = habit.next();
            habit = next;
            if lingers {
                lingered.push(wait);
                habit = habit.learn(false);
            }
        }
        assert_eq!(lingered, [0, 2, 6, 14, 22, 30, 38]);
        habit.left = 0;
        assert_eq!(habit.learn(true).next(), (true, Habit { left: 0, skipped: 0 }));
    }

    /// It gave its processor away thirty times, and where two others wanted that a wait of 1 ms took 300.
    #[test]
    fn nobody_looks_on_when_the_time_is_over() {
        let (node, paused) = (Node::new(), Cell::new(0));
        let pause = || paused.set(paused.get() + 1);
        look_on(&node, || paused.get() > 0, pause);
        assert_eq!(paused.get(), 1);
        look_on(&node, || false, pause);
        assert_eq!(paused.get(), 1 + LOOKS);
    }

    /// What one learns of it, who lingers each time: again while as many tests beside this one linger as there are processors.
    fn learnt(node: &Node, habit: Habit) -> Habit {
        HABIT.set(habit);
        for _ in 0..1_000_000 {
            linger(node, None);
            if HABIT.get() != habit {
                break;
            }
            thread::yield_now();
        }
        HABIT.get()
    }

    #[test]
    fn who_is_notified_soon_learns_of_it_awake() {
        let node = Node::new();
        let _ourselves = Node::signal(&node, WAKE);
        let habit = learnt(&node, Habit { left: 0, skipped: 5 });
        assert_eq!(habit, Habit { left: 0, skipped: 0 });
        node.rearm();
        assert_eq!(learnt(&node, habit), Habit { left: 1, skipped: 1 });
    }
}
