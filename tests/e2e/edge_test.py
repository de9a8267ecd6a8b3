"""Clients of a standby that serves as an edge: it keeps their sockets, and their sessions are on the other node."""

import concurrent.futures
import contextlib
import json
import re
import struct
import threading
import unittest

import packets
from cluster_test import ask, leave_a_session, publish, reason_of, returned
from edge_nodes import EdgeCase, last_cause, state
from gateway import (DISCONNECT, PATIENCE, PINGREQ, SANITIZED, Client, connect_packet, packet, publish_packet, subscribe_packet,
                     text, wait_until)

BIG = 1_000_000
MOST_MEMORY = (2000 if SANITIZED else 300) << 20


class TalkTest(EdgeCase):
    arguments = ("--max-packet-size", "2MiB", "--output-budget", "4MiB", "--duel-takeovers", "0", "--ban-flaps", "0")

    def test_a_client_of_an_edge_talks_to_a_client_of_the_home(self):
        home, edge = self.nodes()
        with edge.connect("ann") as ann, home.connect("bob") as bob:
            ann.subscribe("to/ann", qos=1)
            bob.subscribe("to/bob", qos=1)
            ann.publish("to/bob", b"hello", qos=1, packet_id=7)
            self.assertEqual(bob.receive_publish(), ("to/bob", b"hello"))
            self.assertEqual(ann.receive(), (0x40, b"\0\7"))
            bob.publish("to/ann", b"hi", qos=1, packet_id=8)
            self.assertEqual(ann.receive_publish(), ("to/ann", b"hi"))
            ann.ping()
            status, found = home.get_json("/api/v1/clients?user=ann")
            self.assertEqual(status, 200)
            (shown,) = found["clients"]
            self.assertEqual(shown["address"], "127.0.0.1:%d" % ann.socket.getsockname()[1])
            self.assertEqual(shown["listener"], f"mqtt://127.0.0.1:{edge.port}")
            self.assertEqual(home.metric("pulsegate_forwarded_clients"), 1)
            self.assertEqual((edge.metric("pulsegate_edge_linked"), edge.metric("pulsegate_edge_connections")), (1, 1))

    def test_an_edge_answers_as_the_home_does(self):
        home, edge = self.nodes()
        login = connect_packet("p", version=5)
        old = connect_packet("p")
        for sent in (
                connect_packet("", version=5), connect_packet("", clean=False), connect_packet(""),
                b"\x10\x00", b"\x10\x02\x00\x00", packet(0x10, text("MQTT") + b"\x07\x02\x00\x00" + text("p")),
                packet(0x10, text("HTTP") + b"\x04\x02\x00\x00" + text("p")), b"GET / HTTP/1.1\r\n\r\n",
                packet(0x10, text("MQTT") + b"\x04\x03\x00\x00" + text("p")), PINGREQ, b"\x00\x00", b"\xf0\x00",
                connect_packet("p", version=5, will=("a/+", "no")), connect_packet("p" * 2000, version=5),
                login + login, login + b"\x00\x00", login + b"\xf0\x00", login + b"\xf1\x00", login + b"\x20\x02\0\0",
                login + b"\xc1\x00", login + b"\xc0\x01\x00", login + b"\x80\x00", login + b"\x82\x02\x00\x00",
                login + publish_packet("a/#", b"", version=5), login + publish_packet("", b"", version=5),
                login + publish_packet("a", b"", version=5, qos=3), login + b"\x30\xff\xff\xff\xff\x7f",
                login + b"\x30\xff\xff\xff\x7f", login + packet(0x30, text("a") + b"\x03\x23\x00\x00x"),
                login + packet(0x62, b"\0\1"), login + packet(0x60, b"\0\1"), login + packet(0x40, b"\0\0"),
                login + subscribe_packet("a/#/b", version=5), login + packet(0xe0, b"\x00\x05\x11\0\0\0\1"),
                login + packet(0xe0, b"\x04"), login + DISCONNECT, login + packet(0xf0, b"\x18\0"),
                old + b"\x00\x00", old + old, old + DISCONNECT, old + publish_packet("a", b"", qos=1) + DISCONNECT,
                old + subscribe_packet("a", "b/+", "#") + publish_packet("b/c", b"!", qos=2) + DISCONNECT):
            with self.subTest(sent[:80]):
                answers = []
                client_id = not sent.endswith(text(""))
                for port in (home.port, edge.port):
                    with Client(port) as client:
                        client.send(sent + DISCONNECT)
                        # The id that the gateway assigns is another one each time.
                        answers.append([(first, body if client_id or first != 0x20 else len(body))
                                        for first, body in client.receive_until_closed()])
                self.assertEqual(*answers)

    def test_a_session_goes_on_at_the_other_node(self):
        home, edge = self.nodes()
        leave_a_session(edge, "bob", "chat/#")
        with home.connect("ann", version=5) as ann:
            self.assertEqual(reason_of(publish(ann, "chat/a", b"one")), 0)
        with returned(edge, "bob") as bob:
            self.assertEqual(bob.receive_publish(), ("chat/a", b"one"))
            bob.disconnect()
        with edge.connect("ann", version=5) as ann:
            self.assertEqual(reason_of(publish(ann, "chat/a", b"two")), 0)
        with returned(home, "bob") as bob:
            self.assertEqual(bob.receive_publish(), ("chat/a", b"two"))

    def test_one_client_id_moves_between_the_nodes_and_stays_online(self):
        home, edge = self.nodes()
        second = self.edge(name="second")
        watcher = home.connect("watcher")
        watcher.subscribe("presence/ann")
        old = edge.connect("ann", version=5)
        self.assertEqual(json.loads(watcher.receive_publish()[1])["state"], "online")
        for turn in range(10 if SANITIZED else 50):
            new = (home, edge, second, edge)[turn % 4].connect("ann", version=5)
            first, body = old.receive_until_closed()[-1]
            self.assertEqual((first, body[0]), (0xE0, 0x8E))
            new.ping()
            old = new
        old.disconnect()
        events = [json.loads(watcher.receive_publish()[1]) for _ in range(turn + 2)]
        self.assertEqual([(each["state"], each["cause"]) for each in events],
                         [("online", "taken_over")] * (turn + 1) + [("offline", "logout")])

    def test_two_clients_with_one_id_at_two_edges_take_over_from_each_other_and_stay_online(self):
        home, edge = self.nodes()
        second = self.edge(name="second")
        watcher = home.connect("watcher")
        watcher.subscribe("presence/ann")
        clients = [edge.connect("ann", version=5)]
        self.assertEqual(json.loads(watcher.receive_publish()[1])["state"], "online")
        rounds = 10 if SANITIZED else 50
        both = threading.Barrier(2, timeout=PATIENCE)

        def log_in_again_and_again(gateway):
            for _ in range(rounds):
                both.wait()
                clients.append(gateway.connect("ann", version=5))

        with concurrent.futures.ThreadPoolExecutor() as pool:
            for done in [pool.submit(log_in_again_and_again, gateway) for gateway in (edge, second)]:
                done.result()
        events = [json.loads(watcher.receive_publish()[1]) for _ in range(2 * rounds)]
        self.assertEqual({(each["state"], each["cause"]) for each in events}, {("online", "taken_over")})
        watcher.ping()  # there were no other events
        (shown,) = home.get_json("/api/v1/clients?user=ann")[1]["clients"]
        (survivor,) = (each for each in clients if shown["address"] == "127.0.0.1:%d" % each.socket.getsockname()[1])
        for client in clients:
            if client is not survivor:
                first, body = client.receive_until_closed()[-1]
                self.assertEqual((first, body[0]), (0xE0, 0x8E))
        survivor.ping()
        survivor.disconnect()
        event = json.loads(watcher.receive_publish()[1])
        self.assertEqual((event["state"], event["cause"]), ("offline", "logout"))

    def test_messages_of_qos_2_come_once_both_ways(self):
        home, edge = self.nodes()
        for left, right in ((edge, home), (home, edge), (edge, edge)):
            with left.connect("ann") as ann, right.connect("bob") as bob:
                bob.subscribe("b", qos=2)
                ann.publish("b", b"once", qos=2, packet_id=3)
                self.assertEqual(ann.receive(), (0x50, b"\0\3"))
                ann.send(packet(0x62, b"\0\3"))
                self.assertEqual(ann.receive(), (0x70, b"\0\3"))
                first, body = bob.receive()
                self.assertEqual((first, body[:3], body[5:]), (0x34, text("b"), b"once"))
                bob.send(packet(0x50, body[3:5]))
                self.assertEqual(bob.receive(), (0x62, body[3:5]))
                bob.send(packet(0x70, body[3:5]))
                bob.ping()
                ann.disconnect()
                bob.disconnect()

    def test_retained_shared_and_room_messages_reach_clients_of_both_nodes(self):
        home, edge = self.nodes()
        with edge.connect("ann") as ann, edge.connect("bob") as bob, home.connect("carl") as carl:
            ann.publish("kept", b"value", qos=1, flags=1)
            self.assertEqual(ann.receive()[0], 0x40)
            for client in (bob, carl):
                client.subscribe("kept", qos=1)
                self.assertEqual(client.receive_publish(), ("kept", b"value"))
                client.subscribe("$share/group/work", qos=1)
            for number in range(20):
                ann.publish("work", b"%d" % number, qos=1, packet_id=1 + number)
            for client in (bob, carl):
                client.socket.settimeout(60)
            got = [client.receive_publish()[1] for client in (bob, carl) for _ in range(10)]
            self.assertEqual(sorted(got), sorted(b"%d" % number for number in range(20)))

    def test_wills(self):
        home, edge = self.nodes()
        watcher = home.connect("watcher")
        watcher.subscribe("will/#")
        for version in (4, 5):
            for name, end, comes in (("lost", b"", True), ("left", DISCONNECT, False),
                                     ("bad", b"\x00\x00", True)) + ((("asks", packet(0xE0, b"\4"), True),) * (version == 5)):
                with self.subTest(name, version=version):
                    client = edge.connect(name, version=version, will=(f"will/{name}", "gone"))
                    client.send(end)
                    if not end or end == DISCONNECT:
                        client.close()
                    if comes:
                        self.assertEqual(watcher.receive_publish(), (f"will/{name}", b"gone"))
                    wait_until(lambda name=name: state(home, name) == "offline", what="offline")
                    cause = {"lost": "connection_lost", "bad": "kicked"}.get(name, "logout")
                    self.assertEqual(last_cause(home, name), cause)
        watcher.ping()

    def test_big_messages_pass_both_ways(self):
        home, edge = self.nodes()
        big = bytes(range(250)) * (BIG // 250)
        with edge.connect("ann") as ann, edge.connect("bob") as bob, home.connect("carl") as carl:
            bob.subscribe("big", qos=1)
            carl.subscribe("big", qos=1)
            for number in range(3):
                ann.publish("big", big, qos=1, packet_id=1 + number)
                self.assertEqual(bob.receive_publish(), ("big", big))
                self.assertEqual(carl.receive_publish(), ("big", big))
                self.assertEqual(ann.receive(), (0x40, struct.pack(">H", 1 + number)))
            carl.publish("big", big, qos=1)
            self.assertEqual(bob.receive_publish(), ("big", big))

    def test_the_answer_to_a_ping_never_comes_within_a_message(self):
        home, edge = self.nodes()
        big = bytes(range(250)) * (BIG // 250)
        with Client(edge.port, receive_buffer=4096) as slow, home.connect("carl") as carl:
            slow.login("slow")
            slow.subscribe("big")
            sent = 3
            for _ in range(sent):
                carl.publish("big", big)
            got, pings = b"", 0
            while len(got) < sent * len(big):
                slow.send(PINGREQ)
                pings += 1
                got += slow.socket.recv(20_000)
            slow.put_back(got)
            answers = [slow.receive() for _ in range(sent + pings)]
            self.assertEqual(answers.count((0xD0, b"")), pings)
            self.assertEqual(answers.count((0x30, text("big") + big)), sent)

    def test_a_slow_reader_gets_all_that_has_waited_for_it_however_small_its_budget_is(self):
        budget = 32 << 10
        self.arguments = ("--max-packet-size", budget, "--output-budget", budget, "--max-inflight", "1000", "--max-queued-bytes", "64MiB")
        home, edge = self.nodes()
        leave_a_session(edge, "ann", "to/ann")
        body, sent = bytes(20_000), 500  # more than the kernel keeps for a socket
        with home.connect("bob", version=5) as bob:
            for number in range(sent):
                self.assertEqual(reason_of(publish(bob, "to/ann", body, 1 + number)), 0)
        with Client(edge.port, receive_buffer=4096) as ann:
            ann.send(connect_packet("ann", clean=False))
            self.assertEqual(ann.receive(), (0x20, b"\1\0"))
            # Usually more than the budget; the kernel may take nearly all of the last window.
            wait_until(lambda: edge.metric("pulsegate_output_waiting_bytes") > 0, what="bytes that wait at the edge")
            for _ in range(sent):
                first, received = ann.receive()
                self.assertEqual((first, received[-len(body):]), (0x32, body))


def conversation(left, right):
    """What two clients at these nodes get: topic aliases, a small Receive Maximum and Maximum Packet Size, an inbox, a room,
    and a delayed message."""
    said = []
    with Client(right.port) as bob, Client(left.port) as ann:
        for name, client, props in (("bob", bob, [(0x21, 1), (0x22, 5), (0x27, 500)]), ("ann", ann, [])):
            client.version = 5
            client.send(packets.connect(5, name, props=props))
            said.append(client.receive())
        bob.send(packets.subscribe(5, 1, [(name, 1) for name in ("a/b", "room/1", "inbox/bob", "later")]))
        said.append(bob.receive())
        ann.send(packets.subscribe(5, 1, [("room/1", 1)]))
        said.append(ann.receive())
        sent = [("a/b", b"one", [(0x23, 1)]), ("", b"two", [(0x23, 1)]), ("a/b", b"x" * 600, []), ("room/1", b"all", []),
                ("inbox/bob", b"yours", []), ("$delayed/2/later", b"late", []), ("a/b", b"last", [])]
        for number, (topic, payload, props) in enumerate(sent, 1):
            ann.send(packets.publish(5, topic, payload, qos=1, packet_id=number, props=props))
        got = []
        while not got or b"late" not in got[-1][1]:
            got.append(bob.receive())
            size = got[-1][1][0] << 8 | got[-1][1][1]
            bob.send(packet(0x40, got[-1][1][2 + size:4 + size]))
        said += [body for _, body in got]
        answers = []
        while len(answers) < len(sent) + 1:  # and the message of the room
            answers.append(ann.receive())
        said += sorted(answer[1] for answer in answers if answer[0] == 0x40)
        bob.disconnect()
        ann.disconnect()
    # Stamps and numbers of messages are others each time.
    return [re.sub(rb"\d{9,}", b"N", each if isinstance(each, bytes) else each[1]) for each in said]


class ConversationTest(EdgeCase):
    def test_a_conversation_is_the_same_at_all_nodes(self):
        home, edge = self.nodes("--ban-flaps", "0")
        expected = conversation(home, home)
        self.assertGreater(len(expected), 12)
        for left, right in ((edge, edge), (edge, home), (home, edge)):
            with self.subTest(left=left is edge, right=right is edge):
                self.assertEqual(conversation(left, right), expected)


class LimitsTest(EdgeCase):
    arguments = ("--ban-flaps", "0")

    def test_a_client_that_does_not_read_is_disconnected(self):
        home, edge = self.nodes()
        with Client(edge.port, receive_buffer=4096) as lazy, home.connect("ann") as ann:
            lazy.login("lazy")
            lazy.subscribe("much")
            while state(home, "lazy") == "online":
                for _ in range(10):
                    ann.publish("much", b"x" * 100_000)
                ann.ping()
            self.assertEqual(last_cause(home, "lazy"), "kicked")
            home.wait_for_log("client 'lazy' of user 'lazy': kicked: slow consumer")
        for gateway in (home, edge):
            self.assertLess(gateway.rss(), MOST_MEMORY)

    def crowd(self, edge, *filters):
        """More clients than fit into a link that only ends when 64 MiB wait for it, if each has a window's worth."""
        clients = [edge.connect(f"c{number}") for number in range(100 if SANITIZED else 1100)]
        for client in clients if filters else ():
            client.send(subscribe_packet(*filters))
        for client in clients if filters else ():
            self.assertEqual(client.receive()[0], 0x90)
        return clients

    def test_a_message_for_very_many_clients_of_an_edge_reaches_them_all(self):
        home, edge = self.nodes("--login-rate", "0")
        clients = self.crowd(edge, "all")
        with home.connect("ann") as ann:
            ann.publish("all", b"x" * 100_000)
            for client in clients:
                self.assertEqual(len(client.receive_publish()[1]), 100_000)
        self.assertEqual(edge.log.count("linked to node home"), 1)

    def test_very_many_senders_at_an_edge_wait_while_the_home_is_slow(self):
        home, edge = self.nodes("--login-rate", "0")
        clients = self.crowd(edge)
        watcher = home.connect("watcher")
        watcher.subscribe("done/#")
        with home.standing_still():
            for client in clients:
                client.socket.setblocking(False)
                client.rest = publish_packet("a", b"x" * 65_000) * 3
                with contextlib.suppress(BlockingIOError):
                    client.rest = client.rest[client.socket.send(client.rest):]
            clients[0].socket.settimeout(60)
            self.assertEqual(ask(edge.http_port, "/healthz")[0], 200)
        for number, client in enumerate(clients):
            client.socket.setblocking(True)
            client.send(client.rest + publish_packet(f"done/{number}", b""))
        self.assertEqual({watcher.receive_publish()[0] for _ in clients}, {f"done/{number}" for number in range(len(clients))})
        self.assertEqual(edge.log.count("linked to node home"), 1)
        self.assertLess(edge.rss(), MOST_MEMORY)

    def test_a_client_that_floods_with_acknowledgements_waits(self):
        home, edge = self.nodes("--max-message-rate", "1000")
        with edge.connect("flood") as flood, edge.connect("ann") as ann:
            flood.socket.setblocking(False)
            much = publish_packet("a", b"x" * 1000) * 20 + packet(0x40, b"\0\1") * 200_000
            sent = 0
            while sent < 200 << 20:  # until the edge reads no more
                try:
                    sent += flood.socket.send(much)
                except BlockingIOError:
                    break
                except ConnectionError:
                    break
            ann.ping()
            for gateway in (home, edge):
                self.assertLess(gateway.rss(), MOST_MEMORY)


if __name__ == "__main__":
    unittest.main()
