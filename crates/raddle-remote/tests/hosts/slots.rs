//! The program on its way to the slots of another machine: once for each machine, whoever's slots they are.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

const PROGRAM: &str = include_str!("../../src/crew/slot.py");

/// A slot in a process of its own. It says whether it has found the file of this name, and what that does.
struct Slot {
    process: Child,
    says: BufReader<std::process::ChildStdout>,
}

const SLOT: &str = r##"
slot, name = Slot(), sys.argv[2]
print(slot.find(name), flush=True)
if slot.program is None:
    # What somebody is still writing, and what others may write to.
    unfinished = os.memfd_create(name, os.MFD_ALLOW_SEALING)
    os.write(unfinished, b"#!/bin/false")
    if sys.argv[3] == "load":
        with open("/bin/echo", "rb") as program:
            slot.load(name, Blob(program.read()))
if slot.program is not None:
    subprocess.run(["echo", "it", "runs"], executable="/proc/%d/fd/%d" % (os.getpid(), slot.program))
    print(os.fstat(slot.program).st_ino, flush=True)
sys.stdin.read()
"##;

/// A worker answers, and puts out more than a slot holds. Then it is killed, and what came with the answer has not been taken.
const LOUD: &str = r##"
WORKER = """
import os, socket, struct
socket.socket(fileno=os.dup(0)).sendall(struct.pack('<IBBHQ', 0, 16, 0, 0, 0))
while True:
    os.write(1, bytes(1 << 20))
"""
slot = Slot()
config = {"args": ["python3", "-c", WORKER], "env": {}, "token": "RADDLE_TEST", "inherit": False}
slot.start(1, sys.executable, config, b"hello")
with slot.lock:
    slot.answers = 1
    slot.lock.wait_for(lambda: slot.held >= MOST_HELD)
slot.kill(1)
waits = threading.Thread(target=slot.last, daemon=True)
waits.start()
waits.join(60)
print(waits.is_alive(), slot.gone, flush=True)
"##;

impl Slot {
    fn start(name: &str, load: &str) -> Slot {
        Slot::running(SLOT, name, load)
    }

    fn running(program: &str, name: &str, load: &str) -> Slot {
        let mut command = Command::new("python3");
        command.args(["-c", "import sys; exec(sys.argv[1])"]);
        command.args([&format!("{PROGRAM}{program}"), name, load]);
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a Python");
        let says = BufReader::new(process.stdout.take().unwrap());
        Slot { process, says }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.says.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn end(mut self) {
        drop(self.process.stdin.take());
        assert!(self.process.wait().unwrap().success());
    }
}

/// The first slot of a machine is sent the program. Others find that, one after the other, and keep it when the first is gone; with
/// the last it goes.
pub(crate) fn slots_of_a_machine_share_the_program() {
    let name = format!("raddle-test-{}", std::process::id());
    let mut first = Slot::start(&name, "load");
    assert_eq!((first.line(), first.line()), ("False".into(), "it runs".into()));
    let file = first.line();
    let mut second = Slot::start(&name, "none");
    assert_eq!((second.line(), second.line()), ("True".into(), "it runs".into()));
    assert_eq!(second.line(), file);
    first.end();
    let mut third = Slot::start(&name, "none");
    assert_eq!((third.line(), third.line()), ("True".into(), "it runs".into()));
    assert_eq!(third.line(), file);
    let mut other = Slot::start(&format!("{name}-other"), "none");
    assert_eq!(other.line(), "False");
    for slot in [second, third, other] {
        slot.end();
    }
    let mut last = Slot::start(&name, "none");
    assert_eq!(last.line(), "False");
    last.end();
}

/// Nobody had the slot see that the worker had ended, as it waited for somebody to take what there was.
pub(crate) fn the_end_of_a_loud_worker_is_seen() {
    let mut slot = Slot::running(LOUD, "loud", "none");
    assert_eq!(slot.line(), "False True");
    slot.end();
}
