"""Logins at an edge: it checks the credentials, and the home decides about the rest."""

import contextlib
import os
import re
import signal
import socket
import ssl
import tempfile
import time
import unittest
from pathlib import Path

import packets
from certificates import Certificates
from cluster_test import ask
from credentials import SECRET, token
from edge_nodes import EdgeCase, RunningEdge, edge_node, history, state
from gateway import SANITIZED, Client, add_users, connect_packet, wait_until
from hook_backend import ALLOW, Backend
from ports import free_port
from streams import WebSocket, receive


def code(port, name, user=None, password=None, version=5, **options):
    """Of the CONNACK; the client is gone afterwards."""
    with Client(port) as client:
        client.send(packets.connect(version, name, username=user, password=password, **options))
        answer = client.receive()
        return answer and answer[1][1]


class LoginTest(EdgeCase):
    def setUp(self):
        super().setUp()
        self.path = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="pulsegate-edge-")))

    def file(self, name, text):
        path = self.path / name
        path.write_text(text)
        path.chmod(0o600)
        return path

    def test_passwords_are_checked_at_the_edge_and_lines_at_the_home(self):
        users = [add_users(self.path / name, ann="right", bob="other") for name in ("of_home", "of_edge")]
        copy = Path(users[0]).read_text()
        Path(users[1]).write_text(copy)
        home = self.home("--password-file", users[0])
        edge = self.edge("--password-file", users[1])
        self.assertEqual(code(edge.port, "c", "ann", "right"), 0)
        self.assertEqual(code(edge.port, "c", "ann", "wrong"), 0x86)
        self.assertEqual(code(edge.port, "c", "ann", "wrong", version=4), 4)
        self.assertEqual(code(edge.port, "c"), 0x87)
        with Client(edge.port) as ann:
            ann.send(packets.connect(5, "c", username="ann", password="right"))
            self.assertEqual(ann.receive()[1][1], 0)
            # The home loses the line first.
            Path(users[0]).write_text("".join(line for line in copy.splitlines(True) if not line.startswith("ann")))
            home.process.send_signal(signal.SIGHUP)
            self.assertEqual(ann.receive_until_closed()[-1][1][0], 0x87)
        self.assertEqual(code(edge.port, "c", "ann", "right"), 0x87)
        home.wait_for_log("client 'c' of user 'ann': login refused: the owner's password file does not have the line")
        self.assertEqual(code(edge.port, "c", "bob", "other"), 0)
        Path(users[1]).write_text("".join(line for line in copy.splitlines(True) if not line.startswith("bob")))
        edge.process.send_signal(signal.SIGHUP)
        wait_until(lambda: code(edge.port, "c", "bob", "other") == 0x86, what="the edge's new file")

    def test_a_token_ends_its_client_at_its_expiry_and_its_rules_hold(self):
        secret = self.file("secret", SECRET)
        home, edge = self.nodes("--jwt-secret", secret)
        with Client(edge.port) as ann:
            ann.version = 5
            ann.send(packets.connect(5, "c", username="x", password=token({"sub": "ann", "exp": time.time() + 6})))
            self.assertEqual(ann.receive()[1][1], 0)
            self.assertEqual(state(home, "ann"), "online")
            ann.publish("inbox/somebody/else/#"[:-2], b"", qos=1)
            ann.receive()
            self.assertEqual(ann.receive_until_closed()[-1][1][0], 0xA0)
        self.assertEqual(code(edge.port, "c", "x", token({"sub": "ann", "exp": time.time() - 99})), 0x86)

    def test_bans_of_the_home_hold_at_the_edge(self):
        home, edge = self.nodes()
        for query in ("user=ann", "address=127.0.0.1"):
            with self.subTest(query):
                ann = edge.connect("ann", version=5)
                self.assertEqual(home.ask("PUT", f"/api/v1/bans?{query}&reason=spam")[0], 200)
                first, body = ann.receive_until_closed()[-1]
                self.assertEqual((first, body[0]), (0xE0, 0x98))
                self.assertEqual(code(edge.port, "ann"), 0x8A)
                home.wait_for_log("client 'ann' of user 'ann': login refused: banned by the HTTP API: 'spam'")
                self.assertEqual(home.ask("DELETE", f"/api/v1/bans?{query}")[0], 200)
                self.assertEqual(code(edge.port, "ann"), 0)

    def test_the_api_of_the_home_disconnects_a_client_of_the_edge(self):
        home, edge = self.nodes()
        ann = edge.connect("ann", version=5)
        self.assertEqual(home.ask("DELETE", "/api/v1/clients?user=ann")[0], 200)
        self.assertEqual(ann.receive_until_closed()[-1][1][0], 0x98)
        wait_until(lambda: home.metric("pulsegate_connections") == 0, what="no connection")

    def test_an_answer_of_the_hook_that_the_edge_remembers_is_no_good_after_a_revocation(self):
        backend = Backend(ALLOW)
        self.addCleanup(backend.stop)
        home, edge = self.nodes("--auth-hook", backend.url, "--auth-hook-cache", "10m")
        with Client(edge.port) as ann:
            ann.send(packets.connect(5, "c", username="ann", password="right"))
            self.assertEqual(ann.receive()[1][1], 0)
            self.assertEqual(home.ask("POST", "/api/v1/users/ann/revoke")[1]["disconnected"], 1)
            self.assertEqual(ann.receive()[1][0], 0x98)
        self.assertEqual(code(edge.port, "c", "ann", "right"), 0x89)
        home.wait_for_log("its user's logins were revoked after the auth-hook was asked")
        wait_until(lambda: code(edge.port, "c", "ann", "right") == 0, what="another answer of the hook")
        self.assertGreaterEqual(len(backend.questions), 2)

    def test_the_answer_of_the_hook_may_have_been_on_the_link_since_before_a_revocation(self):
        backend = Backend(ALLOW)
        self.addCleanup(backend.stop)
        home, edge = self.nodes("--auth-hook", backend.url, "--auth-hook-cache", "0")

        def is_refused():
            self.assertEqual(home.ask("POST", "/api/v1/users/ann/revoke")[0], 200)
            edge.ask("GET", "/api/v1/users/ann")  # some milliseconds
            return code(edge.port, "c", "ann", "right") == 0x89

        wait_until(is_refused, what="a login soon after the revocation")
        wait_until(lambda: code(edge.port, "c", "ann", "right") == 0, what="a login some seconds later")

    def test_the_metrics_of_an_edge_have_its_own_connections_and_refusals(self):
        home, edge = self.nodes("--password-file", add_users(self.path / "users", ann="right"))
        with Client(edge.port) as ann:
            ann.send(packets.connect(5, "c", username="ann", password="right"))
            self.assertEqual(ann.receive()[1][1], 0)
            self.assertEqual(code(edge.port, "other", "ann", "wrong"), 0x86)
            self.assertEqual([node.metric("pulsegate_logins_refused_total") for node in (home, edge)], [0, 1])
            self.assertEqual([node.metric("pulsegate_forwarded_clients") for node in (home, edge)], [1, 0])
            wait_until(lambda: edge.metric("pulsegate_connections") == 1, what="the end of the refused client")
        families = re.findall(r"^# TYPE (\S+) ", edge.get("/metrics")[1], re.MULTILINE)
        self.assertEqual(len(families), len(set(families)))
        self.assertLess({"pulsegate_edge_linked", "pulsegate_cluster_nodes", "process_cpu_seconds_total"}, set(families))

    def test_the_end_of_a_client_tells_how_long_it_was_silent(self):
        home, edge = self.nodes()
        with edge.connect("ann", keepalive=60) as ann:
            wait_until(lambda: self.silence(home) > 3, what="silence")
            ann.ping()
        wait_until(lambda: state(home, "ann") == "offline", what="offline")
        self.assertLess(history(home, "ann")[0]["silence"], 3)

    @staticmethod
    def silence(home):
        (shown,) = home.get_json("/api/v1/clients?user=ann")[1]["clients"]
        return shown["silence"]

    def test_while_its_home_is_drained_an_edge_keeps_its_clients_and_lets_clients_in(self):
        home, edge = self.nodes()
        stays = edge.connect("stays", keepalive=60)
        leaves = [home.connect(f"h{number}", version=5, keepalive=60) for number in range(20)]
        self.assertEqual(home.ask("POST", "/api/v1/drain", {"notice": 0, "over": 600})[0], 202)
        self.assertEqual(leaves[0].receive()[1][0], 0x8B)  # they leave one after the other
        self.assertEqual(code(home.port, "new"), 0x9C)
        self.assertEqual(code(home.port, "new", version=4), 3)
        self.assertEqual(code(edge.port, "h0"), 0)
        stays.ping()
        self.assertEqual(home.ask("GET", "/api/v1/users/stays")[1]["state"], "online")

    def test_clients_reach_the_home_through_tls_websocket_and_proxy(self):
        certificates = Certificates()
        self.addCleanup(certificates.folder.cleanup)
        certificate, key = certificates.issue("localhost")
        ports = {name: free_port() for name in ("mqtts", "ws", "wss", "mqtt")}
        home = self.home()
        self.edge("--tls-cert", certificate, "--tls-key", key, "--tls-client-ca", certificates.ca,
                  "--user-from", "certificate", "--allow-anonymous",
                  listeners=[f"mqtts://127.0.0.1:{ports['mqtts']}", f"ws://127.0.0.1:{ports['ws']}",
                             f"wss://127.0.0.1:{ports['wss']}", f"mqtt://127.0.0.1:{ports['mqtt']}?proxy-protocol"])
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            certificates.issue("phone")
            context = ssl.create_default_context(cafile=certificates.ca)
            context.load_cert_chain(certificates.path / "phone.crt", certificates.path / "phone.key")
            context.minimum_version = context.maximum_version = version
            plain = socket.create_connection(("127.0.0.1", ports["mqtts"]), timeout=60)
            with context.wrap_socket(plain, server_hostname="localhost") as stream:
                stream.sendall(connect_packet("tls", username="ignored") + b"\xc0\0")
                self.assertEqual(receive(stream, 6), b"\x20\x02\0\0\xd0\0")
                self.assertEqual(state(home, "phone"), "online")
        web = WebSocket(ports["ws"]).log_in(b"w")
        self.addCleanup(web.socket.close)
        self.assertEqual(state(home, "anonymous%2Fw"), "online")
        with socket.create_connection(("127.0.0.1", ports["mqtt"]), timeout=60) as proxied:
            proxied.sendall(b"PROXY TCP4 203.0.113.9 127.0.0.1 4711 1883\r\n" + connect_packet("p"))
            self.assertEqual(receive(proxied, 4), b"\x20\x02\0\0")
            (shown,) = home.get_json("/api/v1/clients?user=anonymous/p")[1]["clients"]
            self.assertEqual(shown["address"], "203.0.113.9:4711")
            self.assertEqual(home.ask("PUT", "/api/v1/bans?address=203.0.113.9")[0], 200)
            self.assertEqual(proxied.recv(10), b"")

    def test_a_reload_of_an_edge_changes_its_settings(self):
        settings = self.file("pulsegate.toml", "")
        home = self.home()
        edge = self.edge("--config", settings)
        ann = edge.connect("ann")
        settings.write_text("max-connections-per-address = 1\n")
        os.kill(edge.pid, signal.SIGHUP)
        edge.wait_for_log("settings reloaded: max-connections-per-address")
        self.assertEqual(code(edge.port, "bob"), 0x97)
        settings.write_text("max-connections-per-address = 0\nmax-connections = none\n")
        os.kill(edge.pid, signal.SIGHUP)
        edge.wait_for_log("pulsegate.toml:2: ")
        self.assertEqual(code(edge.port, "bob"), 0x97)
        ann.ping()
        self.assertEqual(state(home, "ann"), "online")

    def test_an_edge_whose_port_is_taken_stands_by(self):
        self.home()
        with socket.create_server(("127.0.0.1", 0)) as taken:
            made = edge_node(self.redis, "edge", listeners=[f"mqtt://127.0.0.1:{taken.getsockname()[1]}"])
            self.enterContext(RunningEdge(made))
            made.wait_for_log("while this node stands by, it serves no clients")
            wait_until(lambda: made.log and ask(made.http_port, "/readyz")[0] == 503, what="the API")

    def test_logins_leave_nothing_behind(self):
        home, edge = self.nodes("--ban-flaps", "0", "--duel-takeovers", "0", "--login-rate", "0")
        logins = 500 if SANITIZED else 2000

        def log_in(count):
            for number in range(count // 20):
                with contextlib.ExitStack() as stack:
                    clients = [stack.enter_context(Client(edge.port)) for _ in range(20)]
                    for i, client in enumerate(clients):
                        client.send(connect_packet(f"c{i}", version=5) + (b"\xe0\0" if number % 2 else b""))
                    for client in clients:
                        self.assertEqual(client.receive()[0], 0x20)
            wait_until(lambda: home.metric("pulsegate_connections") == 0, what="no connection")

        log_in(logins // 5)
        before = {each: each.rss() for each in (home, edge)}
        log_in(logins)
        for each, size in before.items():
            self.assertLess(each.rss() - size, (200 if SANITIZED else 8) << 20)


if __name__ == "__main__":
    unittest.main()
