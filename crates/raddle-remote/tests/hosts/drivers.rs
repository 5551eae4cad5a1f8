//! Drivers that end in the middle, forget something, or are not what they were.

use std::cell::RefCell;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use raddle::remote::{Env, Output, Plan, RemoteError, Shared, Status};

use crate::support::{LONG, directory, is_alive, processes, said, say, until};

/// Which scenarios are without `init`.
pub(crate) fn without_init(name: &str) -> bool {
    name.contains("without_init")
}

pub(crate) fn another(name: &str, args: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(format!("scenario={name}")).args(args);
    command
}

/// What scenarios start besides themselves.
pub(crate) fn part(name: &str, args: &[String]) {
    match (name, args) {
        ("driver", [plan, path]) => driver(plan, path),
        ("forking_driver", [plan, path]) => {
            // SAFETY: the child waits to be killed, and does nothing else.
            let forks = || match unsafe { libc::fork() } {
                0 => loop {
                    // SAFETY: no pointers.
                    unsafe { libc::pause() };
                },
                child => say(&format!("{path}/child"), &child.to_string()),
            };
            started_by_a_driver(plan, path, forks);
        }
        ("relay", [plan, output]) => {
            let said = |word: String| {
                print!("{word} on ");
                eprint!("{word} beside");
            };
            let output = if output == "inherit" { Output::Inherit } else { Output::Relay };
            let plan = plan.parse::<Plan>().unwrap().output(output).start_timeout(LONG);
            Env::new(plan).unwrap().spawn(said, "warp".to_owned()).wait().unwrap();
            print!("and on");
        }
        ("asks", [plan]) => crate::clusters::asks(plan),
        ("plan", []) => print!("{}", Env::current().plan()),
        ("replaced", [path]) => replaced(path),
        ("worker_without_init", []) => {
            // As a worker, and none of `init`'s.
            let refused = Env::new(Plan::processes(1));
            assert!(matches!(refused, Err(RemoteError::NotInitialised)), "{refused:?}");
            let failed = raddle::remote::spawn(|()| (), ()).wait().unwrap_err();
            assert!(matches!(failed.downcast_ref(), Some(RemoteError::NotInitialised)));
        }
        other => panic!("no such scenario: {other:?}"),
    }
}

pub(crate) fn without_init_nothing_starts() {
    let refused = Env::new(Plan::processes(2));
    assert!(matches!(refused, Err(RemoteError::NotInitialised)), "{refused:?}");
    let refused = Env::new(Plan::loopback(2));
    assert!(matches!(refused, Err(RemoteError::NotInitialised)), "{refused:?}");
    let (_, _, children) = crate::support::belongings();
    assert_eq!(children, 0);
    // What needs no other process needs no `init`.
    assert_eq!(Env::new(Plan::threads(1)).unwrap().spawn(|n| n + 1, 1).wait().unwrap(), 2);
}

/// A program that was started as a worker and never comes to `init` must not start workers in turn.
pub(crate) fn a_worker_without_init_starts_nothing() {
    let mut child = another("worker_without_init", &[])
        .env("RADDLE_REMOTE_WORKER", "1")
        .env("RADDLE_PLAN", "processes:2")
        .spawn()
        .unwrap();
    assert!(child.wait().unwrap().success());
}

pub(crate) fn a_token_without_a_socket_is_refused() {
    let output = Command::new(std::env::current_exe().unwrap())
        .env("RADDLE_REMOTE_WORKER", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(113));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("RADDLE_REMOTE_WORKER is set, but standard input is no socket"),
        "{said}"
    );
    // And so it is where nobody reads what it says.
    let (unread, _) = std::os::unix::net::UnixStream::pair().unwrap();
    let status = Command::new(std::env::current_exe().unwrap())
        .env("RADDLE_REMOTE_WORKER", "1")
        .stdin(Stdio::null())
        .stderr(std::os::fd::OwnedFd::from(unread))
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(113));
}

/// Spins, and a child of its sleeps.
pub(crate) fn spin(path: String) {
    #[expect(clippy::zombie_processes)] // It is to be killed with this process.
    let child = Command::new("sleep").arg("1000").spawn().unwrap();
    say(&path, &format!("{} {}", std::process::id(), child.id()));
    loop {
        std::hint::spin_loop();
    }
}

fn driver(plan: &str, path: &str) {
    started_by_a_driver(plan, path, || ());
}

/// Two workers, one of which is busy; and what `then` does besides.
fn started_by_a_driver(plan: &str, path: &str, then: impl FnOnce()) {
    let mut plan = plan.parse::<Plan>().unwrap().start_timeout(LONG).workers(2);
    if let Some(python) = std::env::var_os("RADDLE_TEST_PYTHON") {
        plan = plan.python(python);
    }
    let env = Env::new(plan).unwrap();
    let spins = env.spawn(spin, format!("{path}/busy"));
    said(&format!("{path}/busy"));
    let rests = |()| (std::process::id(), Command::new("sleep").arg("1000").spawn().unwrap().id());
    let (idle, child) = env.spawn(rests, ()).wait().unwrap();
    then();
    say(&format!("{path}/idle"), &format!("{idle} {child}"));
    let _ = spins.wait();
}

/// All that it has started is gone within `limit`, each time.
pub(crate) fn killed_driver(plan: &str, limit: Duration) {
    let took: Vec<Duration> = (0..10).map(|_| all_gone("driver", plan, |_| ())).collect();
    assert!(took.iter().all(|took| *took < limit), "not within {limit:?}: {took:?}");
}

fn all_gone(driver: &str, plan: &str, then: impl FnOnce(&str)) -> Duration {
    let path = directory("driver");
    let mut driver = another(driver, &[plan, &path]).spawn().unwrap();
    let pids = [said(&format!("{path}/busy")), said(&format!("{path}/idle"))].join(" ");
    let pids: Vec<&str> = pids.split(' ').collect();
    assert!(pids.len() == 4 && pids.iter().all(|pid| is_alive(pid)));
    driver.kill().unwrap();
    let start = Instant::now();
    assert_eq!(driver.wait().unwrap().signal(), Some(libc::SIGKILL));
    until(|| pids.iter().all(|pid| !is_alive(pid)));
    let took = start.elapsed();
    println!("a killed driver of {plan}: all gone after {took:.1?}");
    then(&path);
    fs::remove_dir_all(path).unwrap();
    took
}

pub(crate) fn a_killed_driver_leaves_nothing() {
    killed_driver("processes:2", Duration::from_secs(1));
}

pub(crate) fn a_killed_driver_of_slots_leaves_nothing() {
    killed_driver("loopback:2", Duration::from_secs(1));
}

/// Also where a child of its lives on, which has copies of all its sockets.
pub(crate) fn a_killed_driver_with_a_child_leaves_nothing() {
    for plan in ["processes:2", "loopback:2"] {
        all_gone("forking_driver", plan, |path| {
            let child = said(&format!("{path}/child"));
            assert!(is_alive(&child));
            // SAFETY: a number of ours: it waits for this.
            unsafe { libc::kill(child.parse().unwrap(), libc::SIGKILL) };
        });
    }
}

/// The process that has started another.
pub(crate) fn parent(pid: &str) -> i32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(") ").next().unwrap().split(' ').nth(1).unwrap().parse().unwrap()
}

/// What runs fails, and says why; what is queued, and what comes, goes over another bridge.
pub(crate) fn a_lost_bridge_is_replaced() {
    let env = Env::new(Plan::loopback(1).start_timeout(LONG)).unwrap();
    // Time and again: one that has done something is not held against the next.
    for round in 0..5 {
        let path = directory("bridge");
        let spins = env.spawn(spin, format!("{path}/busy"));
        let pids = said(&format!("{path}/busy"));
        let bridge = parent(pids.split(' ').next().unwrap());
        let queued: Vec<_> = (0..4).map(|n| env.spawn(|n| n + 1, n)).collect();
        // SAFETY: the bridge is a child of ours that we have not reaped.
        unsafe { libc::kill(bridge, libc::SIGKILL) };
        let failed = spins.wait_timeout(LONG).expect("an end").unwrap_err();
        match failed.downcast_ref() {
            Some(RemoteError::Died(death)) => {
                assert_eq!((death.status, death.attempts), (Status::Lost, 1));
                assert_eq!(death.pid.to_string(), pids.split(' ').next().unwrap());
            }
            other => panic!("{other:?}"),
        }
        assert!(failed.to_string().contains("was lost"), "{failed}");
        for (n, future) in (1..).zip(queued) {
            assert_eq!(future.wait_timeout(LONG).expect("an end").unwrap(), n);
        }
        // With nothing to do it is lost as well.
        if round % 2 == 1 {
            let pid = env.spawn(|()| std::process::id(), ()).wait().unwrap().to_string();
            let bridge = parent(&pid);
            // SAFETY: as above.
            unsafe { libc::kill(bridge, libc::SIGKILL) };
            until(|| !is_alive(&bridge.to_string()));
            let next = env.task().retries(1).spawn(|()| std::process::id(), ());
            assert_ne!(next.wait().unwrap().to_string(), pid);
            until(|| !is_alive(&pid));
        }
        until(|| pids.split(' ').all(|pid| !is_alive(pid)));
        fs::remove_dir_all(path).unwrap();
    }
    drop(env);
    let (_, _, children) = crate::support::belongings();
    assert_eq!(children, 0);
}

/// A bridge that cannot be started again is an error, and each task that comes tries once more.
pub(crate) fn a_lost_bridge_without_another() {
    let path = directory("no-bridge");
    let python = format!("{path}/python");
    let program = |text: &str| {
        fs::write(format!("{python}.new"), text).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(format!("{python}.new"), mode).unwrap();
        fs::rename(format!("{python}.new"), &python).unwrap();
    };
    let good = "#!/bin/sh\nexec python3 \"$@\"\n";
    program(good);
    let env = Env::new(Plan::loopback(1).python(&python).start_timeout(LONG)).unwrap();
    let pid = env.spawn(|()| std::process::id(), ()).wait().unwrap().to_string();
    program("#!/bin/sh\necho no loom here >&2\n");
    let bridge = parent(&pid);
    // SAFETY: the bridge is a child of ours that we have not reaped.
    unsafe { libc::kill(bridge, libc::SIGKILL) };
    until(|| !is_alive(&pid));
    for _ in 0..3 {
        let failed = env.task().retries(1).spawn(|n| n + 1, 1).wait().unwrap_err();
        assert!(matches!(failed.downcast_ref(), Some(RemoteError::Engine(_))), "{failed}");
        assert!(failed.to_string().contains("no loom here"), "{failed}");
    }
    program(good);
    assert_eq!(env.spawn(|n| n + 1, 1).wait().unwrap(), 2);
    drop(env);
    fs::remove_dir_all(path).unwrap();
}

/// Says that it is there, and waits for another.
fn meet((mine, other): (String, String)) -> u32 {
    say(&mine, "");
    said(&other);
    std::process::id()
}

/// Spins at its first attempt, and says at the second that it is that.
fn spins_once(path: String) -> u32 {
    let attempt = raddle::remote::task().unwrap().attempt;
    if attempt == 1 {
        spin(path);
    }
    attempt
}

/// What may be tried again is not given to a slot that is lost too.
pub(crate) fn what_a_lost_bridge_had_is_tried_again() {
    let env = Env::new(Plan::loopback(2).retries(1).start_timeout(LONG)).unwrap();
    let path = directory("retried");
    let (one, other) = (format!("{path}/one"), format!("{path}/other"));
    let both = [(one.clone(), other.clone()), (other, one)].map(|gates| env.spawn(meet, gates));
    let pids = both.map(|worker| worker.wait().unwrap());
    assert_ne!(pids[0], pids[1]);
    // One slot is busy now, the other is idle.
    let spins = env.spawn(spins_once, format!("{path}/busy"));
    said(&format!("{path}/busy"));
    let bridge = parent(&pids[0].to_string());
    // SAFETY: the bridge is a child of ours that we have not reaped.
    unsafe { libc::kill(bridge, libc::SIGKILL) };
    assert_eq!(spins.wait_timeout(LONG).expect("an end").unwrap(), 2);
    drop(env);
    fs::remove_dir_all(path).unwrap();
}

/// A worker that does not read what it is sent holds up nobody else.
pub(crate) fn a_stopped_worker_stops_no_other() {
    let env = Env::new(Plan::loopback(2).start_timeout(LONG)).unwrap();
    let path = directory("stopped");
    let (one, other) = (format!("{path}/one"), format!("{path}/other"));
    let both = [(one.clone(), other.clone()), (other, one)].map(|gates| env.spawn(meet, gates));
    let [stopped, _] = both.map(|worker| worker.wait().unwrap() as i32);
    // SAFETY: it is a worker of ours, and idle.
    unsafe { libc::kill(stopped, libc::SIGSTOP) };
    let long = || "x".repeat(8 << 20);
    let calls = [long(), long()].map(|text| env.spawn(|text: String| text.len(), text));
    let next = env.spawn(|n| n + 1, 1).wait_timeout(LONG);
    // SAFETY: as above; it has not ended meanwhile.
    unsafe { libc::kill(stopped, libc::SIGCONT) };
    assert_eq!(next.expect("an end").unwrap(), 2);
    for call in calls {
        assert_eq!(call.wait().unwrap(), 8 << 20);
    }
    drop(env);
    fs::remove_dir_all(path).unwrap();
}

/// However many, and whoever does not hear them.
pub(crate) fn interrupts_of_a_stopped_worker_stop_no_other() {
    for plan in [Plan::processes(2), Plan::loopback(2)] {
        let env = Env::new(plan.start_timeout(LONG)).unwrap();
        let path = directory("deaf");
        let (one, other) = (format!("{path}/one"), format!("{path}/other"));
        let both = [(one.clone(), other.clone()), (other, one)].map(|gates| env.spawn(meet, gates));
        let [stopped, _] = both.map(|worker| worker.wait().unwrap() as i32);
        // SAFETY: it is a worker of ours, and idle.
        unsafe { libc::kill(stopped, libc::SIGSTOP) };
        // One of the two has the worker that is stopped.
        let calls = [1, 2].map(|n| env.spawn(|n| n + 1, n));
        for call in &calls {
            (0..2000).for_each(|_| call.interrupt("enough"));
        }
        let next = env.spawn(|n| n + 1, 1).wait_timeout(LONG);
        // SAFETY: as above; it has not ended meanwhile.
        unsafe { libc::kill(stopped, libc::SIGCONT) };
        assert_eq!(next.expect("an end").unwrap(), 2);
        assert_eq!(calls.map(|call| call.wait().unwrap()), [2, 3]);
        drop(env);
        fs::remove_dir_all(path).unwrap();
    }
}

/// `cargo build` puts another file where this program was.
pub(crate) fn the_file_may_be_replaced() {
    let path = directory("replaced");
    let copy = format!("{path}/program");
    fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let status = Command::new(&copy).args(["scenario=replaced", &copy]).status().unwrap();
    assert!(status.success());
    fs::remove_dir_all(path).unwrap();
}

fn replaced(path: &str) {
    for round in 0..2 {
        let env = processes(1);
        assert_eq!(env.spawn(|n| n + 1, round).wait().unwrap(), round + 1);
        fs::remove_file(path).unwrap();
        fs::copy("/bin/false", path).unwrap();
        env.reset();
        assert_eq!(env.spawn(|n| n + 1, round).wait().unwrap(), round + 1);
    }
}

pub(crate) fn the_environment_names_the_plan() {
    let said = |plan: &str| {
        let mut child =
            another("plan", &[]).env("RADDLE_PLAN", plan).stdout(Stdio::piped()).spawn().unwrap();
        let mut text = String::new();
        child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(child.wait().unwrap().success());
        text
    };
    for plan in ["sequential", "threads:3", "processes:2"] {
        assert_eq!(said(plan), plan);
    }
    // One that cannot be fails each task, and says why.
    // SAFETY: there is no other thread.
    unsafe { std::env::set_var("RADDLE_PLAN", "proceses:2") };
    let failed = raddle::remote::spawn(|()| (), ()).wait().unwrap_err();
    assert!(failed.to_string().contains("'proceses:2' is no plan"), "{failed}");
}

pub(crate) fn an_engine_that_is_not_there() {
    let start = Instant::now();
    let limit = Duration::from_secs(20);
    // A port that nobody listens at, an address that is none, a Python that is none.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for plan in [
        Plan::ray(closed.to_string()),
        Plan::ray("nowhere"),
        Plan::ray("127.0.0.1:port"),
        Plan::loopback(1).python("/nowhere/python3"),
        Plan::loopback(1).python("/bin/true"),
        Plan::loopback(1).python("/bin/sleep").start_timeout(Duration::from_millis(300)),
    ] {
        let named = format!("{plan:?}");
        let refused =
            Env::new(if named.contains("sleep") { plan } else { plan.start_timeout(limit) });
        assert!(matches!(refused, Err(RemoteError::Engine(_))), "{named}: {refused:?}");
    }
    assert!(start.elapsed() < limit, "{:?}", start.elapsed());
    let (_, _, children) = crate::support::belongings();
    assert_eq!(children, 0);
}

/// A bridge that never reads what it is told, or has gone before: also where that is more than a socket holds.
pub(crate) fn a_bridge_that_does_not_listen() {
    let path = directory("deaf");
    let python = format!("{path}/python");
    let limit = Duration::from_millis(500);
    for (program, said) in [
        ("exec sleep 60", "no answer within 500ms"),
        ("echo warp >&2; exec sleep 60 0</dev/null", "the bridge ended; it said: warp"),
        ("echo weft >&2; exit 3", "the bridge ended; it said: weft"),
    ] {
        fs::write(&python, format!("#!/bin/sh\n{program}\n")).unwrap();
        fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
        for variables in [0, 10] {
            let mut plan = Plan::loopback(1).python(&python).start_timeout(limit);
            for n in 0..variables {
                plan = plan.env(format!("LARGE{n}"), "x".repeat(100_000));
            }
            let start = Instant::now();
            let refused = Env::new(plan).unwrap_err();
            assert!(start.elapsed() < LONG / 4, "{program}: {:?}", start.elapsed());
            assert!(matches!(refused, RemoteError::Engine(_)), "{program}: {refused}");
            assert!(refused.to_string().contains(said), "{program}: {refused}");
        }
    }
    let (_, _, children) = crate::support::belongings();
    assert_eq!(children, 0);
    fs::remove_dir_all(path).unwrap();
}

pub(crate) fn output_is_relayed() {
    for plan in ["processes:1", "loopback:1"] {
        for how in ["relay", "inherit"] {
            let output = another("relay", &[plan, how]).output().unwrap();
            assert!(output.status.success());
            assert_eq!(String::from_utf8_lossy(&output.stdout), "warp on and on", "{plan} {how}");
            assert_eq!(String::from_utf8_lossy(&output.stderr), "warp beside", "{plan} {how}");
        }
    }
}

/// Descriptor 0 is closed, and somebody gets it who asks next: the socket to a worker.
pub(crate) fn a_host_without_standard_input() {
    // SAFETY: nobody reads it.
    unsafe { libc::close(0) };
    for plan in [Plan::processes(2), Plan::loopback(2)] {
        let env = Env::new(plan.start_timeout(LONG)).unwrap();
        assert_eq!(env.map(|n: u32| n + 1, 0..10).wait().unwrap(), (1..=10).collect::<Vec<u32>>());
        env.reset();
        assert!(env.spawn(|()| -> () { std::process::abort() }, ()).wait().is_err());
        assert_eq!(env.spawn(|n| n + 1, 1).wait().unwrap(), 2);
    }
}

/// More than the system lets a process have: no worker starts, which is said, and nothing is tried for ever.
pub(crate) fn environments_that_are_too_large() {
    for plan in [Plan::processes(2), Plan::loopback(2)] {
        let large = plan.clone().env("LARGE", "x".repeat(8 << 20)).start_timeout(LONG);
        let failed = match Env::new(large) {
            Ok(env) => env.spawn(|n| n + 1, 1).wait().unwrap_err().to_string(),
            Err(error) => error.to_string(),
        };
        assert!(failed.contains("Argument list too long"), "{failed}");
        // What is just large is there.
        let env = Env::new(plan.env("LARGE", "x".repeat(100_000)).start_timeout(LONG)).unwrap();
        let len = env.spawn(|()| std::env::var("LARGE").unwrap().len(), ());
        assert_eq!(len.wait().unwrap(), 100_000);
    }
}

/// And a plan for what is within tasks that is more than is sent to a worker that is yet to be ready.
pub(crate) fn plans_that_are_too_long() {
    for plan in [Plan::processes(1), Plan::loopback(1)] {
        let nested = Plan::processes(1).env("LARGE", "x".repeat(600_000));
        let env = Env::new(plan.nested(nested).start_timeout(LONG)).unwrap();
        let failed = env.spawn(|n| n + 1, 1).wait().unwrap_err();
        assert!(matches!(failed.downcast_ref(), Some(RemoteError::Start(_))), "{failed}");
        assert!(failed.to_string().contains("the plan is too long"), "{failed}");
    }
}

/// Where the user is there may be anything, also what Python would take for a module.
pub(crate) fn a_directory_with_modules_of_its_own() {
    let directory = directory("modules");
    for module in ["queue", "pickle", "socket", "sys"] {
        std::fs::write(format!("{directory}/{module}.py"), "import os; os._exit(3)").unwrap();
    }
    std::env::set_current_dir(&directory).unwrap();
    let env = Env::new(Plan::loopback(1).start_timeout(LONG)).unwrap();
    assert_eq!(env.spawn(|n| n + 1, 1).wait().unwrap(), 2);
    drop(env);
    std::fs::remove_dir_all(directory).unwrap();
}

/// What a thread resolves last is what it has when its own locals go.
pub(crate) fn an_environment_among_the_locals_of_a_thread() {
    thread_local! {
        static ENV: Env = Env::new(Plan::processes(1).start_timeout(LONG)).unwrap();
    }
    let run = || {
        for n in 0..10 {
            assert_eq!(ENV.with(|env| env.spawn(|n| n + 1, n)).wait().unwrap(), n + 1);
        }
    };
    std::thread::spawn(run).join().unwrap();
}

/// What is spawned by the last of a thread's locals that go.
pub(crate) fn what_a_thread_says_at_its_end() {
    struct Says(Env, mpsc::Sender<u32>);
    impl Drop for Says {
        fn drop(&mut self) {
            let shared = self.0.share(vec![1, 2, 3]).unwrap();
            let sum = self.0.spawn(|shared: Shared<Vec<u32>>| shared.iter().sum::<u32>(), shared);
            self.1.send(sum.wait().unwrap()).unwrap();
        }
    }
    thread_local! {
        static SAYS: RefCell<Option<Says>> = const { RefCell::new(None) };
    }
    let strict = Plan::threads(1).strict(true);
    for plan in [Plan::processes(1), Plan::loopback(1), strict] {
        let env = Env::new(plan.start_timeout(LONG)).unwrap();
        let (send, sent) = mpsc::channel();
        let own = env.clone();
        let run = move || {
            SAYS.set(Some(Says(own.clone(), send)));
            // What this needs comes later, and goes before.
            assert_eq!(own.spawn(|n| n + 1, 1).wait().unwrap(), 2);
        };
        std::thread::spawn(run).join().unwrap();
        assert_eq!(sent.recv().unwrap(), 6);
    }
}

/// What it says before it is there is read, however much that is.
pub(crate) fn a_bridge_that_says_much_first() {
    let path = directory("wordy");
    let python = format!("{path}/python");
    let program = "#!/bin/sh\nhead -c 1000000 /dev/zero >&2\nexec python3 \"$@\"\n";
    fs::write(&python, program).unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    let plan = Plan::loopback(1).python(&python).start_timeout(Duration::from_secs(60));
    assert_eq!(Env::new(plan).unwrap().spawn(|n| n + 1, 1).wait().unwrap(), 2);
    fs::remove_dir_all(path).unwrap();
}

/// A child of a fork has copies, which go with it or before.
pub(crate) fn a_child_of_the_host_leaves_its_workers_alone() {
    for plan in [Plan::processes(1), Plan::loopback(1), Plan::threads(1)] {
        let env = Env::new(plan.start_timeout(LONG)).unwrap();
        assert_eq!(env.spawn(|n| n + 1, 1).wait().unwrap(), 2);
        // SAFETY: the child drops a value, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            drop(env);
            // SAFETY: ends the process.
            unsafe { libc::_exit(0) };
        }
        let since = std::time::Instant::now();
        let mut status = 0;
        // SAFETY: our child.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(status == 0 && since.elapsed().as_secs() < 5, "{status} after {since:?}");
        for n in 0..10 {
            assert_eq!(env.spawn(|n| n + 1, n).wait().unwrap(), n + 1);
        }
    }
}
