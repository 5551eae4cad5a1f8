"""The bridge between a driver of raddle-remote and its slots.

It is started by the driver with `python3 -c`, reads frames from descriptor 0 and writes frames there; see `frame.rs` for the
header. With `loopback` the slots are objects of this process, otherwise each is an actor of Ray. A slot holds one worker, a
process of the driver's program, and passes on what it says.
"""

import os
import pickle
import queue
import select
import signal
import socket
import struct
import subprocess
import sys
import threading

# Length, kind, flags, descriptors, task.
HEADER = "<IBBHQ"
HEADER_SIZE = 16
CALL, BYE, READY, DONE, PANICKED, FAILED = 2, 6, 16, 17, 18, 19
OUT, START, DATA, KILL, CONTROL, GONE, UP, ERROR = 21, 32, 33, 34, 35, 36, 37, 38
ANSWERS = (READY, DONE, PANICKED, FAILED)


class Blob:
    """Bytes that Ray keeps as they are, and does not copy."""

    def __init__(self, data):
        self.data = data

    def __reduce_ex__(self, protocol):
        if protocol >= 5:
            return (Blob, (pickle.PickleBuffer(self.data),))
        return (Blob, (bytes(self.data),))


class Slot:
    """Holds one worker at a time. Events are pairs of a kind and bytes, in the order in which they came."""

    def __init__(self):
        self.program = None
        self.lock = threading.Condition()
        self.events = []
        self.answers = 0
        self.worker = None
        self.gone = True
        # The number of the worker, and of the one that was killed last: the kill may come first.
        self.number = self.killed = None

    def load(self, program):
        """Takes the program's bytes, as a file in memory."""
        self.program = os.memfd_create("raddle")
        view = memoryview(program.data)
        while len(view):
            view = view[os.write(self.program, view[:1 << 30]):]

    def start(self, number, path, config, hello):
        """Starts a worker; returns what came until it was ready."""
        return self.launch(number, path, config, hello) or self.answer()

    def launch(self, number, path, config, hello):
        """Starts a worker; returns why that cannot be, if so."""
        if self.program is not None:
            path = "/proc/%d/fd/%d" % (os.getpid(), self.program)
        environment = dict(os.environ, **config["env"])
        environment[config["token"]] = "1"
        ours, theirs = socket.socketpair()
        control, second = socket.socketpair()
        socket.send_fds(ours, [hello], [second.fileno()])
        piped = None if config["inherit"] else subprocess.PIPE
        try:
            worker = subprocess.Popen(
                config["args"], executable=path, stdin=theirs, stdout=piped, stderr=piped,
                env=environment, start_new_session=True)
        except OSError as error:
            for end in (ours, control):
                end.close()
            return [(ERROR, str(error).encode()), (GONE, b"u")]
        finally:
            theirs.close()
            second.close()
        with self.lock:
            self.events, self.answers, self.gone = [], 0, False
            self.worker, self.socket, self.control_socket = worker, ours, control
            self.number = number
            if self.killed == number:
                self.end_group()
        threading.Thread(target=self.pump, args=(worker, ours, control), daemon=True).start()
        return []

    def call(self, data):
        """Passes a call on; returns what came until it was answered."""
        with self.lock:
            self.answers = 0
        self.send(data)
        return self.answer()

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError:
            pass  # It has gone: `pump` says how.

    def answer(self):
        with self.lock:
            self.lock.wait_for(lambda: self.answers > 0 or self.gone)
            return self.take()

    def last(self):
        """Waits until the worker, which was killed, has gone."""
        with self.lock:
            self.lock.wait_for(lambda: self.gone)
            return self.take()

    def next(self):
        """Waits until there is something."""
        with self.lock:
            self.lock.wait_for(lambda: self.events)
            return self.take()

    def take(self, idle=True):
        """What has come, without waiting. If not idle, a call is being answered, and what has come with the answer is left to it:
        this may overtake it."""
        with self.lock:
            if not idle and (self.answers or self.gone):
                return []
            events, self.events = self.events, []
            return events

    def interrupt(self, data):
        try:
            self.control_socket.sendall(data)
        except OSError:
            pass

    def kill(self, number):
        """Ends the worker of this number, now or when it starts."""
        with self.lock:
            self.killed = number
            if self.number == number:
                self.end_group()

    def end_group(self):
        """Ends the worker and what it has started. It is reaped under the lock, so that its process id is its own here."""
        if not self.gone and self.worker.returncode is None:
            try:
                os.killpg(self.worker.pid, signal.SIGKILL)
            except OSError:
                pass

    def pump(self, worker, ours, control):
        process = os.pidfd_open(worker.pid)
        poll = select.poll()
        pipes = {}
        for stream, pipe in ((1, worker.stdout), (2, worker.stderr)):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
                pipes[pipe.fileno()] = stream
        for fd in (ours.fileno(), process, *pipes):
            poll.register(fd, select.POLLIN)
        frames = Frames()
        open_ = True
        while True:
            ready = [fd for fd, _ in poll.poll()]
            ended = process in ready
            data = b""
            if open_ and (ours.fileno() in ready or ended):
                data = self.receive(ours)
                if data is None:
                    poll.unregister(ours.fileno())
                    open_, data = False, b""
            # What was written before an answer is there by now, and goes before it.
            written = []
            for fd, stream in list(pipes.items()):
                if fd in ready or data or ended:
                    self.drain(fd, stream, written, poll, pipes)
            with self.lock:
                self.events += written
                if data:
                    self.answers += frames.answers(data)
                    self.events.append((DATA, data))
                if ended:
                    self.end(worker)
                self.lock.notify_all()
            if ended:
                break
        for end in (ours, control):
            end.close()
        os.close(process)
        for pipe in (worker.stdout, worker.stderr):
            if pipe is not None:
                pipe.close()

    def drain(self, fd, stream, written, poll, pipes):
        """Takes what was written; of somebody who does not cease, some."""
        for _ in range(64):
            try:
                some = os.read(fd, 1 << 18)
            except BlockingIOError:
                return
            if not some:
                poll.unregister(fd)
                del pipes[fd]
                return
            written.append((OUT, bytes((stream,)) + some))

    def receive(self, ours):
        """What has come; nothing if it is closed."""
        try:
            data = ours.recv(1 << 20, socket.MSG_DONTWAIT)
            return data if data else None
        except BlockingIOError:
            return b""
        except OSError:
            return None

    def end(self, worker):
        """The worker has ended: what it has left behind goes too, then it is reaped."""
        try:
            rest = self.receive(self.socket)
            while rest:
                self.events.append((DATA, rest))
                rest = self.receive(self.socket)
            os.killpg(worker.pid, signal.SIGKILL)
        except OSError:
            pass
        code = worker.wait()
        self.gone = True
        self.events.append((GONE, ("e%d" % code if code >= 0 else "s%d" % -code).encode()))


class Frames:
    """Counts the answers in a stream of frames."""

    def __init__(self):
        self.head, self.kind = b"", None
        self.left = 0

    def answers(self, data):
        found, at = 0, 0
        while at < len(data):
            if self.left:
                step = min(self.left, len(data) - at)
                self.left -= step
            else:
                step = min(HEADER_SIZE - len(self.head), len(data) - at)
                self.head += data[at:at + step]
                if len(self.head) == HEADER_SIZE:
                    self.left, self.kind = struct.unpack(HEADER, self.head)[:2]
            at += step
            # An answer is there when all of it is.
            if not self.left and len(self.head) == HEADER_SIZE:
                found += self.kind in ANSWERS
                self.head = b""
        return found


# By the number of the worker.
SLOTS = {}


class Wire:
    """The frames on descriptor 0."""

    def __init__(self):
        self.socket = socket.socket(fileno=os.dup(0))
        self.lock = threading.Lock()

    def read(self):
        head = self.exactly(HEADER_SIZE)
        length, kind, _, _, worker = struct.unpack(HEADER, head)
        return kind, worker, self.exactly(length)

    def exactly(self, length):
        data = bytearray()
        while len(data) < length:
            more = self.socket.recv(min(length - len(data), 1 << 20))
            if not more:
                os._exit(0)  # The driver has gone.
            data += more
        return data

    def write(self, kind, worker, payload=b""):
        with self.lock:
            try:
                self.socket.sendall(struct.pack(HEADER, len(payload), kind, 0, 0, worker))
                self.socket.sendall(payload)
            except OSError:
                os._exit(0)

    def events(self, worker, events):
        """Passes events on; whether the worker has gone."""
        for kind, data in events:
            self.write(kind, worker, data)
        gone = any(kind == GONE for kind, _ in events)
        if gone:
            SLOTS.pop(worker, None)
        return gone


class Local:
    """A slot of this process."""

    def __init__(self, wire, config):
        self.wire, self.config, self.slot = wire, config, Slot()
        self.inbox, self.worker = queue.SimpleQueue(), None

    def start(self, worker, hello):
        self.worker = worker
        threading.Thread(target=self.run, args=(worker, hello), daemon=True).start()
        threading.Thread(target=self.write, daemon=True).start()

    def run(self, worker, hello):
        path = self.config["program"]
        gone = self.wire.events(worker, self.slot.launch(worker, path, self.config, hello))
        while not gone:
            gone = self.wire.events(worker, self.slot.next())
        self.inbox.put(None)

    def write(self):
        """A worker that does not read what it is sent holds up nobody else."""
        for data in iter(self.inbox.get, None):
            self.pass_on(data)

    def pass_on(self, data):
        self.slot.send(data)

    def data(self, data):
        self.inbox.put(data)

    def kill(self):
        self.slot.kill(self.worker)

    def control(self, data):
        self.slot.interrupt(data)


class Far:
    """A slot that is an actor of Ray. It is kept for the next worker when one has gone."""

    # How often one looks what there is: of a task that runs, and of a worker that has none.
    PEEK, LOOK = 0.05, 0.5
    free = []
    program = None

    def __init__(self, wire, config, ray):
        self.wire, self.config, self.ray = wire, config, ray
        self.inbox, self.actor = queue.SimpleQueue(), None
        self.worker, self.killed = None, False

    def start(self, worker, hello):
        self.worker = worker
        threading.Thread(target=self.run, args=(worker, bytes(hello)), daemon=True).start()

    def run(self, worker, hello):
        try:
            if not self.enter(worker, hello):
                self.serve(worker)
        except Exception as error:  # Ray has many, and each means that the slot is lost.
            self.wire.events(worker, [(ERROR, first_line(error)), (GONE, b"l")])

    def enter(self, worker, hello):
        try:
            self.actor = Far.free.pop()
        except IndexError:
            self.actor = new_actor(self.ray, self.config)
            self.ray.get(self.actor.load.remote(Far.program))
        if self.killed:
            return self.events(worker, [(GONE, b"s9")])
        return self.wait(worker, self.actor.start.remote(worker, "", self.config, hello))

    def serve(self, worker):
        waiting, gone = [], False
        while not gone:
            try:
                waiting.append(bytes(self.inbox.get(timeout=Far.LOOK)))
            except queue.Empty:
                # One that has nothing to do may end, too.
                gone = self.events(worker, self.ray.get(self.actor.take.remote()))
                continue
            # What is not answered goes along with the next that is; the end is answered by the end.
            if waiting[-1][4] in (CALL, BYE):
                gone = self.wait(worker, self.actor.call.remote(Blob(b"".join(waiting))))
                waiting = []
            elif waiting[-1] == KILLED:
                gone = self.wait(worker, self.actor.last.remote())
                waiting = []

    def wait(self, worker, answer):
        """Passes on what comes until the answer has; whether the worker has gone."""
        while not self.ray.wait([answer], timeout=Far.PEEK)[0]:
            self.events(worker, self.ray.get(self.actor.take.remote(False)))
        return self.events(worker, self.ray.get(answer))

    def events(self, worker, events):
        """As those of the wire. The actor is free before the driver knows, who may want another worker at once."""
        if any(kind == GONE for kind, _ in events):
            Far.free.append(self.actor)
        return self.wire.events(worker, events)

    def data(self, data):
        self.inbox.put(data)

    def kill(self):
        self.killed = True
        if self.actor is not None:
            self.actor.kill.remote(self.worker)
        self.inbox.put(KILLED)

    def control(self, data):
        if self.actor is not None:
            self.actor.interrupt.remote(bytes(data))


KILLED = b"killed"


def first_line(error):
    lines = [line for line in str(error).splitlines() if line.strip()]
    return ("%s: %s" % (type(error).__name__, lines[0] if lines else "")).encode()


def new_actor(ray, config):
    """An actor of a slot, with what takes no time apart from what does."""

    class Actor(Slot):
        @ray.method(concurrency_group="control")
        def take(self, idle=True):
            return super().take(idle)

        @ray.method(concurrency_group="control")
        def kill(self, number):
            super().kill(number)

        @ray.method(concurrency_group="control")
        def interrupt(self, data):
            super().interrupt(data)

        def call(self, data):
            return super().call(data.data)

    options = {"num_cpus": 1, "concurrency_groups": {"control": 2}, "max_restarts": 0}
    own = {}
    for name, amount in config["resources"].items():
        if name in ("num_cpus", "num_gpus", "memory"):
            options[name] = amount
        else:
            own[name] = amount
    if own:
        options["resources"] = own
    return ray.remote(**options)(Actor).remote()


def read_config(wire):
    config = {"args": [], "env": {}, "resources": {}, "inherit": False, "workers": None,
              "loopback": None, "address": None}
    _, _, told = wire.read()
    for line in bytes(told).split(b"\0")[:-1]:
        key, _, value = line.decode(errors="surrogateescape").partition("=")
        if key == "arg":
            config["args"].append(value)
        elif key == "env":
            name, _, value = value.partition("=")
            config["env"][name] = value
        elif key == "resource":
            name, _, value = value.rpartition("=")
            config["resources"][name] = float(value)
        else:
            config[key] = value
    return config


def connect(config):
    """Ray, and how many slots it has room for."""
    import ray
    version = tuple(int(part) for part in ray.__version__.split(".")[:2])
    if version < (2, 52):
        raise RuntimeError("Ray %s is too old: 2.52 is needed" % ray.__version__)
    try:
        ray.init(address=config["address"], log_to_driver=bool(config["inherit"]),
                 logging_level="ERROR", configure_logging=False)
    except ConnectionError as error:
        # Ray says the same of whom nobody knows as of whom nobody hears.
        raise RuntimeError("%s If it is there, RAY_AUTH_TOKEN is not its token."
                           % first_line(error).decode())
    with open(config["program"], "rb") as program:
        Far.program = ray.put(Blob(bytearray(program.read())))
    per_slot = config["resources"].get("num_cpus", 1) or 1
    return ray, max(1, int(ray.cluster_resources().get("CPU", 1) / per_slot))


def main():
    # A driver's choice to ignore it is inherited, and takes the status of workers away.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    wire = Wire()
    config = read_config(wire)
    ray = None
    if config["loopback"]:
        width = int(config["loopback"])
    else:
        # The driver may go meanwhile, which nobody reads: its end of the socket says so.
        threading.Thread(target=watch, args=(wire.socket,), daemon=True).start()
        try:
            ray, width = connect(config)
        except BaseException as error:
            wire.write(ERROR, 0, first_line(error))
            os._exit(1)
    wire.write(UP, 0, str(int(config["workers"] or width)).encode())
    while True:
        kind, worker, payload = wire.read()
        if kind == START:
            SLOTS[worker] = Far(wire, config, ray) if ray else Local(wire, config)
            SLOTS[worker].start(worker, payload)
            continue
        # It may go meanwhile.
        slot = SLOTS.get(worker)
        if slot is None:
            continue
        if kind == DATA:
            slot.data(payload)
        elif kind == KILL:
            slot.kill()
        elif kind == CONTROL:
            slot.control(payload)


def watch(wire):
    poll = select.poll()
    poll.register(wire.fileno(), select.POLLRDHUP)
    poll.poll()
    os._exit(0)


main()
