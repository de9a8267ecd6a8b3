"""The HTTP API of a node that does not own the data: the node with the data answers for all."""

import contextlib
import json
import re
import socket
import tempfile
import unittest
import urllib.request
from pathlib import Path

from certificates import Certificates
from cluster_test import LEASE, ask, standby
from edge_nodes import LONG_LEASE, EdgeCase
from gateway import DISCONNECT, Client, wait_until
from ports import free_port
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
        home.wait_for_log(re.escape("audit: - DELETE '/api/v1/clients?user=ann' -> 200 from 127.0.0.1, at node edge#"))

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

    def nodes_with_tokens(self, *arguments):
        """Two nodes and the texts of their tokens by role. The edge has a Unix socket, too."""
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        made = {role: make_token(name, role) for name, role in (("shop", "publish"), ("desk", "operate"))}
        tokens = folder / "tokens"
        tokens.write_text("".join(line + "\n" for _, line in made.values()))
        tokens.chmod(0o600)
        self.arguments = ("--admin-tokens-file", str(tokens), *arguments)
        return *self.nodes(), {"": "", **{role: text for role, (text, _) in made.items()}}

    def judge_tokens(self, home, edge, tokens):
        def status(role, method, target, body=None):
            headers = {"Authorization": f"Bearer {tokens[role]}"} if role else {}
            return ask(edge.http_port, target, method=method, headers=headers, data=body)[0]

        self.assertEqual(status("", "GET", "/api/v1/users"), 401)
        self.assertEqual(status("", "POST", "/api/v1/publish", b"x" * 20_000), 413)  # as at the home
        self.assertEqual(status("publish", "POST", "/api/v1/publish", b'{"topic": "a"}'), 200)
        self.assertEqual(status("publish", "PUT", "/api/v1/bans?user=eve&seconds=60"), 403)
        self.assertEqual(status("operate", "PUT", "/api/v1/bans?user=eve&seconds=60"), 200)
        home.wait_for_log(re.escape("audit: desk PUT '/api/v1/bans?user=eve&seconds=60' -> 200 from 127.0.0.1, at node edge#"))

    def test_a_home_judges_tokens_itself_on_a_link_without_certificates(self):
        home, edge, tokens = self.nodes_with_tokens()
        self.judge_tokens(home, edge, tokens)
        port = int(home.command[home.command.index("--link-listen") + 1].split(":")[1])
        for token, status in (("", b"401"), ("Authorization: Bearer %s\r\n" % tokens["operate"], b"200")):
            with Client(port) as stranger:
                birth = stranger.socket.recv(1000).split()[3]
                stranger.send(b"pulsegate-http 1 edge#1 " + birth + b" - desk\nGET /api/v1/users HTTP/1.1\r\nHost: localhost\r\n" +
                              token.encode() + b"Connection: close\r\n\r\n")
                self.assertEqual(stranger.socket.recv(1000).split()[1], status)

    def test_silent_strangers_at_the_link_keep_no_node_out(self):
        home, edge = self.nodes()
        port = int(home.command[home.command.index("--link-listen") + 1].split(":")[1])
        with contextlib.ExitStack() as strangers:
            for _ in range(100):
                strangers.enter_context(Client(port))
            self.assertEqual(edge.ask("GET", "/api/v1/users")[0], 200)

    def test_a_node_with_a_certificate_vouches_for_its_clients(self):
        certificates = Certificates()
        self.addCleanup(certificates.folder.cleanup)
        certificate, key = certificates.issue("localhost")
        path = Path(self.enterContext(tempfile.TemporaryDirectory())) / "admin.sock"
        home, edge, tokens = self.nodes_with_tokens("--link-cert", certificate, "--link-key", key, "--link-ca", certificates.ca)
        self.judge_tokens(home, edge, tokens)
        local = self.edge("--admin-socket", path, name="local")
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            client.sendall(b"GET /api/v1/users HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            self.assertEqual(client.recv(1000).split()[1], b"200", local.log)

    def test_a_node_that_stands_by_is_drained(self):
        home, edge = self.nodes()
        for target, body in (("/api/v1/drain?over=5", None), ("/api/v1/drain", {"over": -1}), ("/api/v1/reload", {"over": 1}),
                             ("/api/v1/drain", b"{")):
            self.assertEqual(edge.ask("POST", target, body)[0], 400, target)
        ann = edge.connect("ann", version=5)
        self.assertEqual(edge.ask("GET", "/api/v1/drain"), (200, {"phase": "none", "clients": 1}))
        idle = self.enterContext(Client(edge.port))  # nobody asks it to leave, so the drain goes on
        self.assertEqual(edge.ask("POST", "/api/v1/drain", {"over": 60}), (202, {"notice": 0, "over": 60}))
        wait_until(lambda: edge.ask("GET", "/api/v1/drain")[1]["phase"] == "leaving", what="the drain")
        self.assertEqual(ask(edge.http_port, "/readyz")[0], 503)
        self.assertEqual(edge.ask("POST", "/api/v1/drain")[0], 409)
        idle.close()
        self.assertEqual([(first, body[0]) for first, body in ann.receive_until_closed()], [(DISCONNECT[0], 0x8B)])
        self.assertEqual(edge.process.wait(60), 0)
        self.assertEqual(home.ask("GET", "/api/v1/users/ann")[1]["state"], "online")
        third = self.edge(name="third")
        self.assertEqual(third.ask("POST", "/api/v1/drain", {"over": 60})[0], 202)
        self.assertEqual(third.process.wait(60), 0)  # it has no clients to wait for

    def test_questions_about_one_node_are_answered_by_that_node(self):
        home, edge = self.nodes()
        status, health = edge.ask("GET", "/healthz")
        self.assertEqual((status, health["status"], health["stalled"]), (200, "ok", []))
        self.assertEqual(edge.ask("GET", "/api/v1/cluster")[0], 200)
        for method, target in (("POST", "/api/v1/backup"), ("POST", "/api/v1/upgrade")):
            status, body = edge.ask(method, target, {"file": "/tmp/none.db"})
            self.assertEqual((status, body["code"]), (503, "standby"))
        self.assertIn("this node stands by; node home serves", body["error"])
        self.assertIn("dashboard", edge.ask("GET", "/")[1])

    def test_each_node_shows_what_it_knows_of_the_clients_of_nodes(self):
        def rows(node):
            names = ("edge", "linked", "draining", "clients")
            nodes = ask(node.http_port, "/api/v1/cluster")[1]["nodes"]
            return {each["name"]: {name: each[name] for name in names if name in each} for each in nodes}

        home, edge = self.nodes()
        http = free_port()
        self.addCleanup(standby(self.redis, "standby", http, lease=LONG_LEASE).kill)
        for each in (edge, edge, home):
            each.connect()
        of_edge = {"edge": True, "linked": True, "clients": 2}
        of_home = {"edge": False, "draining": False, "clients": 1}
        wait_until(lambda: len(rows(home)) == len(rows(edge)) == 3, what="the standby")
        self.assertEqual(rows(home), {"home": of_home, "edge": of_edge, "standby": {"linked": False}})
        self.assertEqual(rows(edge), {"home": {}, "edge": {**of_edge, "draining": False}, "standby": {}})
        of_standby = ask(http, "/api/v1/cluster")[1]
        self.assertEqual([each["edge"] for each in of_standby["nodes"] if "edge" in each], [False])
        edge.ask("POST", "/api/v1/drain", {"notice": 600, "over": 1})
        wait_until(lambda: rows(edge)["edge"]["draining"], what="the drain")
        self.assertEqual(rows(edge)["edge"], {**of_edge, "draining": True})
        edge.kill()
        wait_until(lambda: "clients" not in rows(home).get("edge", {}), what="the end of the link")
        self.assertEqual(rows(home)["home"], of_home)

    def test_streams_end_when_another_node_takes_over_from_a_home_that_stands_still(self):
        home = self.home(lease=LEASE)
        edges = [self.edge(name=name, lease=LEASE) for name in ("edge", "second")]
        streams = []
        for each in edges:
            request = urllib.request.Request(f"http://127.0.0.1:{each.http_port}/api/v1/presence/changes",
                                             headers={"Accept": "text/event-stream"})
            streams.append(self.enterContext(urllib.request.urlopen(request, timeout=60)))
            self.assertTrue(streams[-1].readline())  # so the home has it
        with home.standing_still():
            for each in streams:
                while each.readline():
                    pass

    def test_while_no_node_answers_the_edge_says_so(self):
        home, edge = self.nodes(lease=60)
        home.kill()
        status, body = edge.ask("GET", "/api/v1/users")
        self.assertEqual((status, body["code"]), (503, "home_silent"))
        self.assertIn("node home owns the data, and has not answered", body["error"])


if __name__ == "__main__":
    unittest.main()
