"""Delayed messages of the real binary: by HTTP, by common clients, and over restarts."""

import base64
import collections
import datetime
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

import paho.mqtt.client as paho

from gateway import Client, Gateway, seconds_since_1970, wait_until

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
        assert subscribed.wait(60)

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
                date = datetime.datetime.fromtimestamp(at, datetime.timezone(datetime.timedelta(hours=2))).isoformat()
                ids = self.post(gateway, [
                    {"topic": "a", "in": 1, "payload": "one"},
                    {"topics": ["b", "c/d"], "at": date if data else at, "payload_base64": base64.b64encode(b"two").decode(),
                     "qos": 2},
                    {"topic": "e", "in": 3600, "payload": "late", "user": "ann", "name": "n", "retain": True, "expiry": 9}])
                after = time.time()
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
                self.assertGreaterEqual(seconds_since_1970(late["due"]), before + 3600)
                self.assertLessEqual(seconds_since_1970(late["due"]), after + 3600 + 1)  # whole seconds
                wait_until(lambda: gateway.metric("pulsegate_delayed_messages") == 1, what="the commit")
                self.assertEqual(gateway.metric("pulsegate_delayed_published_total", shard="0"), 3)

    def test_lists_pages_and_cancellations(self):
        with self.start() as gateway:
            ids = self.post(gateway, [{"topic": f"t/{i}", "in": 3600 + i, "user": "ann" if i % 2 else "bob"}
                                      for i in range(250)])
            self.assertEqual(ids, sorted(ids, key=int))
            seen, after = [], "0"
            while after is not None:
                _, page = self.ask(gateway, "GET", f"?limit=25&user=ann&after={after}")
                seen += [one["id"] for one in page["delayed"]]
                after = page.get("next")
                self.assertEqual(after is None, len(seen) == 125)
            self.assertEqual(seen, ids[1::2])
            self.assertEqual(len(self.ask(gateway, "GET")[1]["delayed"]), 100)
            self.assertEqual(self.ask(gateway, "DELETE", "/" + ids[0]), (200, {"cancelled": 1}))
            self.assertEqual(self.ask(gateway, "DELETE", "/" + ids[0])[0], 404)
            self.assertEqual(self.ask(gateway, "GET", "/" + ids[0])[0], 404)
            self.assertEqual(self.ask(gateway, "DELETE", "?user=ann"), (200, {"cancelled": 125}))
            self.assertEqual(self.ask(gateway, "DELETE", "?user=ann")[0], 404)
            self.post(gateway, {"topic": "x", "in": 3600, "user": "ann", "name": "a job/7"})
            self.assertEqual(self.ask(gateway, "DELETE", "?user=bob&name=a%20job/7")[0], 404)
            self.assertEqual(self.ask(gateway, "DELETE", "?user=ann&name=a%20job/7"), (200, {"cancelled": 1}))
            self.assertEqual(gateway.metric("pulsegate_delayed_messages"), 124)

    def test_a_name_replaces_and_mqtt_cancels_what_http_has_posted(self):
        with self.start() as gateway:
            subscriber = self.subscriber(gateway)
            for payload, seconds in ("old", 3600), ("new", 1):
                self.post(gateway, {"topic": "x", "in": seconds, "user": "ann", "name": "n", "payload": payload})
            self.post(gateway, {"topic": "x", "in": 3600, "user": "ann", "name": "m", "payload": "never"})
            said = subprocess.run(["mosquitto_pub", "-p", str(gateway.port), "-V", "5", "-u", "ann", "-q", "1", "-d", "-t",
                                   "$delayed/cancel/m", "-m", ""], capture_output=True, text=True, timeout=60)
            self.assertIn("RC:0", said.stdout)
            wait_until(lambda: subscriber.got)
            self.assertEqual(subscriber.payloads, ["new"])
            wait_until(lambda: gateway.metric("pulsegate_delayed_messages") == 0, what="the commit")
            self.assertEqual(self.ask(gateway, "GET"), (200, {"delayed": []}))  # neither of the others will ever come

    def test_wrong_requests_are_answered(self):
        with self.start("--max-delayed-messages", "3", "--max-packet-size", "1KiB", "--output-budget", "64KiB") as gateway:
            for body, words in (
                    (b"{", "not JSON"), ([1], "message 0 of the list"), ({}, "topic"), ({"topic": "x"}, "'in'"),
                    ({"topic": "x", "in": 1, "at": 5}, "'in'"), ({"topic": "x", "at": "2026-11-27"}, "'at' is not a time"),
                    ({"topic": "x", "at": "2106-03-01T00:00:00Z"}, "'at'"), ({"topic": "x", "at": 1e12}, "'at'"),
                    ({"topic": "x", "at": -1}, "'at'"), ({"topic": "x", "at": True}, "'at'"), ({"topic": "x", "in": -1}, "'in'"),
                    ({"topic": "x", "in": "5"}, "'in'"), ({"topic": "x", "in": 4294967295}, "2106"),
                    ({"topic": "+", "in": 1}, "not a topic"), ({"topic": "", "in": 1}, "not a topic"),
                    ({"topic": "presence/x", "in": 1}, "reserved"), ({"topic": "$SYS", "in": 1}, "reserved"),
                    ({"topic": "x", "in": 1, "qos": 3}, "'qos'"), ({"topic": "x", "in": 1, "retain": 1}, "'retain'"),
                    ({"topic": "x", "in": 1, "delay": 1}, "'delay'"), ({"topic": "x", "in": 1, "name": "12"}, "'name'"),
                    ({"topics": ["x", "y"], "in": 1, "name": "n"}, "one message"),
                    ({"topic": "x", "in": 1, "payload_base64": "?"}, "Base64"),
                    ({"topic": "x", "in": 1, "payload": "y" * 2000}, "max-packet-size"),
                    ([{"topic": "x", "in": 1}, {"topic": "#", "in": 1}], "message 1 of the list")):
                status, said = self.ask(gateway, "POST", body=body)
                self.assertEqual(status, 400, (body, said))
                self.assertIn(words, said["error"])
            self.assertEqual(self.ask(gateway, "GET"), (200, {"delayed": []}))
            self.assertEqual(self.ask(gateway, "DELETE", "/0")[0], 400)
            status, said = self.ask(gateway, "POST", body={"topics": ["x"] * 10_001, "in": 1, "payload": "y" * 900})
            self.assertEqual((status, said), (400, {"error": "more than 10000 messages", "code": "too_many_entries"}))
            status, said = self.ask(gateway, "POST", body=[{"topics": ["x"] * 9999, "in": 1, "payload": "y" * 2000}])
            self.assertIn("bytes of messages", said["error"])
            with socket.create_connection(("127.0.0.1", gateway.http_port), timeout=60) as raw:
                raw.sendall(f"POST {PATH}?x=1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000000\r\n\r\n".encode())
                raw.sendall(b" " * 5_000_000)  # it reads on, or the client could not send it, and not read the answer
                self.assertIn(b" 413 ", raw.recv(100))
            for path in "/x", "?after=x", "?limit=-1", "?user=%ff":
                self.assertEqual(self.ask(gateway, "GET", path)[0], 400, path)
            self.assertEqual(self.ask(gateway, "DELETE")[0], 400)
            self.assertEqual(self.ask(gateway, "PUT")[0], 405)
            self.post(gateway, [{"topic": "x", "in": 3600}] * 3)
            self.assertEqual(self.ask(gateway, "POST", body={"topic": "x", "in": 1})[0], 507)

    def test_kill_and_restart_neither_lose_nor_repeat(self):
        """A thousand messages, due around three kills."""
        with self.start() as gateway:
            receiver = self.subscriber(gateway, session="away", qos=2)
            receiver.close()
            kept = self.post(gateway, {"topic": "x", "in": 3600, "payload": "kept"})[0]
            gone = self.post(gateway, {"topic": "x", "in": 7, "payload": "cancelled"})[0]
            self.assertEqual(self.ask(gateway, "DELETE", "/" + gone)[0], 200)
            self.post(gateway, [{"topic": "x", "in": i % 8, "payload": str(i), "qos": 1 + i % 2} for i in range(1000)])
            self.kill_among_them(gateway)
        for _ in range(2):
            with self.start() as gateway:
                self.kill_among_them(gateway)
        with self.start() as gateway:
            wait_until(lambda: gateway.metric("pulsegate_delayed_messages") == 1)
            for qos in 1, 2:  # each has an order of its own
                self.assertEqual(gateway.ask("POST", "/api/v1/publish", {"topic": "x", "payload": "end", "qos": qos})[0], 200)
            receiver = self.subscriber(gateway, session="away", qos=2)
            wait_until(lambda: receiver.payloads.count("end") == 2)
            times = collections.Counter(receiver.payloads)
            del times["end"]
            self.assertEqual(set(times), {str(i) for i in range(1000)})
            repeated = [payload for payload, count in times.items() if count > 1 and int(payload) % 2]
            self.assertEqual(repeated, [])
            self.assertEqual(self.ask(gateway, "GET", "/" + kept)[0], 200)

    @staticmethod
    def kill_among_them(gateway):
        """When it has published some, and some are still to come, unless the machine was too slow for that."""
        wait_until(lambda: gateway.metric("pulsegate_delayed_published_total", shard="0") > 100
                   or gateway.metric("pulsegate_delayed_messages") <= 1, what="delayed messages")
        gateway.kill()

    def kill_before_they_are_due(self, seconds):
        """Ten messages at QoS 1 and one at QoS 0. Returns when the first and the last of them are due."""
        with self.start() as gateway:
            self.subscriber(gateway, session="away").close()
            ids = self.post(gateway, [{"topic": "x", "in": seconds + i % 2, "payload": str(i)} for i in range(10)])
            with Client(gateway.port) as client:  # MQTT 3.1.1, at QoS 0
                client.login("raw")
                client.publish(f"$delayed/{seconds}/x", b"late")
                client.ping()
            gateway.await_store()
            due = [seconds_since_1970(self.ask(gateway, "GET", "/" + id)[1]["due"]) for id in ids[:2]]
            gateway.kill()
        return due

    def test_what_was_due_while_the_gateway_was_down_comes_in_order(self):
        for seconds in 2, 20, 200:  # more on a slow machine
            first, last = self.kill_before_they_are_due(seconds)
            if time.time() < first:
                break
            shutil.rmtree(self.data)
        wait_until(lambda: time.time() > last, timeout=2 * seconds + 10, what="the last one's time")
        with self.start() as gateway:
            receiver = self.subscriber(gateway, session="away")
            wait_until(lambda: len(receiver.payloads) >= 11)
            self.assertEqual([payload for payload in receiver.payloads if payload != "late"], list("0246813579"))
            self.assertEqual(receiver.payloads.count("late"), 1)


if __name__ == "__main__":
    unittest.main()
