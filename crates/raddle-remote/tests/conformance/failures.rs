//! The table of failures, row by row; after each the environment can be used.

use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::time::Duration;

use raddle::remote::{Death, Env, RemoteError, Shared, Status, task};
use raddle::{Failure, FailureKind};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::support::{Gates, On, Where, failure, note, result, spin, value};

fn remote(failure: &Failure) -> &RemoteError {
    assert_eq!(failure.kind(), FailureKind::Error, "{failure}");
    failure.downcast_ref().unwrap_or_else(|| panic!("no error of ours: {failure}"))
}

fn death(failure: &Failure) -> &Death {
    match remote(failure) {
        RemoteError::Died(death) => death,
        other => panic!("no death: {other:?}"),
    }
}

#[track_caller]
fn still_works(env: &Env) {
    assert_eq!(value(env.spawn(|n| n + 1, 1)), 2);
}

fn tear(what: String) -> u32 {
    panic!("torn {what}")
}

pub fn panics_say_what_and_where(on: &On) {
    let env = on.env();
    let failed = failure(env.spawn(tear, "warp".into()));
    assert_eq!(failed.kind(), FailureKind::Panicked);
    assert!(failed.to_string().starts_with("panicked: torn warp"), "{failed}");
    if on.is_apart() {
        assert!(failed.place().unwrap().contains("failures.rs:"), "{failed}");
    }
    assert_eq!(failed.downcast::<String>().unwrap(), "torn warp");
    let mapped = failure(env.map(tear, ["weft".to_owned()]));
    assert!(mapped.to_string().starts_with("panicked: torn weft"), "{mapped}");
    let odd = |(): ()| -> u32 { std::panic::panic_any(7_u8) };
    assert_eq!(failure(env.spawn(odd, ())).kind(), FailureKind::Panicked);
    still_works(&env);
}

pub fn panics_keep_the_worker(on: &On) {
    let env = on.alone();
    let before = value(env.spawn(|()| std::process::id(), ()));
    failure(env.spawn(tear, "twill".into()));
    assert_eq!(value(env.spawn(|()| std::process::id(), ())), before);
}

fn signal(number: i32) {
    // SAFETY: takes a number.
    unsafe { libc::raise(number) };
}

pub fn signals_are_named(on: &On) {
    if !on.is_apart() {
        return;
    }
    let env = on.env();
    // (Of SIGSEGV std has a handler, which does nothing about one that is sent.)
    for number in [libc::SIGKILL, libc::SIGFPE, libc::SIGTERM] {
        let failed = failure(env.task().name("weave").spawn(signal, number));
        let death = death(&failed);
        assert_eq!(death.status, Status::Signalled(number));
        assert_eq!(death.attempts, 1);
        assert!(death.pid > 0 && !death.host.is_empty() && death.worker < 2);
        assert!(failed.to_string().contains("SIG"), "{failed}");
        still_works(&env);
    }
}

pub fn exit_codes_are_told(on: &On) {
    if !on.is_apart() {
        return;
    }
    let env = on.env();
    for code in [0, 7] {
        let failed = failure(env.spawn(|code| -> () { std::process::exit(code) }, code));
        assert_eq!(death(&failed).status, Status::Exited(code));
        still_works(&env);
    }
}

pub fn aborts_have_their_last_words(on: &On) {
    if !on.is_apart() {
        return;
    }
    let env = on.env();
    let last_words = |(): ()| -> () {
        eprintln!("the loom is on fire");
        std::process::abort()
    };
    let failed = failure(env.spawn(last_words, ()));
    let death = death(&failed);
    assert_eq!(death.status, Status::Signalled(libc::SIGABRT));
    assert!(death.stderr_tail.contains("the loom is on fire"), "{death:?}");
    assert!(failed.to_string().contains("the loom is on fire"), "{failed}");
    still_works(&env);
}

pub fn memory_is_limited(on: &On) {
    if !on.is_apart() {
        return;
    }
    // A backtrace may be longer than what is kept of what it says.
    let plan = on.plan().memory_limit(256 << 20).env("RUST_BACKTRACE", "0");
    let env = Env::new(plan).unwrap();
    let fill = |len: usize| std::hint::black_box(vec![1_u8; len]).len();
    assert_eq!(value(env.spawn(fill, 16 << 20)), 16 << 20);
    let failed = failure(env.spawn(fill, 512 << 20));
    assert_eq!(death(&failed).status, Status::Signalled(libc::SIGABRT));
    assert!(failed.to_string().contains("it said: memory allocation of "), "{failed}");
    still_works(&env);
}

pub fn time_limits_kill(on: &On) {
    if !on.is_concurrent() {
        return;
    }
    let env = on.env();
    let gates = Gates::new();
    let task = env.task().timeout(Duration::from_millis(100));
    let failed = failure(task.spawn(spin, gates.at("here")));
    assert_eq!(failed.kind(), FailureKind::TimedOut);
    if on.is_apart() {
        // It may have been stopped before it could say so.
        crate::support::until(|| {
            !gates.is_open("here") || !crate::support::is_alive(&gates.said("here"))
        });
    }
    let task = env.task().timeout(Duration::from_secs(1000));
    assert_eq!(value(task.spawn(|n| n + 1, 1)), 2);
    still_works(&env);
}

/// Goes out, and does not come in.
#[derive(Debug, Serialize)]
struct OneWay(u32);

impl<'de> Deserialize<'de> for OneWay {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<OneWay, D::Error> {
        Err(serde::de::Error::custom("no way back"))
    }
}

/// Does not even go out.
#[derive(Debug, Deserialize)]
struct Stays;

impl Serialize for Stays {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("it stays"))
    }
}

fn encoding(on: &On) -> Env {
    Env::new(on.plan().strict(true)).unwrap()
}

pub fn what_does_not_decode_names_its_type(on: &On) {
    let env = encoding(on);
    for failed in [
        failure(env.spawn(|one: OneWay| one.0, OneWay(1))),
        failure(env.spawn(|(): ()| OneWay(2), ())),
    ] {
        assert!(matches!(remote(&failed), RemoteError::Decode { .. }), "{failed}");
        assert!(failed.to_string().contains("OneWay"), "{failed}");
        still_works(&env);
    }
}

pub fn what_does_not_encode_names_its_type(on: &On) {
    let env = encoding(on);
    for failed in [failure(env.spawn(|_: Stays| 1, Stays)), failure(env.spawn(|(): ()| Stays, ()))]
    {
        assert!(matches!(remote(&failed), RemoteError::Encode { .. }), "{failed}");
        assert!(failed.to_string().contains("Stays"), "{failed}");
        still_works(&env);
    }
    assert!(env.share(1).is_ok());
}

pub fn arguments_that_are_too_long_are_not_sent(on: &On) {
    if !on.is_apart() {
        return;
    }
    let env = Env::new(on.plan().max_frame(10_000)).unwrap();
    let gates = Gates::new();
    let long = (gates.at("ran"), vec![0_u8; 20_000]);
    let failed = failure(env.spawn(|(ran, _): (String, Vec<u8>)| note(&ran), long));
    assert!(matches!(remote(&failed), RemoteError::TooLarge { limit: 10_000, .. }), "{failed}");
    assert!(matches!(env.share(vec![0_u8; 20_000]), Err(RemoteError::TooLarge { .. })));
    still_works(&env);
    assert!(!gates.is_open("ran"));
}

pub fn results_that_are_too_long_are_not_sent(on: &On) {
    if !on.is_apart() {
        return;
    }
    let env = Env::new(on.plan().max_frame(10_000).workers(1)).unwrap();
    let before = value(env.spawn(|()| std::process::id(), ()));
    let failed = failure(env.spawn(|len: usize| vec![0_u8; len], 20_000));
    match remote(&failed) {
        RemoteError::TooLarge { len, limit } => assert!(*len > 20_000 && *limit == 10_000),
        other => panic!("{other:?}"),
    }
    assert_eq!(value(env.spawn(|()| std::process::id(), ())), before);
}

pub fn workers_that_are_not_ready_in_time_fail_the_queue(on: &On) {
    // An actor of Ray takes a second to start, and this test three.
    if !on.is_apart() || on.which == Where::Ray {
        return;
    }
    let never = || loop {
        std::thread::park();
    };
    let plan =
        on.plan().workers(1).on_worker_start(never).start_timeout(Duration::from_millis(400));
    let env = match Env::new(plan) {
        Ok(env) => env,
        // The bridge itself was late: the machine is busy.
        Err(error) => return assert!(matches!(error, RemoteError::Engine(_)), "{error}"),
    };
    let (first, second) = (env.spawn(|()| (), ()), env.spawn(|()| (), ()));
    for failed in [failure(first), failure(second)] {
        assert!(matches!(remote(&failed), RemoteError::Start(_)), "{failed}");
    }
    let panics = on.plan().on_worker_start(|| panic!("not today"));
    let failed = failure(Env::new(panics).unwrap().spawn(|()| (), ()));
    assert!(matches!(remote(&failed), RemoteError::Start(_)), "{failed}");
    assert!(failed.to_string().contains("on_worker_start panicked"), "{failed}");
}

/// The worker's own socket, which no task has any business with.
fn own_socket() -> std::fs::File {
    let fds = (100..1100).chain(3..100);
    let is_stream = |fd: &i32| {
        let link = std::fs::read_link(format!("/proc/self/fd/{fd}")).unwrap_or_default();
        link.to_string_lossy().starts_with("socket:")
    };
    let fd = fds.into_iter().find(is_stream).unwrap();
    // SAFETY: the process ends before this is dropped.
    unsafe { std::fs::File::from_raw_fd(fd) }
}

fn say(bytes: Vec<u8>) {
    own_socket().write_all(&bytes).unwrap();
    loop {
        std::thread::park();
    }
}

pub fn garbage_ends_the_worker(on: &On) {
    if !on.is_apart() {
        return;
    }
    let env = on.env();
    // No such kind; a length beyond all limits; an answer to what was not asked.
    let answer = [&[0_u8, 0, 0, 0, 17, 0, 0, 0][..], &u64::MAX.to_le_bytes()].concat();
    let mut long = vec![0xff, 0xff, 0xff, 0xff, 17];
    long.resize(16, 0);
    for garbage in [b"no frame of ours at all, is it?".to_vec(), long, answer] {
        let failed = failure(env.spawn(say, garbage));
        assert!(matches!(remote(&failed), RemoteError::Protocol(_)), "{failed}");
        still_works(&env);
    }
}

pub fn truncated_frames_end_the_worker(on: &On) {
    if !on.is_apart() {
        return;
    }
    let env = on.env();
    let cut = |(): ()| -> () {
        // Left open: a worker whose socket is closed before it ends is told apart from one that exits.
        let mut socket = std::mem::ManuallyDrop::new(own_socket());
        socket.write_all(&[100, 0, 0, 0, 17, 0, 0, 0, 1]).unwrap();
        std::process::exit(9)
    };
    let failed = failure(env.spawn(cut, ()));
    assert_eq!(death(&failed).status, Status::Exited(9));
    still_works(&env);
}

/// Dies the first two times, counting in a file.
fn flaky(path: String) -> (u32, usize) {
    note(&path);
    let mut text = String::new();
    std::fs::File::open(&path).unwrap().read_to_string(&mut text).unwrap();
    let tries = text.lines().count();
    if tries <= 2 {
        std::process::abort();
    }
    (task().unwrap().attempt, tries)
}

pub fn retries_are_counted(on: &On) {
    if !on.is_apart() {
        return;
    }
    let gates = Gates::new();
    let env = Env::new(on.plan().retries(2)).unwrap();
    assert_eq!(value(env.spawn(flaky, gates.at("a"))), (3, 3));
    let env = on.env();
    assert_eq!(value(env.task().retries(5).spawn(flaky, gates.at("b"))), (3, 3));
    assert_eq!(gates.lines("b"), 3);
}

pub fn retries_run_out(on: &On) {
    if !on.is_apart() {
        return;
    }
    let gates = Gates::new();
    let env = on.env();
    let failed = failure(env.spawn(flaky, gates.at("none")));
    assert_eq!((death(&failed).attempts, gates.lines("none")), (1, 1));
    let failed = failure(env.task().retries(1).spawn(flaky, gates.at("one")));
    assert_eq!((death(&failed).attempts, gates.lines("one")), (2, 2));
    // A panic is no death.
    let panics = |path: String| -> () {
        note(&path);
        panic!("torn")
    };
    failure(env.task().retries(3).spawn(panics, gates.at("panic")));
    assert_eq!(gates.lines("panic"), 1);
    still_works(&env);
}

pub fn hooks_that_panic_fail_the_task(on: &On) {
    let env = Env::new(on.plan().before_start(|info| {
        assert!(info.name.is_none(), "no names");
    }));
    let env = env.unwrap();
    let failed = failure(env.task().name("a").spawn(|()| (), ()));
    assert_eq!(failed.kind(), FailureKind::Panicked);
    still_works(&env);
    let env = Env::new(on.plan().after_finish(|_, _| panic!("nobody asked"))).unwrap();
    still_works(&env);
    still_works(&env);
}

/// What hooks panic with, and what then panics when it is dropped.
struct Torn;

impl Drop for Torn {
    fn drop(&mut self) {
        panic!("torn again");
    }
}

/// Those that only look on are not the task's.
pub fn hooks_that_panic_concern_nobody(on: &On) {
    let plan = on
        .plan()
        .on_progress(|_, _| std::panic::panic_any(Torn))
        .on_output(|_, _, _| std::panic::panic_any(Torn))
        .after_finish(|_, _| std::panic::panic_any(Torn));
    let env = Env::new(plan).unwrap();
    let speaks = |n: u32| {
        println!("warp");
        raddle::remote::progress(1, 2);
        n + 1
    };
    for n in 0..3 {
        assert_eq!(value(env.spawn(speaks, n)), n + 1);
    }
}

pub fn functions_of_libraries_are_refused(on: &On) {
    // SAFETY: of an integer, as `abs` in C is; the calling convention is the same for one.
    let foreign =
        unsafe { std::mem::transmute::<*const (), fn(i32) -> i32>(libc::abs as *const ()) };
    let env = on.env();
    let refused = result(env.spawn(foreign, -1));
    match on.is_apart() {
        true => {
            let failed = refused.unwrap_err();
            assert!(matches!(remote(&failed), RemoteError::NotInProgram(_)), "{failed}");
        }
        false => assert!(refused.is_ok()),
    }
    let none = Env::new(on.plan().workers(0));
    assert!(matches!(none, Err(RemoteError::Start(_))) || on.which == Where::Sequential);
}

/// Goes out, and panics on its way in.
#[derive(Debug, Serialize)]
struct Bursts(u32);

impl<'de> Deserialize<'de> for Bursts {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Bursts, D::Error> {
        panic!("burst")
    }
}

pub fn results_whose_decoding_panics(on: &On) {
    let env = encoding(on);
    for _ in 0..3 {
        let failed = failure(env.spawn(|(): ()| Bursts(1), ()));
        assert_eq!(failed.kind(), FailureKind::Panicked, "{failed}");
        assert!(failed.to_string().contains("burst"), "{failed}");
        still_works(&env);
    }
    // It waits for none of them.
    drop(env);
}

pub fn messages_are_as_long_as_allowed(on: &On) {
    if !on.is_apart() {
        return;
    }
    let env = Env::new(on.plan().max_frame(10_000).workers(1)).unwrap();
    let worker = value(env.spawn(|()| std::process::id(), ()));
    // The length goes along, of two bytes.
    let back = |bytes: String| bytes;
    assert_eq!(value(env.spawn(back, "x".repeat(9_998))).len(), 9_998);
    let named = env.task().name("y".repeat(5_000)).spawn(back, "x".repeat(4_000));
    assert_eq!(value(named).len(), 4_000);
    let failed = failure(env.task().name("y".repeat(5_000)).spawn(back, "x".repeat(9_000)));
    assert!(matches!(remote(&failed), RemoteError::TooLarge { .. }), "{failed}");
    let failed = failure(env.spawn(tear, "x".repeat(9_000)));
    assert_eq!(failed.kind(), FailureKind::Panicked);
    let failed = failure(env.spawn(|len: usize| -> () { panic!("{}", "ä".repeat(len)) }, 20_000));
    assert_eq!(failed.kind(), FailureKind::Panicked);
    assert_eq!(failed.downcast::<String>().unwrap(), "ä".repeat(5_000));
    // Of an environment that allows more.
    let long = Env::new(raddle::remote::Plan::sequential()).unwrap().share(vec![1_u8; 20_000]);
    let failed = failure(env.spawn(|long: Shared<Vec<u8>>| long.len(), long.unwrap()));
    assert!(matches!(remote(&failed), RemoteError::TooLarge { .. }), "{failed}");
    assert_eq!(value(env.spawn(|()| std::process::id(), ())), worker);
    // Also of why there can be no worker.
    let nested = raddle::remote::Plan::ray("x".repeat(20_000));
    let env = Env::new(on.plan().max_frame(100).nested(nested)).unwrap();
    let failed = failure(env.spawn(|n| n + 1, 1));
    assert!(matches!(remote(&failed), RemoteError::Start(_)), "{failed}");
    assert!(failed.to_string().contains("the nested plan"), "{failed}");
}

/// Panics when it is dropped, in a task.
#[derive(Debug, Serialize, Deserialize)]
struct Frayed(u32);

impl Drop for Frayed {
    fn drop(&mut self) {
        assert!(task().is_none(), "frayed");
    }
}

pub fn drops_that_panic(on: &On) {
    let env = on.env();
    let argument = failure(env.spawn(|frayed: Frayed| frayed.0, Frayed(1)));
    assert_eq!(argument.kind(), FailureKind::Panicked);
    assert!(argument.to_string().contains("frayed"), "{argument}");
    // It is dropped where it was sent from, too.
    match result(env.spawn(Frayed, 1)) {
        Ok(frayed) => assert!(!on.is_apart() && frayed.0 == 1),
        Err(failure) => assert_eq!(failure.kind(), FailureKind::Panicked),
    }
    let payload = failure(env.spawn(|n| -> () { std::panic::panic_any(Frayed(n)) }, 1));
    assert_eq!(payload.kind(), FailureKind::Panicked);
    drop(payload);
    still_works(&env);
    if on.is_apart() {
        let twice = |frayed: Frayed| -> () { panic!("torn, and {frayed:?}") };
        let failed = failure(env.spawn(twice, Frayed(1)));
        assert_eq!(death(&failed).status, Status::Signalled(libc::SIGABRT));
        still_works(&env);
    }
}

pub fn workers_that_close_all_they_have(on: &On) {
    if !on.is_apart() {
        return;
    }
    let env = on.env();
    for first in [0, 3] {
        let closes = |first: i32| {
            for fd in first..2000 {
                // SAFETY: nothing here is used by this task; what others do about it is the question.
                unsafe { libc::close(fd) };
            }
        };
        // It cannot answer, and ends in one way or the other.
        let failed = failure(env.spawn(closes, first));
        let _ = death(&failed);
        still_works(&env);
    }
    // Of those that are the task's it may do with them what it likes.
    let closes = |n: i32| {
        // SAFETY: as above.
        (0..3).for_each(|fd| _ = unsafe { libc::close(fd) });
        n + 1
    };
    assert_eq!(value(env.spawn(closes, 1)), 2);
    still_works(&env);
}

/// It does not answer any more, and its guard is gone.
pub fn workers_that_become_another_program(on: &On) {
    use std::os::unix::process::CommandExt;
    if !on.is_apart() {
        return;
    }
    let env = on.env();
    let sleeps =
        |()| -> () { panic!("{}", std::process::Command::new("sleep").arg("1000").exec()) };
    let failed = failure(env.spawn(sleeps, ()));
    assert_eq!(death(&failed).status, Status::Signalled(libc::SIGKILL));
    still_works(&env);
}

/// A task may do so with what it inherits: with all there is, out of ignorance.
pub fn descriptors_that_a_task_has_made_nonblocking(on: &On) {
    if !on.is_apart() {
        return;
    }
    let env = on.alone();
    let worker = value(env.spawn(|()| std::process::id(), ()));
    let long = |len: usize| {
        // SAFETY: takes and returns numbers.
        (0..2000).for_each(|fd| _ = unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK) });
        vec![7_u8; len]
    };
    for _ in 0..3 {
        assert_eq!(value(env.spawn(long, 16 << 20)), vec![7; 16 << 20]);
    }
    assert_eq!(value(env.spawn(|()| std::process::id(), ())), worker);
}
