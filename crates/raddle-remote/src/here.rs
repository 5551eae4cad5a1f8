//! The plans that run tasks in this process: one after the other, or on threads.

mod tally;

use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use raddle_core::{Failure, Future, Interrupt, Killed, Pool, Producer, Promise, killed};
use raddle_sync::fork;

use self::tally::{Tally, Ticket};
use crate::arg::{Arg, decode, encode};
use crate::context::{self, Report, Running, TaskInfo};
use crate::env::Env;
use crate::error::RemoteError;
use crate::plan::{Hooks, Plan, call_hook};
use crate::seed::Seed;
use crate::within::{is_within, within};

/// Items in a row, and the index of the first.
pub(crate) type Part<A> = (u64, Vec<A>);

/// Calls `f` for each item of a part, as itself.
pub(crate) fn run_part<A: Arg, R: Arg>(f: fn(A) -> R, (first, items): Part<A>) -> Vec<R> {
    (first..).zip(items).map(|(index, item)| context::part(index, || f(item))).collect()
}

/// A call in this process, and what goes with it.
pub(crate) struct Local<A, F> {
    pub(crate) f: F,
    pub(crate) args: A,
    pub(crate) id: u64,
    pub(crate) name: Option<String>,
    pub(crate) seed: Seed,
    pub(crate) hooks: Arc<Hooks>,
    pub(crate) nested: Env,
    pub(crate) strict: bool,
}

impl<A: Arg, F> Local<A, F> {
    /// Calls it as a task, on worker `worker`; `is_late` says, where it was killed, whether that is because its time was up.
    pub(crate) fn call<R: Arg>(
        self,
        worker: usize,
        is_late: impl FnOnce() -> bool,
    ) -> Result<R, Failure>
    where
        F: FnOnce(A) -> R,
    {
        let Local { f, args, id, name, seed, hooks, nested, strict } = self;
        let info = TaskInfo { id, attempt: 1, name, worker };
        if let Some(hook) = &hooks.before_start {
            panic::catch_unwind(AssertUnwindSafe(|| hook(&info))).map_err(Failure::panicked)?;
        }
        let report = hooks
            .on_progress
            .clone()
            .map(|hook| -> Report { Arc::new(move |info, done| call_hook(|| hook(info, done))) });
        let body = || match strict {
            true => transfer(&f(transfer(&args)?)),
            false => Ok(f(args)),
        };
        let running = Running::new(info.clone(), seed, report);
        let result = panic::catch_unwind(AssertUnwindSafe(|| running.run(nested, body)));
        let result: Result<R, Failure> = match result {
            Ok(result) => result.map_err(Failure::new),
            Err(payload) => Err(Failure::panicked(payload)),
        };
        if let Some(hook) = &hooks.after_finish {
            let why = || if is_late() { Failure::timed_out() } else { Failure::killed() };
            let killed = killed().then(why);
            let outcome = match &killed {
                Some(killed) => Err(killed),
                None => result.as_ref().map(|_| ()),
            };
            call_hook(|| hook(&info, outcome));
        }
        result
    }
}

/// A value as it would arrive elsewhere.
fn transfer<T: Arg>(value: &T) -> Result<T, RemoteError> {
    decode(&encode(value)?)
}

/// A pool of threads, which a reset replaces.
pub(crate) struct Threads {
    plan: Plan,
    width: usize,
    /// Of the process that made it; the child of a fork has none of the threads.
    generation: u32,
    current: Mutex<Option<Arc<Shift>>>,
    old: Old,
}

/// The pool between two resets.
struct Shift {
    pool: Pool,
    tally: Arc<Tally>,
}

/// Those before the last reset that have tasks yet.
type Old = Arc<Mutex<Vec<Arc<Shift>>>>;

impl Threads {
    pub(crate) fn new(plan: Plan, width: usize) -> Result<Threads, RemoteError> {
        fork::init();
        let threads = Threads {
            plan,
            width,
            generation: fork::generation(),
            current: Mutex::new(None),
            old: Old::default(),
        };
        *threads.current() = Some(threads.shift()?);
        Ok(threads)
    }

    fn current(&self) -> MutexGuard<'_, Option<Arc<Shift>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shift(&self) -> Result<Arc<Shift>, RemoteError> {
        let mut builder = Pool::builder().threads(self.width).thread_name("raddle-task");
        builder = builder.keep_alive(self.plan.settings.idle_timeout);
        if let Some(hook) = self.plan.on_worker_start {
            builder = builder.on_thread_start(hook);
        }
        let pool = builder.build().map_err(|error| RemoteError::Start(error.to_string()))?;
        Ok(Arc::new(Shift { pool, tally: Arc::default() }))
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    fn is_forked(&self) -> bool {
        self.generation != fork::generation()
    }

    /// # Panics
    ///
    /// In the child of a fork: before any lock that a thread may have which is not there.
    pub(crate) fn assert_here(&self) {
        assert!(
            !self.is_forked(),
            "raddle: this process was forked from the one that made the environment"
        );
    }

    /// By which a thread knows that it runs tasks of this, or what follows them.
    fn key(&self) -> usize {
        Arc::as_ptr(&self.old).addr()
    }

    pub(crate) fn free(&self) -> usize {
        if self.is_forked() {
            return 0;
        }
        let running = self.current().as_ref().map_or(0, |shift| shift.tally.running());
        self.width.saturating_sub(running)
    }

    /// Runs a task on one of the threads.
    pub(crate) fn spawn<A: Arg, R: Arg, F>(
        &self,
        local: Local<A, F>,
        timeout: Option<Duration>,
    ) -> Future<R>
    where
        F: FnOnce(A) -> R + Send + 'static,
    {
        let line = Arc::new(Line::default());
        let (promise, future) = Promise::with_producer(Handle(Arc::clone(&line)));
        let key = self.key();
        let end = Arc::new(Outcome { promise: Mutex::new(Some(promise)), key });
        let own = Arc::clone(&end);
        let limit = timeout.map(|time| Limit { time, is_over: Arc::default() });
        let late = limit.clone();
        let work = move || -> Then {
            let is_late = || late.is_some_and(|limit| limit.is_over());
            let worker = raddle_core::current_worker_index().unwrap_or(0);
            let result = within(key, || local.call(worker, is_late));
            Box::new(move || own.complete(result))
        };
        self.start(Box::new(work), end, &line, limit);
        future
    }

    /// The same for all types, so that there is one of it in a program.
    fn start(
        &self,
        work: Box<dyn FnOnce() -> Then + Send>,
        end: Arc<dyn End>,
        line: &Arc<Line>,
        limit: Option<Limit>,
    ) {
        let Some((shift, mut ticket)) = self.enter() else {
            let error = RemoteError::Engine("the environment was shut down".to_owned());
            return end.fail(Failure::new(error));
        };
        let (late, at_limit) = (Arc::clone(&end), Arc::downgrade(line));
        let kills = ticket.kills;
        let task = shift.pool.spawn(move || {
            if !ticket.begin() {
                return Box::new(move || late.fail(Failure::killed())) as Then;
            }
            let _ticket = ticket;
            // It ends with the task.
            let _limit = limit.map(|limit| limit.start(late, at_limit).cancel_on_drop());
            work()
        });
        // By then the task is over, also as `kill_all` sees it.
        let task = task.map(|then| then());
        // Killed or interrupted before it has started, or by `kill_all`.
        let own = Arc::clone(&end);
        let task = task.on_failure(move |failure| end.fail(failure.clone()));
        let _ = line.set(task);
        // By its limit, maybe, when there was no line yet. (Else it is over.) Or all were killed when the pool knew nothing of it.
        let doomed = shift.tally.has_doomed(kills);
        if own.is_over() || doomed {
            let killed = line.get().map(Future::kill);
            if doomed && killed != Some(Killed::TooLate) {
                shift.tally.catch();
            }
        }
        Threads::release(shift);
    }

    /// The shift that takes on what comes, in which one more task is counted; none after the end. Counted under the lock: whoever
    /// takes the shift away then waits for that.
    fn enter(&self) -> Option<(Arc<Shift>, Ticket)> {
        let current = self.current();
        let shift = current.as_ref()?;
        Some((Arc::clone(shift), shift.tally.enter()))
    }

    pub(crate) fn kill_all(&self) -> usize {
        if self.is_forked() {
            return 0;
        }
        // Without a lock: what this leads to may come back.
        let shifts = self.shifts();
        let killed = self.kill(&shifts);
        // What follows may have ended the environment. Nobody waits for that here.
        shifts.into_iter().for_each(Threads::release);
        killed
    }

    /// Kills all tasks of these; what follows one may wait for another, of whichever shift. Returns how many those were.
    fn kill(&self, shifts: &[Arc<Shift>]) -> usize {
        let before: Vec<usize> = shifts.iter().map(|shift| shift.tally.doom()).collect();
        let pools = shifts.iter().map(|shift| &shift.pool);
        let killed = within(self.key(), || raddle_core::kill_all_of(pools));
        let missed = |(shift, before): (&Arc<Shift>, usize)| shift.tally.missed(before);
        killed + shifts.iter().zip(before).map(missed).sum::<usize>()
    }

    /// Those before; whoever has the current one, too, takes that lock first.
    fn old(&self) -> MutexGuard<'_, Vec<Arc<Shift>>> {
        self.old.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current one, and those before.
    fn shifts(&self) -> Vec<Arc<Shift>> {
        let current = self.current();
        let old = self.old();
        current.iter().chain(old.iter()).cloned().collect()
    }

    /// New threads for what comes; the old ones finish what they have. After the end there are none.
    pub(crate) fn reset(&self) {
        if self.is_forked() {
            return;
        }
        // Without new ones the old ones are better than none.
        let Ok(shift) = self.shift() else { return };
        let mut current = self.current();
        let Some(place) = current.as_mut() else { return };
        let before = mem::replace(place, shift);
        let (tally, old) = (Arc::clone(&before.tally), Arc::clone(&self.old));
        // In one step: there is no moment at which it is in neither place.
        self.old().push(before);
        drop(current);
        // Also where all tasks are over: what follows them may go on, and wait for the caller.
        let ends = move || {
            tally.wait(None);
            let is_over = |shift: &Arc<Shift>| shift.tally.is_over();
            let mut old = old.lock().unwrap_or_else(PoisonError::into_inner);
            let (over, left): (Vec<_>, _) = mem::take(&mut *old).into_iter().partition(is_over);
            *old = left;
            drop(old);
            drop(over);
        };
        // Without a thread it stays until another one comes by, or all end.
        let _ = std::thread::Builder::new().name("raddle-reset".into()).spawn(ends);
    }

    /// To drop a pool is to wait for its tasks, and for what follows them: whoever may have the last of a shift, and is not to wait for
    /// those, leaves that to a thread.
    fn release(shift: Arc<Shift>) {
        let Some(last) = Arc::into_inner(shift) else { return };
        // Without a thread it is waited for here.
        let _ = std::thread::Builder::new().name("raddle-reset".into()).spawn(move || drop(last));
    }

    /// As [`Env::shutdown`](crate::Env::shutdown).
    pub(crate) fn shut_down(&self, limit: Duration) -> bool {
        if self.is_forked() {
            return true;
        }
        let mut current = self.current();
        // With the old ones: `kill_all` finds it while this waits.
        self.old().extend(current.take());
        drop(current);
        let shifts = self.old().clone();
        let deadline = Instant::now().checked_add(limit);
        // What it waits for may need this very thread's place.
        let all_end = || shifts.iter().all(|shift| shift.tally.wait(deadline));
        let finished = raddle_core::blocking(all_end) || self.kill(&shifts) == 0;
        // Not to be waited for by whoever drops the environment.
        self.old().clear();
        self.finish(shifts);
        finished
    }

    /// Waits for what follows the tasks of these, if they are over; unless it is from there that this is called: another that follows
    /// one may wait for the caller.
    fn finish(&self, shifts: Vec<Arc<Shift>>) {
        let waits = !is_within(self.key());
        for shift in shifts {
            if waits && shift.tally.is_over() { drop(shift) } else { Threads::release(shift) }
        }
    }
}

impl Drop for Threads {
    /// Finishes what was spawned.
    fn drop(&mut self) {
        let current = self.current.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if self.is_forked() {
            // A thread that is not here may have been at them, and may have the lock.
            mem::forget((current, Arc::clone(&self.old)));
            return;
        }
        let old = mem::take(&mut *self.old());
        let shifts = old.into_iter().chain(current);
        match is_within(self.key()) {
            true => shifts.for_each(Threads::release),
            false => shifts.for_each(drop),
        }
    }
}

/// What is done when a task is over.
type Then = Box<dyn FnOnce() + Send>;

/// The promise of a task, of whatever type.
trait End: Send + Sync {
    /// What fails it; none if it is over.
    fn take(&self) -> Option<Box<dyn FnOnce(Failure)>>;

    fn is_over(&self) -> bool;

    fn fail(&self, failure: Failure) {
        if let Some(fail) = self.take() {
            fail(failure);
        }
    }
}

/// A promise, and the environment of those who follow it.
struct Outcome<R> {
    promise: Mutex<Option<Promise<R>>>,
    key: usize,
}

impl<R: Send + 'static> Outcome<R> {
    fn promise(&self) -> MutexGuard<'_, Option<Promise<R>>> {
        self.promise.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn complete(&self, result: Result<R, Failure>) {
        let promise = self.promise().take();
        if let Some(promise) = promise {
            within(self.key, || promise.complete(result));
        }
    }
}

impl<R: Send + 'static> End for Outcome<R> {
    fn take(&self) -> Option<Box<dyn FnOnce(Failure)>> {
        let (promise, key) = (self.promise().take()?, self.key);
        Some(Box::new(move |failure| within(key, || promise.complete(Err(failure)))))
    }

    fn is_over(&self) -> bool {
        self.promise().is_none()
    }
}

/// What leads to a task: the future of its end, once there is one.
type Line = OnceLock<Future<()>>;

/// How long a task may take, and whether that was too long. Under a lock: who finds that the task was killed finds this, too.
#[derive(Clone)]
struct Limit {
    time: Duration,
    is_over: Arc<Mutex<bool>>,
}

impl Limit {
    fn is_over(&self) -> bool {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a task when its time is up.
    fn start(self, end: Arc<dyn End>, line: Weak<Line>) -> Future<()> {
        Future::delay(self.time).on_success(move |()| {
            // The promise has the line: gone with it is what leads to the task.
            let line = line.upgrade();
            let Some(fail) = end.take() else { return };
            *self.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
            // First: what follows may wait for the task to heed it.
            if let Some(task) = line.as_deref().and_then(OnceLock::get) {
                task.kill();
            }
            fail(Failure::timed_out());
        })
    }
}

/// Passes kills and interrupts of a task's future on to the task.
struct Handle(Arc<Line>);

impl Producer for Handle {
    fn interrupt(&mut self, why: Interrupt) {
        if let Some(task) = self.0.get() {
            task.interrupt(why);
        }
    }

    fn kill(&mut self) -> Killed {
        self.0.get().map_or(Killed::TooLate, Future::kill)
    }
}
