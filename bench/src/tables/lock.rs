//! What locks cost: uncontended, fought for, waited on, and in great numbers.
//!
//! Rows of other runtimes can be put beside these by the names of their sections.

mod condition;
mod contended;
mod peers;
mod places;
mod queues;
mod readers;

use std::{cell::RefCell, hint::black_box, rc::Rc, time::Duration, time::Instant};

use crate::{
    args::Settings,
    harness::{Contender, Group, Table},
    machine,
    report::{Budget, Limit},
    tables::count,
};
use condition::{Turn, ping_pong};
use peers::{
    Fat, Header, Lock, LockApi, Mutex, ParkingLot, ParkingLotReentrant, Reentrant, Spin, Std, Usync,
};
use readers::Shared;

const PAIR: &str = "lock and unlock, nobody else";
const SEED: &str = "a billion locks and unlocks";
const TRY: &str = "try_lock, held by another";
const FAIR: &str = "lock and fair unlock, nobody else";
const PING_PONG: &str = "wait and notify, there and back";
const MANY: &str = "a million locks, each taken once";
const MANY_BYTES: &str = "a million locks, memory of each";
const THROUGHPUT: &str = "throughput";
const P99: &str = "99 % of waits over 20 us";
const WORST: &str = "worst wait";
const LEVELS: [u32; 4] = [1, 2, 4, 8];
const THREADS: [usize; 4] = [2, 4, 8, 16];
const INSIDE: [Duration; 3] = [Duration::ZERO, Duration::from_nanos(100), Duration::from_micros(2)];
/// The names that others are divided by.
const REFERENCES: &[&str] = &["parking_lot", "std"];

pub(crate) fn table(settings: &Settings) -> Table {
    let mut groups = vec![
        group("ns", uncontended(settings)),
        group("ns", places::rows(settings)),
        group("ns", readers::rows(settings)),
        group("ms", seed_program(settings)),
        group("us", conditions(settings)),
    ];
    // Before anything else has made the allocator keep memory.
    if machine::resident().is_some() {
        groups.push(group("B", memory(settings)));
    }
    groups.push(group("ns", many(settings)));
    for inside in INSIDE {
        groups.push(group("ns", fights(settings, inside)));
        groups.push(group("us", waits(settings, inside)));
    }
    groups.push(group("x", shares(settings)));
    groups.push(group("ns", queues::rows(settings)));
    if machine::system_time().is_some() {
        groups.push(group("ms", queues::system(settings)));
    }
    Table {
        about: "ns, us or ms per operation; fights: wall time per critical section of all threads",
        rounds: 7,
        groups,
        budgets: budgets(),
    }
}

fn group(unit: &'static str, contenders: Vec<Contender>) -> Group {
    Group { unit, references: REFERENCES, ceiling: None, contenders }
}

/// Nanoseconds per call.
fn each(times: u32, mut call: impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..times).for_each(|_| call());
    start.elapsed().as_nanos() as f64 / f64::from(times)
}

fn uncontended(settings: &Settings) -> Vec<Contender> {
    let times = settings.size(2_000_000, 1_000);
    fn pair<L: Lock>(section: &str, name: &str, times: u32) -> Contender {
        let lock = L::make();
        Contender::new(section, name, move || each(times, || drop(lock.take())))
    }
    let mut all = vec![
        pair::<Mutex>(PAIR, Mutex::NAME, times),
        pair::<Header>(PAIR, Header::NAME, times),
        pair::<Fat>(PAIR, Fat::NAME, times),
        pair::<LockApi>(PAIR, LockApi::NAME, times),
        pair::<ParkingLot>(PAIR, ParkingLot::NAME, times),
        pair::<Std>(PAIR, Std::NAME, times),
        pair::<Usync>(PAIR, Usync::NAME, times),
        pair::<Spin>(PAIR, Spin::NAME, times),
    ];
    // The reference is parking_lot's lock of the same kind here.
    for levels in LEVELS {
        let section = levels_section(levels);
        all.push(nested::<Reentrant>(&section, Reentrant::NAME, levels, times));
        all.push(nested::<Header>(&section, Header::NAME, levels, times));
        all.push(nested::<ParkingLotReentrant>(&section, "parking_lot", levels, times));
    }
    all.push(attempt::<Mutex>(times));
    all.push(attempt::<ParkingLot>(times));
    all.push(attempt::<Std>(times));
    all.push(attempt::<Usync>(times));
    let mutex = raddle::lock::Mutex::new(());
    all.push(Contender::new(FAIR, Mutex::NAME, move || {
        each(times, || raddle::lock::MutexGuard::unlock_fair(black_box(&mutex).lock()))
    }));
    let mutex = parking_lot::Mutex::new(());
    all.push(Contender::new(FAIR, ParkingLot::NAME, move || {
        each(times, || parking_lot::MutexGuard::unlock_fair(black_box(&mutex).lock()))
    }));
    all
}

fn levels_section(levels: u32) -> String {
    format!("re-entrant lock and unlock, {}", count(levels as usize, "level"))
}

/// Per pair of a lock and its unlock.
fn nested<L: Lock>(section: &str, name: &str, levels: u32, times: u32) -> Contender {
    fn descend<L: Lock>(lock: &L, levels: u32) {
        let _guard = lock.take();
        if levels > 1 {
            descend(lock, levels - 1);
        }
    }
    let lock = L::make();
    let times = times / levels;
    Contender::new(section, name, move || {
        each(times, || descend(&lock, black_box(levels))) / f64::from(levels)
    })
}

fn attempt<L: Lock>(times: u32) -> Contender {
    Contender::new(TRY, L::NAME, move || {
        let lock = L::make();
        let _held = lock.take();
        std::thread::scope(|s| {
            let tries = || each(times, || assert!(lock.try_take().is_none()));
            s.spawn(tries).join().expect("no panic")
        })
    })
}

/// The program that .NET's thin locks were measured with (dotnet/runtime #79519): a loop of a billion,
/// with an empty body, in milliseconds. Fewer without `--full`, and then extrapolated.
fn seed_program(settings: &Settings) -> Vec<Contender> {
    const BILLION: f64 = 1e9;
    let times = if settings.full { BILLION as u32 } else { settings.size(10_000_000, 1_000) };
    fn row<L: Lock>(name: &str, times: u32) -> Contender {
        let lock = L::make();
        Contender::new(SEED, name, move || each(times, || drop(lock.take())) * BILLION / 1e6)
    }
    vec![
        row::<Header>("raddle, thin", times),
        row::<Fat>("raddle, fat", times),
        row::<ParkingLot>(ParkingLot::NAME, times),
        row::<Std>(Std::NAME, times),
    ]
}

fn conditions(settings: &Settings) -> Vec<Contender> {
    fn row<T: Turn>(rounds: u32) -> Contender {
        Contender::new(PING_PONG, T::NAME, move || ping_pong::<T>(rounds))
    }
    let rounds = settings.size(2_000, 20);
    vec![
        row::<condition::Raddle>(rounds),
        row::<condition::Header>(rounds),
        row::<condition::ParkingLot>(rounds),
        row::<condition::Std>(rounds),
    ]
}

fn make_many<L: Lock>(many: u32) -> Vec<L> {
    let locks: Vec<L> = (0..many).map(|_| L::make()).collect();
    locks.iter().for_each(|lock| drop(lock.take()));
    locks
}

fn many(settings: &Settings) -> Vec<Contender> {
    fn row<L: Lock>(many: u32) -> Contender {
        Contender::new(MANY, L::NAME, move || {
            let start = Instant::now();
            drop(black_box(make_many::<L>(many)));
            start.elapsed().as_nanos() as f64 / f64::from(many)
        })
    }
    let many = settings.size(1_000_000, 1_000);
    vec![
        row::<Mutex>(many),
        row::<Header>(many),
        row::<ParkingLot>(many),
        row::<ParkingLotReentrant>(many),
        row::<Std>(many),
        row::<Usync>(many),
    ]
}

fn memory(settings: &Settings) -> Vec<Contender> {
    fn row<L: Lock>(many: u32) -> Contender {
        // Once only: an allocator keeps what it has had.
        let mut known = None;
        let mut measure = move || {
            let resident = || machine::resident().unwrap_or_default() as f64;
            let before = resident();
            let locks = black_box(make_many::<L>(many));
            let grown = (resident() - before) / f64::from(many);
            drop(locks);
            // Small ones fit into memory that the allocator has kept from something else.
            grown.max(size_of::<L>() as f64)
        };
        Contender::new(MANY_BYTES, L::NAME, move || *known.get_or_insert_with(&mut measure))
    }
    let many = settings.size(1_000_000, 1_000);
    vec![
        row::<Mutex>(many),
        row::<Header>(many),
        row::<ParkingLot>(many),
        row::<ParkingLotReentrant>(many),
        row::<Std>(many),
        row::<Usync>(many),
    ]
}

fn fight_section(what: &str, inside: Duration, threads: usize) -> String {
    format!("{what}, {} ns inside, {}", inside.as_nanos(), count(threads, "thread"))
}

type Run = fn(usize, Duration, Duration, bool) -> contended::Run;
const FIGHTERS: [(&str, Run); 4] = [
    ("raddle", contended::run::<Mutex>),
    ("parking_lot", contended::run::<ParkingLot>),
    ("std", contended::run::<Std>),
    ("usync", contended::run::<Usync>),
];

/// Time per critical section.
fn fights(settings: &Settings, inside: Duration) -> Vec<Contender> {
    let time = settings.size(Duration::from_millis(60), Duration::from_millis(2));
    let mut all = Vec::new();
    for threads in THREADS {
        let section = fight_section(THROUGHPUT, inside, threads);
        for (name, run) in FIGHTERS {
            let measure = move || run(threads, inside, time, false).each;
            all.push(Contender::new(section.clone(), name, measure));
        }
    }
    all
}

/// The waits for it: one run for both figures, and a longer one, because some wait for a tenth of a second.
fn waits(settings: &Settings, inside: Duration) -> Vec<Contender> {
    let time = settings.size(Duration::from_millis(250), Duration::from_millis(2));
    let mut all = Vec::new();
    for threads in THREADS {
        for (name, run) in FIGHTERS {
            // What the other of the two has measured already in this round.
            let left: Rc<RefCell<[Option<f64>; 2]>> = Rc::default();
            for (at, what) in [P99, WORST].into_iter().enumerate() {
                let left = Rc::clone(&left);
                let measure = move || {
                    let figure = left.borrow_mut()[at].take();
                    figure.unwrap_or_else(|| {
                        let run = run(threads, inside, time, true);
                        let figures = [run.p99, run.worst];
                        left.borrow_mut()[1 - at] = Some(figures[1 - at]);
                        figures[at]
                    })
                };
                all.push(Contender::new(fight_section(what, inside, threads), name, measure));
            }
        }
    }
    all
}

/// After the seed's program: many threads that each hold the lock for long, and how unequal their shares
/// are. There 32 threads and 50 ms for ever, here 8 and 1 ms for a while.
fn shares(settings: &Settings) -> Vec<Contender> {
    let inside = settings.size(Duration::from_millis(1), Duration::from_micros(50));
    let time = settings.size(Duration::from_millis(400), Duration::from_millis(2));
    let section = format!("most share / least, {} us inside, 8 threads", inside.as_micros());
    let row = |name, run: Run| {
        Contender::new(section.clone(), name, move || run(8, inside, time, false).spread)
    };
    vec![
        row("raddle", contended::run::<Mutex>),
        row("raddle ReentrantLock", contended::run::<Reentrant>),
        row("parking_lot", contended::run::<ParkingLot>),
        row("std", contended::run::<Std>),
        row("usync", contended::run::<Usync>),
    ]
}

fn budgets() -> Vec<Budget> {
    let id = |section: &str, name: &str| (section.to_owned(), name.to_owned());
    let ratio = |what: &str, section: &str, of: &str, to: &str, most: f64| {
        Budget::ratio(what, id(section, of), id(section, to), Limit::AtMost(most))
    };
    let mutex = Mutex::NAME;
    let mut all = vec![
        ratio("pair: Mutex / parking_lot", PAIR, mutex, ParkingLot::NAME, 0.45),
        ratio("pair: Mutex / std", PAIR, mutex, Std::NAME, 0.5),
        ratio("pair: ObjectHeader / std", PAIR, Header::NAME, Std::NAME, 0.5),
        ratio("pair: fat ObjectHeader / parking_lot", PAIR, Fat::NAME, ParkingLot::NAME, 1.1),
        ratio("fair unlock / parking_lot", FAIR, mutex, ParkingLot::NAME, 1.0),
        ratio("pair, stolen / parking_lot", places::STOLEN, mutex, ParkingLot::NAME, 0.7),
        ratio("pair, fresh strand / parking_lot", places::FRESH, mutex, ParkingLot::NAME, 0.7),
        ratio("pair, fat hold / parking_lot", places::BESIDE, mutex, ParkingLot::NAME, 0.7),
        ratio("pair, two holds / parking_lot", places::THIRD, mutex, ParkingLot::NAME, 0.7),
    ];
    for levels in LEVELS {
        let name = format!("re-entrant pair, {} / parking_lot", count(levels as usize, "level"));
        let section = levels_section(levels);
        all.push(ratio(&name, &section, Reentrant::NAME, "parking_lot", 0.7));
    }
    let (read, two) = (readers::READ, readers::TWO);
    let (ours, theirs) = (readers::Raddle::NAME, readers::ParkingLot::NAME);
    all.push(ratio("read pair / parking_lot", read, ours, theirs, 0.3));
    all.push(ratio("two readers / parking_lot", two, ours, theirs, 0.3).needs_cores(2));
    let alone = Budget::ratio("two / alone", id(two, ours), id(read, ours), Limit::AtMost(1.1));
    all.push(alone.needs_cores(2));
    all.push(ratio("write pair / parking_lot", readers::WRITE, ours, theirs, 1.0));
    for inside in INSIDE {
        for threads in THREADS {
            for (what, most) in [(THROUGHPUT, 1.05), (P99, 0.5), (WORST, 1.0)] {
                let section = fight_section(what, inside, threads);
                let name = format!("{what}, {} ns, {threads} threads", inside.as_nanos());
                let budget = ratio(&name, &section, "raddle", "parking_lot", most);
                all.push(budget.by_median().needs_cores(2));
            }
        }
    }
    for queue in queues::QUEUES {
        let budget = ratio(queue.name, queue.name, "raddle", "parking_lot", 1.0);
        all.push(budget.by_median().needs_cores(2));
    }
    if machine::system_time().is_some() {
        let budget = ratio(queues::SYSTEM, queues::SYSTEM, "raddle", "parking_lot", 1.0);
        all.push(budget.by_median().needs_cores(2));
    }
    all
}
