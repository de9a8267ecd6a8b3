"""What outlives the process with --data, by common clients. kill_test kills the gateway under load."""

import contextlib
import json
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request
from pathlib import Path

import paho.mqtt.client as paho

from gateway import Client, Gateway, binary, packet, subscribe_packet, wait_until
from mosquitto import first_line, leave_a_session, publish, received
from packets import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL


class RestartTest(unittest.TestCase):
    """A gateway that is stopped in order, or killed, and started again."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name) / "data"

    def start(self, *arguments):
        return Gateway("--shards", "2", "--data", self.folder, *arguments)

    @contextlib.contextmanager
    def killed(self):
        """Ends with kill -9."""
        gateway = self.start().start()
        try:
            yield gateway
        finally:
            gateway.kill()
            gateway.folder.cleanup()

    def test_sessions_and_retained_messages_and_presence_are_there_again(self):
        bob = ["-i", "bob", "-c", "-q", "2", "-t", "chat/#", "-t", "$share/workers/jobs"]
        with self.start() as gateway:
            leave_a_session(gateway, *bob)
            publish(gateway, "-q", "1", "-t", "chat/a", "-m", "one")
            publish(gateway, "-q", "2", "-t", "chat/a", "-m", "two")
            publish(gateway, "-q", "1", "-t", "inbox/bob", "-m", "three")
            publish(gateway, "-q", "1", "-t", "jobs", "-m", "four")
            publish(gateway, "-q", "1", "-r", "-t", "kept", "-m", "five")
            publish(gateway, "-q", "1", "-r", "-t", "deleted", "-m", "six")
            publish(gateway, "-q", "1", "-r", "-t", "deleted", "-n")
            version = gateway.get_json("/api/v1/users/bob")[1]["version"]
        with self.killed() as gateway:
            self.assertEqual(gateway.get_json("/api/v1/users/bob")[1]["version"], version)
            self.assertEqual(sorted(received(gateway, *bob)),
                             ["chat/a one", "chat/a two", "inbox/bob three", "jobs four"])
            self.assertEqual(received(gateway, "-t", "#", least=1), ["kept five"])
        with self.start() as gateway:
            self.assertEqual(received(gateway, *bob), [])
            # A user that was online at the kill is offline, with a later version.
            wait_until(lambda: gateway.get_json("/api/v1/users/bob")[1]["state"] == "offline")
            publish(gateway, "-q", "1", "-t", "chat/a", "-m", "seven")
        with self.start() as gateway:
            # A clean start ends what was kept.
            self.assertEqual(received(gateway, "-i", "bob", "-t", "nothing"), [])
        with self.start() as gateway:
            self.assertEqual(received(gateway, *bob), [])

    def test_the_senders_of_stored_messages_are_known_after_a_restart(self):
        limits = ["--max-retained-messages-per-user", "2", "--max-queued-messages", "10"]
        with self.start(*limits) as gateway:
            for user in ("ann", "mallory"):
                publish(gateway, "-u", user, "-q", "1", "-r", "-t", f"{user}/1", "-m", "kept")
            leave_a_session(gateway, "-u", "bob", "-i", "bob", "-q", "1", "-t", "chat")
            for _ in range(4):
                publish(gateway, "-u", "ann", "-q", "1", "-t", "chat", "-m", "from ann")
        with self.start(*limits) as gateway:
            for i in range(20):
                publish(gateway, "-u", "mallory", "-q", "1", "-t", "chat", "-m", "flood")
                publish(gateway, "-u", "mallory", "-q", "1", "-r", "-t", f"mallory/{2 + i}", "-m", "kept")
            found = received(gateway, "-u", "bob", "-i", "bob", "-c", "-q", "1", "-t", "chat")
            self.assertEqual(found, 4 * ["chat from ann"] + 6 * ["chat flood"])
            self.assertEqual(sorted(received(gateway, "-t", "#", least=3)), ["ann/1 kept", "mallory/1 kept", "mallory/2 kept"])
            address = f"http://127.0.0.1:{gateway.http_port}/api/v1/retained?user=mallory"
            with urllib.request.urlopen(urllib.request.Request(address, method="DELETE"), timeout=60) as response:
                self.assertEqual(json.load(response), {"deleted": 2})
        with self.start() as gateway:
            self.assertEqual(received(gateway, "-t", "#", least=1), ["ann/1 kept"])

    def test_an_inbox_waits_for_the_first_device_of_its_user(self):
        sent = [("1", "one"), ("1", "two"), ("2", "three")]
        with self.killed() as gateway:
            for qos, payload in sent:
                publish(gateway, "-q", qos, "-t", "inbox/newcomer", "-m", payload)
        with self.killed() as gateway:
            # What is not acknowledged goes back.
            with Client(gateway.port) as device:
                device.login("phone", username="newcomer")
                self.assertEqual(device.receive()[1][-3:], b"one")
        with self.start() as gateway:
            newcomer = ["-u", "newcomer", "-i", "phone", "-q", "2", "-t", "nothing"]
            self.assertEqual(received(gateway, *newcomer), [f"inbox/newcomer {payload}" for _, payload in sent])
            self.assertEqual(received(gateway, *newcomer), [])

    def take(self, gateway, count):
        """Topic and payload of bob's next messages, completely acknowledged; further ones are not acknowledged."""
        taken, unreleased = [], set()
        with Client(gateway.port) as bob:
            bob.login("bob", clean=False)
            while len(taken) < count or unreleased:
                first, body = bob.receive()
                if first >> 4 == PUBREL:
                    unreleased.remove(body)
                    bob.send(packet(PUBCOMP << 4, body))
                elif first >> 4 == PUBLISH and len(taken) < count:
                    size = int.from_bytes(body[:2], "big")
                    topic, packet_id, payload = body[2:2 + size], body[2 + size:4 + size], body[4 + size:]
                    taken.append(f"{topic.decode()} {payload.decode()}")
                    is_qos_2 = first & 0x06 == 0x04
                    bob.send(packet((PUBREC if is_qos_2 else PUBACK) << 4, packet_id))
                    unreleased |= {packet_id} if is_qos_2 else set()
        return taken

    def test_what_waits_is_left_on_disk_and_read_in_order(self):
        payloads = [f"{i} {'.' * 2000}" for i in range(600)]
        bob = ["-i", "bob", "-c", "-q", "2", "-t", "chat/#"]
        with self.start("--queue-memory", "0") as gateway:
            leave_a_session(gateway, *bob)
            publisher = paho.Client("ann")
            publisher.max_inflight_messages_set(100)
            publisher.connect("127.0.0.1", gateway.port)
            publisher.loop_start()
            sent = [publisher.publish("chat/bob" if i % 3 else "inbox/newcomer", payload, 1 + i % 2)
                    for i, payload in enumerate(payloads)]
            for message in sent:
                message.wait_for_publish(60)
            publisher.disconnect()
            publisher.loop_stop()
            # Some are acknowledged, and the rest waits again.
            told = self.take(gateway, 50)
            wait_until(lambda: gateway.get_json("/api/v1/users/bob")[1]["state"] == "offline")
        with self.start("--queue-memory", "0") as gateway:
            told += received(gateway, *bob)
            newcomer = ["-u", "newcomer", "-i", "phone", "-q", "2", "-t", "nothing"]
            told += received(gateway, *newcomer)
            for topic, remainders in (("chat/bob", (1, 2)), ("inbox/newcomer", (0,))):
                for qos in (1, 2):  # each has its own order
                    expected = [f"{topic} {payload}" for i, payload in enumerate(payloads)
                                if i % 3 in remainders and 1 + i % 2 == qos]
                    found = [line for line in told if line in set(expected)]
                    self.assertEqual(list(dict.fromkeys(found)), expected)
                    if qos == 2:
                        self.assertEqual(len(found), len(expected))
            self.assertEqual(gateway.metric("pulsegate_messages_dropped_total", reason="damaged"), 0)

    def test_a_user_with_too_many_waiting_messages_loses_them_before_the_disk_is_full(self):
        limits = ["--max-data-bytes", "16MiB", "--max-queued-bytes", "64MiB", "--max-byte-rate", "0"]
        with self.start(*limits) as gateway:
            for user in ("bob", "mallory"):
                leave_a_session(gateway, "-u", user, "-i", user, "-q", "1", "-t", f"chat/{user}")
            publish(gateway, "-q", "1", "-t", "chat/bob", "-m", "hello")
            publisher = paho.Client("flood")
            publisher.max_inflight_messages_set(1000)
            publisher.connect("127.0.0.1", gateway.port)
            publisher.loop_start()
            sent = [publisher.publish("chat/mallory", "." * 50_000, 1) for _ in range(500)]
            for message in sent:
                message.wait_for_publish(60)
            publisher.disconnect()
            publisher.loop_stop()
            gateway.wait_for_log("of user 'mallory': session ended: max-data-bytes is exceeded")
            wait_until(lambda: gateway.metric("pulsegate_store_bytes") < 1_000_000, what="room in the store")
            wait_until(lambda: (self.folder / "pulsegate.db").stat().st_size < 12_000_000, what="a smaller file")
            self.assertEqual(received(gateway, "-u", "bob", "-i", "bob", "-c", "-q", "1", "-t", "chat/bob"),
                             ["chat/bob hello"])

    def test_a_user_that_was_online_at_a_kill_is_offline_after_the_limit(self):
        with self.killed() as gateway:
            gateway.connect("ann", keepalive=4)
            before = gateway.get_json("/api/v1/users/ann")[1]
            gateway.await_store()
        started = time.monotonic()
        with self.start() as gateway:
            shown = gateway.get_json("/api/v1/users/ann")[1]
            self.assertEqual((shown["state"], shown["cause"], shown["devices"]), ("online", "login", []))
            self.assertEqual(shown["since"], before["since"])
            self.assertGreaterEqual(shown["version"], before["version"])
            after = wait_until(lambda: next((user for user in [gateway.get_json("/api/v1/users/ann")[1]]
                                             if user["state"] == "offline"), None), what="ann offline")
            self.assertGreaterEqual(time.monotonic() - started, 6)
            self.assertEqual((after["state"], after["cause"]), ("offline", "node_lost"))
            self.assertGreater(after["version"], shown["version"])

    def test_retained_wills_come_once_with_the_next_start_after_a_stop_and_after_a_kill(self):
        for end in ("stop", "kill"):
            for qos in (0, 2):
                with self.subTest(end=end, qos=qos):
                    topic = f"{end}/{qos}"
                    gateway = self.start().start()
                    self.addCleanup(gateway.folder.cleanup)
                    leave_a_session(gateway, "-i", "watcher" + topic, "-q", "2", "-t", topic)
                    phone = paho.Client("phone" + topic, clean_session=False)
                    phone.will_set(topic, "offline", qos=qos, retain=True)
                    phone.connect("127.0.0.1", gateway.port, keepalive=2)
                    phone.loop_start()
                    phone.publish(topic, "online", 1, retain=True).wait_for_publish(60)
                    getattr(gateway, end)()
                    phone.loop_stop()
                    with self.start() as gateway:
                        wait_until(lambda: first_line(gateway, "-t", topic) == f"{topic} offline",
                                   what="the retained will")
                        expected = [f"{topic} online"] + [f"{topic} offline"] * (1 if qos == 0 else 2)
                        self.assertEqual(received(gateway, "-i", "watcher" + topic, "-c", "-q", "2", "-t", topic,
                                                  least=len(expected)), expected)

    def test_a_kill_leaves_no_user_online_that_was_announced_a_moment_before(self):
        def hear(watcher, *users):
            """What the watcher knows when it has heard of all these users."""
            known = {}
            while not known.keys() >= set(users):
                state = json.loads(watcher.receive_publish()[1])
                known[state["user"]] = state
            return known

        cursor = None
        for attempt in range(3):
            newcomer = f"newcomer-{attempt}"
            with self.killed() as gateway:
                watcher = gateway.connect("watcher", clean=False)
                watcher.send(subscribe_packet("presence/ann", f"presence/{newcomer}", qos=1))
                if cursor is None:
                    cursor = gateway.get_json("/api/v1/presence/changes")[1]["cursor"]
                    gateway.connect("ann").disconnect()
                    while hear(watcher, "ann")["ann"]["state"] != "offline":
                        pass
                    gateway.await_store()  # ann is known, and offline
                gateway.connect("ann", keepalive=4)
                gateway.connect(newcomer, keepalive=4)
                told = hear(watcher, newcomer)
                while told.get("ann", {}).get("state") != "online":
                    told |= hear(watcher, "ann")
                shown = gateway.get_json("/api/v1/users/ann")[1]
                self.assertEqual(shown["version"], told["ann"]["version"])
            with self.start() as gateway:
                watcher = gateway.connect("watcher", clean=False)
                after = hear(watcher, "ann", newcomer)
                for user in ("ann", newcomer):
                    while after[user]["state"] != "offline":
                        after |= hear(watcher, user)
                gateway.await_store()
                changes = gateway.get_json(f"/api/v1/presence/changes?after={cursor}&limit=1000")[1]["changes"]
                for user in ("ann", newcomer):
                    self.assertEqual(after[user]["state"], "offline")
                    self.assertGreater(after[user]["version"], told[user]["version"])
                    self.assertEqual(gateway.get_json(f"/api/v1/users/{user}")[1]["version"], after[user]["version"])
                    of_user = [change for change in changes if change["user"] == user]
                    self.assertEqual(of_user[-1]["state"], "offline")
                    versions = [change["version"] for change in of_user]
                    self.assertEqual(versions, sorted(versions))
                    self.assertLessEqual(versions[-1], after[user]["version"])

    def test_the_will_of_a_killed_gateways_client_is_published(self):
        with self.killed() as gateway:
            leave_a_session(gateway, "-i", "watcher", "-q", "1", "-t", "wills/#")
            dying = paho.Client("dying", clean_session=False)
            dying.will_set("wills/dying", "gone", qos=1)
            ready = threading.Event()
            dying.on_subscribe = lambda *_: ready.set()
            dying.connect("127.0.0.1", gateway.port, keepalive=2)
            dying.loop_start()
            dying.subscribe("something", 1)
            self.assertTrue(ready.wait(60))
        dying.loop_stop()
        with self.start() as gateway:
            self.assertEqual(first_line(gateway, "-i", "watcher", "-c", "-q", "1", "-t", "wills/#"), "wills/dying gone")

    def test_a_second_server_on_the_folder_is_refused(self):
        with self.start() as gateway:
            self.assertEqual(gateway.get_json("/readyz")[1]["status"], "ready")
            second = subprocess.run([str(binary()), "--listen", "mqtt://127.0.0.1:0", "--listen",
                                     "http://127.0.0.1:0", "--data", str(self.folder)],
                                    capture_output=True, text=True, timeout=60)
            self.assertEqual(second.returncode, 1)
            self.assertIn(str(gateway.pid), second.stderr)
            self.assertEqual(len(second.stderr.splitlines()), 1)


if __name__ == "__main__":
    unittest.main()
