"""A web page that chats: Chromium with MQTT.js over ws and wss."""

import base64
import hashlib
import http.server
import subprocess
import threading
import unittest
from pathlib import Path
from urllib.parse import urlencode

from browser import Browser
from certificates import Certificates, openssl
from clients import install_mqtt_js
from gateway import Gateway, add_users, port_of, wait_until

FILES = {"/chat.html": Path(__file__).with_name("chat.html"),
         "/mqtt.min.js": Path("node_modules/mqtt/dist/mqtt.min.js")}  # in the folder of install_mqtt_js
TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript"}


class Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        path = FILES.get(self.path.partition("?")[0])
        if not path:
            return self.send_error(404)
        body = (install_mqtt_js() / path).read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", TYPES[path.suffix])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def key_hash(certificate):
    """What Chromium calls a certificate's SPKI: it trusts this key and no other that nobody vouches for."""
    key = openssl("x509", "-in", certificate, "-noout", "-pubkey", folder="/")
    der = subprocess.run(["openssl", "pkey", "-pubin", "-outform", "der"], input=key, capture_output=True, check=True,
                         timeout=60).stdout
    return base64.b64encode(hashlib.sha256(der).digest()).decode()


class BrowserTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        install_mqtt_js()
        authority = Certificates()
        cls.addClassCleanup(authority.folder.cleanup)
        certificate, key = authority.issue("localhost")
        users = add_users(authority.path / "users", alice="alice's", bob="bob's", carol="carol's", dave="dave's")
        cls.gateway = cls.enterClassContext(Gateway(
            "--listen", "ws://127.0.0.1:0", "--listen", "wss://127.0.0.1:0/chat", "--tls-cert", certificate,
            "--tls-key", key, "--password-file", users, events=True))
        cls.pages = cls.enterClassContext(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages))
        threading.Thread(target=cls.pages.serve_forever, daemon=True).start()
        cls.addClassCleanup(cls.pages.shutdown)
        cls.browser = cls.enterClassContext(Browser(f"--ignore-certificate-errors-spki-list={key_hash(certificate)}"))

    def page(self, scheme, version):
        path = {"ws": "/mqtt", "wss": "/chat"}[scheme]
        url = f"{scheme}://127.0.0.1:{port_of(self.gateway, scheme)}{path}"
        return self.browser.open(f"http://127.0.0.1:{self.pages.server_port}/chat.html?" +
                                 urlencode({"url": url, "version": version}))

    def log_in(self, user, scheme, version):
        page = self.page(scheme, version)
        page.type("[name=user]", user)
        page.type("[name=password]", user + "'s")
        page.click("#login button")
        page.wait_for("#status", "in, with QoS 1,1,1")
        return page

    def say(self, page, topic, words):
        page.type("[name=topic]", topic)
        page.type("[name=words]", words)
        page.click("#say button")

    def test_two_tabs_chat_and_see_each_other_come_and_go(self):
        for scheme, version in (("ws", 5), ("wss", 5), ("wss", 4)):
            with self.subTest(scheme=scheme, version=version):
                before = len(self.gateway.events("bob"))
                alice = self.log_in("alice", scheme, version)
                bob = self.log_in("bob", scheme, version)
                alice.wait_for("#present", "bob online")
                bob.wait_for("#present", "alice online")

                self.say(bob, "room/lobby", f"hello over {scheme}, it's ten °C")
                for page in (alice, bob):
                    page.wait_for("#heard", f"room/lobby: hello over {scheme}, it's ten °C")
                self.say(alice, "inbox/bob", "for you alone")
                bob.wait_for("#heard", "inbox/bob: for you alone")
                self.assertNotIn("for you alone", alice.text("#heard"))

                bob.close()
                alice.wait_for("#present", "bob offline")
                wait_until(lambda: [(event["state"], event["cause"]) for event in self.gateway.events("bob")[before:]] ==
                           [("online", "login"), ("offline", "connection_lost")], what="bob's coming and going")
                alice.close()
                self.gateway.wait_for_event(user="alice", state="offline")

    def test_a_page_and_a_client_over_tcp_talk_to_each_other(self):
        page = self.log_in("carol", "wss", 5)
        dave = ["-h", "127.0.0.1", "-p", str(self.gateway.port), "-u", "dave", "-P", "dave's", "-q", "1"]
        subprocess.run(["mosquitto_pub", *dave, "-t", "inbox/carol", "-m", "call me"], check=True, timeout=60)
        page.wait_for("#heard", "inbox/carol: call me")

        before = self.gateway.metric("pulsegate_packets_sent_total", type="suback")
        listener = subprocess.Popen(["mosquitto_sub", *dave, "-t", "inbox/dave", "-C", "1", "-W", "60"],
                                    stdout=subprocess.PIPE)
        wait_until(lambda: self.gateway.metric("pulsegate_packets_sent_total", type="suback") > before)
        self.say(page, "inbox/dave", "I do")
        self.assertEqual(listener.communicate(timeout=60)[0], b"I do\n")
        page.close()

    def test_a_wrong_password_shows_its_reason_code_in_the_page(self):
        for version, code in ((5, 0x86), (4, 4)):
            with self.subTest(version=version):
                page = self.page("wss", version)
                page.type("[name=user]", "alice")
                page.type("[name=password]", "wrong")
                page.click("#login button")
                page.wait_for("#status", f"refused with {code}")
                page.close()


if __name__ == "__main__":
    unittest.main()
