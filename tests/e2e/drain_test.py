"""A drain: the gateway is not ready first, then its clients leave bit by bit, and users that return were never offline."""

import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import tempfile
import termios
import threading
import time
import unittest
from pathlib import Path

from gateway import Client, Gateway, binary, connect_packet, wait_until

CLIENTS = 40
USE_ANOTHER_SERVER = 0x9C
SERVER_SHUTTING_DOWN = 0x8B
SERVER_REFERENCE = 0x1C


def properties(body):
    """The texts of a CONNACK's or DISCONNECT's properties by identifier: 0x1C and 0x1F only."""
    found = {}
    at = 0
    while at < len(body):
        identifier, size = body[at], struct.unpack(">H", body[at + 1:at + 3])[0]
        found[identifier] = body[at + 3:at + 3 + size].decode()
        at += 3 + size
    return found


class DrainTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.data = Path(folder.name) / "data"

    def start(self, *arguments, events=False):
        return Gateway("--shards", "2", "--data", self.data, *arguments, events=events)

    def ready(self, gateway):
        return gateway.get("/readyz")[0] == 200

    def test_it_is_not_ready_before_the_first_client_leaves(self):
        with self.start() as gateway:
            client = gateway.connect("stays", version=5)
            self.assertTrue(self.ready(gateway))
            self.assertEqual(gateway.ask("POST", "/api/v1/drain", {"notice": 600, "over": 600})[0], 202)
            wait_until(lambda: not self.ready(gateway), what="not ready")
            self.assertIn("drained", gateway.get_json("/readyz")[1]["why"])
            self.assertEqual(gateway.get_json("/api/v1/drain")[1]["phase"], "notice")
            client.ping()
            gateway.connect("late").ping()
            self.assertEqual(gateway.ask("POST", "/api/v1/drain")[0], 409)
            gateway.stop()

    def test_clients_leave_bit_by_bit_and_are_sent_on(self):
        with self.start("--server-reference", "other.example:1883") as gateway:
            crowd = [gateway.connect(f"c{i}", version=5) for i in range(CLIENTS)]
            began = time.monotonic()
            self.assertEqual(gateway.ask("POST", "/api/v1/drain", {"notice": 0, "over": 6})[0], 202)
            self.await_refusal(gateway)
            left = []
            for client in crowd:
                first, body = client.receive()
                self.assertEqual((first, body[0]), (0xE0, USE_ANOTHER_SERVER))
                self.assertEqual(properties(body[2:])[SERVER_REFERENCE], "other.example:1883")
                self.assertIsNone(client.receive())
                left.append(time.monotonic() - began)
            self.assertGreater(max(left), 1)  # else all have left at once
            self.assertEqual(gateway.process.wait(60), 0)

    def await_refusal(self, gateway):
        """A new client is told to use the other server."""
        def refused():
            with Client(gateway.port) as client:
                client.send(connect_packet("new", version=5))
                first, body = client.receive()
                return first == 0x20 and body[1] == USE_ANOTHER_SERVER and body
        body = wait_until(refused, what="a refused login")
        self.assertEqual(properties(body[3:])[SERVER_REFERENCE], "other.example:1883")
        with Client(gateway.port) as client:
            client.send(connect_packet("old"))
            self.assertEqual(client.receive(), (0x20, bytes([0, 3])))

    def test_users_that_return_after_the_restart_were_never_offline(self):
        with self.start("--drain-time", "1s", events=True) as gateway:
            crowd = [gateway.connect(f"c{i}", version=5, clean=False) for i in range(CLIENTS)]
            gateway.stop()
            for client in crowd:
                self.assertEqual(client.receive()[1][0], SERVER_SHUTTING_DOWN)
            self.assertFalse([event for event in gateway.events() if event["state"] == "offline"])
        with self.start("--drain-time", "1s", events=True) as gateway:
            online = gateway.get_json("/api/v1/users?state=online&limit=1000")[1]["users"]
            self.assertEqual({user["user"] for user in online}, {f"c{i}" for i in range(CLIENTS)})
            for i in range(CLIENTS):
                gateway.connect(f"c{i}", clean=False)
            self.assertFalse(gateway.events())
            gateway.stop(signal.SIGINT)  # at once
            gone = [event["user"] for event in gateway.events() if event["cause"] == "shutdown"]
            self.assertEqual(len(gone), CLIENTS)

    def test_without_a_store_all_are_offline(self):
        with Gateway("--drain-time", "1s", events=True) as gateway:
            gateway.connect("somebody", version=5)
            gateway.stop()
            self.assertEqual([(event["state"], event["cause"]) for event in gateway.events()][-1:],
                             [("offline", "shutdown")])

    def test_a_second_signal_ends_it_at_once(self):
        with self.start("--drain-notice", "1h", "--drain-time", "1h") as gateway:
            client = gateway.connect("stays")
            gateway.process.send_signal(signal.SIGTERM)
            wait_until(lambda: not self.ready(gateway), what="not ready")
            client.ping()
            gateway.stop(signal.SIGTERM)

    def test_wrong_terms_are_refused(self):
        with self.start() as gateway:
            for body in ({"over": -1}, {"over": "1s"}, {"over": 1e9}, {"ovr": 1}, [], b"x", {"notice": None}):
                status, answer = gateway.ask("POST", "/api/v1/drain", body)
                self.assertEqual(status, 400, body)
                self.assertIn("seconds", answer["error"])
            self.assertEqual(gateway.get_json("/api/v1/drain")[1], {"phase": "none", "clients": 0})


class CtlTest(unittest.TestCase):
    """`pulsegate ctl` over the Unix socket."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        token = Path(cls.folder.name) / "token"
        token.write_text("t" * 32 + "\n")
        token.chmod(0o600)
        cls.gateway = Gateway("--data", Path(cls.folder.name) / "data", "--admin-token-file", token)
        cls.gateway.start()
        cls.addClassCleanup(cls.gateway.kill)

    def ctl(self, *arguments, status=0):
        done = subprocess.run([str(binary()), "ctl", *arguments], cwd=self.folder.name, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=60)
        self.assertEqual(done.returncode, status, done)
        return done.stdout if status == 0 else done.stderr

    def test_the_socket_is_for_the_gateways_user_only(self):
        mode = (Path(self.folder.name) / "data" / "admin.sock").stat().st_mode
        self.assertEqual(mode & 0o777, 0o600)

    def test_it_needs_no_token_there_but_over_http(self):
        url = f"http://127.0.0.1:{self.gateway.http_port}"
        self.assertIn("ready", self.ctl("status"))
        self.assertIn("token missing", self.ctl("--url", url, "status", status=1))
        self.assertIn("ready", self.ctl("--url", url, "--token-file", "token", "status"))

    def test_it_asks_only_one_gateway(self):
        said = self.ctl("--socket", "data/admin.sock", "--url", "http://127.0.0.1:1", "status", status=2)
        self.assertIn("--socket excludes --url", said)
        self.assertIn("--token-file requires --url", self.ctl("--token-file", "token", "status", status=2))

    def test_a_refusal_is_json_too_and_an_unknown_command_is_named(self):
        done = subprocess.run([str(binary()), "ctl", "--json", "user", "nobody"], cwd=self.folder.name, capture_output=True,
                              text=True, timeout=60)
        self.assertEqual((done.returncode, json.loads(done.stdout)["code"]), (1, "unknown_user"))
        self.assertIn("unknown user", done.stderr)
        self.assertIn("unknown command 'state'", self.ctl("state", status=2))

    def test_status_and_check(self):
        status = json.loads(self.ctl("status", "--json"))
        self.assertEqual(status["pid"], self.gateway.pid)
        self.assertTrue(status["ready"])
        self.assertEqual(self.ctl("check"), "ready\n")
        self.assertEqual(len(self.ctl("top", "--every", "1", "-n", "1").splitlines()), 2)

    def test_a_user_is_shown_kicked_and_banned(self):
        phone = self.gateway.connect("phone", version=5, username="bob")
        self.assertIn("bob: online", self.ctl("user", "bob"))
        self.assertIn("phone", self.ctl("clients", "--user", "bob"))
        self.assertIn("1 disconnected", self.ctl("kick", "bob"))
        self.assertEqual(phone.receive()[1][0], 0x98)
        self.ctl("ban", "--user", "bob", "--reason", "spam")
        self.assertIn("spam", self.ctl("bans"))
        self.assertEqual(self.ctl("unban", "--user", "bob"), "lifted\n")
        self.assertIn("kicked", self.ctl("why", "bob"))
        self.assertIn("unknown user", self.ctl("user", "nobody at all", status=1))

    def test_it_reloads(self):
        with tempfile.TemporaryDirectory() as folder:
            settings = Path(folder) / "gateway.conf"
            settings.write_text('idle-timeout = "30s"\n')
            socket = str(Path(folder) / "admin.sock")
            with Gateway("--config", settings, "--admin-socket", socket) as gateway:
                settings.write_text('idle-timeout = "20s"\nshards = 1\n')
                said = self.ctl("--socket", socket, "reload")
                self.assertIn("idle-timeout", said)
                self.assertIn("needs a restart: ", said)
                settings.write_text("idle-timeot = 1\n")
                self.assertIn("idle-timeout", self.ctl("--socket", socket, "reload", status=1))
                gateway.connect("still there").ping()

    def test_it_publishes(self):
        phone = self.gateway.connect("reader", username="ann")
        self.assertIn("inbox/ann", self.ctl("publish", "inbox/ann", "hello"))
        self.assertEqual(phone.receive_publish(), ("inbox/ann", b"hello"))
        self.assertIn("inbox/ann", self.ctl("publish", "inbox/ann", "later", "--in", "3600"))

    def test_it_backs_up(self):
        self.assertIn("copy.db", self.ctl("backup", "copy.db"))
        self.assertTrue((Path(self.folder.name) / "copy.db").stat().st_size > 0)
        self.assertIn("exists already", self.ctl("backup", "copy.db", status=1))

    def test_exit_statuses(self):
        self.assertIn("--help", self.ctl("stauts", status=2))
        self.assertIn("--socket", self.ctl("--socket", "nowhere.sock", "status", status=3))
        self.assertIn("not a time", self.ctl("drain", "--over", "soon", status=2))
        self.assertIn("complete", self.ctl("completion"))

    def test_a_gateway_that_does_not_answer_is_away_for_questions_and_awaited_for_changes(self):
        silent = self.enterContext(socket.create_server(("127.0.0.1", 0)))
        full = self.enterContext(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(5):  # as many as have a place, and some that wait for one
            waiting = self.enterContext(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        data = Path(self.folder.name) / "stopped"
        with Gateway("--data", data) as gateway:
            def begin(*arguments):
                process = subprocess.Popen([str(binary()), "ctl", *arguments], stdin=subprocess.DEVNULL,
                                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                self.addCleanup(process.kill)
                return process
            with gateway.standing_still():
                change = begin("--socket", str(data / "admin.sock"), "reload")
                questions = [begin(*place, "check") for place in (
                    ("--socket", str(data / "admin.sock")), ("--url", f"http://127.0.0.1:{gateway.http_port}"),
                    ("--url", f"https://127.0.0.1:{silent.getsockname()[1]}"),
                    ("--url", f"http://127.0.0.1:{full.getsockname()[1]}"))]
                for question in questions:
                    said = question.communicate(timeout=60)
                    self.assertEqual((question.returncode, said[0]), (3, ""), said)
                    self.assertIn("it does not answer", said[1])
                self.assertIsNone(change.poll())
            self.assertEqual((change.communicate(timeout=60)[0], change.returncode), ("reloaded\n", 0))

    def test_a_leftover_socket_is_replaced_and_a_file_is_not(self):
        with tempfile.TemporaryDirectory() as folder:
            with Gateway("--data", Path(folder) / "data") as killed:
                killed.kill()
            with Gateway("--data", Path(folder) / "data") as gateway:
                self.assertNotIn("admin-socket", gateway.log)
            (Path(folder) / "file").write_text("")
            done = subprocess.run([str(binary()), "--data", "none", "--admin-socket", "file"], cwd=folder,
                                  capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 1)
            self.assertIn("admin-socket: file", done.stderr)


class LongStartTest(unittest.TestCase):
    """The file of passwords is a pipe, and its writer never closes it."""

    def test_a_signal_ends_it(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=number), tempfile.TemporaryDirectory() as folder:
                os.mkfifo(f"{folder}/users")
                pipe = os.open(f"{folder}/users", os.O_RDWR)
                self.addCleanup(os.close, pipe)
                os.write(pipe, b"#")
                over = threading.Event()

                def write(pipe=pipe, over=over):
                    while not over.wait(0.5):  # the gateway does not wait for three seconds
                        os.write(pipe, b"#")

                writer = threading.Thread(target=write)
                writer.start()
                gateway = Gateway("--password-file", f"{folder}/users").launch()
                try:
                    wait_until(lambda pipe=pipe: not any(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4))), what="a start that reads")
                    gateway.stop(number)
                finally:
                    over.set()
                    writer.join()
                    gateway.kill()
                self.assertIn(f"{number.name}: ending before the start is complete", gateway.log)


class ServiceTest(unittest.TestCase):
    """What systemd would see and pass, without systemd."""

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def start(self, *arguments, environment=None, listening=None, store=("--data", "none")):
        """A gateway with these variables; `listening` becomes its descriptor 3, as systemd passes it."""
        def take_socket():
            if listening:
                os.dup2(listening.fileno(), 3)
                os.set_inheritable(3, True)  # if it was 3 before
        line = 'export LISTEN_PID=$$; exec "$@"' if listening else 'exec "$@"'
        process = subprocess.Popen(
            ["sh", "-c", line, "sh", str(binary()), *store, *arguments], stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL, preexec_fn=take_socket, close_fds=not listening,
            env={**os.environ, **(environment or {}), **({"LISTEN_FDS": "1"} if listening else {})})
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stderr.close()

    def test_it_tells_systemd_how_it_does(self):
        told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(told.close)
        told.bind(str(self.folder / "notify"))
        told.settimeout(60)

        def await_word(word):
            while word not in told.recv(4096).decode():
                pass
        process = self.start("--listen", "mqtt://127.0.0.1:0", "--listen", "http://127.0.0.1:0",
                             environment={"NOTIFY_SOCKET": str(self.folder / "notify"), "WATCHDOG_USEC": "200000"})
        await_word("READY=1")
        for _ in range(3):
            await_word("WATCHDOG=1")
        process.send_signal(signal.SIGHUP)
        await_word("RELOADING=1")
        await_word("READY=1")
        process.send_signal(signal.SIGUSR1)  # ends nothing
        await_word("WATCHDOG=1")
        process.terminate()
        await_word("STOPPING=1")
        self.assertEqual(process.wait(60), 0)

    def test_connections_wait_in_an_inherited_socket_while_it_restarts(self):
        listening = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listening.close)
        port = listening.getsockname()[1]
        arguments = ("--listen", f"mqtt://127.0.0.1:{port}", "--listen", "http://127.0.0.1:0", "--shards", "2")
        first = self.start(*arguments, listening=listening)
        Client(port, timeout=60).login("one").disconnect()
        first.terminate()
        self.assertEqual(first.wait(60), 0)
        with Client(port, timeout=60) as waiting:  # is not refused
            waiting.send(connect_packet("two"))
            second = self.start(*arguments, listening=listening)
            self.assertEqual(waiting.receive(), (0x20, bytes([0, 0])))
            waiting.ping()
            second.terminate()
            self.assertEqual(second.wait(60), 0)

    def test_a_socket_without_a_listener_is_refused(self):
        with socket.create_server(("127.0.0.1", 0)) as listening:
            process = self.start("--listen", "mqtt://127.0.0.1:0", listening=listening)
            self.assertEqual(process.wait(60), 1)
            said = process.stderr.read().decode()
            self.assertIn(f"add --listen mqtt://127.0.0.1:{listening.getsockname()[1]}", said)

    def test_a_node_of_a_cluster_takes_no_sockets(self):
        with socket.create_server(("127.0.0.1", 0)) as listening:
            url = f"mqtt://127.0.0.1:{listening.getsockname()[1]}"
            process = self.start("--listen", url, listening=listening, store=("--cluster", "redis://127.0.0.1:1"))
            self.assertEqual(process.wait(60), 1)
            self.assertIn(b"cluster: systemd holds the ports", process.stderr.read())


if __name__ == "__main__":
    unittest.main()
