//! Scope locals: what it costs to inherit them, to read them and to bind them.
//!
//! Forks inherit whatever is bound. The pool of the JDK inherits nothing, so there each task takes
//! the binding along by hand, as its users would have to.

use std::{process::Command, rc::Rc};

use crate::{
    args::{Peers, Settings},
    harness::{Contender, Figures, Group, Table},
    jvm::{Jvm, Times},
    locals::{self, Act, MANY},
    peers::{self, timed},
    report::{Budget, Limit},
    work::Workload,
};

/// What is bound, and what the leaves read.
#[derive(Clone, Copy, PartialEq)]
enum Case {
    Nothing,
    Unused(usize),
    Read(usize),
    ThreadLocal,
}

const CASES: [Case; 6] = [
    Case::Nothing,
    Case::Unused(1),
    Case::Unused(8),
    Case::Unused(MANY),
    Case::Read(1),
    Case::ThreadLocal,
];

impl Case {
    fn name(self) -> String {
        match self {
            Case::Nothing => "nothing bound".into(),
            Case::Unused(count) => format!("{count} bound, unused"),
            Case::Read(count) => format!("{count} bound, read at each leaf"),
            Case::ThreadLocal => "thread_local!, read at each leaf".into(),
        }
    }

    fn bound(self) -> usize {
        match self {
            Case::Unused(count) | Case::Read(count) => count,
            Case::Nothing | Case::ThreadLocal => 0,
        }
    }
}

/// Which recursion.
#[derive(Clone, Copy)]
enum Shape {
    Join,
    Counted,
}

impl Shape {
    fn section(self, n: u32, threads: usize) -> String {
        let what = match self {
            Shape::Join => "join",
            Shape::Counted => "counted completer",
        };
        format!("fib({n}) by {what}, {}", super::count(threads, "thread"))
    }

    fn run(self, n: u32, threads: usize, case: Case) -> f64 {
        let pool = peers::raddle_pool(threads);
        let (time, result) = locals::bound(case.bound(), || match (self, case) {
            (Shape::Join, Case::Nothing | Case::Unused(_)) => {
                timed(|| pool.run(|w| locals::fib(w, n, locals::plain)))
            }
            (Shape::Join, Case::Read(_)) => {
                timed(|| pool.run(|w| locals::fib(w, n, locals::reading)))
            }
            (Shape::Join, Case::ThreadLocal) => {
                timed(|| pool.run(|w| locals::fib(w, n, locals::reading_thread_local)))
            }
            (Shape::Counted, Case::Nothing | Case::Unused(_)) => {
                timed(|| pool.run(|_| locals::counted_fib(n, locals::plain)))
            }
            (Shape::Counted, Case::Read(_)) => {
                timed(|| pool.run(|_| locals::counted_fib(n, locals::reading)))
            }
            (Shape::Counted, Case::ThreadLocal) => {
                timed(|| pool.run(|_| locals::counted_fib(n, locals::reading_thread_local)))
            }
        });
        let workload = Workload::Fib(n);
        assert_eq!(result, fib(n), "wrong result");
        time.as_nanos() as f64 / workload.operations() as f64
    }

    /// The benchmarks of the JDK's pool: the row and the method.
    fn on_jvm(self) -> [(&'static str, &'static str); 3] {
        match self {
            Shape::Join => [
                ("JDK RecursiveTask, nothing bound", "recursiveTask"),
                ("JDK RecursiveTask, bound by hand", "recursiveTaskBound"),
                ("JDK RecursiveTask, read at each leaf", "recursiveTaskRead"),
            ],
            Shape::Counted => [
                ("JDK CountedCompleter, nothing bound", "countedCompleter"),
                ("JDK CountedCompleter, bound by hand", "countedCompleterBound"),
                ("JDK CountedCompleter, read at each leaf", "countedCompleterRead"),
            ],
        }
    }
}

fn fib(n: u32) -> u64 {
    (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0
}

const THREADS: [usize; 2] = [1, 2];
const NOTHING: &str = "nothing bound";
const CALL: &str = "a call that reads nothing";
const THREAD_LOCAL: &str = "thread_local!, const";
const BIND: &str = "raddle bind";
const JDK_BIND: &str = "JDK ScopedValue";
const READ: &str = "a read, in a call of its own";
const SPANS: &str = "a fork of fib, and its two calls, in a span of tracing";
const IN_A_SPAN: &str = "tracing-subscriber's registry";
const BINDING: &str = "bind and read";

pub(crate) fn table(settings: &Settings) -> Table {
    let jvm = match settings.peers {
        Peers::None => None,
        _ => Jvm::find(settings).map(Rc::new),
    };
    let jvm = jvm.as_ref();
    let sizes = [(Shape::Join, settings.size(37, 20)), (Shape::Counted, settings.size(27, 12))];
    let mut groups = Vec::new();
    let mut budgets = Vec::new();
    for (shape, n) in sizes {
        for threads in THREADS {
            groups.push(recursion(shape, n, threads, jvm, settings));
            let section = shape.section(n, threads);
            for case in CASES {
                if let Case::Unused(count) = case {
                    let what = format!("{section}: {count} bound / nothing");
                    let limit = if count == 1 { Limit::AtMost(1.02) } else { Limit::None };
                    let of = (section.clone(), case.name());
                    let to = (section.clone(), NOTHING.into());
                    budgets.push(Budget::ratio(what, of, to, limit).needs_cores(threads));
                }
            }
        }
    }
    for threads in THREADS {
        groups.push(spawns(threads, settings));
        let section = spawn_section(threads);
        for count in [1, 8] {
            let of = (section.clone(), Case::Unused(count).name());
            let to = (section.clone(), NOTHING.into());
            let what = format!("{section}: {count} bound / nothing");
            budgets.push(Budget::ratio(what, of, to, Limit::AtMost(1.1)).needs_cores(threads));
        }
    }
    groups.push(spans(settings));
    let of = (SPANS.to_owned(), IN_A_SPAN.to_owned());
    budgets.push(Budget::value("ns of a fork in a span", of, Limit::AtMost(25.0)));
    groups.push(reads(jvm, settings));
    groups.push(bindings(jvm, settings));
    let get = |depth| (READ.to_owned(), get_name(depth));
    budgets.push(Budget::ratio("depth 64 / depth 1", get(MANY), get(1), Limit::AtMost(1.1)));
    let thread_local = (READ.to_owned(), THREAD_LOCAL.to_owned());
    budgets.push(Budget::ratio("read / thread_local!", get(1), thread_local, Limit::AtMost(2.0)));
    if jvm.is_some() {
        let id = |row: &str| (BINDING.to_owned(), row.to_owned());
        let what = "bind and read: raddle / JDK";
        budgets.push(Budget::ratio(what, id(BIND), id(JDK_BIND), Limit::AtMost(0.5)));
    }
    Table {
        about: "ns per call, spawn, read or binding, with and without scope locals",
        rounds: 9,
        groups,
        budgets,
    }
}

fn recursion(
    shape: Shape,
    n: u32,
    threads: usize,
    jvm: Option<&Rc<Jvm>>,
    settings: &Settings,
) -> Group {
    let section = shape.section(n, threads);
    let mut contenders: Vec<Contender> = CASES
        .iter()
        .map(|&case| {
            Contender::new(section.clone(), case.name(), move || shape.run(n, threads, case))
        })
        .collect();
    for (row, method) in shape.on_jvm() {
        let parameters = vec![("parallelism", threads as u32)];
        let benchmark = format!("ForkJoinFib.{method}");
        contenders.extend(on_jvm(&section, row, jvm, benchmark, parameters, settings));
    }
    Group { unit: "ns", references: &[NOTHING], ceiling: None, contenders }
}

/// A process of its own, as a subscriber stays.
fn spans(settings: &Settings) -> Group {
    let n = settings.size(27, 12);
    let in_a_span = move || {
        let program = std::env::current_exe().expect("this program");
        let output = Command::new(program).args(["--spanned", &n.to_string()]).output();
        let output = output.expect("a process of its own").stdout;
        serde_json::from_slice(&output).expect("figures")
    };
    let plain = move || vec![2.0 * Shape::Join.run(n, 1, Case::Nothing)];
    let contenders = vec![
        Contender::sampled(SPANS, "no subscriber", plain),
        Contender::sampled(SPANS, IN_A_SPAN, in_a_span),
    ];
    Group { unit: "ns", references: &[], ceiling: None, contenders }
}

fn spawn_section(threads: usize) -> String {
    format!("spawn and wait, {}", super::count(threads, "thread"))
}

fn spawns(threads: usize, settings: &Settings) -> Group {
    let count = settings.size(200_000, 500);
    let run = move |case: Case| {
        let pool = peers::raddle_pool(threads);
        let spawn = || timed(|| pool.run(|_| locals::spawn_all(count)));
        let (time, sum) = locals::bound(case.bound(), spawn);
        assert_eq!(sum, count * (count - 1) / 2, "wrong result");
        time.as_nanos() as f64 / count as f64
    };
    let contenders = [Case::Nothing, Case::Unused(1), Case::Unused(8), Case::Unused(MANY)]
        .map(|case| Contender::new(spawn_section(threads), case.name(), move || run(case)));
    Group { unit: "ns", references: &[NOTHING], ceiling: None, contenders: contenders.into() }
}

fn get_name(depth: usize) -> String {
    format!("raddle, depth {depth}")
}

fn acts(section: &str, acts: Vec<(String, Act)>, settings: &Settings) -> Vec<Contender> {
    let times = settings.size(1_000_000, 1_000);
    let contender =
        |(name, act): (String, Act)| Contender::sampled(section, name, move || act.measure(times));
    acts.into_iter().map(contender).collect()
}

fn reads(jvm: Option<&Rc<Jvm>>, settings: &Settings) -> Group {
    let mut rows = vec![(CALL.into(), Act::Call), (THREAD_LOCAL.into(), Act::ThreadLocal)];
    rows.extend([1, 8, MANY].map(|depth| (get_name(depth), Act::Get(depth))));
    rows.extend([
        ("raddle, the last of 64".into(), Act::GetLast(MANY)),
        ("raddle, each of 64 in turn".into(), Act::GetEach),
        ("raddle, not bound, depth 1".into(), Act::Miss(1)),
        ("raddle, not bound, depth 64".into(), Act::Miss(MANY)),
        ("tokio task_local!, depth 1".into(), Act::TaskLocal(1)),
        ("tokio task_local!, depth 64".into(), Act::TaskLocal(MANY)),
    ]);
    let mut contenders = acts(READ, rows, settings);
    for (row, method) in [
        ("JDK, a call that reads nothing", "call"),
        ("JDK ScopedValue, depth 1", "getDepth1"),
        ("JDK ScopedValue, depth 8", "getDepth8"),
        ("JDK ScopedValue, depth 64", "getDepth64"),
        ("JDK ScopedValue, each of 64 in turn", "getEachOf64"),
        ("JDK ScopedValue, not bound, depth 1", "missDepth1"),
        ("JDK ScopedValue, not bound, depth 64", "missDepth64"),
    ] {
        let benchmark = format!("ScopedValues.{method}");
        contenders.extend(on_jvm(READ, row, jvm, benchmark, vec![], settings));
    }
    Group { unit: "ns", references: &[THREAD_LOCAL], ceiling: None, contenders }
}

fn bindings(jvm: Option<&Rc<Jvm>>, settings: &Settings) -> Group {
    let rows = vec![
        (BIND.into(), Act::BindGet),
        ("raddle bind_ref".into(), Act::BindRefGet),
        ("tokio task_local!".into(), Act::TaskBindGet),
    ];
    let mut contenders = acts(BINDING, rows, settings);
    let benchmark = "ScopedValues.bindGet".to_owned();
    contenders.extend(on_jvm(BINDING, JDK_BIND, jvm, benchmark, vec![], settings));
    Group { unit: "ns", references: &[JDK_BIND], ceiling: None, contenders }
}

/// A row that is measured on the JVM: in the first two rounds only, because starts and warm-up take
/// long; the budgets look at minima.
fn on_jvm(
    section: &str,
    row: &str,
    jvm: Option<&Rc<Jvm>>,
    benchmark: String,
    parameters: Vec<(&'static str, u32)>,
    settings: &Settings,
) -> Option<Contender> {
    const ROUNDS: u32 = 2;
    let jvm = Rc::clone(jvm?);
    let times = settings.size(Times::SHORT, Times::SMOKE);
    let mut rounds = 0;
    Some(Contender::with_memory(section, row, move || {
        rounds += 1;
        if rounds > ROUNDS {
            return Figures::default();
        }
        match jvm.run(&benchmark, &parameters, &[], times) {
            Ok(row) => row.samples.into(),
            Err(error) => {
                eprintln!("raddle-bench: {error}");
                Figures::default()
            }
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_checked_against_the_right_ones() {
        assert_eq!([0, 1, 2, 10].map(fib), [0, 1, 1, 55]);
        for shape in [Shape::Join, Shape::Counted] {
            for case in CASES {
                assert!(shape.run(10, 2, case) > 0.0);
            }
        }
    }
}
