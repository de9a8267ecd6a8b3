"""Inboxes over HTTP: counted, read and emptied."""

import base64
import tempfile
import unittest
from urllib.parse import quote

from gateway import DISCONNECT, Gateway, wait_until


class InboxTest(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def gateway(self, *arguments):
        return self.enterContext(Gateway("--data", f"{self.folder}/data", "--shards", "2", *arguments))

    def inbox(self, gateway, query="", user="zoe/1"):
        status, said = gateway.ask("GET", f"/api/v1/users/{quote(user, safe='')}/inbox{query}")
        self.assertEqual(status, 200, said)
        return said

    def fill(self, gateway, count, user="zoe/1"):
        messages = [{"inbox": user, "payload": f"message {i}", "properties": {"from": "shop"}} for i in range(count)]
        self.assertEqual(gateway.ask("POST", "/api/v1/publish", messages)[0], 200)

    def pages(self, gateway, limit):
        found, after = [], ""
        while True:
            said = self.inbox(gateway, f"?limit={limit}{after}")
            found.append(said["messages"])
            if "next" not in said:
                return found
            self.assertEqual(len(said["messages"]), limit)
            after = "&after=" + said["next"]

    def test_it_is_counted_and_read_page_by_page_also_after_a_restart(self):
        with Gateway("--data", f"{self.folder}/data", "--queue-memory", "0") as gateway:
            self.assertEqual(self.inbox(gateway), {"user": "zoe/1", "count": 0, "bytes": 0})
            self.fill(gateway, 10)
        gateway = self.gateway()
        said = self.inbox(gateway)
        self.assertEqual(said["count"], 10)
        self.assertGreater(said["bytes"], 100)
        self.assertLess(said["oldest"], said["expires"])
        self.assertNotIn("messages", said)
        for limit in (1, 3, 5, 10, 100):
            pages = self.pages(gateway, limit)
            self.assertEqual([one["payload"] for page in pages for one in page], [f"message {i}" for i in range(10)])
            self.assertEqual(len(pages), max(10 // limit + (10 % limit > 0), 1))
        first = pages[0][0]
        self.assertEqual(first.pop("time"), said["oldest"])
        self.assertEqual(first, {"topic": "inbox/zoe%2F1", "qos": 1, "bytes": 9, "from": "shop", "payload": "message 0",
                                 "properties": {"from": "shop"}})

    def test_bytes_that_are_no_text_come_in_base64_and_an_expiry_in_seconds(self):
        gateway = self.gateway()
        body = {"inbox": "zoe/1", "payload_base64": "/wA=", "qos": 2, "expiry": 100}
        self.assertEqual(gateway.ask("POST", "/api/v1/publish", body)[0], 200)
        (one,) = self.inbox(gateway, "?limit=1")["messages"]
        self.assertEqual(base64.b64decode(one["payload_base64"]), b"\xff\0")
        self.assertEqual(one["qos"], 2)
        self.assertLessEqual(one["expiry"], 100)

    def test_without_a_store_pages_work_as_well(self):
        gateway = self.enterContext(Gateway())
        self.fill(gateway, 7)
        self.assertEqual([one["payload"] for page in self.pages(gateway, 2) for one in page],
                         [f"message {i}" for i in range(7)])

    def test_it_is_emptied_for_good(self):
        with Gateway("--data", f"{self.folder}/data") as gateway:
            self.fill(gateway, 10)
            said = gateway.ask("DELETE", "/api/v1/users/zoe%2F1/inbox")
            self.assertEqual(said, (200, {"user": "zoe/1", "removed": 10, "under_way": 0}))
            self.assertEqual(self.inbox(gateway)["count"], 0)
            self.fill(gateway, 1)
            gateway.process.kill()
            gateway.killed = True
        gateway = self.gateway()
        self.assertEqual([one["payload"] for one in self.inbox(gateway, "?limit=10")["messages"]], ["message 0"])

    def test_what_a_device_was_sent_stays_until_it_acknowledges(self):
        gateway = self.gateway("--max-inflight", "2")
        self.fill(gateway, 10)
        device = gateway.connect("phone", username="zoe/1", clean=False)
        sent = [device.receive() for _ in range(2)]
        self.assertEqual([first >> 4 for first, _ in sent], [3, 3])
        said = self.inbox(gateway, "?limit=10")
        self.assertEqual(said["count"], 10)
        self.assertEqual([one.get("under_way", False) for one in said["messages"]], [True] * 2 + [False] * 8)
        said = gateway.ask("DELETE", "/api/v1/users/zoe%2F1/inbox")
        self.assertEqual(said, (200, {"user": "zoe/1", "removed": 8, "under_way": 2}))
        for _, body in sent:
            size = int.from_bytes(body[:2], "big")
            device.send(b"\x40\x02" + body[2 + size:4 + size])
        wait_until(lambda: self.inbox(gateway)["count"] == 0, what="all acknowledged")
        device.ping()
        self.fill(gateway, 1)
        self.assertIn(b"message 0", device.receive()[1])

    def test_what_a_device_that_is_away_has_not_acknowledged_goes(self):
        gateway = self.gateway("--max-inflight", "2")
        self.fill(gateway, 10)
        device = gateway.connect("phone", username="zoe/1", clean=False)
        device.receive()
        device.send(DISCONNECT)
        wait_until(lambda: gateway.get_json("/api/v1/users/zoe%2F1")[1]["state"] == "offline", what="gone")
        self.assertEqual(self.inbox(gateway)["count"], 10)
        said = gateway.ask("DELETE", "/api/v1/users/zoe%2F1/inbox")
        self.assertEqual(said, (200, {"user": "zoe/1", "removed": 10, "under_way": 0}))
        gateway.connect("phone", username="zoe/1", clean=False).ping()

    def test_mistakes_are_refused(self):
        gateway = self.gateway()
        for query in ("?after=x", "?after=1-", "?after=1-x", "?limit=0", "?user=zoe"):
            with self.subTest(query):
                self.assertEqual(gateway.ask("GET", f"/api/v1/users/zoe/inbox{query}")[0], 400)
        self.assertEqual(gateway.ask("DELETE", "/api/v1/users/zoe/inbox?limit=5")[0], 400)
        self.assertEqual(gateway.ask("GET", "/api/v1/users/%FF/inbox")[0], 400)


if __name__ == "__main__":
    unittest.main()
