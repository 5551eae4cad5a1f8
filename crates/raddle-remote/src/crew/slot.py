"""The slots of raddle-remote: each holds one worker, a process of the driver's program, and passes on what it says.

This goes before the bridge, in one program.
"""

import sys

# What lies in the directory where the user is is not what is meant by these names.
sys.path[:] = [path for path in sys.path if path]

import contextlib
import fcntl
import os
import pickle
import queue
import select
import signal
import socket
import struct
import subprocess
import threading
import time

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
        # How many bytes there are in these.
        self.held = 0
        self.answers = 0
        self.worker = None
        self.gone = True
        # Whether somebody waits for the end of the worker, and takes nothing before.
        self.leaving = False
        # The number of the worker, and of the one that was killed last: the kill may come first.
        self.number = self.killed = None

    def find(self, name):
        """Takes the program from a slot of this machine that has it; whether there is one."""
        if self.program is None:
            self.program = held(name)
        return self.program is not None

    def load(self, name, program):
        """Takes the program's bytes, as a file in memory that others find by its name, and that does not change; unless another has
        been faster."""
        with alone():
            if self.find(name):
                return
            self.program = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            view = memoryview(program.data)
            while len(view):
                view = view[os.write(self.program, view[:1 << 30]):]
            fcntl.fcntl(self.program, fcntl.F_ADD_SEALS, SEALS)

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
        # Nobody reads yet.
        ours.setblocking(False)
        sent = socket.send_fds(ours, [hello], [second.fileno()])
        ours.setblocking(True)
        if sent < len(hello):
            raise OSError("the plan is too long to be sent")
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
            self.events, self.held, self.answers, self.gone, self.leaving = [], 0, 0, False, False
            self.worker, self.socket, self.control_socket = worker, ours, control
            self.number = number
            if self.killed == number:
                self.end_group()
        process = None
        try:
            process = os.pidfd_open(worker.pid)
            heard = (worker, process, ours, control)
            threading.Thread(target=self.pump, args=heard, daemon=True).start()
        except (OSError, RuntimeError) as error:
            # There is no descriptor, or no thread, to be had: so there is nobody to hear it.
            with self.lock:
                self.end(worker)
            for end in (ours, control):
                end.close()
            if process is not None:
                os.close(process)
            return [(ERROR, str(error).encode())] + self.take()
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
            # `pump` is to see that it has, however much there is that nobody has taken.
            self.leaving = True
            self.lock.notify_all()
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
            events, self.events, self.held = self.events, [], 0
            self.lock.notify_all()
            return events

    def interrupt(self, data):
        """Where there is no room for it, so many were sent that nobody reads: a worker that is stopped stops no other."""
        try:
            self.control_socket.send(data, socket.MSG_DONTWAIT)
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

    def pump(self, worker, process, ours, control):
        poll = select.poll()
        pipes = {}
        for stream, pipe in ((1, worker.stdout), (2, worker.stderr)):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
                pipes[pipe.fileno()] = stream
        for fd in (ours.fileno(), process, *pipes):
            poll.register(fd, select.POLLIN)
        frames = Frames()
        # One that has closed its socket is about to end, or has lost its mind.
        open_, until = True, None
        while True:
            # Who writes faster than that is passed on waits, as it would for a reader.
            with self.lock:
                self.lock.wait_for(lambda: self.held < MOST_HELD or self.leaving)
            left = None if until is None else max(0, until - time.monotonic()) * 1000
            ready = [fd for fd, _ in poll.poll(left)]
            ended = process in ready
            data = b""
            if open_ and (ours.fileno() in ready or ended):
                data = self.receive(ours)
                if data is None:
                    poll.unregister(ours.fileno())
                    open_, data = False, b""
                    until = time.monotonic() + LINGER
            # What was written before an answer is there by now, and goes before it.
            written = []
            for fd, stream in list(pipes.items()):
                if fd in ready or data or ended:
                    self.drain(fd, stream, written, poll, pipes)
            with self.lock:
                self.events += written
                self.held += sum(len(some) for _, some in written)
                if data:
                    self.answers += frames.answers(data)
                    self.events.append((DATA, data))
                if ended:
                    self.end(worker)
                elif until is not None and time.monotonic() >= until:
                    self.end_group()
                    until = None
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


# How long a process may live on that has closed its socket.
LINGER = 0.2
# So many bytes of output wait in a slot, and some more.
MOST_HELD = 4 << 20
SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK


def held(name):
    """The file in memory of this name, if a process of this user's has one here."""
    link = "/memfd:%s (deleted)" % name
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            paths = [entry.path for entry in os.scandir("/proc/%s/fd" % pid)]
        except OSError:
            continue  # It has ended, or is another user's.
        for path in paths:
            try:
                if os.readlink(path) != link or os.stat(path).st_uid != os.geteuid():
                    continue
                file = os.open(path, os.O_RDONLY)
            except OSError:
                continue
            # Not while it is being written.
            if fcntl.fcntl(file, fcntl.F_GET_SEALS) & SEALS == SEALS:
                return file
            os.close(file)
    return None


@contextlib.contextmanager
def alone():
    """No other process of this machine is in here, if it does not take too long: by a lock on what is there anyway."""
    file = os.open(sys.executable, os.O_RDONLY)
    try:
        for _ in range(500):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                time.sleep(0.01)
        yield
    finally:
        os.close(file)


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
