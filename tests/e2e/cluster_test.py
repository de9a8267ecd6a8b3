"""Two gateways with one Redis: one serves, the other one stands by. kill_test kills them under load."""

import json
import os
import re
import select
import signal
import socket
import subprocess
import tempfile
import threading
import unittest
import unittest.mock
import urllib.request
from pathlib import Path

from gateway import PUBACK, SANITIZED, Client, Gateway, binary, connect_packet, wait_until
from packets import PUBREC
from ports import free_port
from redis_server import RedisServer

LEASE = 4  # seconds; the shortest that may be set
QUOTA_EXCEEDED = 0x97


def node(redis, name, *arguments, lease=LEASE):
    """Each node has an address of its own for other nodes."""
    link = f"127.0.0.1:{free_port()}"
    return Gateway("--cluster", redis.url, "--node-name", name, "--link-listen", link, "--node-lease", f"{lease}s",
                   "--shards", "2", *arguments, keeps=True)


def standby(redis, name, http, *arguments, lease=LEASE):
    """It says that it stands by; its API is on the port `http` meanwhile."""
    made = node(redis, name, "--listen", f"http://127.0.0.1:{http}", *arguments, lease=lease)
    made.launch().wait_for_log("standing by")
    return made


def ask(port, path, **options):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", **options)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def reason_of(answer):
    """Of a PUBACK of MQTT 5.0."""
    first, body = answer
    assert first >> 4 == PUBACK, answer
    return body[2] if len(body) > 2 else 0


def publish(client, topic, payload, packet_id=1):
    """QoS 1; the answer, or None if the gateway closes the connection."""
    client.publish(topic, payload, qos=1, packet_id=packet_id)
    return client.receive()


def leave_a_session(gateway, name, *filters):
    """A kept session. Its client is away."""
    client = Client(gateway.port)
    client.send(connect_packet(name, clean=False))
    assert client.receive()[0] == 0x20
    client.subscribe(*filters, qos=1)
    client.disconnect()


def returned(gateway, name):
    """A raw client that is back in its session."""
    client = Client(gateway.port)
    client.send(connect_packet(name, clean=False))
    connack = client.receive()
    assert connack == (0x20, b"\1\0"), connack
    return client


class ClusterTest(unittest.TestCase):
    def setUp(self):
        self.redis = self.enterContext(RedisServer())

    def pair(self, lease=LEASE):
        """One node that serves, and one that stands by; the port of the second one's API."""
        first = self.enterContext(node(self.redis, "first", lease=lease))
        http = free_port()
        second = standby(self.redis, "second", http, lease=lease)
        self.addCleanup(second.kill)
        return first, second, http


class TakeoverTest(ClusterTest):
    def test_a_standby_says_so_and_lets_nobody_in(self):
        first, second, http = self.pair(lease=60)
        status, body = ask(http, "/readyz")
        self.assertEqual(status, 503)
        self.assertEqual(body, {"status": "standby", "why": "this node stands by; node first serves"})
        self.assertEqual(ask(http, "/healthz"), (200, {"status": "ok"}))
        self.assertEqual(ask(http, "/api/v1/users"), ask(first.http_port, "/api/v1/users"))
        for port in (http, first.http_port):
            status, cluster = wait_until(lambda port=port: (lambda found: len(found[1]["nodes"]) == 2 and found)(
                ask(port, "/api/v1/cluster")))
            self.assertEqual(status, 200)
            self.assertEqual({each["name"]: each["owner"] for each in cluster["nodes"]},
                             {"first": True, "second": False})
            self.assertEqual([(each["first"], each["last"]) for each in cluster["partitions"]], [(0, 127)])
        self.assertEqual(first.metric("pulsegate_cluster_partitions_owned"), 128)
        wait_until(lambda: first.metric("pulsegate_cluster_redis_reachable") == 1, what="Redis in time")
        not_for_clients = 384 + 1088  # of the gateway itself, and of its link
        self.assertLessEqual(first.metric("pulsegate_open_files_headroom"),
                             max(1, first.metric("process_max_fds") - not_for_clients))

    def test_a_standby_has_a_page_that_says_so(self):
        _, _, http = self.pair(lease=60)
        for path, kind, words in (("/", "text/html", "This node is on standby"), ("/dashboard/standby.js", "text/javascript", "readyz"),
                                  ("/dashboard/dashboard.css", "text/css", ".pill")):
            with urllib.request.urlopen(f"http://127.0.0.1:{http}{path}", timeout=60) as answer:
                self.assertIn(kind, answer.headers["Content-Type"])
                self.assertIn("default-src 'none'", answer.headers["Content-Security-Policy"])
                self.assertIn(words, answer.read().decode())

    def test_a_standby_is_started_and_alive_for_systemd(self):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        told = self.enterContext(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        told.bind(str(folder / "notify"))
        told.settimeout(60)

        def await_words(*words):
            while told.recv(4096).decode() != "\n".join(words):
                pass

        first = self.enterContext(node(self.redis, "first"))
        with unittest.mock.patch.dict(os.environ, NOTIFY_SOCKET=str(folder / "notify"), WATCHDOG_USEC="200000"):
            second = standby(self.redis, "second", free_port())
        self.addCleanup(second.kill)
        await_words("READY=1", "STATUS=standing by: another node serves")
        for _ in range(3):
            await_words("WATCHDOG=1")
        first.kill()
        await_words("READY=1", "STATUS=serving")
        await_words("WATCHDOG=1")

    def test_a_standby_reloads_its_settings_and_serves_by_them(self):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        settings = folder / "pulsegate.toml"
        settings.write_text("")
        for name in ("old", "new"):
            (folder / name).write_text(f"{name}-0123456789abcdef")
            (folder / name).chmod(0o600)
        first = self.enterContext(node(self.redis, "first", lease=60))
        http = free_port()
        second = standby(self.redis, "second", http, "--config", settings, lease=60)
        self.addCleanup(second.kill)

        def reload(text, token=None, **headers):
            settings.write_text(text)
            if token:
                headers["Authorization"] = f"Bearer {token}-0123456789abcdef"
            return ask(http, "/api/v1/reload", method="POST", headers=headers)

        self.assertEqual(reload("", Origin="https://evil.example")[0], 403)
        status, answer = reload('idle-timeout = "soon"\n')
        self.assertEqual(status, 422, answer)
        self.assertIn(f"{settings}:1: idle-timeout: ", answer["error"])
        settings.write_text(f'idle-timeout = "60s"\nadmin-token-file = "{folder}/old"\nmax-qos = 1\n')
        os.kill(second.pid, signal.SIGHUP)
        second.wait_for_log(r'settings reloaded: admin-token-file = .*, idle-timeout = "1m"')
        second.wait_for_log("settings that need a restart: max-qos = 1")
        wait_until(lambda: ask(http, "/api/v1/cluster")[0] == 401, what="the token")
        status, answer = reload(f'idle-timeout = "60s"\nadmin-token-file = "{folder}/new"\n', "old")
        self.assertEqual((status, len(answer["applied"]), answer["needs_restart"]), (200, 1, []))
        second.wait_for_log("audit: admin POST '/api/v1/reload' -> 200")
        wait_until(lambda: reload(settings.read_text(), "new")[0] == 200, what="the other token")
        first.stop()
        second.await_ready(60)
        with Client(second.port) as client:
            client.send(connect_packet("phone", version=5, keepalive=0))
            connack = client.receive()[1]
            self.assertEqual(int.from_bytes(connack[connack.index(b"\x13") + 1:][:2], "big"), 40)
        second.stop()

    def test_a_standby_takes_over_what_a_killed_node_had(self):
        first, second, http = self.pair()
        leave_a_session(first, "bob", "chat/#")
        with first.connect("ann", version=5) as ann:
            self.assertEqual(reason_of(publish(ann, "chat/a", b"one")), 0)
            ann.publish("kept", b"two", qos=1, flags=1)
            ann.receive()
        epoch = wait_until(lambda: ask(http, "/api/v1/cluster")[1]["partitions"], what="an owner")[0]["epoch"]
        first.kill()
        second.await_ready()
        self.assertEqual(second.get_json("/api/v1/cluster")[1]["partitions"][0]["epoch"], epoch + 1)
        with returned(second, "bob") as bob:
            self.assertEqual(bob.receive_publish(), ("chat/a", b"one"))
            bob.subscribe("kept")
            self.assertEqual(bob.receive_publish(), ("kept", b"two"))
        second.stop()

    def test_a_node_that_is_stopped_in_order_hands_over_at_once(self):
        first, second, _ = self.pair(lease=60)
        leave_a_session(first, "bob", "chat/#")
        first.stop()
        second.await_ready()
        with returned(second, "bob"):
            pass
        second.stop()

    def test_a_node_that_cannot_serve_frees_what_it_has_claimed(self):
        rules = Path(self.enterContext(tempfile.TemporaryDirectory())) / "rules"
        rules.write_text("allow readwrite #\n")
        first = self.enterContext(node(self.redis, "first", lease=60))
        second = standby(self.redis, "second", free_port(), "--access-file", rules, lease=60)
        self.addCleanup(second.kill)
        rules.unlink()
        first.stop()
        self.assertEqual(second.process.wait(60), 1)
        second.kill()  # its log is complete now
        self.assertIn("second#", second.log)
        self.assertIn("owns all 128 partitions, epoch 2", second.log)
        self.assertEqual(self.redis.ask("GET", "{p0}:token"), "2 -")
        self.assertEqual(self.redis.ask("HKEYS", "{pg}:nodes"), "")

    def test_a_node_that_stood_still_changes_nothing_and_begins_anew(self):
        first, second, _ = self.pair()
        leave_a_session(first, "bob", "chat/#")
        ann, eve = first.connect("ann"), first.connect("eve")
        eve.subscribe("live", qos=1)
        first.process.send_signal(signal.SIGSTOP)
        os.waitpid(first.pid, os.WUNTRACED)  # all of its threads stand still
        for client, topic in ((ann, "chat/stale"), (ann, "live")):  # they wait in its sockets
            client.publish(topic, b"stale", qos=1, packet_id=7)
        second.await_ready()
        with second.connect("carl", version=5) as carl:
            self.assertEqual(reason_of(publish(carl, "chat/new", b"new")), 0)
        before = self.redis.rows("message")
        first.process.send_signal(signal.SIGCONT)
        self.assertEqual(ann.receive_until_closed(), [])
        self.assertEqual(eve.receive_until_closed(), [])
        first.wait_for_log("standing by")
        self.assertEqual(self.redis.rows("message"), before)
        with returned(second, "bob") as bob:
            self.assertEqual(bob.receive_publish(), ("chat/new", b"new"))
        second.stop()  # and the first one, which stands by, takes over
        wait_until(lambda: first.log.count(" ready: ") == 2, 60, "the first node serves again")

    def test_a_node_that_loses_its_data_while_it_drains_ends_at_once(self):
        first = self.enterContext(node(self.redis, "first", "--drain-notice", "600s", "--drain-time", "1s", lease=60))
        ann = first.connect("ann", version=5)
        first.process.send_signal(signal.SIGTERM)
        wait_until(lambda: ask(first.http_port, "/readyz")[0] == 503, what="the drain")
        incarnation = self.redis.ask("HKEYS", "{pg}:nodes")
        self.redis.ask("HSET", "{pg}:beats", incarnation, "condemned")
        self.assertEqual(ann.receive_until_closed(), [])
        self.assertEqual(first.process.wait(60), 3)
        first.kill()  # its log is complete now
        self.assertIn("another node may be serving the clients: exiting", first.log)
        self.assertNotIn("did not end in time", first.log)

    def test_a_node_that_begins_anew_closes_what_its_earlier_life_left_open(self):
        ours, left_open = os.pipe()
        self.addCleanup(os.close, ours)
        anew = subprocess.Popen([binary(), "--listen", "mqtt://127.0.0.1:0", "--data", "none"], pass_fds=[left_open],
                                env={**os.environ, "PULSEGATE_GOES_ON": "1"}, stderr=subprocess.DEVNULL)
        self.addCleanup(anew.wait)
        self.addCleanup(anew.kill)
        os.close(left_open)
        self.assertTrue(select.select([ours], [], [], 60)[0], "it is still open")
        self.assertIsNone(anew.poll())

    def test_a_second_node_of_the_same_name_is_refused(self):
        first = self.enterContext(node(self.redis, "first"))
        other = node(self.redis, "first")
        other.launch().process.wait(60)
        other.kill()  # its log is complete now
        self.assertIn("node-name: a node named first is running", other.log)
        self.assertEqual(other.process.returncode, 1)
        first.connect("ann").ping()


class RedisTroubleTest(ClusterTest):
    def setUp(self):
        super().setUp()
        self.gateway = self.enterContext(node(self.redis, "only"))
        leave_a_session(self.gateway, "bob", "chat/#")

    def test_clients_don_t_notice_a_redis_that_stands_still_for_some_seconds(self):
        ann = self.gateway.connect("ann", version=5)
        eve = self.gateway.connect("eve")
        eve.subscribe("live", qos=1)
        self.redis.stop()
        ann.publish("live", b"at once", qos=1, packet_id=1)
        self.assertEqual(eve.receive_publish(), ("live", b"at once"))  # an online receiver needs no Redis
        self.assertEqual(reason_of(ann.receive()), 0)
        stored = threading.Timer(LEASE + 2, self.redis.go_on)
        stored.start()
        self.addCleanup(stored.join)
        eve.ping()
        self.assertEqual(reason_of(publish(ann, "chat/a", b"waits", 2)), 0)
        self.assertFalse(self.redis.ask("PING") != "PONG")
        with returned(self.gateway, "bob") as bob:
            self.assertEqual(bob.receive_publish(), ("chat/a", b"waits"))

    def test_what_must_be_stored_is_refused_while_redis_is_away(self):
        ann = self.gateway.connect("ann", version=5)
        old = self.gateway.connect("old")
        eve = self.gateway.connect("eve")
        self.redis.kill()
        ann.socket.settimeout(60)
        self.assertEqual(reason_of(publish(ann, "chat/a", b"refused")), QUOTA_EXCEEDED)
        status, body = self.gateway.get_json("/readyz")
        self.assertEqual(status, 503)
        self.assertIn("Redis", body["why"])
        status, body = self.gateway.ask("POST", "/api/v1/publish", {"topic": "chat/a", "payload": "refused"})
        self.assertEqual(status, 503)
        self.assertRegex(body["error"], "^Redis fails: .*; publish again")
        self.assertEqual(self.gateway.get_json("/api/v1/cluster")[1]["redis"]["reachable"], False)
        self.assertIsNone(publish(old, "chat/a", b"refused"))  # MQTT 3.1.1 has no code for it
        eve.ping()
        self.redis.start()
        wait_until(lambda: self.gateway.get("/readyz")[0] == 200, 60, "ready again")
        self.assertEqual(reason_of(publish(ann, "chat/a", b"taken", 2)), 0)
        eve.ping()

    def test_nothing_is_lost_when_redis_is_killed_again_and_again(self):
        ann = self.gateway.connect("ann", version=5)
        acknowledged = []
        for life in range(1 if SANITIZED else 3):
            for number in range(20):
                payload = f"{life}/{number}".encode()
                ann.publish("chat/a", payload, qos=1, packet_id=1 + number)
                if number == 10:
                    self.redis.kill()
                    self.redis.start()
                answer = ann.receive()
                self.assertEqual(reason_of(answer), 0)
                acknowledged.append(payload)
        with returned(self.gateway, "bob") as bob:
            self.assertEqual([bob.receive_publish()[1] for _ in acknowledged], acknowledged)

    def test_a_redis_that_lost_everything_is_filled_again(self):
        ann = self.gateway.connect("ann", version=5)
        self.assertEqual(reason_of(publish(ann, "chat/a", b"one")), 0)
        before = self.redis.rows("message"), self.redis.rows("owner"), self.redis.rows("subscription")
        self.redis.ask("FLUSHALL")
        self.gateway.wait_for_log("rows were written again")
        self.assertEqual((self.redis.rows("message"), self.redis.rows("owner"), self.redis.rows("subscription")), before)
        self.assertEqual(reason_of(publish(ann, "chat/a", b"two", 2)), 0)

    def test_a_full_redis_refuses_what_is_new_and_heals_by_what_is_read(self):
        ann, kept = self.gateway.connect("ann", version=5), self.gateway.connect("kept", version=5, clean=False)
        leave_a_session(self.gateway, "idle", "nothing")
        used = int(self.redis.ask("INFO", "memory").split("used_memory:")[1].split()[0])
        self.redis.ask("CONFIG", "SET", "maxmemory", used + 2_000_000)
        payload, taken = b"x" * 100_000, 0
        while reason_of(publish(ann, "chat/a", payload)) == 0:
            taken += 1
            self.assertLess(taken, 500)
        self.assertGreater(taken, 10)
        status, body = self.gateway.get_json("/readyz")
        self.assertEqual(status, 503)
        self.assertIn("maxmemory", body["why"])
        for qos in (1, 2):  # MQTT 3.1.1 has no code for it, and would take an answer for a promise
            with self.gateway.connect("old") as old:
                old.publish("chat/a", payload, qos=qos)
                self.assertIsNone(old.receive())
        for qos, answer in ((1, PUBACK), (2, PUBREC)):
            kept.publish("chat/a", payload, qos=qos, packet_id=5)
            self.assertEqual(kept.receive(), (answer << 4, bytes([0, 5, QUOTA_EXCEEDED])))
        kept.ping()
        returned(self.gateway, "idle").close()
        with Client(self.gateway.port) as new:
            new.send(connect_packet("new", clean=False))
            self.assertEqual(new.receive(), (0x20, b"\0\3"))
        with returned(self.gateway, "bob") as bob:
            for _ in range(taken):
                self.assertEqual(bob.receive_publish(), ("chat/a", payload))
            bob.ping()
        wait_until(lambda: self.gateway.get("/readyz")[0] == 200, 60, "room again")
        self.assertEqual(reason_of(publish(ann, "chat/a", b"fits", 2)), 0)
        kept.publish("chat/a", b"fits as well", qos=2, packet_id=5)
        self.assertEqual(kept.receive(), (PUBREC << 4, b"\0\5"))


class StartTest(ClusterTest):
    def complaint(self, *arguments):
        done = subprocess.run([str(binary()), *map(str, arguments)], capture_output=True, text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def test_a_redis_that_promises_too_little_is_refused_with_the_remedy(self):
        start = ("--cluster", self.redis.url, "--link-listen", f"127.0.0.1:{free_port()}",
                 "--listen", f"mqtt://127.0.0.1:{free_port()}", "--listen", f"http://127.0.0.1:{free_port()}")
        self.redis.ask("CONFIG", "SET", "appendfsync", "everysec")
        self.assertIn("CONFIG SET appendfsync always", self.complaint(*start))
        self.redis.ask("CONFIG", "SET", "appendfsync", "always")
        self.redis.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        self.assertIn("CONFIG SET maxmemory-policy noeviction", self.complaint(*start))
        self.redis.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
        self.redis.ask("CONFIG", "SET", "requirepass", "secret")
        self.assertIn("cluster-password-file", self.complaint(*start))
        with tempfile.NamedTemporaryFile("w") as password:
            password.write("wrong\n")
            password.flush()
            self.assertIn("WRONGPASS", self.complaint(*start, "--cluster-password-file", password.name))
        self.redis.kill()
        self.assertIn("Connection refused", self.complaint(*start))

    def test_a_node_waits_while_redis_reads_its_data(self):
        self.redis.ask("EVAL", "for i = 1, 300000 do redis.call('INCR', 'count') end", 0)
        self.redis.kill()
        self.redis.start(reads_slowly=True)
        for is_stopped in (True, False):
            with self.subTest(is_stopped=is_stopped):
                only = node(self.redis, "only")
                self.addCleanup(only.kill)
                only.launch().wait_for_log("waiting for Redis: .* is still reading its data")
                if not is_stopped:
                    self.redis.read_fast()
                    only.await_ready()
                only.stop()
                self.assertEqual(len(re.findall("waiting for Redis", only.log)), 1)

    def test_a_node_that_waits_for_an_answer_of_redis_obeys_a_signal(self):
        self.redis.stop()
        only = node(self.redis, "only")
        self.addCleanup(only.kill)
        only.launch()
        status = Path(f"/proc/{only.pid}/status")
        is_blocked = 1 << signal.SIGTERM - 1  # from then on, the process decides what the signal does
        wait_until(lambda: int(re.search(r"SigBlk:\s*(\w+)", status.read_text())[1], 16) & is_blocked, what="a start")
        only.stop()
        self.assertIn("SIGTERM: ending before the start is complete", only.log)

    def test_data_moves_from_a_folder_to_a_cluster_and_back(self):
        with tempfile.TemporaryDirectory() as folder:
            data, back = Path(folder) / "data", Path(folder) / "back"
            with Gateway("--data", data, "--shards", "2") as gateway:
                leave_a_session(gateway, "bob", "chat/#")
                with gateway.connect("ann", version=5) as ann:
                    publish(ann, "chat/a", b"one")
                    ann.publish("kept", b"two", qos=1, flags=1)
                    ann.receive()
            move = [str(binary()), "import", str(data), "--cluster", self.redis.url, "--link-listen",
                    f"127.0.0.1:{free_port()}"]
            done = subprocess.run(move, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r"^\d+ rows were copied$")
            again = subprocess.run(move, capture_output=True, text=True, timeout=60)
            self.assertEqual(again.returncode, 1)
            self.assertIn("has data already", again.stderr)
            with node(self.redis, "first") as gateway:
                with returned(gateway, "bob") as bob:
                    self.assertEqual(bob.receive_publish(), ("chat/a", b"one"))
                with gateway.connect("ann", version=5) as ann:
                    publish(ann, "chat/a", b"three")
                back.mkdir()
                status, body = gateway.ask("POST", "/api/v1/backup", {"file": str(back / "pulsegate.db")})
                self.assertEqual(status, 200, body)
            with Gateway("--data", back, "--shards", "2") as gateway, returned(gateway, "bob") as bob:
                self.assertEqual(bob.receive_publish(), ("chat/a", b"three"))
                bob.subscribe("kept")
                self.assertEqual(bob.receive_publish(), ("kept", b"two"))

    def test_settings_that_exclude_each_other_or_lack_something(self):
        for arguments, cause in (
                (("--cluster", self.redis.url, "--data", "d"), "data: "),
                (("--cluster", "http://a"), "redis://HOST:PORT"),
                (("--node-name", "a"), "--cluster"),
                (("--cluster", self.redis.url, "--node-name", "a b"), "node-name: "),
                (("--cluster", self.redis.url, "--link-cert", "c"), "link-key"),
                (("--cluster", self.redis.url, "--cluster-ca", "c"), "rediss://"),
                (("--cluster", self.redis.url, "--cluster-durability", "often"), "everysec"),
                (("--cluster", self.redis.url, "--link-listen", "0.0.0.0:7883"), "link-cert")):
            with self.subTest(arguments):
                self.assertIn(cause, self.complaint(*arguments))


if __name__ == "__main__":
    unittest.main()
