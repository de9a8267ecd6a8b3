"""Requests that are repeated with the same Idempotency-Key: done once, and answered again."""

import http.client
import json
import tempfile
import threading
import unittest
from pathlib import Path

from gateway import Gateway
from token_test import make_token


class IdempotencyTest(unittest.TestCase):
    def start(self, *arguments):
        gateway = self.enterContext(Gateway("--shards", "1", *arguments))
        self.reader = gateway.connect("reader", username="reader", clean=False)
        self.reader.subscribe("room/#", qos=1)
        self.reader.disconnect()
        return gateway

    def post(self, gateway, body, key=None, path="publish", token=None):
        """Status, JSON and whether it was answered before."""
        fields = {"Idempotency-Key": key} if key is not None else {}
        if token:
            fields["Authorization"] = f"Bearer {token}"
        connection = http.client.HTTPConnection("127.0.0.1", gateway.http_port, timeout=60)
        try:
            connection.request("POST", f"/api/v1/{path}", body if isinstance(body, str) else json.dumps(body), fields)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read()), answer.headers["Idempotent-Replayed"] == "true"
        finally:
            connection.close()

    def queued(self, gateway):
        return gateway.metric("pulsegate_messages_queued")

    def test_the_same_request_is_done_once(self):
        gateway = self.start()
        body = {"topic": "room/x", "payload": "once"}
        first = self.post(gateway, body, "k1")
        self.assertEqual((first[0], first[1]["published"][0]["queued"], first[2]), (200, 1, False))
        self.assertEqual(self.post(gateway, body, "k1"), (200, first[1], True))
        self.assertEqual(self.queued(gateway), 1)
        self.assertEqual(self.post(gateway, body)[2], False)  # without the key it is another one
        self.assertEqual(self.post(gateway, body, "k2")[2], False)
        self.assertEqual(self.queued(gateway), 3)

    def test_a_delayed_message_is_taken_once(self):
        gateway = self.start()
        body = {"room": "x", "in": 1000}
        first = self.post(gateway, body, "k1", "delayed")
        self.assertEqual(self.post(gateway, body, "k1", "delayed"), (200, first[1], True))
        self.assertEqual(len(gateway.ask("GET", "/api/v1/delayed")[1]["delayed"]), 1)
        self.assertEqual(self.post(gateway, {"topic": "room/x"}, "k1")[0], 200)  # keys are a path's own

    def test_a_key_is_for_one_body(self):
        gateway = self.start()
        self.post(gateway, {"topic": "room/x", "payload": "one"}, "k")
        status, said, _ = self.post(gateway, {"topic": "room/x", "payload": "two"}, "k")
        self.assertEqual((status, said["code"]), (422, "key_reused"))
        self.assertEqual(self.queued(gateway), 1)

    def test_what_was_refused_may_be_tried_again(self):
        gateway = self.start()
        self.assertEqual(self.post(gateway, {"topic": "presence/x"}, "k")[0], 400)
        self.assertEqual(self.post(gateway, "{", "k")[0], 400)
        self.assertEqual(self.post(gateway, {"topic": "room/x"}, "k")[0], 200)

    def test_a_key_that_is_none_is_refused(self):
        gateway = self.start()
        for key in ("x" * 256, "two words", "caf\u00e9", ""):
            status, said, _ = self.post(gateway, {"topic": "room/x"}, key)
            self.assertEqual((status, said["code"]), (400, "bad_key"), key)
        connection = http.client.HTTPConnection("127.0.0.1", gateway.http_port, timeout=60)
        self.addCleanup(connection.close)
        connection.putrequest("POST", "/api/v1/publish")
        for key in ("one", "two"):
            connection.putheader("Idempotency-Key", key)
        connection.putheader("Content-Length", "18")
        connection.endheaders(b'{"topic":"room/x"}')
        self.assertEqual(connection.getresponse().status, 400)
        self.assertEqual(self.queued(gateway), 0)

    def test_many_at_once_publish_once(self):
        gateway = self.start()
        body = {"rooms": [f"r{i}" for i in range(1000)]}
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(self.post(gateway, body, "k"))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual({status for status, _, _ in answers} - {200, 409}, set())
        self.assertEqual([replayed for status, _, replayed in answers if status == 200].count(False), 1)
        self.assertEqual(self.queued(gateway), 1000)

    def test_each_token_has_keys_of_its_own(self):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (ann, first), (bob, second) = make_token("ann", "publish"), make_token("bob", "publish")
        (folder / "tokens").write_text(f"{first}\n{second}\n")
        (folder / "tokens").chmod(0o600)
        gateway = self.enterContext(Gateway("--admin-tokens-file", folder / "tokens"))
        for token in ann, bob:
            self.assertEqual(self.post(gateway, {"topic": "room/x"}, "k", token=token)[::2], (200, False))
        self.assertEqual(self.post(gateway, {"topic": "room/x"}, "k", token=ann)[::2], (200, True))


if __name__ == "__main__":
    unittest.main()
