"""Rooms with members: receivers, permissions, and what a restart does not change."""

import tempfile
import unittest
from pathlib import Path

import packets
from gateway import Client, Gateway, wait_until
from packets import CONNACK, PUBACK, PUBLISH, SUBACK, FromServer


class Phone(Client):
    """A client of 5.0 that acknowledges what it gets. `keep`: its session, in seconds."""

    def __init__(self, gateway, user, keep=0, will=None):
        super().__init__(gateway.port)
        self.got = []
        self.send(packets.connect(5, f"{user}-phone", username=user, clean=not keep, will=will,
                                  props=[(0x11, keep)] if keep else ()))
        self.connack = self.next(CONNACK)

    def next(self, expected):
        while True:
            one = FromServer(*self.receive(), 5)
            if one.type == PUBLISH:
                self.got.append((one.topic, one.payload.decode()))
                if one.qos:
                    self.send(packets.answer(5, PUBACK, one.packet_id))
            if one.type == expected:
                return one

    def hear(self):
        self.next(PUBLISH)
        return self.got.pop()

    def subscribe_to(self, *filters):
        self.send(packets.subscribe(5, 1, [(name, 1) for name in filters]))
        return self.next(SUBACK).reasons

    def say(self, topic, payload="hi", **options):
        self.send(packets.publish(5, topic, payload.encode(), qos=1, packet_id=9, **options))
        return self.next(PUBACK).reason


class RoomTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.data = Path(folder.name) / "data"

    def start(self, *arguments, rooms="members"):
        return self.enterContext(
            Gateway("--shards", "2", "--data", self.data, "--rooms", rooms, *arguments))

    def phone(self, gateway, user, **options):
        return self.enterContext(Phone(gateway, user, **options))

    def change(self, gateway, room, add=(), remove=()):
        status, said = gateway.ask("POST", f"/api/v1/rooms/{room}/members", {"add": list(add), "remove": list(remove)})
        self.assertEqual(status, 200, said)
        return said["added"], said["removed"]

    def members(self, gateway, room):
        found, after = [], ""
        while True:
            _, said = gateway.ask("GET", f"/api/v1/rooms/{room}/members?limit=3{after}")
            found += said["members"]
            if "next" not in said:
                return found
            after = f"&after={said['next']}"

    def test_members_get_a_message_without_a_subscription_and_once(self):
        for rooms in ("members", "open"):
            with self.subTest(rooms=rooms):
                gateway = self.start(rooms=rooms)
                self.change(gateway, "lobby", add=["alice", "bob", "carol", "dave"])
                alice, bob, carol, dave = (self.phone(gateway, name) for name in ("alice", "bob", "carol", "dave"))
                self.assertEqual(bob.subscribe_to("room/lobby"), [1])
                self.assertEqual(carol.subscribe_to("room/#", "room/+"), [1, 1])
                for payload in ("one", "two"):
                    self.assertEqual(alice.say("room/lobby", payload), 0)
                    for phone in (bob, carol, dave):
                        self.assertEqual(phone.hear(), ("room/lobby", payload))
                self.assertEqual(alice.say("room/lobby/typing"), 0)  # below the room, for subscribers
                self.assertEqual(carol.hear(), ("room/lobby/typing", "hi"))
                self.assertEqual(alice.say("room/lobby", "three"), 0)
                for phone in (bob, dave):
                    self.assertEqual(phone.hear(), ("room/lobby", "three"))
                gateway.stop()

    def test_nobody_else_reads_or_writes_a_closed_room(self):
        gateway = self.start()
        self.change(gateway, "lobby", add=["alice"])
        gateway.ask("POST", "/api/v1/publish", {"room": "lobby", "payload": "kept", "retain": True})
        eve = self.phone(gateway, "eve")
        for topic in ("room/lobby", "room/lobby/x", "room/none", "$delayed/1/room/lobby"):
            self.assertEqual(eve.say(topic), 0x87, topic)
            self.assertEqual(eve.say(topic, retain=True), 0x87, topic)
        self.assertEqual(eve.subscribe_to("room/lobby", "room/lobby/#", "$share/g/room/lobby", "$share/g/#", "$share/g/x"),
                         [0x87, 0x87, 0x87, 0x87, 1])
        self.assertEqual(eve.subscribe_to("room/#", "room/+", "+/lobby", "#"), [1] * 4)
        self.assertEqual(Phone(gateway, "eve", will=("room/lobby", b"x", 1, False, ())).connack.reason, 0x87)
        eve = self.phone(gateway, "eve")
        eve.subscribe_to("#")
        alice = self.phone(gateway, "alice")
        alice.say("room/lobby", "secret")
        alice.say("elsewhere", "the end")
        self.assertEqual(eve.hear(), ("elsewhere", "the end"))
        self.assertEqual(eve.got, [])

    def test_groups_of_before_rooms_were_closed_read_nothing(self):
        gateway = self.start(rooms="open")
        eve = Phone(gateway, "eve", keep=100)
        self.assertEqual(eve.subscribe_to("$share/g/#", "$share/h/room/lobby", "room/lobby"), [1, 1, 1])
        gateway.stop()
        gateway = self.start()
        self.change(gateway, "lobby", add=["alice"])
        self.assertEqual(self.phone(gateway, "alice").say("room/lobby", "secret"), 0)
        gateway.ask("POST", "/api/v1/publish", {"topic": "elsewhere", "payload": "the end"})
        eve = self.phone(gateway, "eve", keep=100)
        self.assertEqual(eve.hear(), ("elsewhere", "the end"))
        self.assertEqual(eve.got, [])

    def test_a_removed_member_gets_no_more_messages_even_with_subscriptions(self):
        gateway = self.start()
        self.change(gateway, "lobby", add=["alice", "bob"])
        alice, bob = self.phone(gateway, "alice"), self.phone(gateway, "bob")
        bob.subscribe_to("room/lobby", "room/lobby/#", "end")
        self.assertEqual(self.change(gateway, "lobby", remove=["bob", "nobody"]), (0, 1))
        self.assertEqual(alice.say("room/lobby"), 0)  # she hears herself
        self.assertEqual(alice.say("room/lobby/x"), 0x10)
        alice.say("end", "end")
        self.assertEqual(bob.hear(), ("end", "end"))
        self.assertEqual(bob.say("room/lobby"), 0x87)

    def test_messages_wait_for_disconnected_members_and_survive_a_kill(self):
        gateway = self.start()
        self.change(gateway, "lobby", add=["alice", "bob", "a/b", "dave"])
        bob = Phone(gateway, "bob", keep=100)
        bob.close()
        wait_until(lambda: gateway.get_json("/api/v1/users/bob")[1]["state"] == "offline", what="bob offline")
        alice = self.phone(gateway, "alice")
        self.assertEqual(alice.say("room/lobby", "while you were out"), 0)
        self.change(gateway, "lobby", remove=["dave"])
        gateway.kill()
        gateway = self.start()
        self.assertEqual(self.members(gateway, "lobby"), ["a/b", "alice", "bob"])
        for name, keep in (("bob", 100), ("a/b", 0)):
            self.assertEqual(self.phone(gateway, name, keep=keep).hear(), ("room/lobby", "while you were out"))
        dave = self.phone(gateway, "dave")
        gateway.ask("POST", "/api/v1/publish", {"topic": "inbox/dave", "payload": "the end"})
        self.assertEqual(dave.hear(), ("inbox/dave", "the end"))
        self.assertEqual(dave.got, [])

    def test_messages_wait_for_disconnected_members_without_a_store_too(self):
        gateway = self.enterContext(Gateway("--shards", "2", "--data", "none", "--rooms", "members"))
        self.change(gateway, "lobby", add=["alice", "bob", "carol"])
        Phone(gateway, "bob", keep=100).close()
        wait_until(lambda: gateway.get_json("/api/v1/users/bob")[1]["state"] == "offline", what="bob offline")
        alice = self.phone(gateway, "alice")
        for payload in ("one", "two"):
            self.assertEqual(alice.say("room/lobby", payload), 0)
        for name, keep in (("bob", 100), ("carol", 0)):
            phone = self.phone(gateway, name, keep=keep)
            self.assertEqual([phone.hear(), phone.hear()], [("room/lobby", "one"), ("room/lobby", "two")])
            gateway.ask("POST", "/api/v1/publish", {"inbox": name, "payload": "the end"})
            self.assertEqual(phone.hear(), ("inbox/" + name, "the end"))
            self.assertEqual(phone.got, [])

    def test_a_backend_manages_members(self):
        gateway = self.start()
        put = lambda target: gateway.ask("PUT", f"/api/v1/rooms/{target}")
        self.assertEqual(put("lob%2Fby/members/bob"), (201, {"added": 1, "removed": 0}))
        self.assertEqual(put("lob%2Fby/members/bob"), (200, {"added": 0, "removed": 0}))
        self.assertEqual(self.change(gateway, "club", add=[f"u{i:03}" for i in range(100)]), (100, 0))
        self.assertEqual(self.members(gateway, "club"), [f"u{i:03}" for i in range(100)])
        self.assertEqual(gateway.ask("GET", "/api/v1/rooms")[1],
                         {"rooms": [{"room": "club", "members": 100}, {"room": "lob/by", "members": 1}]})
        said = gateway.ask("GET", "/api/v1/rooms?limit=1")[1]
        self.assertEqual((said["rooms"][0]["room"], said["next"]), ("club", "club"))
        self.assertEqual(gateway.ask("GET", "/api/v1/users/bob/rooms")[1], {"user": "bob", "rooms": ["lob/by"]})
        bob = self.phone(gateway, "bob")
        said = gateway.ask("POST", "/api/v1/publish", {"rooms": ["lob/by", "club"], "payload": "news"})[1]
        self.assertEqual([(one["sent"], one["queued"]) for one in said["published"]], [(1, 0), (0, 100)])
        self.assertEqual(bob.hear(), ("room/lob%2Fby", "news"))
        self.assertEqual(gateway.ask("DELETE", "/api/v1/rooms/club/members"), (200, {"added": 0, "removed": 100}))
        self.assertEqual(gateway.ask("GET", "/api/v1/rooms")[1]["rooms"], [{"room": "lob/by", "members": 1}])

    def test_there_is_a_limit(self):
        gateway = self.start("--max-room-members", "10")
        status, said = gateway.ask("POST", "/api/v1/rooms/x/members", {"add": [f"u{i}" for i in range(100)]})
        self.assertEqual((status, said["error"]), (507, "max-room-members is reached"))
        self.assertLess(said["added"], 13)
        too_many = {"add": [f"u{i}" for i in range(10_001)]}
        self.assertEqual(gateway.ask("POST", "/api/v1/rooms/x/members", too_many)[0], 400)


if __name__ == "__main__":
    unittest.main()
