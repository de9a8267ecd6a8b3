"""A primary, a replica, and three real sentinels that watch over them, on loopback."""

import re
import subprocess
import tempfile
from pathlib import Path

from gateway import wait_until
from ports import free_port
from redis_server import RedisServer

NAME = "pulse"


class Sentinels:
    """The sentinels decide which of two servers is the primary. `fail_over` asks them to exchange the two. They replace a
    primary that says nothing for `down_after` ms."""

    def __init__(self, down_after=500):
        self.down_after = down_after
        self.servers = [RedisServer(), RedisServer()]
        self.folder = tempfile.TemporaryDirectory(prefix="pulsegate-sentinels-")
        self.ports = [free_port() for _ in range(3)]
        self.processes = []
        self.url = "redis+sentinel://" + ",".join(f"127.0.0.1:{port}" for port in self.ports) + f"/{NAME}"

    def __enter__(self):
        primary, replica = self.servers
        primary.start()
        replica.start()
        replica.ask("REPLICAOF", "127.0.0.1", primary.port)
        for port in self.ports:
            settings = Path(self.folder.name) / f"{port}.conf"
            settings.write_text(f"port {port}\nbind 127.0.0.1\nlogfile {port}.log\ndir {self.folder.name}\n"
                                f"sentinel monitor {NAME} 127.0.0.1 {primary.port} 2\n"
                                f"sentinel down-after-milliseconds {NAME} {self.down_after}\n"
                                f"sentinel failover-timeout {NAME} 3000\n")
            self.processes.append(subprocess.Popen(["redis-server", str(settings), "--sentinel"], stdin=subprocess.DEVNULL,
                                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        self.await_calm()
        return self

    def __exit__(self, *trace):
        for each in self.processes:
            each.kill()
            each.wait()
        for each in self.servers:
            each.__exit__(*trace)
        self.folder.cleanup()

    @property
    def primary(self):
        """The server that the sentinels agree on; None if they don't."""
        known = {self._ask(port, "GET-MASTER-ADDR-BY-NAME", NAME) for port in self.ports}
        found = [each for each in self.servers if known == {f"127.0.0.1\n{each.port}"}]
        return found[0] if found else None

    def ask(self, *command):
        return wait_until(lambda: self.primary, 60, "a primary").ask(*command)

    def await_calm(self):
        """There are a primary and its replica, and all sentinels know both and each other."""
        def is_calm():
            primary = self.primary
            if not primary or "connected_slaves:1\n" not in primary.ask("INFO", "replication").replace("\r", ""):
                return False
            other = self.servers[primary is self.servers[0]]
            return "master_link_status:up" in other.ask("INFO", "replication") and all(
                self._ask(port, "CKQUORUM", NAME).startswith("OK 3") for port in self.ports) and all(
                re.search(r"\nflags\nslave\n", self._ask(port, "REPLICAS", NAME)) for port in self.ports)

        wait_until(is_calm, 60, "the sentinels")

    def fail_over(self):
        before = self.primary
        # A sentinel refuses while it still deals with the last one.
        wait_until(lambda: self._ask(self.ports[0], "FAILOVER", NAME) == "OK", 60, "a failover")
        self._await_other(before)

    def kill_primary(self):
        """It comes back when the replica has taken its place."""
        before = self.primary
        before.kill()
        self._await_other(before)
        before.start()

    def _await_other(self, before):
        wait_until(lambda: self.primary not in (None, before), 60, "another primary")

    @staticmethod
    def _ask(port, *command):
        done = subprocess.run(["redis-cli", "-p", str(port), "SENTINEL", *command], capture_output=True, text=True,
                              timeout=60)
        return done.stdout.strip()
