"""The PROXY protocol, with raw sockets."""

import re
import socket
import ssl
import struct
import unittest

from certificates import Certificates
from gateway import Gateway, port_of, wait_until
from streams import CONNACK, CONNECT, receive


class ProxyTest(unittest.TestCase):
    def connect(self, gateway, header, pieces=False):
        stream = socket.create_connection(("127.0.0.1", int(re.search(r":(\d+)\?proxy-protocol", gateway.log)[1])),
                                          timeout=60)
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

    def test_a_client_that_is_refused_without_an_answer_is_closed_at_once(self):
        # Nobody reads what is sent to it, so refused connections must not stay open: 64 of one address are told why.
        with Gateway("--allow-anonymous", "--listen", "mqtt://127.0.0.1:0?proxy-protocol",
                     "--max-connections-per-address", 1) as gateway:
            header = b"PROXY TCP4 203.0.113.9 127.0.0.1 4711 1883\r\n"
            self.assertEqual(receive(self.connect(gateway, header), 4), CONNACK)
            streams = [self.connect(gateway, header) for _ in range(300)]
            wait_until(lambda: gateway.metric("pulsegate_limit_hits_total", limit="max-connections-per-address") >= 300)
            self.assertLessEqual(gateway.metric("pulsegate_connections"), 65)
            for stream in streams:
                stream.close()

    def test_a_connection_without_a_header_is_refused(self):
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
            plain = socket.create_connection(("127.0.0.1", port_of(gateway, "mqtts")), timeout=60)
            plain.sendall(b"PROXY TCP4 203.0.113.9 127.0.0.1 4711 8883\r\n")
            stream = ssl.create_default_context(cafile=authority.ca).wrap_socket(plain, server_hostname="localhost")
            self.addCleanup(stream.close)
            stream.sendall(CONNECT % b"p")
            self.assertEqual(receive(stream, 4), CONNACK)
            gateway.wait_for_log(r"203\.0\.113\.9:4711 client 'p'")


if __name__ == "__main__":
    unittest.main()
