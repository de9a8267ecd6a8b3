"""The demo's page, /chat, in Chromium: two tabs talk, and nobody's name or message becomes a part of the page."""

import contextlib
import json
import tempfile
import unittest
import urllib.error
import urllib.request
from pathlib import Path

from browser import Browser
from certificates import Certificates
from gateway import Gateway, add_users, port_of, wait_until

MARKUP = """<img src=x onerror="document.title='hacked'">"""


def get(gateway, path):
    """Status, fields and text of an HTTP answer."""
    try:
        answer = urllib.request.urlopen(f"http://127.0.0.1:{gateway.http_port}{path}", timeout=60)
    except urllib.error.HTTPError as error:
        answer = error
    with contextlib.closing(answer):
        return answer.status, answer.headers, answer.read().decode()


class ChatTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.gateway = cls.enterClassContext(Gateway("--demo", "--listen", "ws://127.0.0.1:0"))
        cls.browser = cls.enterClassContext(Browser())

    def open(self, gateway=None):
        return self.browser.open(f"http://127.0.0.1:{(gateway or self.gateway).http_port}/chat")

    def come_in(self, name, gateway=None):
        page = self.open(gateway)
        page.type("#name", name)
        page.click("#login-form button")
        page.wait_for("#connection", "online")
        return page

    def write_to(self, page, user, text):
        """Opens the conversation with the user, known or not, and sends a message."""
        page.type("#find", user + "\n")
        page.wait_for("#talk-name", user)
        page.type("#say", text + "\n")

    def leave_quietly(self, *pages):
        """Nothing went wrong in these pages."""
        for page in pages:
            self.assertEqual(page.console(), [])
            page.close()

    def test_two_tabs_talk_to_each_other_and_in_the_room(self):
        alice, bob = self.come_in("alice"), self.come_in("bob")
        alice.wait_for("#people", "bob")
        alice.wait_for("#people", "online")

        alice.type("#say", "hello, everybody\n")
        alice.wait_for("#messages", "✓ sent")
        bob.wait_for("#messages", "hello, everybody")
        bob.wait_for("#rooms", "alice: hello, everybody")

        self.write_to(bob, "alice", "for you alone, it's ten °C")
        bob.wait_for("#messages", "✓ sent")
        alice.wait_for("#people", "for you alone, it's ten °C")
        self.assertNotIn("for you alone", alice.text("#messages"))
        alice.click("#people button")
        alice.wait_for("#messages", "for you alone, it's ten °C")
        alice.wait_for("#talk-state", "online")
        self.leave_quietly(alice, bob)

    def test_what_is_written_to_somebody_away_waits(self):
        carol, dave = self.come_in("carol"), self.come_in("dave")
        self.write_to(carol, "dave", "are you there?")
        carol.wait_for("#messages", "✓ sent")
        dave.click("#leave")
        carol.wait_for("#talk-state", lambda line: line.startswith("away, last seen"))
        carol.type("#say", "call me\n")
        carol.wait_for("#messages", "dave is away: the message waits")

        dave.type("#name", "dave")
        dave.click("#login-form button")
        dave.wait_for("#people", "call me")
        carol.wait_for("#talk-state", "online")
        self.assertNotIn("waits", carol.text("#messages"))
        self.leave_quietly(carol, dave)

    def test_a_tab_that_is_closed_says_goodbye(self):
        erin, frank = self.come_in("erin"), self.come_in("frank")
        erin.wait_for("#people", "frank")
        frank.close()
        wait_until(lambda: self.gateway.get_json("/api/v1/users/frank")[1]["state"] == "offline")
        self.assertEqual(self.gateway.get_json("/api/v1/users/frank")[1]["cause"], "logout")
        erin.close()

    def test_names_and_messages_stay_text(self):
        grace, mallory = self.come_in("grace"), self.come_in(MARKUP)
        grace.wait_for("#people", MARKUP)
        self.write_to(mallory, "grace", "<script>document.title = 'hacked'</script>")
        grace.wait_for("#people", "<script>document.title = 'hacked'</script>")
        self.write_to(grace, MARKUP, "hello")
        grace.wait_for("#messages", "<script>document.title = 'hacked'</script>")
        mallory.wait_for("#people", "hello")
        for page in grace, mallory:
            self.assertEqual(page.run("return document.querySelectorAll('img, #app script').length"), 0)
            self.assertRegex(page.run("return document.title"), "^(\\(.*\\) )?Pulsegate chat$")
        self.leave_quietly(grace, mallory)

    def test_a_name_with_a_meaning_in_topics_has_an_inbox(self):
        heidi, slash = self.come_in("heidi"), self.come_in("a/b+#%")
        self.write_to(heidi, "a/b+#%", "found you")
        slash.wait_for("#people", "found you")
        self.leave_quietly(heidi, slash)

    def test_messages_written_while_the_gateway_is_away_are_sent_when_it_is_back(self):
        with tempfile.TemporaryDirectory() as folder:
            with Gateway("--demo", "--listen", "ws://127.0.0.1:0", "--data", folder) as gateway:
                ivan = self.come_in("ivan", gateway)
                listeners = [f"--listen=mqtt://127.0.0.1:{gateway.port}", f"--listen=http://127.0.0.1:{gateway.http_port}",
                             f"--listen=ws://127.0.0.1:{port_of(gateway, 'ws')}"]
            ivan.wait_for("#connection", "no connection: trying again…")
            self.write_to(ivan, "judy", "still there?")
            ivan.wait_for("#messages", "waiting for a connection")
            with Gateway("--demo", "--data", folder, *listeners, listen=False):
                ivan.wait_for("#messages", "judy is away: the message waits")
                ivan.wait_for("#connection", "online")
                ivan.console()  # without the failed connections, which the pages of other tests would see
                ivan.close()

    def test_errors_of_the_page_appear_in_the_console(self):
        page = self.open()
        page.run("console.error('oops')")
        wait_until(lambda: any("oops" in line for line in page.console()), what="an error in the console")
        page.close()

    def test_the_list_and_the_log_keep_what_they_show(self):
        """What has the focus keeps it when news come, and a screen reader does not read everything again."""
        olga, peter = self.come_in("olga"), self.come_in("peter")
        self.assertEqual(olga.run("return document.activeElement.id"), "say")
        olga.wait_for("#people", "peter")
        peter.type("#say", "one\n")
        olga.wait_for("#messages", "one")
        olga.run("window.kept = [document.querySelector('#rooms button'), document.querySelector('#messages li')]; kept[0].focus()")
        peter.type("#say", "two\n")
        olga.wait_for("#messages", "two")
        self.assertTrue(olga.run("return kept.every(each => each.isConnected) && document.activeElement === kept[0]"))
        self.leave_quietly(olga, peter)

    def test_a_private_message_of_an_unknown_sender_is_not_shown_in_the_lobby(self):
        with Gateway("--demo", "--listen", "ws://127.0.0.1:0", "--sender-property", "") as gateway:
            quinn = self.come_in("quinn", gateway)
            gateway.ask("POST", "/api/v1/publish", {"inbox": "quinn", "payload": "for quinn only", "qos": 1})
            quinn.wait_for("#people", "for quinn only")
            self.assertNotIn("for quinn only", quinn.text("#messages"))
            quinn.click("#people button")
            quinn.wait_for("#talk-name", "Unknown senders")
            quinn.wait_for("#messages", "for quinn only")
            self.leave_quietly(quinn)

    def test_a_password_is_asked_for_if_there_is_one(self):
        with tempfile.TemporaryDirectory() as folder:
            users = add_users(Path(folder) / "users", kate="kate's")
            with Gateway("--demo", "--listen", "ws://127.0.0.1:0", "--password-file", users) as gateway:
                page = self.open(gateway)
                page.type("#name", "kate")
                page.click("#login-form button")
                page.wait_for("#refusal", lambda line: line.startswith("Login refused: ") and "password" in line)
                self.assertEqual(page.run("return document.activeElement.id"), "password")
                page.type("#password", "kate's")
                page.click("#login-form button")
                page.wait_for("#connection", "online")
                self.leave_quietly(page)

    def test_if_presence_is_forbidden_the_page_shows_none(self):
        with tempfile.TemporaryDirectory() as folder:
            rules = Path(folder) / "rules"
            rules.write_text("allow readwrite room/#\nallow write inbox/+\n")
            with Gateway("--demo", "--listen", "ws://127.0.0.1:0", "--access-file", rules) as gateway:
                page = self.come_in("mia", gateway)
                self.write_to(page, "noah", "are you there?")
                page.wait_for("#messages", "✓ sent")
                self.assertEqual(page.text("#talk-state"), "")
                self.leave_quietly(page)

    def test_it_fits_a_phone(self):
        page = self.come_in("lena")
        page.resize(400, 800)
        self.write_to(page, "a" * 64, "no " + "spaces" * 50)
        page.wait_for("#messages", lambda line: line.endswith("is away: the message waits"))
        self.assertLessEqual(page.run("return document.documentElement.scrollWidth"), 400)
        self.assertFalse(page.run("return document.querySelector('aside').checkVisibility()"))
        page.click("#back")
        self.assertTrue(page.run("return document.querySelector('aside').checkVisibility()"))
        page.resize(1400, 900)
        self.assertTrue(page.run("return document.querySelector('.talk').checkVisibility()"))
        self.leave_quietly(page)

    def test_on_a_phone_the_focus_is_on_the_list_at_first(self):
        page = self.open()
        page.resize(400, 800)
        page.type("#name", "mona")
        page.click("#login-form button")
        page.wait_for("#connection", "online")
        self.assertTrue(page.run("return document.activeElement === document.querySelector('#rooms button')"))
        self.leave_quietly(page)

    def test_texts_stand_out_in_the_light_and_in_the_dark(self):
        page = self.open()
        page.wait_for("#login-form", "Your name")
        self.assertEqual(page.faint_texts(), {"dark": [], "light": []})
        page.close()
        nora = self.come_in("nora")
        self.write_to(nora, "olaf", "are you there?")
        nora.wait_for("#messages", lambda line: line.endswith("is away: the message waits"))
        self.assertEqual(nora.faint_texts(), {"dark": [], "light": []})
        self.leave_quietly(nora)


class ChatFilesTest(unittest.TestCase):
    def test_the_files_may_load_nothing_but_themselves(self):
        with Gateway("--demo", "--listen", "ws://127.0.0.1:0") as gateway:
            for path, kind in (("/chat", "text/html"), ("/chat/chat.css", "text/css"),
                               ("/chat/chat.js", "text/javascript"), ("/chat/mqtt.js", "text/javascript")):
                status, fields, _ = get(gateway, path)
                self.assertEqual((status, fields["Content-Type"]), (200, kind + "; charset=utf-8"))
                policy = fields["Content-Security-Policy"].split("; ")
                for part in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'",
                             f"connect-src 'self' ws://*:{port_of(gateway, 'ws')}"):
                    self.assertIn(part, policy)
                self.assertEqual(fields["X-Content-Type-Options"], "nosniff")
            self.assertEqual(get(gateway, "/chat/passwd")[0], 404)
            self.assertEqual(get(gateway, "/chat/")[0], 404)
            gateway.wait_for_log(rf"demo: open http://127.0.0.1:{gateway.http_port}/chat")

    def test_the_page_is_told_where_the_listener_is(self):
        authority = Certificates()
        self.addCleanup(authority.folder.cleanup)
        certificate, key = authority.issue("localhost")
        with Gateway("--demo", "--listen", "wss://127.0.0.1:0/talk", "--tls-cert", certificate,
                     "--tls-key", key) as gateway:
            self.assertEqual(json.loads(get(gateway, "/chat/gateway.json")[2]),
                             {"scheme": "wss", "port": port_of(gateway, "wss"), "path": "/talk",
                              "sender_property": "from"})

    def test_without_the_setting_there_is_no_demo(self):
        with Gateway() as gateway:
            for path in "/chat", "/chat/chat.js", "/chat/gateway.json":
                status, _, said = get(gateway, path)
                self.assertEqual(status, 404)
                self.assertIn("--demo", said)

    def test_a_token_for_the_api_does_not_shut_the_page(self):
        with tempfile.TemporaryDirectory() as folder:
            token = Path(folder) / "token"
            token.write_text("0123456789abcdef\n")
            token.chmod(0o600)
            with Gateway("--demo", "--listen", "ws://127.0.0.1:0", "--admin-token-file", token) as gateway:
                self.assertEqual(get(gateway, "/chat")[0], 200)
                self.assertEqual(get(gateway, "/metrics")[0], 401)


if __name__ == "__main__":
    unittest.main()
