"""Attempts to log in, read and write without permission: they fail, and other clients don't notice."""

import hashlib
import hmac
import json
import re
import socket
import time
import unittest

import packets
from abuse_test import Bystander, read_to_the_end
from certificates import openssl
from credentials import SECRET, Folder, part, token
from gateway import PINGREQ, PINGRESP, wait_until
from limits_test import BANNED, Scene
from streams import reset

WRONG, DENIED = 0x86, 0x87
RESPONSE_INFORMATION, WILL_DELAY, TOPIC_ALIAS = 0x19, 0x18, 0x23


class StrangerTest(Scene, Folder):
    """Clients that have not logged in, or were refused."""

    def setUp(self):
        super().setUp()
        self.guarded = self.gateway("--password-file", self.password_file(alice="right"))
        self.alice = self.login(self.guarded, "alice", username="alice", password="right")
        self.alice.subscribe("room")

    def said(self, data):
        """Everything that the gateway answers."""
        with socket.create_connection(("127.0.0.1", self.guarded.port), 60) as stream:
            stream.sendall(data)
            return read_to_the_end(stream)

    def everything(self, version):
        return [packets.publish(version, "room", b"!", qos=1, packet_id=1),
                packets.publish(version, "inbox/alice", b"!"), packets.subscribe(version, 1, [("#", 0)]),
                *(packets.answer(version, kind, 1) for kind in (4, 5, 6, 7)),
                packets.unsubscribe(version, 1, ["room"]), PINGREQ, packets.disconnect(version), b"\xf0\x00",
                b"\x20\x02\x00\x00", b"\x90\x03\x00\x01\x00", b"\xb0\x02\x00\x01", PINGRESP, b"\x00\x00"]

    def test_nothing_is_answered_before_connect(self):
        for version in (4, 5):
            welcome = packets.connect(version, "late", username="alice", password="right")
            for each in self.everything(version):
                with self.subTest(each=each):
                    self.assertEqual(self.said(each + welcome), b"")
        self.alice.ping()  # and heard nothing

    def test_nothing_is_answered_after_a_refusal(self):
        for version, refusal in ((4, 4), (5, WRONG)):
            refused = packets.connect(version, "stranger", username="alice", password="wrong")
            welcome = packets.connect(version, "stranger", username="alice", password="right")
            for each in [welcome, *self.everything(version)]:
                with self.subTest(each=each):
                    said = self.said(refused + each + welcome)
                    self.assertEqual((said[0], said[3], len(said)), (0x20, refusal, 2 + said[1]))
        self.alice.ping()
        self.assertEqual(self.guarded.metric("pulsegate_logins_total"), 1)


class AdminDoorTest(Scene, Folder):
    """The HTTP API without its token."""

    TOKEN = "0123456789abcdef0123456789abcdef"

    def setUp(self):
        super().setUp()
        self.guarded = self.gateway("--admin-token-file", self.file("token", self.TOKEN))

    def exchange(self, *pieces):
        """The statuses of all answers to this, and their whole text."""
        with socket.create_connection(("127.0.0.1", self.guarded.http_port), 15) as stream:
            try:
                for piece in pieces:
                    stream.sendall(piece)
                stream.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # it was thrown out in the middle
            said = read_to_the_end(stream)
        return [int(status) for status in re.findall(rb"HTTP/1\.[01] (\d+)", said)], said

    def request(self, method, target, *fields):
        lines = [f"{method} {target} HTTP/1.1", "Host: x", *fields, "", ""]
        return "\r\n".join(lines).encode()

    def test_no_path_and_no_method_gets_around_it(self):
        targets = ["/metrics", "/api/v1/wheel", "/api/v1/bans", "/api/v1/users/alice", "/api/v1/users?ids=alice",
                   "/api/v1/bans?address=127.0.0.1", "//metrics", "/healthz/../metrics", "/healthz/%2e%2e/metrics",
                   "/./metrics", "/%6detrics", "/healthz/", "/healthz%00/../metrics", "/metrics#/healthz", "*", "?",
                   "http://x/metrics", "http://x/healthz/../metrics", "/healthz;/metrics", "/metrics?/healthz", "/METRICS", ""]
        methods = ["GET", "HEAD", "DELETE", "POST", "PUT", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get", "FROB"]
        wrong = ["", "Bearer", "Bearer ", f"Bearer {self.TOKEN[:-1]}", f"Bearer {self.TOKEN}x", f"Bearer{self.TOKEN}",
                 f"Bearer  {self.TOKEN}", f"Basic {self.TOKEN}", self.TOKEN, f"Bearer {self.TOKEN},Bearer x"]
        for method in methods:
            for target in targets:
                for shown in wrong if (method, target) == ("GET", "/metrics") else wrong[:1]:
                    with self.subTest(method=method, target=target, shown=shown):
                        statuses, said = self.exchange(self.request(method, target, f"Authorization: {shown}"))
                        self.assertIn(statuses, ([400], [401], [405]), said[:200])
        twice = self.request("GET", "/metrics", "Authorization: Bearer x", f"Authorization: Bearer {self.TOKEN}")
        self.assertEqual(self.exchange(twice)[0], [401])

    def test_each_request_on_a_connection_shows_it(self):
        good = self.request("GET", "/api/v1/wheel", f"Authorization: Bearer {self.TOKEN}")
        bare = self.request("GET", "/api/v1/wheel")
        self.assertEqual(self.exchange(good + bare + good)[0], [200, 401, 200])
        smuggled = self.request("GET", "/healthz", f"Content-Length: {len(bare)}") + bare
        self.assertEqual(self.exchange(smuggled)[0], [200])

    def test_huge_and_slow_requests_harm_nobody(self):
        with Bystander(self.guarded):
            for bomb in (self.request("GET", "/healthz", "X: " + "x" * 1_000_000),
                         self.request("GET", "/healthz", *["X: y"] * 100_000), b"GET /" + b"a" * 1_000_000,
                         self.request("GET", "/healthz", "Content-Length: 99999999999999999999"),
                         self.request("GET", "/healthz", "Content-Length: 9999999") + bytes(1_000_000),
                         self.request("GET", "/healthz", "Transfer-Encoding: chunked") + b"FFFFFFFFFFFFFFFF\r\nx",
                         bytes(100_000)):
                statuses, said = self.exchange(bomb)
                self.assertIn(statuses, ([], [400], [413]), said[:200])
            before = self.guarded.rss()
            for endless in (b"1;" + b"a" * 64_000_000, b"0\r\nx: " + b"a" * 64_000_000):
                self.exchange(self.request("POST", "/api/v1/publish", "Transfer-Encoding: chunked") + endless)
            self.assertLess(self.guarded.rss() - before, 16 << 20)
            letters = [bytes([each]) for each in self.request("GET", "/healthz")]
            self.assertEqual(self.exchange(*letters)[0], [200])


class TokenTest(Scene, Folder):
    """Tokens that were made by somebody else."""

    def rsa(self):
        openssl("genrsa", "-out", "rsa.key", "2048", folder=self.path)
        public = openssl("rsa", "-in", "rsa.key", "-pubout", folder=self.path).decode()
        return self.file("rsa.pem", public), public

    def test_no_forged_token_is_accepted(self):
        path, public = self.rsa()
        gateway = self.gateway("--jwt-key", path, "--jwt-secret", self.file("secret", SECRET), "--ban-failures", 0)
        good = {"sub": "alice", "exp": int(time.time()) + 600}
        head, claims, signature = token(good).split(".")

        def signed(header, text, secret=SECRET):
            """Like `token`, for what is not JSON too."""
            both = part(header.encode()) + b"." + part(text.encode())
            return (both + b"." + part(hmac.new(secret.encode(), both, hashlib.sha256).digest())).decode()

        hs256, text = json.dumps({"alg": "HS256"}), json.dumps(good)
        nested = "[" * 3000 + "]" * 3000
        tricks = [
            *(token(good, header={"alg": alg}) for alg in ("none", "None", "NONE", "nOnE", "", "hs256", "HS512", "RS256")),
            *(signed(json.dumps({"alg": alg}), text).rpartition(".")[0] + "." for alg in ("none", "NoNe", "HS256")),
            signed(hs256, text, public), signed(hs256, text, public.strip()), signed(hs256, text, ""),
            signed(json.dumps({"alg": "HS256", "kid": "rsa.pem"}), text), signed(json.dumps({"alg": ["HS256"]}), text),
            *(signed(json.dumps({"alg": "HS256", "kid": kid}), text, "") for kid in
              ("/dev/null", "../../../../dev/null", "' OR 1=1 --", "", "x" * 5000, "rsa\0.pem")),
            signed(json.dumps({"alg": "HS256", "kid": 7}), text), signed(json.dumps({"alg": "HS256", "crit": ["x"]}), text),
            signed(json.dumps({"alg": "HS256", "jwk": {"kty": "oct", "k": "AA"}}), text, "\0"),
            signed('{"alg":"none","alg":"HS256"}', text), signed(hs256, text[:-1] + ',"sub":"bob"}'),
            signed(hs256, text[:-1] + ',"x":' + nested + "}"), signed(hs256, nested), signed("[]", text),
            signed(hs256, '{"sub":{"a":1},"exp":9999999999}'), signed(hs256, '{"sub":"alice","exp":1e400}'),
            signed(hs256, '{"sub":"alice","exp":"9999999999"}'), signed(hs256, '{"sub":"a\\u0000b","exp":9999999999}'),
            signed(hs256, '{"sub":"\\ud800","exp":9999999999}'), signed(hs256, json.dumps({**good, "x": "x" * 10_000})),
            f"{head}.{claims}.{signature}=", f"{head}.{claims}.{signature}\n", f"{head}=.{claims}.{signature}",
            f"{head}.{claims}.{signature} ", f"{head}.{claims}.{signature}.{signature}", f"{head}.{claims}.",
            f"{head}.{claims}.{'A' * 43}", f"{head}.{claims}.!{signature}", f"{head}.{claims}.{signature}" * 2,
            f"{head}.{part(json.dumps({**good, 'sub': 'bob'}).encode()).decode()}.{signature}"]
        for number, trick in enumerate(tricks):
            with self.subTest(number=number, trick=trick[:100]):
                self.assertEqual(self.code(self.ask(gateway, "c", username="alice", password=trick)), WRONG)
        self.assertEqual(self.code(self.ask(gateway, "c", username="alice", password=token(good))), 0)


class TopicTest(Scene, Folder):
    """Clients without permission by the access rules."""

    def setUp(self):
        super().setUp()
        self.guarded = self.gateway("--password-file", self.password_file(alice="a", bob="b"))
        self.bob = self.login(self.guarded, "bob", username="bob", password="b")
        self.alice = self.login(self.guarded, "alice", username="alice", password="a")

    def granted(self, client, *filters):
        client.send(packets.subscribe(5, 7, [(name, 0) for name in filters]))
        return packets.FromServer(*client.receive(), version=5).reasons

    def told(self, client):
        """The reason of the PUBACK that comes next."""
        answer = packets.FromServer(*client.receive(), version=5)
        self.assertEqual(answer.type, packets.PUBACK)
        return answer.reason

    def test_no_filter_reads_another_users_messages(self):
        others = ["inbox/bob", "inbox/+", "inbox/#", "inbox/bob/#", "inbox/bob/+", "+/bob", "+/+", "+/#", "#", "+/bob/#",
                  "inbox/", "inbox", "inbox//", "inbox/%62ob", "inbox/%61lice", "inbox/Alice", "inbox/alice/x",
                  "inbox/alice/#", "inbox/alice/+", "inbox/alice/", "$share/g/inbox/bob", "$share/g/inbox/+", "$share/g/#",
                  "$share/g/+/bob", "$share/g/inbox/#", "$share/inbox/inbox/bob", "$SYS/#", "$share", "$delayed/1/x"]
        for name in others:
            with self.subTest(name=name):
                self.assertEqual(self.granted(self.alice, name), [DENIED])
        self.assertEqual(self.granted(self.alice, "inbox/alice", "$share/g/$share/h/inbox/bob", "$share/g//inbox/bob",
                                      "/inbox/bob", "presence/+", "$share/g/inbox/alice"), [0, DENIED, 0, 0, 0, 0])
        self.bob.publish("inbox/bob", b"a secret")
        self.assertEqual(self.bob.receive_publish(), ("inbox/bob", b"a secret"))
        self.bob.publish("inbox/alice", b"marker")
        got = ""
        while got != "inbox/alice":
            got, payload = self.alice.receive_publish()
            self.assertNotEqual(payload, b"a secret")

    def test_no_publish_writes_presence(self):
        self.bob.subscribe("presence/+")
        lies = ["presence/bob", "presence/", "presence/bob/x", "presence", "$SYS/x", "$share/g/presence/bob", "$x"]
        for retain in (False, True):
            for topic in lies:
                with self.subTest(topic=topic, retain=retain):
                    self.alice.send(packets.publish(5, topic, b"a lie", qos=1, packet_id=1, retain=retain))
                    self.assertEqual(self.told(self.alice), DENIED)
        # An alias keeps its topic, and the topic its rules.
        for topic, denied in (("presence/bob", True), ("", True), ("room", False), ("", False)):
            self.alice.send(packets.publish(5, topic, b"a lie", qos=1, packet_id=1, props=[(TOPIC_ALIAS, 1)]))
            self.assertEqual(self.told(self.alice) == DENIED, denied)
        self.bob.publish("inbox/bob", b"marker")
        got = ""
        while got != "inbox/bob":
            got, payload = self.bob.receive_publish()
            self.assertNotEqual(payload, b"a lie")
        self.assertEqual(self.guarded.metric("pulsegate_retained_messages"), 0)

    def test_no_will_writes_presence(self):
        for topic in ("presence/bob", "presence/x/y", "presence", "$SYS/x"):
            for retain in (False, True):
                for delay in (0, 1):
                    client = self.open(self.guarded)
                    client.send(packets.connect(5, "w", username="alice", password="a",
                                                will=(topic, "a lie", 1, retain, [(WILL_DELAY, delay)])))
                    self.assertEqual(self.code(client), DENIED)

    def test_bad_text_is_no_topic_and_no_name(self):
        for bad in (b"a\0b", b"\xc0\xaf", b"\xed\xa0\x80", b"\xff", b"\xf4\x90\x80\x80", b"inbox\xc0\xafbob"):
            for packet in (packets.publish(5, bad, b"x"), packets.subscribe(5, 1, [(bad, 0)])):
                with self.subTest(packet=packet):
                    client = self.login(self.guarded, "c", username="alice", password="a")
                    client.send(packet)
                    self.assertEqual(client.receive_until_closed()[-1][1][0], 0x81)
            client = self.open(self.guarded)
            client.send(packets.connect(5, "c", username=bad, password="a"))
            (kind, answer), = client.receive_until_closed()
            self.assertEqual((kind, answer[:2]), (0x20, b"\0\x81"))

    def test_each_name_has_its_own_inbox_however_it_is_spelled(self):
        names = ["a", "a/b", "a%2Fb", "a%2fb", "+", "#", "%2B", "..", "../a", "a/", "/a", "%", "%25", "%2", "inbox", "a/#",
                 "\u00e9", "e\u0301", "A", " a", "$share/g/a", "anonymous/a"]
        gateway = self.gateway()
        clients = {name: self.login(gateway, "c", username=name) for name in names}

        def encoded(name):
            return "".join(f"%{ord(each):02X}" if each in "/+#%" else each for each in name)

        sender = self.login(gateway, "sender")
        for name in names:
            sender.publish("inbox/" + encoded(name), name.encode(), qos=1)
            sender.receive()
            self.assertEqual(clients[name].receive_publish(), ("inbox/" + encoded(name), name.encode()))
        for name in ("a/b", "a%2fb", "%61", "a%2FB", "a%00", "A%2Fb", "%", "%2", "+".encode().hex()):
            sender.publish("inbox/" + name, b"for nobody", qos=1)
            sender.receive()
        for name, client in clients.items():
            client.ping()  # nothing has come before its answer


class GuessTest(Scene, Folder):
    def test_a_ban_holds_for_connections_that_are_open_already(self):
        users = self.password_file(alice="right")
        gateway = self.gateway("--password-file", users, "--ban-failures", 5, "--ban-time", "1h")
        crowd = [self.open(gateway, source="127.0.0.2") for _ in range(50)]
        wait_until(lambda: gateway.metric("pulsegate_connections") == 50, what="a crowd at the door")
        codes = []
        for client, password in zip(crowd, [f"wrong {i}" for i in range(49)] + ["right"]):
            client.send(packets.connect(5, "guesser", username="alice", password=password))
            codes.append(self.code(client))
        self.assertEqual(codes, [WRONG] * 5 + [BANNED] * 45)


class DuelTest(Scene):
    def test_a_rival_that_left_during_its_pause_takes_nothing_over(self):
        gateway = self.gateway("--duel-takeovers", 1, events=True)
        self.login(gateway, "twin")
        holder = self.login(gateway, "twin")
        for number in (1, 2):
            rival = self.ask(gateway, "twin")
            wait_until(lambda: gateway.metric("pulsegate_limit_hits_total", limit="duel-takeovers") == number, what="a pause")
            reset(rival.socket)
        wait_until(lambda: gateway.metric("pulsegate_connections") == 1, timeout=60, what="the end of all pauses")
        holder.ping()
        self.assertEqual({event["state"] for event in gateway.events("twin")}, {"online"})


class NameTest(Scene, Folder):
    def test_nobody_becomes_a_user_by_a_client_id(self):
        users = self.password_file(alice="a", bob="b")
        gateway = self.gateway("--password-file", users, "--allow-anonymous")
        bob = self.login(gateway, "bob", username="bob", password="b")
        alice = self.login(gateway, "alice", username="alice", password="a")
        spy = self.login(gateway, "alice")
        spy.send(packets.subscribe(5, 1, [("inbox/alice", 0), ("inbox/anonymous%2Falice", 0)]))
        self.assertEqual(spy.receive()[1][-2:], bytes([DENIED, 0]))
        bob.publish("inbox/alice", b"a secret")
        bob.publish("inbox/anonymous%2Falice", b"for anybody")
        self.assertEqual(alice.receive_publish(), ("inbox/alice", b"a secret"))
        self.assertEqual(spy.receive_publish(), ("inbox/anonymous%2Falice", b"for anybody"))
        self.assertEqual(gateway.get_json("/api/v1/users/anonymous%2Falice")[1]["state"], "online")

    def test_a_name_too_long_for_a_topic_breaks_no_packet(self):
        gateway = self.gateway()
        for name in ("/" * 65_535, "x" * 65_535, "/" * 21_845):
            client = self.open(gateway)
            client.send(packets.connect(5, "long", username=name, props=[(RESPONSE_INFORMATION, 1)]))
            connack = packets.FromServer(*client.receive(), version=5)
            self.assertEqual((connack.reason, connack.properties.get(0x1A)), (0, None))
            client.close()


if __name__ == "__main__":
    unittest.main()
