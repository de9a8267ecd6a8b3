"""What clients of an edge notice when a node or the link between the nodes fails."""

import json
import os
import select
import signal
import socket
import time
import unittest

from certificates import Certificates
from cluster_test import LEASE, ask, leave_a_session, node, publish, reason_of, returned
from edge_nodes import EdgeCase, await_link, first_offline, last_cause, observed, state
from fake_edge import ACCEPTED, BYTES, CONNECTION_LOST, END, TAKEN, FakeEdge
from gateway import DISCONNECT, PINGREQ, PUBACK, SANITIZED, Client, connect_packet, wait_until
from link_relay import FrameRelay
from ports import free_port
from relayed_case import RelayedCase

SHORT = 3  # seconds of keepalive; its client is offline after one and a half times that
LIMIT = 4.5


class LostEdgeTest(EdgeCase):
    def test_a_client_of_a_killed_edge_is_offline_after_its_limit(self):
        home, edge = self.nodes()
        edge.connect("ann", keepalive=SHORT, will=("will", "gone"))
        watcher = observed(home, "ann", "will")
        killed = time.monotonic()
        edge.kill()
        said = {}
        while set(said) != {"will", "offline"}:
            topic, body = watcher.receive_publish()
            said[topic if topic == "will" else json.loads(body)["state"]] = body
            said.pop("online", None)
        self.assertGreater(time.monotonic() - killed, LIMIT - 0.1)
        self.assertLess(time.monotonic() - killed, LIMIT + 20)
        self.assertEqual(said["will"], b"gone")
        self.assertEqual(json.loads(said["offline"])["cause"], "node_lost")
        self.assertEqual(last_cause(home, "ann"), "node_lost")
        self.assertEqual(home.metric("pulsegate_connections"), 1)

    def test_a_client_that_comes_back_from_a_killed_edge_was_never_offline(self):
        home, edge = self.nodes()
        second = self.edge(name="second")
        for end in (edge.kill, second.stop):  # or a node that stops in order
            at = edge if end == edge.kill else second
            for name in ("ann", "bob"):
                at.connect(name, version=5, keepalive=60)
            watchers = {name: observed(home, name) for name in ("ann", "bob")}
            end()
            for name, where in (("ann", home), ("bob", second if end == edge.kill else home)):
                client = where.connect(name, version=5)
                client.disconnect()  # that is the next thing that is heard
                event = first_offline(watchers[name])
                self.assertEqual((event["state"], event["cause"]), ("offline", "logout"))
                watchers[name].disconnect()

    def test_the_clients_of_a_lost_edge_are_no_forwarded_clients(self):
        home, edge = self.nodes()
        for each in (home, edge):
            each.connect()
        self.assertEqual(home.metric("pulsegate_forwarded_clients"), 1)
        edge.kill()
        wait_until(lambda: home.metric("pulsegate_forwarded_clients") == 0, what="the end of the link")
        self.assertEqual(home.metric("pulsegate_sessions"), 2)  # it may come back
        self.assertEqual(home.ask("GET", "/api/v1/drain")[1]["clients"], 1)

    def test_the_clients_of_an_edge_that_stops_leave_bit_by_bit(self):
        notice = 5  # seconds
        home, edge = self.home(), self.edge("--drain-notice", f"{notice}s", "--drain-time", "3s")
        crowd = [edge.connect(f"c{number}", version=5, clean=False) for number in range(20)]
        watcher = home.connect("watcher")
        watcher.subscribe("presence/+")
        for _ in range(len(crowd) + 1):  # it sees itself, too
            watcher.receive_publish()
        began, left = time.monotonic(), []
        edge.process.send_signal(signal.SIGTERM)
        wait_until(lambda: ask(edge.http_port, "/readyz")[0] == 503, what="not ready")
        crowd[0].ping()
        for number, client in enumerate(crowd):
            answers = client.receive_until_closed()
            self.assertEqual([(first, body[0]) for first, body in answers], [(0xE0, 0x8B)])
            left.append(time.monotonic() - began)
            home.connect(f"c{number}", version=5)
        self.assertGreater(max(left), notice + 0.5)  # else all have left at once
        self.assertEqual(edge.process.wait(60), 0)
        home.connect("last")
        user = ""
        while user != "last":
            event = json.loads(watcher.receive_publish()[1])
            user = event["user"]
            self.assertEqual(event["state"], "online")  # a takeover, before "last" comes

    def test_a_shared_subscription_passes_over_the_clients_of_an_edge_that_stops(self):
        home, edge = self.nodes()
        stays = home.connect("stays")
        members = [edge.connect("ann"), edge.connect("bob"), stays]
        for member in members:
            member.subscribe("$share/group/work", qos=1)
        sender = home.connect("sender")
        for number in range(3):  # each gets one, and ann and bob don't acknowledge theirs
            self.assertEqual(publish(sender, "work", b"first %d" % number, 1 + number)[0] >> 4, PUBACK)
        self.assertEqual(stays.receive_publish()[1], b"first 2")
        edge.stop()
        self.assertEqual({stays.receive_publish()[1] for _ in range(2)}, {b"first 0", b"first 1"})
        for number in range(30):
            sender.publish("work", b"%d" % number)
        self.assertEqual([stays.receive_publish()[1] for _ in range(30)], [b"%d" % number for number in range(30)])

    def test_the_will_of_a_client_that_comes_back_from_a_killed_edge_is_not_sent(self):
        home, edge = self.nodes()
        for number in range(3):
            edge.connect(f"ann{number}", clean=False, keepalive=60, will=("will", "gone"))
            edge.connect(f"bob{number}", version=4 + number % 2, keepalive=60, will=("will", "gone"))
        watcher = home.connect("watcher")
        watcher.subscribe("will")
        edge.kill()
        home.wait_for_log("its connection is lost")
        for number in range(3):
            with returned(home, f"ann{number}") as back:
                back.publish("will", b"back", qos=1)
                self.assertEqual(watcher.receive_publish(), ("will", b"back"))
            home.connect(f"bob{number}").publish("will", b"here")
            self.assertEqual(watcher.receive_publish(), ("will", b"here"))

    def test_a_client_of_an_edge_that_stands_still_is_offline_after_its_limit(self):
        home, edge = self.nodes()
        ann = edge.connect("ann", version=5, keepalive=SHORT)
        watcher = observed(home, "ann")
        edge.process.send_signal(signal.SIGSTOP)
        event = first_offline(watcher)
        self.assertEqual((event["state"], event["cause"]), ("offline", "node_lost"))
        edge.process.send_signal(signal.SIGCONT)
        self.assertIsNotNone(ann.receive_until_closed())
        wait_until(lambda: edge.log.count("linked to node home") == 2, what="another link")
        wait_until(lambda: ask(edge.http_port, "/readyz")[0] == 200, what="the link")
        with edge.connect("ann") as back:
            self.assertEqual(json.loads(watcher.receive_publish()[1])["state"], "online")
            back.ping()

    def test_a_home_that_stops_hands_over_to_an_edge_that_stands_still(self):
        home, edge = self.nodes()
        home.connect("ann", keepalive=60)
        watcher = observed(home, "ann")
        before = home.get_json("/api/v1/users/ann")[1]
        edge.process.send_signal(signal.SIGSTOP)
        self.addCleanup(edge.process.send_signal, signal.SIGCONT)
        wait_until(lambda: max(each["beat_age_ms"] for each in home.get_json("/api/v1/cluster")[1]["nodes"]) > 3500)
        home.stop()
        self.assertNotIn(b'"offline"', b"".join(body for _, body in watcher.receive_until_closed()))
        edge.process.send_signal(signal.SIGCONT)
        edge.await_ready()
        user = edge.get_json("/api/v1/users/ann")[1]
        self.assertEqual((user["state"], user["since"]), ("online", before["since"]))
        self.assertGreaterEqual(user["version"], before["version"])

    def test_a_home_that_stands_still_for_some_seconds_is_not_noticed(self):
        home, edge = self.nodes()
        ann = edge.connect("ann", keepalive=SHORT)
        bob = edge.connect("bob", keepalive=SHORT)
        bob.subscribe("to/bob", qos=1)
        home.process.send_signal(signal.SIGSTOP)
        self.addCleanup(home.process.send_signal, signal.SIGCONT)
        os.waitpid(home.pid, os.WUNTRACED)  # all of its threads stand still
        ann.publish("to/bob", b"waits", qos=1)
        end = time.monotonic() + 3
        while time.monotonic() < end:
            ann.ping()
            bob.ping()
        home.process.send_signal(signal.SIGCONT)
        self.assertEqual(bob.receive_publish(), ("to/bob", b"waits"))
        self.assertEqual(ann.receive()[0], 0x40)

    def test_clients_of_a_stopped_edge_that_come_back_while_their_home_stands_still_were_never_offline(self):
        home, edge = self.nodes()
        names = [f"ann{number}" for number in range(200)]  # more than the home accepts before its first tick
        before = [self.enterContext(Client(edge.port)) for _ in names]
        for client, name in zip(before, names):
            client.send(connect_packet(name, keepalive=2 * SHORT))
        for client in before:  # all at once, because nobody pings
            self.assertEqual(client.receive(), (0x20, bytes(2)))
        watcher = home.connect("watcher")
        watcher.subscribe("presence/+")
        edge.stop()
        home.process.send_signal(signal.SIGSTOP)
        self.addCleanup(home.process.send_signal, signal.SIGCONT)
        os.waitpid(home.pid, os.WUNTRACED)
        clients = [self.enterContext(Client(home.port)) for _ in names]
        for client, name in zip(clients, names):
            client.send(connect_packet(name))
        self.assertFalse(select.select([clients[0].socket], [], [], 2 * LIMIT + SHORT)[0])
        home.process.send_signal(signal.SIGCONT)
        for client in clients:
            self.assertEqual(client.receive()[0], 0x20)
        for client in clients:
            client.disconnect()
        causes = {}
        while len(causes) < len(names):
            event = json.loads(watcher.receive_publish()[1])
            if event["state"] == "offline":
                causes.setdefault(event["user"], event["cause"])
        self.assertEqual(set(causes.values()), {"logout"})


class SilenceTest(EdgeCase):
    def test_a_client_that_only_pings_stays_online(self):
        home, edge = self.nodes()
        ann = edge.connect("ann", keepalive=1)
        watcher = observed(home, "ann")
        silent = edge.connect("silent", keepalive=SHORT)  # its end shows that much time has passed
        began = time.monotonic()
        while not select.select([silent.socket], [], [], 0.1)[0]:
            ann.ping()
        self.assertGreater(time.monotonic() - began, LIMIT - 0.1)
        self.assertLess(time.monotonic() - began, LIMIT + 20)
        wait_until(lambda: state(home, "silent") == "offline")
        self.assertEqual(last_cause(home, "silent"), "timeout")
        self.assertEqual(state(home, "ann"), "online")
        ann.send(DISCONNECT)
        ann.close()
        self.assertEqual(first_offline(watcher)["cause"], "logout")

    def test_a_disconnect_right_before_the_close_is_a_logout(self):
        home, edge = self.nodes("--ban-flaps", "0")
        for number in range(50):
            with Client(edge.port) as client:
                client.send(connect_packet(f"c{number}", version=5) + DISCONNECT)
                client.receive_until_closed()
            with edge.connect(f"d{number}") as client:
                client.send(DISCONNECT)
        for number in range(50):
            for name in "cd":
                wait_until(lambda: state(home, f"{name}{number}") == "offline", what="offline")
                self.assertEqual(last_cause(home, f"{name}{number}"), "logout")


class LostHomeTest(EdgeCase):
    def test_an_edge_takes_over_from_a_killed_home(self):
        home, edge = self.nodes(lease=LEASE)
        leave_a_session(edge, "bob", "chat/#")
        ann = edge.connect("ann", version=5)
        self.assertEqual(reason_of(publish(ann, "chat/a", b"one")), 0)
        home.kill()
        answers = ann.receive_until_closed()
        self.assertEqual([(first, body[0]) for first, body in answers], [(0xE0, 0x8B)])
        edge.await_ready()
        with returned(edge, "bob") as bob:
            self.assertEqual(bob.receive_publish(), ("chat/a", b"one"))
        wait_until(lambda: ask(edge.http_port, "/readyz")[0] == 200, what="Redis in time")

    def test_clients_of_another_edge_go_on_after_a_takeover(self):
        home, edge = self.nodes(lease=LEASE)
        second = self.edge(name="second", lease=LEASE)
        for each in (edge, second):
            leave_a_session(each, f"kept{each.port}", "chat/#")
        with edge.connect("ann", version=5) as ann:
            self.assertEqual(reason_of(publish(ann, "chat/a", b"one")), 0)
        clients = [each.connect("c%d" % each.port, version=5) for each in (edge, second)]
        home.kill()
        for client in clients:
            self.assertIn([first for first, _ in client.receive_until_closed()], ([], [0xE0]))
        winner = wait_until(lambda: next((each for each in (edge, second) if " ready: " in each.log), None))
        loser = second if winner is edge else edge
        await_link(loser, "edge" if winner is edge else "second")
        for each in (edge, second):
            with returned(loser, f"kept{each.port}") as kept:
                self.assertEqual(kept.receive_publish(), ("chat/a", b"one"))
        loser.connect("c%d" % loser.port)
        self.assertEqual(state(winner, "c%d" % loser.port), "online")

    def test_an_edge_that_takes_over_tells_its_clients(self):
        home, edge = self.nodes(lease=60)
        leave_a_session(edge, "bob", "chat/#")
        ann, old = edge.connect("ann", version=5), edge.connect("old")
        home.stop()
        self.assertEqual([(first, body[0]) for first, body in ann.receive_until_closed()], [(0xE0, 0x8B)])
        self.assertEqual(old.receive_until_closed(), [])
        edge.await_ready()
        with returned(edge, "bob"):
            pass

    def test_a_login_without_a_link_is_refused(self):
        home, edge = self.nodes(lease=60)
        home.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: ask(edge.http_port, "/readyz")[0] == 503, what="no link")
        with Client(edge.port) as new, Client(edge.port) as old:
            new.send(connect_packet("new", version=5))
            self.assertEqual(new.receive()[1][1], 0x88)
            old.send(connect_packet("old"))
            self.assertEqual(old.receive()[1][1], 3)
        edge.wait_for_log("client 'new' of user 'new': login refused: this node stands by, and has no link")
        home.process.send_signal(signal.SIGCONT)
        wait_until(lambda: ask(edge.http_port, "/readyz")[0] == 200, what="the link")
        edge.connect("new", version=5)


class CutLinkTest(RelayedCase):
    def linked(self, times):
        wait_until(lambda: self.edge_node.log.count("linked to node home") >= times, what="the link")
        wait_until(lambda: ask(self.edge_node.http_port, "/readyz")[0] == 200, what="the link")

    def test_a_link_that_is_cut_again_and_again_is_not_noticed(self):
        ann, eve = self.edge_node.connect("ann", version=5), self.edge_node.connect("eve", clean=False)
        bob = self.gateway.connect("bob")
        watcher = observed(self.gateway, "ann")
        eve.subscribe("to/eve", qos=1)
        bob.subscribe("to/bob")
        cuts = 20 if SANITIZED else 100
        for number in range(cuts):
            text = b"%d" % number
            self.relay.cut()
            ann.publish("to/bob", text, qos=1)
            if number % 2:
                self.relay.cut()
            self.assertEqual(bob.receive_publish(), ("to/bob", text))
            self.relay.cut()
            bob.publish("to/eve", text * 1000, qos=1)
            self.assertEqual(bob.receive()[0], 0x40)
            self.assertEqual(ann.receive()[0], 0x40)
            self.assertEqual(eve.receive_publish(), ("to/eve", text * 1000))
        self.assertGreaterEqual(self.edge_node.log.count("it has a new connection"), cuts)
        self.assertEqual(self.edge_node.log.count("linked to node home"), 1)
        ann.disconnect()
        self.assertEqual(first_offline(watcher)["cause"], "logout")

    def test_a_link_that_passes_nothing_for_some_seconds_is_not_noticed(self):
        ann, bob = self.edge_node.connect("ann", version=5, keepalive=60), self.gateway.connect("bob")
        bob.subscribe("to/bob")
        self.relay.passes.clear()
        ann.publish("to/bob", b"late", qos=1)
        self.edge_node.wait_for_log("its connection is lost: the other node is silent")
        ann.ping()
        self.relay.passes.set()
        self.assertEqual(bob.receive_publish(), ("to/bob", b"late"))
        self.assertEqual(ann.receive()[0], 0x40)
        self.assertEqual(self.edge_node.log.count("linked to node home"), 1)

    def test_a_link_that_passes_nothing_is_replaced(self):
        ann = self.edge_node.connect("ann", version=5, keepalive=60)
        watcher = observed(self.gateway, "ann")
        self.relay.passes.clear()
        ann.ping()
        wait_until(lambda: ask(self.edge_node.http_port, "/readyz")[0] == 503, what="no link")
        self.relay.passes.set()
        self.linked(2)
        self.assertEqual([first for first, _ in ann.receive_until_closed()], [0xE0])
        self.edge_node.connect("ann").disconnect()
        self.assertEqual(first_offline(watcher)["cause"], "logout")

    def test_a_client_of_an_edge_that_is_cut_off_is_back_before_it_is_called_offline(self):
        ann = self.edge_node.connect("ann", version=5, keepalive=2 * SHORT)
        watcher = observed(self.gateway, "ann")
        self.relay.passes.clear()
        ann.socket.settimeout(0.5)
        while True:  # it pings until it is sent away
            ann.send(PINGREQ)
            try:
                answer = ann.receive()
            except TimeoutError:
                continue
            if answer is None or answer[0] == 0xE0:
                break
        self.gateway.connect("ann", version=5).disconnect()
        self.assertEqual(first_offline(watcher)["cause"], "logout")

    def test_strangers_at_the_link_s_port_harm_nobody(self):
        ann = self.edge_node.connect("ann", version=5)
        port = self.relay.target
        hello = Client(port).socket.recv(1000)
        birth = hello.split()[3] if len(hello.split()) > 3 else b"x"
        for sent in (b"", b"\n", os.urandom(5000), b"GET / HTTP/1.1\r\n\r\n", b"pulsegate-edge 1 x#1 no 2 7 new\n", b"x" * 100_000,
                     b"pulsegate-edge 1 x#1 " + birth + b" 99999999999 7 new\n",
                     b"pulsegate-edge 1 x#1 " + birth + b" 0 7 new\n", b"pulsegate-edge 1 x#1 " + birth + b" 2 7 5\n"):
            with Client(port) as guest:
                try:
                    guest.send(sent)
                    guest.socket.shutdown(socket.SHUT_WR)
                    while guest.socket.recv(1000):
                        pass
                except ConnectionError:
                    pass
        ann.publish("a", b"", qos=1)
        self.assertEqual(ann.receive()[0], 0x40)
        self.assertEqual(self.edge_node.log.count("linked to node home"), 1)


class CutTlsLinkTest(CutLinkTest):
    """The same with TLS. A connection of the link may end in the middle of a handshake or a record."""

    test_strangers_at_the_link_s_port_harm_nobody = None  # they speak no TLS

    def setUp(self):
        authority = Certificates()
        self.addCleanup(authority.folder.cleanup)
        certificate, key = authority.issue("localhost")
        self.arguments = ("--link-cert", certificate, "--link-key", key, "--link-ca", authority.ca)
        super().setUp()


class StoodStillTest(RelayedCase):
    def test_clients_of_an_edge_that_has_stood_still_leave_in_time(self):
        ann = self.edge_node.connect("ann", version=5, keepalive=20)  # offline 34 s after the stop
        self.edge_node.connect("bob", keepalive=13)  # some 24 s after it
        watchers = {name: observed(self.gateway, name) for name in ("ann", "bob")}
        with self.edge_node.standing_still():
            self.assertEqual(first_offline(watchers["bob"])["cause"], "node_lost")
            self.relay.close()  # else it leaves anyway, as soon as there is another link
            ann.send(PINGREQ)
        *_, last = ann.receive_until_closed()  # a PINGRESP may come before
        self.assertEqual((last[0], last[1][:1]), (0xE0, b"\x8B"))
        self.gateway.connect("ann", version=5).disconnect()
        self.assertEqual(first_offline(watchers["ann"])["cause"], "logout")


class LostEndTest(EdgeCase):
    """The home does not understand that a connection has ended at its edge."""

    def test_a_client_that_its_edge_does_not_know_goes_offline(self):
        def hide(frame):
            if frame[0] == END and frame[9] == CONNECTION_LOST:
                frame[0] = TAKEN

        link = free_port()
        relay = FrameRelay(link, hide)
        self.addCleanup(relay.close)
        home = node(self.redis, "home", "--link-address", relay.address, lease=60)
        home.command[home.command.index("--link-listen") + 1] = f"127.0.0.1:{link}"
        self.enterContext(home)
        self.edge(lease=60).connect("ann", keepalive=1).close()
        wait_until(lambda: state(home, "ann") == "offline", what="offline")
        self.assertEqual(last_cause(home, "ann"), "node_lost")

    def test_an_end_with_a_cause_of_a_later_version_is_an_end(self):
        home = self.home()
        link = home.command[home.command.index("--link-listen") + 1]
        with FakeEdge(int(link.split(":")[1])) as edge:
            edge.open("ann", 1)
            self.assertEqual([edge.hear()[0] for _ in range(2)], [BYTES, ACCEPTED])
            edge.say(END, "ann", 1, bytes([200, 0]))
            wait_until(lambda: state(home, "ann") == "offline", what="offline")
            self.assertEqual(last_cause(home, "ann"), "connection_lost")


if __name__ == "__main__":
    unittest.main()
