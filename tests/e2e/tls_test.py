"""TLS, with other people's clients and with raw sockets."""

import os
import select
import signal
import socket
import ssl
import struct
import subprocess
import unittest
from pathlib import Path

import packets
from certificates import Certificates
from gateway import Gateway, SANITIZED, port_of, wait_until
from streams import CONNACK, CONNECT, PING, PONG, TlsStream, receive


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
        plain = socket.create_connection(("127.0.0.1", port_of(gateway, "mqtts")), timeout=60)
        stream = (context or self.context()).wrap_socket(plain, server_hostname=name, **options)
        self.addCleanup(stream.close)
        return stream

    def log_in(self, stream, name=b"a"):
        stream.sendall(CONNECT % name)
        self.assertEqual(receive(stream, 4), CONNACK)

    def test_a_client_that_leaves_with_its_last_flight_is_served(self):
        with self.gateway() as gateway, gateway.connect("reader") as reader:
            reader.subscribe("news")
            client = TlsStream(port_of(gateway, "mqtts"), self.authority.ca)
            self.addCleanup(client.socket.close)
            gateway.process.send_signal(signal.SIGSTOP)  # so all arrives at once, with the end of its handshake
            client.send(CONNECT % b"a" + packets.publish(4, "news", b"bye") + b"\xe0\x00", ends=True)
            client.socket.shutdown(socket.SHUT_WR)
            gateway.process.send_signal(signal.SIGCONT)
            self.assertEqual(reader.receive(), (0x30, b"\x00\x04newsbye"))

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

    def test_sessions_from_before_a_reload_are_resumed(self):
        with self.gateway() as gateway:
            context = self.context(ssl.TLSVersion.TLSv1_2)
            session = self.connect(gateway, context).session
            for reloads in (1, 2):
                gateway.process.send_signal(signal.SIGHUP)
                wait_until(lambda: gateway.log.count("certificates reloaded") == reloads, what="the reload")
                # The shards learn of the new certificates a moment later.
                for _ in range(10):
                    self.assertTrue(self.connect(gateway, context, session=session).session_reused)

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
            noise = socket.create_connection(("127.0.0.1", port_of(gateway, "mqtts")), timeout=60)
            noise.sendall(CONNECT % b"x")
            while noise.recv(100):
                pass
            noise.close()
            wait_until(lambda: gateway.metric("pulsegate_handshakes_refused_total") == 2)
            self.log_in(self.connect(gateway))

    def test_a_handshake_that_never_ends_is_closed_in_time(self):
        with self.gateway("--login-timeout", "1s") as gateway:
            slow = socket.create_connection(("127.0.0.1", port_of(gateway, "mqtts")), timeout=60)
            slow.sendall(b"\x16\x03\x01")
            self.assertEqual(slow.recv(10), b"")
            slow.close()

    def test_hellos_that_claim_to_be_long_leave_memory_to_others(self):
        begin = b"\x16\x03\x01\x40\x00\x01\x01\xff\xff"  # OpenSSL makes room for all of it
        with self.gateway("--memory-budget", "160MiB") as gateway:
            before = gateway.rss()
            for _ in range(200):
                one = socket.create_connection(("127.0.0.1", port_of(gateway, "mqtts")), timeout=60,
                                               source_address=("127.0.0.2", 0))
                self.addCleanup(one.close)
                one.sendall(begin)
            wait_until(lambda: gateway.metric("pulsegate_limit_hits_total", limit="memory-budget") >= 140)
            if not SANITIZED:
                self.assertLess(gateway.rss() - before, 25 * 2**20)
            self.log_in(self.connect(gateway))

    def test_a_thousand_handshakes_of_one_address_leave_turns_to_others(self):
        hello = ssl.MemoryBIO()
        recording = self.context().wrap_bio(ssl.MemoryBIO(), hello, server_hostname="localhost")
        with self.assertRaises(ssl.SSLWantReadError):
            recording.do_handshake()
        hello = hello.read()
        # The gateway takes a second or more for them all, so that it can be stopped on the way.
        slow = self.authority.issue("slow", host="localhost", kind="rsa:3072")
        with self.gateway("--shards", "1", certificates=[slow]) as gateway:
            flood = []
            for _ in range(1000):
                one = socket.create_connection(("127.0.0.1", port_of(gateway, "mqtts")), timeout=60,
                                               source_address=("127.0.0.2", 0))
                self.addCleanup(one.close)
                flood.append(one)
            with gateway.standing_still():  # so that all have said it before it is read
                for one in flood:
                    one.sendall(hello)
                plain = socket.create_connection(("127.0.0.1", port_of(gateway, "mqtts")), timeout=60)
                plain.setblocking(False)
                stream = self.context().wrap_socket(plain, server_hostname="localhost", do_handshake_on_connect=False)
                self.addCleanup(stream.close)
                with self.assertRaises(ssl.SSLWantReadError):
                    stream.do_handshake()
            self.assertTrue(select.select([stream], [], [], 60)[0])  # its answer has come
            with gateway.standing_still():
                answered = sum(bool(select.select([one], [], [], 0)[0]) for one in flood)
            stream.settimeout(60)
            stream.do_handshake()
            self.log_in(stream)
            self.assertLess(answered, 750)  # of 1000, were it the last one

    def test_a_client_that_ends_tls_and_then_breaks_off_harms_no_others(self):
        # What is still to be written to it fails as the end of TLS, which must not pass for progress.
        with self.gateway("--shards", "1") as gateway:
            for _ in range(20):
                plain = socket.create_connection(("127.0.0.1", port_of(gateway, "mqtts")), timeout=60)
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
        for arguments, words in (([certificate, key], "tls-key: every user can read .*; run chmod"),
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
            listener = subprocess.Popen(["mosquitto_sub", *mosquitto, "-C", "1", "-W", "60"], stdout=subprocess.PIPE)
            wait_until(lambda: gateway.metric("pulsegate_subscriptions") == 1)
            subprocess.run(["mosquitto_pub", *mosquitto, "-m", "hello"], check=True, timeout=60)
            self.assertEqual(listener.communicate(timeout=60)[0], b"hello\n")

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

    def test_many_updates_of_keys_without_data_end_the_connection(self):
        with self.gateway() as gateway:
            command = ["openssl", "s_client", "-connect", f"127.0.0.1:{port_of(gateway, 'mqtts')}", "-CAfile",
                       self.authority.ca, "-tls1_3"]
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True) as client:
                for _ in range(32):
                    client.stdin.write("K\n")
                    client.stdin.flush()
                    while "KEYUPDATE" not in client.stdout.readline():
                        self.assertIsNone(client.poll())
                gateway.wait_for_log("kicked: TLS records without data")
                client.wait(60)  # it ends by itself, for its input is open: the connection has ended
            self.assertEqual(gateway.metric("pulsegate_bad_packets_total"), 1)
            self.log_in(self.connect(gateway))

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
                client.wait(60)
            return client.communicate(timeout=60)[0]


if __name__ == "__main__":
    unittest.main()
