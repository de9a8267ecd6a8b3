"""Bans of addresses that guess passwords: an edge sets them, and they hold at all nodes until they are lifted at any."""

import itertools
import struct
import tempfile
import unittest
from pathlib import Path

import packets
from cluster_test import node
from edge_nodes import LONG_LEASE, EdgeCase
from fake_edge import FakeEdge
from gateway import Client, add_users, wait_until
from link_relay import LinkRelay, SlowHomeRelay
from ports import free_port

GUESSER = "127.0.0.9"
BANNED = 0x8A
WRONG = 0x86
KIND_OF_BAN = 8
KIND_OF_LIFT = 9
KIND_OF_HOME_BAN = 10
LINK_GONE = "there was no other connection in time"


def log_in(gateway, password, source=GUESSER):
    """The reason of the CONNACK; the client is gone afterwards."""
    with Client(gateway.port, source=source) as client:
        client.send(packets.connect(5, "c", username="ann", password=password))
        return client.receive()[1][1]


def banned(gateway):
    """The addresses in the list of bans, with who has set them."""
    status, body = gateway.ask("GET", "/api/v1/bans")
    assert status == 200, body
    return [(each["address"], each["by"]) for each in body["bans"]]


def order(gateway, address):
    return gateway.ask("PUT", f"/api/v1/bans?address={address}&seconds=600")[0]


def lift(gateway, address=GUESSER):
    return gateway.ask("DELETE", f"/api/v1/bans?address={address}")[0]


def link_port(gateway):
    return int(gateway.command[gateway.command.index("--link-listen") + 1].split(":")[1])


def tell_ban(edge, address, left):
    """From a FakeEdge to its home, for so many ms."""
    contents = struct.pack("<QI", left, 0) + address.encode()
    edge.send(struct.pack("<IBHHI", 9 + len(contents), KIND_OF_BAN, 0, 0, 0) + contents)


def hear_ban(edge):
    """The address and the ms of the next ban that its home tells."""
    while True:
        kind, _, contents = edge.hear()
        if kind == KIND_OF_HOME_BAN and contents:
            return contents[9:].decode(), *struct.unpack("<Q", contents[:8])


class EdgeBansTest(EdgeCase):
    def setUp(self):
        super().setUp()
        folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="pulsegate-edge-")))
        self.arguments = ("--password-file", add_users(folder / "users", ann="right"), "--ban-failures", "2")
        self.guesses = itertools.count()

    def guess(self, gateway, source=GUESSER):
        """Until this node bans the guesser."""
        for _ in range(2):
            self.assertEqual(log_in(gateway, f"wrong {next(self.guesses)}", source), WRONG)
        self.assertEqual(log_in(gateway, "right", source), BANNED)

    def test_a_ban_that_an_edge_sets_holds_at_all_nodes_and_is_lifted_at_any(self):
        home, edge = self.nodes()
        nodes = home, edge, self.edge(name="second")
        for lifting in nodes:
            self.guess(edge)
            wait_until(lambda: banned(home), what="the ban at the home")
            for each in nodes:
                self.assertEqual(banned(each), [(GUESSER, "gateway")])
                self.assertEqual(log_in(each, "right"), BANNED)
                self.assertEqual(log_in(each, "right", source="127.0.0.1"), 0)
            self.assertEqual(lift(lifting), 200)
            for each in nodes:
                self.assertEqual(banned(each), [])
                wait_until(lambda each=each: log_in(each, "right") == 0, what="the end of the ban at each node")
        # Only now: a lift of nothing ends the bans that an edge sets before it hears of the lift.
        for each in nodes:
            self.assertEqual(lift(each), 404)
        home.wait_for_log(f"{GUESSER} banned by an edge: too many wrong passwords from there")

    def test_a_ban_that_an_edge_sets_while_its_home_stands_still_is_told_afterwards(self):
        home, edge = self.nodes()
        with home.standing_still():
            self.guess(edge)
        wait_until(lambda: banned(home), what="the ban at the home")
        self.assertEqual(edge.log.count("linked to node home"), 1)
        self.assertEqual(lift(home), 200)
        wait_until(lambda: log_in(edge, "right") == 0, what="the end of the ban at the edge")

    def test_a_ban_that_an_edge_sets_without_a_link_is_told_when_it_has_one(self):
        home, edge = self.nodes()
        with home.standing_still():
            edge.wait_for_log(LINK_GONE)
            self.guess(edge)
        wait_until(lambda: banned(home), what="the ban at the home")
        wait_until(lambda: edge.log.count("linked to node home") == 2, what="the line of the second link")
        self.assertEqual(lift(home), 200)
        wait_until(lambda: log_in(edge, "right") == 0, what="the end of the ban at the edge")

    def test_a_ban_that_is_lifted_while_the_edge_has_no_link_does_not_come_back(self):
        home, edge = self.nodes()
        self.guess(edge)
        wait_until(lambda: banned(home), what="the ban at the home")
        with edge.standing_still():
            home.wait_for_log(LINK_GONE)
            self.assertEqual(lift(home), 200)
        wait_until(lambda: edge.log.count("linked to node home") == 2, what="another link")
        wait_until(lambda: log_in(edge, "right") == 0, what="the end of the ban at the edge")
        self.assertEqual(banned(home), [])
        self.guess(edge)
        wait_until(lambda: banned(home), what="a later ban")

    def test_a_ban_that_is_lifted_before_the_home_has_heard_of_it_does_not_come(self):
        port = free_port()
        relay = LinkRelay(port)
        self.addCleanup(relay.close)
        home = node(self.redis, "home", *self.arguments, "--link-address", relay.address, lease=LONG_LEASE)
        home.command[home.command.index("--link-listen") + 1] = f"127.0.0.1:{port}"
        self.enterContext(home)
        edge = self.edge()
        relay.passes.clear()
        self.guess(edge)
        self.assertEqual(lift(home), 404)
        relay.passes.set()
        wait_until(lambda: log_in(edge, "right") == 0, what="the end of the ban at the edge")
        self.assertEqual(banned(home), [])
        self.guess(edge)
        wait_until(lambda: banned(home), what="a later ban")

    def test_the_next_home_hears_of_the_bans_of_its_edges(self):
        home = self.home()
        guessers = {self.edge(name=name): source for name, source in (("edge", GUESSER), ("second", "127.0.0.8"))}
        for edge, source in guessers.items():
            self.guess(edge, source)
        wait_until(lambda: len(banned(home)) == 2, what="the bans at the home")
        home.kill()
        new = wait_until(lambda: next((each for each in guessers if "owns all 128 partitions" in each.log), None), what="a takeover")
        ((other, source),) = ((each, source) for each, source in guessers.items() if each is not new)
        new.await_ready()
        wait_until(lambda: banned(new) == [(source, "gateway")], what="the ban at the new home")
        self.assertEqual(log_in(new, "right", source), BANNED)
        self.assertEqual(lift(new, source), 200)
        for free in guessers.values():  # also what the former home had told
            wait_until(lambda free=free: log_in(other, "right", free) == 0, what="the end of the ban at the edge")

    def test_a_ban_that_lengthens_is_told_to_the_other_edges(self):
        home = self.home()
        with FakeEdge(link_port(home), version=3) as edge, FakeEdge(link_port(home), version=3) as other:
            other.stream.read(12)  # the home's position: it is linked
            while other.hear()[::2] != (KIND_OF_HOME_BAN, b""):  # the end of the bans with which the link begins
                pass
            for address, left in (("203.0.113.8", 100_000), ("203.0.113.8", 200_000), ("203.0.113.9", 100_000)):
                tell_ban(edge, address, left)
            told = [hear_ban(other)]
            while told[-1][0] != "203.0.113.9":
                told.append(hear_ban(other))
        self.assertEqual([address for address, _ in told], ["203.0.113.8", "203.0.113.8", "203.0.113.9"])
        self.assertGreater(told[1][1], 100_000)

    def test_a_node_of_an_earlier_version_is_told_what_it_understands(self):
        home = self.home()
        port = link_port(home)
        for version, expected in ((1, None), (2, KIND_OF_LIFT), (3, KIND_OF_HOME_BAN)):
            with self.subTest(version), Client(port) as old:
                versions, _, birth = old.socket.recv(1000).split()[1:4]
                self.assertEqual(versions, b"1-3")
                old.send(b"pulsegate-edge %d old#%d %s 1 7 new\n" % (version, version, birth))
                stream = old.socket.makefile("rb")
                self.assertIsNone(next_kind(stream))  # it is linked
                self.assertEqual(order(home, GUESSER), 200)
                self.assertEqual(lift(home), 200)
                uninteresting = {1: (), 2: (None,), 3: (None, KIND_OF_LIFT)}  # a link begins with the earlier lifts
                while (kind := next_kind(stream)) in uninteresting[version]:
                    pass
                self.assertEqual(kind, expected)


class HomeBansTest(EdgeCase):
    """Edges refuse the addresses that their home has banned before they check a password."""

    def setUp(self):
        super().setUp()
        folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="pulsegate-edge-")))
        self.arguments = ("--password-file", add_users(folder / "users", ann="right"))

    def await_answer(self, gateway, expected):
        """To a wrong password, always the same one."""
        wait_until(lambda: log_in(gateway, "wrong") == expected, what="the answer to a wrong password")

    def test_an_ordered_ban_holds_at_edges_until_it_is_lifted(self):
        home, edge = self.nodes("--ban-failures", "0")
        self.assertEqual(log_in(edge, "wrong"), WRONG)
        self.assertEqual(order(edge, GUESSER), 200)
        self.await_answer(edge, BANNED)
        second = self.edge("--ban-failures", "0", name="second")  # it is told of the bans that there are
        self.await_answer(second, BANNED)
        self.assertEqual(log_in(second, "right", source="127.0.0.1"), 0)
        self.assertEqual(lift(second), 200)
        for each in (edge, second):
            self.await_answer(each, WRONG)
        self.assertEqual(banned(home), [])

    def test_an_ordered_ban_that_is_lifted_while_the_edge_has_no_link_ends_there(self):
        home, edge = self.nodes("--ban-failures", "0", "--ban-time", "1s")  # so its lift is soon forgotten
        self.assertEqual(order(home, GUESSER), 200)
        self.await_answer(edge, BANNED)
        with edge.standing_still():
            home.wait_for_log(LINK_GONE)
            self.assertEqual(lift(home), 200)
            self.assertEqual(order(home, "127.0.0.8"), 200)
            home.await_tick()
            home.await_tick()
        self.await_answer(edge, WRONG)
        self.assertEqual(banned(home), [("127.0.0.8", "administrator")])

    def test_an_edge_refuses_banned_addresses_while_a_new_link_begins(self):
        port = free_port()
        relay = SlowHomeRelay(port)
        self.addCleanup(relay.close)
        home = node(self.redis, "home", *self.arguments, "--ban-failures", "0", "--ban-time", "1s", "--link-address", relay.address,
                    lease=LONG_LEASE)
        home.command[home.command.index("--link-listen") + 1] = f"127.0.0.1:{port}"
        self.enterContext(home)
        edge = self.edge("--ban-failures", "0")
        for address in (GUESSER, "127.0.0.8"):
            self.assertEqual(order(home, address), 200)
        wait_until(lambda: log_in(edge, "wrong", "127.0.0.8") == BANNED, what="both bans at the edge")
        relay.tells_all.clear()
        with home.standing_still():
            edge.wait_for_log(LINK_GONE)
            relay.cut()
        self.assertEqual(lift(home, "127.0.0.8"), 200)
        wait_until(lambda: edge.log.count("linked to node home") >= 2, what="another link")
        self.assertEqual(log_in(edge, "wrong"), BANNED)
        relay.tells_all.set()
        relay.cut()
        wait_until(lambda: log_in(edge, "wrong", "127.0.0.8") == WRONG, what="the end of the ban that was lifted")
        self.assertEqual(log_in(edge, "wrong"), BANNED)

    def test_a_ban_that_the_home_sets_itself_holds_at_edges(self):
        home, edge = self.home("--ban-failures", "2"), self.edge("--ban-failures", "0")
        for number in range(2):
            self.assertEqual(log_in(home, f"wrong {number}"), WRONG)
        self.await_answer(edge, BANNED)
        self.assertEqual(banned(home), [(GUESSER, "gateway")])


def next_kind(stream):
    """Of the next frame that a home sends; None: it sends a position, as it does once a second."""
    (size,) = struct.unpack("<I", stream.read(4))
    contents = stream.read(size or 8)
    return contents[0] if size else None


if __name__ == "__main__":
    unittest.main()
