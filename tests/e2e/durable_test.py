"""What outlives the process with --data: kill -9 and restarts under people's clients."""

import collections
import contextlib
import random
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

import paho.mqtt.client as paho

from gateway import SANITIZED, Gateway, binary, wait_until

KILLS = 3 if SANITIZED else 8
RECEIVERS = 6
WINDOW = 20


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Client(paho.Client):
    """Paho, but a PUBREL that is to be sent again stays one if the next connection fails as well:
    Paho would send the PUBLISH instead, which is another message then."""

    def _messages_reconnect_reset_out(self):
        released = [message for message in self._out_messages.values()
                    if message.state == paho.mqtt_ms_resend_pubrel]
        super()._messages_reconnect_reset_out()
        for message in released:
            message.state = paho.mqtt_ms_resend_pubrel


class Publisher:
    """Publishes numbered messages, and remembers which were acknowledged."""

    def __init__(self, number, port):
        self.number, self.next = number, 0
        self.lock = threading.Lock()
        self.waiting, self.early, self.acknowledged = {}, set(), set()
        self.connected_at = None
        self.client = Client(f"publisher {number}", clean_session=False)
        self.client.on_publish = self.on_publish
        self.client.on_connect = lambda *_: setattr(self, "connected_at", time.monotonic())
        self.client.on_disconnect = lambda *_: setattr(self, "connected_at", None)
        self.client.reconnect_delay_set(min_delay=0.05, max_delay=0.2)
        self.client.max_inflight_messages_set(WINDOW)
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()

    def on_publish(self, _client, _data, packet_id):
        with self.lock:
            message = self.waiting.pop(packet_id, None)
            if message:
                self.acknowledged.add(message)
            else:
                self.early.add(packet_id)

    @property
    def may_publish(self):
        # Paho sends what is new before what it repeats, right after a CONNACK.
        since = self.connected_at
        return since and time.monotonic() > since + 0.1 and len(self.waiting) < WINDOW

    def publish(self):
        self.next += 1
        receiver, qos = random.randrange(RECEIVERS), random.choice((1, 2))
        message = (receiver, qos, self.number, self.next)
        packet_id = self.client.publish(f"to/{receiver}/{qos}", f"{self.number} {self.next}", qos).mid
        with self.lock:
            if packet_id in self.early:
                self.early.remove(packet_id)
                self.acknowledged.add(message)
            else:
                self.waiting[packet_id] = message


class Receiver:
    """Has a session, and is mostly there, away, slow, or comes and goes."""

    def __init__(self, number, port):
        self.number, self.kind = number, ("online", "away", "flapping", "slow")[number % 4]
        self.got = []
        self.online = False
        self.client = paho.Client(f"receiver {number}", clean_session=False)
        self.client.on_message = self.on_message
        self.client.reconnect_delay_set(min_delay=0.05, max_delay=0.2)
        subscribed = threading.Event()
        self.client.on_subscribe = lambda *_: subscribed.set()
        self.client.connect("127.0.0.1", port)
        self.client.subscribe(f"to/{number}/#", 2)
        self.client.loop_start()
        assert subscribed.wait(10)
        self.online = True
        if self.kind != "online":
            self.leave()

    def on_message(self, _client, _data, message):
        if self.kind == "slow":
            time.sleep(0.02)
        publisher, number = message.payload.split()
        self.got.append((self.number, int(message.topic[-1]), int(publisher), int(number)))

    def leave(self):
        if self.online:
            self.client.disconnect()
            self.client.loop_stop()
            self.online = False

    def come_back(self):
        if self.online:
            return
        self.online = True
        try:
            self.client.reconnect()
        except OSError:
            pass  # loop_start tries again
        self.client.loop_start()


class KilledTest(unittest.TestCase):
    def test_nothing_acknowledged_is_lost_and_qos_2_comes_once_and_in_order(self):
        random.seed(11)
        port = free_port()
        with tempfile.TemporaryDirectory() as folder:
            listening = ["--listen", f"mqtt://127.0.0.1:{port}", "--listen", "http://127.0.0.1:0",
                         "--shards", "2", "--data", folder]
            gateway = Gateway(*listening, listen=False).start()
            try:
                self.torture(port, gateway, listening)
            finally:
                gateway = self.last
                gateway.stop()

    def torture(self, port, gateway, listening):
        self.last = gateway
        receivers = [Receiver(number, port) for number in range(RECEIVERS)]
        publishers = [Publisher(number, port) for number in range(3)]
        ended = threading.Event()

        def publish():
            while not ended.wait(0.002):
                for publisher in publishers:
                    if publisher.may_publish:
                        publisher.publish()

        def flap():
            while not ended.wait(0.3):
                for receiver in receivers:
                    if receiver.kind == "flapping":
                        receiver.leave() if receiver.online else receiver.come_back()

        threads = [threading.Thread(target=work) for work in (publish, flap)]
        for thread in threads:
            thread.start()
        try:
            for kill in range(KILLS):
                time.sleep(random.uniform(0.3, 1.2))
                if kill % 4 == 3:
                    self.last.stop()
                else:
                    self.last.kill()
                self.last = Gateway(*listening, listen=False).start()
            time.sleep(0.3)
        finally:
            ended.set()
            for thread in threads:
                thread.join()
        wait_until(lambda: not any(publisher.waiting for publisher in publishers), timeout=30,
                   what="an answer to each message")
        acknowledged = set().union(*(publisher.acknowledged for publisher in publishers))
        for receiver in receivers:
            receiver.come_back()
        def missing():
            return acknowledged - {each for receiver in receivers for each in receiver.got}

        try:
            wait_until(lambda: not missing(), timeout=30, what="every acknowledged message")
        except AssertionError:
            self.fail(f"{len(missing())} of {len(acknowledged)} lost: {sorted(missing())[:20]}")
        time.sleep(0.3)  # for what should not come
        for client in (*receivers, *publishers):
            client.client.disconnect()
            client.client.loop_stop()

        self.assertGreater(len(acknowledged), 50 * KILLS)
        for receiver in receivers:
            self.check(receiver.got)

    def check(self, got):
        repeated = [each for each, times in collections.Counter(got).items() if times > 1 and each[1] == 2]
        self.assertEqual(repeated, [])
        latest = {}
        for _receiver, qos, publisher, number in dict.fromkeys(got):  # first deliveries
            before = latest.get((qos, publisher), 0)
            self.assertGreater(number, before, "out of order")
            latest[qos, publisher] = number


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

    def publish(self, gateway, *arguments):
        subprocess.run(["mosquitto_pub", "-p", str(gateway.port), *arguments], check=True, timeout=10)

    def subscribe(self, gateway, *arguments):
        done = subprocess.run(["mosquitto_sub", "-p", str(gateway.port), "-W", "1", "-v", *arguments],
                              capture_output=True, text=True, timeout=20)
        return done.stdout.splitlines()

    def test_sessions_and_retained_messages_and_presence_are_there_again(self):
        bob = ["-i", "bob", "-c", "-q", "2", "-t", "chat/#", "-t", "$share/workers/jobs"]
        with self.start() as gateway:
            self.assertEqual(self.subscribe(gateway, *bob), [])
            self.publish(gateway, "-q", "1", "-t", "chat/a", "-m", "one")
            self.publish(gateway, "-q", "2", "-t", "chat/a", "-m", "two")
            self.publish(gateway, "-q", "1", "-t", "inbox/bob", "-m", "three")
            self.publish(gateway, "-q", "1", "-t", "jobs", "-m", "four")
            self.publish(gateway, "-q", "1", "-r", "-t", "kept", "-m", "five")
            self.publish(gateway, "-q", "1", "-r", "-t", "deleted", "-m", "six")
            self.publish(gateway, "-q", "1", "-r", "-t", "deleted", "-n")
            version = gateway.get_json("/api/v1/users/bob")[1]["version"]
        with self.killed() as gateway:
            self.assertEqual(gateway.get_json("/api/v1/users/bob")[1]["version"], version)
            self.assertEqual(sorted(self.subscribe(gateway, *bob)),
                             ["chat/a one", "chat/a two", "inbox/bob three", "jobs four"])
            self.assertEqual(self.subscribe(gateway, "-t", "#"), ["kept five"])
        with self.start() as gateway:
            self.assertEqual(self.subscribe(gateway, *bob), [])
            # Whoever was online when the gateway was killed is offline, with a later version.
            self.assertEqual(gateway.get_json("/api/v1/users/bob")[1]["state"], "offline")
            self.publish(gateway, "-q", "1", "-t", "chat/a", "-m", "seven")
        with self.start() as gateway:
            # A clean start ends what was kept.
            self.assertEqual(self.subscribe(gateway, "-i", "bob", "-t", "nothing"), [])
        with self.start() as gateway:
            self.assertEqual(self.subscribe(gateway, *bob), [])

    def test_who_was_online_when_the_gateway_was_killed_is_offline(self):
        with self.killed() as gateway:
            gateway.connect("ann")
            before = wait_until(lambda: gateway.get_json("/api/v1/users/ann")[1])
            time.sleep(1.5)  # what presence says may take a second to the disk
        with self.start() as gateway:
            after = gateway.get_json("/api/v1/users/ann")[1]
            self.assertEqual((after["state"], after["cause"]), ("offline", "shutdown"))
            self.assertGreater(after["version"], before["version"])

    def test_the_will_of_a_killed_gateways_client_is_published(self):
        with self.killed() as gateway:
            self.subscribe(gateway, "-i", "watcher", "-c", "-q", "1", "-t", "wills/#")
            dying = paho.Client("dying", clean_session=False)
            dying.will_set("wills/dying", "gone", qos=1)
            ready = threading.Event()
            dying.on_subscribe = lambda *_: ready.set()
            dying.connect("127.0.0.1", gateway.port)
            dying.loop_start()
            dying.subscribe("something", 1)
            self.assertTrue(ready.wait(10))
        dying.loop_stop()
        with self.start() as gateway:
            wait_until(lambda: self.subscribe(gateway, "-i", "watcher", "-c", "-q", "1", "-t", "wills/#")
                       == ["wills/dying gone"], what="the will")

    def test_a_second_server_on_the_folder_is_refused(self):
        with self.start() as gateway:
            self.assertEqual(gateway.get_json("/readyz")[1]["status"], "ready")
            second = subprocess.run([str(binary()), "--listen", "mqtt://127.0.0.1:0", "--listen",
                                     "http://127.0.0.1:0", "--data", str(self.folder)],
                                    capture_output=True, text=True, timeout=10)
            self.assertEqual(second.returncode, 1)
            self.assertIn(str(gateway.pid), second.stderr)
            self.assertEqual(len(second.stderr.splitlines()), 1)


if __name__ == "__main__":
    unittest.main()
