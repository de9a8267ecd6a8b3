"""TLS clients that are not ours, with both settings of `tls-idle`: they update their keys, resume their sessions, and take small
records. A test is skipped if its client is not installed."""

import itertools
import os
import shutil
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

from certificates import Certificates
from gateway import PATIENCE, Gateway, port_of, wait_until
from streams import CONNACK, CONNECT, PING, PONG
from upgradable import gateway_for

MODES = ("small", "openssl")
SUITES = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
NSS, WOLFSSL = Path("/usr/include/nss/ssl.h"), Path("/usr/include/wolfssl/ssl.h")

# GnuTLS takes `^rekey^` as a command only at the beginning of a line, so this PUBLISH ends one.
PUBLISH, PUBACK = b"\x32\x07\x00\x01a\x00\x01\r\n", b"\x40\x02\x00\x01"

NODE = """
const socket = require('tls').connect({port: +process.argv[1], host: '127.0.0.1', servername: 'localhost',
  ca: require('fs').readFileSync(process.argv[2]), minVersion: 'TLSv1.3'});
let heard = Buffer.alloc(0);
socket.write(Buffer.from('100d00044d5154540402000a000161', 'hex'));
socket.on('data', (more) => {
  heard = Buffer.concat([heard, more]);
  if (heard.length === 4) for (let i = 0; i < 1000; i++) socket.write(Buffer.from('c000', 'hex'));
  if (heard.length === 2004) socket.end(Buffer.from('e000', 'hex'));
});
socket.on('close', () => console.log(heard.length));
"""


class Peer:
    """A program that passes on what it is told, but for its commands, and says what it hears."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.heard = b""
        self.timer = threading.Timer(PATIENCE, self.process.kill)
        self.timer.start()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.timer.cancel()
        self.process.kill()
        self.process.communicate()

    def say(self, data, *answers):
        self.process.stdin.write(data)
        self.process.stdin.flush()
        for each in answers:
            self.expect(each)

    def expect(self, words):
        while words not in self.heard:
            more = os.read(self.process.stdout.fileno(), 65536)
            assert more, f"{words} has not come, but {self.heard[-2000:]}"
            self.heard += more
        self.heard = self.heard[self.heard.index(words) + len(words):]


class TlsPeersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.authority = Certificates()
        cls.addClassCleanup(cls.authority.folder.cleanup)
        cls.certificate = cls.authority.issue("localhost")

    def arguments(self, mode):
        return ("--listen", "mqtts://127.0.0.1:0", "--tls-cert", self.certificate[0], "--tls-key", self.certificate[1],
                "--tls-idle", mode)

    def gateway(self, mode):
        return Gateway(*self.arguments(mode))

    def openssl(self, gateway, *options):
        """Lines that begin with K or k tell it to update its keys; with K it asks for ours."""
        return Peer("openssl", "s_client", "-connect", f"127.0.0.1:{port_of(gateway, 'mqtts')}", "-CAfile",
                    self.authority.ca, "-servername", "localhost", *options)

    def gnutls(self, gateway, *options):
        return Peer("gnutls-cli", "--inline-commands", "--x509cafile", self.authority.ca, "--port",
                    str(port_of(gateway, "mqtts")), *options, "localhost")

    def run_client(self, gateway, program, *more):
        """What a program says that is told the port and the authority."""
        command = [*program, str(port_of(gateway, "mqtts")), self.authority.ca, *more]
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE).stdout

    def compiled(self, source, *command):
        """The path of the program that the compiler has made of the file."""
        folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="pulsegate-peer-")))
        environment = {**os.environ, "GOCACHE": str(folder / "cache"), "GOFLAGS": "", "GO111MODULE": "off"}
        compiler, *libraries = command
        done = subprocess.run([*compiler.split(), "-o", folder / "client", Path(__file__).parent / source, *libraries],
                              env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=10 * PATIENCE)
        self.assertEqual(done.returncode, 0, done.stdout)
        return str(folder / "client")

    def test_openssl_updates_its_keys_and_asks_for_ours(self):
        for mode in MODES:
            with self.subTest(mode=mode), self.gateway(mode) as gateway:
                for suite, more in itertools.product(SUITES, ((), ("-maxfraglen", "512"))):
                    with (self.subTest(suite=suite, more=more),
                          self.openssl(gateway, "-tls1_3", "-ciphersuites", suite, *more) as client):
                        client.expect(b"Verify return code: 0")
                        client.say(CONNECT % b"a", CONNACK)
                        for command in (b"K\n", b"k\n", b"K\n", b"K\n", b"k\n"):
                            client.say(command, b"KEYUPDATE")
                            client.say(PING, PONG)

    @unittest.skipUnless(shutil.which("gnutls-cli"), "needs gnutls-cli")
    def test_gnutls_updates_its_keys_and_asks_for_ours(self):
        for mode in MODES:
            with self.subTest(mode=mode), self.gateway(mode) as gateway:
                for cipher in ("AES-128-GCM", "AES-256-GCM", "CHACHA20-POLY1305"):
                    with (self.subTest(cipher=cipher),
                          self.gnutls(gateway, "--priority", f"NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+{cipher}") as client):
                        client.expect(b"Handshake was completed")
                        client.say(CONNECT % b"a", CONNACK)
                        for command in (b"^rekey^\n", b"^rekey1^\n", b"^rekey^\n", b"^rekey^\n"):
                            client.say(PUBLISH, PUBACK)
                            client.say(command, b"Rekey was completed")
                        client.say(PUBLISH, PUBACK)
                        client.say(b"^resume^\n", b"This is a resumed session")
                        client.say(CONNECT % b"a", CONNACK)

    @unittest.skipUnless(shutil.which("gnutls-cli"), "needs gnutls-cli")
    def test_keys_are_updated_before_and_after_an_upgrade(self):
        with gateway_for(*self.arguments("small")) as gateway:
            with self.openssl(gateway, "-tls1_3") as openssl, self.gnutls(gateway) as gnutls:
                for client, name in ((openssl, b"o"), (gnutls, b"g")):
                    client.expect(b"Verify return code: 0" if client is openssl else b"Handshake was completed")
                    client.say(CONNECT % name, CONNACK)
                for _ in range(2):
                    for client, command, done in ((openssl, b"K\n", b"KEYUPDATE"),
                                                  (gnutls, b"^rekey^\n", b"Rekey was completed")):
                        client.say(PUBLISH, PUBACK)
                        client.say(command, done)
                        client.say(PUBLISH, PUBACK)
                    gateway.upgrade()
                for client in (openssl, gnutls):
                    client.say(PUBLISH, PUBACK)

    @unittest.skipUnless(shutil.which("go"), "needs go")
    def test_go_resumes_its_sessions(self):
        client = self.compiled("tls_peer.go", "go build")
        for mode in MODES:
            with self.subTest(mode=mode), self.gateway(mode) as gateway:
                self.assertEqual(self.run_client(gateway, [client]), "false 0\ntrue 0\ntrue 0\n")

    @unittest.skipUnless(WOLFSSL.exists() and shutil.which("cc"), "needs libwolfssl-dev")
    def test_wolfssl_updates_its_keys_and_asks_for_ours(self):
        client = self.compiled("tls_peer.c", "cc", "-lwolfssl")
        for mode in MODES:
            with self.subTest(mode=mode), self.gateway(mode) as gateway:
                self.assertEqual(self.run_client(gateway, [client]), "done\n")
                self.assertEqual(self.run_client(gateway, [client], "small records"), "done\n")

    @unittest.skipUnless(NSS.exists() and shutil.which("cc"), "needs libnss3-dev")
    def test_nss_updates_its_keys_and_asks_for_ours(self):
        client = self.compiled("nss_peer.c", "cc -I/usr/include/nss -I/usr/include/nspr", "-lssl3", "-lsmime3", "-lnss3", "-lnspr4")
        for mode in MODES:
            with self.subTest(mode=mode), self.gateway(mode) as gateway:
                self.assertEqual(self.run_client(gateway, [client]), "done\n")

    @unittest.skipUnless(shutil.which("node"), "needs node")
    def test_node_is_answered(self):
        for mode in MODES:
            with self.subTest(mode=mode), self.gateway(mode) as gateway:
                self.assertEqual(self.run_client(gateway, ["node", "-e", NODE]), "2004\n")

    def test_mosquitto_publishes(self):
        for mode in MODES:
            with self.subTest(mode=mode), self.gateway(mode) as gateway:
                tls = ["-h", "localhost", "-p", str(port_of(gateway, "mqtts")), "--cafile", self.authority.ca, "-t", "x"]
                with subprocess.Popen(["mosquitto_sub", *tls, "-q", "2", "-C", "3", "-W", str(PATIENCE)],
                                      stdout=subprocess.PIPE) as listener:
                    wait_until(lambda: gateway.metric("pulsegate_subscriptions") == 1)
                    for size in (10, 20_000, 100_000):
                        subprocess.run(["mosquitto_pub", *tls, "-q", "2", "-m", "x" * size], check=True, timeout=PATIENCE)
                    self.assertEqual([len(line) for line in listener.stdout], [11, 20_001, 100_001])


if __name__ == "__main__":
    unittest.main()
