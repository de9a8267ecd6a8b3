"""A disk that stands still or is full, and a wall clock that is changed (faults.c)."""

import struct
import subprocess
import tempfile
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import paho.mqtt.client as paho

from gateway import Client, Gateway, SANITIZED, connect_packet, let_pass, subscribe_packet, wait_until
from mosquitto import leave_a_session, received
from stored_client import judge_trouble


class Faults:
    """What faults.c reads."""

    def __init__(self, folder):
        self.library, self.file = folder / "faults.so", folder / "faults"
        source = Path(__file__).with_name("faults.c")
        subprocess.run(["c++", "-xc", "-shared", "-fPIC", "-o", str(self.library), str(source)], check=True)
        self.set()

    def set(self, stands_still=False, is_full=False, clock_ahead=0):
        with open(self.file, "r+b" if self.file.exists() else "wb", buffering=0) as file:
            file.write(struct.pack("=qqq", stands_still, is_full, clock_ahead))

    def prefix(self):
        return ["env", f"LD_PRELOAD={self.library}", f"FAULTS={self.file}"]


class Publisher:
    """Publishes at QoS 1 and notes what is acknowledged, and with which reason code."""

    def __init__(self, port, keepalive=60):
        self.client = paho.Client("publisher", protocol=paho.MQTTv5)
        self.client.connect("127.0.0.1", port, keepalive=keepalive)
        self.client.loop_start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.disconnect()
        self.client.loop_stop()

    def publish(self, topic, payload):
        return self.client.publish(topic, payload, 1)


@unittest.skipIf(SANITIZED, "a sanitizer must be loaded first")
class DiskTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pulsegate-disk-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.faults = Faults(self.folder)

    def start(self, *arguments):
        return Gateway("--shards", "2", "--data", self.folder / "data", *arguments, prefix=self.faults.prefix())

    def leave_a_session(self, gateway):
        leave_a_session(gateway, "-q", "1", "-i", "away", "-t", "chat/away")

    def received(self, gateway):
        lines = received(gateway, "-c", "-q", "1", "-i", "away", "-t", "chat/away")
        return [line.removeprefix("chat/away ") for line in lines]

    def test_a_disk_that_stands_still_holds_up_only_clients_that_wait_for_it(self):
        with self.start("--idle-timeout", "12s", "--strict-idle-timeout") as gateway:
            self.leave_a_session(gateway)
            idle = [gateway.connect(f"idle-{i}") for i in range(20)]
            reader = gateway.connect("reader")
            reader.subscribe("chat/reader")
            with Publisher(gateway.port, keepalive=8) as publisher:
                publisher.publish("chat/away", "before").wait_for_publish(60)
                self.faults.set(stands_still=True)
                waiting = publisher.publish("chat/away", "meanwhile")
                for i in range(18):  # one that waits for the disk would wait until the end of this
                    for client in idle:
                        client.ping()
                    reader.publish("chat/reader", b"%d" % i)
                    self.assertEqual(reader.receive_publish(), ("chat/reader", b"%d" % i))
                    let_pass(0.8)  # longer than idle-timeout in all
                self.assertFalse(waiting.is_published())
                self.assertEqual(gateway.get_json("/readyz")[0], 200)
                self.faults.set()
                waiting.wait_for_publish(60)
                self.assertTrue(waiting.is_published())
            self.assertEqual(gateway.metric("pulsegate_expiries_total"), 0)
            self.assertEqual(self.received(gateway), ["before", "meanwhile"])

    def test_a_disk_that_stands_still_holds_up_no_request_of_the_api_for_ever(self):
        message = {"inbox": "bob", "payload": "hello"}
        requests = (("PUT", "/api/v1/bans?user=eve"), ("POST", "/api/v1/users/bob/revoke"), ("DELETE", "/api/v1/users/bob"),
                    ("PUT", "/api/v1/rooms/tea/members/bob"), ("POST", "/api/v1/publish", message),
                    ("POST", "/api/v1/delayed", {**message, "in": 3600}), ("DELETE", "/api/v1/delayed?user=eve"),
                    ("GET", "/api/v1/delayed"), ("GET", "/api/v1/webhooks/dead"), ("DELETE", "/api/v1/webhooks/dead?all=true"))
        options = ("--webhook", "http://127.0.0.1:1/", "--presence-feed", "on")
        with self.start(*options) as gateway, ThreadPoolExecutor(len(requests) + 1) as threads:
            changes = "/api/v1/presence/changes?after=" + gateway.get_json("/api/v1/presence/changes")[1]["cursor"]
            gateway.connect("ann")
            wait_until(lambda: gateway.get_json(changes)[1]["changes"])
            requests += (("GET", changes),)
            self.faults.set(stands_still=True)
            try:
                # Then the store's thread waits for the disk.
                self.assertEqual(gateway.ask("PUT", "/api/v1/bans?user=mallory")[0], 503)
                answers = list(threads.map(lambda request: gateway.ask(*request), requests))
            finally:
                self.faults.set()
            for request, (status, said) in zip(requests, answers, strict=True):
                with self.subTest(request):
                    self.assertEqual(status, 503, said)
                    self.assertEqual(said["code"], "not_stored")

    def wait_for_the_store(self, gateway, client):
        """Logs in anew where a session was stored, while the disk stands still: its CONNACK waits."""
        Client(gateway.port).login(client, clean=False).disconnect()
        wait_until(lambda: gateway.metric("pulsegate_sessions_disconnected") == 1)
        self.faults.set(stands_still=True)
        waiting = Client(gateway.port)
        waiting.send(connect_packet(client) + subscribe_packet("chat/behind"))
        wait_until(lambda: gateway.metric("pulsegate_logins_total") == 2)
        return waiting

    def test_a_login_that_waits_for_the_store_goes_on_when_the_store_works(self):
        with self.start() as gateway, self.wait_for_the_store(gateway, "returns") as waiting:
            self.faults.set()
            self.assertEqual(waiting.receive(), (0x20, b"\0\0"))
            self.assertEqual(waiting.receive()[0], 0x90)

    def test_a_login_waits_for_the_store_no_longer_than_the_login_timeout(self):
        with self.start("--login-timeout", "5s") as gateway, self.wait_for_the_store(gateway, "returns") as waiting:
            self.assertEqual(waiting.receive_until_closed(), [])
            gateway.wait_for_log("its CONNECT was not answered within the login timeout")
            self.faults.set()
            Client(gateway.port).login("returns").close()

    def test_a_full_disk_refuses_and_loses_nothing_that_was_acknowledged(self):
        with self.start() as gateway:
            self.leave_a_session(gateway)
            with Publisher(gateway.port) as publisher:
                publisher.publish("chat/away", "before").wait_for_publish(60)
                self.faults.set(is_full=True)
                publisher.publish("chat/away", "meanwhile")
                wait_until(lambda: gateway.get_json("/readyz")[0] == 503, timeout=60, what="trouble")
                self.assertGreater(gateway.metric("pulsegate_store_refuses"), 0)
                self.assertEqual(gateway.get_json("/healthz")[0], 200)
                self.faults.set()
                wait_until(lambda: gateway.get_json("/readyz")[0] == 200, timeout=60, what="a disk that takes data")
                publisher.publish("chat/away", "after").wait_for_publish(60)
            gateway.kill()
        with self.start() as gateway:
            self.assertEqual([each for each in self.received(gateway) if each != "meanwhile"], ["before", "after"])

    def test_a_full_disk_disconnects_nobody_for_a_stored_session(self):
        with self.start() as gateway:
            judge_trouble(self, gateway.port, lambda: self.faults.set(is_full=True), self.faults.set)

    def test_no_shard_lets_a_session_in_that_a_full_disk_could_not_store(self):
        with self.start() as gateway:
            self.faults.set(is_full=True)
            with Publisher(gateway.port) as publisher:  # its shard finds out, and no other
                publisher.client.publish("chat/retained", "meanwhile", 1, retain=True)
                wait_until(lambda: gateway.get_json("/readyz")[0] == 503, timeout=60, what="trouble")
            for i in range(8):
                with Client(gateway.port, timeout=60) as client:
                    client.send(connect_packet(f"phone-{i}", clean=False))
                    self.assertEqual(client.receive_until_closed(), [(0x20, b"\x00\x03")])
            self.faults.set()
            wait_until(lambda: gateway.get_json("/readyz")[0] == 200, timeout=60, what="a disk that takes data")

    def test_a_client_that_a_full_disk_disconnects_is_not_banned_for_coming_back(self):
        with self.start("--ban-flaps", "2") as gateway:
            self.leave_a_session(gateway)
            self.faults.set(is_full=True)
            for _ in range(4):
                with Client(gateway.port, timeout=60).login("patient") as client:
                    client.publish("chat/away", b"hello", qos=1, packet_id=1)
                    self.assertEqual(client.receive_until_closed(), [])  # 3.1.1 knows no refusal
            self.faults.set()
            wait_until(lambda: gateway.get_json("/readyz")[0] == 200, timeout=60, what="a disk that takes data")
            with Client(gateway.port).login("patient") as client:
                client.ping()

    def test_a_wall_clock_that_is_changed_makes_nothing_early_and_nothing_go_back(self):
        with self.start() as gateway:
            self.leave_a_session(gateway)
            reader = gateway.connect("reader")
            reader.subscribe("chat/reader")
            with Publisher(gateway.port) as publisher:
                publisher.publish("chat/away", "one").wait_for_publish(60)
                began = time.monotonic()
                publisher.publish("$delayed/3/chat/reader", "later").wait_for_publish(60)
                self.faults.set(clock_ahead=24 * 3600)
                self.assertEqual(reader.receive_publish(), ("chat/reader", b"later"))
                self.assertGreaterEqual(time.monotonic() - began, 2.99)
                publisher.publish("chat/away", "two").wait_for_publish(60)
            version = gateway.get_json("/api/v1/users/away")[1]["version"]
        self.faults.set(clock_ahead=-3600)
        with self.start() as gateway:
            with Publisher(gateway.port) as publisher:
                publisher.publish("chat/away", "three").wait_for_publish(60)
            self.assertEqual(self.received(gateway), ["one", "two", "three"])
            wait_until(lambda: gateway.get_json("/api/v1/users/away")[1]["state"] == "offline")
            self.assertGreater(gateway.get_json("/api/v1/users/away")[1]["version"], version)

    def test_a_clock_that_is_set_back_keeps_nobody_from_being_disconnected(self):
        with self.start() as gateway:
            for number, (method, target) in enumerate((("POST", "/api/v1/users/eve0/revoke"), ("PUT", "/api/v1/bans?user=eve1"),
                                                       ("DELETE", "/api/v1/clients?user=eve2"))):
                with self.subTest(target):
                    self.faults.set(clock_ahead=3600)
                    user = f"eve{number}"
                    with gateway.connect("phone", username=user, version=5) as eve:
                        self.faults.set()
                        status, said = gateway.ask(method, target)
                        self.assertEqual((status, said["disconnected"]), (200, 1))
                        first, body = eve.receive()
                        self.assertEqual((first, body[0]), (0xE0, 0x98))

    def test_a_wall_clock_that_is_set_ahead_ends_no_stored_ban(self):
        with self.start() as gateway:
            self.assertEqual(gateway.ask("PUT", "/api/v1/bans?user=first&seconds=3600")[0], 200)
            self.faults.set(clock_ahead=24 * 3600)
            self.assertEqual(gateway.ask("PUT", "/api/v1/bans?user=second")[0], 200)
        self.faults.set()
        with self.start() as gateway:
            self.assertEqual({ban["user"] for ban in gateway.ask("GET", "/api/v1/bans")[1]["bans"]}, {"first", "second"})

    def test_a_clock_that_cannot_be_right_ends_the_start_and_leaves_the_order_alone(self):
        year = 365 * 24 * 3600
        with self.start() as gateway:
            self.leave_a_session(gateway)
            with Publisher(gateway.port) as publisher:
                publisher.publish("chat/away", "one").wait_for_publish(60)
        for wrong in (-60 * year, -30 * year, 200 * year, 300 * year):
            self.faults.set(clock_ahead=wrong)
            done = subprocess.run(gateway.command, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, r"\Apulsegate: the system's clock can't be right: it says \d{4}-\S+Z; set it.*\n\Z")
        self.faults.set()
        with self.start() as gateway:
            with Publisher(gateway.port) as publisher:
                publisher.publish("chat/away", "two").wait_for_publish(60)
                for i, wrong in enumerate((-60 * year, 300 * year, 0)):  # while it runs
                    self.faults.set(clock_ahead=wrong)
                    publisher.publish("chat/away", f"wrong {i}").wait_for_publish(60)
        with self.start() as gateway:
            gateway.wait_for_log("the clock was ahead before, at 2200-01-01")
            with Publisher(gateway.port) as publisher:
                publisher.publish("chat/away", "three").wait_for_publish(60)
            self.assertEqual(self.received(gateway),
                             ["one", "two", "wrong 0", "wrong 1", "wrong 2", "three"])
            version = gateway.get_json("/api/v1/users/away")[1]["version"]
            self.assertLess(version, 2 ** 43)


if __name__ == "__main__":
    unittest.main()
