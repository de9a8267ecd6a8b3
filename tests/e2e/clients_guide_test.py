"""server/clients.md is true: its examples run against a real gateway, and its table has every reason code that is sent.

Blocks with a `file` comment are programs. They are run as they stand, but for the host and port of the gateway, the
address of the app's backend, which gives them their tokens, and the file of CAs. As the page says, the backend makes alice
and bob members of the room.
"""

import base64
import contextlib
import hashlib
import hmac
import http.server
import json
import os
import re
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request
from pathlib import Path

import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from browser import Browser
from browser_test import key_hash
from certificates import Certificates
from clients import PahoClient, install_mqtt_js
from gateway import REPOSITORY, Gateway, port_of, wait_until
from ports import free_port
from readme_test import blocks_of

GUIDE = REPOSITORY / "server" / "clients.md"
SECRET = "0123456789abcdef0123456789abcdef"
SOON = 15  # seconds: how long an app's first token lives


def token_of(user, lifetime=3600):
    def b64(data):
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    claims = b64(b'{"alg":"HS256"}') + "." + b64(json.dumps({"sub": user, "exp": int(time.time()) + lifetime}).encode())
    return claims + "." + b64(hmac.digest(SECRET.encode(), claims.encode(), hashlib.sha256))


class Backend(http.server.ThreadingHTTPServer):
    """The app's backend: the web page, and tokens for alice. The first one expires soon, and the next one must wait until
    it `may_return`."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), BackendAnswer)
        self.pages = {}
        self.may_return = threading.Event()
        self.start_over()

    def start_over(self):
        self.given = 0
        self.may_return.clear()

    def next_token(self):
        self.given += 1
        if self.given == 1:
            return token_of("alice", SOON)
        self.may_return.wait(60)
        return token_of("alice")


class BackendAnswer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        path = self.path.lstrip("/")
        body = self.server.next_token().encode() if path == "token" else self.server.pages.get(path)
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "text/javascript" if path.endswith(".js") else "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_):
        pass


class Program:
    """An example that runs, and what it prints."""

    def __init__(self, command, folder, **environment):
        self.out = folder / "out"
        with open(self.out, "wb") as out:
            self.process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=subprocess.STDOUT, env={**os.environ, **environment})

    def lines(self):
        return self.out.read_text().splitlines()

    def end(self):
        self.process.kill()
        self.process.wait()


class ExamplesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.node = install_mqtt_js()
        authority = Certificates()
        cls.addClassCleanup(authority.folder.cleanup)
        cls.authority = authority
        cls.certificate, key = authority.issue("localhost")
        secret = authority.path / "secret"
        secret.write_text(SECRET)
        secret.chmod(0o600)
        cls.gateway = cls.enterClassContext(Gateway(
            "--listen", "mqtts://127.0.0.1:0", "--listen", "wss://127.0.0.1:0", "--tls-cert", cls.certificate,
            "--tls-key", key, "--jwt-secret", secret, "--rooms", "members"))
        cls.backend = cls.enterClassContext(Backend())
        threading.Thread(target=cls.backend.serve_forever, daemon=True).start()
        cls.addClassCleanup(cls.backend.shutdown)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.backend.start_over()
        members = "/api/v1/rooms/lobby/members"
        self.assertEqual(self.gateway.ask("POST", members, {"add": ["alice", "bob"]})[0], 200)
        self.addCleanup(self.gateway.ask, "DELETE", members)
        self.addCleanup(self.gateway.ask, "DELETE", "/api/v1/clients?user=alice&sessions=end")
        self.bob = PahoClient(self.gateway, "bob-phone", paho.MQTTv5, login=("bob", token_of("bob")))
        self.addCleanup(self.bob.leave)

    def placed(self, name):
        """The program's file, with this gateway and this backend in it."""
        text = next(block.text for block in blocks_of(GUIDE) if block.says("file") == name)
        for there, here in (("https://app.example", f"http://localhost:{self.backend.server_port}"),
                            ("mqtts://chat.example:8883", f"mqtts://localhost:{port_of(self.gateway, 'mqtts')}"),
                            ("wss://chat.example", f"wss://localhost:{port_of(self.gateway, 'wss')}"),
                            ('"chat.example", 8883', f'"localhost", {port_of(self.gateway, "mqtts")}'),
                            ("/etc/ssl/certs/ca-certificates.crt", self.authority.ca)):
            text = text.replace(there, here)
        self.assertNotIn("chat.example", text)
        (self.folder / name).write_text(text)
        return name

    def start(self, *command, **environment):
        program = Program(command, self.folder, **environment)
        self.addCleanup(program.end)
        return program

    def said(self, lines, wanted):
        try:
            wait_until(lambda: wanted in lines())
        except AssertionError:
            raise AssertionError(f"it did not say '{wanted}', but {lines()}") from None

    def check(self, hello, lines):
        """What each example does: it writes to bob, hears him, and comes back when its token has expired."""
        message = self.bob.next()
        self.assertEqual((message.topic, message.payload.decode()), ("inbox/bob", hello))
        self.assertIn(("from", "alice"), message.properties.UserProperty)
        self.said(lines, "bob is online")
        properties = Properties(PacketTypes.PUBLISH)
        properties.UserProperty = ("id", "42")  # what is said to be from bob is not the first that is said
        self.bob.mqtt.publish("inbox/alice", "hello alice", qos=1, properties=properties)
        self.bob.mqtt.publish("room/lobby", "hello everybody", qos=1)
        self.said(lines, "bob in inbox/alice: hello alice")
        self.said(lines, "bob in room/lobby: hello everybody")

        # Its first token expires, and it gets no other. What is said meanwhile waits.
        wait_until(lambda: not self.is_connected("alice"), what="the end of the first token")
        self.bob.mqtt.publish("room/lobby", "are you away?", qos=1).wait_for_publish(60)
        self.backend.may_return.set()
        self.said(lines, "bob in room/lobby: are you away?")

        # It is thrown out, and comes back once more.
        self.assertEqual(self.gateway.ask("DELETE", "/api/v1/clients?user=alice")[0], 200)
        self.bob.mqtt.publish("room/lobby", "again?", qos=1)
        while self.bob.next().payload != b"again?":  # bob's own messages must not wait for the next test
            pass
        self.said(lines, "bob in room/lobby: again?")
        self.assertNotIn("not subscribed", "\n".join(lines()))

    def is_connected(self, user):
        status, said = self.gateway.ask("GET", f"/api/v1/clients?user={user}")
        return status == 200 and any(client["connected"] for client in said["clients"])

    def test_the_backend_makes_tokens_and_serves_the_page(self):
        port = free_port()
        program = self.folder / self.placed("backend.mjs")
        program.write_text(program.read_text().replace("3000", str(port)))
        (self.folder / "secret").write_text(SECRET + "\n")
        (self.folder / "node_modules").symlink_to(self.node / "node_modules")
        page = self.folder / self.placed("page.html")
        self.start("node", program.name)

        def answer_to(path):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                return answer.read()

        token = wait_until(lambda: answer_to("/token")).decode()
        PahoClient(self.gateway, "alice-tablet", paho.MQTTv5, login=("alice", token)).leave()
        self.assertEqual(answer_to("/page.html"), page.read_bytes())
        library = self.node / "node_modules/mqtt/dist/mqtt.min.js"
        self.assertEqual(answer_to("/mqtt.min.js"), library.read_bytes())

    def test_node(self):
        (self.folder / "node_modules").symlink_to(self.node / "node_modules")
        program = self.start("node", self.placed("phone.mjs"), NODE_EXTRA_CA_CERTS=self.authority.ca)
        self.check("hello from Node", program.lines)
        self.assertIn("Bob gets it, now or when he comes", program.lines())
        self.assertIn(f"told to go: {0xA0}", program.lines())

    def test_python(self):
        program = self.start("/usr/bin/python3", "-u", self.placed("phone.py"), SSL_CERT_FILE=self.authority.ca)
        self.check("hello from Python", program.lines)
        self.assertIn("the gateway has it", program.lines())
        self.assertIn("gone: Maximum connect time", program.lines())

    def test_c(self):
        source = self.placed("phone.c")
        subprocess.run(["cc", "-Wall", source, "-o", "phone", "-lmosquitto"], cwd=self.folder, check=True, timeout=60)
        token = self.folder / "token"
        token.write_text(self.backend.next_token())
        program = self.start("./phone")
        renewal = threading.Thread(target=lambda: token.write_text(self.backend.next_token()))
        renewal.start()
        self.addCleanup(renewal.join)
        self.check("hello from C", program.lines)
        self.assertIn("Bob gets it, now or when he comes", program.lines())

    def test_browser(self):
        self.backend.pages["page.html"] = (self.folder / self.placed("page.html")).read_bytes()
        self.backend.pages["mqtt.min.js"] = (self.node / "node_modules/mqtt/dist/mqtt.min.js").read_bytes()
        with Browser(f"--ignore-certificate-errors-spki-list={key_hash(self.certificate)}") as browser:
            page = browser.open(f"http://localhost:{self.backend.server_port}/page.html")
            self.check("hello from the browser", lambda: page.text("#heard").splitlines())


class FirstMessageTest(unittest.TestCase):
    def test_it_takes_three_lines(self):
        text = next(block.text for block in blocks_of(GUIDE) if block.says("file") == "first.mjs")
        self.assertEqual(text.count("\n"), 3)
        with Gateway() as gateway, tempfile.TemporaryDirectory() as folder, gateway.connect("phone", username="bob") as bob:
            folder = Path(folder)
            (folder / "node_modules").symlink_to(install_mqtt_js() / "node_modules")
            (folder / "first.mjs").write_text(text.replace("localhost:1883", f"127.0.0.1:{gateway.port}"))
            program = Program(("node", "first.mjs"), folder)
            self.addCleanup(program.end)
            self.assertEqual(bob.receive_publish(), ("inbox/bob", b"hello"))
            self.assertEqual(program.process.wait(60), 0, program.lines())


class GuideTest(unittest.TestCase):
    def test_every_program_is_run_or_says_that_it_is_not(self):
        for block in blocks_of(GUIDE):
            if block.language:
                self.assertTrue(block.says("file") or block.says("not run"), f"clients.md:{block.line}")

    def test_all_reason_codes_that_the_gateway_sends_are_in_the_table(self):
        codes = dict(re.findall(r"^    (\w+) = (0x[0-9a-fA-F]{2}),", (REPOSITORY / "protocol" / "reason.h").read_text(), re.M))
        self.assertEqual(len(codes), 43)
        sent = set()
        for folder in "server", "protocol":
            for file in (REPOSITORY / folder).rglob("*.[ch]*"):
                if file.stem != "reason":
                    sent.update(re.findall(r"\bReason::(\w+)", file.read_text()))
        self.assertIn("keep_alive_timeout", sent)
        shown = re.findall(r"0x[0-9A-F]{2}", " ".join(re.findall(r"^\| (0x[^|]*) \|", GUIDE.read_text(), re.M)))
        sent.remove("unspecified_error")  # what a packet without a reason code is taken for
        self.assertEqual([name for name in sorted(sent) if codes[name] not in shown], [])

    def test_return_codes_are_those_of_the_gateway(self):
        """The second column, for what a CONNACK can say."""
        source = (REPOSITORY / "protocol" / "reason.cpp").read_text()
        names = dict(re.findall(r"\{Reason::(\w+), \"([^\"]*)\"", source))
        table = source.partition("return_codes[] = {")[2].partition("};")[0]
        returned = {names[name].lower(): code.replace("return_code_server_unavailable", "3")
                    for name, code in re.findall(r"\{Reason::(\w+), (\w+)\}", table)}
        for name, told, packets in re.findall(r"^\| 0x.. ([^|]*) \| ([^|]*) \| ([^|]*) \|", GUIDE.read_text(), re.M):
            if "CONNACK" in packets and told != "closes":
                self.assertEqual(told, returned.get(name.lower(), "3"), name)


if __name__ == "__main__":
    unittest.main()
