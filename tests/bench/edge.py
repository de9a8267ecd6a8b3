#!/usr/bin/env python3
"""What an edge costs: CPU time of home and edge for a PINGREQ and for a message, and the latency of messages.

    python3 tests/bench/edge.py [ROUNDS [SECONDS]]     PULSEGATE names the gateway; redis-server must be installed

It prints a table. Rounds of all cases alternate, and each value is the median of the rounds.
"""

import selectors
import statistics
import struct
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from cluster_test import node  # noqa: E402
from gateway import Client  # noqa: E402
from ports import free_port  # noqa: E402
from redis_server import RedisServer  # noqa: E402

PAIRS = 10
RATE = 1000
PUBLISH, PUBACK = 0x30, 0x40
PING = b"\xc0\0"


def cpu_of(process):
    """Seconds of all its threads."""
    return sum(int(each.read_text().split()[0]) for each in Path(f"/proc/{process.pid}/task").glob("*/schedstat")) / 1e9


def packets(data):
    """The whole packets, each shorter than 128 bytes, and the rest."""
    found = []
    while len(data) >= 2 and len(data) >= 2 + data[1]:
        found.append(data[:2 + data[1]])
        data = data[2 + data[1]:]
    return found, data


def take(load, sock, packet):
    """Acknowledges a message, and notes how long it took."""
    if packet[0] & 0xf0 != PUBLISH:
        return
    if packet[0] & 6:
        at = 4 + packet[3]
        sock.send(bytes([PUBACK, 2]) + packet[at:at + 2])
    load.latencies.append(time.perf_counter() - struct.unpack("d", packet[-8:])[0])


class Load:
    """Calls `send(turn, planned)` at each planned time, and meanwhile `take(load, socket, packet)` for each packet that comes."""

    def __init__(self, sockets, rate=RATE, split=packets, take=take):
        self.rate, self.split, self.take = rate, split, take
        self.selector = selectors.DefaultSelector()
        self.rest = {}
        self.latencies = []
        for each in sockets:
            each.setblocking(False)
            self.selector.register(each, selectors.EVENT_READ)
            self.rest[each] = b""

    def run(self, seconds, send):
        begin = time.perf_counter()
        for turn in range(int(seconds * self.rate)):
            planned = begin + turn / self.rate
            while (wait := planned - time.perf_counter()) > 0:
                self.read(wait)
            send(turn, planned)
            self.read(0)
        self.read_for(0.2)

    def read_for(self, seconds):
        end = time.perf_counter() + seconds
        while (wait := end - time.perf_counter()) > 0:
            self.read(wait)

    def read(self, wait):
        for key, _ in self.selector.select(wait):
            found, self.rest[key.fileobj] = self.split(self.rest[key.fileobj] + key.fileobj.recv(65536))
            for packet in found:
                self.take(self, key.fileobj, packet)


def publish(topic, qos, packet_id, planned):
    body = struct.pack(">H", len(topic)) + topic
    if qos:
        body += struct.pack(">H", packet_id)
    body += struct.pack("d", planned)
    return bytes([PUBLISH | qos << 1, len(body)]) + body


def measure(nodes, seconds, work):
    before = [cpu_of(each.process) for each in nodes]
    work()
    return [after - was for after, was in zip((cpu_of(each.process) for each in nodes), before)]


def pings(ports, nodes, seconds, name):
    clients = [Client(ports[1]).login(f"{name}{number}") for number in range(PAIRS)]
    load = Load([each.socket for each in clients])
    spent = measure(nodes, seconds, lambda: load.run(seconds, lambda turn, _: clients[turn % PAIRS].socket.send(PING)))
    return clients, spent, load


def messages(ports, nodes, seconds, name, sender, receiver, qos):
    senders = [Client(ports[sender]).login(f"{name}s{number}") for number in range(PAIRS)]
    receivers = [Client(ports[receiver]).login(f"{name}r{number}") for number in range(PAIRS)]
    topics = [f"{name}/{number}".encode() for number in range(PAIRS)]
    for client, topic in zip(receivers, topics):
        client.subscribe(topic.decode(), qos=qos)
    load = Load([each.socket for each in senders + receivers])

    def send(turn, planned):
        place = turn % PAIRS
        senders[place].socket.send(publish(topics[place], qos, turn // PAIRS % 60000 + 1, planned))

    spent = measure(nodes, seconds, lambda: load.run(seconds, send))
    return senders + receivers, spent, load


def main():
    rounds, seconds = (int(each) for each in (sys.argv[1:] + ["3", "5"][len(sys.argv) - 1:]))
    names = ("home", "edge")
    cases = {"PINGREQ, edge": None}
    for qos in (0, 1):
        for sender, receiver in ((0, 0), (1, 0), (1, 1)):
            cases[f"QoS {qos}, {names[sender]} to {names[receiver]}"] = (sender, receiver, qos)
    found = {case: [] for case in cases}
    with RedisServer() as redis, node(redis, "home") as home:
        port = free_port()
        edge = node(redis, "edge", "--cluster-edge", "--listen", f"mqtt://127.0.0.1:{port}")
        try:
            edge.launch().wait_for_log("linked to node home")
            nodes, ports = (home, edge), (home.port, port)
            for turn in range(rounds):
                idle = measure(nodes, seconds, lambda: time.sleep(seconds + 0.2))
                for number, (case, way) in enumerate(cases.items()):
                    name = f"{turn}-{number}-"
                    clients, spent, load = (messages(ports, nodes, seconds, name, *way) if way else
                                            pings(ports, nodes, seconds, name))
                    for client in clients:
                        client.socket.close()
                    count = seconds * RATE
                    assert not way or len(load.latencies) == count, (case, len(load.latencies), count)
                    late = sorted(load.latencies) or [float("nan")]
                    found[case].append([*((a - b) / count * 1e6 for a, b in zip(spent, idle)),
                                        late[len(late) // 2] * 1e6, late[len(late) * 99 // 100] * 1e6])
        finally:
            edge.kill()
    print("| | home, µs | edge, µs | p50, µs | p99, µs |\n|---|---|---|---|---|")
    for case, rows in found.items():
        medians = [statistics.median(column) for column in zip(*rows)]
        print(f"| {case} | " + " | ".join(f"{each:.0f}" if each == each else "" for each in medians) + " |")


if __name__ == "__main__":
    main()
