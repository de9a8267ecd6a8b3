"""Three nodes of a cluster on 127.0.0.1 to 127.0.0.3, with a Redis of their own, and what can happen to them."""

import contextlib
import signal
import sys
import urllib.request

from gateway import Gateway, binary, wait_until
from link_relay import LinkRelay
from ports import free_port
from redis_pair import Pair
from redis_server import RedisServer

LEASE = 4  # seconds; the shortest that may be set
COUNT = 3


class Node:
    """A gateway that is an edge while another one owns the data. Its link goes through a relay, which can be cut."""

    def __init__(self, number, redis, ports, arguments=()):
        self.name, self.host = f"n{number}", f"127.0.0.{number}"
        self.port, self.http_port = ports
        link = free_port()
        self.relay = LinkRelay(link, self.host)
        self.gateway = Gateway(
            "--listen", f"mqtt://{self.host}:{self.port}", "--listen", f"http://{self.host}:{self.http_port}",
            "--cluster", redis.url, "--cluster-edge", "--node-name", self.name, "--node-lease", f"{LEASE}s",
            "--link-listen", f"{self.host}:{link}", "--link-address", self.relay.address, "--shards", "2",
            "--rooms", "open", "--ban-flaps", "0", "--duel-takeovers", "0", *arguments, listen=False, keeps=True)
        self.gateway.host, self.gateway.http_port = self.host, self.http_port
        self.is_frozen = False

    def start(self, program=None):
        if program:
            self.gateway.command[0] = str(program)
        self.gateway.launch()

    def kill(self):
        self.gateway.kill()

    def stop(self):
        self.gateway.stop()

    def freeze(self):
        self.is_frozen = True
        self.gateway.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.is_frozen = False
        self.gateway.process.send_signal(signal.SIGCONT)

    def state(self):
        """What it says of itself: "ready" if it lets clients in, as the owner or as an edge with a link."""
        if self.is_frozen or self.gateway.process.poll() is not None:
            return "frozen" if self.is_frozen else "ended"
        try:
            with urllib.request.urlopen(f"http://{self.host}:{self.http_port}/readyz", timeout=10):
                return "ready"
        except OSError as error:  # HTTPError is one
            return str(error)

    def answers(self):
        if self.gateway.process.poll() == 1 and "Redis" in self.gateway.log.rstrip().rpartition("\n")[2]:
            self.start()  # it began while there was no Redis: a supervisor would start it again
        return self.state() == "ready"

    def cluster(self):
        return self.gateway.ask("GET", "/api/v1/cluster")[1]


class Cluster:
    def __init__(self, programs=(), has_replica=False):
        """The nodes begin with these programs; the default is the one that is tested. With a replica of Redis, they acknowledge
        only what the replica has, too."""
        self.redis = Pair() if has_replica else RedisServer()
        self.arguments = ("--cluster-replicas", "1") if has_replica else ()
        self.programs = list(programs) or [binary()]
        self.nodes = []

    def __enter__(self):
        try:
            self.redis.__enter__()
            ports = free_port(), free_port()
            self.nodes = [Node(number, self.redis, ports, self.arguments) for number in range(1, COUNT + 1)]
            for number, node in enumerate(self.nodes):
                node.start(self.programs[number % len(self.programs)])
            self.await_whole()
            return self
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise

    def __exit__(self, kind, error, trace):
        for node in self.nodes:
            node.thaw()
            if kind:
                print(f"--- log of {node.name}\n{node.gateway.log[-6000:]}---", flush=True)
            node.kill()
            node.relay.close()
            node.gateway.folder.cleanup()
        self.redis.__exit__(kind, error, trace)

    def await_whole(self, timeout=60):
        """Until clients are let in at each node."""
        try:
            wait_until(lambda: all(node.answers() for node in self.nodes), timeout, "each node lets clients in")
        except AssertionError as error:
            raise AssertionError(f"{error}: {[(node.name, node.state()) for node in self.nodes]}") from None

    def primary(self):
        """The Redis that takes writes."""
        return self.redis.primary if isinstance(self.redis, Pair) else self.redis

    def await_units(self):
        """Until a node writes to Redis again, with the replica if there is one."""
        before = self.units()
        wait_until(lambda: any(count > before.get(node, 0) for node, count in self.units().items()), 60, "a unit in Redis")

    def units(self):
        """How many changes Redis has accepted, by the incarnation of the node."""
        counts = {}
        for node in self.nodes:
            with contextlib.suppress(OSError):  # it may restart itself after its answer
                if node.answers():
                    state = node.cluster()
                    counts[state["self"]] = state["counters"]["units"]
        return counts

    def owner(self):
        """The node that owns the data, as the first node knows that answers; None while there is none."""
        for node in self.nodes:
            if node.answers():
                names = [each["name"] for each in node.cluster()["nodes"] if each["owner"]]
                return next((each for each in self.nodes if each.name in names), None)
        return None
