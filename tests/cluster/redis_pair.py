"""A Redis with a replica, which takes its place in a failover."""

from gateway import wait_until
from link_relay import LinkRelay
from redis_server import RedisServer


class Pair:
    """A primary and a replica. `fail_over` kills the primary, and the replica, which lacks its newest writes, takes its
    place; then there is a new replica."""

    def __init__(self):
        # Else a primary waits 5 s for further replicas before it sends its data to one.
        self.primary, self.replica = (RedisServer("--repl-diskless-sync-delay", "0") for _ in range(2))
        self.url = f"redis://127.0.0.1:{self.primary.port},127.0.0.1:{self.replica.port}"
        self.relay = None

    def __enter__(self):
        self.primary.start()
        self.replica.start()
        self._follow()
        return self

    def __exit__(self, *trace):
        if self.relay:
            self.relay.close()
        for each in (self.primary, self.replica):
            if each.process:
                each.__exit__(*trace)

    def _follow(self):
        self.relay = LinkRelay(self.primary.port)
        self.replica.ask("REPLICAOF", "127.0.0.1", self.relay.port)
        self.await_replica()

    def await_replica(self):
        wait_until(lambda: "master_link_status:up" in self.replica.ask("INFO", "replication"), what="the replica follows")

    def bring_back(self):
        """The former primary becomes the replica. It starts as one: else a node that starts at this moment might choose it as the
        primary."""
        self.relay = LinkRelay(self.primary.port)
        self.replica.start(replica_of=self.relay.port)
        self.await_replica()

    def lose_from_now_on(self):
        self.relay.passes.clear()

    def fail_over(self):
        """Says how many bytes of Redis's writes are lost."""
        lost = self._offset(self.primary) - self._offset(self.replica)
        self.primary.kill()
        self.promote()
        self.replica.start(empty=True)
        self._follow()
        return lost

    def promote(self):
        """The replica takes the place of the primary, which has been killed."""
        self.relay.cut()  # before it is closed: else it passes on what it holds
        self.relay.close()
        self.replica.ask("REPLICAOF", "NO", "ONE")
        self.primary, self.replica = self.replica, self.primary

    @staticmethod
    def _offset(redis):
        return int(redis.ask("INFO", "replication").split("master_repl_offset:")[1].split()[0])

    def ask(self, *command):
        return self.primary.ask(*command)
