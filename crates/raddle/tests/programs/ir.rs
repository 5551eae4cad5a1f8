//! What a program is.
//!
//! A program is a list of *strands*: pieces of code that run once, each a list of statements: the bodies of tasks, of
//! threads, of halves of a join, of scopes and of what runs while a lock is held. A strand owns *values*, numbered over
//! the whole program: futures, promises, pools. It hands them down to the strands that it creates, each to one. Shared
//! futures are seen by whatever is created after them.
//!
//! | term     | what it is                                                                              |
//! |----------|-----------------------------------------------------------------------------------------|
//! | strand   | code that runs once, and makes a number of what it meets                                  |
//! | frail    | may be killed or interrupted before it runs: nobody counts on it, nor on what it makes     |
//! | formula  | code without values of its own, a tree of forks, scopes, tasks and waits: see [`Formula`] |
//! | call     | a closure given to an operation on a future, with a formula                              |

pub(crate) type Strand = usize;
pub(crate) type Value = usize;

#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) seed: u64,
    /// Threads of each pool that lives throughout.
    pub(crate) pools: Vec<usize>,
    pub(crate) locks: Vec<LockKind>,
    pub(crate) strands: Vec<Code>,
    pub(crate) values: Vec<Origin>,
    pub(crate) scopes: Vec<ScopeTasks>,
    pub(crate) calls: Vec<Call>,
}

#[derive(Debug, Default)]
pub(crate) struct Code {
    pub(crate) statements: Vec<Statement>,
    /// What it is given.
    pub(crate) takes: Vec<Value>,
    /// Promises that are dropped at its end.
    pub(crate) breaks: Vec<Value>,
    pub(crate) form: Form,
    pub(crate) panics: bool,
    pub(crate) frail: bool,
}

/// What starts a strand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    #[default]
    Main,
    Thread,
    Task,
    Async,
    ScopeTask,
    /// Half of a join.
    Half,
    /// Of `Pool::run`.
    Call,
    /// Of a scope.
    Body,
    /// What a lock is held for.
    Held,
}

/// What was spawned in a scope, from wherever.
#[derive(Debug, Default)]
pub(crate) struct ScopeTasks {
    pub(crate) strands: Vec<Strand>,
    pub(crate) many: Vec<(usize, Formula)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockKind {
    Mutex,
    ReadWrite,
    Reentrant,
    Std,
}

/// How a lock is held; not all kinds can be in all ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grip {
    Alone,
    /// Alone, and with a time limit while it waits for it.
    Timed,
    Read,
    /// By two guards.
    ReadAgain,
    /// As the reader that writes in the end.
    Upgrade,
    /// As the writer that only reads from then on.
    Downgrade,
    /// At so many levels.
    Deep(usize),
}

/// Which pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// That of the code that asks, or the global one.
    Here,
    /// One of the program's.
    Pool(usize),
    /// One that the strand has made.
    Own(Value),
}

#[derive(Clone, Debug)]
pub(crate) enum Statement {
    Formula(Formula),
    Spawn {
        place: Place,
        child: Strand,
        out: Value,
    },
    Async {
        place: Place,
        child: Strand,
        out: Value,
    },
    Thread {
        child: Strand,
        out: Value,
    },
    Join {
        place: Place,
        by_worker: bool,
        first: Strand,
        second: Strand,
    },
    Run {
        place: Place,
        child: Strand,
    },
    Scope {
        place: Place,
        scope: usize,
        body: Strand,
    },
    /// Into the scope that is so many levels further out.
    ScopeSpawn {
        level: usize,
        scope: usize,
        child: Strand,
    },
    /// The same formula as several tasks; the one of `Program::scopes` with this number.
    ScopeMany {
        level: usize,
        scope: usize,
        many: usize,
    },
    Hold {
        lock: usize,
        grip: Grip,
        child: Strand,
    },
    Promise {
        promise: Value,
        future: Value,
        kind: PromiseKind,
    },
    /// As the promise's origin says.
    Settle {
        promise: Value,
    },
    Wait {
        value: Value,
        how: How,
    },
    WaitAll {
        values: Vec<Value>,
        in_turn: bool,
    },
    /// So many of them, whichever are first; the others are dropped.
    WaitAny {
        values: Vec<Value>,
        count: usize,
        by: Any,
    },
    /// Some times here, or once by each of so many tasks of a scope; the value stays.
    WaitRef {
        value: Value,
        tasks: usize,
    },
    Share {
        value: Value,
        out: Value,
    },
    /// One more consumer's future of a shared one.
    Again {
        shared: Value,
        out: Value,
    },
    /// As the origin of `out` says.
    Derive {
        out: Value,
    },
    Drop {
        value: Value,
    },
    Kill {
        value: Value,
    },
    Interrupt {
        value: Value,
    },
    NewPool {
        out: Value,
        threads: usize,
    },
    /// Promises that were left by strands of which one has panicked are gone now.
    Broken {
        promises: Vec<Value>,
    },
    /// Of an async strand: goes to the back of the queue. Of others: yields the processor.
    Yield,
    /// Of a frail task: returns early if it is killed.
    AskKilled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Wait,
    Timeout,
    /// By `.await`, in async strands.
    Await,
    /// Within `raddle::blocking`.
    Blocking,
    /// So too, for a channel of `std` into which a continuation puts the result.
    Channel,
}

/// By which function any of several is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Any {
    WaitAny,
    Completed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PromiseKind {
    Plain,
    /// Any number may complete it, of which the first does.
    Shared,
    /// Frail: it fails if it is interrupted before it is set.
    Handled,
    /// It fails when it is interrupted, and that comes to pass when what stands for the promise is settled or dropped.
    Trigger,
}

/// Why there is no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Panicked,
    Broken,
    Error,
    Interrupted,
    Killed,
    /// Never expected.
    Other,
}

pub(crate) type Outcome = Result<u64, Kind>;

/// Where a value comes from, which is also what becomes of it.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) from: From,
    pub(crate) frail: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum From {
    /// The result of a task, an async task or a thread.
    Strand(Strand),
    /// What a promise is completed with, by its number as a value.
    Promise(Value),
    Derived(Op, Vec<Value>),
    /// Of promises: what they are completed with.
    Settled(Settled),
    Pool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Settled {
    Not,
    To(Outcome),
    /// Linked to a future.
    Link(Value),
}

/// An operation on futures; those with a number call `Program::calls` with that.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// Another handle: shared, or a consumer of that.
    Same,
    Map(usize),
    /// `and_then` that fails.
    Fail(usize),
    MapPanics(usize),
    FlatReady(usize),
    /// `flat_map` to a task that is spawned in that pool of the program's.
    FlatSpawn(usize, usize),
    /// `flat_map` to the second input.
    FlatInput(usize),
    Recover(usize),
    Rescue(usize),
    Transform(usize),
    OnComplete(usize),
    Ensure(usize),
    Within,
    InterruptAfter,
    /// By so many microseconds.
    Delayed(u64),
    Masked,
    On(usize),
    Zip,
    Collect,
    JoinAll,
    CollectResults,
    /// The second input if the first fails.
    Or,
    /// Whichever is done first; all are made the same before.
    First,
    /// As `First`, by `select`.
    Select,
    /// Several handles of one future race, each by another way, which may lead through that pool.
    Against(usize),
    /// Races what never comes.
    Alone,
}

impl Op {
    /// Whether it is done as soon as one of its inputs is.
    pub(crate) fn by_any(&self) -> bool {
        matches!(self, Op::First | Op::Select)
    }
}

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) formula: Formula,
}

/// Structured code: all that it starts it waits for, so it ends wherever it runs.
#[derive(Clone, Debug)]
pub(crate) enum Formula {
    /// So many turns of an empty loop.
    Work(u32),
    Join(Box<(Formula, Formula)>),
    /// By `Pool::join`.
    JoinIn {
        pool: usize,
        halves: Box<(Formula, Formula)>,
    },
    /// A tree of `Worker::join`, so deep, in a pool of the program's, or where it is.
    Tree {
        place: Place,
        depth: u32,
    },
    /// So many tasks; each may spawn its successor instead of the body.
    Scope {
        place: Place,
        count: usize,
        chained: bool,
        task: Box<Formula>,
    },
    /// So many tasks, all spawned before any is waited for.
    Spawns {
        place: Place,
        count: usize,
        order: Order,
        task: Box<Formula>,
    },
    /// Each task waits for the one before it, which is passed into its closure.
    Relay {
        place: Place,
        count: usize,
        task: Box<Formula>,
    },
    /// So many tasks that wait for a promise each; the setters are spawned before or after.
    Promised {
        place: Place,
        means: Means,
        count: usize,
        setters_first: bool,
        task: Box<Formula>,
    },
    /// So many tasks, each of which waits on a condition until it is its turn.
    Turns {
        place: Place,
        count: usize,
        last_first: bool,
        task: Box<Formula>,
    },
    /// Consumers of one shared task.
    Shares {
        place: Place,
        count: usize,
        task: Box<Formula>,
    },
    Run {
        pool: usize,
        inner: Box<Formula>,
    },
    Hold {
        lock: usize,
        grip: Grip,
        inner: Box<Formula>,
    },
    /// An async task that yields so often and awaits a task each time.
    Async {
        pool: usize,
        turns: usize,
        task: Box<Formula>,
    },
    /// A map on another pool.
    On {
        pool: usize,
        task: Box<Formula>,
    },
    /// A pool of its own, which is dropped while so many tasks are queued there.
    OwnPool {
        manner: Manner,
        threads: usize,
        count: usize,
        task: Box<Formula>,
    },
    /// A pool of its own in which all is killed, at once or when the first of so many tasks is over.
    KillAll {
        threads: usize,
        at_once: bool,
        count: usize,
        task: Box<Formula>,
    },
    /// A consumer of a shared future of the program.
    Await(Value),
    /// The first half of a join panics, which is caught.
    Catch(Box<Formula>),
}

/// Of a pool of a formula's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    Usual,
    /// Something is called on all of its threads, by some of its tasks and from outside.
    Broadcast,
    /// Threads that wait take on anything: its tasks wait for nothing but what they have started.
    Host,
}

/// By what one task tells another something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Means {
    Promise,
    /// Waited for within `raddle::blocking`.
    Blocking,
    /// Of `std`, so too.
    Channel,
    /// A shared promise, which so many want to set.
    Rivals(usize),
}

impl Means {
    /// How many tell it.
    pub(crate) fn setters(self) -> usize {
        if let Means::Rivals(count) = self { count } else { 1 }
    }
}

/// How a number of futures is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Forward,
    Backward,
    /// Inwards from both ends.
    Mixed,
    Collect,
    JoinAll,
    Completed,
    Any,
}
