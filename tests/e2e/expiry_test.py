"""Who stays silent is closed in time, who talks is never closed, even if the gateway stood still."""

import random
import selectors
import signal
import socket
import time
import unittest

from gateway import PINGREQ, SANITIZED, Gateway, connect_packet

KEEPALIVE = 2  # of MQTT 3.1.1, so that
LIMIT = 3.0  # seconds of silence are allowed,
GRAIN = 1.1  # and the wheel is late by one tick at most
PAUSE = 4.5  # of the whole gateway


class Member:
    def __init__(self, name, talks):
        self.name, self.talks = name, talks
        self.socket = socket.socket()
        self.sent = self.answered = 0.0  # when the last packet went out, when its answer came
        self.next_ping = self.closed = None


class Crowd:
    """Raw clients in one loop; it notes how late the loop itself was, and when who was closed."""

    def __init__(self, port, talkers, silent):
        self.members = [Member(f"{'talker' if i < talkers else 'silent'}{i}", i < talkers)
                        for i in range(talkers + silent)]
        self.selector = selectors.DefaultSelector()
        self.lag = 0.0
        self.random = random.Random(2)
        for member in self.members:
            member.socket.connect(("127.0.0.1", port))
            member.sent = time.monotonic()
            member.socket.sendall(connect_packet(member.name, keepalive=KEEPALIVE))
            assert member.socket.recv(4) == bytes([0x20, 2, 0, 0])
            member.answered = time.monotonic()
            member.next_ping = member.sent + self.random.uniform(0.5, 1)
            member.socket.setblocking(False)
            self.selector.register(member.socket, selectors.EVENT_READ, member)

    def run(self, seconds):
        """Until `seconds` have passed; talkers ping about once a second, all closings are noted."""
        end = time.monotonic() + seconds
        before = time.monotonic()
        while (now := time.monotonic()) < end:
            self.lag = max(self.lag, now - before - 0.02)
            before = now
            for key, _ in self.selector.select(0.02):
                self.read(key.data)
            for member in self.members:
                if member.talks and member.closed is None and member.next_ping <= time.monotonic():
                    self.ping(member)

    def read(self, member):
        try:
            data = member.socket.recv(4096)
        except ConnectionError:
            data = b""
        now = time.monotonic()
        if data:
            member.answered = now
            return
        member.closed = now
        self.selector.unregister(member.socket)

    def ping(self, member):
        member.sent = time.monotonic()
        member.next_ping = member.sent + self.random.uniform(0.8, 1.2)
        try:
            member.socket.send(PINGREQ)
        except ConnectionError:
            pass  # the selector tells

    def close(self):
        self.selector.close()
        for member in self.members:
            member.socket.close()


class ExpiryTest(unittest.TestCase):
    def check(self, gateway, crowd, latest=0.0):
        """All silent ones were closed, not before their limit and in time (or by `latest`)."""
        for member in crowd.members:
            if member.talks:
                self.assertIsNone(member.closed, f"{member.name} talked and was closed")
                continue
            self.assertIsNotNone(member.closed, f"{member.name} was silent and lives")
            self.assertGreaterEqual(member.closed - member.sent, LIMIT, member.name)
            self.assertLessEqual(member.closed, max(member.answered + LIMIT, latest) + GRAIN + crowd.lag,
                                 f"{member.name}: {member.closed - member.sent:.3f} s after its CONNECT")
        silent = sum(not member.talks for member in crowd.members)
        self.assertEqual(gateway.metric("pulsegate_expiries_total"), silent)
        timeouts = [event for event in gateway.events() if event["cause"] == "timeout"]
        self.assertEqual(len(timeouts), silent)
        self.assertTrue(all(event["user"].startswith("silent") for event in timeouts))
        self.assertGreaterEqual(min(event["silent_ms"] for event in timeouts), LIMIT * 1000)
        self.assertLess(crowd.lag, 1, "this test itself was too slow to tell")

    def test_every_silent_client_is_closed_in_time_and_no_talking_one(self):
        with Gateway(events=True) as gateway:
            crowd = Crowd(gateway.port, 200, 200)
            self.addCleanup(crowd.close)
            crowd.run(8)
            self.check(gateway, crowd)

    def test_a_gateway_that_stood_still_closes_no_living_client(self):
        # One shard with more talkers than its loop takes events at a time (128): when it wakes up,
        # the tick comes before it has read what all of them have sent.
        with Gateway("--shards", "1", events=True) as gateway:
            crowd = Crowd(gateway.port, 600, 100)
            self.addCleanup(crowd.close)
            crowd.run(1.2)
            gateway.process.send_signal(signal.SIGSTOP)
            try:
                crowd.run(PAUSE)
            finally:
                gateway.process.send_signal(signal.SIGCONT)
            resumed = time.monotonic()
            crowd.run(5)
            self.check(gateway, crowd, latest=resumed)
            self.assertGreater(gateway.metric("pulsegate_expiry_false_alarms_total"), 0)
            lag = gateway.get("/metrics")[1]
            self.assertIn("pulsegate_loop_lag_seconds_count", lag)

    def test_any_packet_counts_as_life_and_none_is_none(self):
        with Gateway() as gateway:
            publisher = gateway.connect("publisher", keepalive=KEEPALIVE)
            subscriber = gateway.connect("subscriber", keepalive=KEEPALIVE)  # only receives
            subscriber.subscribe("t")
            started = time.monotonic()
            while time.monotonic() < started + LIMIT + GRAIN + 0.5:
                publisher.publish("t", b"x")  # QoS 0: nothing comes back
                time.sleep(0.5)
            publisher.ping()
            closed = subscriber.receive_until_closed()
            self.assertGreaterEqual(len(closed), 5)
            self.assertTrue(all(first == 0x30 for first, _ in closed))

    def test_a_client_of_version_5_is_told_0x8d(self):
        with Gateway() as gateway:
            client = gateway.connect("silent", version=5, keepalive=1)
            started = time.monotonic()
            first, body = client.receive()
            self.assertEqual((first, body[0]), (0xE0, 0x8D))
            self.assertGreaterEqual(time.monotonic() - started, 1.45)
            self.assertLess(time.monotonic() - started, 1.5 + GRAIN + (2 if SANITIZED else 0.3))
            self.assertIsNone(client.receive())


if __name__ == "__main__":
    unittest.main()
