//! Random graphs of futures, to which several threads do random things at once.
//!
//! A plan (`plan`) is a graph of promises and operations, and events for 2 to 4 threads: they complete, link and drop
//! promises, interrupt, kill, wait for and drop futures, and attach further operations. The events are in an order in which
//! nobody would wait for ever; each thread keeps to it for its own. What may come of that is said by `judge`. In the end
//! every closure has been called at most once, and all that was made has gone, once.
//!
//! A case that fails prints its seed: `RADDLE_CROWD_SEED=n` plays that one again and again. `RADDLE_STRESS=n` makes the test
//! n times as long, and `RADDLE_CROWD=n` has it play n graphs.
#![allow(missing_docs)]

mod case;
mod judge;
mod plan;
mod play;
#[path = "../futures/support.rs"]
#[allow(dead_code, reason = "the tests of futures want more of it")]
mod support;

use std::hint;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use raddle_core::{Pool, live_nodes};

use self::case::Case;
use self::judge::{Judge, Said};
use self::plan::Plan;
use self::play::Player;
use self::support::{Account, message, quiet, scaled};

/// Cases that are handed out at once, so that threads are seldom waited for.
const BATCH: usize = 32;
const THREADS: usize = 4;

/// Nothing here takes as long.
const HANGS: Duration = Duration::from_secs(120);

/// What threads may keep for later: free blocks, places in lists. Nodes are counted one by one, but for release builds.
const SLACK: isize = (2 << 20) + (256 << 10);

type Batch = Arc<Vec<(Plan, &'static Case)>>;

/// What all threads of a case have to begin with.
fn start_together(plan: &Plan, case: &Case) {
    case.arrived.fetch_add(1, SeqCst);
    for turn in 0.. {
        if case.arrived.load(SeqCst) >= plan.threads {
            return;
        }
        if turn < 100 { hint::spin_loop() } else { thread::yield_now() }
    }
}

/// Notes a panic as a fault of the case.
fn watched(case: &Case, f: impl FnOnce()) {
    if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(f)) {
        case.fault(format!("panicked: {}", message(&*payload)));
    }
}

/// One of the threads, which plays its part in all cases.
fn thread_of(number: usize, pool: &Pool, batches: mpsc::Receiver<Batch>, over: mpsc::Sender<()>) {
    for batch in batches {
        for (plan, case) in batch.iter().filter(|(plan, _)| number < plan.threads) {
            start_together(plan, case);
            watched(case, || Player { plan, case, pool }.play(Some(number)));
            case.left.fetch_add(1, SeqCst);
        }
        drop(batch);
        over.send(()).unwrap();
    }
}

// Never dropped: a thread that hangs would have that hang, too.
static POOL: OnceLock<Pool> = OnceLock::new();
static CASES: OnceLock<Vec<Case>> = OnceLock::new();

struct Crowd {
    pool: &'static Pool,
    hands: Vec<mpsc::Sender<Batch>>,
    over: mpsc::Receiver<()>,
    cases: &'static [Case],
    said: Said,
}

impl Crowd {
    fn new(account: &'static Account) -> Crowd {
        let enter = move |_| Account::enter(Some(account));
        let build = || Pool::builder().threads(2).before_start(enter).build().unwrap();
        let pool = POOL.get_or_init(build);
        let (send_over, over) = mpsc::channel();
        let hands = (0..THREADS).map(|number| {
            let (hand, batches) = mpsc::channel();
            let over = send_over.clone();
            thread::spawn(move || {
                Account::enter(Some(account));
                thread_of(number, pool, batches, over);
            });
            hand
        });
        let cases = CASES.get_or_init(|| (0..BATCH).map(|_| Case::new()).collect());
        Crowd { pool, hands: hands.collect(), over, cases, said: Said::default() }
    }

    fn play(&mut self, seeds: impl Iterator<Item = u64>) {
        let before = live_nodes();
        let plan = |(seed, case): (u64, &'static Case)| {
            case.clear();
            (plan::plan(seed), case)
        };
        let batch: Batch = Arc::new(seeds.zip(self.cases).map(plan).collect());
        for (plan, case) in &*batch {
            watched(case, || Player { plan, case, pool: self.pool }.play(None));
        }
        self.hands.iter().for_each(|hand| hand.send(batch.clone()).unwrap());
        for _ in &self.hands {
            if self.over.recv_timeout(HANGS).is_err() {
                let left = |(plan, case): &&(Plan, &Case)| case.left.load(SeqCst) < plan.threads;
                let (plan, case) = batch.iter().find(left).expect("somebody is not ready");
                report(plan, case, "hangs");
            }
        }
        batch.iter().for_each(|(plan, case)| self.judge(plan, case));
        // Who ends a task may not have freed it yet.
        let begun = Instant::now();
        while live_nodes() != before && begun.elapsed() < HANGS / 10 {
            thread::yield_now();
        }
        let seeds: Vec<u64> = batch.iter().map(|(plan, _)| plan.seed).collect();
        assert_eq!(live_nodes(), before, "nodes after and before the graphs of {seeds:?}");
    }

    fn judge(&mut self, plan: &Plan, case: &'static Case) {
        let begun = Instant::now();
        // A task may be about to end.
        while case.alive() > 0 && begun.elapsed() < HANGS / 10 {
            thread::yield_now();
        }
        if case.alive() > 0 {
            case.fault(format!("{} tokens are left over", case.alive()));
        }
        let mut judge = Judge::new(plan, case);
        judge.judge();
        let said = judge.said;
        if !case.faults.lock().unwrap().is_empty() {
            report(plan, case, "is wrong");
        }
        let all = &mut self.said;
        all.seen += said.seen;
        all.sure += said.sure;
        all.kills += said.kills;
        all.arrived += said.arrived;
        all.called += said.called;
        all.spared += said.spared;
    }
}

fn report(plan: &Plan, case: &Case, what: &str) -> ! {
    for (id, node) in plan.nodes.iter().enumerate() {
        let notes = &case.notes[id];
        let (given, ended) = (notes.given.lock().unwrap(), notes.ended.lock().unwrap());
        let calls = notes.calls.load(SeqCst);
        eprintln!("{id:3} {node:?}: {calls} calls, given {given:?}, ended {ended:?}");
    }
    for (index, (thread, event)) in plan.events.iter().enumerate() {
        eprintln!("event {index} of {thread:?}: {event:?}");
    }
    let faults = case.faults.lock().unwrap();
    let seed = plan.seed;
    panic!(
        "the graph of RADDLE_CROWD_SEED={seed} {what}, by {} threads: {faults:#?}",
        plan.threads
    );
}

/// What a variable of the environment asks for.
fn asked(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

#[test]
fn random_graphs_on_several_threads() {
    quiet();
    let account = Account::open();
    let seed = asked("RADDLE_CROWD_SEED");
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let first = now.as_nanos() as u64;
    let usual = || scaled(if cfg!(debug_assertions) { 20_000 } else { 200_000 });
    let batches =
        asked("RADDLE_CROWD").map_or_else(usual, |graphs| graphs as usize).div_ceil(BATCH);
    let mut crowd = Crowd::new(account);
    let mut steady = None;
    for batch in 0..batches as u64 {
        let from = first.wrapping_add(batch * BATCH as u64);
        crowd.play((from..).map(|number| seed.unwrap_or(number)));
        if batch == batches as u64 / 4 {
            steady = Some(account.live());
        }
    }
    eprintln!("{batches} batches: {:?}", crowd.said);
    if seed.is_none() && batches >= 10 {
        let Said { seen, sure, kills, arrived, called, spared } = crowd.said;
        assert!(sure > seen / 2, "most is sure: {:?}", crowd.said);
        assert!(kills > 0 && arrived > 0 && called > 0 && spared > 0, "{:?}", crowd.said);
    }
    let grown = account.live() - steady.expect("there is more than one");
    assert!(grown < SLACK, "{grown} bytes left behind");
}
