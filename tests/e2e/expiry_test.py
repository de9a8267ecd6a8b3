"""Silent clients are closed in time, and talking clients never, even if the gateway stood still."""

import random
import selectors
import socket
import time
import unittest

from gateway import (DISCONNECT, PINGREQ, Gateway, connect_packet, let_pass, publish_packet, subscribe_packet,
                     wait_until)

KEEPALIVE = 2  # of MQTT 3.1.1, so that
LIMIT = 3.0  # seconds of silence are allowed,
GRAIN = 1.1  # and the wheel is late by one tick at most, and the loop's lag
PAUSE = 4.5  # of the whole gateway


class Member:
    def __init__(self, name, talks):
        self.name, self.talks = name, talks
        self.socket = socket.socket()
        self.sent = 0.0  # when the last packet went out
        self.next_ping = self.closed = None
        self.longest_pause = 0.0  # between two packets, for this test may be slow


class Crowd:
    """Raw clients in one loop, which notes when each client was closed."""

    def __init__(self, port, talkers, silent):
        self.members = [Member(f"{'talker' if i < talkers else 'silent'}{i}", i < talkers)
                        for i in range(talkers + silent)]
        self.selector = selectors.DefaultSelector()
        self.packet = PINGREQ  # talking clients send it
        self.random = random.Random(2)
        for member in self.members:
            member.socket.connect(("127.0.0.1", port))
            member.sent = time.monotonic()
            member.socket.sendall(connect_packet(member.name, keepalive=KEEPALIVE))
            assert member.socket.recv(4) == bytes([0x20, 2, 0, 0])
            member.next_ping = member.sent + self.random.uniform(0.5, 1)
            member.socket.setblocking(False)
            self.selector.register(member.socket, selectors.EVENT_READ, member)

    def run(self, seconds):
        """Until `seconds` have passed; talkers ping about once a second, all closings are noted."""
        end = time.monotonic() + seconds
        self.run_until(lambda: time.monotonic() >= end)

    def run_until(self, condition):
        while not condition():
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
        if data:
            return
        self.pause_ends(member)
        member.closed = time.monotonic()
        self.selector.unregister(member.socket)

    @staticmethod
    def pause_ends(member):
        member.longest_pause = max(member.longest_pause, time.monotonic() - member.sent)

    def say_goodbye(self):
        """Talking clients disconnect; from now on no client has to be in time."""
        for member in self.members:
            if member.talks and member.closed is None:
                self.pause_ends(member)
                try:
                    member.socket.send(DISCONNECT)
                except ConnectionError:
                    pass  # the gateway's events tell

    def all_silent_are_closed(self):
        return all(member.closed for member in self.members if not member.talks)

    def ping(self, member):
        self.pause_ends(member)
        member.sent = time.monotonic()
        member.next_ping = member.sent + self.random.uniform(0.8, 1.2)
        try:
            member.socket.send(self.packet)
        except ConnectionError:
            pass  # the selector tells

    def close(self):
        self.selector.close()
        for member in self.members:
            member.socket.close()


class ExpiryTest(unittest.TestCase):
    def check(self, gateway, crowd, latest=LIMIT, lag=None):
        """All silent ones were closed, not before their limit and in time (or after `latest` seconds of silence). A
        talking client may be closed if this test itself was too slow to have it talk in time."""
        crowd.run_until(crowd.all_silent_are_closed)
        crowd.say_goodbye()
        wait_until(lambda: gateway.metric("pulsegate_connections") == 0, what="everybody gone")
        wait_until(lambda: len(self.timeouts(gateway)) == gateway.metric("pulsegate_expiries_total"), what="their events")
        expected = {member.name for member in crowd.members if not member.talks}
        too_slow = {member.name for member in crowd.members if member.talks and member.longest_pause >= LIMIT}
        expired = {event["user"] for event in self.timeouts(gateway)}
        self.assertEqual(expired - too_slow, expected)
        for member in crowd.members:
            if member.closed:
                self.assertGreaterEqual(member.longest_pause, LIMIT, f"{member.name} was closed")
        silent = [event["silent_ms"] / 1000 for event in self.timeouts(gateway)]
        self.assertGreaterEqual(min(silent), LIMIT)
        if lag is None:
            lag = gateway.metric("pulsegate_loop_lag_seconds_sum")
        self.assertLessEqual(max(silent), latest + GRAIN + lag)

    @staticmethod
    def timeouts(gateway):
        return [event for event in gateway.events() if event["cause"] == "timeout"]

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
            came = min(member.sent for member in crowd.members if not member.talks)
            crowd.run(1.2)
            before = gateway.metric("pulsegate_loop_lag_seconds_sum")
            with gateway.standing_still():
                crowd.run(PAUSE)
                stood = time.monotonic() - came
            crowd.run(5)
            crowd.run_until(crowd.all_silent_are_closed)
            lag = gateway.metric("pulsegate_loop_lag_seconds_sum") - before
            self.assertGreaterEqual(lag, PAUSE - 1)  # the first tick noticed it
            self.check(gateway, crowd, latest=stood, lag=lag - (PAUSE - 1))
            self.assertGreater(gateway.metric("pulsegate_expiry_false_alarms_total"), 0)
            lag = gateway.get("/metrics")[1]
            self.assertIn("pulsegate_loop_lag_seconds_count", lag)

    def test_a_message_that_waits_for_the_work_of_others_is_life(self):
        # When the gateway wakes up, the first messages take all the work of a turn. The others are read and wait.
        with Gateway("--shards", "1", events=True) as gateway:
            crowd = Crowd(gateway.port, 200, 1)
            self.addCleanup(crowd.close)
            for member in crowd.members[:60]:
                member.socket.sendall(subscribe_packet("t"))
            crowd.run(1.2)
            with gateway.standing_still():
                crowd.packet = publish_packet("t", b"x")
                crowd.run(PAUSE)
            crowd.packet = PINGREQ
            crowd.run_until(crowd.all_silent_are_closed)
            crowd.run(1.2)
            too_slow = {member.name for member in crowd.members if member.longest_pause >= LIMIT}
            self.assertLessEqual({event["user"] for event in self.timeouts(gateway)}, too_slow)
            self.assertGreater(gateway.metric("pulsegate_expiry_false_alarms_total"), 0)

    def test_any_packet_counts_as_life_and_none_is_none(self):
        with Gateway() as gateway:
            publisher = gateway.connect("publisher", keepalive=KEEPALIVE)
            subscriber = gateway.connect("subscriber", keepalive=KEEPALIVE)  # only receives
            subscriber.subscribe("t")
            while gateway.metric("pulsegate_expiries_total") == 0:
                publisher.publish("t", b"x")  # QoS 0: nothing comes back
                let_pass(0.5)
            publisher.ping()
            closed = subscriber.receive_until_closed()
            self.assertGreaterEqual(len(closed), 2)
            self.assertTrue(all(first == 0x30 for first, _ in closed))

    def test_a_client_of_version_5_is_told_0x8d(self):
        with Gateway(events=True) as gateway:
            client = gateway.connect("silent", version=5, keepalive=1)
            first, body = client.receive()
            self.assertEqual((first, body[0]), (0xE0, 0x8D))
            silent = gateway.wait_for_event(user="silent", cause="timeout")["silent_ms"] / 1000
            self.assertGreaterEqual(silent, 1.5)
            self.assertLessEqual(silent, 1.5 + GRAIN + gateway.metric("pulsegate_loop_lag_seconds_sum"))
            self.assertIsNone(client.receive())


if __name__ == "__main__":
    unittest.main()
