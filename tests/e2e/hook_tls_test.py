"""The company's own backend over TLS: it shows a certificate that the gateway trusts, or nobody comes in."""

import signal
import socket
import ssl
import threading
import unittest
from pathlib import Path

from certificates import Certificates
from gateway import Gateway
from hook_backend import HookCase

SERVER_UNAVAILABLE = 0x88
WRONG = 0x86


def speak_tls(connection, context, *records):
    """As a server: reads a request, and answers with these records, which come to the client all at once."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_side=True)
    for step in (tls.do_handshake, lambda: tls.read(65536)):
        while True:
            try:
                step()
                break
            except ssl.SSLWantReadError:
                connection.sendall(outgoing.read())
                if not (read := connection.recv(65536)):
                    return
                incoming.write(read)
    for record in records:
        tls.write(record)
    connection.sendall(outgoing.read())


class TlsHookTest(HookCase):
    @classmethod
    def setUpClass(cls):
        cls.authority = Certificates()
        cls.addClassCleanup(cls.authority.folder.cleanup)

    def backend_named(self, name, host=None):
        return self.backend(tls=self.authority.issue(name, host))

    def test_the_backend_shows_its_certificate(self):
        backend = self.backend_named("localhost")
        for host in ("127.0.0.1", "localhost"):
            with self.subTest(host=host), Gateway("--auth-hook", f"https://{host}:{backend.port}/", "--auth-hook-ca",
                                                  self.authority.ca) as gateway:
                backend.peers.clear()
                for number in range(5):
                    self.assertEqual(self.code(gateway, f"u{number}", "x"), 0)
                self.assertEqual(len(backend.peers), 1)
                backend.hang_up()
                self.assertEqual(self.code(gateway, "another", "x"), 0)

    def test_a_certificate_of_an_unknown_authority_lets_nobody_in(self):
        backend = self.backend_named("localhost")
        with Gateway("--auth-hook", backend.url) as gateway:  # the system trusts others
            self.assertEqual(self.code(gateway, "a", "secret"), SERVER_UNAVAILABLE)
            gateway.wait_for_log("auth-hook: 127.0.0.1:.*: TLS: unable to get local issuer certificate")
            self.assertEqual(backend.questions, [])

    def test_a_certificate_for_another_host_lets_nobody_in(self):
        backend = self.backend_named("other", host="other.example")
        with Gateway("--auth-hook", f"https://localhost:{backend.port}/", "--auth-hook-ca",
                     self.authority.ca) as gateway:
            self.assertEqual(self.code(gateway, "a", "secret"), SERVER_UNAVAILABLE)
            gateway.wait_for_log("auth-hook: localhost:.*: TLS: hostname mismatch")
            self.assertEqual(backend.questions, [])

    def test_a_backend_without_tls_lets_nobody_in(self):
        backend = self.backend()
        with Gateway("--auth-hook", f"https://127.0.0.1:{backend.port}/", "--auth-hook-ca",
                     self.authority.ca) as gateway:
            self.assertEqual(self.code(gateway, "a", "secret"), SERVER_UNAVAILABLE)
            gateway.wait_for_log("auth-hook: 127.0.0.1:.*: TLS: ")

    def test_an_unrequested_answer_is_ignored(self):
        yes = b'HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n{"allow":true}'
        no = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self.authority.issue("localhost"))
            context.minimum_version = context.maximum_version = version
            for records in ((yes, yes), (yes, yes[:20]), (yes + yes,)):
                with self.subTest(version=version, records=records), \
                        socket.create_server(("127.0.0.1", 0)) as listener:
                    def speak():
                        for said in (records, (no,)):
                            connection, _ = listener.accept()
                            self.addCleanup(connection.close)
                            speak_tls(connection, context, *said)
                    threading.Thread(target=speak, daemon=True).start()
                    url = f"https://127.0.0.1:{listener.getsockname()[1]}"
                    with Gateway("--auth-hook", url, "--auth-hook-ca", self.authority.ca,
                                 "--auth-hook-timeout", "10s") as gateway:
                        self.assertEqual(self.code(gateway, "a", "x"), 0)
                        self.assertEqual(self.code(gateway, "b", "x"), WRONG)

    def test_a_new_authority_holds_after_sighup(self):
        other = Certificates()
        self.addCleanup(other.folder.cleanup)
        backend = self.backend_named("localhost")
        path = self.file("ca", Path(other.ca).read_text())
        with Gateway("--auth-hook", backend.url, "--auth-hook-ca", path) as gateway:
            self.assertEqual(self.code(gateway, "a", "x"), SERVER_UNAVAILABLE)
            self.file("ca", Path(self.authority.ca).read_text())
            gateway.process.send_signal(signal.SIGHUP)
            gateway.wait_for_log("users, keys and rules reloaded")
            self.assertEqual(self.code(gateway, "a", "x"), 0)


if __name__ == "__main__":
    unittest.main()
