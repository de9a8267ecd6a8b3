"""The HTTP API over TLS: its certificates, and clients that are slow at the handshake or at reading."""

import http.client
import json
import signal
import socket
import ssl
import unittest

from certificates import Certificates
from gateway import Gateway, wait_until
from ports import free_port


class HttpsTest(unittest.TestCase):
    def setUp(self):
        self.certificates = Certificates()
        self.addCleanup(self.certificates.folder.cleanup)
        self.cert, self.key = self.certificates.issue("localhost")
        self.port = free_port()

    def start(self, *arguments):
        return self.enterContext(Gateway("--listen", f"https://127.0.0.1:{self.port}", "--tls-cert", self.cert,
                                         "--tls-key", self.key, *arguments))

    def connect(self, timeout=60, source="127.0.0.1"):
        context = ssl.create_default_context(cafile=self.certificates.ca)
        plain = socket.create_connection(("127.0.0.1", self.port), timeout, (source, 0))
        return context.wrap_socket(plain, server_hostname="localhost")

    def ask(self, method, target, body=None, connection=None):
        connection = connection or self.connection()
        connection.request(method, target, None if body is None else json.dumps(body))
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())

    def connection(self):
        context = ssl.create_default_context(cafile=self.certificates.ca)
        connection = http.client.HTTPSConnection("localhost", self.port, timeout=60, context=context)
        self.addCleanup(connection.close)
        return connection

    def test_it_answers_over_tls(self):
        gateway = self.start()
        gateway.wait_for_log(f"ready: .*https://127.0.0.1:{self.port}")
        connection = self.connection()
        for _ in range(3):  # one connection for all
            self.assertEqual(self.ask("GET", "/healthz", connection=connection)[0], 200)
        large = [{"topic": f"room/{i}", "payload": "x" * 300} for i in range(5000)]
        status, said = self.ask("POST", "/api/v1/publish", large, connection)
        self.assertEqual((status, len(said["published"])), (200, 5000))
        self.assertEqual(self.ask("GET", "/api/v1/openapi.json", connection=connection)[1]["openapi"], "3.0.3")
        self.assertEqual(gateway.ask("GET", "/healthz")[0], 200)  # the other listener has none

    def test_it_ends_a_stream_in_order(self):
        self.start("--presence-feed", "on")
        with self.connect() as client:
            client.sendall(b"GET /api/v1/presence/changes HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            said = b""
            while piece := client.recv(65536):  # an end without close_notify is an error here
                said += piece
            self.assertIn(b'"cursor"', said)

    def test_certificates_are_read_again(self):
        gateway = self.start()
        with self.connect() as client:
            first = client.getpeercert()["serialNumber"]
        self.certificates.issue("localhost")  # the same files
        gateway.process.send_signal(signal.SIGHUP)
        gateway.wait_for_log("certificates reloaded")

        def serial():
            with self.connect() as client:
                return client.getpeercert()["serialNumber"]
        wait_until(lambda: serial() != first, what="the new certificate")

    def test_it_asks_for_no_certificate_of_a_client(self):
        self.start("--tls-client-ca", self.certificates.ca)
        self.assertEqual(self.ask("GET", "/healthz")[0], 200)

    def test_it_needs_a_token_where_it_is_reachable_from_outside(self):
        with self.assertRaises(AssertionError) as refused:
            Gateway("--listen", f"https://0.0.0.0:{self.port}", "--tls-cert", self.cert, "--tls-key", self.key).start()
        self.assertIn("admin-token", str(refused.exception))
        with self.assertRaises(AssertionError) as refused:
            Gateway("--listen", f"https://127.0.0.1:{self.port}").start()
        self.assertIn("TLS needs a certificate", str(refused.exception))

    def test_what_is_no_tls_is_closed(self):
        self.start()
        for sent in (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x00" * 1000, b"\x16\x03\x01\xff\xff", b""):
            with socket.create_connection(("127.0.0.1", self.port), timeout=60) as client:
                client.sendall(sent)
                try:
                    while client.recv(1000):
                        pass
                except ConnectionResetError:
                    pass
        self.assertEqual(self.ask("GET", "/healthz")[0], 200)

    def test_slow_handshakes_and_slow_readers_shut_nobody_out(self):
        gateway = self.start()
        kept = []
        self.addCleanup(lambda: [each.close() for each in kept])
        for i in range(300):  # begin a handshake, and say no more
            kept.append(socket.create_connection(("127.0.0.1", self.port), 60, (f"127.0.1.{i % 6 + 1}", 0)))
            kept[-1].sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        self.assertEqual(self.ask("GET", "/healthz")[0], 200)
        self.assertEqual(gateway.ask("GET", "/healthz")[0], 200)
        request = b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100
        for i in range(264):  # ask much, and read nothing
            try:
                kept.append(self.connect(5, f"127.0.2.{i % 6 + 1}"))
                kept[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                kept[-1].sendall(request)
            except OSError:
                pass  # no place is free for it
        self.assertEqual(self.ask("GET", "/healthz")[0], 200)
        self.assertEqual(gateway.ask("GET", "/healthz")[0], 200)


if __name__ == "__main__":
    unittest.main()
