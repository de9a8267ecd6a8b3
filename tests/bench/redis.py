#!/usr/bin/env python3
"""What stored messages cost Redis: its CPU time while 3,000 messages a second go to sessions of disconnected clients.

    python3 tests/bench/redis.py [ROUNDS [SECONDS]]     PULSEGATE names the gateway; redis-server must be installed

The peer is a bare client of Redis that makes the same changes with the same function, one call for each message: the message of
300 bytes, the receiver's entry and its counter. Rounds of all cases alternate, and each value is the median of the rounds.

Redis has CPU 0, everything else has CPU 1, and an idle loop keeps CPU 1 busy. If these are two hyperthreads of one core, Redis is
slowed down by the other one in all cases alike.
"""

import os
import random
import socket
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import edge  # puts the helpers of the end-to-end tests on the path
from cluster_test import leave_a_session, node
from gateway import Client
from redis_server import RedisServer

RATE = 3000
PUBLISHERS = 10
SESSIONS = 5000
BODY = b"b" * 300
TOKEN = "1 nobody:1"
FUNCTIONS = Path(__file__).resolve().parents[2] / "server/cluster/pg1.lua"


def command(*words):
    """A command of Redis in its own protocol, RESP."""
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


class BareClient:
    """Stores each message with a call of its own, as if it were the owner of a partition."""

    def __init__(self, redis):
        redis.ask("FUNCTION", "LOAD", FUNCTIONS.read_text())
        redis.ask("SET", "{1}t", TOKEN)
        self.socket = socket.create_connection(("127.0.0.1", redis.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sent = 0
        self.planned = []

    def load(self):
        self.planned.clear()
        return edge.Load([self.socket], RATE, self.split, self.take)

    def send(self, _, planned):
        self.planned.append(planned)
        self.sent += 1
        receiver = self.sent % SESSIONS
        self.socket.sendall(command("FCALL", "pg1_unit", 2, "{1}t", "{1}m", 1, TOKEN, 6, 0, f"m{self.sent}", BODY,
                                    f"r{receiver}", b"r" * 20, f"c{receiver}", b"c" * 10))

    @staticmethod
    def split(data):
        *answers, rest = data.split(b"\r\n")
        assert all(answer == b"+OK" for answer in answers), answers
        return answers, rest

    def take(self, load, *_):
        load.latencies.append(time.perf_counter() - self.planned[len(load.latencies)])


class Publishers:
    """Publish at QoS 1 to sessions of disconnected clients, each message to another one."""

    def __init__(self, gateway):
        for number in range(SESSIONS):
            leave_a_session(gateway, f"away{number}", f"to/{number}")
        self.clients = [Client(gateway.port).login(f"publisher{number}") for number in range(PUBLISHERS)]
        self.planned = {}

    def load(self):
        return edge.Load([client.socket for client in self.clients], RATE, edge.packets, self.take)

    def send(self, turn, planned):
        client = self.clients[turn % PUBLISHERS]
        packet_id = turn // PUBLISHERS % 60000 + 1
        self.planned[client.socket, packet_id] = planned
        client.publish(f"to/{random.randrange(SESSIONS)}", BODY, qos=1, packet_id=packet_id)

    def take(self, load, sock, packet):
        assert packet[0] == edge.PUBACK, packet
        load.latencies.append(time.perf_counter() - self.planned.pop((sock, int.from_bytes(packet[2:4], "big"))))


def measure(redis, storing, seconds):
    """Percent of a core that Redis takes, its calls per message, and the latency's p50 and p99 in ms."""
    def calls():
        return int(redis.ask("INFO", "commandstats").partition("cmdstat_fcall:calls=")[2].partition(",")[0] or 0)

    load, count = storing.load(), seconds * RATE
    calls_before, cpu_before = calls(), edge.cpu_of(redis.process)
    load.run(seconds, storing.send)
    spent = edge.cpu_of(redis.process) - cpu_before
    late = sorted(load.latencies)
    assert len(late) == count, (len(late), count)
    return [spent / seconds * 100, (calls() - calls_before) / count, late[count // 2] * 1e3, late[count * 99 // 100] * 1e3]


def main():
    rounds, seconds = (int(each) for each in (sys.argv[1:] + ["5", "5"][len(sys.argv) - 1:]))
    os.sched_setaffinity(0, {1})  # inherited
    with ExitStack() as stack:
        busy = subprocess.Popen(["nice", "-n", "19", sys.executable, "-c", "while True: pass"])
        stack.callback(busy.wait)
        stack.callback(busy.kill)
        cases = {}
        for fsync in ("always", "everysec"):
            bare, shared = (stack.enter_context(RedisServer("--appendfsync", fsync)) for _ in range(2))
            for redis in (bare, shared):
                os.sched_setaffinity(redis.process.pid, {0})
            gateway = stack.enter_context(node(shared, "owner", "--cluster-durability", fsync))
            cases[f"bare client, {fsync}"] = bare, BareClient(bare), []
            cases[f"Pulsegate, {fsync}"] = shared, Publishers(gateway), []
        for _ in range(rounds):
            for redis, storing, found in cases.values():
                found.append(measure(redis, storing, seconds))
    print("| | Redis, % of a core | calls per message | p50, ms | p99, ms |\n|---|---|---|---|---|")
    for case, (_, _, found) in cases.items():
        cpu, calls, p50, p99 = (statistics.median(column) for column in zip(*found))
        print(f"| {case} | {cpu:.1f} | {calls:.2f} | {p50:.2f} | {p99:.2f} |")


if __name__ == "__main__":
    main()
