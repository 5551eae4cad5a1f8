//! What a program is.
//!
//! A program has *roots*, each run by a thread from outside, at the same time. A root is a tree of nodes. A node takes a number
//! and makes one of it, whatever runs where: children get numbers that are made of their parent's, and of which of several they
//! are. Or it panics, which is as certain.

#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) pools: Vec<PoolSpec>,
    pub(crate) roots: Vec<Node>,
    /// What makes the values of cells that are made once.
    pub(crate) cells: Vec<(CellKind, Node)>,
}

/// The first is the global pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolSpec {
    pub(crate) kind: PoolKind,
    pub(crate) threads: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoolKind {
    /// rayon's, or raddle's own if that came first.
    Global,
    /// `rayon::ThreadPool`
    Team,
    /// `raddle::Pool`
    Native,
    /// `raddle::Pool` of `Waits::Host`
    NativeHost,
}

#[derive(Debug)]
pub(crate) enum Node {
    /// So many turns of an empty loop.
    Leaf(u32),
    /// One after the other, each with what the one before it has made.
    Seq(Vec<Node>),
    /// A scope local is bound, owned.
    Bind(u64, Box<Node>),
    /// Another one is bound, borrowed.
    Lend(u64, Box<Node>),
    /// In a snapshot of all that is bound.
    Snapshot(Box<Node>),
    /// One of so many panics.
    Panic(u64),
    Catch(Box<Node>),
    Pair(Fork, Box<[Node; 2]>),
    /// A tree of forks, so deep, of leaves.
    Tree(Fork, u32),
    /// So many forks, each in the second half (or the first) of the one before.
    Chain(Fork, bool, u32),
    Loop(Loop, u32, Box<Node>),
    Scope(ScopeKind, Spread, u32, Box<Node>),
    /// Tasks that nobody waits for.
    Detached(Detached, u32, Box<Node>),
    /// Tasks that nobody waits for, and that panic.
    Handled(u32),
    /// Something is spawned, and waited for by yielding.
    Spun(Spun, Box<Node>),
    Broadcast(Broadcast, Box<Node>),
    /// In one of the program's pools.
    Enter(usize, Way, Box<Node>),
    /// In a pool that is built for that.
    Fresh(Fresh, usize, Box<Node>),
    Futures(Futures, u32, Box<Node>),
    /// So many tasks, which are killed or interrupted, and may make nothing.
    Frail(Frail, u32, Box<Node>),
    /// While a lock of the pool is held.
    Hold(usize, Grip, Box<Node>),
    /// The value of a cell.
    Cell(usize),
    /// What the pool records from now on.
    Trace(u8),
    /// Nothing happens for so many microseconds.
    Nap(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fork {
    Rayon,
    Context,
    Raddle,
    Worker,
    /// Both by a scope.
    Scope,
}

/// Parallel loops. All give the sum of what is made of the indices, but for those marked: in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loop {
    Reduce,
    /// With one item for each job.
    Single,
    /// In order.
    Collect,
    /// In order.
    Zip,
    /// In order, by chunks of so many.
    Chunks(usize),
    /// In order.
    ChunksMut(usize),
    /// Those that are odd.
    Filter,
    /// Three of each.
    FlatMap,
    FlatMapIter,
    Fold,
    Bridge,
    /// Sorted by what is made of them, then in order.
    SortCached,
    /// Sorted by a comparison that forks, then in order.
    SortBy,
    SortUnstable,
    /// The one that is looked for.
    FindAny,
    FindFirst,
    /// The error of the one that has one.
    TryForEach,
    TryReduce,
    Blocks,
    WalkTree,
    Partition,
    Chain,
    /// Of raddle: in order.
    ParCollect,
    ParReduce,
    /// In order.
    ParEach,
    ParChunks(usize),
    ParSort,
    ParFindAny,
    /// In order.
    ParScan,
}

impl Loop {
    /// Whether an item may be left out.
    pub(crate) fn ends_early(self) -> bool {
        matches!(
            self,
            Loop::FindAny | Loop::FindFirst | Loop::TryForEach | Loop::TryReduce | Loop::ParFindAny
        )
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScopeKind {
    Usual,
    Fifo,
    InPlace,
    InPlaceFifo,
    Raddle,
}

/// How tasks of a scope come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    Flat,
    /// Each spawns the next.
    Chained,
    /// Each spawns two more, by its index.
    Tree,
    /// Each opens a scope of its own for the next.
    Nested,
    /// Each is on every thread.
    Everywhere,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detached {
    Spawn,
    Fifo,
    /// Each spawns the next.
    Chained,
    /// On each thread.
    Broadcast,
    Future,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spun {
    Spawn,
    Fifo,
    /// By `yield_local` until there is nothing any more, and `yield_now` then.
    Local,
    /// A future of raddle's, which is polled.
    Raddle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broadcast {
    Rayon,
    Raddle,
}

/// How a pool is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// `install` or `Pool::run`
    Call,
    Join,
    Scope,
    /// A task, for which the caller waits by a scope that is its own.
    InPlace,
    /// A task, for which the caller waits otherwise.
    Spawn,
}

/// Pools that are built and dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fresh {
    Team,
    /// By threads of a `thread::scope`.
    Scoped,
    /// A thread of the system is its first thread.
    CurrentThread,
    Native,
    NativeHost,
    /// Tasks are still queued as it is dropped.
    Dropped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Futures {
    Forward,
    Backward,
    Collect,
    JoinAll,
    WaitAll,
    Completed,
    Any,
    /// Operations after each.
    Ops,
    Zip,
    /// Promises that are set by tasks of rayon's.
    Promised,
    /// Promises that are set by a thread of the system.
    FromOutside,
    /// A long chain of continuations.
    Long,
    Shared,
    Window,
    TailLoop,
    Async,
    Timeout,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frail {
    Kill,
    Interrupt,
    /// By a time limit.
    Within,
    /// Dropped, and so interrupted.
    CancelOnDrop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grip {
    Std,
    StdBlocking,
    StdRead,
    Mutex,
    Read,
    Write,
    Header,
    Reentrant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CellKind {
    Std,
    Raddle,
}
