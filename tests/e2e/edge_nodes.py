"""The nodes of a cluster in which one or two are edges, for tests."""

import json

from cluster_test import ClusterTest, ask, node
from gateway import wait_until
from ports import free_port

# Seconds: so long, neither a busy machine nor a Redis that waits for its disk ends the home's lease.
LONG_LEASE = 20


def edge_node(redis, name, *arguments, lease=LONG_LEASE, listeners=()):
    """It listens on fixed ports, so that it has the same ones when it becomes the home."""
    made = node(redis, name, "--cluster-edge", *arguments, lease=lease)
    any_port = made.command.index("--listen")
    assert made.command[any_port + 3] == "http://127.0.0.1:0", made.command
    del made.command[any_port:any_port + 4]
    made.port, made.http_port = free_port(), free_port()
    for url in (f"mqtt://127.0.0.1:{made.port}", f"http://127.0.0.1:{made.http_port}", *listeners):
        made.command += ["--listen", url]
    return made


class RunningEdge:
    """Ends a node that may never get ready, and checks what sanitizers say."""

    def __init__(self, made):
        self.made = made

    def __enter__(self):
        return self.made.launch()

    def __exit__(self, kind, error, trace):
        self.made.__exit__(kind, error, trace)


class EdgeCase(ClusterTest):
    arguments = ()

    def home(self, *arguments, lease=LONG_LEASE):
        return self.enterContext(node(self.redis, "home", *self.arguments, *arguments, lease=lease))

    def edge(self, *arguments, name="edge", lease=LONG_LEASE, listeners=(), home="home"):
        """An edge that is linked to its home."""
        made = edge_node(self.redis, name, *self.arguments, *arguments, lease=lease, listeners=listeners)
        self.enterContext(RunningEdge(made))
        await_link(made, home)
        return made

    def nodes(self, *arguments, **options):
        return self.home(*arguments, **options), self.edge(*arguments, **options)


def await_link(edge, home="home"):
    edge.wait_for_log(f"linked to node {home}")
    wait_until(lambda: ask(edge.http_port, "/readyz")[0] == 200, what="the link")


def state(gateway, user):
    status, body = gateway.get_json(f"/api/v1/users/{user}")
    return body["state"] if status == 200 else None


def history(gateway, user):
    """The newest first."""
    status, said = gateway.get_json(f"/api/v1/users/{user}/history")
    assert status == 200, said
    return said["history"]


def last_cause(gateway, user):
    """Why the user's last connection ended."""
    return next(each["cause"] for each in history(gateway, user) if "cause" in each)


def observed(gateway, name, *topics):
    """A client that hears of the presence of that user, and has heard that it is online. It may hear that twice. It has
    subscribed to these topics, too."""
    watcher = gateway.connect("watcher of " + name)
    watcher.subscribe(f"presence/{name}", *topics)
    assert json.loads(watcher.receive_publish()[1])["state"] == "online"
    return watcher


def first_offline(watcher):
    """The first time that the user is offline. A takeover is no such time."""
    while (event := json.loads(watcher.receive_publish()[1]))["state"] == "online":
        pass
    return event
