//! What a task sees.

use std::sync::{Arc, Mutex};

use raddle::remote::{Env, Plan, TaskInfo, map, progress, seed, spawn, task};

use crate::support::{On, Where, failure, value};

fn who(_: ()) -> Option<TaskInfo> {
    task()
}

pub fn tasks_know_who_they_are(on: &On) {
    assert_eq!(task(), None);
    progress(1, 2);
    let env = on.env();
    let info = value(env.task().name("weave").spawn(who, ())).unwrap();
    assert_eq!((info.attempt, info.name.as_deref()), (1, Some("weave")));
    assert!(info.worker < env.workers());
    let other = value(env.spawn(who, ())).unwrap();
    assert_eq!(other.name, None);
    assert_ne!(other.id, info.id);
}

type Drawn = ([u8; 32], Vec<[u8; 32]>, Vec<[u8; 32]>);

/// Its own seed, those of what it spawns, and those of what it maps.
fn draw(_: u32) -> Drawn {
    let spawned = (0..2).map(|n| spawn(|_: u32| seed(), n).wait().unwrap()).collect();
    (seed(), spawned, map(|_: u32| seed(), 0..5).wait().unwrap())
}

fn drawn(env: &Env) -> Vec<Drawn> {
    let mut drawn: Vec<Drawn> = (0..3).map(|n| value(env.spawn(draw, n))).collect();
    drawn.extend(value(env.map(draw, 0..7)));
    drawn
}

pub fn seeds_are_those_of_every_plan(on: &On) {
    let expected = drawn(&Env::new(Plan::sequential().seed(7)).unwrap());
    assert_eq!(drawn(&Env::new(on.plan().seed(7)).unwrap()), expected);
    assert_ne!(drawn(&Env::new(on.plan().seed(8)).unwrap()), expected);
    let mut seeds: Vec<[u8; 32]> = Vec::new();
    for (own, spawned, mapped) in expected {
        seeds.push(own);
        seeds.extend(spawned);
        seeds.extend(mapped);
    }
    let all = seeds.len();
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!(seeds.len(), all);
}

fn nested_plan(_: ()) -> (String, usize, u32) {
    let env = Env::current();
    let inner = env.spawn(|n| n + 1, 1).wait().unwrap();
    (env.plan().to_string(), env.workers(), inner)
}

pub fn nested_environments_are_sequential(on: &On) {
    assert_eq!(value(on.env().spawn(nested_plan, ())), ("sequential".into(), 1, 2));
    let deeper = |(): ()| spawn(nested_plan, ()).wait().unwrap();
    assert_eq!(value(on.env().spawn(deeper, ())), ("sequential".into(), 1, 2));
}

pub fn nested_plans_may_be_others(on: &On) {
    let env = Env::new(on.plan().nested(Plan::threads(3))).unwrap();
    assert_eq!(value(env.spawn(nested_plan, ())), ("threads:3".into(), 3, 2));
    let processes = Plan::processes(2).nested(Plan::threads(1));
    let env = Env::new(on.plan().nested(processes)).unwrap();
    assert_eq!(value(env.spawn(nested_plan, ())), ("processes:2".into(), 2, 2));
    let deeper = |(): ()| (std::process::id(), spawn(|()| std::process::id(), ()).wait().unwrap());
    let (outer, inner) = value(env.spawn(deeper, ()));
    assert_ne!(outer, inner);
}

/// Threads that know nothing of the task find what it would, and not what the driver's variable names.
pub fn threads_of_tasks_are_in_the_nested_environment(on: &On) {
    if !on.is_apart() {
        return;
    }
    let of_a_thread = |(): ()| std::thread::spawn(|| nested_plan(())).join().unwrap();
    assert_eq!(value(on.env().spawn(of_a_thread, ())), ("sequential".into(), 1, 2));
    let env = Env::new(on.plan().nested(Plan::threads(3))).unwrap();
    assert_eq!(value(env.spawn(of_a_thread, ())), ("threads:3".into(), 3, 2));
}

raddle::scope_local! { static USER: String; }

pub fn locals_of_the_caller_are_not_seen(on: &On) {
    let env = on.env();
    USER.bind("ada".into()).run(|| {
        assert!(!value(env.spawn(|()| USER.is_bound(), ())));
        assert_eq!(value(env.map(|_: u32| USER.is_bound(), 0..3)), [false; 3]);
        assert_eq!(USER.get().as_deref(), Some("ada"));
    });
}

fn left_over(_: ()) -> Vec<String> {
    let token = std::env::vars_os().map(|(key, _)| key.to_string_lossy().into_owned());
    let mut found: Vec<String> = token.filter(|key| key == "RADDLE_REMOTE_WORKER").collect();
    for entry in std::fs::read_dir("/proc/self/fd").unwrap() {
        let path = entry.unwrap().path();
        let to = std::fs::read_link(&path).unwrap_or_default().to_string_lossy().into_owned();
        if to.contains("raddle-secret") {
            found.push(to);
        }
    }
    found
}

pub fn the_token_and_other_descriptors_are_gone(on: &On) {
    if !on.is_apart() {
        return;
    }
    use std::os::fd::AsRawFd;
    let path =
        std::env::temp_dir().join(format!("raddle-secret-{:?}-{}", on.which, std::process::id()));
    let file = std::fs::File::create(&path).unwrap();
    // Open for whatever is executed.
    // SAFETY: takes and returns numbers.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFD, 0) };
    let env = on.env();
    let found = value(env.spawn(left_over, ()));
    std::fs::remove_file(&path).unwrap();
    assert!(found.is_empty(), "{found:?}");
}

type Seen = Arc<Mutex<Vec<String>>>;

fn recorded(plan: Plan) -> (Env, Seen) {
    let seen = Seen::default();
    let (before, after) = (Arc::clone(&seen), Arc::clone(&seen));
    let said = |info: &TaskInfo| info.name.clone().unwrap_or_default();
    let plan = plan
        .before_start(move |info| before.lock().unwrap().push(format!("start {}", said(info))))
        .after_finish(move |info, ended| {
            let ended =
                ended.map_or_else(|failure| format!("{:?}", failure.kind()), |()| "Ok".into());
            after.lock().unwrap().push(format!("{ended} {}", said(info)));
        });
    (Env::new(plan).unwrap(), seen)
}

pub fn hooks_are_called_once(on: &On) {
    let (env, seen) = recorded(on.plan());
    value(env.task().name("a").spawn(|()| (), ()));
    failure(env.task().name("b").spawn(|()| -> () { panic!("torn") }, ()));
    let mut expected = vec!["start a", "Ok a", "start b", "Panicked b"];
    if on.is_apart() {
        let dies = |(): ()| -> () { std::process::exit(i32::from(task().is_some())) };
        failure(env.task().name("c").retries(2).spawn(dies, ()));
        expected.extend(["start c", "Error c"]);
    }
    // `after_finish` comes before what waits goes on, in another process; on a thread it may be a moment late.
    drop(env);
    assert_eq!(*seen.lock().unwrap(), expected);
}

/// It is told what the future fails with.
pub fn hooks_are_told_of_limits(on: &On) {
    if !on.is_concurrent() {
        return;
    }
    let (env, seen) = recorded(on.plan());
    let gates = crate::support::Gates::new();
    let task = env.task().name("a").timeout(std::time::Duration::from_millis(100));
    let failed = failure(task.spawn(crate::support::spin, gates.at("here")));
    assert_eq!(failed.kind(), raddle::FailureKind::TimedOut);
    // On a thread it may be a moment late.
    drop(env);
    let seen = seen.lock().unwrap();
    assert!(seen.contains(&"TimedOut a".to_owned()), "{seen:?}");
}

/// A hook that panics has kept the task from starting.
pub fn what_has_not_started_has_not_finished(on: &On) {
    let seen = Seen::default();
    let after = Arc::clone(&seen);
    let plan = on
        .plan()
        .before_start(|info| assert!(info.name.is_none(), "no names"))
        .after_finish(move |info, _| after.lock().unwrap().push(format!("{:?}", info.name)));
    let env = Env::new(plan).unwrap();
    failure(env.task().name("a").spawn(|()| (), ()));
    value(env.spawn(|()| (), ()));
    drop(env);
    assert_eq!(*seen.lock().unwrap(), ["None"]);
}

static STARTED: Mutex<u32> = Mutex::new(0);

fn start() {
    *STARTED.lock().unwrap() += 1;
}

pub fn workers_have_their_own_environment(on: &On) {
    let plan = on.plan().env("RADDLE_COLOUR", "madder").on_worker_start(start);
    let env = Env::new(plan).unwrap();
    let seen = |(): ()| (std::env::var("RADDLE_COLOUR").ok(), *STARTED.lock().unwrap());
    let (colour, started) = value(env.spawn(seen, ()));
    if on.is_apart() {
        assert_eq!((colour.as_deref(), started), (Some("madder"), 1));
    } else {
        assert!(started > 0);
    }
}

pub fn environments_are_bound_for_a_call(on: &On) {
    let env = on.env();
    let plan = on.plan().to_string();
    assert_eq!(env.run(|| Env::current().plan().to_string()), plan);
    let task = env.run(|| spawn(|()| std::process::id(), ()));
    assert_eq!(value(task) != std::process::id(), on.is_apart());
    let on_a_thread = env.run(|| raddle::spawn(|| Env::current().plan().to_string()));
    assert_eq!(value(on_a_thread), plan);
    if on.which == Where::Sequential {
        let inner = Env::new(Plan::threads(3)).unwrap();
        let both = env.run(|| inner.run(|| Env::current().workers()));
        assert_eq!(both, 3);
    }
}
