"""The sender of a message on the chat topics: the gateway states it, and clients can't forge it."""

import unittest

import packets
from gateway import Client, Gateway
from packets import CONNACK, PUBACK, PUBLISH, PUBREC, SUBACK, FromServer

USER_PROPERTY, ALIAS, WILL_DELAY = 0x26, 0x23, 0x18
FORGED = (USER_PROPERTY, ("from", "alice"))


class Phone(Client):
    """A client of a user that reads packets as a server may send them."""

    def __init__(self, gateway, user, version=5, will=None):
        super().__init__(gateway.port)
        self.version = version
        self.send(packets.connect(version, f"{user}-{version}", username=user, will=will))
        self.connack = self.next(CONNACK)

    def next(self, expected):
        while True:
            got = FromServer(*self.receive(), self.version)
            if got.type == expected:
                return got
            assert got.type in (PUBLISH, PUBACK, PUBREC), got

    def subscribe_to(self, *filters):
        self.send(packets.subscribe(self.version, 1, [(name, 1) for name in filters]))
        assert self.next(SUBACK).reasons == [1] * len(filters)
        return self

    def say(self, topic, payload=b"hi", **options):
        """What the gateway answers to it at QoS 1."""
        self.send(packets.publish(self.version, topic, payload, qos=1, packet_id=7, **options))
        return self.next(PUBACK).reason

    def heard(self):
        """Topic, payload and user properties of the next message."""
        got = self.next(PUBLISH)
        return got.topic, got.payload, got.properties.get(USER_PROPERTY, [])


class SenderTest(unittest.TestCase):
    def start(self, *arguments):
        return self.enterContext(Gateway("--shards", "2", "--data", "none", *arguments))

    def phone(self, gateway, user, **options):
        return self.enterContext(Phone(gateway, user, **options))

    def test_receivers_are_told_the_sender_of_a_message(self):
        gateway = self.start()
        bob = self.phone(gateway, "bob").subscribe_to("room/#", "news/#")
        old = self.phone(gateway, "alice", version=4)
        new = self.phone(gateway, "a/b+c")
        for alice, name in ((old, "alice"), (new, "a/b+c")):
            for topic in ("inbox/bob", "room/x", "room/x/y"):
                alice.say(topic)
                self.assertEqual(bob.heard(), (topic, b"hi", [("from", name)]))
        new.say("room/x", props=[(USER_PROPERTY, ("color", "red"))])
        self.assertEqual(bob.heard()[2], [("from", "a/b+c"), ("color", "red")])
        new.say("news/x", props=[FORGED])  # all other topics are the company's own
        self.assertEqual(bob.heard(), ("news/x", b"hi", [("from", "alice")]))

    def test_a_client_that_states_a_sender_is_refused(self):
        gateway = self.start()
        bob = self.phone(gateway, "bob").subscribe_to("room/#", "$share/g/room/+")
        mallory = self.phone(gateway, "mallory")
        for topic in ("inbox/bob", "room/x", "room/x/y", "$delayed/1/inbox/bob", "$delayed/1/room/x"):
            for retain in (False, True):
                self.assertEqual(mallory.say(topic, retain=retain, props=[FORGED]), 0x87)
                two = [(USER_PROPERTY, ("from", "mallory")), FORGED]
                self.assertEqual(mallory.say(topic, retain=retain, props=two), 0x87)
        self.assertLess(mallory.say("room/x", b"alias", props=[(ALIAS, 3)]), 0x80)
        for _ in range(2):  # the subscription and the group
            self.assertEqual(bob.heard(), ("room/x", b"alias", [("from", "mallory")]))
        self.assertEqual(mallory.say("", props=[(ALIAS, 3), FORGED]), 0x87)
        mallory.send(packets.publish(5, "room/x", b"QoS 0", props=[FORGED]))
        self.assertEqual(mallory.say("room/x", b"the end"), 0)
        self.assertEqual(bob.heard(), ("room/x", b"the end", [("from", "mallory")]))

    def test_a_will_states_no_sender_either(self):
        gateway = self.start()
        bob = self.phone(gateway, "bob").subscribe_to("room/#")
        forged = self.phone(gateway, "mallory", will=("room/x", b"gone", 1, False, [FORGED]))
        self.assertEqual(forged.connack.reason, 0x87)
        for delay in ((), ((WILL_DELAY, 1),)):
            honest = Phone(gateway, "mallory", will=("room/x", b"gone", 1, True, delay))
            self.assertEqual(honest.connack.reason, 0)
            honest.close()
            self.assertEqual(bob.heard(), ("room/x", b"gone", [("from", "mallory")]))

    def test_delayed_and_retained_messages_tell_it_later(self):
        gateway = self.start()
        alice = self.phone(gateway, "alice")
        alice.say("$delayed/5/inbox/bob", b"later")
        alice.say("room/x", b"kept", retain=True)
        bob = self.phone(gateway, "bob").subscribe_to("room/x")
        self.assertEqual(bob.heard(), ("room/x", b"kept", [("from", "alice")]))
        self.assertEqual(bob.heard(), ("inbox/bob", b"later", [("from", "alice")]))

    def test_a_backend_states_the_sender(self):
        gateway = self.start()
        bob = self.phone(gateway, "bob")
        for properties, expected in (({}, []), ({"from": "alice"}, [("from", "alice")])):
            gateway.ask("POST", "/api/v1/publish", {"inbox": "bob", "payload": "x", "properties": properties})
            self.assertEqual(bob.heard(), ("inbox/bob", b"x", expected))

    def test_receivers_of_3_1_1_are_told_by_the_topic(self):
        gateway = self.start("--sender-in-topic", "on", "--sender-property", "author")
        old = self.phone(gateway, "bob", version=4).subscribe_to("room/#", "news/#")
        new = self.phone(gateway, "bob").subscribe_to("room/#")
        alice = self.phone(gateway, "a/b")
        alice.say("news/x")
        self.assertEqual(old.heard()[0], "news/x")
        for topic in ("inbox/bob", "room/x"):
            for qos in (0, 2):
                alice.send(packets.publish(5, topic, b"hi", qos=qos, packet_id=len(topic)))
                self.assertEqual(old.heard()[:2], (f"{topic}/a%2Fb", b"hi"))
                self.assertEqual(new.heard(), (topic, b"hi", [("author", "a/b")]))
        too_long = "room/" + "x" * 65_530
        self.assertEqual(alice.say(too_long), 0x90)
        gateway.ask("POST", "/api/v1/publish", {"inbox": "bob", "payload": "x"})
        self.assertEqual(old.heard()[:2], ("inbox/bob", b"x"))

    def test_an_empty_name_turns_it_off(self):
        gateway = self.start("--sender-property", "")
        bob = self.phone(gateway, "bob")
        alice = self.phone(gateway, "alice")
        self.assertLess(alice.say("inbox/bob", props=[FORGED]), 0x80)
        self.assertEqual(bob.heard(), ("inbox/bob", b"hi", [("from", "alice")]))


if __name__ == "__main__":
    unittest.main()
