"""The company's own backend decides about logins: a real backend, over HTTP, that is good, bad, slow or gone."""

import collections
import re
import signal
import socket
import threading
import time
import unittest
from pathlib import Path

from credentials import SECRET, granted, token
from gateway import Client, Gateway, SANITIZED, wait_until
from hook_backend import ALLOW, HookCase, connect_packet

PATIENT = ("--auth-hook-timeout", "60s", "--login-timeout", "60s")  # where the backend answers when all have asked
SERVER_UNAVAILABLE = 0x88
SERVER_BUSY = 0x89
WRONG = 0x86


class HookTest(HookCase):
    def test_the_backend_is_asked_and_decides(self):
        backend = self.backend(lambda question: {"allow": question["password"] == "right"})
        token_file = self.file("token", "0123-secret-of-the-backend\n")
        with Gateway("--auth-hook", backend.url, "--auth-hook-token-file", token_file) as gateway:
            self.assertEqual(self.code(gateway, "alice", "right", "phone"), 0)
            self.assertEqual(self.code(gateway, "alice", "wrong", "phone"), WRONG)
            self.assertEqual(self.code(gateway, "alice", "wrong2", version=4), 4)
            self.assertEqual(gateway.get_json("/api/v1/users/alice")[1]["state"], "online")
            self.assertEqual(backend.questions[0], {"user": "alice", "password": "right", "client": "phone",
                                                    "address": "127.0.0.1"})
            path, headers = backend.headers[0]
            self.assertEqual(path, "/mqtt/login?v=1")
            self.assertEqual(headers["Content-Type"], "application/json")
            self.assertEqual(headers["Authorization"], "Bearer 0123-secret-of-the-backend")
            self.assertEqual(headers["Host"], f"127.0.0.1:{backend.port}")
            self.assertEqual((self.requests(gateway, "allowed"), self.requests(gateway, "denied")), (1, 2))
            self.assertEqual(gateway.metric("pulsegate_auth_hook_seconds_count"), 3)
            gateway.wait_for_log("client 'phone' of user 'alice': login refused: the auth-hook denies it")
            for secret in ("right", "wrong", "0123-secret"):
                self.assertNotIn(secret, gateway.log)

    def test_a_status_may_deny(self):
        for status in (401, 403):
            with self.subTest(status=status), Gateway("--auth-hook", self.backend(status).url) as gateway:
                self.assertEqual(self.code(gateway, "alice", "right"), WRONG)
                self.assertEqual(self.requests(gateway, "denied"), 1)

    def test_the_backend_is_not_asked_about_clients_without_credentials(self):
        backend = self.backend()
        with Gateway("--auth-hook", backend.url) as gateway:
            self.assertEqual(self.code(gateway), 0x87)
            self.assertEqual(self.code(gateway, version=4), 5)
            self.assertEqual(backend.questions, [])
            self.assertEqual(self.code(gateway, "alice"), 0)  # without a password: that is for the backend to judge
            self.assertEqual(backend.questions[0]["password"], "")
        with Gateway("--auth-hook", backend.url, "--allow-anonymous") as gateway:
            self.assertEqual(self.code(gateway), 0)
            self.assertEqual(len(backend.questions), 1)

    def test_the_backend_names_the_user_and_its_rules(self):
        backend = self.backend({"allow": True, "user": "alice", "acl": ["allow readwrite room/1"]})
        with Gateway("--auth-hook", backend.url) as gateway:
            code, client = self.client(gateway, "ticket-4711", "x")
            self.assertEqual(code, 0)
            self.assertEqual(gateway.get_json("/api/v1/users/alice")[1]["state"], "online")
            self.assertEqual(gateway.get("/api/v1/users/ticket-4711")[0], 404)
            self.assertEqual(granted(client, "room/1", "room/2", "inbox/alice"), [0, 0x87, 0x87])

    def test_without_rules_of_their_own_the_usual_ones_hold(self):
        with Gateway("--auth-hook", self.backend().url) as gateway:
            _, client = self.client(gateway, "alice", "x")
            self.assertEqual(granted(client, "room/1", "inbox/alice", "inbox/bob"), [0, 0, 0x87])

    def test_the_connection_ends_when_the_permission_expires(self):
        backend = self.backend(lambda question: {"allow": True, "expires": int(time.time()) + 6})
        with Gateway("--auth-hook", backend.url) as gateway:
            client = self.begin(gateway, "alice")
            got = client.receive_until_closed()
            self.assertEqual([first for first, _ in got], [0x20, 0xE0])
            self.assertEqual((got[0][1][1], got[1][1][0]), (0, 0xA0))

    def test_garbage_lets_nobody_in(self):
        answers = [200, 204, 302, 500, (200, b"yes"), (200, b""), {}, (200, b'{"allow":1}'), (200, b'{"allow":"true"}'),
                   (200, b'{"allow":true'), (200, b'{"allow":false,"allow":true}'), (500, b'{"allow":true}'),
                   (200, b'{"allow":true}' + b" " * 65536), {"allow": True, "user": ""},
                   {"allow": True, "user": "a\0b"}, {"allow": True, "user": 7}, {"allow": True, "acl": ["allow all #"]},
                   {"allow": True, "acl": "allow read #"}, {"allow": True, "expires": "tomorrow"}, None]
        backend = self.backend(lambda question: answers[int(question["user"])])
        with Gateway("--auth-hook", backend.url) as gateway:
            for number, answer in enumerate(answers):
                with self.subTest(answer=answer):
                    self.assertEqual(self.code(gateway, str(number), "x"), SERVER_UNAVAILABLE)
            self.assertEqual(self.code(gateway, "3", "x", version=4), 3)
            self.assertGreaterEqual(self.requests(gateway, "failed"), len(answers))
            self.assertEqual(self.requests(gateway, "allowed"), 0)
            for cause in ("its answer has no allow", "status 500", "its answer is not a JSON object", "body limit",
                          "its user can't be an MQTT username", "rule 1 of its acl", "closed the connection"):
                gateway.wait_for_log(cause)

    def test_what_is_no_http_lets_nobody_in(self):
        words = [b"220 smtp ready\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}",
                 b"HTTP/1.1 200 OK\r\nX: " + b"y" * 20_000 + b"\r\n\r\n", b"\0" * 100,
                 b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\n",
                 b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"allow\":true}"]
        with socket.create_server(("127.0.0.1", 0)) as listener:
            def speak():
                for word in words:
                    connection, _ = listener.accept()
                    with connection:
                        connection.recv(65536)
                        connection.sendall(word)
            threading.Thread(target=speak, daemon=True).start()
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            with Gateway("--auth-hook", url, "--auth-hook-connections", "1") as gateway:
                for number in range(len(words)):
                    with self.subTest(word=words[number][:50]):
                        self.assertEqual(self.code(gateway, f"u{number}", "x"), SERVER_UNAVAILABLE)

    def test_a_late_answer_refuses_the_login_and_connected_clients_do_not_notice(self):
        backend = self.backend()
        with Gateway("--auth-hook", backend.url, "--auth-hook-timeout", "5s", "--shards", "1") as gateway:
            _, alice = self.client(gateway, "alice", "x", "living")
            backend.gate.clear()
            late = self.begin(gateway, "bob")
            wait_until(lambda: "bob" in backend.users, what="the question")
            self.assertEqual(granted(alice, "room/1"), [0])  # while bob waits
            self.assertEqual(gateway.metric("pulsegate_logins_refused_total"), 0)
            self.assertEqual(late.receive()[1][1], SERVER_UNAVAILABLE)
            gateway.wait_for_log("auth-hook: 127.0.0.1:.*: no answer within auth-hook-timeout")
            self.assertTrue(alice.is_connected())
            backend.gate.set()
            self.assertEqual(self.code(gateway, "bob", "x"), 0)  # a failure is not remembered

    def test_a_backend_that_is_down_lets_nobody_in_until_it_is_up_again(self):
        backend = self.backend()
        with Gateway("--auth-hook", backend.url) as gateway:
            self.assertEqual(self.code(gateway, "a", "x"), 0)
            backend.stop()
            self.assertEqual(self.code(gateway, "b", "x"), SERVER_UNAVAILABLE)
            gateway.wait_for_log("auth-hook: 127.0.0.1:.*: connect: Connection refused")
            self.backend(port=backend.port)
            self.assertEqual(self.code(gateway, "b", "x"), 0)

    def test_a_host_without_address_lets_nobody_in(self):
        with Gateway("--auth-hook", "http://no-such-host.invalid/", "--auth-hook-timeout", "2s") as gateway:
            self.assertEqual(self.code(gateway, "a", "x"), SERVER_UNAVAILABLE)

    def test_connections_are_kept_and_shared(self):
        backend = self.backend()
        with Gateway("--auth-hook", backend.url, "--auth-hook-connections", "2", *PATIENT) as gateway:
            for number in range(10):
                self.assertEqual(self.code(gateway, f"u{number}", "x"), 0)
            self.assertEqual((len(backend.questions), len(backend.peers)), (10, 1))
            backend.gate.clear()
            clients = [self.begin(gateway, f"s{number}") for number in range(20)]
            wait_until(lambda: len(backend.questions) == 12, what="two questions at a time")
            backend.gate.set()
            for client in clients:
                self.assertEqual(client.receive()[1][1], 0)
            self.assertEqual((len(backend.questions), len(backend.peers)), (30, 2))

    def test_a_connection_that_was_closed_while_idle_is_replaced(self):
        backend = self.backend()
        with Gateway("--auth-hook", backend.url) as gateway:
            self.assertEqual(self.code(gateway, "a", "x"), 0)
            backend.hang_up()
            self.assertEqual(self.code(gateway, "b", "x"), 0)
            self.assertEqual((backend.users, len(backend.peers)), (["a", "b"], 2))
            self.assertEqual(self.requests(gateway, "failed"), 0)

    def test_a_connection_that_is_closed_just_then_is_replaced_once(self):
        left = {"b": 1, "c": 9}  # how many of their questions are answered by a close

        def answer(question):
            user = question["user"]
            left[user] = left.get(user, 0) - 1
            return ALLOW if left[user] < 0 else None
        backend = self.backend(answer)
        with Gateway("--auth-hook", backend.url) as gateway:
            self.assertEqual(self.code(gateway, "a", "x"), 0)
            self.assertEqual(self.code(gateway, "b", "x"), 0)
            self.assertEqual(backend.users, ["a", "b", "b"])
            self.assertEqual(self.code(gateway, "c", "x"), SERVER_UNAVAILABLE)
            self.assertEqual(backend.users, ["a", "b", "b", "c", "c"])
            self.assertEqual(self.code(gateway, "c", "x"), SERVER_UNAVAILABLE)  # a new connection: not sent twice
            self.assertEqual(backend.users, ["a", "b", "b", "c", "c", "c"])

    def test_an_unrequested_answer_is_ignored(self):
        yes = b'HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n{"allow":true}'
        no = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
        interim = b"HTTP/1.1 100 Continue\r\n\r\n"
        for words, code in ((yes + yes, 0), (interim, SERVER_UNAVAILABLE), (interim * 11 + yes, SERVER_UNAVAILABLE)):
            with self.subTest(words=words), socket.create_server(("127.0.0.1", 0)) as listener:
                def speak():
                    for said in (words, no):
                        connection, _ = listener.accept()
                        self.addCleanup(connection.close)
                        connection.recv(65536)
                        connection.sendall(said)
                threading.Thread(target=speak, daemon=True).start()
                with Gateway("--auth-hook", f"http://127.0.0.1:{listener.getsockname()[1]}",
                             "--auth-hook-timeout", "3s") as gateway:
                    self.assertEqual(self.code(gateway, "a", "x"), code)
                    self.assertEqual(self.code(gateway, "b", "x"), WRONG)

    def test_interim_answers_come_before_the_answer(self):
        yes = b'HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n{"allow":true}'
        hints = b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n"
        with socket.create_server(("127.0.0.1", 0)) as listener:
            def speak():
                connection, _ = listener.accept()
                self.addCleanup(connection.close)
                for _ in range(2):  # on one connection
                    connection.recv(65536)
                    for said in (b"HTTP/1.1 100 Continue\r\n\r\n", hints + hints, yes):
                        connection.sendall(said)
            threading.Thread(target=speak, daemon=True).start()
            with Gateway("--auth-hook", f"http://127.0.0.1:{listener.getsockname()[1]}") as gateway:
                self.assertEqual(self.code(gateway, "a", "x"), 0)
                self.assertEqual(self.code(gateway, "b", "x"), 0)

    def test_a_client_of_ipv4_has_its_address_on_a_listener_for_both(self):
        backend = self.backend()
        with Gateway("--listen", "mqtt://[::]:0", "--listen", "http://127.0.0.1:0", "--auth-hook", backend.url,
                     listen=False) as gateway:
            self.assertEqual(self.code(gateway, "a", "x"), 0)
            self.assertEqual(backend.questions[0]["address"], "127.0.0.1")

    def test_large_logins_that_wait_for_a_silent_backend_leave_memory_to_others(self):
        backend = self.backend()
        with Gateway("--auth-hook", backend.url, "--memory-budget", "160MiB", "--shards", "1", *PATIENT) as gateway:
            backend.gate.clear()
            before = gateway.rss()
            flood = [self.begin(gateway, f"u{number}", "\1" * 65_535, source="127.0.0.2") for number in range(400)]
            wait_until(lambda: gateway.metric("pulsegate_limit_hits_total", limit="memory-budget") >= 250)
            if not SANITIZED:
                self.assertLess(gateway.rss() - before, 60 * 2**20)  # of 25 MB that were sent, and 157 in JSON
            gateway.wait_for_log("waiting logins take too much of memory-budget, and its address takes most")
            self.assertIn(0x97, [client.receive()[1][1] for client in flood[300:]])
            backend.gate.set()
            self.assertEqual(self.code(gateway, "honest", "y" * 20_000), 0)

    def test_an_answer_is_remembered_for_the_same_credentials(self):
        backend = self.backend(lambda question: {"allow": question["user"] == "alice"})
        with Gateway("--auth-hook", backend.url, "--auth-hook-cache", "1h") as gateway:
            for _ in range(2):
                self.assertEqual(self.code(gateway, "alice", "x", "phone"), 0)
                self.assertEqual(self.code(gateway, "mallory", "x", "phone"), WRONG)
            self.assertEqual(len(backend.questions), 2)
            self.assertEqual(gateway.metric("pulsegate_auth_hook_cache_hits_total"), 2)
            for claim in (("alice", "y", "phone"), ("alice", "x", "other")):
                self.assertEqual(self.code(gateway, *claim), 0)
            self.assertEqual(len(backend.questions), 4)
            gateway.process.send_signal(signal.SIGHUP)
            gateway.wait_for_log("users, keys and rules reloaded")
            self.assertEqual(self.code(gateway, "alice", "x", "phone"), 0)
            self.assertEqual(len(backend.questions), 5)

    def test_without_a_cache_each_login_is_asked_about(self):
        backend = self.backend()
        with Gateway("--auth-hook", backend.url, "--auth-hook-cache", "0") as gateway:
            for _ in range(3):
                self.assertEqual(self.code(gateway, "alice", "x", "phone"), 0)
            self.assertEqual(len(backend.questions), 3)

    def test_clients_with_the_same_credentials_at_the_same_time_share_a_request(self):
        backend = self.backend()
        with Gateway("--auth-hook", backend.url, *PATIENT) as gateway:
            backend.gate.clear()
            clients = [self.begin(gateway, "alice") for _ in range(10)]
            wait_until(lambda: gateway.metric("pulsegate_auth_hook_cache_hits_total") == 9)
            backend.gate.set()
            for client in clients:
                self.assertEqual(client.receive()[1][1], 0)
            self.assertEqual(len(backend.questions), 1)

    def test_tokens_and_the_password_file_come_first(self):
        backend = self.backend()
        with Gateway("--auth-hook", backend.url, "--password-file", self.password_file(alice="right"),
                     "--jwt-secret", self.file("secret", SECRET)) as gateway:
            good = {"sub": "carol", "exp": time.time() + 60}
            for user, password, code in (("alice", "right", 0), ("alice", "wrong", WRONG), ("x", token(good), 0),
                                         ("x", token({**good, "exp": 1}), WRONG)):
                with self.subTest(user=user, code=code):
                    self.assertEqual(self.code(gateway, user, password), code)
            self.assertEqual(backend.questions, [])
            self.assertEqual(self.code(gateway, "bob", "whatever"), 0)
            self.assertEqual(backend.users, ["bob"])
        with Gateway("--auth-hook", backend.url) as gateway:  # without keys a token is a password like others
            self.assertEqual(self.code(gateway, "x", token(good)), 0)
            self.assertEqual(backend.questions[-1]["password"], token(good))

    def test_the_backend_is_told_the_address_that_the_proxy_tells(self):
        backend = self.backend()
        with Gateway("--listen", "mqtt://127.0.0.1:0?proxy-protocol", "--auth-hook", backend.url) as gateway:
            port = int(re.search(r"mqtt://\S+?:(\d+)\?proxy-protocol", gateway.log)[1])
            for header, address in ((b"PROXY TCP4 192.0.2.7 192.0.2.8 1000 1883\r\n", "192.0.2.7"),
                                    (b"PROXY TCP6 2001:db8::7 2001:db8::8 1000 1883\r\n", "2001:db8::7")):
                client = Client(port)
                self.addCleanup(client.close)
                client.send(header + connect_packet("c", address, "x"))
                self.assertEqual(client.receive()[1][1], 0)
                self.assertEqual(backend.questions[-1]["address"], address)

    def test_a_password_that_json_cannot_say_is_wrong(self):
        backend = self.backend()
        with Gateway("--auth-hook", backend.url) as gateway:
            self.assertEqual(self.code(gateway, "a", b"\xff\xfe"), WRONG)
            gateway.wait_for_log("its password is not UTF-8")
            self.assertEqual(backend.questions, [])
            self.assertEqual(self.code(gateway, 'a"\\\u00e9', 'p"\\\u00e9'), 0)
            self.assertEqual(backend.questions[0]["password"], 'p"\\\u00e9')

    def test_a_storm_on_a_slow_backend_does_not_hold_up_connected_clients(self):
        backend = self.backend()
        with Gateway("--auth-hook", backend.url, "--shards", "1", "--auth-hook-timeout", "60s", "--login-timeout",
                     "60s", "--auth-hook-connections", "4") as gateway:
            living = self.begin(gateway, "living")
            self.assertEqual(living.receive()[1][1], 0)
            backend.gate.clear()
            storm = [self.begin(gateway, f"s{number}") for number in range(500)]
            wait_until(lambda: len(backend.questions) == 5, what="four questions at a time")
            for _ in range(100):
                living.ping()
            self.assertEqual(gateway.metric("pulsegate_logins_total"), 1)
            backend.gate.set()
            for client in storm:
                self.assertEqual(client.receive()[1][1], 0)
            self.assertEqual(len(backend.questions), 501)
            self.assertLessEqual(len(backend.peers), 4)

    def test_too_many_are_told_that_the_server_is_busy(self):
        backend = self.backend()
        with Gateway("--auth-hook", backend.url, "--auth-hook-timeout", "60s", "--login-timeout", "60s",
                     "--auth-hook-connections", "1") as gateway:
            backend.gate.clear()
            storm = [self.begin(gateway, f"s{number}") for number in range(2100)]
            wait_until(lambda: gateway.metric("pulsegate_auth_hook_busy_total") == 99, timeout=60, what="99 refusals")
            backend.gate.set()
            codes = collections.Counter(client.receive()[1][1] for client in storm)
            self.assertEqual(codes, {0: 2001, SERVER_BUSY: 99})

    def test_an_address_with_all_places_does_not_keep_another_out(self):
        backend = self.backend()
        with Gateway("--auth-hook", backend.url, "--auth-hook-timeout", "60s", "--login-timeout", "60s",
                     "--auth-hook-connections", "1") as gateway:
            backend.gate.clear()
            storm = [self.begin(gateway, "mallory", client_id=f"c{number}") for number in range(2002)]
            wait_until(lambda: gateway.metric("pulsegate_auth_hook_busy_total") == 1, timeout=60, what="all places taken")
            alice = self.begin(gateway, "alice", source="127.0.0.2")
            wait_until(lambda: gateway.metric("pulsegate_auth_hook_busy_total") == 2, what="a place for another address")
            backend.gate.set()
            self.assertEqual(alice.receive()[1][1], 0)
            self.assertIn("alice", backend.users[:4])
            self.assertEqual(sum(client.receive()[1][1] == SERVER_BUSY for client in storm), 2)

    def test_a_login_that_gets_no_connection_is_told_that_the_server_is_busy(self):
        backend = self.backend()
        with Gateway("--auth-hook", backend.url, "--auth-hook-timeout", "1s",
                     "--auth-hook-connections", "1") as gateway:
            backend.gate.clear()
            first = self.begin(gateway, "first")
            wait_until(lambda: backend.questions, what="the question")
            others = [self.begin(gateway, f"u{number}") for number in range(10)]
            self.assertEqual(first.receive()[1][1], SERVER_UNAVAILABLE)
            codes = [client.receive()[1][1] for client in others]
            self.assertIn(SERVER_BUSY, codes)
            self.assertLessEqual(set(codes), {SERVER_BUSY, SERVER_UNAVAILABLE})
            gateway.wait_for_log("too many logins wait for the auth-hook")
            self.assertEqual(gateway.metric("pulsegate_auth_hook_busy_total"), codes.count(SERVER_BUSY))

    def test_a_public_listener_may_have_a_hook(self):
        with Gateway("--listen", "mqtt://0.0.0.0:0", "--listen", "http://127.0.0.1:0", "--auth-hook",
                     self.backend().url, listen=False):
            pass
        gateway = Gateway("--listen", "mqtt://0.0.0.0:0", "--listen", "http://127.0.0.1:0", listen=False)
        with self.assertRaises(AssertionError):
            gateway.start()
        self.assertIn("--auth-hook", gateway.log)
        gateway.folder.cleanup()

    def test_files_that_make_no_sense_stop_the_start(self):
        for arguments in (["--auth-hook-token-file", self.file("empty", "\n")],
                          ["--auth-hook-token-file", self.file("blank", "to ken\n")],
                          ["--auth-hook-token-file", str(self.path / "none")],
                          ["--auth-hook-ca", self.file("ca", "no certificate\n")],
                          ["--auth-hook-ca", self.file("nothing", "")]):
            with self.subTest(arguments=arguments):
                gateway = Gateway("--auth-hook", "https://127.0.0.1:9/", *arguments)
                with self.assertRaises(AssertionError):
                    gateway.start()
                self.assertIn(arguments[1], gateway.log)
                gateway.folder.cleanup()

    def test_new_limits_hold_after_sighup(self):
        backend = self.backend()
        settings = Path(self.file("settings", ""))
        limits = 'auth-hook-timeout = "{}"\nauth-hook-cache = "{}"\nauth-hook-connections = {}\nlogin-timeout = "60s"\n'
        settings.write_text(limits.format("60s", "0s", 1))
        with Gateway("--config", settings, "--auth-hook", backend.url) as gateway:
            def reload(*values):
                settings.write_text(limits.format(*values))
                before = gateway.log.count("settings reloaded")
                gateway.process.send_signal(signal.SIGHUP)
                wait_until(lambda: gateway.log.count("settings reloaded") > before, what="the reload")

            backend.gate.clear()
            waiting = [self.begin(gateway, f"u{number}") for number in range(4)]
            wait_until(lambda: backend.questions, what="the first question")
            reload("60s", "0s", 3)
            wait_until(lambda: len(backend.questions) == 3, what="two more connections")
            backend.gate.set()
            self.assertEqual([client.receive()[1][1] for client in waiting], [0] * 4)

            reload("1s", "600s", 3)
            backend.gate.clear()
            self.assertEqual(self.code(gateway, "late"), SERVER_UNAVAILABLE)
            gateway.wait_for_log("no answer within auth-hook-timeout, 1000 ms")
            reload("60s", "600s", 3)
            backend.gate.set()
            self.assertEqual([self.code(gateway, "again", "right") for _ in range(3)], [0] * 3)
            self.assertEqual(backend.users.count("again"), 1)

    def test_a_new_token_holds_after_sighup(self):
        backend = self.backend()
        path = self.file("token", "old\n")
        with Gateway("--auth-hook", backend.url, "--auth-hook-token-file", path) as gateway:
            for word in ("old", "new"):
                self.file("token", word + "\n")
                gateway.process.send_signal(signal.SIGHUP)
                wait_until(lambda: len(re.findall("rules reloaded", gateway.log)) == (1 if word == "old" else 2))
                self.assertEqual(self.code(gateway, word, "x"), 0)
                self.assertEqual(backend.headers[-1][1]["Authorization"], "Bearer " + word)
            self.file("token", "\n")
            gateway.process.send_signal(signal.SIGHUP)
            gateway.wait_for_log("users, keys and rules not reloaded: auth-hook-token-file")
            self.assertEqual(self.code(gateway, "x", "x"), 0)
            self.assertEqual(backend.headers[-1][1]["Authorization"], "Bearer new")

    def test_it_stops_while_it_waits_for_answers(self):
        backend = self.backend()
        with Gateway("--auth-hook", backend.url, "--auth-hook-timeout", "60s",
                     "--auth-hook-connections", "2") as gateway:
            backend.gate.clear()
            for number in range(5):
                self.begin(gateway, f"u{number}")
            wait_until(lambda: len(backend.questions) == 2)


if __name__ == "__main__":
    unittest.main()
