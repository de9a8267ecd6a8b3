"""What clients of an edge notice when another node becomes the home, or when only the edge has lost its home."""

import struct
import unittest

from cluster_test import LEASE, returned, standby
from edge_nodes import EdgeCase, await_link, first_offline, observed
from fake_edge import ACCEPTED, BYTES, END, FakeEdge
from gateway import wait_until
from ports import free_port
from relayed_case import RelayedCase

LONG = 600  # seconds of keepalive; without a home, an edge keeps such a client for 450 s
SHORT = 12
SHUTTING_DOWN = (0xE0, 0x8B)


def disconnects(client):
    return [(first, body[0]) for first, body in client.receive_until_closed()]


def frames_until_closed(edge):
    heard = []
    try:
        while True:
            heard.append(edge.hear())
    except (struct.error, ConnectionError):
        return heard


class NextHomeTest(EdgeCase):
    arguments = ("--ban-flaps", "0")

    def successor(self, lease):
        """It stands by, and serves no clients meanwhile. It takes over before nodes that join later."""
        made = standby(self.redis, "second", free_port(), *self.arguments, lease=lease)
        self.addCleanup(made.kill)
        return made

    def check_that_clients_stay_until_the_next_home_serves(self, end, lease):
        home, second = self.home(lease=lease), self.successor(lease)
        edge = self.edge(lease=lease)
        ann = edge.connect("ann", version=5, keepalive=60)
        for name, keepalive in (("bob", SHORT), ("carl", 60)):
            stays = edge.connect(name, clean=False, keepalive=keepalive, will=("will", f"{name} is gone"))
            stays.subscribe("none", qos=1)  # after the answer, the session is stored
        before = home.get_json("/api/v1/users/ann")[1]
        end(home)
        self.assertEqual(disconnects(ann), [SHUTTING_DOWN])
        edge.wait_for_log("linked to node second")
        second.await_ready()
        await_link(edge, "second")
        watchers = {name: observed(second, name) for name in ("ann", "bob")}
        will_reader = second.connect("reader")
        will_reader.subscribe("will")
        user = second.get_json("/api/v1/users/ann")[1]
        self.assertEqual((user["state"], user["since"]), ("online", before["since"]))
        returned(edge, "carl").disconnect()
        edge.connect("ann").disconnect()
        self.assertEqual(first_offline(watchers["ann"])["cause"], "logout")
        self.assertEqual(first_offline(watchers["bob"])["cause"], "node_lost")
        self.assertEqual(will_reader.receive_publish(), ("will", b"bob is gone"))

    def test_clients_stay_when_their_home_stops_in_order(self):
        self.check_that_clients_stay_until_the_next_home_serves(lambda home: home.stop(), lease=60)

    def test_clients_stay_when_their_home_is_killed(self):
        self.check_that_clients_stay_until_the_next_home_serves(lambda home: home.kill(), lease=LEASE)

    def heard_at_the_stop(self):
        """What an edge hears of its client when its home stops."""
        home = self.home(lease=60)
        link = home.command[home.command.index("--link-listen") + 1]
        with FakeEdge(int(link.split(":")[1])) as edge:
            edge.open("ann", 1)
            self.assertEqual([edge.hear()[0] for _ in range(2)], [BYTES, ACCEPTED])
            if self.has_successor:
                self.successor(60)
                wait_until(lambda: len(home.get_json("/api/v1/cluster")[1]["nodes"]) == 2, what="the successor")
            home.stop()
            return frames_until_closed(edge)

    def test_a_home_without_a_successor_tells_clients_of_edges_that_it_stops(self):
        self.has_successor = False
        (kind, number, packet), (last, *_) = self.heard_at_the_stop()
        self.assertEqual((kind, number, (packet[0], packet[2]), last), (BYTES, 1, SHUTTING_DOWN, END))

    def test_a_home_with_a_successor_does_not_tell_them(self):
        self.has_successor = True
        self.assertEqual(self.heard_at_the_stop(), [])


class CutOffEdgeTest(RelayedCase):
    def test_its_clients_leave_while_the_home_goes_on(self):
        ann, bob = self.edge_node.connect("ann", keepalive=LONG), self.edge_node.connect("bob", version=5, keepalive=60)
        watcher = observed(self.gateway, "ann")
        self.relay.passes.clear()
        self.assertEqual(ann.receive_until_closed(), [])
        self.assertEqual(disconnects(bob), [SHUTTING_DOWN])
        self.gateway.connect("ann").disconnect()
        self.assertEqual(first_offline(watcher)["cause"], "logout")

    def test_its_clients_stay_while_the_home_stands_still(self):
        ann = self.edge_node.connect("ann", keepalive=LONG)
        short = self.edge_node.connect("short", version=5, keepalive=20)  # its end after 15 s shows that time has passed
        with self.gateway.standing_still():
            self.assertEqual(disconnects(short), [SHUTTING_DOWN])
            ann.ping()


if __name__ == "__main__":
    unittest.main()
