"""What clients may read and publish, and the access to the HTTP API."""

import json
import signal
import unittest
import urllib.error
import urllib.request

import paho.mqtt.client as paho

from credentials import Folder, granted, published
from gateway import Gateway, wait_until


class AccessTest(Folder):
    def test_the_usual_rules_suit_a_chat(self):
        with Gateway("--password-file", self.password_file(alice="a", bob="b")) as gateway:
            _, alice = self.client(gateway, "alice", "a", "alice-phone")
            _, bob = self.client(gateway, "bob", "b", "bob-phone")
            self.assertEqual(granted(alice, "inbox/alice", "room/#", "presence/bob", "presence/+", "$share/g/room/1"),
                             [0] * 5)
            self.assertEqual(granted(alice, "inbox/bob", "inbox/+", "+/bob", "#", "inbox/#", "$share/g/inbox/bob",
                                     "$share/g/#", "+/+"), [0x87] * 8)
            heard = []
            alice.on_message = lambda c, u, message: heard.append((message.topic, message.payload))
            published(bob, "presence/alice", "a lie")
            published(bob, "inbox/alice", "hello")
            wait_until(lambda: ("inbox/alice", b"hello") in heard)
            self.assertNotIn(b"a lie", [payload for _, payload in heard])

    def test_a_file_has_other_rules_and_is_read_anew(self):
        rules = self.file("rules", "allow read news/%c\ndeny read news/#\nallow write user bob news/#\n")
        with Gateway("--password-file", self.password_file(alice="a", bob="b"), "--access-file", rules) as gateway:
            _, alice = self.client(gateway, "alice", "a", "phone")
            self.assertEqual(granted(alice, "news/phone", "news/other", "room/1"), [0, 0x87, 0x87])
            self.file("rules", "allow readwrite #\n")
            gateway.process.send_signal(signal.SIGHUP)
            gateway.wait_for_log("users, keys and rules reloaded")
            wait_until(lambda: granted(alice, "room/1") == [0])

    def test_a_will_obeys_the_rules(self):
        with Gateway("--password-file", self.password_file(alice="a")) as gateway:
            refused = paho.Client(client_id="w", protocol=paho.MQTTv5)
            codes = []
            refused.on_connect = lambda c, u, flags, rc, *rest: codes.append(rc.value)
            refused.username_pw_set("alice", "a")
            refused.will_set("presence/bob", "gone")
            refused.connect("127.0.0.1", gateway.port)
            refused.loop_start()
            self.addCleanup(refused.loop_stop)
            self.assertEqual(wait_until(lambda: codes or None)[0], 0x87)

    def test_a_rule_that_makes_no_sense_stops_the_start(self):
        gateway = Gateway("--access-file", self.file("rules", "allow everything #\n"))
        with self.assertRaises(AssertionError):
            gateway.start()
        self.assertRegex(gateway.log, "rules:1: ")
        gateway.folder.cleanup()


class AdminTokenTest(Folder):
    def test_the_admin_api_asks_for_its_token(self):
        secret = "0123456789abcdef0123456789abcdef"
        with Gateway("--admin-token-file", self.file("token", secret + "\n")) as gateway:
            def status(path, **headers):
                request = urllib.request.Request(f"http://127.0.0.1:{gateway.http_port}{path}", headers=headers)
                try:
                    with urllib.request.urlopen(request, timeout=60) as answer:
                        return answer.status
                except urllib.error.HTTPError as error:
                    with error:
                        self.assertIn("error", json.loads(error.read()))
                        return error.code
            self.assertEqual(status("/metrics"), 401)
            self.assertEqual(status("/metrics", Authorization="Bearer " + secret[:-1] + "x"), 401)
            self.assertEqual(status("/metrics", Authorization="Basic " + secret), 401)
            self.assertEqual(status("/metrics", Authorization="Bearer " + secret), 200)
            self.assertEqual(status("/healthz"), 200)


if __name__ == "__main__":
    unittest.main()
