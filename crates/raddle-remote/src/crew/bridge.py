"""The bridge between a driver of raddle-remote and its slots.

It is started by the driver with `python3 -c`, reads frames from descriptor 0 and writes frames there; see `frame.rs` for the
header. With `loopback` the slots are objects of this process, otherwise each is an actor of Ray.
"""

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
        threading.Thread(target=self.write, daemon=True).start()
        try:
            threading.Thread(target=self.run, args=(worker, hello), daemon=True).start()
        except RuntimeError:
            self.inbox.put(None)
            raise

    def run(self, worker, hello):
        try:
            came = self.slot.launch(worker, self.config["program"], self.config, hello)
        except Exception as error:  # Whatever is not to be had: the driver must not wait for it.
            came = [(ERROR, first_line(error)), (GONE, b"u")]
        gone = self.wire.events(worker, came)
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
    # What slots are to run is sent to a machine when none of its slots has it.
    program, sending = None, threading.Lock()

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
        self.actor = self.free_one() or self.new_one()
        if self.killed:
            return self.events(worker, [(GONE, b"s9")])
        return self.wait(worker, self.actor.start.remote(worker, "", self.config, hello))

    def free_one(self):
        try:
            return Far.free.pop()
        except IndexError:
            return None

    def new_one(self):
        """An actor of its own, or whichever becomes free meanwhile: where the cluster has no room for more there will be no
        other. None if nobody wants it any more."""
        actor, name = new_actor(self.ray, self.config), self.config["build"]
        found = actor.find.remote(name)
        while not self.ray.wait([found], timeout=Far.PEEK)[0]:
            other = self.free_one()
            if other is not None or self.killed:
                self.ray.kill(actor)
                return other
        if not self.ray.get(found):
            self.ray.get(actor.load.remote(name, self.sent()))
        return actor

    def sent(self):
        """The program, where all machines get it from."""
        config = self.config
        with Far.sending:
            if Far.program is None:
                with open(config["program"], "rb") as program:
                    Far.program = self.ray.put(Blob(bytearray(program.read())))
            return Far.program

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
        if self.actor is not None and any(kind == GONE for kind, _ in events):
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
    per_slot = config["resources"].get("num_cpus", 1) or 1
    return ray, max(1, int(ray.cluster_resources().get("CPU", 1) / per_slot))


def main():
    # A driver's choice to ignore it is inherited, and takes the status of workers away.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    wire = Wire()
    threading.Thread(target=watch, args=(wire.socket,), daemon=True).start()
    config = read_config(wire)
    ray = None
    if config["loopback"]:
        width = int(config["loopback"])
    else:
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
            try:
                SLOTS[worker].start(worker, payload)
            except RuntimeError as error:  # There is no thread to be had: others go on.
                wire.events(worker, [(ERROR, first_line(error)), (GONE, b"u")])
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
    """Ends all when the driver has gone, whatever else is going on. Its end of the socket is closed then, unless a child of its has
    a copy; and its process has ended, unless it is seen from another namespace."""
    poll = select.poll()
    poll.register(wire.fileno(), select.POLLRDHUP)
    driver = struct.unpack("iII", wire.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    try:
        poll.register(os.pidfd_open(driver), select.POLLIN)
    except ProcessLookupError:
        os._exit(0)
    except OSError:
        pass
    poll.poll()
    os._exit(0)


main()
