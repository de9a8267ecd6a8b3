"""Bans that the administrator sets: refused logins, disconnected clients, and bans after a restart."""

import contextlib
import tempfile
import time
import unittest
from pathlib import Path

from gateway import Client, Gateway, connect_packet, seconds_since_1970, seconds_until, wait_until
from packets import DISCONNECT

BANNED = 0x8A
ADMINISTRATIVE_ACTION = 0x98


def code(gateway, client="phone", user="bob", version=5, source=None):
    """What the CONNACK says."""
    with contextlib.closing(Client(gateway.port, source=source)) as raw:
        raw.send(connect_packet(client, username=user, version=version))
        return raw.receive()[1][1]


class BanTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.data = Path(folder.name) / "data"

    def gateway(self, *arguments):
        return Gateway("--shards", "2", "--data", self.data, *arguments)

    def ban(self, gateway, query):
        return gateway.ask("PUT", f"/api/v1/bans?{query}")

    def test_a_ban_may_stand_in_the_body(self):
        with self.gateway() as gateway:
            body = {"user": "bob", "client": "phone", "seconds": 3600, "reason": "lost"}
            self.assertEqual(gateway.ask("PUT", "/api/v1/bans", body), (200, {"disconnected": 0}))
            (ban,) = self.bans(gateway)
            self.assertLessEqual(seconds_until(ban.pop("ends")), 3600)
            self.assertEqual(ban, {"user": "bob", "client": "phone", "by": "administrator", "reason": "lost"})
            self.assertEqual(self.lift(gateway, "user=bob&client=phone"), (200, {"lifted": 1}))
            for wrong, code in (({"user": "bob", "address": "10.0.0.7"}, "missing_parameter"), ({}, "missing_parameter"),
                                ({"user": "bob", "secnods": 5}, "unknown_member"), ({"user": 5}, "bad_member"),
                                ({"user": "bob", "seconds": 0}, "bad_member"), ({"user": "bob", "client": ""}, "bad_member"),
                                ({"user": "", "address": "10.0.0.7"}, "bad_member"), ({"address": "x"}, "bad_parameter"),
                                ({"address": "fe80::7"}, "bad_parameter"), ({"address": "fe80::7%lo"}, "bad_parameter"),
                                ({"user": "bob", "seconds": "5"}, "bad_member"), ([], "bad_json"), (b"{", "bad_json")):
                status, said = gateway.ask("PUT", "/api/v1/bans", wrong)
                self.assertEqual((status, said["code"]), (400, code), wrong)
            status, said = gateway.ask("PUT", "/api/v1/bans?user=bob", {"user": "bob"})
            self.assertEqual((status, said["code"]), (400, "conflicting_parameters"))
            self.assertEqual(self.bans(gateway), [])

    def lift(self, gateway, query):
        return gateway.ask("DELETE", f"/api/v1/bans?{query}")

    def bans(self, gateway):
        return gateway.ask("GET", "/api/v1/bans")[1]["bans"]

    def assert_thrown_out(self, client, reason=ADMINISTRATIVE_ACTION):
        *_, (first, body) = client.receive_until_closed()
        self.assertEqual((first >> 4, body[0]), (DISCONNECT, reason))

    def test_all_clients_of_a_user_go_at_once_and_stay_out(self):
        with self.gateway("--max-connections-per-user", "0") as gateway:
            crowd = [gateway.connect(f"c{i}", username="bob", version=5) for i in range(700)]
            other = gateway.connect("phone", username="alice", version=5)
            began = time.monotonic()
            self.assertEqual(self.ban(gateway, "user=bob&reason=spam%0Aspam"), (200, {"disconnected": 700}))
            self.assertLess(time.monotonic() - began, 10)
            for client in crowd:
                self.assert_thrown_out(client)
            self.assertEqual((code(gateway), code(gateway, "new", version=4)), (BANNED, 5))
            other.ping()
            self.assertEqual(self.bans(gateway), [{"user": "bob", "by": "administrator", "reason": "spam\nspam"}])
            gateway.wait_for_log(r"banned user 'bob' for good, and disconnected 700 clients: 'spam\\x0aspam'")
            self.assertEqual(self.lift(gateway, "user=bob"), (200, {"lifted": 1}))
            self.assertEqual(self.lift(gateway, "user=bob")[0], 404)
            self.assertEqual(code(gateway), 0)

    def test_one_client_is_banned_and_the_users_others_are_not(self):
        with self.gateway() as gateway:
            phone, desk = (gateway.connect(name, username="bob", version=5) for name in ("phone", "desk"))
            self.assertEqual(self.ban(gateway, "user=bob&client=phone&seconds=3600&reason=lost"),
                             (200, {"disconnected": 1}))
            self.assert_thrown_out(phone)
            desk.ping()
            self.assertEqual((code(gateway), code(gateway, "tablet")), (BANNED, 0))
            gateway.wait_for_log("login refused: banned by the HTTP API: 'lost'")
            (ban,) = self.bans(gateway)
            self.assertLessEqual(seconds_until(ban.pop("ends")), 3600)
            self.assertEqual(ban, {"user": "bob", "client": "phone", "by": "administrator", "reason": "lost"})
            self.assertEqual(self.lift(gateway, "user=bob")[0], 404)
            self.assertEqual(self.lift(gateway, "user=bob&client=phone")[0], 200)
            self.assertEqual(code(gateway), 0)

    def test_an_address_is_banned_on_all_shards(self):
        with self.gateway() as gateway:
            def arrive(name, source):
                client = Client(gateway.port, source=source)
                self.addCleanup(client.close)
                return client.login(name, username=name, version=5)
            crowd = [arrive(f"u{i}", "127.0.0.7") for i in range(20)]
            other = arrive("other", "127.0.0.8")
            self.assertEqual(self.ban(gateway, "address=127.0.0.7&reason=scraper"), (200, {"disconnected": 20}))
            for client in crowd:
                self.assert_thrown_out(client)
            other.ping()
            self.assertEqual(code(gateway, source="127.0.0.7"), BANNED)
            self.assertEqual(self.bans(gateway),
                             [{"address": "127.0.0.7", "by": "administrator", "reason": "scraper"}])
            self.assertEqual(self.lift(gateway, "address=127.0.0.7")[0], 200)
            self.assertEqual(code(gateway, source="127.0.0.7"), 0)

    def test_the_list_has_pages(self):
        with self.gateway() as gateway:
            for number in range(5):
                self.assertEqual(self.ban(gateway, f"user=u{number}&client=a")[0], 200)
            self.assertEqual(self.ban(gateway, "user=u3&client=b")[0], 200)
            for number in range(3):
                self.assertEqual(self.ban(gateway, f"address=10.0.0.{number}")[0], 200)

            def listed(query, limit):
                entries, after = [], ""
                while True:
                    status, page = gateway.ask("GET", f"/api/v1/bans?limit={limit}{query}{after}")
                    self.assertEqual(status, 200, page)
                    self.assertLessEqual(len(page["bans"]), limit)
                    entries += [(ban.get("user"), ban.get("client"), ban.get("address")) for ban in page["bans"]]
                    if "next" not in page:
                        return entries
                    self.assertEqual(len(page["bans"]), limit)
                    after = f"&after={page['next']}"

            addresses = [(None, None, f"10.0.0.{number}") for number in range(3)]
            clients = [(f"u{number}", "a", None) for number in range(5)] + [("u3", "b", None)]
            for limit in (1, 2, 4, 9, 1000):
                found = listed("", limit)
                self.assertEqual(sorted(found[:6]), sorted(clients), limit)
                self.assertEqual(found[6:], addresses, limit)
            for limit in (1, 2, 1000):
                self.assertEqual(listed("&user=u3", limit), [("u3", "a", None), ("u3", "b", None)])
            self.assertEqual(listed("&user=nobody", 5), [])
            for wrong in ("after=", "after=1", "after=1-", "after=-1-0", "after=3-0", "after=0-0-0", "after=0-x",
                          "limit=0", "limit=1001", "address=10.0.0.1"):
                status, said = gateway.ask("GET", f"/api/v1/bans?{wrong}")
                self.assertEqual(status, 400, (wrong, said))

    def test_a_ban_ends_by_itself(self):
        with self.gateway() as gateway:
            self.assertEqual(self.ban(gateway, "user=bob&seconds=5"), (200, {"disconnected": 0}))
            self.assertEqual(code(gateway), BANNED)
            wait_until(lambda: code(gateway) == 0, what="the end of the ban")
            self.assertEqual(self.bans(gateway), [])
            self.assertEqual(self.lift(gateway, "user=bob")[0], 404)

    def test_bans_outlive_the_gateway_killed_right_after_the_answer_and_so_does_their_end(self):
        killed = self.gateway().start()
        try:
            for query in ("user=bob&reason=stolen", "user=eve&client=phone&seconds=3600", "address=127.0.0.7",
                          "user=short&seconds=10", "user=lifted"):
                self.assertEqual(self.ban(killed, query)[0], 200)
            self.assertEqual(self.lift(killed, "user=lifted")[0], 200)
            ends = next(seconds_since_1970(ban["ends"]) for ban in self.bans(killed) if ban.get("user") == "short")
        finally:
            killed.kill()
            killed.folder.cleanup()
        wait_until(lambda: time.time() > ends, what="the end of the ban of `short`")
        with self.gateway() as gateway:
            self.assertEqual([code(gateway, user=user) for user in ("bob", "eve", "short", "lifted")],
                             [BANNED, BANNED, 0, 0])
            self.assertEqual(code(gateway, "desk", user="eve"), 0)
            self.assertEqual(code(gateway, source="127.0.0.7"), BANNED)
            reasons = {ban.get("user", ban.get("address")): ban.get("reason") for ban in self.bans(gateway)}
            self.assertEqual(reasons, {"bob": "stolen", "eve": None, "127.0.0.7": None})
            self.assertEqual(self.lift(gateway, "user=bob")[0], 200)
        with self.gateway() as gateway:
            self.assertEqual(code(gateway), 0)
            self.assertEqual({ban.get("user", ban.get("address")) for ban in self.bans(gateway)}, {"eve", "127.0.0.7"})

    def test_a_ban_holds_for_logins_that_are_under_way(self):
        with self.gateway() as gateway:
            for _ in range(20):
                raw = Client(gateway.port)
                self.addCleanup(raw.close)
                raw.send(connect_packet("phone", username="bob", version=5))
                status, said = self.ban(gateway, "user=bob")
                self.assertEqual(status, 200)
                first, body = raw.receive()
                if body[1] == 0:
                    self.assertEqual(said, {"disconnected": 1})
                    self.assert_thrown_out(raw)
                else:
                    self.assertEqual((first >> 4, body[1]), (2, BANNED))
                    self.assertEqual(said, {"disconnected": 0})
                self.assertEqual(self.lift(gateway, "user=bob")[0], 200)

    def test_a_mistake_bans_nobody(self):
        with self.gateway() as gateway:
            phone = gateway.connect("phone", username="bob")
            for query in ("", "client=phone", "user=bob&clinet=phone", "user=", "user=%FF", "user=bob&seconds=0",
                          "user=bob&seconds=x", "user=bob&seconds=-1", "user=bob&address=10.0.0.7",
                          "address=10.0.0.0/8", "address=x", "address=10.0.0.7&client=phone",
                          "user=bob&reason=" + "x" * 1001, "user=b%00b"):
                with self.subTest(query=query):
                    status, said = self.ban(gateway, query)
                    self.assertEqual(status, 400, said)
            status, said = gateway.ask("PUT", "/api/v1/bans?user=bob", {"seconds": 5})
            self.assertEqual(status, 400, said)
            phone.ping()
            self.assertEqual(self.bans(gateway), [])


if __name__ == "__main__":
    unittest.main()
