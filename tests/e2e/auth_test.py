"""Logins: passwords, certificates and tokens."""

import contextlib
import os
import select
import signal
import socket
import ssl
import subprocess
import time
import unittest
from pathlib import Path

import paho.mqtt.client as paho

import packets
from certificates import Certificates
from credentials import SECRET, Folder, granted, token
from gateway import Gateway, binary, port_of, wait_until


class PasswordTest(Folder):
    def test_only_clients_with_the_password_are_let_in(self):
        users = self.password_file(alice="right", bob="other")
        with Gateway("--password-file", users) as gateway:
            self.assertEqual(self.code(gateway, "alice", "right"), 0)
            self.assertEqual(self.code(gateway, "bob", "other"), 0)
            for user, password in (("alice", "other"), ("alice", ""), ("alice", None), ("mallory", "right"), ("", "right")):
                with self.subTest(user=user, password=password):
                    self.assertEqual(self.code(gateway, user, password), 0x86)
            self.assertEqual(self.code(gateway, "alice", "wrong", version=paho.MQTTv311), 4)
            self.assertEqual(self.code(gateway), 0x87)
            self.assertEqual(self.code(gateway, version=paho.MQTTv311), 5)
            gateway.wait_for_log("client 'c' of user 'mallory': login refused: user name or password is wrong")
            self.assertNotIn("right", gateway.log)

    def test_a_fleet_may_share_one_name(self):
        users = self.password_file(fleet="right")
        with Gateway("--password-file", users, "--user-from", "client-id") as gateway:
            self.assertEqual(self.code(gateway, "fleet", "right", "phone"), 0)
            self.assertEqual(gateway.get_json("/api/v1/users/phone")[1]["state"], "online")
            self.assertEqual(gateway.get("/api/v1/users/fleet")[0], 404)

    def test_anonymous_clients_are_let_in_only_if_a_setting_allows_it(self):
        with Gateway("--password-file", self.password_file(alice="right"), "--allow-anonymous") as gateway:
            self.assertEqual(self.code(gateway), 0)
            self.assertEqual(self.code(gateway, "alice", "wrong"), 0x86)

    def test_an_anonymous_client_without_a_client_id_is_a_stranger_as_well(self):
        with Gateway("--password-file", self.password_file(alice="right"), "--allow-anonymous",
                     events=True) as gateway:
            for version in (paho.MQTTv311, paho.MQTTv5) * 3:
                self.assertEqual(self.code(gateway, client_id="", version=version), 0)
            arrivals = wait_until(lambda: len(gateway.events()) == 6 and gateway.events(), what="six arrivals")
            for event in arrivals:
                self.assertRegex(event["client"], "^auto-[0-9a-f]{16}$")
                self.assertEqual(event["user"], "anonymous/" + event["client"])

    def test_changed_passwords_hold_after_sighup(self):
        users = self.password_file(alice="old")
        with Gateway("--password-file", users) as gateway:
            code, alice = self.client(gateway, "alice", "old", "first")
            self.assertEqual(code, 0)
            alice.on_disconnect = lambda *_: alice.disconnect()  # Paho would come again
            self.password_file(alice="new")
            gateway.process.send_signal(signal.SIGHUP)
            gateway.wait_for_log("users, keys and rules reloaded")
            self.assertEqual(self.code(gateway, "alice", "old"), 0x86)
            self.assertEqual(self.code(gateway, "alice", "new"), 0)
            wait_until(lambda: not alice.is_connected(), what="the end of the old password's connection")
            Path(users).write_text("no colon")
            gateway.process.send_signal(signal.SIGHUP)
            gateway.wait_for_log("users, keys and rules not reloaded: ")
            self.assertEqual(self.code(gateway, "alice", "new"), 0)

    def test_hashing_does_not_hold_up_connected_clients(self):
        users = str(self.path / "slow")
        subprocess.run([str(binary()), "passwd", "--create", "--iterations", "400000", users, "alice"], input="right\n",
                       text=True, check=True, timeout=60, capture_output=True)  # each takes a hundred round trips
        with Gateway("--password-file", users, "--shards", "1") as gateway:
            _, alice = self.client(gateway, "alice", "right", "living")

            crowd = [self.begin(gateway, b"wrong%d" % number, b"bob") for number in range(20)]
            received = []
            alice.on_message = lambda c, u, message: received.append(message)
            alice.subscribe("x", 1)
            alice.publish("x", "!", 1)
            wait_until(lambda: received)
            self.assertLess(gateway.metric("pulsegate_logins_refused_total"), 20)
            for stream in crowd:
                stream.close()

    def test_a_reload_disconnects_clients_of_changed_or_removed_lines(self):
        users = self.password_file(alice="a", bob="b", carol="c", fleet="f")
        for arguments in ((), ("--user-from", "client-id")):
            with self.subTest(arguments=arguments), Gateway("--password-file", users, *arguments) as gateway:
                clients = {}
                for user in ("alice", "bob", "carol", "fleet"):
                    clients[user] = self.begin(gateway, user[:1].encode(), user.encode(), user.encode(), version=5)
                    self.assertEqual(clients[user].recv(100)[3], 0)
                self.password_file(bob="new", fleet="new")
                subprocess.run([str(binary()), "passwd", "--delete", users, "carol"], check=True, timeout=60)
                gateway.process.send_signal(signal.SIGHUP)
                for user in ("bob", "carol", "fleet"):
                    self.assertEqual(clients[user].recv(100)[2], 0x87, user)
                    self.assertEqual(clients[user].recv(100), b"")
                clients["alice"].sendall(b"\xc0\x00")
                self.assertEqual(clients["alice"].recv(100), b"\xd0\x00")
                gateway.wait_for_log("its user was removed, or has another password now")
            self.password_file(bob="b", carol="c", fleet="f")

    def slow_users(self, *, rounds=200_000):
        users = str(self.path / "slow")
        subprocess.run([str(binary()), "passwd", "--create", "--iterations", str(rounds), users, "alice"],
                       input="right\n", text=True, check=True, timeout=60, capture_output=True)
        return users

    def begin(self, gateway, password, user=b"alice", client=b"me", source="127.0.0.1", version=4):
        """A connection that has sent its CONNECT."""
        stream = socket.create_connection(("127.0.0.1", gateway.port), timeout=60, source_address=(source, 0))
        self.addCleanup(stream.close)
        stream.sendall(self.connect_packet(password, user, client, version))
        return stream

    def connect_packet(self, password, user=b"alice", client=b"me", version=4):
        properties = b"\x00" if version == 5 else b""
        body = b"\x00\x04MQTT" + bytes([version]) + b"\xc2\x00\x3c" + properties + b"".join(
            len(part).to_bytes(2, "big") + part for part in (client, user, password))
        return b"\x10" + bytes([len(body)]) + body

    def test_no_password_is_hashed_for_clients_that_have_gone(self):
        with Gateway("--password-file", self.slow_users(), "--ban-failures", "0") as gateway:
            self.assertEqual(self.begin(gateway, b"wrong").recv(4)[3], 4)
            one = gateway.cpu_seconds()  # or a little more
            for number in range(60):
                self.begin(gateway, b"guess%d" % number).close()
            self.assertEqual(self.begin(gateway, b"right").recv(4)[3], 0)
            wait_until(lambda: gateway.metric("pulsegate_connections") == 1)
            # Only clients that got their turn before they left are hashed: two for each thread.
            self.assertLess(gateway.cpu_seconds() - one, one * (2 * os.cpu_count() + 20))

    def test_no_password_is_hashed_for_clients_that_have_closed_tls(self):
        authority = Certificates()
        self.addCleanup(authority.folder.cleanup)
        certificate, key = authority.issue("localhost")
        with Gateway("--password-file", self.slow_users(), "--ban-failures", "0", "--listen", "mqtts://127.0.0.1:0",
                     "--tls-cert", certificate, "--tls-key", key) as gateway:
            self.assertEqual(self.begin(gateway, b"wrong").recv(4)[3], 4)
            one = gateway.cpu_seconds()  # or a little more
            crowd = [self.over_tls(gateway, authority, version) for _ in range(30)
                     for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)]
            before = gateway.cpu_seconds()
            for number, stream in enumerate(crowd):
                stream.sendall(self.connect_packet(b"guess%d" % number))
                stream.setblocking(False)
                with self.assertRaises(ssl.SSLWantReadError):
                    stream.unwrap()  # sends close_notify, and does not wait for an answer
                stream.close()
            self.assertEqual(self.begin(gateway, b"right").recv(4)[3], 0)
            wait_until(lambda: gateway.metric("pulsegate_connections") == 1)
            self.assertLess(gateway.cpu_seconds() - before, one * (2 * os.cpu_count() + 20))

    def over_tls(self, gateway, authority, version):
        context = ssl.create_default_context(cafile=authority.ca)
        context.minimum_version = context.maximum_version = version
        plain = socket.create_connection(("127.0.0.1", port_of(gateway, "mqtts")), timeout=60)
        return context.wrap_socket(plain, server_hostname="localhost")

    def test_a_right_password_is_hashed_once_however_many_come(self):
        with Gateway("--password-file", self.slow_users(), "--user-from", "client-id") as gateway:
            before = gateway.cpu_seconds()
            crowd = [self.begin(gateway, b"right", client=b"c%d" % number) for number in range(50)]
            self.assertEqual({each.recv(4)[3] for each in crowd}, {0})
            one = gateway.cpu_seconds() - before
            crowd = [self.begin(gateway, b"right", client=b"d%d" % number) for number in range(50)]
            self.assertEqual({each.recv(4)[3] for each in crowd}, {0})
            self.assertLess(gateway.cpu_seconds() - before, 5 * one)

    def test_one_address_does_not_keep_the_others_waiting(self):
        with Gateway("--password-file", self.slow_users(), "--ban-failures", "0") as gateway:
            crowd = [self.begin(gateway, b"guess%d" % number) for number in range(300)]
            self.assertEqual(self.begin(gateway, b"right", source="127.0.0.2").recv(4)[3], 0)
            self.assertTrue([each for each in crowd if not select.select([each], [], [], 0)[0]])

    def test_a_client_that_is_not_checked_within_the_login_timeout_is_closed(self):
        users = str(self.path / "slow")
        subprocess.run([str(binary()), "passwd", "--create", "--iterations", "6000000", users, "alice"],
                       input="right\n", text=True, check=True, timeout=100, capture_output=True)
        with Gateway("--password-file", users, "--login-timeout", "1s") as gateway:
            stream = socket.create_connection(("127.0.0.1", gateway.port), timeout=60)
            self.addCleanup(stream.close)
            stream.sendall(b"\x10\x1c\x00\x04MQTT\x04\xc2\x00\x3c\x00\x02me\x00\x05alice\x00\x05right")
            stream.sendall(b"\xc0\x00" * 100)
            try:
                self.assertEqual(stream.recv(100), b"")
            except ConnectionResetError:
                pass  # what it sent in the meantime was not read
            self.assertEqual(gateway.metric("pulsegate_login_timeouts_total"), 1)
            self.assertEqual(gateway.metric("pulsegate_logins_total"), 0)

    def test_a_public_listener_wants_authentication(self):
        users = ["--password-file", self.password_file(alice="right")]
        for arguments, starts, warns in ((users, True, False), ([*users, "--allow-anonymous"], True, True),
                                         (["--allow-anonymous"], True, True), ([], False, False)):
            with self.subTest(arguments=arguments):
                gateway = Gateway("--listen", "mqtt://0.0.0.0:0", "--listen", "http://127.0.0.1:0", *arguments,
                                  listen=False)
                if starts:
                    with gateway:
                        gateway.stop()
                        self.assertEqual("clients are not authenticated" in gateway.log, warns)
                    continue
                with self.assertRaises(AssertionError):
                    gateway.start()
                self.assertIn("name a --password-file", gateway.log)
                gateway.folder.cleanup()


class CertificateTest(Folder):
    """Mutual TLS with `user-from = certificate`."""

    @classmethod
    def setUpClass(cls):
        cls.certificates = Certificates()
        cls.addClassCleanup(cls.certificates.folder.cleanup)
        cls.server = cls.certificates.issue("localhost")

    def gateway(self, *arguments):
        certificate, key = self.server
        return Gateway("--listen", "mqtts://127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key,
                       "--tls-client-ca", self.certificates.ca, "--user-from", "certificate", *arguments)

    def connect(self, gateway, name, username="ignored", **options):
        """A client with a certificate of that name that has sent its CONNECT."""
        return self.connect_with(gateway, self.context(name, **options), username)

    def context(self, name, issue=True, **options):
        path = self.certificates.path
        files = self.certificates.issue(name, **options) if issue else (path / f"{name}.crt", path / f"{name}.key")
        context = ssl.create_default_context(cafile=self.certificates.ca)
        context.load_cert_chain(*files)
        return context

    def connect_with(self, gateway, context, username="ignored", session=None):
        plain = socket.create_connection(("127.0.0.1", port_of(gateway, "mqtts")), timeout=60)
        stream = context.wrap_socket(plain, server_hostname="localhost", session=session)
        self.addCleanup(stream.close)
        stream.sendall(packets.connect(5, "c", username=username))
        return stream

    def login(self, *arguments, **options):
        """The code of its CONNACK."""
        return self.connect(*arguments, **options).recv(100)[3]

    def brief(self, gateway, name):
        """A client that is logged in with a certificate that soon expires, and its context. A busy machine needs more time."""
        for seconds in (4, 10, 30):
            context = self.context(f"{name}-{seconds}", seconds=seconds)
            with contextlib.suppress(ssl.SSLError, ConnectionError):
                stream = self.connect_with(gateway, context)
                if stream.recv(100)[3:4] == b"\0":
                    return stream, context
        self.fail("the certificate has expired before the client was logged in")

    def test_the_common_name_is_the_user_and_no_password_is_asked_for(self):
        with self.gateway("--password-file", self.password_file(bob="right")) as gateway:
            self.assertEqual(self.login(gateway, "alice"), 0)
            self.assertEqual(gateway.get_json("/api/v1/users/alice")[1]["state"], "online")
            self.assertEqual(gateway.get("/api/v1/users/ignored")[0], 404)
            # A listener without TLS asks as ever.
            self.assertEqual(self.code(gateway, "bob", "right"), 0)
            self.assertEqual(self.code(gateway, "alice"), 0x86)

    def test_the_usual_rules_hold(self):
        with self.gateway() as gateway:
            alice = self.connect(gateway, "alice")
            self.assertEqual(alice.recv(100)[3], 0)
            alice.sendall(packets.subscribe(5, 1, [(name, 0) for name in ("room/1", "inbox/alice", "inbox/bob", "#")]))
            self.assertEqual(alice.recv(100)[5:], b"\0\0\x87\x87")

    def test_a_name_that_can_be_no_user_is_turned_away(self):
        with self.gateway() as gateway:
            self.assertEqual(self.login(gateway, "nobody", subject="/O=a company"), 0x87)
            gateway.wait_for_log("its certificate has no common name that can be a user's")

    def test_a_client_without_a_certificate_is_no_user(self):
        plain = "--listen", "mqtt://127.0.0.1:0"
        with self.gateway(*plain) as gateway:
            for user in ("carol", None):
                self.assertEqual(self.code(gateway, user), 0x87)
            gateway.wait_for_log("client 'c' of user 'carol': login refused: it presents no certificate")
            self.assertEqual(gateway.get("/api/v1/users/carol")[0], 404)
        with self.gateway(*plain, "--allow-anonymous") as gateway:
            self.assertEqual(self.code(gateway, "carol"), 0x87)
            self.assertEqual(self.code(gateway), 0)
            self.assertEqual(gateway.get_json("/api/v1/users/anonymous%2Fc")[1]["state"], "online")
            self.assertEqual(gateway.get("/api/v1/users/c")[0], 404)

    def test_the_connection_ends_with_the_certificate_and_nothing_resumes_it(self):
        with self.gateway() as gateway:
            brief, context = self.brief(gateway, "brief")
            self.assertFalse(brief.session and brief.session.has_ticket)
            self.assertEqual(brief.recv(100)[:3:2], b"\xe0\xa0")
            with self.assertRaises((ssl.SSLError, ConnectionError)):
                self.connect_with(gateway, context, session=brief.session).recv(100)
            gateway.wait_for_log("certificate has expired")

    def test_a_password_does_not_outlive_the_certificate_that_it_came_with(self):
        certificate, key = self.server
        with Gateway("--listen", "mqtts://127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key,
                     "--tls-client-ca", self.certificates.ca) as gateway:
            brief, _ = self.brief(gateway, "short")
            self.assertEqual(brief.recv(100)[:3:2], b"\xe0\xa0")

    def test_a_revoked_certificate_is_turned_away_after_sighup(self):
        self.certificates.issue("mallory")
        crl = self.certificates.revoke()
        with self.gateway("--tls-client-crl", crl) as gateway:
            self.assertEqual(self.login(gateway, "mallory"), 0)
            self.certificates.revoke("mallory")
            gateway.process.send_signal(signal.SIGHUP)
            gateway.wait_for_log("certificates reloaded")
            with self.assertRaises((ssl.SSLError, ConnectionError)):
                self.connect_with(gateway, self.context("mallory", issue=False)).recv(100)
            gateway.wait_for_log("certificate revoked")
            self.assertEqual(self.login(gateway, "alice"), 0)

    def test_certificates_must_be_asked_for(self):
        done = subprocess.run([str(binary()), "--user-from", "certificate"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--tls-client-ca", done.stderr)


class TokenTest(Folder):
    def gateway(self, *arguments):
        return Gateway("--jwt-secret", self.file("secret", SECRET), *arguments)

    def test_a_good_token_names_the_user(self):
        with self.gateway() as gateway:
            code, _ = self.client(gateway, "whoever", token({"sub": "alice", "exp": time.time() + 60}))
            self.assertEqual(code, 0)
            self.assertEqual(gateway.get_json("/api/v1/users/alice")[1]["state"], "online")

    def test_a_key_is_replaced_without_a_restart(self):
        secrets = {name: f"{name} secret, which is long enough" for name in ("old", "new")}
        files = {name: self.file(name, secret) for name, secret in secrets.items()}
        settings = Path(self.file("settings"))

        def codes():
            claims = {"sub": "alice", "exp": time.time() + 600}
            return [self.code(gateway, "alice", token(claims, secret)) for secret in secrets.values()]

        def use(*names):
            settings.write_text("jwt-secret = [{}]\n".format(", ".join(f'"{files[name]}"' for name in names)))
            before = gateway.log.count("users, keys and rules reloaded")
            os.kill(gateway.pid, signal.SIGHUP)
            wait_until(lambda: gateway.log.count("users, keys and rules reloaded") > before, what="the reload")

        settings.write_text(f'jwt-secret = "{files["old"]}"\n')
        with Gateway("--config", settings) as gateway:
            self.assertEqual(codes(), [0, 0x86])
            use("old", "new")
            self.assertEqual(codes(), [0, 0])
            use("new")
            self.assertEqual(codes(), [0x86, 0])
            settings.write_text("")
            os.kill(gateway.pid, signal.SIGHUP)
            gateway.wait_for_log("settings that need a restart: jwt-secret is not set")
            self.assertEqual(codes(), [0x86, 0])

    def test_a_bad_token_lets_nobody_in(self):
        good = {"sub": "alice", "exp": time.time() + 60}
        bad = [token(good, "another secret that is long enough"), token(good, header={"alg": "none"}),
               token({**good, "exp": time.time() - 1}), token({"sub": "alice"}), token({"exp": time.time() + 60}),
               token(good)[:-1], token(good) + ".x", "a.b.c", "..", token({**good, "pad": "x" * 10_000})]
        with self.gateway() as gateway:
            for number, text in enumerate(bad):
                with self.subTest(number=number):
                    self.assertEqual(self.code(gateway, "alice", text), 0x86)
            self.assertNotIn(token(good)[:30], gateway.log)
            gateway.wait_for_log("of user 'alice': login refused: its password is not a token")

    def test_a_tokens_header_may_have_blanks(self):
        with self.gateway("--password-file", self.password_file(alice="a")) as gateway:
            for blanks in (" ", "\n", "\r\n\t "):
                with self.subTest(blanks=blanks):
                    good = token({"sub": "bob", "exp": time.time() + 60}, blanks=blanks)
                    self.assertEqual(self.code(gateway, "bob", good), 0)

    def test_a_password_may_have_dots(self):
        with self.gateway("--password-file", self.password_file(alice="a.b.c")) as gateway:
            self.assertEqual(self.code(gateway, "alice", "a.b.c"), 0)
            self.assertEqual(self.code(gateway, "alice", token({"sub": "bob", "exp": time.time() + 60})), 0)

    def test_the_connection_ends_with_the_token(self):
        with self.gateway() as gateway:
            code, client = self.client(gateway, "u", token({"sub": "alice", "exp": time.time() + 6}))
            reasons = []
            client.on_disconnect = lambda c, u, rc, *rest: reasons.append(int(getattr(rc, "value", rc) or 0))
            self.assertEqual(code, 0)
            wait_until(lambda: reasons, timeout=60, what="the end of the connection")
            gateway.wait_for_log("its authorization has expired")

    def test_a_token_brings_its_own_rules(self):
        with self.gateway() as gateway:
            claims = {"sub": "alice", "exp": time.time() + 60, "acl": ["allow readwrite only/#"]}
            _, client = self.client(gateway, "u", token(claims))
            self.assertEqual(granted(client, "only/x", "other", "#", "inbox/alice"), [0, 0x87, 0x87, 0x87])


if __name__ == "__main__":
    unittest.main()
