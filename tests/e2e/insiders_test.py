"""Clients that are in, and take all they can: nobody else loses anything by it, and the memory keeps within bounds."""

import contextlib
import json
import struct
import unittest
import urllib.error
import urllib.request

from abuse_test import MEBIBYTE, Bystander
from gateway import SANITIZED, Client, Gateway, connect_packet, packet, subscribe_packet, text, wait_until

QUOTA = 0x97


def persistent_connect(client, username):
    """CONNECT of MQTT 5.0 with a session that lasts for an hour."""
    properties = b"\x05\x11" + struct.pack(">I", 3600)
    body = text("MQTT") + bytes([5, 0x80]) + struct.pack(">H", 60) + properties + text(client) + text(username)
    return packet(0x10, body)


class InsidersTest(unittest.TestCase):
    def gateway(self, *arguments, shards=1):
        gateway = Gateway("--shards", shards, "--max-message-rate", "0", "--max-byte-rate", "0", *arguments)
        self.enterContext(gateway)
        return gateway

    def client(self, gateway, client, username=None, **options):
        one = Client(gateway.port)
        self.addCleanup(one.close)
        return one.login(client, version=5, username=username or client, **options)

    def session(self, gateway, client, username, *filters):
        """A client that keeps its session, and whether the session was there before."""
        one = Client(gateway.port)
        self.addCleanup(one.close)
        one.version = 5
        one.send(persistent_connect(client, username))
        first, body = one.receive()
        self.assertEqual((first, body[1]), (0x20, 0))
        if filters:
            one.subscribe(*filters, qos=1)
        return one, body[0] == 1

    def test_filters_take_no_more_memory_than_a_user_may_have(self):
        gateway = self.gateway()
        before = gateway.rss()
        refused = 0
        for number in range(12):
            one = self.client(gateway, f"greedy{number}", "greedy")
            for part in range(40):
                filters = [f"{part}/{i}/".ljust(60_000, "x") for i in range(4)]
                one.send(subscribe_packet(*filters, version=5))
                refused += one.receive()[1][3:].count(QUOTA)
        self.assertGreater(refused, 1000)
        self.assertGreater(gateway.metric("pulsegate_limit_hits_total", limit="max-client-memory"), 0)
        self.assertGreater(gateway.metric("pulsegate_limit_hits_total", limit="max-user-memory"), 0)
        if not SANITIZED:
            self.assertLess(gateway.rss() - before, 80 * MEBIBYTE)
        self.client(gateway, "modest").subscribe("a/+", "b")

    def test_deep_wildcards_are_refused_before_a_message_is_held_up_by_them(self):
        gateway = self.gateway()
        one = self.client(gateway, "deep")
        granted = 0
        for part in range(10):
            filters = ["/".join("a+"[part * 20 + i >> level & 1] for level in range(128)) for i in range(20)]
            one.send(subscribe_packet(*filters, version=5))
            granted += one.receive()[1][3:].count(0)
        self.assertLess(granted, 100)
        with Bystander(gateway):
            publisher = self.client(gateway, "publisher")
            for _ in range(20):
                publisher.publish("/".join(["a"] * 128), b"x")
            publisher.ping()

    def test_connects_that_never_end_use_nothing_up(self):
        gateway = self.gateway("--memory-budget", "200MiB")
        before = gateway.rss()
        beginning = connect_packet("c" * 200, will=("will", "w" * 60_000), username="u" * 60_000)[:-1]
        self.assertGreater(len(beginning), 100_000)
        for _ in range(800):
            one = Client(gateway.port)
            self.addCleanup(one.close)
            try:
                one.send(beginning)
            except ConnectionError:
                pass
        gateway.wait_for_log("unfinished packets use too much of memory-budget")
        if not SANITIZED:
            self.assertLess(gateway.rss() - before, 80 * MEBIBYTE)  # of which the allocator keeps some
        self.client(gateway, "honest").ping()

    def test_unfinished_packets_of_all_shards_share_one_budget(self):
        gateway = self.gateway("--memory-budget", "200MiB", shards=2)
        clients, size, budget = 100, 250_000, 16 * MEBIBYTE
        beginning = packet(0x30, text("x") + b"y" * size)[:-1]
        for number in range(clients):  # of both shards, each of which has less than the budget
            one = self.client(gateway, f"slow{number}")
            with contextlib.suppress(ConnectionError):
                one.send(beginning)
        cut = clients - budget // size
        wait_until(lambda: gateway.metric("pulsegate_limit_hits_total", limit="memory-budget") >= cut,
                   what=f"the end of {cut} clients")
        self.client(gateway, "honest").ping()

    def test_memory_that_is_free_again_refuses_nobody(self):
        share = ("--max-retained-bytes", "90MiB", "--max-retained-bytes-per-user", "90MiB")
        gateway = self.gateway("--memory-budget", "100MiB", *share)
        with gateway.connect("hoarder") as hoarder:
            for number in range(4000):  # until memory is scarce: small ones lie between large ones
                hoarder.publish(f"large/{number}", b"!" * 30_000, qos=1, flags=1)
                hoarder.receive()
                hoarder.publish(f"small/{number}", b"!", qos=1, flags=1)
                hoarder.receive()
                if number % 100 == 0 and gateway.metric("pulsegate_messages_not_retained_total") > 0:
                    break
            self.assertEqual(gateway.ask("DELETE", "/api/v1/retained?filter=large/%23")[0], 200)
        newcomer = self.client(gateway, "newcomer")

        def subscribes():
            newcomer.send(subscribe_packet("talk", version=5))
            return newcomer.receive()[1][-1] == 0

        wait_until(subscribes)

    def test_no_session_ends_for_what_another_user_has_queued(self):
        gateway = self.gateway("--persistent-session-bytes", "5MiB")
        for number in range(40):
            self.session(gateway, "phone", f"victim{number}", f"for/{number}")[0].disconnect()
        sender = self.client(gateway, "sender")
        for number in range(40):
            sender.publish(f"for/{number}", b"important", qos=1)
            sender.receive()
        for number in range(50):
            self.session(gateway, f"phone{number}", "mallory", "m/x")[0].disconnect()
        for _ in range(30):  # 3 MB in memory; 150 MB if each queue counted
            sender.publish("m/x", b"!" * 100_000, qos=1)
            sender.receive()
        for number in range(0, 40, 2):
            phone, present = self.session(gateway, "phone", f"victim{number}")
            self.assertTrue(present)
            self.assertEqual(phone.receive_publish(), (f"for/{number}", b"important"))
        self.assertTrue(self.session(gateway, "phone0", "mallory")[1])

        self.session(gateway, "greedy", "mallory", "m2/x")[0].disconnect()
        for _ in range(35):  # now it is too much, and it is mallory's
            sender.publish("m2/x", b"!" * 100_000, qos=1)
            sender.receive()
        gateway.wait_for_log("of user 'mallory': session ended: persistent-session-bytes is exceeded")
        for number in range(1, 40, 2):
            self.assertTrue(self.session(gateway, "phone", f"victim{number}")[1])

    def test_a_sender_can_not_push_others_messages_out_of_an_inbox(self):
        gateway = self.gateway("--max-queued-bytes", "1MiB")
        self.session(gateway, "phone", "bob")[0].disconnect()
        friend, stranger = self.client(gateway, "friend"), self.client(gateway, "stranger")
        friend.publish("inbox/bob", b"important", qos=1)
        friend.receive()
        for number in range(18):
            stranger.publish("inbox/bob", bytes([number]) * 100_000, qos=1)
            stranger.receive()
        phone, present = self.session(gateway, "phone", "bob")
        self.assertTrue(present)
        self.assertEqual(phone.receive_publish(), ("inbox/bob", b"important"))
        self.assertEqual(phone.receive_publish()[1][0], 18 - 10)

    def test_users_that_have_filled_all_inboxes_give_way_to_users_with_few(self):
        gateway = self.gateway("--max-inboxes", "100", shards=2)
        for number in range(10):
            mallory = self.client(gateway, f"mallory{number}")
            for victim in range(10):
                mallory.publish(f"inbox/{number}-{victim}", b"!", qos=1)
                self.assertEqual(mallory.receive()[1][2:], b"")
        # The shard decides which sender learns of the drop, because nothing is stored here.
        mallory.publish("inbox/one-more", b"!", qos=1)
        wait_until(lambda: gateway.metric("pulsegate_messages_dropped_total", reason="no_inbox") == 1, what="a drop")
        alice = self.client(gateway, "alice")
        for name in "carol", "dave":
            alice.publish(f"inbox/{name}", b"hello", qos=1)
            self.assertEqual(alice.receive()[1][2:], b"")
            self.assertEqual(self.client(gateway, f"{name}-phone", name).receive_publish(), (f"inbox/{name}", b"hello"))

    def test_retained_messages_are_deleted_by_filter_and_by_user(self):
        gateway = self.gateway("--max-retained-messages-per-user", "10", shards=2)
        for user, rooms in ("mallory", 12), ("alice", 3):
            one = self.client(gateway, user)
            for number in range(rooms):
                one.publish(f"{user}/{number}", b"kept", qos=1, flags=1)
                one.receive()

        def kept():
            reader = self.client(gateway, "reader")
            reader.subscribe("+/+")
            topics = set()
            reader.publish("the/end", b"", qos=0)
            while (topic := reader.receive_publish()[0]) != "the/end":
                topics.add(topic)
            return topics

        def delete(query):
            url = f"http://127.0.0.1:{gateway.http_port}/api/v1/retained{query}"
            request = urllib.request.Request(url, method="DELETE")
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)

        self.assertEqual(len(kept()), 13)
        self.assertEqual(delete("?user=mallory&filter=mallory/7"), {"deleted": 1})
        self.assertEqual(delete("?user=mallory"), {"deleted": 9})
        self.assertEqual(kept(), {"alice/0", "alice/1", "alice/2"})
        self.assertEqual(delete("?filter=alice/%2B"), {"deleted": 3})
        self.assertEqual(kept(), set())
        for query in "", "?filter=a%23":
            with self.assertRaises(urllib.error.HTTPError) as refusal:
                delete(query)
            self.assertEqual(refusal.exception.code, 400)

    def test_the_packets_of_many_at_once_leave_turns_to_others(self):
        gateway = self.gateway()
        members = [self.client(gateway, f"member{number}") for number in range(200)]
        for one in members:
            one.subscribe("room")
        loud = [self.client(gateway, f"loud{number}") for number in range(30)]
        with Bystander(gateway):
            for one in loud:
                one.send(b"".join(packet(0x30, text("room") + b"\0" + b"x") for _ in range(100)))
            for one in members:
                for _ in range(3000):
                    self.assertEqual(one.receive()[0], 0x30)
            wait_until(lambda: gateway.metric("pulsegate_messages_received_total") >= 3000, what="all messages")


if __name__ == "__main__":
    unittest.main()
