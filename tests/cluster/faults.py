"""Plays faults of a cluster at random while a crowd of clients works, and says what the clients saw.

    faults.py [SECONDS] [--clients N] [--seed N] [--one-redis]

`--clients` adds clients that only read and ping, with a longer keepalive. `--one-redis`: Redis has no replica, and does not
fail over.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import random
import sys
import time

from crowd import KEEPALIVE, MILLISECOND, Crowd
from gateway import let_pass_meanwhile, wait_until
from three_nodes import Cluster

LATEST = 5  # seconds after its limit of silence: by then a client of a killed edge must be offline
LAG = "pulsegate_loop_lag_seconds_sum"


@dataclasses.dataclass
class Played:
    faults: list  # what must not happen
    counts: dict  # how often each was played
    acknowledged: int
    repeated: int
    logins: int
    clients: int
    longest_gap: float  # seconds between the last answer to a client and its next login
    longest_pause: float  # seconds in which no message was acknowledged, of any client
    given_up: int  # logins without an answer in time
    absent: int  # clients of a killed edge that stayed away
    latest_offline: float  # seconds from the limit of silence until the last of them was offline

    def __str__(self):
        return (f"{self.counts}: {self.acknowledged} messages acknowledged, {self.repeated} repeated, "
                f"{self.logins / self.clients - 1:.1f} reconnects a client, {self.given_up} logins given up, "
                f"longest gap {self.longest_gap:.1f} s, longest pause of acknowledgements {self.longest_pause:.1f} s, "
                f"{self.absent} clients of a killed edge offline up to {self.latest_offline:.1f} s after their limit")


class Player:
    def __init__(self, cluster, crowd, dice):
        self.cluster, self.crowd, self.dice = cluster, crowd, dice
        self.counts = {}
        self.redis_turn = asyncio.Lock()
        self.absent, self.latest_offline = 0, 0.0

    async def play(self, kinds, at_once):
        """One fault, or two of different nodes. Returns when all nodes let clients in again."""
        nodes = self.dice.sample(self.cluster.nodes, at_once)
        await asyncio.gather(*(self.play_one(self.dice.choice(kinds), node) for node in nodes))
        await asyncio.to_thread(self.cluster.await_whole)

    async def play_one(self, kind, node):
        self.counts[kind] = self.counts.get(kind, 0) + 1
        await getattr(self, kind)(node)

    async def kill(self, node):
        await asyncio.to_thread(node.kill)
        await let_pass_meanwhile(self.dice.uniform(0, 3))
        node.start()

    async def restart(self, node):
        await asyncio.to_thread(node.stop)
        node.start()

    async def freeze(self, node):
        await self.freeze_for(node, 3)

    async def freeze_long(self, node):
        await self.freeze_for(node, 20)

    async def freeze_for(self, node, seconds):
        node.freeze()
        await let_pass_meanwhile(seconds)
        node.thaw()

    async def cut(self, node):
        """Its links lose their connections, some times in a row."""
        for _ in range(self.dice.randrange(1, 10)):
            node.relay.cut()
            await let_pass_meanwhile(self.dice.uniform(0, 0.5))

    async def silence(self, node):
        """Its links pass nothing for some seconds."""
        node.relay.passes.clear()
        await let_pass_meanwhile(self.dice.uniform(0.5, 8))
        node.relay.passes.set()

    async def redis_freeze(self, _):
        async with self.redis_in_trouble() as redis:
            redis.stop()
            await let_pass_meanwhile(self.dice.uniform(0.5, 8))
            redis.go_on()

    async def redis_kill(self, _):
        async with self.redis_in_trouble() as redis:
            redis.kill()
            await let_pass_meanwhile(self.dice.uniform(0, 3))
            await asyncio.to_thread(redis.start)

    async def redis_fail_over(self, _):
        """The replica replaces the primary, and lacks its newest writes. Then the primary is back as the replica."""
        async with self.redis_in_trouble() as redis:
            pair = self.cluster.redis
            pair.lose_from_now_on()
            await let_pass_meanwhile(self.dice.uniform(0, 1))
            redis.kill()
            await let_pass_meanwhile(self.dice.uniform(0, 2))
            await asyncio.to_thread(pair.promote)
            await let_pass_meanwhile(self.dice.uniform(0, 2))
            await asyncio.to_thread(pair.bring_back)

    @contextlib.asynccontextmanager
    async def redis_in_trouble(self):
        """The primary. Two faults are apart: after 10 s without Redis, the gateway disconnects some publishers."""
        async with self.redis_turn:
            yield self.cluster.primary()
            await asyncio.to_thread(self.cluster.await_units)

    async def lose_edge(self):
        """The clients of a killed edge stay away. Each must be offline after its limit of silence, and soon. The owner says when
        that was, so nothing depends on how fast this process is. The owner may be late by the lag of its loops."""
        owner = await asyncio.to_thread(self.cluster.owner)
        edge = max((each for each in self.cluster.nodes if each is not owner), key=lambda each: len(self.clients_of(each)))
        absent = self.clients_of(edge)
        self.absent = len(absent)
        for each in absent.values():
            each.may_return.clear()
        book, lag = self.crowd.book, await asyncio.to_thread(owner.gateway.metric, LAG)
        known = len(book.offline)
        await asyncio.to_thread(edge.kill)
        killed = time.time()

        def times():
            return [(user, since) for _, user, _, _, since in book.offline[known:] if user in absent]

        await self.crowd.until(lambda: len(times()) >= len(absent) * len(self.crowd.watchers), book.limit + 60)
        lag = await asyncio.to_thread(owner.gateway.metric, LAG) - lag
        for user in absent.keys() - {user for user, _ in times()}:
            book.fault(f"{user} is not offline, and its edge has died")
        for user, since in times():
            silent = since - (absent[user].last_packet + time.time() - time.monotonic())
            late = since - (killed + book.limit)
            self.latest_offline = max(self.latest_offline, late)
            if silent < book.limit - MILLISECOND or late > LATEST + lag:
                book.fault(f"{user} was offline {silent:.3f} s after its last packet, when its edge had died")
        for each in absent.values():
            each.may_return.set()
        edge.start()
        await asyncio.to_thread(self.cluster.await_whole)

    def clients_of(self, node):
        return {each.name: each for each in self.crowd.clients if each.place == (node.host, node.port)}


ONE_REDIS = ("kill", "restart", "freeze", "freeze_long", "cut", "silence", "redis_freeze", "redis_kill")
EVERYTHING = (*ONE_REDIS, "redis_fail_over")


def ghosts(cluster, limit):
    """Users that stay online when their clients have gone. They have their limit of silence, and 20 s more."""
    def online():
        def asked():  # a node that has just been thawed may have lost its link, and not know it yet
            status, answer = cluster.nodes[0].gateway.ask("GET", "/api/v1/users?state=online")
            return status == 200 and answer

        return wait_until(asked, what="a list of users")["users"]

    with contextlib.suppress(AssertionError):
        wait_until(lambda: not online(), limit + 20)
    return [f"{each['user']} is online, and has long gone" for each in online()]


async def played_in(cluster, act, seed, rate, quiet=0):
    places = [(node.host, node.port) for node in cluster.nodes]
    async with Crowd(places, 20, quiet, rate, seed, keepalive=40 if quiet else KEEPALIVE) as crowd:
        player = Player(cluster, crowd, random.Random(seed))
        await act(player)
        faults = await crowd.finish()
    faults += await asyncio.to_thread(ghosts, cluster, crowd.book.limit)
    book = crowd.book
    return Played(faults, player.counts, len(book.acknowledged), book.repeated, book.logins, len(crowd.all), book.longest_gap,
                  book.longest_pause, sum(map(len, book.given_up.values())), player.absent, player.latest_offline)


def play(seconds, kinds=EVERYTHING, seed=None, quiet=0, rate=120):
    """Faults of these kinds for so many seconds, at least one of each. `quiet` clients only read."""
    seed = seed or random.randrange(1 << 32)
    print("seed", seed, flush=True)

    async def act(player):
        end = time.monotonic() + seconds
        for kind in player.dice.sample(kinds, len(kinds)):
            await player.play((kind,), 1)
        while time.monotonic() < end:
            await let_pass_meanwhile(player.dice.uniform(0, 2))
            await player.play(kinds, player.dice.choice((1, 1, 1, 2)))
        await player.lose_edge()

    with Cluster(has_replica="redis_fail_over" in kinds) as cluster:
        return asyncio.run(played_in(cluster, act, seed, rate, quiet))


def restart_all(rounds, programs=(), seed=None, rate=120):
    """Restarts the nodes in order, one after the other, the one with the data last. With two programs, each node begins with
    one of them and restarts with the other."""
    async def act(player):
        for number in range(rounds):
            owner = await asyncio.to_thread(player.cluster.owner)
            for node in sorted(player.cluster.nodes, key=lambda each: each is owner):
                await asyncio.to_thread(node.stop)
                place = player.cluster.nodes.index(node) + number + 1
                node.start(player.cluster.programs[place % len(player.cluster.programs)])
                await asyncio.to_thread(player.cluster.await_whole)
            player.counts["rolling restart"] = number + 1

    with Cluster(programs) as cluster:
        return asyncio.run(played_in(cluster, act, seed or 1, rate))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", nargs="?", type=float, default=600)
    parser.add_argument("--clients", type=int, default=0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--one-redis", action="store_true")
    options = parser.parse_args()
    result = play(options.seconds, ONE_REDIS if options.one_redis else EVERYTHING, options.seed, options.clients)
    print(result)
    print("\n".join(result.faults) or "no fault")
    sys.exit(bool(result.faults))
