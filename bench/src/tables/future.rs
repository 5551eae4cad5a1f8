//! Operations on promises and futures one at a time, on one thread, against the futures of the JVM
//! and what Rust has: time, bytes and allocations per operation.
//!
//! All rows of an operation are measured in turn, each in a process of its own.

use std::rc::Rc;

use crate::{
    alloc,
    args::{Peers, Settings},
    futures::Subject,
    harness::{Contender, Figures, Group, Memory, Table},
    jvm::{Jvm, Times},
    report::{Budget, Limit},
};

/// The name of the row that others are divided by.
const TRANE: &str = "trane";

/// Peers on the JVM: the name of the row, the class, and the JVM's options.
const JVM: &[(&str, &str, &[&str])] = &[
    (TRANE, TRANE_CLASS, &[]),
    ("trane, ParallelGC", TRANE_CLASS, &["-XX:+UseParallelGC"]),
    ("scala", "ScalaFutures", &[]),
    ("CompletableFuture", "JdkFutures", &[]),
    ("twitter", "TwitterFutures", &[]),
];

const TRANE_CLASS: &str = "TraneFutures";
/// The smallest object of the JVM.
const OBJECT: f64 = 16.0;
/// The operations that make no object anyway.
const FREE: &[&str] = &["value", "exception", "exceptionShared"];

/// Peers in Rust: the name of the row, the runtime and the allocator.
const RUST: &[(&str, &str, &str)] = &[
    (RADDLE, "raddle", SYSTEM),
    (RADDLE_MIMALLOC, "raddle", alloc::MIMALLOC_NAME),
    ("tokio oneshot + task", "tokio", SYSTEM),
    ("futures oneshot, polled", "futures", SYSTEM),
    ("floor", "floor", SYSTEM),
    ("floor, mimalloc", "floor", alloc::MIMALLOC_NAME),
];

const SYSTEM: &str = "system";
const RADDLE: &str = "raddle";
const RADDLE_MIMALLOC: &str = "raddle, mimalloc";

/// An operation, and how long raddle may take for it.
struct Operation {
    name: &'static str,
    what: &'static str,
    /// Of the time that Trane takes.
    time: Option<f64>,
    /// Of what its allocations take alone.
    floor: Option<f64>,
    bytes: Option<f64>,
    allocations: Option<f64>,
    /// Whether Trane is the only one on the JVM that has it.
    trane_only: bool,
}

/// One that is only shown.
const fn shown(name: &'static str, what: &'static str) -> Operation {
    Operation {
        name,
        what,
        time: None,
        floor: None,
        bytes: None,
        allocations: None,
        trane_only: false,
    }
}

const fn within(name: &'static str, what: &'static str, time: f64) -> Operation {
    Operation { time: Some(time), ..shown(name, what) }
}

/// One that is not part of the JVM's usual ones: how it scales.
const fn scaled(name: &'static str, what: &'static str) -> Operation {
    Operation { trane_only: true, ..within(name, what, 1.0) }
}

/// One on a satisfied future.
const fn satisfied(name: &'static str, what: &'static str) -> Operation {
    Operation { allocations: Some(0.0), ..within(name, what, 1.0) }
}

/// One that is only judged by what it allocates: Trane's compiler computes it in advance.
const fn folded(name: &'static str, what: &'static str) -> Operation {
    Operation { allocations: Some(0.0), ..shown(name, what) }
}

/// One whose time is for the most part that of freeing, which others leave to a collector.
const fn made(name: &'static str, what: &'static str) -> Operation {
    Operation { floor: Some(1.3), ..shown(name, what) }
}

const OPERATIONS: &[Operation] = &[
    made("newPromise", "a promise and its future"),
    satisfied("value", "a satisfied future"),
    satisfied("exception", "a failed future"),
    scaled("exceptionShared", "a failed future, whose failure others have"),
    satisfied("mapSatisfied", "map, not constant"),
    folded("mapConst", "map, take"),
    satisfied("mapConstN", "100 maps, take"),
    folded("flatMapConst", "flat_map, take"),
    folded("flatMapConstN", "100 flat_maps, take"),
    satisfied("ensureConst", "ensure, take"),
    folded("ensureConstN", "100 ensures, take"),
    Operation { bytes: Some(40.0), allocations: Some(2.0), ..made("createMap", "create, map") },
    Operation {
        bytes: Some(40.0),
        allocations: Some(2.0),
        ..within("mapPromise", "create, map, set, take", 1.0)
    },
    within("mapPromiseN", "the same, 100 links", 1.0),
    scaled("mapPromise10", "the same, 10 links"),
    scaled("mapPromise300", "the same, 300 links"),
    scaled("mapPromise1000", "the same, 1,000 links"),
    scaled("mapPromise10000", "the same, 10,000 links"),
    scaled("aliveAtOnce", "100,000 promises and maps, then set, then taken"),
    scaled("setElsewhere", "1,000 promises and maps, set on another thread, taken"),
    within("flatMapPromise", "create, flat_map, set, take", 1.0),
    within("flatMapPromiseN", "the same, 100 links", 1.0),
    within("ensurePromise", "create, ensure, set, take", 1.0),
    within("ensurePromiseN", "the same, 100 links", 1.0),
    within("setValue", "create, set, take", 1.0),
    within("setValueN", "create, 100 maps, set, take", 1.0),
    within("recursiveConst", "100 nested flat_maps", 0.5),
];

impl Operation {
    fn section(&self) -> String {
        format!("{}: {}", self.name, self.what)
    }

    fn group(&self, jvm: Option<&Rc<Jvm>>, settings: &Settings) -> Group {
        let mut contenders = Vec::new();
        for (row, runtime, allocator) in RUST {
            if let Some(subject) = Subject::find(runtime, self.name) {
                let settings = settings.clone();
                let measure = move || subject.measure_apart(allocator, &settings);
                contenders.push(Contender::with_memory(self.section(), *row, measure));
            }
        }
        for &(row, class, options) in JVM {
            let judged = row == TRANE;
            let wanted = class == TRANE_CLASS || settings.peers == Peers::All && !self.trane_only;
            if let Some(jvm) = jvm.filter(|_| wanted) {
                let benchmark = format!("{class}.{}", self.name);
                let measure = on_jvm(Rc::clone(jvm), benchmark, options, judged, settings);
                // Before the others: whoever is judged is measured next to whoever judges.
                let at = if judged { 0 } else { contenders.len() };
                contenders.insert(at, Contender::with_memory(self.section(), row, measure));
            }
        }
        Group { unit: "ns", references: &[TRANE], ceiling: None, contenders }
    }

    fn budgets(&self, jvm: bool) -> Vec<Budget> {
        let id = |row: &str| (self.section(), row.to_owned());
        let mut budgets = Vec::new();
        if Subject::find("raddle", self.name).is_none() {
            return budgets;
        }
        for row in [RADDLE, RADDLE_MIMALLOC] {
            if let Some(limit) = self.time.filter(|_| jvm) {
                let what = format!("{}: {row} / {TRANE}", self.name);
                let ratio = Budget::ratio(what, id(row), id(TRANE), Limit::AtMost(limit));
                budgets.push(ratio.by_median());
            }
        }
        for (row, floor) in [(RADDLE, "floor"), (RADDLE_MIMALLOC, "floor, mimalloc")] {
            if let Some(limit) = self.floor {
                let what = format!("{}: {row} / {floor}", self.name);
                let ratio = Budget::ratio(what, id(row), id(floor), Limit::AtMost(limit));
                budgets.push(ratio.by_median());
            }
        }
        if let Some(limit) = self.bytes {
            let what = format!("{}: bytes", self.name);
            budgets.push(Budget::bytes(what, id(RADDLE), Limit::AtMost(limit)));
        }
        if let Some(limit) = self.allocations {
            let what = format!("{}: allocations", self.name);
            budgets.push(Budget::allocations(what, id(RADDLE), Limit::AtMost(limit)));
        }
        budgets
    }
}

pub(crate) fn table(settings: &Settings) -> Table {
    let jvm = match settings.peers {
        Peers::None => None,
        _ => Jvm::find(settings).map(Rc::new),
    };
    let groups = OPERATIONS.iter().map(|op| op.group(jvm.as_ref(), settings)).collect();
    let mut budgets: Vec<Budget> =
        OPERATIONS.iter().flat_map(|op| op.budgets(jvm.is_some())).collect();
    budgets.extend(no_read_modify_write());
    Table {
        about: "ns per operation on promises and futures, one thread; heap per operation",
        rounds: 3,
        groups,
        budgets,
    }
}

/// What takes less time than one read-modify-write has none.
fn no_read_modify_write() -> Option<Budget> {
    let operation = OPERATIONS.iter().find(|op| op.name == "mapSatisfied")?;
    Subject::find("raddle", operation.name)?;
    let id = |row: &str| (operation.section(), row.to_owned());
    let what = "mapSatisfied: raddle / one atomic swap";
    Some(Budget::ratio(what, id(RADDLE), id("floor"), Limit::Below(1.0)))
}

/// Measures on the JVM: in every round, or only in the first, because starts and warm-up take long.
fn on_jvm(
    jvm: Rc<Jvm>,
    benchmark: String,
    options: &'static [&'static str],
    every_round: bool,
    settings: &Settings,
) -> impl FnMut() -> Figures + 'static {
    let times = settings.size(Times::SHORT, Times::SMOKE);
    let mut rounds = 0;
    move || {
        rounds += 1;
        if rounds > 1 && !every_round {
            return Figures::default();
        }
        match jvm.run(&benchmark, &[], options, times) {
            Ok(row) => {
                let makes = !FREE.iter().any(|free| benchmark.ends_with(&format!(".{free}")));
                let folded = makes && row.bytes.is_some_and(|bytes| bytes < OBJECT);
                let bytes = row.bytes.map(Memory::of_bytes);
                let note = folded.then_some("no object is made: the compiler has folded it away");
                Figures { samples: row.samples, memory: bytes, note }
            }
            Err(error) => {
                eprintln!("raddle-bench: {error}");
                Figures::default()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn every_operation_is_a_benchmark_on_the_jvm() {
        for (_, class, _) in JVM {
            let path = format!(
                "{}/jvm/src/main/java/raddle/bench/{class}.java",
                env!("CARGO_MANIFEST_DIR")
            );
            let source = fs::read_to_string(path).unwrap();
            let has = |op: &&Operation| class == &TRANE_CLASS || !op.trane_only;
            for operation in OPERATIONS.iter().filter(has) {
                assert!(source.contains(&format!(" {}(", operation.name)), "{}", operation.name);
            }
        }
    }

    #[test]
    fn operations_are_right_in_all_runtimes() {
        for (_, runtime, _) in RUST {
            let mut found = 0;
            for operation in OPERATIONS {
                if let Some(subject) = Subject::find(runtime, operation.name) {
                    subject.check();
                    found += 1;
                }
            }
            assert!(found > 0, "{runtime}");
        }
    }
}
