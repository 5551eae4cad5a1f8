//! What the compiler says of common mistakes tells what to do instead: each is compiled against the library that this test is
//! linked with. And panics of misuse name the line that is to be mended.

use std::env;
use std::fs;
use std::panic;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

use raddle::{Failure, Future, Retry, retry, window};

/// What somebody might write, and what is to be in the error.
const MISTAKES: &[(&str, &[&str])] = &[
    (
        "raddle::Promise::<u32>::with_producer(|why: raddle::Interrupt| drop(why));",
        &["does not produce the value of a promise", "give a closure", "`Promise::with_interrupt`"],
    ),
    (
        "raddle::follow(7_u32);",
        &["`u32` does not say what is to follow tasks", "bound by `raddle::scope_local!`"],
    ),
    (
        "raddle::par::map_collect(vec![1, 2], |n| n + 1);",
        &["a parallel loop cannot run over `Vec<", "give a vector by reference: `&items`"],
    ),
    (
        "raddle::par::for_each_in([1, 2].iter().map(|n| n + 1), |n| drop(n));",
        &["a parallel loop cannot run over `Map<", "an iterator is collected into a vector first"],
    ),
    (
        "raddle::par::for_each_in(0.0..1.0, |n: f64| drop(n));",
        &["a parallel loop cannot run over a range of `", "not an integer of up to 64 bits"],
    ),
    (
        "struct Sum(u64); raddle::par::map_reduce(0..9, Sum(0), Sum, |a, b| Sum(a.0 + b.0));",
        &["a reduction cannot start at `", "nor a closure that makes one"],
    ),
    #[cfg(feature = "remote")]
    (
        "struct Loom; fn weave(_: Loom) {} raddle::remote::spawn(weave, Loom);",
        &["Loom` cannot be sent to a task", "derive `serde::Serialize` and `serde::Deserialize`"],
    ),
    // These are Rust's own.
    ("raddle::spawn(|| std::rc::Rc::new(1));", &["cannot be sent between threads safely"]),
    ("raddle::Future::ready(1).flat_map(|n| n + 1);", &["expected `Future<_>`", "found"]),
    (
        "let kept = String::new(); let _ = raddle::spawn(|| kept.len());",
        &["use the `move` keyword"],
    ),
    (
        "async fn late() {} let _ = raddle::Future::ready(1).flat_map(|_| late());",
        &["expected `Future<_>`"],
    ),
];

/// What the compiler says of a function with this body; nothing if it compiles.
fn errors(library: &Path, body: &str) -> String {
    let name = format!("hint-{}", std::process::id());
    let source = env::temp_dir().join(format!("{name}.rs"));
    let made = env::temp_dir().join(format!("{name}.rmeta"));
    fs::write(&source, format!("#![allow(unused)]\npub fn f() {{ {body} }}\n")).unwrap();
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args([
        "--edition=2024",
        "--crate-name=hint",
        "--crate-type=lib",
        "--emit=metadata",
        "-o",
    ]);
    rustc.arg(&made).arg(&source);
    rustc.arg("-L").arg(format!("dependency={}", library.parent().unwrap().display()));
    rustc.arg("--extern").arg(format!("raddle={}", library.display()));
    let output = rustc.output().expect("the compiler can be run");
    for file in [source, made] {
        let _ = fs::remove_file(file);
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.success(), !text.contains("error"), "{text}");
    if output.status.success() { String::new() } else { text }
}

/// The library in the directory of this test: the newest of those that this compiler can read.
fn library() -> PathBuf {
    let directory = env::current_exe().unwrap().parent().unwrap().to_owned();
    let files = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
    let is_it = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("libraddle-") && name.ends_with(".rlib")
    };
    let mut found: Vec<PathBuf> = files.filter(is_it).collect();
    found.sort_by_key(|path| fs::metadata(path).and_then(|data| data.modified()).ok());
    let reads = |path: &PathBuf| errors(path, "raddle::join(|| 1, || 2);").is_empty();
    let newest = found.into_iter().rev().find(reads);
    newest.unwrap_or_else(|| panic!("no library that can be read in {}", directory.display()))
}

#[test]
#[cfg_attr(miri, ignore = "runs the compiler")]
fn mistakes_are_explained() {
    let library = library();
    for (body, hints) in MISTAKES {
        let errors = errors(&library, body);
        for hint in *hints {
            assert!(errors.contains(hint), "{body}\nshould be answered by {hint:?}, not\n{errors}");
        }
    }
}

/// What ends in a panic of ours, in this file.
const MISUSES: &[fn()] = &[
    || Failure::timed_out().resume(),
    || drop(window(0..1, 0, Future::ready)),
    || drop(retry(0, Duration::ZERO, || Future::ready(1))),
    || drop(Retry::new(0, Duration::ZERO)),
    || {
        let (mut future, mut context) = (Future::ready(1), Context::from_waker(Waker::noop()));
        for _ in 0..2 {
            let _ = std::future::Future::poll(Pin::new(&mut future), &mut context);
        }
    },
];

#[test]
fn panics_name_who_called() {
    static PLACES: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let places = || PLACES.lock().unwrap_or_else(PoisonError::into_inner);
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let place = info.location().map(|place| place.file().to_owned());
        places().extend(place);
        usual(info);
    }));
    for (at, misuse) in MISUSES.iter().enumerate() {
        panic::catch_unwind(misuse).unwrap_err();
        assert_eq!(places().last().map(String::as_str), Some(file!()), "misuse {at}");
    }
}
