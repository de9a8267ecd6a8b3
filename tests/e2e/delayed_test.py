"""Delayed messages of the real binary: by HTTP, by common clients, and over restarts."""

import base64
import collections
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

import paho.mqtt.client as paho

from gateway import Client, Gateway, wait_until

PATH = "/api/v1/delayed"


class Subscriber:
    """Receives everything, and when."""

    def __init__(self, gateway, session=None, qos=1, topic="#"):
        self.got = []
        self.client = paho.Client(session or "", clean_session=session is None)
        self.client.on_message = self.note
        subscribed = threading.Event()
        self.client.on_subscribe = lambda *_: subscribed.set()
        self.client.connect("127.0.0.1", gateway.port)
        self.client.loop_start()
        self.client.subscribe(topic, qos)
        assert subscribed.wait(10)

    def note(self, _client, _data, message):
        self.got.append((message.topic, message.payload.decode(), message.qos, time.time()))

    @property
    def payloads(self):
        return [payload for _, payload, _, _ in self.got]

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()


class DelayedTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.data = Path(folder.name) / "data"

    def start(self, *arguments, data=True):
        return Gateway("--shards", "2", "--data", self.data if data else "none", *arguments)

    def subscriber(self, gateway, **options):
        made = Subscriber(gateway, **options)
        self.addCleanup(made.close)
        return made

    @staticmethod
    def ask(gateway, method, path="", body=None):
        return gateway.ask(method, PATH + path, body)

    def post(self, gateway, body):
        status, said = self.ask(gateway, "POST", body=body)
        self.assertEqual(status, 200, said)
        return [one["id"] for one in said["delayed"]]

    def test_what_is_posted_comes_when_it_is_due(self):
        for data in True, False:
            with self.subTest(data=data), self.start(data=data) as gateway:
                subscriber = self.subscriber(gateway, qos=2)
                before = time.time()
                at = int(before) + 2
                ids = self.post(gateway, [
                    {"topic": "a", "in": 1, "payload": "one"},
                    {"topics": ["b", "c/d"], "at": at, "payload_base64": base64.b64encode(b"two").decode(), "qos": 2},
                    {"topic": "e", "in": 60, "payload": "late", "user": "ann", "name": "n", "retain": True, "expiry": 9}])
                self.assertEqual(len(set(ids)), 4)
                wait_until(lambda: len(subscriber.got) == 3)
                self.assertEqual(sorted(entry[:3] for entry in subscriber.got),
                                 [("a", "one", 1), ("b", "two", 2), ("c/d", "two", 2)])
                for topic, _, _, when in subscriber.got:
                    self.assertGreaterEqual(when, before + 1 if topic == "a" else at)
                status, late = self.ask(gateway, "GET", "/" + ids[3])
                self.assertEqual(status, 200)
                self.assertEqual(late, {"id": ids[3], "topic": "e", "due": late["due"], "user": "ann", "name": "n",
                                        "qos": 1, "retain": True, "expiry": 9, "payload": "late"})
                self.assertAlmostEqual(late["due"], before + 60, delta=2)
                wait_until(lambda: gateway.metric("pulsegate_delayed_messages", shard="0") == 1, what="the commit")
                self.assertEqual(gateway.metric("pulsegate_delayed_published_total", shard="0"), 3)

    def test_lists_pages_and_cancellations(self):
        with self.start() as gateway:
            ids = self.post(gateway, [{"topic": f"t/{i}", "in": 100 + i, "user": "ann" if i % 2 else "bob"}
                                      for i in range(250)])
            self.assertEqual(ids, sorted(ids, key=int))
            seen, after = [], "0"
            while True:
                _, page = self.ask(gateway, "GET", f"?limit=60&user=ann&after={after}")
                if not page["delayed"]:
                    break
                seen += [one["id"] for one in page["delayed"]]
                after = page["next"]
            self.assertEqual(seen, ids[1::2])
            self.assertEqual(len(self.ask(gateway, "GET")[1]["delayed"]), 100)
            self.assertEqual(self.ask(gateway, "DELETE", "/" + ids[0]), (200, {"cancelled": 1}))
            self.assertEqual(self.ask(gateway, "DELETE", "/" + ids[0])[0], 404)
            self.assertEqual(self.ask(gateway, "GET", "/" + ids[0])[0], 404)
            self.assertEqual(self.ask(gateway, "DELETE", "?user=ann"), (200, {"cancelled": 125}))
            self.assertEqual(self.ask(gateway, "DELETE", "?user=ann")[0], 404)
            self.post(gateway, {"topic": "x", "in": 100, "user": "ann", "name": "a job/7"})
            self.assertEqual(self.ask(gateway, "DELETE", "?user=bob&name=a%20job/7")[0], 404)
            self.assertEqual(self.ask(gateway, "DELETE", "?user=ann&name=a%20job/7"), (200, {"cancelled": 1}))
            self.assertEqual(gateway.metric("pulsegate_delayed_messages", shard="0"), 124)

    def test_a_name_replaces_and_mqtt_cancels_what_http_has_posted(self):
        with self.start() as gateway:
            subscriber = self.subscriber(gateway)
            for payload in "old", "new":
                self.post(gateway, {"topic": "x", "in": 1, "user": "ann", "name": "n", "payload": payload})
            self.post(gateway, {"topic": "x", "in": 1, "user": "ann", "name": "m", "payload": "never"})
            said = subprocess.run(["mosquitto_pub", "-p", str(gateway.port), "-V", "5", "-u", "ann", "-q", "1", "-d", "-t",
                                   "$delayed/cancel/m", "-m", ""], capture_output=True, text=True, timeout=10)
            self.assertIn("RC:0", said.stdout)
            wait_until(lambda: subscriber.got)
            time.sleep(1)
            self.assertEqual(subscriber.payloads, ["new"])

    def test_wrong_requests_are_answered(self):
        with self.start("--max-delayed-messages", "3", "--max-packet-size", "1KiB", "--output-budget", "64KiB") as gateway:
            for body, words in (
                    (b"{", "no JSON"), ([1], "message 0 of the list"), ({}, "topic"), ({"topic": "x"}, "'in'"),
                    ({"topic": "x", "in": 1, "at": 5}, "'in'"), ({"topic": "x", "in": -1}, "'in'"),
                    ({"topic": "x", "in": "5"}, "'in'"), ({"topic": "x", "in": 4294967295}, "2106"),
                    ({"topic": "+", "in": 1}, "no topic"), ({"topic": "", "in": 1}, "no topic"),
                    ({"topic": "presence/x", "in": 1}, "reserved"), ({"topic": "$SYS", "in": 1}, "reserved"),
                    ({"topic": "x", "in": 1, "qos": 3}, "'qos'"), ({"topic": "x", "in": 1, "retain": 1}, "'retain'"),
                    ({"topic": "x", "in": 1, "delay": 1}, "'delay'"), ({"topic": "x", "in": 1, "name": "12"}, "'name'"),
                    ({"topics": ["x", "y"], "in": 1, "name": "n"}, "one topic"),
                    ({"topic": "x", "in": 1, "payload_base64": "?"}, "Base64"),
                    ({"topic": "x", "in": 1, "payload": "y" * 2000}, "max-packet-size"),
                    ([{"topic": "x", "in": 1}, {"topic": "#", "in": 1}], "message 1 of the list")):
                status, said = self.ask(gateway, "POST", body=body)
                self.assertEqual(status, 400, (body, said))
                self.assertIn(words, said["error"])
            self.assertEqual(self.ask(gateway, "GET"), (200, {"delayed": []}))
            self.assertEqual(self.ask(gateway, "DELETE", "/0")[0], 400)
            status, said = self.ask(gateway, "POST", body={"topics": ["x"] * 10_001, "in": 1, "payload": "y" * 900})
            self.assertEqual((status, said), (400, {"error": "more than 10000 messages"}))
            status, said = self.ask(gateway, "POST", body=[{"topics": ["x"] * 9999, "in": 1, "payload": "y" * 2000}])
            self.assertIn("bytes of messages", said["error"])
            with socket.create_connection(("127.0.0.1", gateway.http_port), timeout=10) as raw:
                raw.sendall(f"POST {PATH}?x=1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000000\r\n\r\n".encode())
                self.assertIn(b" 413 ", raw.recv(100))
            for path in "/x", "?after=x", "?limit=-1", "?user=%ff":
                self.assertEqual(self.ask(gateway, "GET", path)[0], 400, path)
            self.assertEqual(self.ask(gateway, "DELETE")[0], 400)
            self.assertEqual(self.ask(gateway, "PUT")[0], 405)
            self.post(gateway, [{"topic": "x", "in": 100}] * 3)
            self.assertEqual(self.ask(gateway, "POST", body={"topic": "x", "in": 1})[0], 507)

    def test_kill_and_restart_neither_lose_nor_repeat(self):
        """A thousand messages, due around three kills."""
        with self.start() as gateway:
            receiver = self.subscriber(gateway, session="away", qos=2)
            receiver.close()
            sent = [{"topic": "x", "in": i % 8, "payload": str(i), "qos": 1 + i % 2} for i in range(1000)]
            due = int(time.time()) + 9
            self.post(gateway, sent)
            kept = self.post(gateway, {"topic": "x", "in": 500, "payload": "kept"})[0]
            gone = self.post(gateway, {"topic": "x", "in": 3, "payload": "cancelled"})[0]
            self.assertEqual(self.ask(gateway, "DELETE", "/" + gone)[0], 200)
            time.sleep(1.7)
            gateway.kill()
        for _ in range(2):
            with self.start() as gateway:
                time.sleep(1.7)
                gateway.kill()
        with self.start() as gateway:
            while time.time() < due:
                time.sleep(0.1)
            wait_until(lambda: gateway.metric("pulsegate_delayed_messages", shard="0") == 1)
            receiver = self.subscriber(gateway, session="away", qos=2)
            wait_until(lambda: len(receiver.got) >= 1000)
            time.sleep(0.3)
            times = collections.Counter(receiver.payloads)
            self.assertEqual(set(times), {str(i) for i in range(1000)})
            repeated = [payload for payload, count in times.items() if count > 1 and int(payload) % 2]
            self.assertEqual(repeated, [])
            self.assertEqual(self.ask(gateway, "GET", "/" + kept)[0], 200)

    def test_what_was_due_while_the_gateway_was_down_comes_in_order(self):
        with self.start() as gateway:
            self.subscriber(gateway, session="away").close()
            self.post(gateway, [{"topic": "x", "in": 1 + i % 2, "payload": str(i)} for i in range(10)])
            with Client(gateway.port) as client:  # MQTT 3.1.1, at QoS 0
                client.login("raw")
                client.publish("$delayed/1/x", b"late")
                client.ping()
            time.sleep(1.2)  # what may be lost is on disk within a second
            gateway.kill()
        time.sleep(2)
        with self.start() as gateway:
            receiver = self.subscriber(gateway, session="away")
            numbers = lambda: [int(payload) for payload in receiver.payloads if payload.isdigit()]
            wait_until(lambda: len(numbers()) >= 10)
            self.assertEqual(numbers(), [0, 2, 4, 6, 8, 1, 3, 5, 7, 9])


if __name__ == "__main__":
    unittest.main()
