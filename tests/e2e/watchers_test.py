"""Presence for friends only: permissions in each way that MQTT has, and what a restart does not change."""

import json
import tempfile
import unittest
from pathlib import Path

from gateway import Gateway, wait_until
from room_test import Phone


class WatchersTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.data = Path(folder.name) / "data"

    def start(self, presence_for="watchers", data="none"):
        """Without a store, which would hold a new user's first change back: a subscription might be told it twice."""
        return self.enterContext(Gateway("--shards", "2", "--data", data, "--presence-for", presence_for))

    def phone(self, gateway, user, **options):
        return self.enterContext(Phone(gateway, user, **options))

    def change(self, gateway, user, add=(), remove=()):
        status, said = gateway.ask("POST", f"/api/v1/users/{user}/watchers", {"add": list(add), "remove": list(remove)})
        self.assertEqual(status, 200, said)

    def hear(self, phone):
        topic, payload = phone.hear()
        return topic, json.loads(payload)["state"]

    def rest(self, gateway, phone):
        """The topics of what is still to come."""
        gateway.ask("POST", "/api/v1/publish", {"topic": "end", "payload": "of it"})
        topics = []
        while (topic := phone.hear()[0]) != "end":
            topics.append(topic)
        return topics

    def test_watchers_see_it_and_nobody_else(self):
        gateway = self.start()
        self.change(gateway, "bob", add=["alice"])
        alice, eve, bob = (self.phone(gateway, name) for name in ("alice", "eve", "bob"))
        self.assertEqual(eve.subscribe_to("presence/bob", "presence/bob/#", "$share/g/presence/bob", "$share/g/presence/+"),
                         [0x87] * 4)
        self.assertEqual(eve.subscribe_to("presence/+", "presence/#", "+/bob", "#"), [1] * 4)
        self.assertEqual(self.hear(eve), ("presence/eve", "online"))  # her own, as she subscribed
        self.assertEqual(alice.subscribe_to("presence/bob", "presence/eve"), [1, 0x87])
        self.assertEqual(self.hear(alice), ("presence/bob", "online"))
        bob.close()
        self.assertEqual(self.hear(alice), ("presence/bob", "offline"))
        self.assertEqual(self.rest(gateway, eve), ["presence/eve"])  # by her other subscription

    def test_a_wildcard_shows_the_users_that_the_client_watches(self):
        gateway = self.start()
        for name in ("bob", "carol"):
            self.change(gateway, name, add=["alice"])
        phones = [self.phone(gateway, name) for name in ("bob", "carol", "dave")]
        alice = self.phone(gateway, "alice")
        self.assertEqual(alice.subscribe_to("presence/+"), [1])
        seen = {self.hear(alice) for _ in range(3)}
        self.assertEqual(seen, {(f"presence/{name}", "online") for name in ("alice", "bob", "carol")})
        for phone in phones:
            phone.close()
        self.assertEqual({self.hear(alice) for _ in range(2)},
                         {("presence/bob", "offline"), ("presence/carol", "offline")})

    def test_a_removed_watcher_is_told_nothing_more(self):
        gateway = self.start()
        self.change(gateway, "bob", add=["alice"])
        alice = self.phone(gateway, "alice")
        alice.subscribe_to("presence/bob", "end")
        self.change(gateway, "bob", remove=["alice"])
        bob = self.phone(gateway, "bob")
        wait_until(lambda: gateway.ask("GET", "/api/v1/users/bob")[0] == 200)
        self.assertEqual(self.rest(gateway, alice), [])
        self.change(gateway, "bob", add=["alice"])
        self.assertEqual(alice.subscribe_to("presence/bob"), [1])
        self.assertEqual(self.hear(alice), ("presence/bob", "online"))
        bob.close()

    def test_lists_outlive_the_process_and_are_no_rooms(self):
        gateway = self.start(data=self.data)
        self.change(gateway, "a%2Fb", add=["alice", "carol"])
        gateway.ask("PUT", "/api/v1/rooms/lobby/members/alice")
        gateway.stop()
        gateway = self.start(data=self.data)
        self.assertEqual(gateway.ask("GET", "/api/v1/users/a%2Fb/watchers")[1], {"watchers": ["alice", "carol"]})
        self.assertEqual(gateway.ask("GET", "/api/v1/rooms")[1], {"rooms": [{"room": "lobby", "members": 1}]})
        self.assertEqual(gateway.ask("GET", "/api/v1/users/alice/rooms")[1], {"user": "alice", "rooms": ["lobby"]})
        alice = self.phone(gateway, "alice")
        self.assertEqual(alice.subscribe_to("presence/a%2Fb", "presence/other"), [1, 0x87])
        self.assertEqual(alice.say("presence/a%2Fb"), 0x87)  # nobody publishes there, watchers neither
        gateway.stop()
        gateway = self.start(presence_for="everybody", data=self.data)
        self.assertEqual(self.phone(gateway, "eve").subscribe_to("presence/other"), [1])


if __name__ == "__main__":
    unittest.main()
