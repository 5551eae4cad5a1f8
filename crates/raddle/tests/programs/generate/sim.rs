//! The run that the generator makes up while it writes a program down: who owns what, who waits, what is done.

use crate::ir::{Code, Form, From, Kind, Op, Origin, Program, Settled, Statement, Strand, Value};

/// Sets of locks, as bits.
pub(crate) type Locks = u64;

pub(crate) fn bit(lock: usize) -> Locks {
    1 << lock
}

/// Where a strand runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ambient {
    /// On no pool's thread, or on the global pool's.
    Outside,
    Pool(usize),
    Own(Value),
}

#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) form: Form,
    pub(crate) frail: bool,
    pub(crate) owns: Vec<Value>,
    /// Shared futures that were there when it was created, or that it has made.
    pub(crate) sees: Vec<Value>,
    /// Locks up to this one may not be taken here, nor waited for.
    pub(crate) floor: Option<usize>,
    /// Locks that were taken here, or for what was awaited here.
    pub(crate) locks: Locks,
    pub(crate) ambient: Ambient,
    pub(crate) depth: usize,
    /// From the innermost outwards.
    pub(crate) scopes: Vec<usize>,
    pub(crate) over: bool,
    parent: Option<Strand>,
    out: Option<Value>,
    /// How many strands it waits for, within a statement.
    children: usize,
    /// The scope at whose end it waits, or is to.
    ends: Option<usize>,
    left: Vec<Value>,
    failed: bool,
    gained: Locks,
}

#[derive(Debug)]
pub(crate) struct OpenScope {
    owner: Strand,
    pub(crate) floor: Option<usize>,
    pub(crate) ambient: Ambient,
    pub(crate) depth: usize,
    open: usize,
    pub(crate) locks: Locks,
    failed: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) done: bool,
    pub(crate) locks: Locks,
    /// Whether a kill of it reaches nothing that others count on.
    pub(crate) killable: bool,
    /// Of pools: how many strands are there.
    pub(crate) visitors: usize,
}

#[derive(Debug)]
pub(crate) struct Sim {
    pub(crate) program: Program,
    pub(crate) running: Vec<Running>,
    pub(crate) scopes: Vec<OpenScope>,
    pub(crate) known: Vec<Known>,
    /// Strands that are not over and wait for none.
    pub(crate) ready: Vec<Strand>,
}

impl Sim {
    pub(crate) fn new(program: Program) -> Sim {
        let mut sim = Sim {
            program,
            running: Vec::new(),
            scopes: Vec::new(),
            known: Vec::new(),
            ready: Vec::new(),
        };
        sim.strand(None, Form::Main, Ambient::Outside, false);
        sim
    }

    pub(crate) fn say(&mut self, strand: Strand, statement: Statement) {
        self.program.strands[strand].statements.push(statement);
    }

    // --- strands ---

    /// A new strand, created by `parent`, to which nothing has been given.
    pub(crate) fn strand(
        &mut self,
        parent: Option<Strand>,
        form: Form,
        ambient: Ambient,
        frail: bool,
    ) -> Strand {
        let strand = self.running.len();
        self.program.strands.push(Code { form, frail, ..Code::default() });
        let within = matches!(form, Form::Half | Form::Call | Form::Body | Form::Held);
        let from = parent.map(|parent| &self.running[parent]);
        self.running.push(Running {
            form,
            frail,
            owns: Vec::new(),
            sees: from.map_or(Vec::new(), |from| from.sees.clone()),
            floor: from.filter(|_| within).and_then(|from| from.floor),
            locks: 0,
            ambient,
            depth: from.filter(|_| within).map_or(0, |from| from.depth + 1),
            scopes: from.filter(|_| within).map_or(Vec::new(), |from| from.scopes.clone()),
            over: false,
            parent: parent.filter(|_| within),
            out: None,
            children: 0,
            ends: None,
            left: Vec::new(),
            failed: false,
            gained: 0,
        });
        if let Ambient::Own(pool) = ambient {
            self.known[pool].visitors += 1;
        }
        self.ready.push(strand);
        strand
    }

    /// The future of a detached strand.
    pub(crate) fn result(&mut self, strand: Strand) -> Value {
        let frail = self.running[strand].frail;
        let out = self.value(From::Strand(strand), frail);
        self.running[strand].out = Some(out);
        out
    }

    pub(crate) fn give(&mut self, from: Strand, to: Strand, value: Value) {
        self.running[from].owns.retain(|owned| *owned != value);
        self.running[to].owns.push(value);
        self.program.strands[to].takes.push(value);
    }

    /// From now on the strand waits for so many, within a statement.
    pub(crate) fn suspend(&mut self, strand: Strand, children: usize) {
        self.running[strand].children = children;
        self.ready.retain(|ready| *ready != strand);
    }

    /// After what the strand waits for within a statement it takes such locks.
    pub(crate) fn needs_again(&mut self, strand: Strand, locks: Locks) {
        self.running[strand].gained |= locks;
    }

    /// One whose tasks run in such a place.
    pub(crate) fn open_scope(&mut self, owner: Strand, ambient: Ambient) -> usize {
        let Running { floor, depth, .. } = self.running[owner];
        self.program.scopes.push(Default::default());
        self.scopes.push(OpenScope {
            owner,
            floor,
            ambient,
            depth,
            open: 0,
            locks: 0,
            failed: false,
        });
        let scope = self.scopes.len() - 1;
        self.running[owner].ends = Some(scope);
        scope
    }

    pub(crate) fn scope_task(&mut self, by: Strand, level: usize) -> Strand {
        let scope = self.running[by].scopes[level];
        let scopes = self.running[by].scopes[level..].to_vec();
        let OpenScope { floor, ambient, depth, .. } = self.scopes[scope];
        let frail = self.running[by].frail;
        let child = self.strand(Some(by), Form::ScopeTask, ambient, frail);
        let running = &mut self.running[child];
        (running.floor, running.scopes, running.depth) = (floor, scopes, depth + 1);
        self.scopes[scope].open += 1;
        self.program.scopes[scope].strands.push(child);
        child
    }

    /// The strand is over; what it owns is dropped, or goes to the one that waits for it.
    pub(crate) fn close(&mut self, strand: Strand, panics: bool) {
        self.program.strands[strand].panics = panics;
        self.ready.retain(|ready| *ready != strand);
        let running = &mut self.running[strand];
        running.over = true;
        let owned = std::mem::take(&mut running.owns);
        let (parent, locks, ambient) = (running.parent, running.locks, running.ambient);
        let (form, out) = (running.form, running.out);
        match parent {
            Some(parent) if !panics => self.running[parent].left.extend(owned),
            _ => self.program.strands[strand].breaks = self.drop_all(owned),
        }
        if let Some(out) = out {
            self.known[out].done = true;
            self.known[out].locks = locks;
        }
        if let Ambient::Own(pool) = ambient {
            self.known[pool].visitors -= 1;
            self.known[pool].locks |= locks;
        }
        if form == Form::ScopeTask {
            let scope = self.running[strand].scopes[0];
            let open = &mut self.scopes[scope];
            open.open -= 1;
            open.locks |= locks;
            open.failed |= panics;
            let owner = open.owner;
            self.resume(owner);
        }
        if let Some(parent) = parent {
            let running = &mut self.running[parent];
            running.children -= 1;
            running.failed |= panics;
            running.gained |= locks;
            self.resume(parent);
        }
    }

    /// Lets a strand go on if it waits for nothing more.
    fn resume(&mut self, strand: Strand) {
        let running = &mut self.running[strand];
        let scope = running.ends.map(|scope| &self.scopes[scope]);
        if running.children > 0 || scope.is_some_and(|scope| scope.open > 0) {
            return;
        }
        let failed = running.failed || scope.is_some_and(|scope| scope.failed);
        let gained = running.gained | scope.map_or(0, |scope| scope.locks);
        (running.failed, running.gained, running.ends) = (false, 0, None);
        let left = std::mem::take(&mut running.left);
        let owned = running.owns.len();
        running.owns.extend(left);
        // What children have left is settled, or broken, once all of them are over.
        self.absorb(strand, gained);
        if failed {
            let left = self.running[strand].owns.split_off(owned);
            let promises = self.drop_all(left);
            self.say(strand, Statement::Broken { promises });
        }
        self.ready.push(strand);
    }

    /// The strand has taken such locks, or waited for what has: so have the promises that it is to keep.
    pub(crate) fn absorb(&mut self, strand: Strand, locks: Locks) {
        self.running[strand].locks |= locks;
        for value in &self.running[strand].owns {
            if matches!(self.program.values[*value].from, From::Settled(_)) {
                self.known[*value].locks |= locks;
            }
        }
    }

    // --- values ---

    pub(crate) fn value(&mut self, from: From, frail: bool) -> Value {
        let killable = match &from {
            From::Derived(_, inputs) => inputs.iter().all(|input| self.known[*input].killable),
            From::Promise(promise) => self.known[*promise].killable,
            _ => frail,
        };
        self.program.values.push(Origin { from, frail });
        self.known.push(Known { killable, ..Known::default() });
        self.known.len() - 1
    }

    pub(crate) fn derived(&mut self, op: Op, inputs: Vec<Value>) -> Value {
        let frail = inputs.iter().any(|input| self.program.values[*input].frail);
        self.value(From::Derived(op, inputs), frail)
    }

    pub(crate) fn settle(&mut self, promise: Value, settled: Settled) {
        let From::Settled(place) = &mut self.program.values[promise].from else { unreachable!() };
        if matches!(place, Settled::Not) {
            *place = settled;
        }
        self.known[promise].done = matches!(settled, Settled::To(_));
    }

    /// Promises that are dropped are broken; a trigger has been settled from the start.
    fn drop_all(&mut self, mut values: Vec<Value>) -> Vec<Value> {
        values.retain(|value| matches!(self.program.values[*value].from, From::Settled(_)));
        for promise in &values {
            self.settle(*promise, Settled::To(Err(Kind::Broken)));
        }
        values
    }

    /// What a value comes from at once.
    fn inputs(&self, value: Value) -> Vec<Value> {
        match &self.program.values[value].from {
            From::Derived(_, inputs) => inputs.clone(),
            From::Promise(promise) => vec![*promise],
            From::Settled(Settled::Link(to)) => vec![*to],
            _ => Vec::new(),
        }
    }

    /// Whether it is done by now; if so its locks are known.
    pub(crate) fn done(&mut self, value: Value) -> bool {
        if self.known[value].done {
            return true;
        }
        let mut inputs = self.inputs(value);
        if matches!(&self.program.values[value].from, From::Derived(op, _) if op.by_any()) {
            // What the others need nobody has to wait for.
            inputs.retain(|input| self.done(*input));
            inputs.truncate(1);
        }
        if inputs.is_empty() || !inputs.iter().all(|input| self.done(*input)) {
            return false;
        }
        let locks = inputs.iter().fold(0, |locks, input| locks | self.known[*input].locks);
        self.known[value].locks |= locks;
        self.known[value].done = true;
        true
    }

    /// Whether nothing that it comes from is done.
    pub(crate) fn untouched(&mut self, value: Value) -> bool {
        let inputs = self.inputs(value);
        !self.done(value) && inputs.into_iter().all(|input| self.untouched(input))
    }

    pub(crate) fn comes_from(&self, value: Value, source: Value) -> bool {
        let inputs = self.inputs(value);
        value == source || inputs.into_iter().any(|input| self.comes_from(input, source))
    }

    /// Whether the strand may wait for the value: it is done here, so it is done sooner or later everywhere; and for that
    /// nobody needs a lock which is held here, or one before it.
    pub(crate) fn may_wait(&mut self, strand: Strand, value: Value) -> bool {
        let floor = self.running[strand].floor;
        self.done(value) && clear_of(self.known[value].locks, floor)
    }

    pub(crate) fn owned(&self, strand: Strand, which: impl Fn(&From) -> bool) -> Vec<Value> {
        let owns = self.running[strand].owns.iter();
        owns.copied().filter(|value| which(&self.program.values[*value].from)).collect()
    }

    pub(crate) fn futures(&self, strand: Strand) -> Vec<Value> {
        self.owned(strand, |from| !matches!(from, From::Settled(_) | From::Pool))
    }

    pub(crate) fn promises(&self, strand: Strand) -> Vec<Value> {
        self.owned(strand, |from| matches!(from, From::Settled(_)))
    }

    pub(crate) fn own_pools(&self, strand: Strand) -> Vec<Value> {
        self.owned(strand, |from| matches!(from, From::Pool))
    }
}

/// Whether none of these locks is the floor or below it.
pub(crate) fn clear_of(locks: Locks, floor: Option<usize>) -> bool {
    floor.is_none_or(|floor| locks & (u64::MAX >> (63 - floor)) == 0)
}
