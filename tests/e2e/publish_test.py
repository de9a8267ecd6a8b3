"""Messages that a backend publishes by HTTP, received by common clients of the real binary."""

import base64
import tempfile
import threading
import unittest
from pathlib import Path

import paho.mqtt.client as paho

from gateway import Client, Gateway, wait_until


def publish(gateway, body):
    """Status and JSON of the answer."""
    return gateway.ask("POST", "/api/v1/publish", body)


class Phone:
    """A device of a user, which has subscribed to rooms."""

    def __init__(self, gateway, user, clean=True):
        self.got = []
        self.client = paho.Client(f"{user}-phone", clean_session=clean)
        self.client.username_pw_set(user)
        self.client.on_message = lambda _client, _data, message: self.got.append(message)
        subscribed = threading.Event()
        self.client.on_subscribe = lambda *_: subscribed.set()
        self.client.connect("127.0.0.1", gateway.port)
        self.client.loop_start()
        self.client.subscribe("room/#", 1)
        assert subscribed.wait(60)

    @property
    def payloads(self):
        return [message.payload for message in self.got]

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()


class PublishTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.data = Path(folder.name) / "data"

    def start(self, *arguments):
        return self.enterContext(Gateway("--shards", "2", "--data", self.data, *arguments))

    def phone(self, gateway, user, **options):
        phone = Phone(gateway, user, **options)
        self.addCleanup(phone.close)
        return phone

    def publish(self, gateway, body):
        """How many were sent to, and waited for, for each topic."""
        status, said = publish(gateway, body)
        self.assertEqual(status, 200, said)
        return [(one["topic"], one["sent"], one["queued"]) for one in said["published"]]

    def refusal(self, gateway, body, expected=400):
        status, said = publish(gateway, body)
        self.assertEqual(status, expected, said)
        return said["error"]

    def test_the_answer_counts_receivers_and_queues(self):
        gateway = self.start()
        alice, bob = self.phone(gateway, "alice"), self.phone(gateway, "bob", clean=False)
        self.assertEqual(self.publish(gateway, {"topic": "room/x", "payload": "both"}), [("room/x", 2, 0)])
        bob.close()
        wait_until(lambda: gateway.get_json("/api/v1/users/bob")[1]["state"] == "offline", what="bob offline")
        self.assertEqual(self.publish(gateway, {"topic": "room/x", "payload": "one"}), [("room/x", 1, 1)])
        self.assertEqual(self.publish(gateway, {"topic": "elsewhere"}), [("elsewhere", 0, 0)])
        self.assertEqual(self.publish(gateway, {"inboxes": ["alice", "bob", "never/here"], "payload": "all"}),
                         [("inbox/alice", 1, 0), ("inbox/bob", 0, 1), ("inbox/never%2Fhere", 0, 1)])
        wait_until(lambda: alice.payloads == [b"both", b"one", b"all"], what="alice's messages")
        back = self.phone(gateway, "bob", clean=False)
        wait_until(lambda: back.payloads == [b"one", b"all"], what="bob's messages")

    def test_a_list_comes_in_its_order(self):
        gateway = self.start()
        alice = self.phone(gateway, "alice")
        numbers = [str(i).encode() for i in range(1000)]
        said = self.publish(gateway, [{"topic": "room/x", "payload": n.decode()} for n in numbers])
        self.assertTrue(all(sent + queued == 1 for _, sent, queued in said))  # her window may be full
        wait_until(lambda: len(alice.got) == 1000, what="a thousand messages")
        self.assertEqual(alice.payloads, numbers)

    def test_bytes_qos_retain_expiry_and_properties_arrive(self):
        gateway = self.start()
        raw = bytes(range(256))
        body = {"topic": "room/x", "payload_base64": base64.b64encode(raw).decode(), "qos": 2, "retain": True,
                "expiry": 100, "content_type": "image/x", "properties": {"from": "backend"}}
        self.assertEqual(self.publish(gateway, body), [("room/x", 0, 0)])
        got = []
        client = paho.Client("late", protocol=paho.MQTTv5)
        client.on_message = lambda _client, _data, message: got.append(message)
        client.connect("127.0.0.1", gateway.port)
        self.addCleanup(client.loop_stop)
        client.loop_start()
        client.subscribe("room/x", 2)
        wait_until(lambda: got, what="the retained message")
        self.assertEqual((got[0].payload, got[0].qos, got[0].retain), (raw, 2, True))
        self.assertEqual(got[0].properties.ContentType, "image/x")
        self.assertEqual(got[0].properties.UserProperty, [("from", "backend")])
        self.assertIn(got[0].properties.MessageExpiryInterval, range(1, 101))

    def test_what_reaches_nobody_is_counted(self):
        gateway = self.start()
        self.phone(gateway, "alice")
        with Client(gateway.port) as client:
            client.login("sender", version=5)
            for i, topic in enumerate(("nobody/x", "room/x")):
                for qos in (0, 1, 2):
                    client.publish(topic, qos=qos, packet_id=1 + i)
            client.publish("nobody/x", qos=1, flags=1)  # retained, for later subscribers
            self.publish(gateway, {"topic": "nobody/x"})
            wait_until(lambda: gateway.metric("pulsegate_messages_dropped_total", reason="no_receiver") == 4,
                       what="four dropped messages")

    def test_what_finds_no_room_is_told(self):
        gateway = self.start("--max-inboxes", "1", "--max-retained-messages", "1")
        for message, expected in (
                ({"inbox": "ann"}, {"topic": "inbox/ann", "sent": 0, "queued": 1}),
                ({"inbox": "ben"}, {"topic": "inbox/ben", "sent": 0, "queued": 0, "dropped": 1}),
                ({"topic": "a", "payload": "x", "retain": True}, {"topic": "a", "sent": 0, "queued": 0}),
                ({"topic": "b", "payload": "x", "retain": True}, {"topic": "b", "sent": 0, "queued": 0, "retained": False})):
            self.assertEqual(publish(gateway, message), (200, {"published": [expected]}))

    def test_what_was_answered_survives_a_kill(self):
        gateway = self.start()
        said = self.publish(gateway, [{"inbox": "bob", "payload": str(i)} for i in range(100)])
        self.assertTrue(all(one == ("inbox/bob", 0, 1) for one in said))
        gateway.kill()
        bob = self.phone(self.start(), "bob")
        wait_until(lambda: len(bob.got) == 100, what="the inbox")
        self.assertEqual(bob.payloads, [str(i).encode() for i in range(100)])

    def test_a_wrong_request_is_told_what_is_wrong_and_publishes_nothing(self):
        gateway = self.start("--inbox", "off", "--retain-available", "off", "--max-packet-size", "1024")
        alice = self.phone(gateway, "alice")
        fine = {"topic": "room/x", "payload": "fine"}
        for body, why in ((b"{", "not JSON"),
                          ([fine, 7], "message 1 of the list: a message must be a JSON object"),
                          ([fine, {}], "no topic, inbox or room"),
                          ([fine, {"topic": "room/#"}], "is not a topic"),
                          ([fine, {"topic": "presence/bob"}], "reserved"),
                          ([fine, {"topic": "$delayed/1/room/x"}], "reserved"),
                          ([fine, {"topic": "room/x", "in": 7}], "'in' is not a member"),
                          ([fine, {"topic": "room/x", "qos": 3}], "'qos' is not a number from 0 to 2"),
                          ([fine, {"topic": "room/x", "payload_base64": "!"}], "is not Base64"),
                          ([fine, {"topic": "room/x", "properties": {"a": 1}}], "is not text"),
                          ([fine, {"topic": "room/x", "properties": {"a": "x" * 65536}}], "longer than 65535"),
                          ([fine, {"topic": "room/x", "properties": {"x" * 65536: "a"}}], "65535 bytes"),
                          ([fine, {"topic": "room/x", "payload": "x" * 1024}], "max-packet-size"),
                          ([fine, {"topic": "room/x", "retain": True}], "retain-available"),
                          ([fine, {"inbox": "bob"}], "inbox is off"),
                          ([fine, {"topics": ["room/x"] * 10_000}], "more than 10000 messages")):
            with self.subTest(why=why):
                self.assertIn(why, self.refusal(gateway, body))
        self.assertEqual(self.publish(gateway, fine | {"payload": "last"}), [("room/x", 1, 0)])
        wait_until(lambda: alice.got, what="the last message")
        self.assertEqual(alice.payloads, [b"last"])


if __name__ == "__main__":
    unittest.main()
