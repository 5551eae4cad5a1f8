//! What only a cluster shows: `cargo xtask ray` has started a head.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use raddle::remote::{Env, Plan, RemoteError, Status};

use crate::drivers::{another, killed_driver, parent, spin};
use crate::support::{LONG, directory, is_alive, said, say, until};

fn address() -> String {
    crate::run::ray().expect("RADDLE_TEST_RAY has the address of a cluster")
}

fn python() -> String {
    std::env::var("RADDLE_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

fn plan(address: &str) -> Plan {
    Plan::ray(address).python(python()).workers(1).start_timeout(LONG)
}

pub(crate) fn a_killed_driver_on_ray_leaves_nothing() {
    killed_driver(&format!("ray:{}", address()), Duration::from_secs(5));
}

/// As a program of its own: an answer of the cluster's, or why there is none.
pub(crate) fn asks(address: &str) {
    match Env::new(plan(address)) {
        Ok(env) => println!("answer {}", env.spawn(|n| n + 1, 1).wait().unwrap()),
        Err(RemoteError::Engine(why)) => println!("engine {why}"),
        Err(other) => panic!("{other:?}"),
    }
}

/// Who does not know the token is not let in, and is told what may be wrong; who does is.
pub(crate) fn a_wrong_token_is_refused_by_ray() {
    let asked = |change: fn(&mut Command)| {
        let mut command = another("asks", &[&address()]);
        change(&mut command);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(asked(|_| ()), "answer 2\n");
    let wrong = asked(|command| _ = command.env("RAY_AUTH_TOKEN", "0".repeat(32)));
    assert!(wrong.starts_with("engine ") && wrong.contains("RAY_AUTH_TOKEN"), "{wrong}");
    // With none at all.
    let none = asked(|command| {
        command.env_remove("RAY_AUTH_TOKEN").env_remove("RAY_AUTH_MODE");
    });
    assert!(none.starts_with("engine ") && none.contains("RAY_AUTH_TOKEN"), "{none}");
    assert_eq!(asked(|_| ()), "answer 2\n");
}

/// `auto` is the head that runs on this machine.
pub(crate) fn auto_finds_the_head_of_ray() {
    let env = Env::new("ray:auto".parse::<Plan>().unwrap().python(python()).workers(2)).unwrap();
    assert_eq!(env.plan().to_string(), "ray:auto");
    assert_eq!(env.map(|n: u32| n + 1, 0..10).wait().unwrap(), (1..=10).collect::<Vec<u32>>());
    // All of its processors are workers, unless another number is asked for.
    let all = Env::new(Plan::ray("auto").python(python())).unwrap();
    assert!(all.workers() >= 4, "{}", all.workers());
}

/// Says that it is there, and waits.
fn waits((here, go): (String, String)) -> u32 {
    say(&here, "");
    said(&go);
    std::process::id()
}

/// A worker takes the place of one that leaves, where there is no room for both.
pub(crate) fn a_full_cluster_of_ray_goes_on() {
    let path = directory("full");
    // All of its four processors are two workers'.
    let plan = plan(&address()).workers(2).resource("num_cpus", 2.0);
    let env = Env::new(plan).unwrap();
    let gates = |n: u32| (format!("{path}/{n}"), format!("{path}/go"));
    let both = [0, 1].map(|n| env.spawn(waits, gates(n)));
    (0..2).for_each(|n| _ = said(&format!("{path}/{n}")));
    // Two others are wanted from now on, and start when the first two have gone.
    env.reset();
    let next = env.spawn(|()| std::process::id(), ());
    say(&format!("{path}/go"), "");
    let before = both.map(|future| future.wait().unwrap());
    assert!(!before.contains(&next.wait_timeout(LONG).expect("an end").unwrap()));
    drop(env);
    fs::remove_dir_all(path).unwrap();
}

/// The files that are called as programs are on their way to slots, of all processes of this user's.
fn programs() -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let files = fs::read_dir(process.path().join("fd")).into_iter().flatten();
        for file in files.flatten().map(|file| file.path()) {
            let link = fs::read_link(&file).unwrap_or_default();
            if link.to_string_lossy().starts_with("/memfd:raddle-") {
                found.extend(fs::metadata(file).map(|file| file.ino()));
            }
        }
    }
    found
}

/// However many slots there are of it, in whichever environment: the file is known by what is in it.
pub(crate) fn a_machine_of_ray_gets_it_once() {
    let path = directory("once");
    let envs = [0, 1].map(|_| Env::new(plan(&address()).workers(2)).unwrap());
    let gates = |n: u32| (format!("{path}/{n}"), format!("{path}/go"));
    let spawn = |n: u32| envs[n as usize % 2].spawn(waits, gates(n));
    let all = [0, 1, 2, 3].map(spawn);
    (0..4).for_each(|n| _ = said(&format!("{path}/{n}")));
    assert_eq!(programs().len(), 1);
    say(&format!("{path}/go"), "");
    let processes: BTreeSet<u32> = all.map(|future| future.wait().unwrap()).into();
    assert_eq!(processes.len(), 4);
    drop(envs);
    until(|| programs().is_empty());
    fs::remove_dir_all(path).unwrap();
}

/// Another machine, as the cluster sees it, with a resource of its own.
struct Node(Child);

impl Node {
    fn start() -> Node {
        let mut command = Command::new(Path::new(&python()).with_file_name("ray"));
        command.args(["start", "--block", "--num-cpus=1", "--resources={\"far\": 1}"]);
        command.arg(format!("--address={}", address())).arg("--node-ip-address=127.0.0.1");
        command.args(["--memory=500000000", "--object-store-memory=100000000"]);
        Node(command.stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // SAFETY: a child of ours that we have not reaped.
        unsafe { libc::kill(self.0.id() as i32, libc::SIGTERM) };
        self.0.wait().unwrap();
    }
}

/// A machine ends in the midst: its task fails, and the next runs on another.
pub(crate) fn a_lost_node_of_ray_is_told() {
    let path = directory("node");
    let node = Node::start();
    let env = Env::new(plan(&address()).resource("far", 1.0)).unwrap();
    let running = env.spawn(spin, format!("{path}/busy"));
    let pids = said(&format!("{path}/busy"));
    // The slot has started it, and the machine's own process the slot.
    let machine = parent(&parent(pids.split(' ').next().unwrap()).to_string());
    let name = fs::read_to_string(format!("/proc/{machine}/comm")).unwrap();
    assert_eq!(name.trim(), "raylet");
    // SAFETY: the node is ours alone.
    unsafe { libc::kill(machine, libc::SIGKILL) };
    let failed = running.wait_timeout(LONG).expect("an end").unwrap_err();
    match failed.downcast_ref() {
        Some(RemoteError::Died(death)) => assert_eq!(death.status, Status::Lost),
        other => panic!("{other:?}"),
    }
    until(|| pids.split(' ').all(|pid| !is_alive(pid)));
    drop(node);
    let _node = Node::start();
    assert_eq!(env.spawn(|n| n + 1, 1).wait_timeout(LONG).expect("an end").unwrap(), 2);
    drop(env);
    fs::remove_dir_all(path).unwrap();
}
