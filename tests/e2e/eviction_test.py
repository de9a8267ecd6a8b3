"""A user's clients in the HTTP API: what it shows of them, and how it throws them out."""

import contextlib
import threading
import unittest

from gateway import Client, Gateway, connect_packet, wait_until
from packets import DISCONNECT


class EvictionTest(unittest.TestCase):
    def setUp(self):
        self.gateway = self.enterContext(Gateway("--shards", "2"))

    def ask(self, method, query):
        return self.gateway.ask(method, f"/api/v1/clients?{query}")

    def clients(self, user):
        status, said = self.ask("GET", f"user={user}")
        return {one["client"]: one for one in said["clients"]} if status == 200 else {}

    def connect(self, client, user="bob", **options):
        return self.gateway.connect(client, username=user, **options)

    def leave_session(self, client):
        """With a message that waits."""
        session = self.connect(client, clean=False)
        session.subscribe("room/a", qos=1)
        session.disconnect()
        wait_until(lambda: not self.clients("bob")[client]["connected"], what="that it has gone")

    def test_clients_are_shown_with_what_waits_for_them(self):
        self.leave_session("tablet")
        phone = self.connect("phone")
        phone.subscribe("room/b")
        sender = self.connect("sender", user="alice")
        sender.publish("room/a", b"hello", qos=1)
        wait_until(lambda: self.clients("bob")["tablet"]["queued"] == 1, what="the message")
        shown = self.clients("bob")
        self.assertEqual(set(shown), {"phone", "tablet"})
        self.assertTrue(shown["phone"]["connected"])
        self.assertEqual(shown["phone"]["mqtt"], "3.1.1")
        self.assertTrue(shown["phone"]["address"].startswith("127.0.0.1"))
        self.assertEqual((shown["tablet"]["subscriptions"], shown["phone"]["queued"]), (1, 0))
        status, said = self.ask("GET", "user=bob&client=tablet")
        self.assertEqual(status, 200)
        self.assertEqual(said["clients"][0]["filters"], [{"filter": "room/a", "qos": 1}])
        self.assertEqual(self.ask("GET", "user=nobody")[0], 404)

    def test_one_client_is_disconnected_and_told_why(self):
        phone, desk = self.connect("phone", version=5), self.connect("desk")
        self.assertEqual(self.ask("DELETE", "user=bob&client=phone"), (200, {"disconnected": 1, "ended": 0}))
        *_, (first, body) = phone.receive_until_closed()
        self.assertEqual((first >> 4, body[0]), (DISCONNECT, 0x98))
        desk.ping()
        self.connect("phone").ping()  # it may come back

    def test_all_clients_and_sessions_of_a_user_go_and_no_others(self):
        other = self.connect("phone", user="alice")
        crowd = [self.connect(f"c{i}") for i in range(90)]
        self.leave_session("tablet")
        self.assertEqual(self.ask("DELETE", "user=bob&sessions=end"), (200, {"disconnected": 90, "ended": 91}))
        for client in crowd:
            self.assertEqual(client.receive_until_closed(), [])
        wait_until(lambda: self.clients("bob") == {}, what="that all have gone")
        other.ping()
        back = Client(self.gateway.port)
        back.send(connect_packet("tablet", username="bob", clean=False))
        self.assertEqual(back.receive(), (0x20, b"\x00\x00"))  # without a session
        back.close()

    def test_a_session_without_a_client_stays_unless_it_is_to_end(self):
        self.leave_session("tablet")
        self.assertEqual(self.ask("DELETE", "user=bob")[0], 404)
        self.assertIn("tablet", self.clients("bob"))
        self.assertEqual(self.ask("DELETE", "user=bob&client=tablet&sessions=end"), (200, {"disconnected": 0, "ended": 1}))
        self.assertEqual(self.ask("DELETE", "user=bob&client=tablet&sessions=end")[0], 404)

    def test_clients_that_come_back_at_once_save_none_of_the_others(self):
        crowd = [self.connect(f"c{i}") for i in range(90)]
        stop = threading.Event()

        def come_back():
            while not stop.is_set():
                for client in self.clients("bob").keys() ^ {f"c{i}" for i in range(90)}:
                    with contextlib.suppress(AssertionError, OSError):
                        self.connect(client)

        returning = threading.Thread(target=come_back)
        returning.start()
        try:
            self.assertEqual(self.ask("DELETE", "user=bob"), (200, {"disconnected": 90, "ended": 0}))
        finally:
            stop.set()
            returning.join()
        for client in crowd:
            client.receive_until_closed()

    def test_what_was_lent_from_the_inbox_goes_to_another_device(self):
        self.connect("sender", user="alice").publish("inbox/bob", b"hello", qos=1)
        wait_until(lambda: self.gateway.metric("pulsegate_messages_queued") == 1, what="the message in the inbox")
        first = self.connect("first", clean=False)
        self.assertEqual(first.receive()[0] & 0xF0, 0x30)  # and acknowledges nothing
        second = self.connect("second")
        first.close()
        wait_until(lambda: not self.clients("bob")["first"]["connected"], what="that it has gone")
        self.assertEqual(self.ask("DELETE", "user=bob&client=first&sessions=end")[0], 200)
        self.assertEqual(second.receive_publish(), ("inbox/bob", b"hello"))

    def test_a_mistake_in_the_query_throws_nobody_out(self):
        phone = self.connect("phone")
        for query in ("", "client=phone", "user=bob&clinet=phone", "user=bob&client=", "user=bob&client=%FF",
                      "user=bob&sessions=keep", "user=bob&client=phone&client=desk", "user"):
            with self.subTest(query=query):
                status, said = self.ask("DELETE", query)
                self.assertEqual(status, 400, said)
        phone.ping()


if __name__ == "__main__":
    unittest.main()
