"""Tokens that are checked by the keys of an identity provider, which rotates them, breaks and hangs."""

import base64
import contextlib
import json
import os
import signal
import subprocess
import threading
import time
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from credentials import Folder, part, token
from gateway import Gateway, wait_until
from ports import free_port


class Key:
    """An RSA key of the provider's, made with openssl."""

    def __init__(self, folder, kid):
        self.kid = kid
        self.file = folder / f"{kid}.pem"
        self.openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", str(self.file))
        modulus = self.openssl("rsa", "-in", str(self.file), "-noout", "-modulus").decode().strip().partition("=")[2]
        self.jwk = {"kty": "RSA", "kid": kid, "use": "sig", "alg": "RS256", "e": "AQAB",
                    "n": part_of(bytes.fromhex(modulus))}

    @staticmethod
    def openssl(*arguments, data=None):
        return subprocess.run(["openssl", *arguments], input=data, check=True, capture_output=True, timeout=30).stdout

    def token(self, user, kid=None):
        header = {"alg": "RS256", "kid": kid or self.kid}
        signed = part(json.dumps(header).encode()) + b"." + part(json.dumps({"sub": user, "exp": int(time.time()) + 600}).encode())
        signature = self.openssl("dgst", "-sha256", "-sign", str(self.file), data=signed)
        return (signed + b"." + part(signature)).decode()


def part_of(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class KeyServer:
    """Answers with the set of its keys, or as `answer` says: a status and a body. While `hangs` is set, it does not answer."""

    def __init__(self, *keys, port=0):
        self.keys = list(keys)
        self.answer = None
        self.hangs = threading.Event()
        self.fetches = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.fetches += 1
                if outer.hangs.is_set():
                    wait_until(lambda: not outer.hangs.is_set(), timeout=60)
                status, body = outer.answer or (200, json.dumps({"keys": [key.jwk for key in outer.keys]}).encode())
                with contextlib.suppress(ConnectionError):  # the gateway has lost patience
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *arguments):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/jwks.json"

    def await_fetches(self, count):
        before = self.fetches
        wait_until(lambda: self.fetches >= before + count, what=f"{count} fetches")

    def close(self):
        self.hangs.clear()
        self.server.shutdown()
        self.server.server_close()


class JwksTest(Folder):
    def setUp(self):
        super().setUp()
        self.first, self.second = Key(self.path, "first"), Key(self.path, "second")

    def provider(self, *keys, port=0):
        server = KeyServer(*keys, port=port)
        self.addCleanup(server.close)
        return server

    def gateway(self, url, *options):
        return self.enterContext(Gateway("--jwt-jwks-url", url, *options))

    def login(self, gateway, key, **options):
        """The code of the CONNACK for a token of that key."""
        return self.code(gateway, "anyone", key.token("alice", **options), "c")

    def test_a_token_is_checked_by_the_key_that_it_names(self):
        gateway = self.gateway(self.provider(self.first, self.second).url)
        self.assertEqual(self.login(gateway, self.first), 0)
        self.assertEqual(self.login(gateway, self.second), 0)
        self.assertEqual(self.login(gateway, self.second, kid="first"), 0x86)

    def test_a_new_key_is_fetched_by_the_first_token_that_names_it(self):
        provider = self.provider(self.first)
        gateway = self.gateway(provider.url, "--jwt-jwks-refresh", "1h")
        self.assertEqual(self.login(gateway, self.first), 0)
        provider.keys.append(self.second)
        wait_until(lambda: self.login(gateway, self.second) == 0, what="the new key")
        fetches = provider.fetches
        for _ in range(10):
            self.assertEqual(self.login(gateway, self.second, kid="nobody's"), 0x86)
        self.assertLessEqual(provider.fetches, fetches + 2)

    def test_a_key_that_has_left_the_set_stays_as_long_as_it_is_kept(self):
        provider = self.provider(self.first)
        keeping = self.gateway(provider.url, "--jwt-jwks-refresh", "1s")
        dropping = self.gateway(provider.url, "--jwt-jwks-refresh", "1s", "--jwt-jwks-keep", "0")
        self.assertEqual((self.login(keeping, self.first), self.login(dropping, self.first)), (0, 0))
        provider.keys = [self.second]
        provider.await_fetches(6)
        self.assertEqual((self.login(keeping, self.second), self.login(dropping, self.second)), (0, 0))
        self.assertEqual((self.login(keeping, self.first), self.login(dropping, self.first)), (0, 0x86))

    def test_a_key_that_has_left_the_set_ends_though_nothing_is_fetched(self):
        provider = self.provider(self.first)
        gateway = self.gateway(provider.url, "--jwt-jwks-refresh", "1h", "--jwt-jwks-keep", "1s")
        self.assertEqual(self.login(gateway, self.first), 0)
        provider.keys = [self.second]
        wait_until(lambda: self.login(gateway, self.second) == 0, what="the new key")
        wait_until(lambda: self.login(gateway, self.first) == 0x86, what="the end of the old key")

    def test_a_stolen_key_is_withdrawn_by_a_reload(self):
        provider = self.provider(self.first)
        settings = Path(self.file("settings", 'jwt-jwks-refresh = "1s"\n'))
        gateway = self.gateway(provider.url, "--config", settings)
        self.assertEqual(self.login(gateway, self.first), 0)
        provider.keys = [self.second]
        provider.await_fetches(3)
        self.assertEqual(self.login(gateway, self.first), 0)
        settings.write_text('jwt-jwks-refresh = "1s"\njwt-jwks-keep = "0s"\n')
        os.kill(gateway.pid, signal.SIGHUP)
        wait_until(lambda: self.login(gateway, self.first) == 0x86, what="the key is withdrawn")
        self.assertEqual(self.login(gateway, self.second), 0)

    def test_a_broken_provider_locks_nobody_out(self):
        provider = self.provider(self.first)
        gateway = self.gateway(provider.url, "--jwt-jwks-refresh", "1s")
        self.assertEqual(self.login(gateway, self.first), 0)
        for answer in ((500, b"trouble"), (200, b"garbage"), (200, b'{"keys":[]}'), (200, b" " * 300_000), (302, b"")):
            provider.answer = answer
            provider.await_fetches(2)
            self.assertEqual(self.login(gateway, self.first), 0, answer)
            self.assertEqual(self.login(gateway, self.second), 0x88, answer)
        gateway.wait_for_log(r"warning.*jwt-jwks-url: 127\.0\.0\.1:\d+: it answers 500; the last good set of keys stays")
        self.assertRegex(gateway.get("/metrics")[1], r'pulsegate_jwks_fetches_total\{result="failed"\} [1-9]')
        provider.answer = None
        provider.keys.append(self.second)
        wait_until(lambda: self.login(gateway, self.second) == 0, what="the provider is back")

    def test_while_the_provider_hangs_known_keys_are_good(self):
        provider = self.provider(self.first)
        gateway = self.gateway(provider.url, "--jwt-jwks-refresh", "1s")
        self.assertEqual(self.login(gateway, self.first), 0)
        provider.hangs.set()
        provider.await_fetches(1)
        self.assertEqual(self.login(gateway, self.first), 0)
        self.assertEqual(self.login(gateway, self.second), 0x88)

    def test_without_a_provider_the_gateway_starts_and_lets_in_when_it_comes(self):
        port = free_port()
        gateway = self.gateway(f"http://127.0.0.1:{port}/jwks.json", "--jwt-jwks-refresh", "1s")
        self.assertEqual(self.login(gateway, self.first), 0x88)
        gateway.wait_for_log(r"logins with tokens are refused until keys come")
        gateway.wait_for_log(r"login refused: its token: no key matches its alg and kid: jwt-jwks-url has given no keys yet")
        self.provider(self.first, port=port)
        wait_until(lambda: self.login(gateway, self.first) == 0, what="the first keys")

    def test_it_works_beside_secrets_of_files(self):
        secret = self.file("secret", "a secret of a test, of forty-two characters")
        gateway = self.gateway(self.provider(self.first).url, "--jwt-secret", secret)
        claims = {"sub": "bob", "exp": int(time.time()) + 600}
        self.assertEqual(self.code(gateway, "anyone", token(claims), "c"), 0)
        self.assertEqual(self.code(gateway, "anyone", token(claims, header={"alg": "HS256", "kid": "other"}), "c"), 0)
        self.assertEqual(self.login(gateway, self.first), 0)


if __name__ == "__main__":
    unittest.main()
