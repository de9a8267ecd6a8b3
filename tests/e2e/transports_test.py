"""TLS, WebSocket and the PROXY protocol, with other people's clients and with raw sockets."""

import base64
import hashlib
import json
import os
import re
import select
import signal
import socket
import ssl
import struct
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import packets
from certificates import Certificates
from clients import chat_with_mqtt_js
from gateway import Gateway, add_users, port_of, wait_until

CONNECT = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x0a\x00\x01%c"
CONNACK = b"\x20\x02\x00\x00"
PING, PONG = b"\xc0\x00", b"\xd0\x00"
KEY = "dGhlIHNhbXBsZSBub25jZQ=="


def receive(stream, size):
    data = b""
    while len(data) < size:
        more = stream.recv(size - len(data))
        if not more:
            break
        data += more
    return data


class TlsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.authority = Certificates()
        cls.addClassCleanup(cls.authority.folder.cleanup)
        cls.first = cls.authority.issue("localhost")
        cls.second = cls.authority.issue("other", host="other.example")

    def gateway(self, *arguments, certificates=None):
        command = ["--listen", "mqtts://127.0.0.1:0"]
        for certificate, key in certificates or [self.first]:
            command += ["--tls-cert", certificate, "--tls-key", key]
        return Gateway(*command, *arguments)

    def context(self, version=None, client=None):
        context = ssl.create_default_context(cafile=self.authority.ca)
        if version:
            context.minimum_version = context.maximum_version = version
        if client:
            context.load_cert_chain(*client)
        return context

    def connect(self, gateway, context=None, name="localhost", **options):
        plain = socket.create_connection(("127.0.0.1", port_of(gateway, "mqtts")), timeout=10)
        stream = (context or self.context()).wrap_socket(plain, server_hostname=name, **options)
        self.addCleanup(stream.close)
        return stream

    def log_in(self, stream, name=b"a"):
        stream.sendall(CONNECT % name)
        self.assertEqual(receive(stream, 4), CONNACK)

    def test_both_versions_of_tls_carry_mqtt(self):
        with self.gateway() as gateway:
            for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                with self.subTest(version=version):
                    context = self.context(version)
                    context.set_alpn_protocols(["mqtt"])
                    stream = self.connect(gateway, context)
                    self.assertEqual(stream.selected_alpn_protocol(), "mqtt")
                    self.log_in(stream)
                    stream.sendall(PING * 10_000)
                    self.assertEqual(receive(stream, 20_000), PONG * 10_000)

    def test_a_large_message_passes_whole(self):
        with self.gateway() as gateway:
            stream = self.connect(gateway)
            self.log_in(stream)
            stream.sendall(b"\x82\x06\x00\x01\x00\x01x\x00")
            self.assertEqual(receive(stream, 5), b"\x90\x03\x00\x01\x00")
            body = b"\x00\x01x" + os.urandom(200_000)
            length = len(body)
            packet = b"\x30" + bytes([length & 127 | 128, length >> 7 & 127 | 128, length >> 14]) + body
            stream.sendall(packet)
            self.assertEqual(receive(stream, len(packet)), packet)

    def test_sessions_are_resumed_with_tickets(self):
        with self.gateway() as gateway:
            context = self.context(ssl.TLSVersion.TLSv1_2)
            first = self.connect(gateway, context)
            self.log_in(first)
            self.assertFalse(first.session_reused)
            self.assertTrue(self.connect(gateway, context, session=first.session).session_reused)

    def test_the_name_that_a_client_asks_for_chooses_the_certificate(self):
        with self.gateway(certificates=[self.first, self.second]) as gateway:
            for name in ("localhost", "other.example"):
                names = self.connect(gateway, name=name).getpeercert()["subjectAltName"]
                self.assertIn(("DNS", name), names)

    def test_clients_must_show_a_certificate_when_an_authority_is_named(self):
        with self.gateway("--tls-client-ca", self.authority.ca) as gateway:
            self.log_in(self.connect(gateway, self.context(client=self.authority.issue("alice"))))
            with self.assertRaises(OSError):
                self.log_in(self.connect(gateway))
            gateway.wait_for_log("kicked: TLS handshake: ")

    def test_certificates_are_read_anew_without_dropping_anybody(self):
        certificate, key = self.authority.issue("renewed", host="localhost")
        with self.gateway(certificates=[(certificate, key)]) as gateway:
            before = self.connect(gateway)
            self.log_in(before)
            serial = before.getpeercert()["serialNumber"]
            self.authority.issue("renewed", host="localhost")
            gateway.process.send_signal(signal.SIGHUP)
            gateway.wait_for_log("certificates reloaded")
            wait_until(lambda: self.connect(gateway).getpeercert()["serialNumber"] != serial)
            Path(certificate).write_text("no certificate")
            gateway.process.send_signal(signal.SIGHUP)
            gateway.wait_for_log("certificates not reloaded: tls-cert")
            self.log_in(self.connect(gateway), b"b")
            before.sendall(PING)
            self.assertEqual(receive(before, 2), PONG)

    def test_old_versions_and_noise_are_turned_away(self):
        with self.gateway("--tls-min-version", "1.3") as gateway:
            with self.assertRaises(ssl.SSLError):
                self.connect(gateway, self.context(ssl.TLSVersion.TLSv1_2))
            noise = socket.create_connection(("127.0.0.1", port_of(gateway, "mqtts")), timeout=10)
            noise.sendall(CONNECT % b"x")
            while noise.recv(100):
                pass
            noise.close()
            wait_until(lambda: gateway.metric("pulsegate_handshakes_refused_total") == 2)
            self.log_in(self.connect(gateway))

    def test_a_handshake_that_never_ends_is_closed_in_time(self):
        with self.gateway("--login-timeout", "1s") as gateway:
            slow = socket.create_connection(("127.0.0.1", port_of(gateway, "mqtts")), timeout=10)
            slow.sendall(b"\x16\x03\x01")
            self.assertEqual(slow.recv(10), b"")
            slow.close()

    def test_a_thousand_handshakes_of_one_address_leave_turns_to_others(self):
        hello = ssl.MemoryBIO()
        recording = self.context().wrap_bio(ssl.MemoryBIO(), hello, server_hostname="localhost")
        with self.assertRaises(ssl.SSLWantReadError):
            recording.do_handshake()
        hello = hello.read()
        with self.gateway("--shards", "1") as gateway:
            flood = []
            for _ in range(1000):
                one = socket.create_connection(("127.0.0.1", port_of(gateway, "mqtts")), timeout=10,
                                               source_address=("127.0.0.2", 0))
                self.addCleanup(one.close)
                flood.append(one)
            gateway.process.send_signal(signal.SIGSTOP)  # so that all have said it before it is read
            for one in flood:
                one.sendall(hello)
            plain = socket.create_connection(("127.0.0.1", port_of(gateway, "mqtts")), timeout=10)
            plain.setblocking(False)
            stream = self.context().wrap_socket(plain, server_hostname="localhost", do_handshake_on_connect=False)
            self.addCleanup(stream.close)
            with self.assertRaises(ssl.SSLWantReadError):
                stream.do_handshake()
            gateway.process.send_signal(signal.SIGCONT)
            stream.settimeout(10)
            stream.do_handshake()
            self.log_in(stream)
            answered = sum(bool(select.select([one], [], [], 0)[0]) for one in flood)
            self.assertLess(answered, 750)  # of 1000, were it the last one

    def test_who_ends_tls_and_then_breaks_off_leaves_the_others_alone(self):
        # What is still to be written to it fails as the end of TLS, which must not pass for progress.
        with self.gateway("--shards", "1") as gateway:
            for _ in range(20):
                plain = socket.create_connection(("127.0.0.1", port_of(gateway, "mqtts")), timeout=10)
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
                stream = self.context().wrap_bio(received, sent, server_hostname="localhost")

                def exchange(step):
                    while True:
                        try:
                            done = step()
                            plain.sendall(sent.read())
                            return done
                        except ssl.SSLWantReadError:
                            plain.sendall(sent.read())
                            received.write(plain.recv(65536))

                exchange(stream.do_handshake)
                exchange(lambda: stream.write(packets.connect(5, "rude", clean=True)))
                exchange(lambda: stream.read(100))
                exchange(lambda: stream.write(packets.subscribe(5, 1, [("flood", 0)])))
                exchange(lambda: stream.read(100))
                gateway.process.send_signal(signal.SIGSTOP)  # so that it finds all of this at once
                stream.write(packets.publish(5, "flood", b"to itself"))
                with self.assertRaises(ssl.SSLWantReadError):
                    stream.unwrap()
                plain.sendall(sent.read())
                plain.close()
                gateway.process.send_signal(signal.SIGCONT)
            self.assertEqual(gateway.get("/healthz")[0], 200)

    def test_a_key_that_everybody_may_read_or_that_is_missing_stops_the_start(self):
        certificate, key = self.authority.issue("open")
        os.chmod(key, 0o644)
        for arguments, words in (([certificate, key], "tls-key: .* may be read by everybody; say chmod"),
                                 ([certificate, "/none"], "tls-key: /none: "),
                                 (["/none", key], "tls-cert: /none: "),
                                 ([self.second[0], self.first[1]], "tls-key: .*key values mismatch")):
            with self.subTest(arguments=arguments):
                gateway = self.gateway(certificates=[arguments])
                with self.assertRaises(AssertionError):
                    gateway.start()
                self.assertRegex(gateway.log, words)
                self.assertEqual(gateway.process.returncode, 1)
                gateway.folder.cleanup()

    def test_mosquitto_comes_in(self):
        with self.gateway() as gateway:
            port = str(port_of(gateway, "mqtts"))
            mosquitto = ["-h", "localhost", "-p", port, "--cafile", self.authority.ca, "-t", "x", "-q", "2"]
            listener = subprocess.Popen(["mosquitto_sub", *mosquitto, "-C", "1", "-W", "20"], stdout=subprocess.PIPE)
            wait_until(lambda: gateway.metric("pulsegate_subscriptions") == 1)
            subprocess.run(["mosquitto_pub", *mosquitto, "-m", "hello"], check=True, timeout=20)
            self.assertEqual(listener.communicate(timeout=20)[0], b"hello\n")

    def test_openssl_is_shown_the_certificate_of_the_name_it_asks_for(self):
        with self.gateway(certificates=[self.first, self.second]) as gateway:
            for version in ("1.2", "1.3"):
                for name, owner in (("other.example", "other"), ("localhost", "localhost"), ("unknown", "localhost")):
                    with self.subTest(version=version, name=name):
                        told = self.s_client(gateway, f"-tls{version.replace('.', '_')}", "-servername", name, "-alpn",
                                             "other,mqtt")
                        self.assertIn(f"subject=CN = {owner}\n", told)
                        self.assertIn("Verify return code: 0 (ok)", told)
                        self.assertIn(f"New, TLSv{version}, ", told)
                        self.assertIn("ALPN protocol: mqtt\n", told)

    def test_renegotiation_is_refused(self):
        with self.gateway() as gateway:
            told = self.s_client(gateway, "-tls1_2", command="R\n")
            self.assertIn("RENEGOTIATING", told)
            self.assertIn("no renegotiation", told)
            self.log_in(self.connect(gateway))

    def s_client(self, gateway, *options, command=""):
        """What openssl says; after a command it stays until the connection ends."""
        client = subprocess.Popen(["openssl", "s_client", "-connect", f"127.0.0.1:{port_of(gateway, 'mqtts')}", "-CAfile",
                                   self.authority.ca, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True)
        with client:
            if command:
                client.stdin.write(command)
                client.stdin.flush()
                client.wait(20)
            return client.communicate(timeout=20)[0]


def frame(payload, opcode=2, fin=True, mask=b"\x01\x02\x03\x04"):
    head = bytes([(0x80 if fin else 0) | opcode])
    size = len(payload)
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 65536:
        head += bytes([0x80 | 126]) + struct.pack(">H", size)
    else:
        head += bytes([0x80 | 127]) + struct.pack(">Q", size)
    return head + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload))


class WebSocket:
    """A raw client of RFC 6455."""

    def __init__(self, port, path="/mqtt", **headers):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        fields = {"Host": "x", "Upgrade": "websocket", "Connection": "keep-alive, Upgrade", "Sec-WebSocket-Key": KEY,
                  "Sec-WebSocket-Version": "13", "Sec-WebSocket-Protocol": "mqttv3.1, mqtt"}
        fields.update({name.replace("_", "-"): value for name, value in headers.items()})
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value is not None)
        self.socket.sendall(f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode())
        self.answer = b""
        while b"\r\n\r\n" not in self.answer:
            more = self.socket.recv(1)
            if not more:
                break
            self.answer += more

    def send(self, *frames):
        self.socket.sendall(b"".join(frames))

    def next(self):
        """Opcode and payload of the next frame, or None at the end."""
        head = receive(self.socket, 2)
        if len(head) < 2:
            return None
        size = head[1]
        if size == 126:
            size, = struct.unpack(">H", receive(self.socket, 2))
        elif size == 127:
            size, = struct.unpack(">Q", receive(self.socket, 8))
        return head[0] & 15, receive(self.socket, size)

    def log_in(self, name=b"w"):
        self.send(frame(CONNECT % name))
        assert self.next() == (2, CONNACK)
        return self


class WebSocketTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.gateway = cls.enterClassContext(Gateway("--listen", "ws://127.0.0.1:0")) \
            if hasattr(cls, "enterClassContext") else Gateway("--listen", "ws://127.0.0.1:0").start()
        if not hasattr(cls, "enterClassContext"):
            cls.addClassCleanup(cls.gateway.__exit__, None, None, None)
        cls.port = port_of(cls.gateway, "ws")

    def client(self, *arguments, **headers):
        client = WebSocket(self.port, *arguments, **headers)
        self.addCleanup(client.socket.close)
        return client

    def test_the_upgrade_is_answered_as_rfc_6455_says(self):
        answer = self.client().answer.decode()
        accept = base64.b64encode(hashlib.sha1((KEY + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
        self.assertTrue(answer.startswith("HTTP/1.1 101 "))
        self.assertIn(f"Sec-WebSocket-Accept: {accept}\r\n", answer)
        self.assertIn("Sec-WebSocket-Protocol: mqtt\r\n", answer)

    def test_mqtt_3_1_has_a_sub_protocol_of_its_own(self):
        client = self.client(Sec_WebSocket_Protocol="mqttv3.1")
        self.assertIn(b"Sec-WebSocket-Protocol: mqttv3.1\r\n", client.answer)
        client.send(frame(b"\x10\x0f\x00\x06MQIsdp\x03\x02\x00\x0a\x00\x01o"))
        self.assertEqual(client.next(), (2, CONNACK))

    def test_packets_may_span_frames_and_frames_hold_packets(self):
        client = self.client().log_in()
        client.send(frame(b"\x82\x06\x00"), frame(b"\x01\x00\x01x"), frame(b"\x00" + PING + PING))
        self.assertEqual([client.next() for _ in range(3)], [(2, b"\x90\x03\x00\x01\x00"), (2, PONG), (2, PONG)])
        message = b"\x30\xc3\x13\x00\x01x" + b"m" * 2496
        client.send(*(frame(message[i:i + 1], 2 if i == 0 else 0, i + 1 == len(message)) for i in range(len(message))))
        self.assertEqual(client.next(), (2, message))

    def test_pings_are_answered_in_the_middle_of_a_message(self):
        client = self.client().log_in()
        client.send(frame(PING[:1], 2, False), frame(b"are you there?", 9), frame(b"", 10), frame(PING[1:], 0))
        self.assertEqual(client.next(), (10, b"are you there?"))
        self.assertEqual(client.next(), (2, PONG))

    def test_a_close_is_answered_after_what_came_before_it(self):
        client = self.client().log_in()
        client.send(frame(PING), frame(struct.pack(">H", 1000) + b"bye", 8))
        self.assertEqual(client.next(), (2, PONG))
        opcode, body = client.next()
        self.assertEqual((opcode, body[:2]), (8, struct.pack(">H", 1000)))
        self.assertIsNone(client.next())

    def test_who_closes_makes_room_at_once(self):
        room = self.gateway.metric("pulsegate_open_files_headroom")
        started = time.monotonic()
        for _ in range(10):
            client = self.client().log_in()
            client.send(frame(struct.pack(">H", 1001), 8))
            self.assertEqual(client.next()[0], 8)
            client.socket.close()
            wait_until(lambda: self.gateway.metric("pulsegate_open_files_headroom") >= room, what="room")
        self.assertLess(time.monotonic() - started, 15)  # twice as long, if each stayed for its linger

    def test_who_disconnects_is_sent_a_close(self):
        client = self.client().log_in()
        client.send(frame(b"\xe0\x00"))
        self.assertEqual(client.next(), (8, struct.pack(">H", 1000)))
        self.assertIsNone(client.next())

    def test_what_is_wrong_gets_its_close_code(self):
        wrong = {1002: [b"\x82\x02\xc0\x00", frame(b"x", 3), frame(b"x", 9, False), frame(b"x", 0),
                        b"\xc2\x80\x00\x00\x00\x00", frame(b"x" * 126, 9)],
                 1003: [frame(b"text", 1)]}
        for code, frames in wrong.items():
            for bad in frames:
                with self.subTest(bad=bad[:8].hex()):
                    client = self.client().log_in()
                    client.send(bad)
                    opcode, body = client.next()
                    self.assertEqual((opcode, struct.unpack(">H", body[:2])[0]), (8, code))

    def test_a_bad_upgrade_is_refused_in_http_with_json(self):
        for status, arguments, headers in ((404, ["/other"], {}), (426, [], {"Upgrade": None}),
                                           (426, [], {"Sec_WebSocket_Version": "8"}),
                                           (400, [], {"Sec_WebSocket_Key": "short"}),
                                           (400, [], {"Sec_WebSocket_Protocol": "chat"}),
                                           (400, [], {"Sec_WebSocket_Protocol": None}),
                                           (431, [], {"X_Bomb": "x" * 9000})):
            with self.subTest(status=status, headers=headers):
                client = self.client(*arguments, **headers)
                self.assertTrue(client.answer.startswith(f"HTTP/1.1 {status} ".encode()), client.answer[:40])
                if status == 426:
                    for field in (b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Version: 13"):
                        self.assertIn(b"\r\n" + field + b"\r\n", client.answer)
                body = b""
                while more := client.socket.recv(1000):
                    body += more
                self.assertIn("error", json.loads(body))

    def test_a_web_page_of_another_host_is_refused(self):
        chat = ("--websocket-origin", "https://chat.example")
        for origin, arguments, status in (("https://evil.example", (), 403), ("null", (), 403),
                                          ("http://127.0.0.1:3000", (), 101), (None, (), 101),
                                          ("https://chat.example", chat, 101), ("http://127.0.0.1:3000", chat, 403),
                                          ("https://evil.example", ("--websocket-origin", "*"), 101)):
            with self.subTest(origin=origin, arguments=arguments), \
                    Gateway("--listen", "ws://127.0.0.1:0", *arguments) as gateway:
                port = port_of(gateway, "ws")
                client = WebSocket(port, Host=f"127.0.0.1:{port}", Origin=origin)
                self.addCleanup(client.socket.close)
                self.assertTrue(client.answer.startswith(f"HTTP/1.1 {status} ".encode()), client.answer[:40])
                if status == 403:
                    wait_until(lambda: "websocket-origin" in gateway.log, what="a line in the log")

    def test_a_page_whose_name_was_made_to_lead_here_is_refused_where_anybody_may_log_in(self):
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="pulsegate-users-"))
        users = add_users(Path(folder) / "users", alice="secret")
        for arguments, status in (((), 403), (("--websocket-origin", "http://evil.example"), 101),
                                  (("--password-file", users), 101)):
            with self.subTest(arguments=arguments), Gateway("--listen", "ws://127.0.0.1:0", *arguments) as gateway:
                client = WebSocket(port_of(gateway, "ws"), Host="evil.example:8083", Origin="http://evil.example")
                self.addCleanup(client.socket.close)
                self.assertTrue(client.answer.startswith(f"HTTP/1.1 {status} ".encode()), client.answer[:40])

    def test_an_upgrade_may_come_byte_by_byte_and_with_the_first_packets(self):
        request = (f"GET /mqtt?token=1 HTTP/1.1\r\nHost: x\r\nUpgrade: WebSocket\r\nConnection: upgrade\r\n"
                   f"Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n")
        stream = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        self.addCleanup(stream.close)
        for byte in request[:-1].encode():
            stream.sendall(bytes([byte]))
        stream.sendall(request[-1:].encode() + frame(CONNECT % b"e") + frame(PING))
        answer = b""
        while not answer.endswith(b"\x82\x02" + PONG):
            more = stream.recv(1000)
            self.assertTrue(more, answer)
            answer += more
        self.assertIn(b"\r\n\r\n\x82\x04" + CONNACK, answer)

    def test_a_close_right_behind_connect_is_heard_wherever_the_user_lives(self):
        with Gateway("--listen", "ws://127.0.0.1:0", "--shards", "4", events=True) as gateway:
            port = port_of(gateway, "ws")
            names = [b"%c" % (ord("a") + i) for i in range(20)]
            for name in names:
                client = WebSocket(port)
                self.addCleanup(client.socket.close)
                client.send(frame(CONNECT % name) + frame(b"\x30\x05\x00\x01xhi") + frame(struct.pack(">H", 1000), 8))
                self.assertEqual(client.next(), (2, CONNACK))
                self.assertEqual(client.next(), (8, struct.pack(">H", 1000)))
            wait_until(lambda: len(gateway.events()) == 2 * len(names), what="everybody offline")
            self.assertEqual(gateway.metric("pulsegate_packets_received_total", type="publish"), len(names))

    def test_a_disconnect_between_connect_and_close_is_heard_too(self):
        with Gateway("--listen", "ws://127.0.0.1:0", "--shards", "4", events=True) as gateway:
            for name in (b"%c" % (ord("a") + i) for i in range(10)):
                client = WebSocket(port_of(gateway, "ws"))
                self.addCleanup(client.socket.close)
                client.send(frame(CONNECT % name) + frame(b"\xe0\x00") + frame(b"", 8))
                self.assertEqual(client.next(), (2, CONNACK))
                wait_until(lambda: [event["cause"] for event in gateway.events(name.decode())] == ["login", "logout"],
                           what="the logout")

    def test_what_comes_in_one_tls_record_with_the_upgrade_is_read_at_once(self):
        authority = Certificates()
        self.addCleanup(authority.folder.cleanup)
        certificate, key = authority.issue("localhost")
        context = ssl.create_default_context(cafile=authority.ca)
        upgrade = (f"GET /mqtt HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                   f"Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n")
        connect = b"\x00\x04MQTT\x04\x06\x00\x0a\x00\x01p" + b"\x00\x01w" + struct.pack(">H", 12_000) + bytes(12_000)
        packet = b"\x10" + bytes([len(connect) % 128 | 0x80, len(connect) // 128]) + connect
        with Gateway("--listen", "wss://127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key) as gateway:
            plain = socket.create_connection(("127.0.0.1", port_of(gateway, "wss")), timeout=5)
            with context.wrap_socket(plain, server_hostname="localhost") as stream:
                stream.sendall(upgrade.encode() + frame(packet))  # one record: less than 16 KiB
                answer = b""
                while not answer.endswith(b"\x82\x04" + CONNACK):
                    more = stream.recv(1000)
                    self.assertTrue(more, answer)
                    answer += more

    def test_a_flood_of_tiny_fragments_harms_nobody(self):
        client = self.client().log_in(b"f")
        client.send(frame(b"\x30\xff\xff\x03", 2, False), *[frame(b"x", 0, False)] * 60_000)
        other = self.client().log_in(b"g")
        other.send(frame(PING))
        self.assertEqual(other.next(), (2, PONG))


def curl(*arguments):
    """Status, type and body of what curl is answered."""
    done = subprocess.run(["curl", "-sS", "-m", "10", "-w", "\n%{http_code} %{content_type}", *arguments],
                          capture_output=True, text=True, timeout=20)
    body, _, about = done.stdout.rpartition("\n")
    status, kind = about.split(" ", 1)
    return int(status), kind, body


class CurlTest(unittest.TestCase):
    def test_who_is_no_websocket_client_is_told_so_and_takes_one_line_of_the_log(self):
        with Gateway("--listen", "ws://127.0.0.1:0") as gateway:
            url = f"http://127.0.0.1:{port_of(gateway, 'ws')}"
            requests = [[], ["-H", "Connection: Upgrade"], ["-H", "Connection: Upgrade", "-H", "Upgrade: websocket"],
                        ["--http1.0"], ["--http2"], ["-d", "a body"], ["-X", "OPTIONS"]]
            for options in requests:
                with self.subTest(options=options):
                    status, kind, body = curl(*options, url + "/mqtt")
                    self.assertEqual((status, kind, list(json.loads(body))), (426, "application/json", ["error"]))
            self.assertEqual(curl(url)[0], 404)
            gateway.stop()
            self.assertEqual(gateway.log.count("warning"), len(requests) + 1, gateway.log)

    def test_wss_is_https_to_curl(self):
        authority = Certificates()
        self.addCleanup(authority.folder.cleanup)
        certificate, key = authority.issue("localhost")
        with Gateway("--listen", "wss://127.0.0.1:0/chat", "--tls-cert", certificate, "--tls-key", key) as gateway:
            url = f"https://localhost:{port_of(gateway, 'wss')}/chat"
            self.assertEqual(curl("--cacert", authority.ca, url)[:2], (426, "application/json"))

    def test_the_admin_api_answers_curl(self):
        with Gateway() as gateway:
            gateway.connect("alice-phone", username="alice")
            url = f"http://127.0.0.1:{gateway.http_port}"
            status, kind, body = curl(url + "/api/v1/users/alice")
            self.assertEqual((status, kind, json.loads(body)["state"]), (200, "application/json", "online"))
            self.assertEqual(curl(url + "/api/v1/users/nobody")[:2], (404, "application/json"))
            self.assertEqual(curl("-X", "DELETE", url + "/healthz")[:2], (405, "application/json"))
            self.assertEqual(curl("-I", url + "/healthz")[0], 200)
            two = subprocess.run(["curl", "-sS", "-w", "%{num_connects} ", "-o", "/dev/null", "-o", "/dev/null",
                                  url + "/healthz", url + "/metrics"], capture_output=True, text=True, timeout=20)
            self.assertEqual(two.stdout, "1 0 ")  # the second on the first one's connection


class MqttJsTest(unittest.TestCase):
    def test_mqtt_js_chats_and_comes_back_over_ws_wss_and_mqtts(self):
        authority = Certificates()
        self.addCleanup(authority.folder.cleanup)
        certificate, key = authority.issue("localhost")
        users = add_users(authority.path / "users", fleet="right")
        with Gateway("--listen", "ws://127.0.0.1:0", "--listen", "wss://127.0.0.1:0/chat", "--listen",
                     "mqtts://127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key, "--password-file",
                     users) as gateway:
            for scheme, path in (("ws", "/mqtt"), ("wss", "/chat"), ("mqtts", "")):
                for version in (4, 5):
                    with self.subTest(scheme=scheme, version=version):
                        url = f"{scheme}://localhost:{port_of(gateway, scheme)}{path}"
                        seen = chat_with_mqtt_js(url, version, "fleet", "right", authority.ca)
                        self.assertEqual(seen["granted"], [2])
                        self.assertEqual(seen["heard"], [["room/0", 100_000, 0], ["room/1", 100_000, 1],
                                                         ["room/2", 100_000, 2], ["room/back", 7, 2]])
                        self.assertEqual(seen.get("told"), 0x95 if version == 5 else None)
                        self.assertEqual((seen["session_at_first"], seen["session_when_back"]), (False, True))


class ProxyTest(unittest.TestCase):
    def connect(self, gateway, header, pieces=False):
        stream = socket.create_connection(("127.0.0.1", int(re.search(r":(\d+)\?proxy-protocol", gateway.log)[1])),
                                          timeout=10)
        self.addCleanup(stream.close)
        data = header + CONNECT % b"p"
        for piece in ([bytes([byte]) for byte in data] if pieces else [data]):
            stream.sendall(piece)
        return stream

    V2 = b"\r\n\r\n\x00\r\nQUIT\n"

    def test_the_clients_address_is_what_the_proxy_says(self):
        headers = {
            "203.0.113.9:4711": b"PROXY TCP4 203.0.113.9 127.0.0.1 4711 1883\r\n",
            "[2001:db8::1]:4712": b"PROXY TCP6 2001:db8::1 ::1 4712 1883\r\n",
            "198.51.100.7:4713": self.V2 + b"\x21\x11\x00\x0c" + bytes([198, 51, 100, 7, 127, 0, 0, 1]) +
                                 struct.pack(">HH", 4713, 1883),
        }
        with Gateway("--allow-anonymous", "--listen", "mqtt://127.0.0.1:0?proxy-protocol", "--log-level", "debug") as gateway:
            for address, header in headers.items():
                for pieces in (False, True):
                    with self.subTest(address=address, pieces=pieces):
                        stream = self.connect(gateway, header, pieces)
                        self.assertEqual(receive(stream, 4), CONNACK)
                        gateway.wait_for_log(re.escape(address) + " client 'p' of user 'p': login")

    def test_a_proxy_that_speaks_for_itself_has_its_own_address(self):
        with Gateway("--allow-anonymous", "--listen", "mqtt://127.0.0.1:0?proxy-protocol", "--log-level", "debug") as gateway:
            for header in (b"PROXY UNKNOWN\r\n", self.V2 + b"\x20\x00\x00\x00"):
                self.assertEqual(receive(self.connect(gateway, header), 4), CONNACK)
            gateway.wait_for_log(r"127\.0\.0\.1:\d+ client 'p'")

    def test_a_client_without_an_address_falls_under_the_limits_of_its_proxy(self):
        of_no_family = self.V2 + b"\x21\x00\x00\x00"
        with Gateway("--allow-anonymous", "--listen", "mqtt://127.0.0.1:0?proxy-protocol",
                     "--max-connections-per-address", 1) as gateway:
            first = self.connect(gateway, b"PROXY UNKNOWN\r\n")
            self.assertEqual(receive(first, 4), CONNACK)
            for header in (b"PROXY UNKNOWN\r\n", of_no_family):
                self.assertEqual(receive(self.connect(gateway, header), 4), b"\x20\x02\x00\x03")
            known = self.connect(gateway, b"PROXY TCP4 203.0.113.9 127.0.0.1 4711 1883\r\n")
            self.assertEqual(receive(known, 4), CONNACK)

    def test_who_brings_no_header_is_turned_away(self):
        with Gateway("--allow-anonymous", "--listen", "mqtt://127.0.0.1:0?proxy-protocol") as gateway:
            for header in (b"", b"PROXY TCP4 nonsense\r\n", self.V2 + b"\x31\x11\x00\x00"):
                self.assertEqual(receive(self.connect(gateway, header), 1), b"")
            wait_until(lambda: gateway.metric("pulsegate_handshakes_refused_total") == 3)

    def test_the_header_comes_before_tls(self):
        authority = Certificates()
        self.addCleanup(authority.folder.cleanup)
        certificate, key = authority.issue("localhost")
        with Gateway("--listen", "mqtts://127.0.0.1:0?proxy-protocol", "--tls-cert", certificate, "--tls-key", key,
                     "--allow-anonymous", "--log-level", "debug") as gateway:
            plain = socket.create_connection(("127.0.0.1", port_of(gateway, "mqtts")), timeout=10)
            plain.sendall(b"PROXY TCP4 203.0.113.9 127.0.0.1 4711 8883\r\n")
            stream = ssl.create_default_context(cafile=authority.ca).wrap_socket(plain, server_hostname="localhost")
            self.addCleanup(stream.close)
            stream.sendall(CONNECT % b"p")
            self.assertEqual(receive(stream, 4), CONNACK)
            gateway.wait_for_log(r"203\.0\.113\.9:4711 client 'p'")


if __name__ == "__main__":
    unittest.main()
