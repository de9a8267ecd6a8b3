"""A client loses rights to read and publish: earlier logins and earlier rules grant it nothing."""

import signal
import time
import unittest

import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from credentials import SECRET, Folder, token
from gateway import Gateway, wait_until


class Phone:
    """A 5.0 client with a session that outlives its connection."""

    def __init__(self, test, gateway, user, password, client_id="phone", will=None):
        self.heard = []
        self.granted = {}
        client = paho.Client(client_id=client_id, protocol=paho.MQTTv5)
        client.username_pw_set(user, password)
        if will:
            delay = Properties(PacketTypes.WILLMESSAGE)
            delay.WillDelayInterval = 1
            client.will_set(will, "gone", qos=1, properties=delay)
        client.on_message = lambda c, u, message: self.heard.append((message.topic, message.payload.decode()))
        client.on_subscribe = lambda c, u, mid, reasons, properties: self.granted.update({mid: [r.value for r in reasons]})
        keep = Properties(PacketTypes.CONNECT)
        keep.SessionExpiryInterval = 3600
        client.connect("127.0.0.1", gateway.port, clean_start=False, properties=keep)
        client.loop_start()
        test.addCleanup(client.loop_stop)
        test.addCleanup(client.disconnect)
        wait_until(client.is_connected)
        self.client = client

    def subscribe(self, *filters):
        _, mid = self.client.subscribe([(each, paho.SubscribeOptions(qos=1)) for each in filters])
        return wait_until(lambda: self.granted.get(mid))

    def publish(self, topic, payload):
        self.client.publish(topic, payload, qos=1).wait_for_publish(60)

    def leave(self):
        self.client.disconnect()
        wait_until(lambda: not self.client.is_connected())


class RightsTest(Folder):
    def allowed(self, user, *rules):
        return token({"sub": user, "exp": int(time.time()) + 600, "acl": list(rules)})

    def test_a_resumed_session_reads_what_this_login_may_read(self):
        with Gateway("--jwt-secret", self.file("secret", SECRET)) as gateway:
            chief = Phone(self, gateway, "chief", self.allowed("chief", "allow readwrite #"), "chief")
            mallory = Phone(self, gateway, "mallory", self.allowed("mallory", "allow readwrite #"))
            self.assertEqual(mallory.subscribe("secret/#", "$share/g/secret2/#", "public/#"), [1, 1, 1])
            mallory.leave()
            for topic in ("secret/queued", "secret2/queued", "public/queued"):
                chief.publish(topic, "while away")

            mallory = Phone(self, gateway, "mallory", self.allowed("mallory", "allow read public/#"))
            gateway.wait_for_log("2 subscriptions ended and 1 waiting messages dropped")
            for topic in ("secret/plan", "secret2/plan", "public/plan"):
                chief.publish(topic, "now")
            wait_until(lambda: len(mallory.heard) == 2)
            chief.publish("inbox/mallory", "the end")
            wait_until(lambda: len(mallory.heard) == 3)
            self.assertEqual(mallory.heard, [("public/queued", "while away"), ("public/plan", "now"),
                                             ("inbox/mallory", "the end")])

    def test_reloaded_rules_hold_for_connected_clients(self):
        rules = self.file("rules", "allow readwrite #\n")
        with Gateway("--password-file", self.password_file(nora="n", bob="b"), "--access-file", rules) as gateway:
            bob = Phone(self, gateway, "bob", "b")
            nora = Phone(self, gateway, "nora", "n")
            nora.subscribe("secret/#", "public/#")
            self.file("rules", "deny read user nora secret/#\nallow readwrite #\n")
            gateway.process.send_signal(signal.SIGHUP)
            gateway.wait_for_log("client 'phone' of user 'nora': 1 subscriptions ended and 0 waiting messages dropped")
            bob.publish("secret/plan", "now")
            bob.publish("public/plan", "now")
            wait_until(lambda: nora.heard)
            self.assertEqual(nora.heard, [("public/plan", "now")])

    def test_reloaded_rules_hold_for_all_readers_once_the_log_says_so(self):
        rules = self.file("rules", "allow readwrite #\n")
        users = {f"reader{number}": "r" for number in range(150)}
        with Gateway("--shards", "1", "--password-file", self.password_file(chief="c"), "--access-file", rules,
                     "--allow-anonymous") as gateway:
            chief = Phone(self, gateway, "chief", "c")
            readers = [gateway.connect(name) for name in users]
            for number, reader in enumerate(readers):
                reader.subscribe("$share/g/secret/#" if number % 2 else "secret/plan", "public")
            self.file("rules", "deny read secret/#\nallow readwrite #\n")
            gateway.process.send_signal(signal.SIGHUP)
            gateway.wait_for_log("users, keys and rules reloaded")
            chief.publish("secret/plan", "now")
            chief.publish("public", "the end")
            self.assertEqual({reader.receive_publish() for reader in readers}, {("public", b"the end")})

    def test_a_delayed_will_obeys_the_rules_at_the_time_of_its_publication(self):
        rules = self.file("rules", "allow readwrite #\n")
        with Gateway("--password-file", self.password_file(nora="n", bob="b"), "--access-file", rules) as gateway:
            bob = Phone(self, gateway, "bob", "b")
            bob.subscribe("wills/#", "other")
            nora = Phone(self, gateway, "nora", "n", will="wills/nora")
            self.file("rules", "deny write user nora wills/#\nallow readwrite #\n")
            gateway.process.send_signal(signal.SIGHUP)
            gateway.wait_for_log("users, keys and rules reloaded")
            nora.client._sock_close()  # no DISCONNECT
            gateway.wait_for_log("client 'phone' of user 'nora': will to 'wills/nora' dropped")
            bob.publish("other", "the end")
            wait_until(lambda: bob.heard)
            self.assertEqual(bob.heard, [("other", "the end")])


if __name__ == "__main__":
    unittest.main()
