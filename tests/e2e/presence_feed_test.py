"""A backend that was away misses no change of presence: pages, long polls and server-sent events with a cursor."""

import http.client
import json
import tempfile
import threading
import time
import unittest
from pathlib import Path

from gateway import Gateway, wait_until

CHANGES = "/api/v1/presence/changes"


class Stream:
    """Server-sent events, as a list that grows."""

    def __init__(self, gateway, after=None):
        self.connection = http.client.HTTPConnection("127.0.0.1", gateway.http_port, timeout=60)
        fields = {"Accept": "text/event-stream"}
        if after:
            fields["Last-Event-ID"] = after
        self.connection.request("GET", CHANGES, headers=fields)
        self.answer = self.connection.getresponse()
        self.status, self.type = self.answer.status, self.answer.headers["Content-Type"]
        self.events, self.last_id = [], None
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        fields = {}
        for line in self.answer:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name:
                fields[name] = value
                continue
            self.last_id = fields.get("id", self.last_id)
            if "data" in fields:
                self.events.append((fields["event"], json.loads(fields["data"])))
            fields = {}

    def close(self):
        self.connection.close()


class PresenceFeedTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.data = Path(folder.name) / "data"

    def start(self, *arguments):
        return Gateway("--shards", "2", "--data", self.data, "--presence-feed", "on", *arguments)

    def changes(self, gateway, after=None, **options):
        query = "&".join(f"{key}={value}" for key, value in {"after": after, **options}.items() if value is not None)
        return gateway.get_json(f"{CHANGES}?{query}")

    def read_until(self, gateway, cursor, count):
        """So many changes behind the cursor, and the next cursor."""
        found = []
        while len(found) < count:
            status, page = self.changes(gateway, cursor, wait=10)
            self.assertEqual(status, 200)
            self.assertTrue(page["changes"], "none within 10 s")
            found += page["changes"]
            cursor = page["cursor"]
        return found, cursor

    def test_pages_go_on_from_a_cursor_and_leave_nothing_out(self):
        with self.start() as gateway:
            status, page = self.changes(gateway)
            self.assertEqual((status, page["changes"], page["more"]), (200, [], False))
            cursor = page["cursor"]
            for i in range(25):
                gateway.connect(f"c{i}", username=f"user{i}")
            self.read_until(gateway, cursor, 25)
            users, at = [], cursor
            while True:
                _, page = self.changes(gateway, at, limit=10)
                self.assertLessEqual(len(page["changes"]), 10)
                users += [change["user"] for change in page["changes"]]
                at = page["cursor"]
                if not page["more"]:
                    break
            self.assertEqual(sorted(users), sorted(f"user{i}" for i in range(25)))
            change = self.changes(gateway, cursor, limit=1)[1]["changes"][0]
            self.assertEqual((change["type"], change["state"], change["cause"]), ("presence", "online", "login"))
            self.assertEqual(set(change), {"id", "type", "time", "user", "state", "cause", "version", "client",
                                           "silent_ms"})

    def test_a_cursor_outlives_a_kill_and_online_users_are_reported_offline(self):
        gateway = self.start().start()
        cursor = self.changes(gateway)[1]["cursor"]
        gateway.connect("phone", username="ann", keepalive=4)
        self.read_until(gateway, cursor, 1)
        gateway.kill()
        gateway.folder.cleanup()
        with self.start() as gateway:
            found, cursor = self.read_until(gateway, cursor, 2)
            self.assertEqual([(c["user"], c["state"], c["cause"]) for c in found],
                             [("ann", "online", "login"), ("ann", "offline", "node_lost")])
            self.assertGreater(found[1]["version"], found[0]["version"])
            self.assertEqual(gateway.get_json("/api/v1/users/ann")[1]["version"], found[1]["version"])
        with self.start() as gateway:
            self.assertEqual(self.changes(gateway, cursor)[1]["changes"], [])

    def test_a_cursor_that_a_crash_may_have_lost_is_refused(self):
        gateway = self.start("--fsync", "1s").start()
        cursor = self.changes(gateway)[1]["cursor"]
        gateway.connect("phone", username="ann", keepalive=4)
        _, cursor = self.read_until(gateway, cursor, 1)
        gateway.kill()
        gateway.folder.cleanup()
        log, number = cursor.split("-")
        with self.start("--fsync", "1s") as gateway:
            gateway.connect("phone", username="bob")
            self.read_until(gateway, cursor, 1)
            status, answer = self.changes(gateway, f"{log}-{int(number) + 1}")
            self.assertEqual((status, answer["code"]), (410, "cursor_too_old"))
            self.assertEqual(self.changes(gateway, answer["cursor"])[0], 200)

    def test_a_long_poll_is_answered_at_the_next_change(self):
        with self.start() as gateway:
            cursor = self.changes(gateway)[1]["cursor"]
            began = time.monotonic()
            self.assertEqual(self.changes(gateway, cursor, wait=1)[1]["changes"], [])
            self.assertGreater(time.monotonic() - began, 0.9)
            poll = http.client.HTTPConnection("127.0.0.1", gateway.http_port, timeout=60)
            self.addCleanup(poll.close)
            poll.request("GET", f"{CHANGES}?after={cursor}&wait=60")
            self.assertEqual(gateway.get("/healthz")[0], 200)  # the request before this one has been read
            gateway.connect("phone", username="ann")
            self.assertEqual(json.loads(poll.getresponse().read())["changes"][0]["user"], "ann")

    def test_server_sent_events_go_on_from_the_last_event_id(self):
        with self.start() as gateway:
            stream = Stream(gateway)
            self.assertEqual((stream.status, stream.type), (200, "text/event-stream"))
            wait_until(lambda: stream.last_id, what="the place where it begins")
            gateway.connect("phone", username="ann")
            kind, change = wait_until(lambda: stream.events)[0]
            self.assertEqual((kind, change["user"]), ("presence", "ann"))
            self.assertEqual(stream.last_id, change["id"])
            stream.close()
            gateway.connect("tablet", username="bob")
            gateway.connect("laptop", username="carl")
            again = Stream(gateway, after=change["id"])
            wait_until(lambda: len(again.events) == 2)
            self.assertEqual({change["user"] for _, change in again.events}, {"bob", "carl"})
            again.close()

    def test_a_cursor_that_is_too_old_is_gone_and_the_answer_says_what_to_do(self):
        with self.start("--event-log-bytes", "65536") as gateway:
            cursor = self.changes(gateway)[1]["cursor"]
            for _ in range(40):
                for client in [gateway.connect(f"c{i}", username=f"u{i}") for i in range(20)]:
                    client.disconnect()

            def goes_on():  # once the last changes are in the log, which may push out that cursor, too
                status, body = self.changes(gateway, cursor)
                return status == 410 and self.changes(gateway, body["cursor"])[0] == 200

            wait_until(goes_on)
            self.assertIn("GET /api/v1/users", self.changes(gateway, cursor)[1]["error"])
            self.assertEqual(Stream(gateway, after=cursor).status, 410)

    def test_a_cursor_of_another_store_is_gone(self):
        with Gateway("--presence-feed", "on") as other:
            other.connect("phone", username="ann")
            cursor = self.changes(other)[1]["cursor"]
        with self.start() as gateway:
            self.assertEqual(self.changes(gateway, cursor)[0], 410)
            mine = self.changes(gateway)[1]["cursor"]
            log, _, number = mine.partition("-")
            self.assertEqual(self.changes(gateway, f"{log}-{int(number) + 1000}")[0], 410)

    def test_mistakes_are_named(self):
        with self.start() as gateway:
            for query in ("after=nonsense", "after=12", "limit=0", "limit=1001", "limit=x", "wait=61", "wait=-1"):
                status, body = gateway.get_json(f"{CHANGES}?{query}")
                self.assertEqual(status, 400, query)
                self.assertIn("error", body)
        with Gateway("--presence-feed", "off") as gateway:
            status, body = gateway.get_json(CHANGES)
            self.assertEqual(status, 409)
            self.assertIn("presence-feed", body["error"])

    def test_readers_that_wait_leave_room_for_others(self):
        with self.start() as gateway:
            streams = [Stream(gateway) for _ in range(50)]
            self.assertEqual(sum(stream.status == 200 for stream in streams), 48)
            self.assertEqual(streams[-1].status, 503)
            self.assertEqual(gateway.get("/healthz")[0], 200)
            for stream in streams:
                stream.close()


if __name__ == "__main__":
    unittest.main()
