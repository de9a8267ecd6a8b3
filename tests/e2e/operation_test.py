"""Starts, stops and settings, as the operator of a gateway sees them."""

import contextlib
import itertools
import json
import os
import re
import resource
import signal
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from gateway import REPOSITORY, SANITIZED, Client, Gateway, binary, wait_until
from ports import free_port

SETTINGS = ["config", "listen", "tls-cert", "tls-key", "tls-client-ca", "tls-client-crl", "tls-min-version", "tls-idle",
            "password-file",
            "jwt-secret", "jwt-key", "jwt-jwks-url", "jwt-jwks-refresh", "jwt-jwks-keep", "jwt-jwks-ca",
            "jwt-issuer", "jwt-audience", "auth-hook", "auth-hook-timeout",
            "auth-hook-cache", "auth-hook-connections", "auth-hook-ca", "auth-hook-token-file", "access-file",
            "allow-anonymous", "admin-token-file", "admin-tokens-file", "admin-socket", "demo", "shards", "idle-timeout",
            "strict-idle-timeout",
            "max-keepalive", "login-timeout", "websocket-origin", "websocket-ping", "forget-after", "stop-wait", "drain-notice",
            "drain-time", "server-reference", "user-from",
            "max-connections", "max-connections-per-address", "max-connections-per-user", "memory-budget", "login-rate", "login-wait",
            "max-loop-lag", "max-message-rate", "max-byte-rate", "total-output-budget", "ban-failures", "ban-flaps",
            "ban-time", "duel-takeovers", "max-packet-size", "max-client-id-length", "output-budget", "receive-maximum", "max-inflight",
            "topic-alias-maximum", "max-qos", "max-session-expiry", "persistent-session-quota",
            "persistent-session-bytes", "queue-memory", "max-queued-messages", "max-queued-bytes", "history-bytes", "retain-available",
            "max-retained-messages", "max-retained-bytes", "max-retained-messages-per-user",
            "max-retained-bytes-per-user", "inbox-expiry", "max-inboxes",
            "max-inboxes-per-user", "max-inbox-bytes-per-user", "max-delayed-messages", "max-delayed-bytes",
            "max-delayed-messages-per-user", "max-delayed-bytes-per-user", "inbox", "sender-property", "sender-in-topic",
            "rooms", "presence-for", "max-room-members", "max-subscriptions", "max-client-memory", "max-user-memory",
            "wildcard-subscriptions", "shared-subscriptions", "max-topic-length", "max-topic-levels", "webhook",
            "webhook-events", "webhook-payload", "webhook-secret-file", "webhook-token-file", "webhook-ca-file",
            "webhook-batch", "webhook-timeout", "presence-feed", "event-log-bytes", "events", "data", "fsync",
            "max-data-bytes", "log-level", "log-format", "log-logins", "cluster", "cluster-password-file", "cluster-ca",
            "cluster-durability",
            "cluster-replicas", "cluster-edge", "node-name", "node-lease", "link-listen", "link-address", "link-cert", "link-key",
            "link-ca"]
CROWD = 500
SOME_PORTS = ["--listen", "mqtt://127.0.0.1:0", "--listen", "http://127.0.0.1:0"]


def run(*arguments, timeout=60, variables=()):
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([str(binary()), *map(str, arguments)], stdin=subprocess.DEVNULL, cwd=folder,
                              capture_output=True, text=True, timeout=timeout, env={**os.environ, **dict(variables)})


class StartAndStopTest(unittest.TestCase):
    @unittest.skipIf(SANITIZED, "sanitizers take their time to start")
    def test_it_is_ready_after_less_than_two_seconds_of_the_processor(self):
        with Gateway() as gateway:
            self.assertLess(gateway.cpu_seconds(), 2)
            self.assertLess(gateway.ready_after, 20)
            gateway.connect("first").ping()
            self.assertEqual(gateway.get_json("/healthz")[1]["status"], "ok")

    def test_a_signal_stops_it_in_order_with_500_clients(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=number), Gateway(events=True) as gateway:
                crowd = [gateway.connect(f"c{i}", version=5 if i % 2 else 4) for i in range(CROWD)]
                started = time.monotonic()
                gateway.stop(number)  # within 10 s, status 0
                self.assertLess(time.monotonic() - started, 10)
                self.assertIn("shutting down", gateway.log)
                for client in crowd:
                    said = client.receive_until_closed()
                    self.assertEqual([(first, body[0]) for first, body in said],
                                     [(0xE0, 0x8B)] if client.version == 5 else [])
                    client.close()
                gone = [event["user"] for event in gateway.events() if event["cause"] == "shutdown"]
                self.assertEqual(sorted(gone), sorted(f"c{i}" for i in range(CROWD)))

    def test_a_client_that_does_not_read_does_not_delay_the_end(self):
        with Gateway("--output-budget", "64MiB") as gateway:
            deaf = Client(gateway.port, receive_buffer=4096).login("deaf")
            deaf.subscribe("flood")
            talker = gateway.connect("talker")
            for _ in range(100):
                talker.publish("flood", bytes(100_000))
            talker.ping()
            gateway.stop()
            deaf.close()

    def test_a_signal_that_comes_early_is_obeyed(self):
        for _ in range(5):
            with Gateway() as gateway:
                gateway.stop()

    def test_watchers_see_everybody_leave(self):
        with Gateway() as gateway:
            watcher = gateway.connect("watcher", version=5)
            watcher.subscribe("presence/friend")
            gateway.connect("friend").ping()
            while json.loads(watcher.receive_publish()[1])["state"] != "online":
                pass
            gateway.stop()
            last = json.loads(watcher.receive_publish()[1])
            self.assertEqual((last["state"], last["cause"]), ("offline", "shutdown"))
            self.assertEqual(watcher.receive_until_closed()[0][1][0], 0x8B)

    def test_the_port_is_free_again_at_once(self):
        with Gateway() as gateway:
            port = gateway.port
            client = gateway.connect("stays")
        with Gateway("--listen", f"mqtt://127.0.0.1:{port}", "--listen", "http://127.0.0.1:0",
                     listen=False) as gateway:
            self.assertEqual(gateway.port, port)
        client.close()


class WrongSettingsTest(unittest.TestCase):
    def refused(self, *arguments, says=(), variables=()):
        """Exit 1 and one line that contains all of `says`; a remedy comes after its semicolon."""
        done = run(*arguments, variables=variables)
        self.assertEqual(done.returncode, 1, done)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertRegex(done.stderr, r"^pulsegate: .+; .+$")
        for words in says:
            self.assertIn(words, done.stderr)

    def test_a_wrong_value_is_named_with_its_remedy(self):
        for setting, value in (("shards", "0"), ("shards", "many"), ("idle-timeout", "30"),
                               ("idle-timeout", "0s"), ("login-timeout", "soon"), ("forget-after", "-1s"),
                               ("user-from", "moon"), ("max-packet-size", "12XB"),
                               ("max-packet-size", "1"), ("output-budget", "1GB"), ("log-level", "loud"), ("log-format", "xml"),
                               ("listen", "127.0.0.1:1883"), ("listen", "ftp://127.0.0.1"),
                               ("listen", "mqtt://127.0.0.1:99999"), ("listen", "mqtt://:1883"),
                               ("listen", "mqtt://no.such.host.invalid:1883"),
                               ("events", "/no/such/folder/events")):
            with self.subTest(setting=setting, value=value):
                self.refused(f"--{setting}={value}", says=[setting])

    def test_an_unknown_flag_is_named(self):
        self.refused("--colour", says=["--colour", "--help"])
        self.refused("--shards", says=["--shards", "--help"])

    def test_settings_that_contradict_each_other_are_named(self):
        self.refused("--max-packet-size", "2MiB", says=["output-budget", "max-packet-size"])

    def test_an_unknown_key_in_the_file_is_named(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write('shards = 1\nidel-timeout = "30s"\n')
            file.flush()
            self.refused("--config", file.name,
                         says=[f"{file.name}:2: unknown setting 'idel-timeout'; did you mean idle-timeout?"])

    def test_a_wrong_value_in_the_file_is_named(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write('idle-timeout = "soon"\n')
            file.flush()
            self.refused("--config", file.name, says=[f"{file.name}:1: idle-timeout: 'soon'"])

    def test_what_is_found_later_is_told_with_the_line_of_its_setting(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            for line, text in ((2, 'password-file = "/no/such/file"'), (2, 'jwt-secret = ["/no/such/file"]'),
                               (3, 'jwt-secret = [\n"/no/such/file"]'), (2, 'admin-token-file = "/no/such/file"'),
                               (2, 'auth-hook-ca = "/no/such/file"\nauth-hook = "https://h"'),
                               (2, 'listen = "mqtt://0.0.0.0:0"'), (2, 'listen = "mqtt://no.such.host.invalid"'),
                               (2, 'listen = "mqtts://127.0.0.1:0"'), (2, 'events = "/no/such/folder/events"')):
                with self.subTest(text=text):
                    file.seek(0)
                    file.truncate()
                    file.write(f"shards = 1\n{text}\n")
                    file.flush()
                    self.refused("--config", file.name, says=[f"{file.name}:{line}: "])

    def test_a_wrong_variable_is_named(self):
        self.refused(says=["PULSEGATE_IDLE_TIMEOUT: idle-timeout: 'soon'"], variables={"PULSEGATE_IDLE_TIMEOUT": "soon"})
        self.refused(says=["PULSEGATE_COLOUR: unknown setting"], variables={"PULSEGATE_COLOUR": "red"})
        self.refused(says=["PULSEGATE_PASSWORD_FILE: password-file: /no/such/file"],
                     variables={"PULSEGATE_PASSWORD_FILE": "/no/such/file"})

    def test_a_missing_file_is_named(self):
        self.refused("--config", "/no/such/file.toml", says=["/no/such/file.toml"])

    def test_a_missing_file_is_named_with_its_setting(self):
        for setting in ("password-file", "jwt-secret", "jwt-key", "access-file", "admin-token-file"):
            with self.subTest(setting=setting):
                self.refused(f"--{setting}=/no/such/file", "--listen=mqtt://127.0.0.1:0", "--listen=http://127.0.0.1:0",
                             says=[setting.split("-")[0], "/no/such/file", "No such file or directory"])
        self.refused("--listen=mqtts://127.0.0.1:0", "--tls-cert=/no/such/file", "--tls-key=/no/such/file",
                     says=["tls-cert", "/no/such/file", "No such file or directory"])

    def test_more_connections_than_there_are_files_are_warned_of(self):
        with Gateway("--max-connections", 99_999_999) as gateway:
            gateway.wait_for_log("warning max-connections: there is no room for 99999999; raise the limit on open files")

    def test_a_taken_port_is_named(self):
        for scheme in ("mqtt", "http"):
            with self.subTest(scheme=scheme), socket.create_server(("127.0.0.1", 0)) as taken:
                url = f"{scheme}://127.0.0.1:{taken.getsockname()[1]}"
                other = "http" if scheme == "mqtt" else "mqtt"
                self.refused("--listen", url, "--listen", f"{other}://127.0.0.1:0",
                             says=[url, "; another process has the port", "--listen"])

    def test_a_port_taken_by_another_gateway_is_named(self):
        with Gateway() as gateway:
            self.refused("--listen", f"mqtt://127.0.0.1:{gateway.port}", "--listen", "http://127.0.0.1:0",
                         says=[str(gateway.port)])
            self.refused("--listen", "mqtt://127.0.0.1:0", "--listen", f"http://127.0.0.1:{gateway.http_port}",
                         says=[str(gateway.http_port)])

    def test_a_port_that_another_listener_has_is_named_with_it(self):
        port = free_port()
        self.refused("--listen", f"mqtt://127.0.0.1:{port}", "--listen", f"http://127.0.0.1:{port}",
                     says=[f"listen: http://127.0.0.1:{port}", f"; --listen mqtt://127.0.0.1:{port} has the port"])

    def test_ipv4_and_ipv6_have_ports_of_their_own(self):
        ports = free_port(), free_port()
        for first, second in (("0.0.0.0", "[::]"), ("[::]", "0.0.0.0"), ("127.0.0.1", "[::]")):
            listeners = [f"{scheme}://{host}:{port}" for scheme, port in zip(("mqtt", "http"), ports)
                         for host in (first, second)]
            token = Path(self.enterContext(tempfile.TemporaryDirectory())) / "token"
            token.write_text("0123456789abcdef")
            token.chmod(0o600)
            arguments = [word for url in listeners for word in ("--listen", url)]
            with self.subTest(listeners=listeners), \
                    Gateway(*arguments, "--allow-anonymous", "--admin-token-file", token, listen=False):
                for host, (family, address) in itertools.product(
                        ("login", "api"), ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))):
                    with socket.socket(family) as stream:
                        stream.connect((address, ports[host == "api"]))
                        self.assertFalse(stream.getpeername()[0].startswith("::ffff"))

    def test_a_client_of_ipv4_is_told_as_such_on_a_listener_for_both(self):
        with Gateway("--listen", "mqtt://[::]:0", "--listen", "http://127.0.0.1:0", "--allow-anonymous",
                     listen=False) as gateway:
            gateway.connect("ann")
            clients = gateway.get_json("/api/v1/clients?user=ann")[1]["clients"]
            self.assertRegex(clients[0]["address"], r"^127\.0\.0\.1:\d+$")
            self.assertNotIn("::ffff", gateway.log)

    def test_other_users_of_the_machine_can_not_read_stored_data(self):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory())) / "data"
        folder.mkdir()
        folder.chmod(0o755)
        for _ in range(2):
            with Gateway("--data", folder) as gateway:
                gateway.connect("ann", clean=False)
                gateway.wait_for_log(f"data: every user of this machine can enter {folder}; chmod o-rwx {folder}")
                modes = {file.name: file.stat().st_mode & 0o777 for file in folder.iterdir()}
                self.assertIn("pulsegate.db-wal", modes)
                self.assertEqual(modes.pop("admin.sock"), 0o600)
                self.assertEqual(set(modes.values()), {0o640})
            (folder / "pulsegate.db").chmod(0o644)  # as an older gateway has made it

    def test_a_public_listener_needs_authentication_or_allow_anonymous(self):
        for url, remedy in (("mqtt://0.0.0.0:0", "--allow-anonymous"), ("http://0.0.0.0:0", "--admin-token-file")):
            self.refused("--listen", url, *SOME_PORTS, says=[remedy])
        with Gateway("--listen", "mqtt://0.0.0.0:0", "--listen", "http://127.0.0.1:0", "--allow-anonymous",
                     listen=False) as gateway:
            gateway.connect("anybody").ping()
            gateway.wait_for_log("clients are not authenticated")


class SettingsTest(unittest.TestCase):
    def test_help_lists_every_setting(self):
        done = run("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(sorted(set(re.findall(r"^ +--([a-z-]+)", done.stdout, re.M)) -
                                {"version", "check", "print-config", "print-sample", "print-reference"}),
                         sorted(SETTINGS))
        self.assertEqual(run("--version").returncode, 0)

    def test_the_documents_list_every_setting(self):
        readme = (REPOSITORY / "server" / "docs" / "settings.md").read_text()
        for name in set(SETTINGS) - {"config"}:  # which names the file that they are in
            self.assertIn(f"| `{name}` |", readme)

    def test_a_file_may_hold_every_setting(self):
        with tempfile.TemporaryDirectory() as folder:
            events = Path(folder) / "events.jsonl"
            file = Path(folder) / "pulsegate.toml"
            file.write_text(f"""
                # every setting
                listen = ["mqtt://127.0.0.1:0", "http://127.0.0.1:0"]
                allow-anonymous = true
                shards = 1
                idle-timeout = "15s"
                strict-idle-timeout = true
                login-timeout = "1s"
                forget-after = "1h"
                user-from = "client-id"
                max-packet-size = "2KiB"
                output-budget = "100KiB"
                max-subscriptions = 100
                receive-maximum = 5
                retain-available = false
                wildcard-subscriptions = "off"
                max-session-expiry = "1h"
                events = "{events}"
                log-level = "debug"
            """)
            with Gateway("--config", file, listen=False) as gateway:
                gateway.wait_for_log(r"\b1 shards")
                client = Client(gateway.port)
                client.version = 5
                client.send(bytes.fromhex("10 12 0004 4d515454 05 82 0000 00 0002 6964 0003 626f62"
                                          .replace("10 12", "10 14")))
                connack = client.receive()[1]
                self.assertIn(bytes([0x13, 0, 10]), connack)  # Server Keep Alive: 15 s / 1.5
                self.assertIn(bytes([0x21, 0, 5]), connack)  # Receive Maximum
                self.assertIn(bytes([0x25, 0]), connack)  # Retain Available
                self.assertIn(bytes([0x28, 0]), connack)  # Wildcard Subscription Available
                self.assertIn(bytes([0x27]) + (2048).to_bytes(4, "big"), connack)  # Maximum Packet Size
                wait_until(lambda: events.exists() and events.read_text(), what="an event")
                self.assertEqual(json.loads(events.read_text().splitlines()[0])["user"], "id")
                client.close()
                gateway.wait_for_log(r" debug .*connection_lost")
                late = Client(gateway.port)  # never logs in: the login timeout is 1 s
                self.assertIsNone(late.receive())
                late.close()

    def test_the_command_line_wins_over_the_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write("shards = 1\n")
            file.flush()
            with Gateway("--config", file.name, "--shards", "3") as gateway:
                gateway.wait_for_log(r"\b3 shards")

    def test_events_on_standard_output_are_pure_json_lines(self):
        with tempfile.TemporaryFile("w+") as out:
            with Gateway("--events", "-", "--log-level", "debug", stdout=out) as gateway:
                gateway.connect("one").disconnect()
                gateway.connect("two").ping()
                wait_until(lambda: gateway.metric("pulsegate_users_online") == 1, what="one has left")
            out.seek(0)
            events = [json.loads(line) for line in out.read().splitlines()]
            self.assertEqual(sorted((event["user"], event["cause"]) for event in events),
                             [("one", "login"), ("one", "logout"), ("two", "login"), ("two", "shutdown")])

    def test_events_are_appended(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "events.jsonl"
            for _ in range(2):
                with Gateway("--events", file) as gateway:
                    gateway.connect("again").disconnect()
            versions = [json.loads(line)["version"] for line in file.read_text().splitlines()]
            self.assertEqual(len(versions), 4)
            self.assertEqual(versions, sorted(set(versions)))

    def test_a_pipe_for_events_holds_up_nobody(self):
        with tempfile.TemporaryDirectory() as folder:
            pipe = Path(folder) / "events"
            os.mkfifo(pipe)
            with Gateway("--events", pipe) as gateway:
                gateway.connect("ann")
                gateway.wait_for_log("events: nobody reads the pipe; its lines wait")
                with pipe.open() as reader:
                    self.assertEqual(json.loads(reader.readline())["user"], "ann")
                gateway.process.send_signal(signal.SIGHUP)
                gateway.connect("bob")
                self.assertEqual(gateway.get("/healthz")[0], 200)
                with pipe.open() as reader:
                    self.assertEqual(json.loads(reader.readline())["user"], "bob")
                gateway.connect("carl").ping()

    def test_a_strict_idle_timeout_holds_all_clients_to_it(self):
        with Gateway("--idle-timeout", "2s", "--strict-idle-timeout") as gateway:
            old = gateway.connect("asks-for-an-hour", keepalive=3600)
            new = gateway.connect("asks-for-a-minute", version=5, keepalive=60)
            self.assertIsNone(old.receive())
            self.assertEqual(new.receive()[1][0], 0x8D)
        with Gateway("--idle-timeout", "2s") as gateway:
            patient = [gateway.connect("asks-for-an-hour", keepalive=3600),
                       gateway.connect("asks-for-a-minute", version=5, keepalive=60)]
            states_none = gateway.connect("states-none", keepalive=0)
            self.assertIsNone(states_none.receive())
            for client in patient:
                client.ping()


class AdminTest(unittest.TestCase):
    def test_the_wheel_shows_where_connections_wait(self):
        with Gateway("--shards", "2") as gateway:
            crowd = [gateway.connect(f"c{i}") for i in range(50)]
            status, wheel = gateway.get_json("/api/v1/wheel")
            self.assertEqual((status, len(wheel["shards"])), (200, 2))
            self.assertEqual([len(shard["slots"]) for shard in wheel["shards"]], [30, 30])
            self.assertEqual(sum(sum(shard["slots"]) for shard in wheel["shards"]), 50)
            self.assertTrue(all(shard["connections"] > 5 for shard in wheel["shards"]))
            for client in crowd:
                client.disconnect()
            wait_until(lambda: gateway.metric("pulsegate_connections") == 0, what="no connections")
            self.assertEqual(gateway.metric("pulsegate_wheel_slot_nodes"), 0)

    def test_metrics_count_what_happened(self):
        with Gateway() as gateway:
            client = gateway.connect("one")
            client.ping()
            client.subscribe("t")
            client.publish("t", b"x")
            client.receive_publish()
            for name, labels, value in (
                    ("connections", {}, 1), ("logins_total", {}, 1), ("users_online", {}, 1),
                    ("packets_received_total", {"type": "pingreq"}, 1),
                    ("packets_received_total", {"type": "connect"}, 1),
                    ("packets_sent_total", {"type": "publish"}, 1),
                    ("messages_received_total", {}, 1), ("messages_sent_total", {}, 1),
                    ("expiries_total", {}, 0), ("expiry_false_alarms_total", {}, 0)):
                self.assertEqual(gateway.metric("pulsegate_" + name, **labels), value, name)
            self.assertGreater(gateway.metric("pulsegate_open_files_headroom"), 0)
            client.close()

    def test_silent_connections_of_one_address_push_out_none_of_another(self):
        request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with Gateway() as gateway, socket.create_connection(("127.0.0.1", gateway.http_port), 60) as scraper:
            for _ in range(3):
                scraper.sendall(request)
                answer = b""
                while not answer.endswith(b"}\n"):
                    more = scraper.recv(1000)
                    self.assertTrue(more, answer)
                    answer += more
                self.assertTrue(answer.startswith(b"HTTP/1.1 200 "), answer)
                for _ in range(100):
                    silent = socket.create_connection(("127.0.0.1", gateway.http_port), 60, ("127.0.0.2", 0))
                    self.addCleanup(silent.close)

    def test_connections_that_read_no_answers_push_out_nobody(self):
        requests = b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 600
        with Gateway() as gateway:
            for number in range(128):
                reader = self.enterContext(contextlib.closing(socket.socket()))
                reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                reader.settimeout(60)
                reader.bind((f"127.0.0.{2 + number % 2}", 0))
                reader.connect(("127.0.0.1", gateway.http_port))
                reader.sendall(requests)
                if number % 8 == 7:
                    self.assertEqual(gateway.get("/healthz")[0], 200)
            for _ in range(20):
                self.assertEqual(gateway.get("/api/v1/wheel")[0], 200)

    def test_what_is_no_resource_is_404_and_what_is_no_http_is_400(self):
        with Gateway() as gateway:
            self.assertEqual(gateway.get("/nothing")[0], 404)
            self.assertEqual(gateway.get("/api/v1/users?ids=")[0], 400)
            with socket.create_connection(("127.0.0.1", gateway.http_port)) as raw:
                raw.sendall(b"\x10\x0e\0\4MQTT\4\2\0<\0\2zz\r\n\r\n")
                self.assertIn(b"400", raw.recv(100))
            with socket.create_connection(("127.0.0.1", gateway.http_port)) as raw:
                raw.sendall(b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
                self.assertIn(b"405", raw.recv(100))
            self.assertEqual(gateway.get_json("/healthz")[1]["status"], "ok")


class RunScriptsTest(unittest.TestCase):
    """The script builds the default build, so it is only told to help here."""

    def start(self):
        # What it takes is the compiler's affair if something has changed since the tests were built.
        with tempfile.TemporaryDirectory() as elsewhere:
            return subprocess.run([str(REPOSITORY / "server" / "run"), "--help"], cwd=elsewhere,
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True)

    @unittest.skipIf(binary() != REPOSITORY / "build" / "pulsegate", "another build is tested")
    def test_server_run_works_from_another_directory_and_is_quick_the_second_time(self):
        self.assertIn("--idle-timeout", self.start().stdout)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        again = self.start()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertEqual((again.returncode, again.stderr), (0, ""))
        # CPU time, because other programs and the folder's lock may delay the script.
        self.assertLess(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 5)


if __name__ == "__main__":
    unittest.main()
