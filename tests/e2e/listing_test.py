"""All users, a page at a time."""

import unittest
from urllib.parse import quote

from gateway import Gateway


class ListingTest(unittest.TestCase):
    def setUp(self):
        self.gateway = self.enterContext(Gateway("--shards", "2"))

    def pages(self, resource, query, limit):
        """What stands on each page; each is as long as it may be, but for the last."""
        pages, after = [], ""
        while True:
            status, said = self.gateway.ask("GET", f"/api/v1/{resource}?limit={limit}{query}{after}")
            self.assertEqual(status, 200, said)
            pages.append(said[resource])
            if "next" not in said:
                return pages
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
        self.assertTrue({user["user"] for user in self.listed("users", "&state=online", 20)} == set(clients), "others")
        self.assertEqual(len(self.listed("users", limit=99)), 250)

    def test_who_changes_meanwhile_is_met_at_the_end(self):
        clients = [self.gateway.connect("c", username=f"u{i}") for i in range(20)]
        status, first = self.gateway.ask("GET", "/api/v1/users?limit=5")
        gone = first["users"][0]["user"]
        clients[int(gone[1:])].disconnect()
        seen = [user["user"] for user in first["users"]]
        after = first["next"]
        while after:
            status, said = self.gateway.ask("GET", f"/api/v1/users?limit=5&after={after}")
            seen += [user["user"] for user in said["users"]]
            after = said.get("next")
        self.assertEqual(set(seen), {f"u{i}" for i in range(20)})
        self.assertEqual(sorted(seen), sorted([*{*seen}, gone]))  # it is there twice, and nobody else

    def test_only_who_was_there_once_is_a_user(self):
        self.gateway.connect("c", username="sender").publish("inbox/stranger", b"hello", qos=1)
        self.gateway.connect("d", username="other").ping()
        self.assertEqual({user["user"] for user in self.listed("users")}, {"sender", "other"})

    def test_a_mistake_is_said(self):
        for target in ("users?state=offline", "users?after=0-0",
                       "users?after=2-0-0", "users?after=0-0-0-0", "users?limit=5&limit=6"):
            with self.subTest(target=target):
                self.assertEqual(self.gateway.ask("GET", "/api/v1/" + target)[0], 400)


if __name__ == "__main__":
    unittest.main()
