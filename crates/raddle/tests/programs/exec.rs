//! Runs strands on raddle.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use raddle::{Future, Killed, Pool, Promise, Scope, Worker};

use crate::derive;
use crate::formula::{Context, eval};
use crate::ir::{How, Kind, Outcome, Place, Statement, Strand, Value};
use crate::oracle::{digest, part, salt, scoped};
use crate::promise::{Settler, promise_of};
use crate::rng::mix;
use crate::world::{OVER, Token, World, builder, killable_task, panic_on_purpose};

/// Longer than any program takes.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// What a strand owns.
pub(crate) type Values = BTreeMap<Value, Held>;

pub(crate) enum Held {
    Future(Future<u64>),
    Promise(Settler),
    Pool(Pool),
}

/// The scopes that a strand may spawn into, from the innermost outwards.
pub(crate) trait Spawner: Sync {
    fn spawn(&self, scope: usize, start: Start);
    fn many(&self, context: Context, scope: usize, many: usize);
    fn outer(&self) -> Option<&dyn Spawner>;
}

struct Level<'scope, 'r> {
    scope: &'r Scope<'scope>,
    outer: Option<&'scope dyn Spawner>,
}

impl<'scope> Spawner for Level<'scope, '_> {
    fn spawn(&self, scope: usize, start: Start) {
        let outer = self.outer;
        self.scope.spawn(move |inner| {
            let world = start.world;
            let (value, _) = start.run(Some(&Level { scope: inner, outer }), None);
            world.sums[scope].fetch_add(value, SeqCst);
        });
    }

    fn many(&self, context: Context, scope: usize, many: usize) {
        let world = context.world;
        let (count, formula) = &world.program.scopes[scope].many[many];
        for index in 0..*count {
            self.scope.spawn(move |_| {
                context.count();
                let one = eval(context, formula, salt(scope, many << 20 | index), None);
                world.sums[scope].fetch_add(part(index, one), SeqCst);
            });
        }
    }

    fn outer(&self) -> Option<&dyn Spawner> {
        self.outer
    }
}

/// A strand that is about to run, with all that it is given: what closures capture.
pub(crate) struct Start {
    pub(crate) world: &'static World,
    strand: Strand,
    values: Values,
    token: Token,
}

impl Start {
    pub(crate) fn main(world: &'static World) -> Start {
        Start { world, strand: 0, values: Values::new(), token: world.token() }
    }

    fn begin(self) -> (State, Token) {
        self.world.starts[self.strand].fetch_add(1, SeqCst);
        let Start { world, strand, values, token } = self;
        (State { world, strand, values, acc: strand as u64 }, token)
    }

    /// Runs it here, and returns what it has left over.
    pub(crate) fn run(self, here: Option<&dyn Spawner>, worker: Option<&Worker>) -> (u64, Values) {
        let (mut state, _token) = self.begin();
        for (index, statement) in state.code().statements.iter().enumerate() {
            if state.at(index, statement).is_none() {
                break;
            }
            if let Some(part) = state.step(index, statement, here, worker) {
                state.acc = mix(state.acc, part);
            }
        }
        state.end()
    }

    /// As the body of a scope.
    fn run_in<'scope>(
        self,
        scope: &Scope<'scope>,
        outer: Option<&'scope dyn Spawner>,
    ) -> (u64, Values) {
        self.run(Some(&Level { scope, outer }), None)
    }

    async fn run_async(self) -> u64 {
        let (mut state, _token) = self.begin();
        for (index, statement) in state.code().statements.iter().enumerate() {
            if state.at(index, statement).is_none() {
                break;
            }
            let part = match statement {
                Statement::Yield => {
                    yield_now().await;
                    None
                }
                Statement::Wait { value, how: How::Await } => {
                    let result = state.future(*value).await;
                    state.waited(*value, &result)
                }
                _ => state.step(index, statement, None, None),
            };
            if let Some(part) = part {
                state.acc = mix(state.acc, part);
            }
        }
        state.end().0
    }
}

/// A strand that runs.
pub(crate) struct State {
    pub(crate) world: &'static World,
    pub(crate) strand: Strand,
    pub(crate) values: Values,
    acc: u64,
}

impl State {
    pub(crate) fn code(&self) -> &'static crate::ir::Code {
        &self.world.program.strands[self.strand]
    }

    /// Notes where it is; `None` if it has been told to go no further.
    fn at(&self, index: usize, statement: &Statement) -> Option<()> {
        self.world.at[self.strand].store(index as u32 + 1, SeqCst);
        (!matches!(statement, Statement::AskKilled) || !raddle::killed()).then_some(())
    }

    fn end(self) -> (u64, Values) {
        self.world.at[self.strand].store(OVER, SeqCst);
        if self.code().panics {
            drop(self.values);
            panic_on_purpose();
        }
        (self.acc, self.values)
    }

    fn context(&self) -> Context {
        Context { world: self.world, counted: !self.code().frail }
    }

    fn start(&mut self, strand: Strand) -> Start {
        let takes = &self.world.program.strands[strand].takes;
        let give = |value: &Value| {
            (*value, self.values.remove(value).expect("a strand has what it gives away"))
        };
        let values = takes.iter().map(give).collect();
        Start { world: self.world, strand, values, token: self.world.token() }
    }

    pub(crate) fn future(&mut self, value: Value) -> Future<u64> {
        match self.values.remove(&value) {
            Some(Held::Future(future)) => future,
            _ => panic!("strand {} has no future v{value}", self.strand),
        }
    }

    pub(crate) fn seen(&self, value: Value) -> &Future<u64> {
        match &self.values[&value] {
            Held::Future(future) => future,
            _ => panic!("strand {} has no future v{value}", self.strand),
        }
    }

    pub(crate) fn keep(&mut self, value: Value, future: Future<u64>) {
        self.values.insert(value, Held::Future(future));
    }

    fn own_pool(&self, value: Value) -> &Pool {
        match &self.values[&value] {
            Held::Pool(pool) => pool,
            _ => panic!("strand {} has no pool v{value}", self.strand),
        }
    }

    pub(crate) fn by(&self) -> String {
        format!("strand {}", self.strand)
    }

    /// What came of a strand that ran within this one; what it has left over is this one's.
    fn absorb(&mut self, result: Result<(u64, Values), Kind>) -> Outcome {
        result.map(|(value, values)| {
            self.values.extend(values);
            value
        })
    }

    /// Does what the statement says, and returns what it contributes to the strand's value.
    fn step(
        &mut self,
        index: usize,
        statement: &'static Statement,
        here: Option<&dyn Spawner>,
        worker: Option<&Worker>,
    ) -> Option<u64> {
        let world = self.world;
        match statement {
            Statement::Formula(formula) => {
                return Some(eval(self.context(), formula, salt(self.strand, index), worker));
            }
            Statement::Spawn { place, child, out } => {
                let start = self.start(*child);
                let run = move || start.run(None, None).0;
                let future = match place {
                    Place::Here => raddle::spawn(run),
                    Place::Pool(pool) => world.pool(*pool).spawn(run),
                    Place::Own(pool) => self.own_pool(*pool).spawn(run),
                };
                self.keep(*out, future);
            }
            Statement::Async { place, child, out } => {
                let start = self.start(*child);
                let future = match place {
                    Place::Pool(pool) => world.pool(*pool).spawn_async(start.run_async()),
                    _ => Future::from_async(start.run_async()),
                };
                self.keep(*out, future);
            }
            Statement::Thread { child, out } => {
                let start = self.start(*child);
                let (promise, future) = Promise::new();
                let thread = std::thread::spawn(move || promise.set(start.run(None, None).0));
                world.threads.lock().unwrap().push(thread);
                self.keep(*out, future);
            }
            Statement::Join { place, by_worker, first, second } => {
                let (first, second) = (self.start(*first), self.start(*second));
                let joined = world.catch(&self.by(), || {
                    if let (Place::Here, Some(worker), true) = (place, worker, by_worker) {
                        return worker
                            .join(|w| first.run(here, Some(w)), |w| second.run(here, Some(w)));
                    }
                    let (first, second) = (|| first.run(here, None), || second.run(here, None));
                    match place {
                        Place::Here => raddle::join(first, second),
                        Place::Pool(pool) => world.pool(*pool).join(first, second),
                        Place::Own(pool) => self.own_pool(*pool).join(first, second),
                    }
                });
                let both = joined.map(|((a, mut values), (b, more))| {
                    values.extend(more);
                    (mix(a, b), values)
                });
                return Some(digest(&self.absorb(both)));
            }
            Statement::Run { place, child } => {
                let start = self.start(*child);
                let run = |worker: &Worker| start.run(here, Some(worker));
                let result = world.catch(&self.by(), || match place {
                    Place::Here => Pool::global().run(run),
                    Place::Pool(pool) => world.pool(*pool).run(run),
                    Place::Own(pool) => self.own_pool(*pool).run(run),
                });
                return Some(digest(&self.absorb(result)));
            }
            Statement::Scope { place, scope, body } => {
                let start = self.start(*body);
                let result = world.catch(&self.by(), || match place {
                    Place::Here => raddle::scope(|inner| start.run_in(inner, here)),
                    Place::Pool(pool) => world.pool(*pool).scope(|inner| start.run_in(inner, here)),
                    Place::Own(pool) => {
                        self.own_pool(*pool).scope(|inner| start.run_in(inner, here))
                    }
                });
                let sum = world.sums[*scope].load(SeqCst);
                return Some(digest(&self.absorb(result).and_then(|body| scoped(body, sum))));
            }
            Statement::ScopeSpawn { level, scope, child } => {
                let start = self.start(*child);
                reach(here, *level).spawn(*scope, start);
            }
            Statement::ScopeMany { level, scope, many } => {
                reach(here, *level).many(self.context(), *scope, *many);
            }
            Statement::Hold { lock, grip, child } => {
                let start = self.start(*child);
                let result = world
                    .catch(&self.by(), || world.hold(*lock, *grip, || start.run(here, worker)));
                return Some(digest(&self.absorb(result)));
            }
            Statement::Promise { promise, future, kind } => {
                let (settler, made) = promise_of(*kind);
                self.values.insert(*promise, Held::Promise(settler));
                self.keep(*future, made);
            }
            Statement::Settle { promise } => self.settle(*promise),
            Statement::Wait { value, how } => return self.wait(*value, *how),
            Statement::WaitAll { values, in_turn } => return Some(self.wait_all(values, *in_turn)),
            Statement::WaitAny { values, count, by } => {
                return Some(self.wait_any(values, *count, *by));
            }
            Statement::WaitRef { value, tasks } => self.wait_ref(*value, *tasks),
            Statement::Share { value, out } => {
                let shared = self.future(*value).shared();
                assert!(world.shared[*out].set(shared).is_ok(), "shared twice");
            }
            Statement::Again { shared, out } => {
                let future = world.shared[*shared].get().expect("created before").future();
                self.keep(*out, future);
            }
            Statement::Derive { out } => derive::derive(self, *out),
            Statement::Drop { value } => drop(self.values.remove(value)),
            Statement::Kill { value } => {
                let killed = self.seen(*value).kill();
                if let (Killed::BeforeStart, Some(strand)) =
                    (killed, killable_task(world.program, *value))
                {
                    world.never[strand].store(true, SeqCst);
                }
            }
            Statement::Interrupt { value } => self.seen(*value).interrupt("not wanted"),
            Statement::NewPool { out, threads } => {
                let pool = builder(*threads).build().unwrap();
                self.values.insert(*out, Held::Pool(pool));
            }
            Statement::Yield => std::thread::yield_now(),
            Statement::AskKilled | Statement::Broken { .. } => {}
        }
        None
    }
}

fn reach(here: Option<&dyn Spawner>, level: usize) -> &dyn Spawner {
    let mut spawner = here.expect("within a scope");
    for _ in 0..level {
        spawner = spawner.outer().expect("within so many scopes");
    }
    spawner
}

/// Pending once, and woken at once.
pub(crate) async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}
