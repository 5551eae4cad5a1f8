//! [`Pending`], the consumer's share of a node.

use std::mem::ManuallyDrop;
use std::time::Duration;

use raddle_sync::strand;
use raddle_sync::time::Instant;

use crate::depth;
use crate::future::failure::Failure;
use crate::future::handle::Pending;
use crate::future::interrupt::Interrupt;
use crate::future::node::{self, Ends, NodeRef};
use crate::future::state::{Abandoned, Ended, Kill, Refused, Vacant};
use crate::future::upstream::{Combination, Purpose, Visitor};
use crate::future::{Assist, Killed, Waiter, interrupt_node::InterruptNode, wait, walk};
use crate::panics::discard;

/// A thread that may run what it waits for only if nobody else will looks again after so long.
const HELD_UP: Duration = Duration::from_millis(10);
/// And one that has a time limit, for which nobody comes, at first; later after this.
const LONGEST_REST: Duration = Duration::from_secs(1);
/// A wait goes so many steps upstream for each task that it runs there, and goes on at once.
const NEAR: usize = 1024;
/// About what a step takes.
const STEP: Duration = Duration::from_nanos(20);
/// About as long as it takes to wake a thread.
const SHORTEST_REST: Duration = Duration::from_micros(100);

impl<T> Pending<T> {
    #[inline]
    pub(crate) fn node(&self) -> NodeRef {
        self.ends.node()
    }

    /// As a visitor needs them.
    pub(crate) fn ends(&self) -> Ends {
        self.ends
    }

    /// Where interrupts go, unless it is done; see `upstream`. Asked before anybody is attached.
    pub(crate) fn cell(&self) -> Option<NodeRef> {
        // SAFETY: the consumer keeps the node alive.
        let vacant = unsafe { self.node().state() }.vacant();
        vacant.ok().and_then(|vacant| self.cell_of(vacant))
    }

    /// The same of what `take` has seen.
    #[inline(always)]
    pub(crate) fn cell_of(&self, vacant: Vacant) -> Option<NodeRef> {
        self.ends.cell(vacant.carried())
    }

    #[inline]
    pub(crate) fn outcome(&self) -> Option<Ended> {
        // SAFETY: the consumer keeps the node alive.
        unsafe { self.node().state() }.outcome()
    }

    /// The result if it is there, or else what is.
    #[inline(always)]
    pub(crate) fn take(self) -> Result<Result<T, Failure>, (Pending<T>, Vacant)> {
        // SAFETY: the consumer keeps the node alive.
        match unsafe { self.node().state() }.vacant() {
            Err(outcome) => Ok(self.take_seen(outcome)),
            Ok(vacant) => Err((self, vacant)),
        }
    }

    /// Whether nothing but adapters lies between this and the root upstream: to drop it is to drop that.
    pub(crate) fn is_adapted(&self) -> bool {
        // SAFETY: the consumer keeps the node alive.
        match unsafe { self.node().vtable() } {
            Some(vtable) => vtable.adapts,
            None => true,
        }
    }

    /// The combination that this is the future of, if it is one.
    #[inline]
    fn combination(&self) -> Option<Combination> {
        // SAFETY: the consumer keeps the node alive.
        let state = unsafe { self.node().state() };
        if self.is_adapted() && (state.is_heard() || !self.node().is_root()) {
            // SAFETY: this is the consumer.
            return unsafe { Visitor::combination(self.ends) };
        }
        None
    }

    /// The result of a node that is done.
    #[inline]
    pub(crate) fn take_done(self, outcome: Ended) -> Result<T, Failure> {
        if outcome == Ended::Killed {
            return self.take_killed();
        }
        let node = ManuallyDrop::new(self).node();
        // SAFETY: done, so the slot is full and the consumer's (F1), which is used up.
        let result = unsafe { node.take(outcome) };
        // SAFETY: the slot is empty, and there is nothing downstream.
        unsafe { node.free::<T>() };
        result
    }

    /// The same, of what another thread may have done: so that whoever records knows what comes after it.
    #[inline]
    pub(super) fn take_seen(self, outcome: Ended) -> Result<T, Failure> {
        if wait::host::is_recorded() {
            self.is_seen();
        }
        self.take_done(outcome)
    }

    /// As a wait that takes no time.
    #[cold]
    #[inline(never)]
    fn is_seen(&self) {
        wait::host::seen(self.node().address());
    }

    /// The producer may still be there: going is all there is to do.
    #[cold]
    #[inline(never)]
    fn take_killed(self) -> Result<T, Failure> {
        Err(Failure::killed())
    }

    /// What a consumer does to whom nobody could be attached: the result, or none if there will never be one.
    pub(crate) fn refused(self, refused: Refused) -> Option<Result<T, Failure>> {
        match refused {
            Refused::Done(outcome) => Some(self.take_seen(outcome)),
            Refused::Never | Refused::Taken => None,
        }
    }

    /// Shows a visitor what is upstream; by a combination that holds this future.
    pub(crate) fn visit(&self, visitor: &mut Visitor) {
        // SAFETY: this is the consumer.
        unsafe { visitor.enter(self.ends) };
    }

    fn visitor(&self, purpose: Purpose) -> Visitor {
        let mut visitor = Visitor::new(purpose);
        // SAFETY: this is the consumer.
        unsafe { visitor.enter(self.ends) };
        visitor
    }

    /// There is to be a shared future of this one.
    pub(crate) fn share(&self) {
        self.visitor(Purpose::Share).finish();
    }

    pub(crate) fn interrupt(&self, signal: &Interrupt) {
        self.visitor_of(signal).finish().interrupt(signal);
    }

    /// On its way with this signal.
    pub(crate) fn visitor_of(&self, signal: &Interrupt) -> Visitor {
        self.visitor(Purpose::Interrupt(signal.clone()))
    }

    pub(crate) fn kill(&self) -> Killed {
        // SAFETY: the consumer keeps the node alive.
        if let Some(kill) = unsafe { self.node().vtable() }.and_then(|vtable| vtable.kill) {
            if let Some(head) = self.node().head() {
                // SAFETY: as above.
                return unsafe { kill(head) };
            }
        }
        let combination = self.combination();
        let found = self.visitor(Purpose::Interrupt(Interrupt::killed())).finish();
        // SAFETY: the consumer keeps the node alive.
        let state = unsafe { self.node().state() };
        // SAFETY: E1: by the consumer.
        match state.kill(self.node().carries(), |node| unsafe { InterruptNode::next(node) }) {
            Kill::TooLate => {
                found.let_go();
                discard(combination);
                Killed::TooLate
            }
            Kill::Done(waiter) => {
                if let Some(waiter) = waiter {
                    // SAFETY: F2: found by who completed it.
                    unsafe { walk::wake(waiter) };
                }
                let running = found.interrupt(&Interrupt::killed());
                if let Some(combination) = combination {
                    walk::abandon(combination);
                }
                if running { Killed::WhileRunning } else { Killed::BeforeStart }
            }
        }
    }

    // --- waiting ---

    #[inline]
    pub(super) fn wait(self) -> Result<T, Failure> {
        match self.outcome() {
            Some(outcome) if !wait::host::is_recorded() => self.take_done(outcome),
            _ => self.wait_slowly(),
        }
    }

    #[cold]
    #[inline(never)]
    fn wait_slowly(self) -> Result<T, Failure> {
        let _touch = wait::Touch::begin(Some(self.node()));
        if let Some(outcome) = self.outcome() {
            return self.take_done(outcome);
        }
        if self.block() == Assist::Cycle {
            return Err(Failure::cycle());
        }
        match self.outcome() {
            Some(outcome) => self.take_done(outcome),
            None => unreachable!("waited until it was done"),
        }
    }

    pub(super) fn wait_timeout(self, time: Duration) -> Result<Result<T, Failure>, Pending<T>> {
        let assist = match Instant::now().checked_add(time) {
            Some(deadline) => self.block_until(deadline),
            // Beyond all time.
            None => self.block(),
        };
        if assist == Assist::Cycle {
            return Ok(Err(Failure::cycle()));
        }
        match self.outcome() {
            Some(outcome) => Ok(self.take_done(outcome)),
            None => Err(self),
        }
    }

    /// Helps, and blocks until it is done.
    pub(super) fn block(&self) -> Assist {
        // It has been so for a while that others would have to run what is waited for.
        let mut held_up = false;
        loop {
            // Before it helps: a task that it runs may wait for what this thread has put off, and take long.
            depth::flush();
            wait::host::waits_anew();
            let look_again = match self.assist(wait::host::waiter(held_up)) {
                Assist::Cycle => return Assist::Cycle,
                Assist::Far(rest) => Instant::now().checked_add(rest),
                // They may have come to wait, too; and who would see that there is a thread for the task may be a timer.
                Assist::Go | Assist::Ran if wait::host::relies_on_others() => {
                    held_up = true;
                    Instant::now().checked_add(HELD_UP)
                }
                Assist::Go | Assist::Ran => None,
            };
            // A task that this thread has just run may have been killed, and its killer not be ready yet.
            if self.outcome().is_some() {
                return Assist::Go;
            }
            // SAFETY: this is the consumer.
            unsafe { wait::block(self.node(), None, look_again) };
            if self.outcome().is_some() {
                return Assist::Go;
            }
        }
    }

    /// Blocks until it is done, or the time has come. It helps only if for a while nobody else could, and then also when the time is over.
    fn block_until(&self, deadline: Instant) -> Assist {
        let mut rest = HELD_UP;
        let mut waited = Duration::ZERO;
        loop {
            depth::flush();
            let left = deadline.saturating_duration_since(Instant::now());
            let rests = match self.assist_late(waited, left) {
                Assist::Cycle => return Assist::Cycle,
                Assist::Ran => Duration::ZERO,
                Assist::Far(rest) => rest,
                Assist::Go => rest,
            };
            let began = Instant::now();
            let late = !waited.is_zero() && began >= deadline;
            if late || self.outcome().is_some() {
                return Assist::Go;
            }
            // Where nobody else may come it looks again soon; also at first, as that may be seen only once somebody is to come.
            let soon = waited.is_zero() || wait::host::may_be_left_alone();
            let pause = if soon { rests } else { LONGEST_REST };
            let look = began.checked_add(pause).filter(|_| !wait::host::is_outside());
            let until = look.map_or(deadline, |look| look.min(deadline));
            // SAFETY: this is the consumer.
            wait::host::limited(|| unsafe { wait::block(self.node(), Some(until), None) });
            waited = began.elapsed().max(Duration::from_nanos(1));
            if rests == rest {
                rest = LONGEST_REST.min(2 * rest);
            }
        }
    }

    /// Helps after it has `waited` for so long, with so much time `left`, if nobody else can.
    fn assist_late(&self, waited: Duration, left: Duration) -> Assist {
        let helps = self.outcome().is_none() && wait::host::nobody_comes(waited, left);
        if helps && !std::thread::panicking() { self.assist(Waiter::Late) } else { Assist::Go }
    }

    /// Offers to run what is behind the future and has not started; one who is in a hurry just sees whether it waits for itself.
    fn assist(&self, waiter: Waiter) -> Assist {
        if self.outcome().is_some() {
            return Assist::Go;
        }
        // SAFETY: the consumer keeps the node alive.
        let assist = unsafe { self.node().vtable() }.and_then(|vtable| vtable.assist);
        match assist.zip(self.node().head()) {
            Some((assist, head)) => {
                // SAFETY: as above.
                let assist = depth::fresh(|| unsafe { assist(head, waiter) });
                match assist {
                    Assist::Ran => wait::host::ran_inline(self.outcome().is_some()),
                    _ => wait::host::wants_task(),
                }
                assist
            }
            None => self.assist_upstream(waiter),
        }
    }

    /// As [`assist`](Pending::assist), for a future that was made of others.
    ///
    /// Each look begins at this end. In a recursion that is no tail call the tasks come one by one, each behind a longer way, so
    /// that to run them all from here would be quadratic. Another thread that runs one finds the next at hand. So when the way
    /// is long this thread gives its place away, but does not rely on that: all who might work may be blocked where nobody knows of
    /// it, or there may be no thread to be had. It looks again when it has rested about as long as the look took; if somebody
    /// is at it by then there is nothing to be found, and it waits for good.
    fn assist_upstream(&self, waiter: Waiter) -> Assist {
        let mut help = Assist::Go;
        loop {
            let mut ran = 0;
            let found = self.visitor(Purpose::Gather(walk::passed())).finish();
            if found.node {
                return Assist::Cycle;
            }
            for task in found.tasks {
                match depth::fresh(|| task.assist(waiter)) {
                    Assist::Cycle => return Assist::Cycle,
                    Assist::Ran => ran += 1,
                    Assist::Go | Assist::Far(_) => wait::host::wants_task(),
                }
                if self.outcome().is_some() {
                    return Assist::Ran;
                }
            }
            // What has been run may have brought new ones.
            if ran == 0 {
                let may_help = waiter == Waiter::Patient && wait::host::is_outside();
                if let Some(helper) = found.helper.filter(|_| may_help) {
                    // What is completed meanwhile is not taken for whoever holds what this thread holds.
                    let _foreign = strand::enter_foreign();
                    depth::fresh(|| wait::host::blocking(|| helper.help()));
                }
                return help;
            }
            wait::host::ran_inline(self.outcome().is_some());
            if found.steps / ran > NEAR {
                let steps = u32::try_from(found.steps).unwrap_or(u32::MAX);
                return Assist::Far((STEP * steps).max(SHORTEST_REST));
            }
            help = Assist::Ran;
        }
    }
}

impl<T> Drop for Pending<T> {
    #[inline]
    fn drop(&mut self) {
        let node = self.node();
        // SAFETY: the consumer keeps the node alive.
        let adapts = unsafe { node.vtable() }.is_some_and(|vtable| vtable.adapts);
        // SAFETY: as above.
        let state = unsafe { node.state() };
        match if adapts { None } else { state.abandon_early(node.carries()) } {
            Some(Abandoned::Left) => {}
            // SAFETY: done, so the slot is the consumer's (F1), who goes.
            Some(Abandoned::Done(outcome)) => unsafe { node::discard_early::<T>(node, outcome) },
            Some(Abandoned::Never) | None => self.drop_slowly(),
        }
    }
}

impl<T> Pending<T> {
    #[inline(never)]
    fn drop_slowly(&self) {
        if let Some(combination) = self.combination() {
            walk::abandon(combination);
        }
        // SAFETY: the consumer keeps the node alive.
        let state = unsafe { self.node().state() };
        match state.abandon() {
            Abandoned::Left => {}
            // SAFETY: the producer has left, and the slot is empty.
            Abandoned::Never => unsafe { self.node().free::<T>() },
            Abandoned::Done(outcome) => {
                // SAFETY: done, so the slot is the consumer's (F1), who goes.
                unsafe { node::discard_result::<T>(self.node(), outcome) };
            }
        }
    }
}
