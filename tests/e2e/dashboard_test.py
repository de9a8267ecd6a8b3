"""The dashboard and the API reference in Chromium: what they show is true, what they do is done, and no name or payload
becomes a part of the page."""

import json
import re
import tempfile
import unittest
from pathlib import Path
from urllib.parse import quote

from browser import Browser
from chat_test import get
from gateway import Gateway, wait_until

MARKUP = """<img src=x onerror="document.title='hacked'">"""
PAGES = ("", "clients", "presence", "messages", "bans", "webhooks", "trace", "user/bob", "find?q=bob")


class DashboardTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.gateway = cls.enterClassContext(Gateway("--data", Path(folder, "data"), "--shards", "2"))
        cls.browser = cls.enterClassContext(Browser())

    def open(self, page="", gateway=None):
        return self.browser.open(f"http://127.0.0.1:{(gateway or self.gateway).http_port}/#/{page}")

    def leave_quietly(self, tab):
        """Nothing went wrong in this page. That the gateway knows no such user or client is an answer."""
        self.assertEqual([line for line in tab.console() if "status of 404" not in line], [])
        tab.close()

    def answer(self, path):
        status, body = self.gateway.get_json(f"/api/v1/{path}")
        self.assertEqual(status, 200)
        return body

    def is_banned(self, user):
        return user in [ban.get("user") for ban in self.answer("bans")["bans"]]

    def press(self, tab, label):
        """The button with this text or label."""
        tab.wait_for("#page", lambda _: tab.run(
            "const button = [...document.querySelectorAll('button')].find(each => each.textContent === "
            f"{json.dumps(label)} || each.ariaLabel === {json.dumps(label)}); button?.click(); return Boolean(button)"))

    def confirm(self, tab):
        wait_until(lambda: tab.run("return document.querySelector('dialog[open] button[value=yes]') !== null"))
        tab.click("dialog[open] button[value=yes]")

    def test_the_overview_counts_clients_and_turns_the_wheels(self):
        clients = [self.enterContext(self.gateway.connect(f"seen-{i}", username=f"seen-{i}")) for i in range(3)]
        for client in clients:
            client.ping()
        tab = self.open()
        shown = ("const tile = [...document.querySelectorAll('.tile')].find(each => each.textContent.startsWith('Clients connected'));"
                 "return tile?.querySelector('strong').textContent")
        wait_until(lambda: tab.run(shown) == "3", 60, "three clients")
        self.assertEqual(tab.run("return document.querySelectorAll('.wheel').length"), 2)
        connections = "return [...document.querySelectorAll('.wheel .count')].map(each => Number(each.textContent))"
        self.assertGreaterEqual(sum(tab.run(connections)), 3)
        hand = "return [...document.querySelectorAll('.wheel .bar')].findIndex(each => each.parentNode.classList.contains('now'))"
        before = tab.run(hand)
        wait_until(lambda: tab.run(hand) != before, 60, "the hand to move")
        wait_until(lambda: tab.run("return document.querySelectorAll('canvas').length") == 6, 60, "charts")
        wait_until(lambda: "connected" in tab.run("return document.querySelector('canvas').ariaLabel"), 60, "a sample")
        self.assertEqual(tab.text("#ready"), "ready")
        self.leave_quietly(tab)

    def test_it_tells_why_a_user_is_offline(self):
        with self.gateway.connect("silent-phone", username="silent", keepalive=1) as silent:
            silent.receive_until_closed()
        tab = self.open()
        tab.type("#find", "silent\n")
        tab.wait_for("#page", lambda line: "offline" in line)
        tab.wait_for("#page", lambda line: "timeout" in line and "without a packet" in line)
        self.leave_quietly(tab)

    def test_what_it_is_told_to_do_is_done(self):
        with self.gateway.connect("busy-phone", username="busy", version=5) as busy:
            tab = self.open("user/busy")
            tab.wait_for("#page", "online")
            tab.type("form [name=payload]", "hello\n")
            self.assertEqual(busy.receive_publish()[1], b"hello")
            self.press(tab, "Disconnect")
            self.assertEqual(busy.receive_until_closed()[-1][1][:1], b"\x98")
        tab.wait_for("#page", "offline")
        self.press(tab, "Ban for an hour")
        self.confirm(tab)
        tab.wait_for("#page", lambda line: "until" in line)
        self.assertTrue(self.is_banned("busy"))
        self.press(tab, "Lift the ban")
        wait_until(lambda: not self.is_banned("busy"), 60, "no ban")
        self.leave_quietly(tab)

    def test_a_user_with_spaces_and_signs_in_the_name_is_shown_and_disconnected(self):
        user = "john +smith & 50 %"
        with self.gateway.connect("john's phone", username=user) as client:
            tab = self.open(f"user/{quote(user)}")
            tab.wait_for("#page", lambda line: line.startswith("john's phone"))
            self.press(tab, "Disconnect")
            client.receive_until_closed()
            self.leave_quietly(tab)

    def test_users_whose_names_are_dots_are_shown_and_disconnected(self):
        for name in (".", ".."):
            with self.subTest(name=name), self.gateway.connect("dotted", username=name) as client:
                client.ping()
                tab = self.open(f"user/{name}")
                tab.wait_for("#page", "online")
                self.press(tab, "Disconnect")
                client.receive_until_closed()
                self.leave_quietly(tab)

    def test_a_link_that_was_cut_leads_to_a_page(self):
        tab = self.open("user/%E2%82")
        tab.wait_for("#page", "%E2%82")
        self.leave_quietly(tab)

    def test_an_inbox_is_read_and_emptied(self):
        self.gateway.ask("POST", "/api/v1/publish", {"inbox": "away", "payload": "see you", "qos": 1})
        tab = self.open("user/away")
        tab.wait_for("#page", lambda line: "see you" in line)
        self.press(tab, "Empty the inbox")
        self.confirm(tab)
        wait_until(lambda: self.answer("users/away/inbox")["count"] == 0, 60, "an empty inbox")
        self.leave_quietly(tab)

    def test_changes_of_presence_appear_as_they_happen(self):
        def streams():
            """How many the gateway has begun."""
            found = re.search(r'api_requests_total{route="/api/v1/presence/changes",method="GET",code="200"} (\d+)',
                              self.gateway.get("/metrics")[1])
            return int(found[1]) if found else 0

        before = streams()
        tab = self.open("presence")
        tab.wait_for("#page", "Changes appear here as they happen.")
        wait_until(lambda: streams() > before, what="the stream of changes")
        with self.gateway.connect("live-phone", username="live"):
            tab.wait_for(".log", lambda line: "live is online" in line)
        tab.wait_for(".log", lambda line: "live is offline" in line)
        self.leave_quietly(tab)

    def test_a_user_is_followed_live(self):
        tab = self.open("trace?user=traced")
        wait_until(lambda: "GET '/api/v1/trace" in self.gateway.log, what="the trace")
        with self.gateway.connect("traced-phone", username="traced") as client:
            tab.wait_for(".log", lambda line: "login" in line and "traced-phone" in line)
            client.ping()
            tab.wait_for(".log", lambda line: "packet_in" in line and "PINGREQ" in line)
        self.leave_quietly(tab)

    def test_messages_are_published_retained_and_delayed(self):
        with self.gateway.connect("reader", username="reader") as reader:
            reader.subscribe("news/#", qos=1)
            tab = self.open("messages")
            tab.type("[name=to]", "news/today")
            tab.type("[name=payload]", "it rains")
            tab.run("document.querySelector('[name=retain]').value = 'yes'")
            self.press(tab, "Publish")
            self.assertEqual(reader.receive_publish()[:2], ("news/today", b"it rains"))
        tab.type("[name=in]", "3600")
        tab.type("[name=payload]", "it will rain")
        self.press(tab, "Publish")
        wait_until(lambda: self.answer("delayed")["delayed"], 60, "a delayed message")
        tab.close()
        tab = self.open("messages")
        tab.wait_for("#page", lambda line: "it rains" in line)
        tab.wait_for("#page", lambda line: "it will rain" in line)
        self.press(tab, "Delete the retained message of news/today")
        self.confirm(tab)
        wait_until(lambda: not self.answer("retained")["retained"], 60, "no retained message")
        self.press(tab, f"Cancel message {self.answer('delayed')['delayed'][0]['id']}")
        wait_until(lambda: not self.answer("delayed")["delayed"], 60, "no delayed message")
        self.leave_quietly(tab)

    def test_names_and_payloads_stay_text(self):
        with self.gateway.connect(MARKUP, username=MARKUP, clean=False):
            self.gateway.ask("POST", "/api/v1/publish", {"topic": f"x/{MARKUP}", "payload": MARKUP, "retain": True})
            self.gateway.ask("POST", "/api/v1/publish", {"inbox": MARKUP, "payload": MARKUP, "qos": 1})
            self.gateway.ask("PUT", f"/api/v1/bans?user=mallory&client={quote(MARKUP)}&reason={quote(MARKUP)}")
            for page in ("clients", f"user/{quote(MARKUP, safe='')}", f"find?q={quote(MARKUP)}", "messages", "bans"):
                tab = self.open(page)
                tab.wait_for("#page", lambda line: MARKUP[:20] in line)
                self.assertEqual(tab.run("return document.querySelectorAll('main img').length"), 0, page)
                self.assertEqual(tab.run("return document.title"), "Pulsegate")
                self.leave_quietly(tab)

    def test_pages_fit_narrow_and_wide_windows(self):
        with self.gateway.connect("bob-phone", username="bob", clean=False):
            for page in PAGES:
                tab = self.open(page)
                tab.wait_for("#page", lambda line: line != "")
                for width in (400, 1280):
                    tab.resize(width, 800)
                    self.assertLessEqual(tab.run("return document.documentElement.scrollWidth"), width, page)
                self.leave_quietly(tab)

    def test_texts_stand_out_in_the_light_and_in_the_dark(self):
        with self.gateway.connect("bob-phone", username="bob", clean=False):
            for page in PAGES:
                tab = self.open(page)
                tab.wait_for("#page", lambda line: line != "")
                tab.wait_for("#ready", "ready")
                self.assertEqual(tab.faint_texts(), {"dark": [], "light": []}, page)
                self.leave_quietly(tab)
        reference = self.browser.open(f"http://127.0.0.1:{self.gateway.http_port}/reference")
        reference.wait_for("main", "GET")
        self.assertEqual(reference.faint_texts(), {"dark": [], "light": []})
        reference.close()

    def test_it_is_used_by_keyboard(self):
        tab = self.open("clients")
        tab.wait_for("#page h1", "Clients")
        tab.run("document.body.dispatchEvent(new KeyboardEvent('keydown', {key: '/', bubbles: true}))")
        self.assertEqual(tab.run("return document.activeElement.id"), "find")
        self.assertEqual(tab.run("return [...document.querySelectorAll('nav [aria-current=page]')].map(each => each.textContent)"),
                         ["Clients"])
        unnamed = tab.run("return [...document.querySelectorAll('button, a, input, select, textarea')].filter(each => "
                          "!each.textContent.trim() && !each.ariaLabel && !each.labels?.length).map(each => each.outerHTML)")
        self.assertEqual(unnamed, [])
        self.leave_quietly(tab)

    def test_it_asks_for_a_token_and_shows_what_its_role_forbids(self):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        token = folder / "token"
        token.write_text("the-right-one-of-many\n")
        token.chmod(0o600)
        with Gateway("--admin-token-file", token) as gateway:
            tab = self.open("clients", gateway)
            for typed, expected in (("wrong", "The gateway does not accept this token."), ("the-right-one-of-many", "")):
                wait_until(lambda: tab.run("return document.getElementById('token-dialog').open"), 60, "the dialog")
                tab.type("#token", typed + "\n")
                tab.wait_for("#token-refusal", expected) if expected else tab.wait_for("#page", "There are none.")
            tab.console()  # has the refusals
            tab.close()

    def test_the_pages_are_closed_to_others(self):
        for path in ("/", "/reference", "/dashboard/app.js"):
            status, fields, _ = get(self.gateway, path)
            self.assertEqual(status, 200)
            policy = fields["Content-Security-Policy"]
            for rule in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "connect-src 'self'",
                         "require-trusted-types-for 'script'"):
                self.assertIn(rule, policy)
        self.assertEqual(get(self.gateway, "/dashboard/nothing.js")[0], 404)

    def test_the_reference_has_every_operation(self):
        document = self.answer("openapi.json")
        ids = {operation["operationId"] for methods in document["paths"].values() for operation in methods.values()
               if isinstance(operation, dict)}
        tab = self.browser.open(f"http://127.0.0.1:{self.gateway.http_port}/reference")
        tab.wait_for("h1", "API reference")
        self.assertEqual(set(tab.run("return [...document.querySelectorAll('.operation')].map(each => each.id)")), ids)
        for width in (400, 1280):
            tab.resize(width, 800)
            self.assertLessEqual(tab.run("return document.documentElement.scrollWidth"), width)
        self.leave_quietly(tab)


if __name__ == "__main__":
    unittest.main()
