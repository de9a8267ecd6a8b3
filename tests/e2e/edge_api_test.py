"""The HTTP API of a node that does not own the data: the node with the data answers for all."""

import json
import re
import tempfile
import unittest
import urllib.request
from pathlib import Path

from cluster_test import ask
from edge_nodes import EdgeCase
from token_test import make_token


def timeless(answer):
    """The answer without what changes from one moment to the next."""
    status, body = answer
    return status, re.sub(r"'silence': [^,}]*|'[-0-9]{10}T[^']*'", "", str(body))


class EdgeApiTest(EdgeCase):
    def test_each_node_answers_alike(self):
        home, edge = self.nodes()
        with home.connect("ann"), edge.connect("bob", clean=False):
            edge.ask("PUT", "/api/v1/rooms/team/members/ann")
            edge.ask("PUT", "/api/v1/bans?user=eve&seconds=600&reason=spam%20%26%20more")
            for target in ("/api/v1", "/api/v1/users?state=online", "/api/v1/users/bob", "/api/v1/users/nobody",
                           "/api/v1/clients", "/api/v1/clients?user=ann", "/api/v1/rooms", "/api/v1/rooms/team/members",
                           "/api/v1/users/%C3%A9", "/api/v1/users/%ff", "/api/v1/bans", "/api/v1/retained", "/api/v1/none",
                           "/api/v1/users?fliter=x", "/api/v1/delayed", "/api/v1/openapi.json", "/api/v1/webhooks/dead"):
                with self.subTest(target):
                    self.assertEqual(timeless(edge.ask("GET", target)), timeless(home.ask("GET", target)))
            for method, target, body in (("POST", "/api/v1/publish", b"{"), ("PATCH", "/api/v1/users", None),
                                         ("DELETE", "/api/v1/users/nobody", None), ("PUT", "/api/v1/bans?user=x&seconds=1", b"x" * 20_000),
                                         ("DELETE", "/api/v1/retained?filter=%23", b"{}")):
                with self.subTest(target):
                    self.assertEqual(edge.ask(method, target, body), home.ask(method, target, body))

    def test_a_change_at_an_edge_is_a_change_for_all(self):
        home, edge = self.nodes()
        with home.connect("ann", version=5) as ann, edge.connect("bob", version=5) as bob:
            for each in (ann, bob):
                each.subscribe("news")
            message = {"topic": "news", "payload": "hello " * 1000}
            self.assertEqual(edge.ask("POST", "/api/v1/publish", message)[0], 200)
            for each in (ann, bob):
                self.assertEqual(each.receive_publish(), ("news", message["payload"].encode()))
            self.assertEqual(edge.ask("DELETE", "/api/v1/clients?user=ann")[0], 200)
            self.assertIsNotNone(ann.receive_until_closed())
        self.assertIn("audit: - DELETE '/api/v1/clients?user=ann' -> 200 from 127.0.0.1, at node edge#", home.log)

    def test_changes_of_presence_are_streamed_through_an_edge(self):
        home, edge = self.nodes()
        request = urllib.request.Request(f"http://127.0.0.1:{edge.http_port}/api/v1/presence/changes",
                                         headers={"Accept": "text/event-stream"})
        with urllib.request.urlopen(request, timeout=60) as stream:
            self.assertEqual(stream.headers["Content-Type"], "text/event-stream")
            for name in ("ann", "bob"):
                with home.connect(name):
                    pass
                while True:
                    line = stream.readline()
                    if line.startswith(b"data:") and json.loads(line[5:])["user"] == name:
                        break

    def test_the_tokens_of_the_node_that_is_asked_count(self):
        with tempfile.TemporaryDirectory() as folder:
            made = {role: make_token(name, role) for name, role in (("shop", "publish"), ("desk", "operate"))}
            tokens = Path(folder, "tokens")
            tokens.write_text("".join(line + "\n" for _, line in made.values()))
            tokens.chmod(0o600)
            self.arguments = ("--admin-tokens-file", str(tokens))
            home, edge = self.nodes()

            def status(role, method, target, body=None):
                headers = {"Authorization": f"Bearer {made[role][0]}"} if role else {}
                return ask(edge.http_port, target, method=method, headers=headers, data=body)[0]

            self.assertEqual(status("", "GET", "/api/v1/users"), 401)
            self.assertEqual(status("publish", "POST", "/api/v1/publish", b'{"topic": "a"}'), 200)
            self.assertEqual(status("publish", "PUT", "/api/v1/bans?user=eve&seconds=60"), 403)
            self.assertEqual(status("operate", "PUT", "/api/v1/bans?user=eve&seconds=60"), 200)
            self.assertIn("audit: desk PUT '/api/v1/bans?user=eve&seconds=60' -> 200 from 127.0.0.1, at node edge#", home.log)

    def test_what_is_of_a_node_is_not_asked_elsewhere(self):
        home, edge = self.nodes()
        self.assertEqual(edge.ask("GET", "/healthz"), (200, {"status": "ok"}))
        self.assertEqual(edge.ask("GET", "/api/v1/cluster")[0], 200)
        for method, target in (("POST", "/api/v1/backup"), ("POST", "/api/v1/upgrade")):
            status, body = edge.ask(method, target, {"file": "/tmp/none.db"})
            self.assertEqual((status, body["code"]), (503, "standby"))
        self.assertIn("this node stands by; node home serves", body["error"])
        self.assertIn("dashboard", edge.ask("GET", "/")[1])

    def test_while_no_node_answers_the_edge_says_so(self):
        home, edge = self.nodes(lease=60)
        home.kill()
        status, body = edge.ask("GET", "/api/v1/users")
        self.assertEqual((status, body["code"]), (503, "home_silent"))
        self.assertIn("node home owns the data, and has not answered", body["error"])


if __name__ == "__main__":
    unittest.main()
