"""Logins that are no longer good: tokens that were revoked, answers of the hook, lines of the password file."""

import datetime
import time
import unittest

from credentials import SECRET, Folder, token
from gateway import Client, Gateway, wait_until
from hook_backend import ALLOW, DENY, Backend, connect_packet
from hook_test import PATIENT
from packets import DISCONNECT

WRONG = 0x86
ADMINISTRATIVE_ACTION = 0x98


class RevocationTest(Folder):
    def gateway(self, *arguments):
        return Gateway("--shards", "2", "--data", self.path / "data", *arguments)

    def with_tokens(self, *arguments):
        return self.gateway("--jwt-secret", self.file("secret", SECRET), *arguments)

    def token(self, age=None, user="alice"):
        now = int(time.time())
        return token({"sub": user, "exp": now + 3600, **({} if age is None else {"iat": now - age})})

    def login(self, gateway, password, client="phone", user="alice"):
        """The client, and what its CONNACK says."""
        raw = Client(gateway.port)
        self.addCleanup(raw.close)
        raw.version = 5
        raw.send(connect_packet(client, user, password))
        return raw, raw.receive()[1][1]

    def code(self, *arguments, **options):
        client, code = self.login(*arguments, **options)
        client.close()
        return code

    def revoke(self, gateway, body=None, user="alice"):
        return gateway.ask("POST", f"/api/v1/users/{user}/revoke", body)

    def assert_thrown_out(self, client):
        *_, (first, body) = client.receive_until_closed()
        self.assertEqual((first >> 4, body[0]), (DISCONNECT, ADMINISTRATIVE_ACTION))

    def delayed(self, gateway, user="alice"):
        """The payloads of what the user's clients, and backends in her name, have delayed."""
        found = gateway.ask("GET", f"/api/v1/delayed?user={user}")[1]
        return sorted(message["payload"] for message in found["delayed"])

    def test_what_older_logins_have_delayed_is_cancelled(self):
        with self.with_tokens() as gateway:
            for client, age in ("old", 60), ("timeless", None), ("recent", 10):
                one, _ = self.login(gateway, self.token(age), client)
                one.publish("$delayed/3600/inbox/bob", client.encode(), qos=1)
                one.receive()
            bob, _ = self.login(gateway, self.token(60, "bob"), user="bob")
            bob.publish("$delayed/3600/inbox/bob", b"bob", qos=1)
            bob.receive()
            gateway.ask("POST", "/api/v1/delayed", {"topic": "x", "in": 3600, "payload": "backend", "user": "alice"})
            self.assertEqual(self.delayed(gateway), ["backend", "old", "recent", "timeless"])
            self.revoke(gateway, {"before": int(time.time()) - 30})
            self.assertEqual(self.delayed(gateway), ["backend", "recent"])
            self.assertEqual(self.delayed(gateway, "bob"), ["bob"])
            gateway.wait_for_log("2 delayed messages of user 'alice' cancelled")
        with self.with_tokens() as gateway:  # the senders of delayed messages are stored
            self.assertEqual(self.delayed(gateway), ["backend", "recent"])
            self.revoke(gateway, {"before": int(time.time())})
            self.assertEqual(self.delayed(gateway), ["backend"])

    def test_what_a_banned_client_has_left_behind_does_not_come(self):
        with self.gateway() as gateway:
            watcher, _ = self.login(gateway, "", "watcher", "bob")
            watcher.subscribe("wills")
            for client in "stolen", "other":
                raw = Client(gateway.port)
                self.addCleanup(raw.close)
                raw.version = 5
                raw.login(client, version=5, username="alice", will=("wills", client))
                raw.publish("$delayed/3600/inbox/bob", client.encode(), qos=1)
                raw.receive()
            gateway.ask("PUT", "/api/v1/bans?user=alice&client=stolen")
            self.assertEqual(self.delayed(gateway), ["other"])
            raw.close()  # the other one's will comes, and no other did before
            self.assertEqual(watcher.receive_publish(), ("wills", b"other"))
            gateway.ask("PUT", "/api/v1/bans?user=alice")
            self.assertEqual(self.delayed(gateway), [])

    def test_what_clients_at_a_banned_address_have_left_behind_does_not_come(self):
        with self.gateway() as gateway:
            watcher, _ = self.login(gateway, "", "watcher", "bob")
            watcher.subscribe("wills")
            clients = []
            for user, client, source in (("alice", "stolen", "127.0.0.7"), ("alice", "other", "127.0.0.8"),
                                         ("carol", "stolen", "127.0.0.7"), ("dave", "quiet", "127.0.0.7")):
                raw = Client(gateway.port, source=source)
                self.addCleanup(raw.close)
                raw.version = 5
                raw.login(client, version=5, username=user, will=("wills", client))
                if client != "quiet":
                    raw.publish("$delayed/3600/inbox/bob", client.encode(), qos=1)
                    raw.receive()
                clients.append(raw)
            self.assertEqual(gateway.ask("PUT", "/api/v1/bans?address=127.0.0.7"), (200, {"disconnected": 3}))
            self.assertEqual([self.delayed(gateway, user) for user in ("alice", "carol")], [["other"], []])
            clients[1].close()  # its will comes, and no other did before
            self.assertEqual(watcher.receive_publish(), ("wills", b"other"))

    def test_clients_with_an_older_token_are_disconnected_and_can_not_return_with_it(self):
        with self.with_tokens() as gateway:
            old, timeless, recent = self.token(60), self.token(), self.token(10)
            clients = [self.login(gateway, each, client)[0]
                       for each, client in ((old, "old"), (timeless, "timeless"), (recent, "recent"))]
            bob, _ = self.login(gateway, self.token(60, "bob"), user="bob")
            status, said = self.revoke(gateway, {"before": int(time.time()) - 30})
            self.assertEqual((status, said["user"], said["disconnected"]), (200, "alice", 2))
            for client in clients[:2]:
                self.assert_thrown_out(client)
            clients[2].ping()
            bob.ping()
            self.assertEqual([self.code(gateway, each) for each in (old, timeless, recent)], [WRONG, WRONG, 0])
            gateway.wait_for_log("login refused: its token was revoked")
            status, said = self.revoke(gateway)  # now
            self.assertEqual((status, said["disconnected"]), (200, 1))
            self.assert_thrown_out(clients[2])
            self.assertEqual([self.code(gateway, each) for each in (recent, self.token(0))], [WRONG, 0])
            bob.ping()

    def test_a_moment_is_a_unix_time_or_a_date_and_moves_no_further_back(self):
        with self.with_tokens() as gateway:
            moment = datetime.datetime.now(datetime.UTC).replace(microsecond=0) - datetime.timedelta(seconds=30)
            for before in (moment.isoformat(), moment.timestamp(), int(moment.timestamp()), 0):
                status, said = self.revoke(gateway, {"before": before})
                self.assertEqual(status, 200, said)
                self.assertEqual((self.code(gateway, self.token(60)), self.code(gateway, self.token(10))), (WRONG, 0))

    def test_a_revocation_outlives_the_gateway_killed_right_after_the_answer(self):
        old = self.token(60)
        killed = self.with_tokens().start()
        try:
            self.assertEqual(self.code(killed, old), 0)
            self.assertEqual(self.revoke(killed)[0], 200)
        finally:
            killed.kill()
            killed.folder.cleanup()
        with self.with_tokens() as gateway:
            self.assertEqual((self.code(gateway, old), self.code(gateway, self.token(0))), (WRONG, 0))
            self.assertEqual(self.code(gateway, self.token(60, "bob")), 0)

    def test_a_mistake_revokes_nothing(self):
        with self.with_tokens() as gateway:
            client, _ = self.login(gateway, self.token(60))
            for body in ({"before": "yesterday"}, {"before": None}, {"before": time.time() * 1000}, {"since": 5}, [],
                         {"before": -1}, b"{", {"before": int(time.time()), "user": "alice"}):
                with self.subTest(body=body):
                    status, said = self.revoke(gateway, body)
                    self.assertEqual(status, 400, said)
            self.assertEqual(self.revoke(gateway, user="%FF")[0], 400)
            client.ping()

    def test_the_hook_is_asked_anew(self):
        backend = Backend()
        self.addCleanup(backend.stop)
        with self.gateway("--auth-hook", backend.url, "--auth-hook-cache", "10m") as gateway:
            client, code = self.login(gateway, "secret")
            self.assertEqual(code, 0)
            backend.answer = lambda question: DENY
            self.assertEqual(self.code(gateway, "secret"), 0)  # it is remembered
            client, _ = self.login(gateway, "secret")
            self.assertEqual(self.revoke(gateway)[1]["disconnected"], 1)
            self.assert_thrown_out(client)
            self.assertEqual(self.code(gateway, "secret"), WRONG)

    def test_a_login_that_the_hook_allows_during_a_revocation_must_be_repeated(self):
        backend = Backend(ALLOW)
        self.addCleanup(backend.stop)
        with self.gateway("--auth-hook", backend.url, *PATIENT) as gateway:
            backend.gate.clear()
            raw = Client(gateway.port)
            self.addCleanup(raw.close)
            raw.send(connect_packet("phone", "alice", "secret"))
            wait_until(lambda: backend.questions, what="the question")
            self.assertEqual(self.revoke(gateway)[0], 200)
            backend.gate.set()
            refused = raw.receive()[1]
            self.assertEqual(refused[1], 0x89)
            self.assertIn(b"logins were revoked meanwhile", refused)
            counted = {result: gateway.metric("pulsegate_auth_hook_requests_total", result=result)
                       for result in ("revoked", "allowed", "denied")}
            self.assertEqual(counted, {"revoked": 1, "allowed": 0, "denied": 0})
            self.assertEqual(self.code(gateway, "secret"), 0)

    def test_an_allowed_login_that_waits_for_a_takeover_during_a_revocation_must_be_repeated(self):
        backend = Backend(ALLOW)
        self.addCleanup(backend.stop)
        with self.gateway("--auth-hook", backend.url, "--duel-takeovers", "1") as gateway:
            for _ in range(2):
                self.login(gateway, "secret")
            for seconds in (1, 2, 4, 8):
                waiting = Client(gateway.port)
                self.addCleanup(waiting.close)
                waiting.send(connect_packet("phone", "alice", "secret"))
                gateway.wait_for_log(f"The new connection must wait for {seconds}000 ms")
            self.assertEqual(self.revoke(gateway)[0], 200)
            self.assertEqual(waiting.receive()[1][1], 0x89)
            self.assertEqual(self.code(gateway, "secret"), 0)

    def test_clients_with_a_password_must_show_it_again(self):
        with self.gateway("--password-file", self.password_file(alice="a")) as gateway:
            client, code = self.login(gateway, "a")
            self.assertEqual(code, 0)
            self.assertEqual(self.revoke(gateway)[1]["disconnected"], 1)
            self.assert_thrown_out(client)
            self.assertEqual(self.code(gateway, "a"), 0)


if __name__ == "__main__":
    unittest.main()
