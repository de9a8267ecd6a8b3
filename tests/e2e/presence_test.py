"""Presence as three kinds of onlookers see it: MQTT subscribers, HTTP callers, readers of the events."""

import json
import signal
import socket
import struct
import tempfile
import time
import unittest
from pathlib import Path
from urllib.parse import quote

from gateway import (DISCONNECT, Client, Gateway, connect_packet, packet, publish_packet, wait_until)

USER_FIELDS = {"user", "state", "since", "last_seen", "version", "cause", "devices"}
EVENT_FIELDS = {"time", "user", "state", "cause", "version", "client", "silent_ms"}


class PresenceTest(unittest.TestCase):
    def setUp(self):
        self.gateway = self.enterContext(Gateway("--idle-timeout", "2s", "--duel-takeovers", "0", events=True))
        self.latest = {}

    def client(self, name, **options):
        client = Client(self.gateway.port).login(name, **options)
        self.addCleanup(client.close)
        return client

    def watcher(self, *filters):
        watcher = self.client("watcher", keepalive=600)
        watcher.subscribe(*filters or ["presence/+"], qos=1)
        return watcher

    def told(self, watcher, user):
        """The next news about this user. A change may be told twice: as retained and as it happens."""
        while True:
            topic, payload = watcher.receive_publish()
            seen = json.loads(payload)
            if topic == "presence/" + user and seen["version"] > self.latest.get(user, 0):
                self.latest[user] = seen["version"]
                return seen

    def user(self, name):
        status, body = self.gateway.get_json("/api/v1/users/" + quote(name, safe=""))
        self.assertEqual(status, 200)
        return body

    def check_versions_grow(self):
        latest = {}
        for event in self.gateway.events():
            self.assertEqual(set(event), EVENT_FIELDS)
            self.assertGreater(event["version"], latest.get(event["user"], 0), event)
            latest[event["user"]] = event["version"]

    def test_three_views_tell_the_same(self):
        watcher = self.watcher()
        alice = self.client("phone", username="alice", version=5)
        for state, cause in (("online", "login"), ("offline", "logout")):
            seen = self.told(watcher, "alice")
            asked = self.user("alice")
            event = self.gateway.wait_for_event(user="alice", state=state)
            self.assertEqual(set(seen), USER_FIELDS)
            self.assertEqual(set(asked), USER_FIELDS)
            for field in ("user", "state", "version", "cause"):
                self.assertEqual(seen[field], event[field], field)
                self.assertEqual(asked[field], event[field], field)
            self.assertEqual((seen["state"], seen["cause"]), (state, cause))
            self.assertEqual(asked["since"], seen["since"])
            self.assertEqual(event["client"], "phone")
            if state == "online":
                self.assertEqual([device["client"] for device in seen["devices"]], ["phone"])
                self.assertEqual(set(seen["devices"][0]), {"client", "since", "last_seen"})
                alice.disconnect()
            else:
                self.assertEqual(seen["devices"], [])
        self.check_versions_grow()

    def test_a_later_subscriber_gets_the_latest_state_as_retained(self):
        self.client("here").ping()
        self.client("gone").disconnect()
        self.gateway.wait_for_event(user="gone", state="offline")
        late = self.client("late", keepalive=600)
        late.send(b"\x82\x0f\0\1" + b"\0\x0apresence/+\0")
        states = {}
        while not {"here", "gone"} <= set(states):
            first, body = late.receive()
            if first >> 4 == 3:
                size = struct.unpack(">H", body[:2])[0]
                seen = json.loads(body[2 + size:])
                self.assertEqual(first & 1, 1 if seen["user"] != "late" else first & 1, "retain")
                states[seen["user"]] = seen["state"]
        self.assertEqual((states["here"], states["gone"]), ("online", "offline"))

    def test_two_devices_of_one_user_change_state_with_the_first_and_the_last(self):
        watcher = self.watcher("presence/bob")
        phone = self.client("phone", username="bob")
        self.assertEqual(self.told(watcher, "bob")["state"], "online")
        tablet = self.client("tablet", username="bob", version=5)
        self.assertEqual(sorted(device["client"] for device in self.user("bob")["devices"]),
                         ["phone", "tablet"])
        phone.disconnect()
        wait_until(lambda: len(self.user("bob")["devices"]) == 1, what="one device left")
        self.assertEqual(self.user("bob")["state"], "online")
        tablet.disconnect()
        last = self.told(watcher, "bob")
        self.assertEqual((last["state"], last["cause"]), ("offline", "logout"))
        wait_until(lambda: len(self.gateway.events("bob")) == 2, what="two events")
        self.assertEqual([event["state"] for event in self.gateway.events("bob")], ["online", "offline"])
        self.assertEqual(self.gateway.events("bob")[-1]["client"], "tablet")
        self.check_versions_grow()

    def test_every_cause_is_named(self):
        self.client("logout").disconnect()
        self.client("lost").close()
        resets = self.client("resets")
        resets.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        resets.close()
        self.client("kicked").send(b"\xF0\x00")  # AUTH is no packet of MQTT 3.1.1
        first = self.client("taken", version=5)
        second = self.client("taken", keepalive=600)
        self.assertEqual(first.receive_until_closed()[0][1][0], 0x8E)
        second.ping()
        silent = self.client("silent", keepalive=1)
        self.assertEqual(silent.receive_until_closed(), [])
        stays = self.client("stays", keepalive=600)
        expected = {"logout": "logout", "lost": "connection_lost", "resets": "connection_lost",
                    "kicked": "kicked", "silent": "timeout"}
        for user, cause in expected.items():
            event = self.gateway.wait_for_event(user=user, state="offline")
            self.assertEqual(event["cause"], cause, user)
        silence = self.gateway.events("silent")[-1]["silent_ms"]
        self.assertGreaterEqual(silence, 1500)
        self.assertLess(silence, 2600 + 1000 * self.gateway.metric("pulsegate_loop_lag_seconds_sum"))
        self.assertEqual([(event["state"], event["cause"]) for event in self.gateway.events("taken")],
                         [("online", "login"), ("online", "taken_over")])
        second.disconnect()
        self.gateway.wait_for_event(user="taken", cause="logout")
        stays.ping()
        self.gateway.stop(signal.SIGTERM)
        self.assertEqual(self.gateway.events("stays")[-1]["cause"], "shutdown")
        self.check_versions_grow()
        for user in {event["user"] for event in self.gateway.events()}:
            self.assertEqual(self.gateway.events(user)[-1]["state"], "offline", user)

    def test_a_takeover_never_shows_offline(self):
        watcher = self.watcher("presence/carol")
        clients = [self.client("phone", username="carol") for _ in range(20)]
        clients[-1].ping()
        for number in range(20):
            seen = self.told(watcher, "carol")
            self.assertEqual((seen["state"], seen["cause"]),
                             ("online", "taken_over" if number else "login"))
        self.check_versions_grow()

    def test_the_same_client_id_of_another_user_is_another_session(self):
        one = self.client("phone", username="dora")
        other = self.client("phone", username="emil")
        one.ping()
        other.ping()
        self.assertEqual(self.user("dora")["state"], "online")

    def test_several_users_are_asked_for_at_once(self):
        self.client("a/b+c%").ping()
        self.client("plain").ping()
        status, body = self.gateway.get_json("/api/v1/users?ids=plain,nobody,a%2Fb%2Bc%25")
        self.assertEqual(status, 200)
        self.assertEqual([user["user"] for user in body["users"]], ["plain", "a/b+c%"])
        self.assertEqual(body["unknown"], ["nobody"])
        self.assertEqual(self.user("a/b+c%")["state"], "online")
        self.assertEqual(self.gateway.get("/api/v1/users/nobody")[0], 404)
        self.assertEqual(json.loads(self.gateway.get("/api/v1/users/nobody")[1])["user"], "nobody")
        self.assertEqual(self.gateway.get_json("/api/v1/users?ids=nobody"), (200, {"users": [], "unknown": ["nobody"]}))

    def test_a_hundred_answers_in_a_row_are_whole(self):
        self.client("whole").ping()
        for _ in range(100):
            self.assertEqual(self.user("whole")["state"], "online")
            self.assertEqual(self.gateway.get_json("/api/v1/users?ids=whole")[0], 200)

    def test_nobody_else_writes_presence(self):
        watcher = self.watcher("presence/victim", "mark")
        liar = self.client("liar")
        liar.publish("presence/victim", b'{"state":"offline"}', qos=1)
        liar.publish("mark", b"after")
        self.assertEqual(watcher.receive_publish()[0], "mark")
        self.assertEqual(self.gateway.get("/api/v1/users/victim")[0], 404)

    def test_a_client_that_leaves_while_messages_are_under_way_has_logged_out(self):
        watcher = self.watcher("last/will", "mark")
        talker = self.client("talker")
        for number in range(30):
            name = f"leaver{number}"
            leaver = Client(self.gateway.port).login(name, will=("last/will", name))
            leaver.subscribe("flood")
            talker.send(publish_packet("flood", bytes(20_000)) * 20)
            leaver.receive()
            leaver.send(DISCONNECT)
            leaver.close()  # unread messages turn this into a reset
            self.assertEqual(self.gateway.wait_for_event(user=name, state="offline")["cause"], "logout")
        talker.publish("mark")
        self.assertEqual(watcher.receive_publish()[0], "mark")

    def test_bytes_of_an_unfinished_packet_keep_nobody_online(self):
        dribbler = self.client("dribbler", keepalive=1)
        dribbler.socket.settimeout(0.2)  # its pace
        big = packet(0x30, bytes(1000))
        for at in range(500):
            try:
                dribbler.send(big[at:at + 1])
                if dribbler.socket.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except ConnectionError:
                break
        else:
            self.fail("a dribbler lives for ever")
        self.assertEqual(self.gateway.wait_for_event(user="dribbler", state="offline")["cause"], "timeout")

    def test_user_from_client_id_makes_each_client_a_user(self):
        with Gateway("--user-from", "client-id", events=True) as gateway:
            with Client(gateway.port).login("device-1", username="fleet"):
                gateway.wait_for_event(user="device-1", state="online")

    def test_an_assigned_client_id_is_told_and_is_the_user(self):
        client = Client(self.gateway.port)
        self.addCleanup(client.close)
        client.send(connect_packet("", version=5))
        connack = client.receive()[1]
        self.assertEqual(connack[1], 0)
        event = wait_until(lambda: self.gateway.events(), what="an event")[0]
        self.assertIn(event["user"].encode(), connack)


class KilledGatewayTest(unittest.TestCase):
    """Users that were online at a kill have time to come back."""

    LIMIT = 6  # of a keepalive of 4 s

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.data = Path(folder.name) / "data"

    def gateway(self):
        return Gateway("--shards", "2", "--data", self.data, "--presence-feed", "on", events=True)

    def kill(self):
        """Ann, bob and carl were online. Returns where the feed ended."""
        gateway = self.gateway().start()
        self.addCleanup(gateway.folder.cleanup)
        for user in ("ann", "bob"):
            gateway.connect(f"{user}-phone", username=user, keepalive=4)
        gateway.connect("carl-desk", username="carl", keepalive=4, clean=False)
        gateway.await_store()
        cursor = gateway.get_json("/api/v1/presence/changes")[1]["cursor"]
        gateway.kill()
        return cursor

    @staticmethod
    def told(watcher, users):
        """What a watcher is told until it knows that all these are offline."""
        told = []
        while not set(users) <= {state["user"] for state in told if state["state"] == "offline"}:
            told.append(json.loads(watcher.receive_publish()[1]))
        return told

    def test_a_user_that_is_back_within_its_limit_was_never_offline(self):
        cursor = self.kill()
        started = time.monotonic()
        with self.gateway() as gateway:
            watcher = gateway.connect("watcher", keepalive=600)
            watcher.subscribe("presence/ann", "presence/bob", "presence/carl", qos=1)
            before = gateway.get_json("/api/v1/users/ann")[1]
            self.assertEqual((before["state"], before["cause"], before["devices"]), ("online", "login", []))
            names = [user["user"] for user in gateway.get_json("/api/v1/users?state=online")[1]["users"]]
            self.assertEqual(sorted(names), ["ann", "bob", "carl", "watcher"])
            gateway.connect("ann-phone", username="ann", keepalive=600)
            after = gateway.get_json("/api/v1/users/ann")[1]
            self.assertEqual([device["client"] for device in after["devices"]], ["ann-phone"])
            for field in ("state", "cause", "version", "since"):
                self.assertEqual(after[field], before[field], field)
            told = self.told(watcher, ["bob", "carl"])
            self.assertGreaterEqual(time.monotonic() - started, self.LIMIT)
            self.assertEqual({state["state"] for state in told if state["user"] == "ann"}, {"online"})
            self.assertEqual({state["version"] for state in told if state["user"] == "ann"}, {before["version"]})
            for user in ("bob", "carl"):
                event = gateway.wait_for_event(user=user)
                self.assertEqual((event["state"], event["cause"]), ("offline", "node_lost"))
                self.assertGreaterEqual(event["silent_ms"], 1000 * self.LIMIT)
                self.assertEqual(len(gateway.events(user)), 1)
                self.assertEqual(gateway.get_json(f"/api/v1/users/{user}")[1]["cause"], "node_lost")
            self.assertEqual(gateway.events("ann"), [])
            wait_until(lambda: len(self.changes(gateway, cursor, "carl")) == 1, what="carl in the feed")
            self.assertEqual([change["cause"] for change in self.changes(gateway, cursor, "bob")], ["node_lost"])
            self.assertEqual(self.changes(gateway, cursor, "ann"), [])

    def changes(self, gateway, cursor, user):
        page = gateway.get_json(f"/api/v1/presence/changes?after={cursor}&limit=1000")[1]
        return [change for change in page["changes"] if change["user"] == user]

    def test_a_stop_reports_awaited_users_as_offline(self):
        self.kill()
        with self.gateway() as gateway:
            self.assertEqual(gateway.get_json("/api/v1/users/bob")[1]["state"], "online")
            gateway.stop(signal.SIGTERM)
            self.assertEqual([(event["state"], event["cause"]) for event in gateway.events("bob")],
                             [("offline", "shutdown")])


if __name__ == "__main__":
    unittest.main()
