"""Settings from the command line, the environment and the settings file: checked, printed, and reloaded."""

import os
import re
import signal
import socket
import ssl
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request
from pathlib import Path

from certificates import Certificates
from gateway import Client, Gateway, add_users, binary, connect_packet, port_of, wait_until
from mosquitto import leave_a_session
from streams import WebSocket

FREE_PORTS = 'listen = ["mqtt://127.0.0.1:0", "http://127.0.0.1:0"]\n'
MISTAKES = '''idle-timeout = 20s
idle-timeout = "20"
idle-timeout = "0s"
idle-timeout = "20 s"
idle-timeout = ""
idle-timeout =
idle-timeout: "20s"
idle-timeout "20s"
idle-timeout = "20s
idle-timeout = "20s" "30s"
idle-timeout = "20s", "30s"
idle_timeout = "20s"
[server]
shards = 0
shards = -1
shards = 2.5
shards = 0x2
shards = 99999999999999999999
demo = yes
demo = 1
listen = mqtt://127.0.0.1:1883
listen = "127.0.0.1:1883"
listen = "tcp://127.0.0.1:1883"
listen = "mqtt://127.0.0.1:99999"
listen = "mqtt://no.such.host.invalid:1883"
listen = "mqtt://0.0.0.0:1883"
listen = "http://0.0.0.0:8080"
listen = "mqtts://127.0.0.1:8883"
listen = ["mqtt://127.0.0.1:1883"
listen = ["mqtt://127.0.0.1:1883", "mqtt://127.0.0.1:1883"]
listen = "mqtt://127.0.0.1:1883?proxy"
listen = "mqtt://127.0.0.1:1883/path"
tls-cert = "bad.pem"
tls-min-version = "1.1"
password-file = "none"
password-file = "users"
jwt-secret = "secret"
jwt-key = "bad.pem"
jwt-issuer = "me"
jwt-jwks-url = "ftp://x"
access-file = "rules"
admin-token-file = "secret"
admin-tokens-file = "tokens"
auth-hook = "backend:80"
auth-hook-connections = 0
auth-hook-token-file = "secret"
webhook-events = "presense"
webhook-secret-file = "secret"
user-from = "moon"
user-from = "certificate"
max-qos = 3
fsync = "sometimes"
data = "users"
events = "/no/such/x"
log-level = "loud"
max-packet-size = "1"
max-packet-size = "1kb"
max-packet-size = "2MiB"
memory-budget = "50%"
login-rate = "5/s"
drain-time = "2d"
cluster = "localhost:6379"
node-name = "a b"
link-listen = "0.0.0.0:1"
presence-for = "me"
rooms = "closed"
websocket-origin = "https://example.com/path"
config = "x"
max-conections = 5
'''.splitlines()


class SettingsTestCase(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="pulsegate-settings-")))
        self.file = self.folder / "pulsegate.toml"

    def run_gateway(self, *arguments, **variables):
        return subprocess.run([str(binary()), *map(str, arguments)], stdin=subprocess.DEVNULL, cwd=self.folder,
                              capture_output=True, text=True, timeout=60, env={**os.environ, **variables})


class CheckTest(SettingsTestCase):
    def check(self, text, *arguments):
        """Exit status, and lines of standard error without the beginning that names the file."""
        self.file.write_text(text)
        done = self.run_gateway("--check", "--config", self.file, *arguments)
        return done.returncode, [line.replace(f"pulsegate: {self.file}:", "") for line in done.stderr.splitlines()]

    def test_right_settings_are_said_to_be_right_and_nothing_is_touched(self):
        (self.folder / "users").write_text("")
        (self.folder / "users").chmod(0o600)
        before = sorted(self.folder.iterdir())
        status, faults = self.check('password-file = "users"\nevents = "events.jsonl"\ndata = "state/data"\n')
        self.assertEqual((status, faults), (0, []))
        self.assertEqual(sorted(self.folder.iterdir()), sorted([*before, self.file]))

    def test_every_fault_is_told_with_its_line(self):
        status, faults = self.check("""shards = 0
idletimeout = "30s"
log-level = debug
password-file = "no-users"
jwt-secret = ["no-secret",
    "no-other"]
jwt-key = "no-key"
access-file = "no-rules"
admin-token-file = "no-token"
webhook = "http://127.0.0.1:9"
webhook-secret-file = "no-webhook-secret"
events = "no-folder/events"
data = "pulsegate.toml"
listen = ["mqtt://no.such.host.invalid", "mqtts://127.0.0.1:8883"]
max-packet-size = "2MiB"
""")
        self.assertEqual(status, 1)
        for line, words in ((1, "shards: '0' is out of range; choose 1 to 256"),
                            (2, "unknown setting 'idletimeout'; did you mean idle-timeout?"),
                            (3, 'write log-level = "debug"'), (4, "no-users"), (5, "no-secret"), (6, "no-other"),
                            (7, "no-key"), (8, "no-rules"), (9, "no-token"), (11, "no-webhook-secret"),
                            (12, "events: no-folder/events: No such file"), (13, "data: "),
                            (14, "no such host"), (14, "TLS needs a certificate"), (15, "output-budget: ")):
            with self.subTest(line=line, words=words):
                self.assertTrue(any(fault.startswith(f"{line}: ") and words in fault for fault in faults), faults)
        for fault in faults:
            self.assertRegex(fault, r"^\d+: .+; .+")

    def test_each_mistake_is_told_with_its_line_and_its_remedy(self):
        for name, text, mode in (("users", "ann\n", 0o600), ("bad.pem", "x", 0o600), ("secret", "short", 0o600),
                                 ("rules", "allow read #\nalow write x\n", 0o600), ("tokens", "bob:operate\n", 0o600)):
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(mode)
        for mistake in MISTAKES:
            with self.subTest(mistake=mistake):
                status, faults = self.check(f"# a comment\n\n{mistake}\n")
                self.assertEqual(status, 1)
                self.assertRegex("\n".join(faults), r"^3: .+; .+$")

    def test_a_number_is_no_text(self):
        for mistake, remedy in (("shards = two", "two is not a whole number; write digits, as in shards = 100"),
                                ('shards = "two"', "'two' is not a whole number; choose 1 to 256"),
                                ('shards = "300"', "'300' is out of range; choose 1 to 256"),
                                ("login-rate = 5/s", "5/s is not a whole number; write digits, as in login-rate = 100")):
            with self.subTest(mistake=mistake):
                self.assertEqual(self.check(mistake)[1], [f"1: {mistake.split()[0]}: {remedy}"])

    def test_two_listeners_with_one_port_are_a_fault(self):
        for line, other in ((3, "mqtt://127.0.0.1:1883"), (4, "http://0.0.0.0:1883")):
            status, faults = self.check(f'allow-anonymous = true\n\nlisten = ["mqtt://127.0.0.1:1883",\n"{other}"]\n'
                                        f'admin-token-file = "token"\n')
            self.assertEqual(status, 1)
            self.assertIn(f"{line}: listen: {other}: --listen mqtt://127.0.0.1:1883 has the port; choose another port, or remove "
                          "one of them", faults)

    def test_a_gateway_that_runs_does_not_disturb_the_check(self):
        self.file.write_text("shards = 1\n")
        with Gateway("--data", self.folder / "data") as gateway:
            done = self.run_gateway("--check", "--data", self.folder / "data", "--listen",
                                    f"mqtt://127.0.0.1:{gateway.port}", "--listen",
                                    f"http://127.0.0.1:{gateway.http_port}")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("the settings are right", done.stdout)

    def test_a_public_listener_without_logins_is_a_fault(self):
        status, faults = self.check('\nlisten = "mqtt://0.0.0.0"\n')
        self.assertEqual((status, len(faults)), (1, 1))
        self.assertRegex(faults[0], r"^2: listen: mqtt://0\.0\.0\.0:1883: reachable from outside")


class PrintTest(SettingsTestCase):
    def test_what_is_in_force_is_printed_with_its_place(self):
        self.file.write_text('shards = 2\nidle-timeout = "20s"\nlog-level = "warn"\n')
        done = self.run_gateway("--print-config", "--config", self.file, "--shards", 3, PULSEGATE_LOG_LEVEL="error")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for line in ("shards = 3  # command line", f'idle-timeout = "20s"  # {self.file}:2',
                     'log-level = "error"  # PULSEGATE_LOG_LEVEL', '# login-timeout = "10s"  # default'):
            self.assertIn(f"\n{line}\n", done.stdout)
        self.file.write_text(done.stdout)
        self.assertEqual(self.run_gateway("--check", "--config", self.file).returncode, 0)

    def test_the_sample_is_a_settings_file(self):
        done = self.run_gateway("--print-sample")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.file.write_text(done.stdout + FREE_PORTS)
        self.assertEqual(self.run_gateway("--check", "--config", self.file).returncode, 0)


class EnvironmentTest(SettingsTestCase):
    def test_a_gateway_is_configured_by_variables(self):
        self.file.write_text('shards = 2\nlog-level = "error"\n' + FREE_PORTS)
        done = self.run_gateway("--print-config", PULSEGATE_CONFIG=str(self.file), PULSEGATE_LOG_LEVEL="info",
                                PULSEGATE_LISTEN="mqtt://127.0.0.1:1 http://127.0.0.1:2")
        self.assertIn(f"\nshards = 2  # {self.file}:1\n", done.stdout)
        self.assertIn('\nlog-level = "info"  # PULSEGATE_LOG_LEVEL\n', done.stdout)
        self.assertIn('\nlisten = ["mqtt://127.0.0.1:1", "http://127.0.0.1:2"]  # PULSEGATE_LISTEN\n', done.stdout)


class ReloadTest(SettingsTestCase):
    def gateway(self, text, *arguments):
        self.file.write_text(text + FREE_PORTS)
        return self.enterContext(Gateway("--config", self.file, "--data", "none", *arguments, listen=False))

    def reload(self, gateway, text=None, answer="settings"):
        """Sends SIGHUP with this text in the file; returns what the log says, up to the answer and then some."""
        if text is not None:
            self.file.write_text(text + FREE_PORTS)
        before = len(gateway.log)
        os.kill(gateway.pid, signal.SIGHUP)
        return wait_until(lambda: gateway.log[before:] if re.search(answer, gateway.log[before:]) else None,
                          what=f"log line /{answer}/")

    @staticmethod
    def server_keepalive(gateway, client):
        """What a 5.0 client without a keepalive is told: two thirds of idle-timeout."""
        with Client(gateway.port) as stream:
            stream.send(connect_packet(client, version=5, keepalive=0))
            connack = stream.receive()[1]
            return int.from_bytes(connack[connack.index(b"\x13") + 1:][:2], "big")

    def test_what_can_change_while_it_runs_is_applied(self):
        gateway = self.gateway('idle-timeout = "30s"\n')
        stays = gateway.connect("stays")
        self.assertEqual(self.server_keepalive(gateway, "before"), 20)
        log = self.reload(gateway, 'idle-timeout = "60s"\nlog-level = "debug"\nmax-connections-per-user = 1\n',
                          "settings reloaded: .*")
        for words in (f'idle-timeout = "1m" ({self.file}:1)', f'log-level = "debug" ({self.file}:2)',
                      f"max-connections-per-user = 1 ({self.file}:3)"):
            self.assertIn(words, log)
        self.assertNotIn("restart", log)
        self.assertEqual(self.server_keepalive(gateway, "after"), 40)
        gateway.wait_for_log(" debug ")
        gateway.connect("phone", username="ann").ping()
        with Client(gateway.port) as second:
            second.send(connect_packet("laptop", username="ann"))
            self.assertNotEqual(second.receive(), (0x20, b"\0\0"))
        stays.ping()

    def test_a_quiet_websocket_outlives_the_end_of_pings(self):
        websockets = 'websocket-ping = "1s"\n'
        gateway = self.gateway(websockets, *(word for scheme in ("mqtt", "http", "ws")
                                             for word in ("--listen", f"{scheme}://127.0.0.1:0")))
        quiet = WebSocket(port_of(gateway, "ws"))
        self.addCleanup(quiet.socket.close)
        quiet.log_in()
        self.assertEqual(quiet.next()[0], 9)
        self.reload(gateway, "", r'settings reloaded: websocket-ping = "0s" \(default\)')
        silent = gateway.connect("silent", keepalive=1)  # is closed after more than a second
        self.assertEqual(silent.receive_until_closed(), [])
        self.assertEqual(gateway.metric("pulsegate_expiries_total"), 1)
        self.assertEqual(gateway.metric("pulsegate_connections"), 1)

    def test_a_queue_keeps_its_messages_when_its_limit_is_lowered(self):
        gateway = self.gateway("max-queued-messages = 100\n")
        leave_a_session(gateway, "-q", "1", "-i", "away", "-t", "a")
        with gateway.connect("ann") as ann:
            def publish(*numbers):
                for number in numbers:
                    ann.publish("a", b"%d" % number, qos=1)
                    self.assertEqual(ann.receive()[0], 0x40)

            publish(*range(20))
            self.reload(gateway, "max-queued-messages = 3\n", "settings reloaded: max-queued-messages")
            publish(20)
        with gateway.connect("away", clean=False) as away:
            self.assertEqual([away.receive_publish()[1] for _ in range(20)], [b"%d" % number for number in range(1, 21)])

    def test_a_setting_that_is_removed_gets_its_default_again(self):
        gateway = self.gateway('idle-timeout = "60s"\n')
        self.assertEqual(self.server_keepalive(gateway, "before"), 40)
        self.reload(gateway, "", r'settings reloaded: idle-timeout = "30s" \(default\)')
        self.assertEqual(self.server_keepalive(gateway, "after"), 20)

    def test_what_needs_a_restart_is_named_and_stays(self):
        gateway = self.gateway("shards = 1\n")
        log = self.reload(gateway, 'shards = 2\nmax-qos = 0\nidle-timeout = "60s"\n', "need a restart: .*")
        self.assertIn(f"warning settings that need a restart: shards = 2 ({self.file}:1), max-qos = 0 ({self.file}:2)",
                      log)
        self.assertIn("settings reloaded: idle-timeout", log)
        self.assertEqual(self.server_keepalive(gateway, "after"), 40)
        self.assertIn("need a restart: shards = 2", self.reload(gateway, answer="need a restart: .*"))
        self.reload(gateway, 'shards = 1\nidle-timeout = "60s"\n', "settings: nothing changed")

    def test_a_wrong_file_changes_nothing(self):
        gateway = self.gateway('idle-timeout = "30s"\n')
        for text, fault in (('idle-timeout = "60s"\nlog-level = debug\n', ":2: log-level: debug is not in quotes; write"),
                            ('idle-timeout = "60s"\nidletimeout = "60s"\n', ":2: unknown setting 'idletimeout'; did you"),
                            ('idle-timeout = "60s"\noutput-budget = "16KiB"\n', ":2: output-budget: 16384 bytes are less"),
                            ('idle-timeout = "60s"\nidle-timeout = "50s"\n', ":2: idle-timeout: line 1 sets it already")):
            with self.subTest(text=text):
                log = self.reload(gateway, text, "nothing was changed")
                self.assertIn(f"error not reloaded: {self.file}{fault}", log)
                self.assertEqual(self.server_keepalive(gateway, "same"), 20)
        self.reload(gateway, 'idle-timeout = "60s"\n', "settings reloaded: ")
        self.assertEqual(self.server_keepalive(gateway, "after"), 40)

    def test_a_file_that_cannot_be_used_keeps_all_settings_as_they_were(self):
        users = add_users(self.folder / "users", ann="secret")
        gateway = self.gateway(f'password-file = "{users}"\nallow-anonymous = true\n')
        self.assertEqual(self.server_keepalive(gateway, "before"), 20)
        Path(users).write_text("no line of a password file\n")
        log = self.reload(gateway, f'password-file = "{users}"\nallow-anonymous = true\nidle-timeout = "60s"\n',
                          "nothing was changed")
        self.assertIn("users, keys and rules not reloaded: password-file: ", log)
        self.assertIn(f"not reloaded: {self.file}:1: password-file: ", log)
        self.assertEqual(self.server_keepalive(gateway, "after"), 20)

    def test_the_command_line_keeps_its_precedence(self):
        gateway = self.gateway('idle-timeout = "30s"\n', "--idle-timeout", "15s")
        self.reload(gateway, 'idle-timeout = "60s"\n', "settings: nothing changed")
        self.assertEqual(self.server_keepalive(gateway, "same"), 10)

    @staticmethod
    def connack(gateway):
        """The return code for a new client of MQTT 3.1.1."""
        with Client(gateway.port) as client:
            client.send(connect_packet("new"))
            return client.receive()[1][1]

    def test_limits_of_the_process_change_and_all_who_are_there_stay(self):
        gateway = self.gateway("")
        stays = [gateway.connect(f"c{number}") for number in range(3)]
        self.reload(gateway, "max-connections = 1\n", "settings reloaded: max-connections = 1")
        self.assertEqual(self.connack(gateway), 3)
        self.reload(gateway, 'login-timeout = "1s"\n', "settings reloaded: login-timeout = .*max-connections = 0")
        self.assertEqual(self.connack(gateway), 0)
        with Client(gateway.port) as silent:
            self.assertIsNone(silent.receive())
        self.assertEqual(gateway.metric("pulsegate_login_timeouts_total"), 1)
        for client in stays:
            client.ping()

    def test_a_smaller_memory_budget_refuses_new_clients_and_a_larger_one_accepts_them(self):
        gateway = self.gateway('log-level = "info"\n')
        self.assertEqual(self.connack(gateway), 0)
        self.reload(gateway, 'memory-budget = "1MiB"\n', "memory-budget is 1 MiB: new clients are refused")
        self.assertEqual(gateway.metric("pulsegate_memory_budget_bytes"), 1 << 20)
        self.assertEqual(self.connack(gateway), 3)
        self.reload(gateway, 'memory-budget = "8GiB"\n', "new clients are accepted again")
        self.assertEqual(self.connack(gateway), 0)

    def test_a_drain_is_on_the_terms_of_the_last_reload(self):
        gateway = self.gateway("")
        client = gateway.connect("phone", version=5)
        self.reload(gateway, 'drain-time = "1s"\nserver-reference = "other.example:1883"\n', "settings reloaded: drain-time")
        self.assertEqual(gateway.ask("POST", "/api/v1/drain"), (202, {"notice": 0, "over": 1}))
        first, body = client.receive()
        self.assertEqual((first, body[0]), (0xE0, 0x9C))
        self.assertIn(b"other.example:1883", body)
        self.assertEqual(gateway.process.wait(60), 0)

    def test_without_a_change_it_says_so(self):
        gateway = self.gateway('idle-timeout = "60s"\n')
        self.reload(gateway, 'idle-timeout = "1m"  # the same\n', "settings: nothing changed")

    def test_an_admin_token_may_come_from_another_file(self):
        for name in ("old", "new"):
            (self.folder / name).write_text(f"{name}-0123456789abcdef")
            (self.folder / name).chmod(0o600)

        def status(token):
            request = urllib.request.Request(f"http://127.0.0.1:{gateway.http_port}/api/v1/users?state=online",
                                             headers={"Authorization": f"Bearer {token}-0123456789abcdef"})
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    return answer.status
            except urllib.error.HTTPError as error:
                with error:
                    return error.code

        gateway = self.gateway(f'admin-token-file = "{self.folder}/old"\n')
        self.assertEqual((status("old"), status("new")), (200, 401))
        self.reload(gateway, f'admin-token-file = "{self.folder}/new"\n', "settings reloaded: admin-token-file")
        self.assertEqual((status("old"), status("new")), (401, 200))
        log = self.reload(gateway, f'admin-token-file = "{self.folder}/none"\n', "nothing was changed")
        self.assertIn(f"not reloaded: {self.file}:1: admin-token-file: ", log)
        self.assertEqual((status("old"), status("new")), (401, 200))

    def test_the_api_is_not_opened_to_everybody_by_a_reload(self):
        (self.folder / "token").write_text("0123456789abcdef")
        (self.folder / "token").chmod(0o600)
        self.file.write_text(f'admin-token-file = "{self.folder}/token"\n')
        with Gateway("--config", self.file, "--data", "none", "--listen", "mqtt://127.0.0.1:0",
                     "--listen", "http://0.0.0.0:0", listen=False) as gateway:
            self.file.write_text("")
            os.kill(gateway.pid, signal.SIGHUP)
            gateway.wait_for_log("not reloaded: listen: http://0.0.0.0:.* the HTTP API would be reachable from outside")
            gateway.wait_for_log("nothing was changed")

    def test_a_certificate_may_come_from_another_file(self):
        authority = Certificates()
        self.addCleanup(authority.folder.cleanup)
        files = {name: authority.issue(name, host=host) for name, host in (("a", "localhost"), ("b", "other.example"))}
        tls = 'tls-cert = "{}"\ntls-key = "{}"\n'

        def names():
            context = ssl.create_default_context(cafile=authority.ca)
            context.check_hostname = False
            with socket.create_connection(("127.0.0.1", port_of(gateway, "mqtts")), timeout=60) as plain, \
                    context.wrap_socket(plain) as stream:
                return [name for kind, name in stream.getpeercert()["subjectAltName"] if kind == "DNS"]

        self.file.write_text(tls.format(*files["a"]))
        gateway = self.enterContext(Gateway("--config", self.file, "--data", "none", "--listen", "mqtts://127.0.0.1:0",
                                            "--listen", "mqtt://127.0.0.1:0", "--listen", "http://127.0.0.1:0", listen=False))
        self.assertIn("localhost", names())
        self.file.write_text(tls.format(*files["b"]))
        os.kill(gateway.pid, signal.SIGHUP)
        wait_until(lambda: "other.example" in names(), what="the other certificate")


if __name__ == "__main__":
    unittest.main()
