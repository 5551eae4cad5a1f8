//! What rayon's programs get from raddle besides: its context, its futures and its traces.

use std::cell::Cell;
use std::io::Read;
use std::process::{Command, Stdio};

use raddle_core::{FailureKind, Future, Snapshot, scope_local};
use raddle_trace::{self as trace, Refusal, Trace};

mod steady;

use self::steady::at_a_steady_pace;

scope_local! { static USER: &'static str; }

/// As a parallel iterator: forks down to single items.
fn each(numbers: std::ops::Range<usize>, leaf: &(dyn Fn(usize) + Sync)) {
    if numbers.len() == 1 {
        return leaf(numbers.start);
    }
    let middle = numbers.start + numbers.len() / 2;
    rayon_core::join(|| each(numbers.start..middle, leaf), || each(middle..numbers.end, leaf));
}

#[test]
fn scope_locals_follow_joins_scopes_spawns_and_broadcasts() {
    let (send, receive) = std::sync::mpsc::channel();
    let check = || assert_eq!(USER.get(), Some("anna"));
    USER.bind("anna").run(|| {
        // From outside, so by way of the queue.
        each(0..1000, &|_| check());
        rayon_core::scope(|s| (0..100).for_each(|_| s.spawn(|_| check())));
        rayon_core::scope_fifo(|s| (0..100).for_each(|_| s.spawn_fifo(|_| check())));
        rayon_core::broadcast(|_| check());
        let pool = rayon_core::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        pool.install(|| {
            check();
            USER.bind("berta").run(|| {
                let send = send.clone();
                rayon_core::spawn_fifo(move || send.send(USER.get()).unwrap());
            });
            let send = send.clone();
            rayon_core::spawn(move || send.send(USER.get()).unwrap());
        });
    });
    drop(send);
    let mut seen: Vec<_> = receive.iter().flatten().collect();
    seen.sort_unstable();
    assert_eq!(seen, ["anna", "berta"]);
    rayon_core::scope(|s| s.spawn(|_| assert_eq!(USER.get(), None)));
    Snapshot::capture().run(|| each(0..10, &|_| assert_eq!(USER.get(), None)));
}

#[test]
fn raddle_s_futures_run_in_the_same_pool() {
    const CHILD: &str = "RADDLE_TEST_ALONE";
    if std::env::var_os(CHILD).is_none() {
        // Alone in its process: tasks of other tests wait, and then more threads work for the pool than a broadcast reaches.
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "raddle_s_futures_run_in_the_same_pool"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        return assert!(child.status.success() && said.contains("1 passed"), "{said}");
    }
    thread_local! { static OURS: Cell<bool> = const { Cell::new(false) }; }
    rayon_core::broadcast(|_| OURS.set(true));
    assert!(raddle_core::spawn(|| OURS.get()).wait().unwrap());
    each(0..100, &|i| {
        let future = raddle_core::spawn(move || (OURS.get(), 2 * i)).map(|both| both);
        assert_eq!(future.wait().unwrap(), (true, 2 * i));
    });
    let threads = rayon_core::current_num_threads();
    assert_eq!(raddle_core::Pool::global().num_threads(), threads);
    let index = raddle_core::join(rayon_core::current_thread_index, || ()).0;
    assert!(index.is_some_and(|index| index < threads));
}

#[test]
fn time_limits_reach_into_parallel_code() {
    let looks = raddle_core::spawn(|| {
        let late = || raddle_core::interrupted();
        while !rayon_core::join(late, late).0 {
            std::thread::yield_now();
        }
    });
    let waited = looks.interrupt_after(std::time::Duration::from_millis(20)).wait();
    // It may see the interrupt and return before its future fails.
    assert!(waited.is_ok() || waited.unwrap_err().kind() != FailureKind::Panicked);
    let never = Future::<()>::never().within(std::time::Duration::from_millis(1));
    assert!(rayon_core::join(|| never.wait().is_err(), || ()).0);
}

#[test]
fn an_interrupt_reaches_what_its_task_waits_for_and_not_what_it_spawns() {
    use raddle_core::interrupted;
    use std::sync::mpsc::channel;
    let ((begins, begun), (send, spawned)) = (channel(), channel());
    let task = move || {
        begins.send(()).unwrap();
        while !interrupted() {
            std::thread::yield_now();
        }
        let pool = rayon_core::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        assert_eq!(pool.join(interrupted, interrupted), (true, true));
        assert!(pool.broadcast(|_| interrupted()).into_iter().all(|heard| heard));
        let heard = || assert!(interrupted());
        pool.scope(|s| {
            s.spawn(|_| heard());
            s.spawn_broadcast(|_, _| heard());
        });
        pool.in_place_scope_fifo(|s| {
            s.spawn_fifo(|_| heard());
            s.spawn_broadcast(|_, _| heard());
        });
        // They may outlive it.
        let each = send.clone();
        pool.spawn_broadcast(move |_| each.send(interrupted()).unwrap());
        pool.install(|| {
            let send = send.clone();
            rayon_core::spawn_fifo(move || send.send(interrupted()).unwrap());
        });
        pool.spawn(move || send.send(interrupted()).unwrap());
    };
    let future = raddle_core::spawn(task);
    begun.recv().unwrap();
    future.interrupt("enough");
    future.wait().unwrap();
    assert_eq!(spawned.iter().collect::<Vec<_>>(), [false; 4]);
}

#[test]
fn a_program_is_recorded_without_a_change() {
    const CHILD: &str = "RADDLE_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        let pool = rayon_core::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        pool.install(|| each(0..100, &|_| std::thread::yield_now()));
        rayon_core::join(|| each(0..100, &|_| std::thread::yield_now()), || ());
        std::process::exit(0);
    }
    let folder = std::env::temp_dir().join(format!("raddle-trace-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("program.trace");
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_program_is_recorded_without_a_change", "--nocapture"])
        .env(CHILD, "1")
        .env("RADDLE_TRACE", &file)
        .status()
        .unwrap();
    assert!(status.success());
    for file in [file.clone(), folder.join("program.trace.2")] {
        let trace = Trace::load(&file).unwrap();
        assert!(trace.lanes.iter().any(|lane| !lane.events.is_empty()), "{}", file.display());
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Ctrl-C ends a process without anything that runs at its exit.
#[cfg(target_os = "linux")]
mod interrupted {
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, ExitStatus, Stdio};
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use raddle_trace::{EventKind, Trace};

    use super::each;

    const CHILD: &str = "RADDLE_TEST_CHILD_INTERRUPTED";

    /// In a process that is to be interrupted this does not return.
    fn child_if_it_is_one() {
        if let Some(how) = std::env::var_os(CHILD) {
            child(&how.to_string_lossy());
        }
    }

    /// Works until a signal ends it, or its own handler has been called.
    fn child(how: &str) -> ! {
        if how == "masked" {
            block();
        }
        let pool = rayon_core::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        if how == "heeded" {
            heed();
        }
        pool.install(|| {
            each(0..100, &|_| std::thread::yield_now());
            println!("it works");
            while !HEARD.load(Ordering::Relaxed) {
                each(0..100, &|_| std::thread::yield_now());
            }
        });
        std::process::exit(7)
    }

    /// This thread, and those that it starts, hear of neither signal; the one that waits for this test does.
    fn block() {
        // SAFETY: of numbers.
        let mut both: libc::sigset_t = unsafe { std::mem::zeroed() };
        for signal in [libc::SIGINT, libc::SIGTERM] {
            // SAFETY: a set, and a signal that there is.
            unsafe { libc::sigaddset(&mut both, signal) };
        }
        // SAFETY: a set, and no room for the one before.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &both, std::ptr::null_mut()) };
    }

    static HEARD: AtomicBool = AtomicBool::new(false);
    static BEFORE: AtomicUsize = AtomicUsize::new(0);

    /// As signal-hook does: a handler that calls the one before.
    fn heed() {
        extern "C" fn hear(signal: i32) {
            let before = BEFORE.load(Ordering::Relaxed);
            // SAFETY: what `signal` has given, which is no default and not ignored.
            let before: extern "C" fn(i32) = unsafe { std::mem::transmute(before) };
            before(signal);
            HEARD.store(true, Ordering::Relaxed);
        }
        for signal in [libc::SIGTERM, libc::SIGINT] {
            let hear: extern "C" fn(i32) = hear;
            // SAFETY: a handler that sets a flag and calls one that may be called in a handler.
            let before = unsafe { libc::signal(signal, hear as libc::sighandler_t) };
            assert!(before != libc::SIG_DFL && before != libc::SIG_IGN);
            BEFORE.store(before, Ordering::Relaxed);
        }
    }

    /// What has become of it, and what it recorded.
    fn interrupt(test: &str, how: &str, signal: &str) -> (ExitStatus, Trace) {
        let file =
            std::env::temp_dir().join(format!("raddle-{how}-{signal}-{}", std::process::id()));
        // A shell has jobs in its background ignore Ctrl-C: this one does not.
        let mut child = Command::new("env")
            .arg(format!("--default-signal={signal}"))
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(CHILD, how)
            .env("RADDLE_TRACE", &file)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut told = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(told.any(|line| line.contains("it works")), "it ended before it was interrupted");
        let id = child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
        let status = child.wait().unwrap();
        let trace = Trace::load(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        (status, trace)
    }

    fn assert_is_one(trace: &Trace) {
        let mut ran = trace.lanes.iter().flat_map(|lane| &lane.events);
        assert!(ran.any(|event| event.kind == EventKind::Exec));
        assert!(!trace.summary().is_empty());
    }

    #[test]
    fn a_program_that_is_interrupted_leaves_its_trace() {
        const TEST: &str = "interrupted::a_program_that_is_interrupted_leaves_its_trace";
        child_if_it_is_one();
        for how in ["plain", "masked"] {
            for (signal, number) in [("INT", 2), ("TERM", 15)] {
                let (status, trace) = interrupt(TEST, how, signal);
                assert_eq!(status.signal(), Some(number), "{how}");
                assert_is_one(&trace);
            }
        }
    }

    #[test]
    fn one_that_heeds_the_signal_leaves_it_when_it_exits() {
        const TEST: &str = "interrupted::one_that_heeds_the_signal_leaves_it_when_it_exits";
        child_if_it_is_one();
        for signal in ["INT", "TERM"] {
            let (status, trace) = interrupt(TEST, "heeded", signal);
            assert_eq!(status.code(), Some(7), "{status}");
            assert_is_one(&trace);
        }
    }
}

/// More forks than a ring has room for by default: all of them are in the trace, so that it says what bounds the program.
#[test]
fn what_bounds_a_program_is_read_from_its_trace() {
    const CHILD: &str = "RADDLE_TEST_CHILD_SCALE";
    if let Some(threads) = std::env::var_os(CHILD) {
        let threads = threads.to_str().unwrap().parse().unwrap();
        let pool = rayon_core::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            each(0..50_000, &|_| {
                _ = std::hint::black_box((0..200_u64).map(std::hint::black_box).sum::<u64>())
            });
        });
        std::process::exit(0);
    }
    let file = std::env::temp_dir().join(format!("raddle-scale-{}.trace", std::process::id()));
    let record = |threads: &str, room: &str| {
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "what_bounds_a_program_is_read_from_its_trace", "--nocapture"])
            .env(CHILD, threads)
            .env("RADDLE_TRACE", &file)
            .env_remove("RADDLE_TRACE_LEVEL")
            .envs((!room.is_empty()).then_some(("RADDLE_TRACE_ROOM", room)))
            .status()
            .unwrap();
        assert!(status.success());
        Trace::load(&file).unwrap()
    };
    // On a machine that has other things to do it may be refused for that, and the sooner the longer it takes.
    let of_two = record("2", "").scale(&[]);
    assert!(matches!(of_two, Ok(_) | Err(Refusal::Preempted(_))), "{of_two:?}");
    let of_one = at_a_steady_pace(record("1", "")).scale(&[]).unwrap();
    assert!(of_one.bound() > 1000.0, "they depend on each other: {of_one:?}");
    let refused = record("2", "1000").scale(&[]).unwrap_err();
    assert!(refused.to_string().contains("RADDLE_TRACE_ROOM"), "{refused}");
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn handlers_go_with_their_pool_though_it_is_recorded() {
    const CHILD: &str = "RADDLE_TEST_CHILD_HANDLERS";
    if std::env::var_os(CHILD).is_some() {
        let (send, receive) = std::sync::mpsc::channel::<()>();
        let pool = rayon_core::ThreadPoolBuilder::new()
            .num_threads(2)
            .start_handler(move |_| _ = &send)
            .build()
            .unwrap();
        pool.install(|| each(0..100, &|_| std::thread::yield_now()));
        drop(pool);
        let ended = receive.recv_timeout(std::time::Duration::from_secs(20));
        let gone = ended == Err(std::sync::mpsc::RecvTimeoutError::Disconnected);
        // And one that is going while the process does.
        drop(rayon_core::ThreadPoolBuilder::new().num_threads(2).build().unwrap());
        std::process::exit(if gone { 0 } else { 3 });
    }
    let folder = std::env::temp_dir().join(format!("raddle-handlers-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("program.trace");
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "handlers_go_with_their_pool_though_it_is_recorded", "--nocapture"])
        .env(CHILD, "1")
        .env("RADDLE_TRACE", &file)
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
    let trace = Trace::load(&file).unwrap();
    assert!(trace.lanes.iter().any(|lane| !lane.events.is_empty()));
    assert!(Trace::load(folder.join("program.trace.2")).is_ok());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_file_that_cannot_be_written_is_told() {
    const CHILD: &str = "RADDLE_TEST_CHILD_UNWRITABLE";
    if std::env::var_os(CHILD).is_some() {
        rayon_core::join(|| (), || ());
        std::process::exit(0);
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_file_that_cannot_be_written_is_told", "--nocapture"])
        .env(CHILD, "1")
        .env("RADDLE_TRACE", "/nowhere/at/all")
        .output()
        .unwrap();
    assert!(output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("RADDLE_TRACE: /nowhere/at/all"), "{said}");
}

#[test]
fn a_rule_that_nobody_knows_is_told_once_if_anybody_listens() {
    const CHILD: &str = "RADDLE_TEST_CHILD_WAITS";
    if std::env::var_os(CHILD).is_some() {
        // Until whoever reads what it says has gone.
        _ = std::io::stdin().read(&mut [0]);
        for _ in 0..2 {
            let pool = rayon_core::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
            assert_eq!(pool.install(|| 7), 7);
        }
        std::process::exit(0);
    }
    for listens in [true, false] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_rule_that_nobody_knows_is_told_once_if_anybody_listens"])
            .env(CHILD, "1")
            .env("RADDLE_WAITS", "patiently")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut reader = child.stderr.take().filter(|_| listens);
        drop(child.stdin.take());
        let mut said = String::new();
        if let Some(reader) = &mut reader {
            reader.read_to_string(&mut said).unwrap();
        }
        assert!(child.wait().unwrap().success(), "{said}");
        assert_eq!(said.matches("RADDLE_WAITS is \"patiently\"").count(), usize::from(listens));
    }
}
