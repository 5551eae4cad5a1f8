//! Nobody can speak to a driver or to what it starts: no socket of theirs listens.

use std::collections::HashSet;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;

use raddle::remote::{Env, Plan, Shared};

use crate::support::{LONG, directory, said, say};

/// The sockets of this machine that take what anybody sends, by their inodes.
fn listening() -> HashSet<String> {
    let mut found = HashSet::new();
    let mut add = |table: &str, which: fn(&[&str]) -> bool, inode: usize| {
        let lines = fs::read_to_string(format!("/proc/self/net/{table}")).unwrap_or_default();
        for line in lines.lines().skip(1) {
            let columns: Vec<&str> = line.split_whitespace().collect();
            if which(&columns) {
                found.insert(columns[inode].to_owned());
            }
        }
    };
    for table in ["tcp", "tcp6"] {
        add(table, |columns| columns[3] == "0A", 9);
    }
    // One that is bound and not connected.
    for table in ["udp", "udp6"] {
        add(table, |columns| columns[3] == "07", 9);
    }
    // Flags with that of a socket that accepts.
    add("unix", |columns| u32::from_str_radix(columns[3], 16).unwrap() & 0x10000 != 0, 6);
    found
}

/// Which of the sockets of a process listen.
fn listens(pid: u32) -> Vec<String> {
    let listening = listening();
    let fds = fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .filter_map(|fd| Some(fs::read_link(fd.ok()?.path()).ok()?.to_str()?.to_owned()));
    let inode = |link: String| Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned());
    fds.filter_map(inode).filter(|inode| listening.contains(inode)).collect()
}

/// A process and all that it and its children have started.
fn family(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut next = 0;
    while let Some(pid) = all.get(next) {
        for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            all.extend(children.split_whitespace().map(|child| child.parse::<u32>().unwrap()));
        }
        next += 1;
    }
    all
}

type Gates = (Shared<Vec<u8>>, String, String);

fn waits((shared, here, go): Gates) -> usize {
    say(&here, &std::process::id().to_string());
    said(&go);
    shared.len()
}

pub(crate) fn nobody_listens() {
    let own = std::process::id();
    assert_eq!(listens(own), [""; 0]);
    let path = directory("sockets");
    // Those who do are found.
    let each = (
        TcpListener::bind("127.0.0.1:0").unwrap(),
        UdpSocket::bind("127.0.0.1:0").unwrap(),
        UnixListener::bind(format!("{path}/socket")).unwrap(),
    );
    assert_eq!(listens(own).len(), 3);
    drop(each);
    assert_eq!(listens(own), [""; 0]);
    for plan in [Plan::processes(2), Plan::loopback(2)] {
        let name = plan.to_string();
        let env = Env::new(plan.start_timeout(LONG)).unwrap();
        let shared = env.share(vec![7; 1 << 20]).unwrap();
        let at = |gate: &str| format!("{path}/{name}-{gate}");
        let spawn = |n: &str| env.spawn(waits, (shared.clone(), at(n), at("go")));
        let both = [spawn("0"), spawn("1")];
        let workers: Vec<u32> =
            ["0", "1"].map(|n| said(&at(n)).parse().unwrap()).into_iter().collect();
        let family = family(own);
        assert!(workers.iter().all(|worker| family.contains(worker)), "{workers:?} {family:?}");
        // The driver and two workers; or, besides, the bridge.
        assert_eq!(family.len(), if name.starts_with("loopback") { 4 } else { 3 }, "{family:?}");
        for pid in family {
            assert_eq!(listens(pid), [""; 0], "{pid} of {name}");
        }
        say(&at("go"), "");
        for future in both {
            assert_eq!(future.wait().unwrap(), 1 << 20);
        }
    }
    fs::remove_dir_all(path).unwrap();
}
