"""Attempts to bring the gateway down: floods, bytes one by one, broken handshakes and frames, storms."""

import signal
import socket
import ssl
import struct
import subprocess
import threading
import unittest

import packets
from abuse_test import Bystander, read_to_the_end
from certificates import Certificates
from credentials import Folder
from gateway import PINGREQ, REPORT, Client, port_of, wait_until
from hook_backend import Backend
from limits_test import BANNED, Scene
from streams import KEY, WebSocket, frame, reset

WRONG = 0x86


class FloodTest(Scene):
    def test_a_client_that_floods_can_be_taken_over(self):
        gateway = self.gateway("--max-message-rate", 100)
        flooder = self.login(gateway, "flooder")
        flooder.send(PINGREQ * 1000)
        gateway.wait_for_log("slowed: it sends more than max-message-rate")
        successor = self.login(gateway, "flooder")
        self.assertEqual(flooder.receive_until_closed()[-1][1][0], 0x8E)
        flooder.close()
        wait_until(lambda: gateway.metric("pulsegate_connections") == 1, what="the end of the flooder")
        successor.ping()

    def test_the_end_of_the_gateway_ends_a_flood(self):
        gateway = self.gateway("--max-message-rate", 100)
        flooder = self.login(gateway, "flooder")
        flooder.send(PINGREQ * 10_000)  # for 100 s
        gateway.wait_for_log("slowed: it sends more than max-message-rate")
        gateway.stop()
        self.assertEqual(flooder.receive_until_closed()[-1][1][0], 0x8B)


class SlowTest(Scene, Folder):
    """Many new clients that are slow, at the same time."""

    CROWD = 100

    def dribble(self, gateway, port, data):
        """Each sends this byte by byte, all at the same time; then some are reset, and some say nothing more."""
        with Bystander(gateway):
            crowd = [socket.create_connection(("127.0.0.1", port), 60) for _ in range(self.CROWD)]
            for byte in data:
                for stream in crowd:
                    stream.sendall(bytes([byte]))
            wait_until(lambda: gateway.metric("pulsegate_connections") == 1 + self.CROWD, what="the crowd")
            for number, stream in enumerate(crowd):
                reset(stream) if number % 2 else stream.close()
            wait_until(lambda: gateway.metric("pulsegate_connections") == 1, what="the end of the crowd")
        self.assertEqual(gateway.metric("pulsegate_logins_total"), 1)

    def test_connect_byte_by_byte(self):
        gateway = self.gateway()
        self.dribble(gateway, gateway.port, packets.connect(5, "slow", username="u" * 60)[:-1])

    def test_a_proxy_header_byte_by_byte(self):
        gateway = self.gateway("--allow-anonymous", "--listen", "ws://127.0.0.1:0?proxy-protocol")
        self.dribble(gateway, port_of(gateway, "ws"), b"PROXY TCP6 2001:db8::1 2001:db8::2 65535 65535")

    def test_an_upgrade_byte_by_byte(self):
        gateway = self.gateway("--listen", "ws://127.0.0.1:0")
        self.dribble(gateway, port_of(gateway, "ws"),
                     f"GET /mqtt HTTP/1.1\r\nHost: x\r\nSec-WebSocket-Key: {KEY}\r\n\r".encode())


class TlsTest(Scene):
    @classmethod
    def setUpClass(cls):
        cls.authority = Certificates()
        cls.addClassCleanup(cls.authority.folder.cleanup)
        cls.certificate, cls.key = cls.authority.issue("localhost")

    def secured(self, *arguments):
        return self.gateway("--listen", "mqtts://127.0.0.1:0", "--tls-cert", self.certificate, "--tls-key", self.key,
                            *arguments)

    def hello(self):
        """What a client says first."""
        said = ssl.MemoryBIO()
        context = ssl.create_default_context(cafile=self.authority.ca)
        client = context.wrap_bio(ssl.MemoryBIO(), said, server_hostname="localhost")
        with self.assertRaises(ssl.SSLWantReadError):
            client.do_handshake()
        return said.read()

    def test_a_hello_byte_by_byte(self):
        gateway = self.secured()
        SlowTest.dribble(self, gateway, port_of(gateway, "mqtts"), self.hello()[:100])

    CROWD = 100

    def test_what_is_no_handshake_is_turned_away(self):
        gateway = self.secured()
        port = port_of(gateway, "mqtts")
        hello = self.hello()

        def record(kind, body):
            return bytes([kind, 3, 3]) + struct.pack(">H", len(body)) + body

        noise = [record(22, b"\x0b\xff\xff\xff" + bytes(16_000)) + record(22, bytes(16_000)) * 10,  # a huge certificate
                 hello + record(22, b"\x0b\x00\xff\xff" + bytes(16_000)) * 5, hello + hello, hello[:50] + bytes(2000),
                 record(22, b"\x01\x00\xff\xff\x03\x03") + bytes(100), record(22, b""), record(22, b"") * 100,
                 record(23, b"x" * 100), record(21, b"\x02\x28"), record(24, b"\x01\xff\xff"), record(20, b"\x01") * 1000,
                 b"\x16\x03\x01\xff\xff" + bytes(70_000), b"\x80\x2e\x01\x00\x02" + bytes(100)]
        with Bystander(gateway):
            for each in noise * 10:
                with self.subTest(each=each[:20]), socket.create_connection(("127.0.0.1", port), 60) as stream:
                    try:
                        stream.sendall(each)
                        stream.shutdown(socket.SHUT_WR)
                    except OSError:
                        pass  # it did not wait for the end
                    read_to_the_end(stream)
        wait_until(lambda: gateway.metric("pulsegate_connections") == 1, what="the end of all noise")

    def test_old_tls_and_renegotiation_are_refused(self):
        gateway = self.secured()
        address = f"127.0.0.1:{port_of(gateway, 'mqtts')}"

        def s_client(*options, typed=b""):
            done = subprocess.run(["openssl", "s_client", "-connect", address, *options], input=typed, capture_output=True,
                                  timeout=60)
            return (done.stdout + done.stderr).decode(errors="replace")

        for old in ("-tls1", "-tls1_1"):
            self.assertIn("Cipher is (NONE)", s_client(old, "-cipher", "ALL:@SECLEVEL=0"))
        self.assertIn("no renegotiation", s_client("-tls1_2", typed=b"R\n"))


class WebSocketTest(Scene):
    def test_absurd_lengths_end_the_connection(self):
        gateway = self.gateway("--listen", "ws://127.0.0.1:0")
        for head in (b"\x82\xff\x80" + bytes(7), b"\x82\xff" + b"\xff" * 8, b"\x82\xff" + bytes(7) + b"\x01",
                     b"\x82\xfe\x00\x01", b"\x89\xff" + bytes(7) + b"\x7e"):
            with self.subTest(head=head):
                client = WebSocket(port_of(gateway, "ws"))
                self.addCleanup(client.socket.close)
                client.log_in()
                client.send(head + b"\x01\x02\x03\x04x")
                opcode, body = client.next()
                self.assertEqual((opcode, struct.unpack(">H", body[:2])[0]), (8, 1002))
        # This one is long and right; but no packet is.
        client = WebSocket(port_of(gateway, "ws"))
        self.addCleanup(client.socket.close)
        client.log_in()
        client.send(b"\x82\xff\x7f" + b"\xff" * 7 + bytes(4) + b"\x30\xff\xff\xff\x7f")
        self.assertEqual(client.next()[0], 8)

    def test_pongs_do_not_wait_for_a_client_that_has_not_logged_in(self):
        gateway = self.gateway("--listen", "ws://127.0.0.1:0", "--login-timeout", "60s")
        client = WebSocket(port_of(gateway, "ws"))
        self.addCleanup(client.socket.close)
        flood = frame(b"x" * 125, 9) * 1000
        with self.assertRaises(OSError):
            while True:
                client.socket.sendall(flood)
        gateway.wait_for_log("it has not logged in and does not read")

    def test_floods_of_control_frames_keep_nobody_waiting_and_nobody_alive(self):
        gateway = self.gateway("--listen", "ws://127.0.0.1:0", "--shards", 1)
        for opcode in (9, 10):
            client = WebSocket(port_of(gateway, "ws"))
            self.addCleanup(client.socket.close)
            client.send(frame(packets.connect(4, f"flooder{opcode}", keepalive=1)))
            client.next()
            with Bystander(gateway):
                flood = frame(b"x", opcode) * 20_000
                with self.assertRaises(OSError):
                    while True:
                        client.socket.sendall(flood)
            gateway.wait_for_log(f"client 'flooder{opcode}' of user '[^']*': (timeout|kicked)")


class StormTest(Scene, Folder):
    """Many at once, and all gone at once."""

    def test_guesses_ban_only_the_guessing_address(self):
        users = self.password_file(alice="right")
        gateway = self.gateway("--password-file", users, "--ban-failures", 10, "--ban-time", "1h")
        codes = [self.code(self.ask(gateway, f"c{i}", source=f"127.0.1.{i % 20 + 1}", username="alice",
                                    password=f"wrong {i}")) for i in range(600)]
        self.assertEqual((codes.count(WRONG), codes.count(BANNED)), (200, 400))
        self.assertEqual(len(gateway.get_json("/api/v1/bans")[1]["bans"]), 20)
        self.login(gateway, "alice", username="alice", password="right")

    def test_a_client_that_is_reset_at_any_step_leaves_nothing(self):
        backend = Backend(lambda question: {"allow": question["password"] == "right"})
        self.addCleanup(backend.stop)
        gateway = self.gateway("--auth-hook", backend.url, "--auth-hook-cache", 0, "--auth-hook-timeout", "60s",
                               "--auth-hook-connections", 64, "--login-rate", 500, "--login-wait", "30s",
                               "--login-timeout", "60s", "--duel-takeovers", 1, "--ban-failures", 0, "--ban-flaps", 0)
        holders = [self.login(gateway, f"twin{i}", username="u", password="right") for i in range(20)]
        backend.gate.clear()
        crowd = [self.open(gateway) for _ in range(100)]  # that says nothing
        crowd += [self.ask(gateway, f"wrong{i}", username="v", password="wrong") for i in range(50)]
        crowd += [self.ask(gateway, f"right{i}", username=f"ghost{i}", password="right") for i in range(300)]
        crowd += [self.ask(gateway, f"twin{i % 20}", username="u", password="right") for i in range(100)]
        wait_until(lambda: len(backend.questions) > 40, what="questions")
        for number, client in enumerate(crowd):
            if number % 3:
                reset(client.socket)
        backend.gate.set()
        for client in crowd:
            client.close()
        wait_until(lambda: gateway.metric("pulsegate_logins_waiting") == 0, 60, "the end of the queue")
        wait_until(lambda: gateway.metric("pulsegate_connections") <= 20, 60, "the end of the crowd")
        for holder in holders:
            holder.close()
        wait_until(lambda: gateway.metric("pulsegate_connections") == 0, what="the end")
        self.assertEqual(gateway.metric("pulsegate_users_online"), 0)
        self.login(gateway, "afterwards", username="w", password="right").ping()

    def test_takeovers_at_full_speed_leave_one_client_each(self):
        gateway = self.gateway("--duel-takeovers", 0, "--ban-flaps", 0, "--max-connections-per-user", 100)

        def duel(seed):
            for i in range(300):
                client = Client(gateway.port)
                client.send(packets.connect(4 + i % 2, f"twin{(i * seed) % 50}", username="u") + PINGREQ * (i % 3))
                reset(client.socket) if i % 2 else client.close()

        with Bystander(gateway):
            threads = [threading.Thread(target=duel, args=(seed,)) for seed in (1, 3, 7, 11)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            wait_until(lambda: gateway.metric("pulsegate_connections") == 1, 60, "the end of all duels")
        self.assertEqual(gateway.get_json("/api/v1/users/u")[1]["state"], "offline")

    def test_signals_during_a_flood_are_obeyed(self):
        users = self.password_file(alice="right")
        gateway = self.gateway("--password-file", users, "--allow-anonymous", "--max-message-rate", 50, "--login-rate", 100,
                               "--duel-takeovers", 1, "--ban-flaps", 0, "--ban-failures", 0)
        enough = threading.Event()

        def attack(kind):
            number = 0
            while not enough.is_set():
                number += 1
                guess = {"username": "alice", "password": "wrong"} if kind == "guess" else {}
                try:
                    with Client(gateway.port) as client:
                        client.send(packets.connect(4, f"{kind}{number % 10}", **guess) + PINGREQ * (number % 7 * 100))
                        if number % 3:
                            client.receive()
                        reset(client.socket)
                except OSError:
                    return  # the gateway has gone, as it should

        threads = [threading.Thread(target=attack, args=(kind,)) for kind in ("guess", "flood", "twin", "twin")]
        for thread in threads:
            thread.start()
        try:
            for count in range(1, 21):
                gateway.process.send_signal(signal.SIGHUP)
                wait_until(lambda: gateway.log.count("rules reloaded") >= count, what="an answer to SIGHUP")
            gateway.wait_for_log("slowed: ")
            gateway.stop()
        finally:
            enough.set()
            for thread in threads:
                thread.join(60)
        self.assertNotRegex(gateway.log, REPORT)


if __name__ == "__main__":
    unittest.main()
