"""Why is a user offline? The last events of each user, even of a user that was never let in."""

import time
import unittest
from urllib.parse import quote

from credentials import Folder
from gateway import DISCONNECT, Gateway, wait_until


def history(gateway, user, query=""):
    status, said = gateway.ask("GET", f"/api/v1/users/{quote(user, safe='')}/history{query}")
    assert status == 200, said
    assert said["user"] == user
    return said["history"]


def wait_for_events(gateway, user, *events):
    """The newest first, as the API has them."""
    wait_until(lambda: [one["event"] for one in history(gateway, user)] == list(events), what=f"{events} of {user}")
    return history(gateway, user)


class HistoryTest(unittest.TestCase):
    def setUp(self):
        self.gateway = self.enterContext(Gateway("--shards", "2"))

    def test_a_login_and_its_end_are_told_with_all_that_is_known(self):
        arrived = time.monotonic()
        client = self.gateway.connect("phone", username="ann/1", version=5)
        client.send(DISCONNECT)
        ended, login = wait_for_events(self.gateway, "ann/1", "disconnected", "login")
        self.assertLessEqual(login["time"], ended["time"])
        for one in (login, ended):
            self.assertRegex(one.pop("time"), r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
            self.assertEqual((one.pop("client"), one.pop("mqtt")), ("phone", "5.0"))
        self.assertRegex(login.pop("address"), r"^127\.0\.0\.1:\d+$")
        self.assertEqual(login.pop("listener"), f"mqtt://127.0.0.1:{self.gateway.port}")
        self.assertLessEqual(ended.pop("silence"), time.monotonic() - arrived)
        self.assertEqual(login, {"event": "login"})
        self.assertEqual(ended, {"event": "disconnected", "cause": "logout", "why": "the client disconnected"})

    def test_a_timeout_is_told_with_the_silence(self):
        self.gateway.connect("phone", username="ann", keepalive=1)
        ended, _ = wait_for_events(self.gateway, "ann", "disconnected", "login")
        self.assertEqual((ended["cause"], ended["why"]), ("timeout", "silent too long"))
        self.assertGreaterEqual(ended["silence"], 1.5)
        self.assertEqual(ended["code"], 0x8D)

    def test_a_takeover_a_kick_and_a_ban_are_told(self):
        self.gateway.connect("phone", username="ann")
        self.gateway.connect("phone", username="ann").send(b"\xc1\x00")
        ended, *_ = wait_for_events(self.gateway, "ann", "disconnected", "login", "taken_over", "login")
        self.assertEqual((ended["cause"], ended["code"]), ("kicked", 0x81))
        self.assertEqual(self.gateway.ask("PUT", "/api/v1/bans?user=ann&reason=spam")[0], 200)
        self.gateway.ask("DELETE", "/api/v1/bans?user=ann")
        lifted, banned, *_ = history(self.gateway, "ann")
        self.assertEqual((lifted["event"], banned["event"], banned["why"]), ("ban_lifted", "banned", "spam"))

    def test_a_session_that_ends_is_told(self):
        self.gateway.connect("phone", username="ann", clean=False).send(DISCONNECT)
        wait_for_events(self.gateway, "ann", "disconnected", "login")
        self.assertEqual(self.gateway.ask("DELETE", "/api/v1/clients?user=ann&sessions=end")[0], 200)
        self.assertEqual(history(self.gateway, "ann")[0]["event"], "session_ended")

    def test_lost_messages_are_told_by_their_number(self):
        with Gateway("--max-queued-messages", "10", "--shards", "1") as gateway:
            mute = gateway.connect("mute", clean=False)
            mute.subscribe("flood", qos=1)
            mute.send(DISCONNECT)
            wait_for_events(gateway, "mute", "disconnected", "login")
            for _ in range(3):
                self.assertEqual(gateway.ask("POST", "/api/v1/publish", [{"topic": "flood", "payload": "x"}] * 10)[0], 200)
            gateway.connect("mute", clean=False)
            dropped = next(one for one in history(gateway, "mute") if one["event"] == "messages_dropped")
            self.assertEqual((dropped["count"], dropped["why"]), (20, "the queue was full"))

    def test_since_and_limit_choose_and_a_stranger_has_none(self):
        for i in range(5):
            self.gateway.connect(f"c{i}", username="ann")
        newest = history(self.gateway, "ann")
        self.assertEqual([one["client"] for one in newest], ["c4", "c3", "c2", "c1", "c0"])
        self.assertEqual(history(self.gateway, "ann", "?limit=2"), newest[:2])
        self.assertEqual(history(self.gateway, "ann", "?since=2100-01-01T00:00:00Z"), [])
        self.assertEqual(len(history(self.gateway, "ann", f"?since={newest[4]['time']}")), 5)
        self.assertEqual(history(self.gateway, "nobody"), [])
        for query in ("?since=now", "?limit=0", "?limit=1001", "?user=ann"):
            self.assertEqual(self.gateway.ask("GET", f"/api/v1/users/ann/history{query}")[0], 400)

    def test_nothing_is_kept_if_it_is_off(self):
        with Gateway("--history-bytes", "0") as gateway:
            gateway.connect("ann")
            self.assertEqual(gateway.ask("GET", "/api/v1/users/ann/history")[0], 409)

    def test_the_memory_is_bounded_and_a_frequent_user_loses_only_own_events(self):
        with Gateway("--history-bytes", "8KiB", "--shards", "1", "--ban-flaps", "0") as gateway:
            gateway.connect("calm", username="calm")
            for _ in range(200):
                gateway.connect("busy", username="busy").close()
            wait_until(lambda: history(gateway, "busy")[0]["event"] == "disconnected", what="the last has gone")
            self.assertLess(len(history(gateway, "busy")), 60)
            self.assertEqual(len(history(gateway, "calm")), 1)


class RefusalTest(Folder):
    def test_a_user_that_was_never_let_in_has_a_history(self):
        with Gateway("--password-file", self.password_file(alice="right"), "--shards", "2") as gateway:
            for _ in range(3):
                self.assertEqual(self.code(gateway, "bob", "guess", "phone"), 0x86)
            events = history(gateway, "bob")
            self.assertEqual({one["event"] for one in events}, {"login_refused"})
            self.assertEqual(sum(one.get("count", 1) for one in events), 3)
            for one in events:
                self.assertEqual((one["code"], one["client"], one["why"]), (0x86, "phone", "user name or password is wrong"))
                self.assertRegex(one["address"], r"^127\.0\.0\.1:\d+$")
            self.assertEqual(gateway.ask("GET", "/api/v1/users/bob")[0], 404)

    def test_a_ban_is_the_cause_of_a_refusal(self):
        with Gateway("--password-file", self.password_file(alice="right")) as gateway:
            gateway.ask("PUT", "/api/v1/bans?user=alice&reason=lost")
            self.assertEqual(self.code(gateway, "alice", "right"), 0x8A)
            refused, banned = history(gateway, "alice")
            self.assertEqual((refused["event"], refused["code"]), ("login_refused", 0x8A))
            self.assertIn("lost", refused["why"])
            self.assertEqual(banned["event"], "banned")


if __name__ == "__main__":
    unittest.main()
