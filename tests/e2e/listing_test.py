"""All users and all retained messages, a page at a time."""

import base64
import unittest
from urllib.parse import quote

from gateway import Gateway, wait_until


class ListingTest(unittest.TestCase):
    def setUp(self):
        self.gateway = self.enterContext(Gateway("--shards", "2"))

    def pages(self, resource, query, limit, are_full=True):
        """What stands on each page; each is as long as it may be, but for the last."""
        pages, after = [], ""
        while True:
            status, said = self.gateway.ask("GET", f"/api/v1/{resource}?limit={limit}{query}{after}")
            self.assertEqual(status, 200, said)
            pages.append(said[resource])
            if "next" not in said:
                return pages
            if are_full:
                self.assertEqual(len(said[resource]), limit)
            after = "&after=" + quote(said["next"], safe="")

    def listed(self, resource, query="", limit=1000):
        return [one for page in self.pages(resource, query, limit) for one in page]

    def test_each_user_is_on_one_page(self):
        names = {f"user {i}/é" for i in range(250)}
        clients = {name: self.gateway.connect("c", username=name) for name in names}
        for limit in (1, 7, 250, 1000):
            with self.subTest(limit=limit):
                users = self.listed("users", limit=limit)
                self.assertEqual(len(users), 250)
                self.assertTrue({user["user"] for user in users} == names, "other users")
        self.assertEqual(users[0]["state"], "online")
        self.assertEqual(len(self.gateway.ask("GET", "/api/v1/users")[1]["users"]), 100)
        for name in list(names)[:200]:
            clients.pop(name).disconnect()
        wait_until(lambda: {user["user"] for user in self.listed("users", "&state=online", 20)} == set(clients),
                   what="only the users that stayed")
        self.assertEqual(len(self.listed("users", limit=99)), 250)

    def test_a_page_of_long_names_is_not_much_longer_than_1_mib(self):
        names = [f"{number}-" + "n" * 60_000 for number in range(100)]
        for name in names:
            self.gateway.connect("c", username=name)
        for resource in ("users", "clients"):
            with self.subTest(resource=resource):
                pages = self.pages(resource, "", 1000, are_full=False)
                self.assertEqual(sorted(one["user"] for page in pages for one in page), sorted(names))
                self.assertGreater(min(map(len, pages)), 0)
                self.assertLess(max(map(len, pages)) * 60_000, 3 * 1024 * 1024)
                self.assertLess(len(pages), 10)

    def test_a_user_that_changes_meanwhile_is_on_a_later_page(self):
        clients = [self.gateway.connect("c", username=f"u{i}") for i in range(20)]
        status, first = self.gateway.ask("GET", "/api/v1/users?limit=5")
        gone = first["users"][0]["user"]
        clients[int(gone[1:])].disconnect()
        wait_until(lambda: self.gateway.get_json(f"/api/v1/users/{gone}")[1]["state"] == "offline", what="offline")
        seen = [user["user"] for user in first["users"]]
        after = first["next"]
        while after:
            status, said = self.gateway.ask("GET", f"/api/v1/users?limit=5&after={after}")
            seen += [user["user"] for user in said["users"]]
            after = said.get("next")
        self.assertEqual(set(seen), {f"u{i}" for i in range(20)})
        self.assertEqual(sorted(seen), sorted([*{*seen}, gone]))  # it is there twice, and nobody else

    def test_the_last_page_has_no_next(self):
        for i in range(6):
            self.gateway.connect("c", username=f"u{i}", clean=False)
        for resource in ("users", "clients"):
            for limit in (2, 3, 6):
                with self.subTest(resource=resource, limit=limit):
                    self.assertEqual(len(self.pages(resource, "", limit)), 6 // limit)

    def test_offline_users_are_listed(self):
        clients = [self.gateway.connect("c", username=f"u{i}") for i in range(9)]
        for client in clients[:5]:
            client.disconnect()
        gone = {f"u{i}" for i in range(5)}
        wait_until(lambda: {user["user"] for user in self.listed("users", "&state=offline", 2)} == gone, what="five")
        self.assertEqual({user["user"] for user in self.listed("users", "&state=online", 2)}, {f"u{i}" for i in range(5, 9)})

    def test_clients_are_listed_with_all_that_is_known_of_them(self):
        self.gateway.connect("phone", username="ann", version=5, keepalive=40)
        self.gateway.connect("laptop", username="ann", clean=False).disconnect()
        wait_until(lambda: len(self.listed("clients", "&state=away")) == 1, what="the laptop has gone")
        (away,) = self.listed("clients", "&state=away")
        self.assertEqual((away["user"], away["client"], away["connected"]), ("ann", "laptop", False))
        self.assertNotIn("address", away)
        (here,) = self.listed("clients", "&state=connected")
        since, seen = here.pop("connected_since"), here.pop("last_packet")
        self.assertRegex(since, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertLessEqual(since[:19], seen[:19])
        self.assertLess(here.pop("silence"), 40)
        self.assertRegex(here.pop("address"), r"^127\.0\.0\.1:\d+$")
        self.assertEqual(here, {
            "user": "ann", "client": "phone", "connected": True, "state": "connected", "mqtt": "5.0",
            "listener": f"mqtt://127.0.0.1:{self.gateway.port}", "keepalive": 40, "silence_limit": 60, "queued": 0,
            "queued_bytes": 0, "in_flight": 0, "subscriptions": 0, "session_expiry": 0})

    def test_numbers_are_written_as_people_write_them(self):
        self.gateway.connect("phone", username="ann", keepalive=40).disconnect()
        self.gateway.connect("laptop", username="ann", keepalive=25)
        for path in ("/api/v1/clients", "/api/v1/users/ann/history"):
            with self.subTest(path):
                text = self.gateway.get(path)[1]
                self.assertIn('"silence', text)
                self.assertNotRegex(text, r"\dE[-+]?\d")  # as in 0E0 and 3.75E1
        self.assertIn('"silence_limit":37.5,', self.gateway.get("/api/v1/clients?client=laptop")[1])

    def test_clients_are_listed_by_filters(self):
        for i in range(20):
            self.gateway.connect(f"{'phone' if i % 2 else 'tab'}-{i}", username=f"u{i % 5}")
        address = self.gateway.get_json("/api/v1/clients?limit=1")[1]["clients"][0]["address"].split(":")[0]
        for query, count in (("", 20), ("&client=phone", 10), ("&client=phone-1", 6), ("&user=u1", 4), ("&user=nobody", 0),
                             ("&user=u1&client=phone", 2), (f"&address={address}", 20), ("&address=127.0.0.0/8", 20),
                             ("&address=10.0.0.0/8", 0), (f"&listener=mqtt://127.0.0.1:{self.gateway.port}", 20),
                             ("&listener=mqtt://127.0.0.1:1", 0), ("&state=away", 0), ("&since=2020-01-01T00:00:00Z", 20),
                             ("&since=2100-01-01T00:00:00Z", 0)):
            with self.subTest(query):
                self.assertEqual(len(self.listed("clients", query, 3)), count)
        for query in ("address=10.0.0", "address=10.0.0.0/33", "state=online", "since=now", "after=x", "user=u1&after=9-9-9"):
            with self.subTest(query):
                self.assertEqual(self.gateway.ask("GET", f"/api/v1/clients?{query}")[0], 400)

    def test_many_devices_of_one_user_are_listed_page_by_page(self):
        for i in range(90):
            self.gateway.connect(f"c{i}", username="fleet")
        found = [one["client"] for one in self.listed("clients", "", 7)]
        self.assertEqual(len(found), 90)
        self.assertEqual(set(found), {f"c{i}" for i in range(90)})
        self.assertEqual([one["client"] for one in self.listed("clients", "&user=fleet", 7)], found)

    def test_only_users_that_were_connected_once_are_listed(self):
        self.gateway.connect("c", username="sender").publish("inbox/stranger", b"hello", qos=1)
        self.gateway.connect("d", username="other").ping()
        self.assertEqual({user["user"] for user in self.listed("users")}, {"sender", "other"})

    def test_retained_messages_are_listed_by_filter(self):
        messages = [{"topic": f"room/{i:03}", "payload": f"message {i}", "retain": True} for i in range(250)]
        messages.append({"topic": "rest", "payload_base64": "/wA=", "qos": 2, "retain": True, "expiry": 100,
                         "content_type": "bytes", "properties": {"from": "shop", "to": "all"}})
        self.assertEqual(self.gateway.ask("POST", "/api/v1/publish", messages)[0], 200)
        for limit in (1, 7, 250, 1000):
            with self.subTest(limit=limit):
                found = self.listed("retained", "&filter=room/%23", limit)
                self.assertTrue([one["topic"] for one in found] == [f"room/{i:03}" for i in range(250)], "other topics")
        self.assertEqual(found[17], {"topic": "room/017", "qos": 1, "bytes": 10, "payload": "message 17"})
        (rest,) = self.listed("retained", "&filter=rest")
        self.assertLessEqual(rest.pop("expiry"), 100)
        self.assertEqual(rest, {"topic": "rest", "qos": 2, "bytes": 2,
                                "payload_base64": base64.b64encode(b"\xff\0").decode(), "content_type": "bytes",
                                "properties": {"from": "shop", "to": "all"}})
        self.assertEqual(len(self.listed("retained")), 251)
        self.assertEqual(self.listed("retained", "&filter=%2B/nothing"), [])

    def test_a_page_of_long_messages_is_not_much_longer_than_4_mb(self):
        text = "x" * 200_000
        for i in range(25):
            message = {"topic": f"long/{i:02}", "payload": text, "retain": True}
            self.assertEqual(self.gateway.ask("POST", "/api/v1/publish", message)[0], 200)
        status, page = self.gateway.ask("GET", "/api/v1/retained")
        self.assertEqual([one["topic"] for one in page["retained"]], [f"long/{i:02}" for i in range(21)])
        status, page = self.gateway.ask("GET", "/api/v1/retained?after=" + quote(page["next"]))
        self.assertEqual([one["topic"] for one in page["retained"]], [f"long/{i:02}" for i in range(21, 25)])
        self.assertNotIn("next", page)

    def test_a_mistake_is_said(self):
        for target in ("retained?filter=a%23", "retained?limit=0", "retained?limit=1001", "retained?limit=x",
                       "retained?flter=a", "retained?filter=$share/g/a", "users?state=away", "users?after=0-0",
                       "users?after=2-0-0", "users?after=0-0-0-0", "users?limit=5&limit=6"):
            with self.subTest(target=target):
                self.assertEqual(self.gateway.ask("GET", "/api/v1/" + target)[0], 400)


if __name__ == "__main__":
    unittest.main()
