"""Stands in for the gateway of end-to-end tests: an edge that is never home, with all clients, its home, and their Redis."""

import gateway
from gateway import PATIENCE, wait_until
from ports import free_port
from redis_server import RedisServer

OneNode = gateway.Gateway


def without(arguments, *names):
    """The arguments but these options and their values."""
    kept, rest = [], iter(arguments)
    for each in rest:
        if each in names:
            next(rest)
        else:
            kept.append(each)
    return kept


class BehindEdge(OneNode):
    """The HTTP API of the edge answers for both nodes; metrics are the home's."""

    def __init__(self, *arguments, events=False, **options):
        assert not options, options
        self.redis = RedisServer()
        kept = without(list(map(str, arguments)), "--data")
        cluster = ("--cluster", self.redis.url, "--node-lease", "60s")
        links = [f"127.0.0.1:{free_port()}" for _ in range(2)]
        self.home = OneNode(*without(kept, "--listen"), *cluster, "--node-name", "home", "--link-listen", links[0],
                            keeps=True, events=events)
        super().__init__(*kept, *cluster, "--node-name", "edge", "--link-listen", links[1], "--cluster-edge", keeps=True)
        self.events_file = self.home.events_file
        self.port, self.http_port = free_port(), free_port()
        at = self.command.index("mqtt://127.0.0.1:0")
        self.command[at] = f"mqtt://127.0.0.1:{self.port}"
        self.command[at + 2] = f"http://127.0.0.1:{self.http_port}"

    def start(self, timeout=PATIENCE):
        self.redis.start()
        self.home.start(timeout)
        self.launch().wait_for_log("linked to node home")
        wait_until(lambda: self.get("/readyz")[0] == 200, what="the edge has its link")
        return self

    def metric(self, name, **labels):
        return self.home.metric(name, **labels)

    @property
    def log(self):
        return super().log + self.home.log

    def stop(self, *arguments, **options):
        super().stop(*arguments, **options)
        self.home.stop(*arguments, **options)

    def kill(self):
        super().kill()
        if self.home.process:
            self.home.kill()
        self.home.folder.cleanup()
        self.redis.__exit__()


def stand_in():
    """Call it before the tests are imported."""
    gateway.Gateway = BehindEdge
