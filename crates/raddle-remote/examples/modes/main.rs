//! A small program that runs under a plan however it was built: `cargo xtask modes` builds it in each way that changes what a worker
//! finds at an address, and runs it.
//!
//! It says nothing but `ok` and the plan if all is as it should be.

use std::time::Duration;

use raddle::remote::{Env, RemoteError, Shared, Status, map, spawn};
use raddle::{FailureKind, Killed};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Thread {
    Warp(u32),
    Weft { name: String, length: Option<f64> },
}

impl Thread {
    fn turned(self) -> Thread {
        match self {
            Thread::Warp(number) => Thread::Weft { name: number.to_string(), length: None },
            Thread::Weft { name, .. } => Thread::Warp(name.len() as u32),
        }
    }
}

fn twice<T: Clone>(value: T) -> (T, T) {
    (value.clone(), value)
}

fn tear(what: String) -> u32 {
    panic!("torn {what}")
}

fn sum(shared: Shared<Vec<u64>>) -> u64 {
    shared.iter().sum()
}

fn spin(_: ()) {
    while !raddle::killed() {
        std::hint::spin_loop();
    }
}

fn main() {
    raddle::remote::init();
    let env = Env::current();
    // Functions, methods, generic instances and closures, of one type and of several.
    assert_eq!(spawn(u32::count_ones, 7).wait().unwrap(), 3);
    assert_eq!(spawn(u32::count_zeros, 7).wait().unwrap(), 29);
    let weft = Thread::Weft { name: "7".into(), length: None };
    assert_eq!(spawn(Thread::turned, Thread::Warp(7)).wait().unwrap(), weft);
    assert_eq!(spawn(twice::<Thread>, weft.clone()).wait().unwrap(), (weft.clone(), weft));
    assert_eq!(spawn(twice::<u8>, 7).wait().unwrap(), (7, 7));
    assert_eq!(spawn(|(a, b): (f64, i8)| a * f64::from(b), (1.5, 2)).wait().unwrap(), 3.0);
    let squares: Vec<u64> = (0..1000).map(|n| n * n).collect();
    assert_eq!(map(|n: u64| n * n, 0..1000).wait().unwrap(), squares);
    let shared = env.share(squares.clone()).unwrap();
    assert_eq!(spawn(sum, shared).wait().unwrap(), squares.iter().sum::<u64>());
    // What ends them.
    let torn = spawn(tear, "warp".into()).wait().unwrap_err();
    match cfg!(panic = "abort") {
        true => died(&torn, Status::Signalled(libc::SIGABRT), "torn warp"),
        false => {
            assert_eq!(torn.kind(), FailureKind::Panicked);
            assert!(torn.to_string().contains("torn warp"), "{torn}");
        }
    }
    let exited = spawn(|code| -> () { std::process::exit(code) }, 7).wait().unwrap_err();
    died(&exited, Status::Exited(7), "exited with code 7");
    let late = env.task().timeout(Duration::from_millis(20)).spawn(spin, ());
    assert_eq!(late.wait().unwrap_err().kind(), FailureKind::TimedOut);
    let spins = spawn(spin, ());
    assert_ne!(spins.kill(), Killed::TooLate);
    assert_eq!(spins.wait().unwrap_err().kind(), FailureKind::Killed);
    assert_eq!(spawn(|n| n + 1, 1).wait().unwrap(), 2);
    println!("ok {}", env.plan());
}

fn died(failure: &raddle::Failure, status: Status, said: &str) {
    match failure.downcast_ref() {
        Some(RemoteError::Died(death)) => assert_eq!(death.status, status),
        other => panic!("no death: {other:?}"),
    }
    assert!(failure.to_string().contains(said), "{failure}");
}
