"""What is kept of a TLS client, `tls-idle`, and the tests of TLS in the mode that is not the default one. tls_peers_test has
other people's clients in both modes."""

import os
import re
import resource
import socket
import ssl
import unittest

import packets
import proxy_test
import tls_test
import websocket_test
from certificates import Certificates
from gateway import PATIENCE, Gateway, port_of, wait_until
from streams import CONNACK, CONNECT, PING, PONG, receive

MODES = ("small", "openssl")
OTHER_MODE = "openssl"


class TlsIdleTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.authority = Certificates()
        cls.addClassCleanup(cls.authority.folder.cleanup)
        cls.certificate = cls.authority.issue("localhost")

    def gateway(self, mode, *arguments):
        return Gateway("--listen", "mqtts://127.0.0.1:0", "--tls-cert", self.certificate[0], "--tls-key",
                       self.certificate[1], "--tls-idle", mode, *arguments)

    def connect(self, gateway, version=ssl.TLSVersion.TLSv1_3, context=None, **options):
        context = context or ssl.create_default_context(cafile=self.authority.ca)
        context.minimum_version = context.maximum_version = version
        plain = socket.create_connection(("127.0.0.1", port_of(gateway, "mqtts")), timeout=PATIENCE)
        stream = context.wrap_socket(plain, server_hostname="localhost", **options)
        self.addCleanup(stream.close)
        return stream

    def test_python_is_answered_in_both_modes(self):
        for mode in MODES:
            with self.subTest(mode=mode), self.gateway(mode) as gateway:
                stream = self.connect(gateway)
                stream.sendall(CONNECT % b"a" + PING)
                self.assertEqual(receive(stream, 6), CONNACK + PONG)
                stream.sendall(PING * 50_000)
                self.assertEqual(receive(stream, 100_000), PONG * 50_000)
                stream.sendall(b"\xe0\x00")
                self.assertEqual(stream.recv(10), b"")  # with close_notify, or it would raise

    def test_packets_in_records_of_their_own_are_all_answered(self):
        for mode in MODES:
            with self.subTest(mode=mode), self.gateway(mode) as gateway:
                stream = self.connect(gateway)
                stream.sendall(CONNECT % b"a")
                self.assertEqual(receive(stream, 4), CONNACK)
                with gateway.standing_still():  # more than it reads at once
                    for _ in range(2000):
                        stream.sendall(PING)
                self.assertEqual(receive(stream, 4000), PONG * 2000)

    def test_a_metric_says_what_is_kept_and_why(self):
        with self.gateway("small") as gateway:
            self.connect(gateway)
            self.connect(gateway, ssl.TLSVersion.TLSv1_2)
            for idle in ("small", "tls_1_2"):
                wait_until(lambda: gateway.metric("pulsegate_tls_handshakes_total", idle=idle) == 1)  # noqa: B023
        with self.gateway("openssl") as gateway:
            self.connect(gateway)
            wait_until(lambda: gateway.metric("pulsegate_tls_handshakes_total", idle="setting") == 1)

    def test_sessions_are_resumed_with_tickets(self):
        context = ssl.create_default_context(cafile=self.authority.ca)
        with self.gateway("small") as gateway:
            first = self.connect(gateway, context=context)
            first.sendall(CONNECT % b"a")
            self.assertEqual(receive(first, 4), CONNACK)
            again = self.connect(gateway, context=context, session=first.session)
            self.assertTrue(again.session_reused)
            again.sendall(CONNECT % b"b" + PING)
            self.assertEqual(receive(again, 6), CONNACK + PONG)
            self.assertEqual(gateway.metric("pulsegate_tls_handshakes_total", idle="small"), 2)

    def test_a_client_that_shows_a_certificate_is_its_user(self):
        context = ssl.create_default_context(cafile=self.authority.ca)
        context.load_cert_chain(*self.authority.issue("carol"))
        with self.gateway("small", "--tls-client-ca", self.authority.ca, "--user-from", "certificate") as gateway:
            stream = self.connect(gateway, context=context)
            stream.sendall(CONNECT % b"a")
            self.assertEqual(receive(stream, 4), CONNACK)
            self.assertEqual(gateway.metric("pulsegate_tls_handshakes_total", idle="small"), 1)
            self.assertEqual(gateway.get("/api/v1/users/carol")[0], 200)

    def test_the_keys_are_in_no_core_file(self):
        with self.gateway("small") as gateway:
            self.connect(gateway)
            wait_until(lambda: gateway.metric("pulsegate_tls_handshakes_total", idle="small") == 1)
            with open(f"/proc/{gateway.pid}/smaps", encoding="ascii") as file:
                maps = re.split(r"\n(?=[0-9a-f]+-[0-9a-f]+ )", file.read())
            self.assertTrue([each for each in maps if re.match(r"\S+ rw-p 0+ 00:00 0 *\n", each)
                             and re.search(r"^VmFlags:.* dd\b", each, re.MULTILINE)])

    @unittest.skipIf(resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 2500, "needs 2,500 open files")
    def test_records_that_never_end_count_as_unfinished_packets(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        context = ssl.create_default_context(cafile=self.authority.ca)
        with self.gateway("small", "--memory-budget", "256MiB") as gateway:
            for i in range(1100):  # of 16 KB each: more than the 16 MiB that all unfinished packets may take
                stream = self.connect(gateway, context=context)
                stream.sendall(packets.connect(4, f"client-{i}", clean=True))
                self.assertEqual(receive(stream, 4), CONNACK)
                with socket.socket(fileno=os.dup(stream.fileno())) as raw:
                    raw.sendall(b"\x17\x03\x03\x40\x11" + bytes(16_000))
            wait_until(lambda: gateway.metric("pulsegate_limit_hits_total", limit="memory-budget") > 0)
            gateway.wait_for_log("unfinished packets use too much of memory-budget")

    def test_an_encrypted_record_that_was_changed_ends_the_connection_with_an_alert(self):
        with self.gateway("small") as gateway:
            stream = self.connect(gateway)
            stream.sendall(CONNECT % b"a")
            self.assertEqual(receive(stream, 4), CONNACK)
            raw = socket.socket(fileno=os.dup(stream.fileno()))
            self.addCleanup(raw.close)
            raw.sendall(b"\x17\x03\x03\x00\x13" + bytes(19))
            with self.assertRaisesRegex(ssl.SSLError, "BAD_RECORD_MAC"):
                stream.recv(10)


class OtherMode:
    """The tests of a class, in the mode that is not the default one."""

    @classmethod
    def setUpClass(cls):
        os.environ["PULSEGATE_TLS_IDLE"] = OTHER_MODE
        cls.addClassCleanup(os.environ.pop, "PULSEGATE_TLS_IDLE")
        super().setUpClass()


class OtherTlsTest(OtherMode, tls_test.TlsTest):
    pass


class OtherWebSocketTest(OtherMode, websocket_test.WebSocketTest):
    pass


class OtherCurlTest(OtherMode, websocket_test.CurlTest):
    pass


class OtherMqttJsTest(OtherMode, websocket_test.MqttJsTest):
    pass


class OtherProxyTest(OtherMode, proxy_test.ProxyTest):
    pass


if __name__ == "__main__":
    unittest.main()
