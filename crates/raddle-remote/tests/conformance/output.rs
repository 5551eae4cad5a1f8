//! What tasks write and say while they run.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use raddle::remote::{Env, Output, Plan, Progress, Stream, TaskInfo, progress, task};

use crate::support::{Gates, On, open, value, wait};

/// By task and stream.
type Written = Arc<Mutex<Vec<(String, Stream, Vec<u8>)>>>;

fn recorded(plan: Plan) -> (Env, Written) {
    let written = Written::default();
    let to = Arc::clone(&written);
    let hook = move |info: &TaskInfo, stream, bytes: &[u8]| {
        let name = info.name.clone().unwrap_or_default();
        let mut written = to.lock().unwrap();
        match written.iter_mut().find(|(task, which, _)| *task == name && *which == stream) {
            Some((_, _, all)) => all.extend_from_slice(bytes),
            None => written.push((name, stream, bytes.to_vec())),
        }
    };
    (Env::new(plan.on_output(hook)).unwrap(), written)
}

fn of(written: &Written, name: &str, stream: Stream) -> Vec<u8> {
    let written = written.lock().unwrap();
    let found = written.iter().find(|(task, which, _)| task == name && *which == stream);
    found.map(|(_, _, bytes)| bytes.clone()).unwrap_or_default()
}

fn both(n: u32) {
    print!("out {n} without an end");
    eprintln!("err {n}");
    std::io::stdout().write_all(b"\xff\x00").unwrap();
}

pub fn all_of_it_comes_and_no_more(on: &On) {
    if !on.is_apart() {
        return;
    }
    let (env, written) = recorded(on.plan());
    value(env.task().name("a").spawn(both, 7));
    // It is there when the task is over.
    assert_eq!(of(&written, "a", Stream::Stdout), b"out 7 without an end\xff\x00");
    assert_eq!(of(&written, "a", Stream::Stderr), b"err 7\n");
    let dies = |()| -> () {
        print!("half a line");
        let _ = std::io::stdout().flush();
        std::process::abort()
    };
    let _ = crate::support::failure(env.task().name("b").spawn(dies, ()));
    assert_eq!(of(&written, "b", Stream::Stdout), b"half a line");
}

fn write_much((len, written, go): (usize, String, String)) {
    let chunk = vec![b'x'; 1 << 16];
    for _ in 0..len / chunk.len() {
        std::io::stdout().write_all(&chunk).unwrap();
    }
    std::io::stdout().flush().unwrap();
    open(written, "");
    wait(go);
}

pub fn ten_megabytes_while_it_runs(on: &On) {
    if !on.is_apart() {
        return;
    }
    let (env, written) = recorded(on.plan());
    let gates = Gates::new();
    let future =
        env.task().name("a").spawn(write_much, (10 << 20, gates.at("written"), gates.at("go")));
    // A pipe holds 64 KiB: it goes on because somebody reads.
    gates.wait("written");
    gates.open("go");
    value(future);
    let all = of(&written, "a", Stream::Stdout);
    assert_eq!(all.len(), 10 << 20);
    assert!(all.iter().all(|&byte| byte == b'x'));
}

fn say(n: u32) {
    for part in 0..n % 5 {
        print!("<{n}.{part}>");
    }
    if n % 3 == 0 {
        eprint!("[{n}]");
    }
}

pub fn each_task_has_its_own(on: &On) {
    if !on.is_apart() {
        return;
    }
    let (env, written) = recorded(on.plan());
    let count = on.count(&[crate::support::Where::Ray], 60, 1000);
    let futures: Vec<_> =
        (0..count).map(|n| env.task().name(n.to_string()).spawn(say, n)).collect();
    for (n, future) in (0..).zip(futures) {
        value(future);
        let expected: String = (0..n % 5).map(|part| format!("<{n}.{part}>")).collect();
        assert_eq!(of(&written, &n.to_string(), Stream::Stdout), expected.as_bytes());
        let expected = if n % 3 == 0 { format!("[{n}]") } else { String::new() };
        assert_eq!(of(&written, &n.to_string(), Stream::Stderr), expected.as_bytes());
    }
}

pub fn output_that_is_discarded(on: &On) {
    if !on.is_apart() {
        return;
    }
    let (env, written) = recorded(on.plan().output(Output::Discard));
    value(env.spawn(both, 1));
    assert!(written.lock().unwrap().is_empty());
    let env = Env::new(on.plan().output(Output::Inherit)).unwrap();
    value(env.spawn(|n| n + 1, 1));
}

fn steps(total: u64) -> u64 {
    for done in 0..=total {
        progress(done, total);
    }
    task().map_or(0, |info| info.id)
}

pub fn progress_comes_in_order(on: &On) {
    let seen: Arc<Mutex<Vec<(u64, Progress)>>> = Arc::default();
    let to = Arc::clone(&seen);
    let plan = on.plan().on_progress(move |info, progress| {
        to.lock().unwrap().push((info.id, progress));
    });
    let env = Env::new(plan).unwrap();
    let (a, b) = (env.spawn(steps, 100), env.spawn(steps, 50));
    for (id, total) in [(value(a), 100), (value(b), 50)] {
        let seen = seen.lock().unwrap();
        let own: Vec<Progress> =
            seen.iter().filter(|(task, _)| *task == id).map(|(_, progress)| *progress).collect();
        let expected: Vec<Progress> =
            own.iter().zip(0..).map(|(own, done)| Progress { done, ..*own }).collect();
        assert_eq!(own, expected);
        assert!(own.iter().all(|own| own.total == total));
        assert_eq!(own.len() as u64, total + 1);
    }
}

/// A task that writes faster than a hook takes it waits: what it writes is kept nowhere.
pub fn output_that_is_not_wanted_yet(on: &On) {
    // On Ray much of it is on the way.
    if !on.is_apart() || on.which == crate::support::Where::Ray {
        return;
    }
    let gates = Gates::new();
    // How much has come, and whether all was written before any was taken.
    let seen = Arc::new(Mutex::new((0, false)));
    let (written, to) = (gates.at("written"), Arc::clone(&seen));
    let gate = written.clone();
    let plan = on.plan().on_output(move |_, _, bytes| {
        let (len, early) = &mut *to.lock().unwrap();
        if *len == 0 {
            // Where it does not wait it is there long before.
            let since = Instant::now();
            while since.elapsed() < Duration::from_secs(2) && !*early {
                *early = std::fs::exists(&gate).unwrap();
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        *len += bytes.len();
    });
    let env = Env::new(plan).unwrap();
    gates.open("go");
    let len = 96 << 20;
    value(env.spawn(write_much, (len, written, gates.at("go"))));
    assert_eq!(*seen.lock().unwrap(), (len, false));
}

fn writes_for_ever(here: String) {
    open(here, "");
    let chunk = vec![b'x'; 1 << 16];
    while std::io::stdout().write_all(&chunk).is_ok() {}
}

pub fn output_that_does_not_cease(on: &On) {
    // On Ray all of it goes through the cluster.
    if !on.is_apart() || on.which == crate::support::Where::Ray {
        return;
    }
    let env = Env::new(on.plan().output(Output::Discard)).unwrap();
    let gates = Gates::new();
    let future = env.spawn(writes_for_ever, gates.at("here"));
    gates.wait("here");
    for n in 0..20 {
        assert_eq!(value(env.spawn(|n| n + 1, n)), n + 1);
    }
    future.kill();
    assert_eq!(crate::support::failure(future).kind(), raddle::FailureKind::Killed);
    assert_eq!(value(env.spawn(|n| n + 1, 1)), 2);
}

unsafe extern "C" {
    fn ftrylockfile(stream: *mut libc::FILE) -> libc::c_int;
    fn funlockfile(stream: *mut libc::FILE);
}

/// Leaves a thread that reads what nobody writes, by a stream of C's, which is locked meanwhile.
fn leaves_a_reader(_: ()) {
    let mut ends = [0; 2];
    // SAFETY: room for two.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    // SAFETY: a descriptor that is open for it, and a C string.
    let stream = unsafe { libc::fdopen(ends[0], c"r".as_ptr()) }.expose_provenance();
    std::thread::spawn(move || {
        // SAFETY: a stream that nobody closes.
        unsafe { libc::fgetc(std::ptr::with_exposed_provenance_mut(stream)) };
    });
    let stream = std::ptr::with_exposed_provenance_mut(stream);
    crate::support::until(|| {
        // SAFETY: as above.
        let is_locked = unsafe { ftrylockfile(stream) } != 0;
        if !is_locked {
            // SAFETY: by who has locked it.
            unsafe { funlockfile(stream) };
        }
        is_locked
    });
}

pub fn streams_that_others_read(on: &On) {
    if !on.is_apart() {
        return;
    }
    let (env, written) = recorded(on.plan().workers(1));
    value(env.spawn(leaves_a_reader, ()));
    // What C has to say is there when the task is over, all the same.
    let says = |(): ()| {
        // SAFETY: a C string.
        unsafe { libc::puts(c"warp".as_ptr()) };
    };
    value(env.task().name("a").spawn(says, ()));
    assert_eq!(of(&written, "a", Stream::Stdout), b"warp\n");
}
