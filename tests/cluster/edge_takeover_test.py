"""Logins that would take over another connection of the same client."""

import itertools
import json
import socket
import unittest
from concurrent.futures import ThreadPoolExecutor, as_completed

from cluster_test import node
from edge_nodes import EdgeCase, first_offline, observed, state
from fake_edge import ACCEPTED, ASK, BYTES, CONNECTION_LOST, END, SILENCE, FakeEdge
from gateway import PINGREQ, Client, connect_packet, wait_until
from relayed_case import RelayedCase

TAKEN_OVER = 0x8E
GONE = "without login: connection_lost: gone before its turn"


def ask_for(gateway, name):
    """A client that has sent its CONNECT and does not wait for the answer."""
    client = Client(gateway.port)
    client.version = 5
    client.send(connect_packet(name, version=5))
    return client


class GivenUpLoginTest(RelayedCase):
    arguments = ("--duel-takeovers", "0", "--log-level", "debug")

    def give_up(self):
        """The client leaves when the edge has asked the home to let it in."""
        with ask_for(self.edge_node, "ann"):
            wait_until(lambda: b"ann" in self.relay.what_waits(), what="the login on its way to the home")

    def check_that_it_takes_nothing_over(self, later, passes_on):
        """The client gives its login at the edge up, and logs in at the node `later`."""
        self.relay.passes.clear()
        self.give_up()
        ann = later.connect("ann", version=5, will=("will", "gone"))
        watcher = observed(self.gateway, "ann", "will")
        passes_on()
        self.gateway.wait_for_log(GONE)
        self.edge_node.wait_for_log(GONE)
        ann.ping()
        ann.publish("will", b"here")
        said = watcher.receive_publish()
        if said[0] == "presence/ann":  # the watcher may hear twice that she is online
            self.assertEqual(json.loads(said[1])["cause"], "login")
            said = watcher.receive_publish()
        self.assertEqual(said, ("will", b"here"))
        ann.disconnect()
        self.assertEqual(first_offline(watcher)["cause"], "logout")

    def test_it_takes_no_connection_at_the_home_over(self):
        self.check_that_it_takes_nothing_over(self.gateway, self.relay.passes.set)

    def test_it_takes_nothing_over_when_its_link_goes_on_with_another_connection(self):
        def pass_on():
            self.relay.cut()
            self.relay.passes.set()

        self.check_that_it_takes_nothing_over(self.gateway, pass_on)

    def test_it_takes_no_connection_at_another_edge_over(self):
        self.relay.passes.clear()
        with FakeEdge(self.link_port) as other:  # its link passes no relay
            self.give_up()
            other.open("ann", 1)
            self.assertEqual([other.hear()[0] for _ in range(2)], [BYTES, ACCEPTED])
            self.relay.passes.set()
            self.gateway.wait_for_log(GONE)
            self.assertEqual(state(self.gateway, "ann"), "online")
            other.say(END, "ann", 1, bytes([CONNECTION_LOST, 0]))
            self.assertEqual(other.hear(), (END, 1, bytes([CONNECTION_LOST, 0])))  # the first that it hears since


class TakeoverTest(EdgeCase):
    arguments = ("--ban-flaps", "0", "--duel-takeovers", "0", "--log-level", "debug")

    def test_a_login_at_the_home_that_its_client_has_given_up_takes_nothing_over(self):
        home = self.home()
        ann = home.connect("ann", version=5)
        with home.standing_still():
            ask_for(home, "ann").close()
        home.wait_for_log(GONE)
        ann.ping()

    def test_a_client_that_has_only_closed_its_side_is_served(self):
        home = self.home()
        watcher = home.connect("watcher")
        watcher.subscribe("news")
        ann = home.connect("ann", version=5)
        with home.standing_still():
            last_words = ask_for(home, "ann")
            last_words.publish("news", b"last")
            last_words.socket.shutdown(socket.SHUT_WR)
        self.assertEqual(watcher.receive_publish(), ("news", b"last"))
        self.assertEqual([(first, body[0]) for first, body in ann.receive_until_closed()], [(0xE0, TAKEN_OVER)])
        last_words.close()

    def test_logins_of_one_client_at_two_edges_at_once_end_with_one_connection(self):
        home, edge = self.nodes(lease=60)
        second = self.edge(name="second", lease=60)
        first_one = home.connect("ann", version=5)
        for _ in range(5):
            with home.standing_still():
                rivals = [ask_for(each, "ann") for each in (edge, second, edge)]
            self.assertEqual([(first, body[0]) for first, body in first_one.receive_until_closed()], [(0xE0, TAKEN_OVER)])
            for each in rivals:
                self.assertEqual(each.receive()[0], 0x20)
            with ThreadPoolExecutor() as pool:
                answers = {pool.submit(each.receive): each for each in rivals}
                for ended in itertools.islice(as_completed(answers), 2):
                    first, body = ended.result()
                    self.assertEqual((first, body[0]), (0xE0, TAKEN_OVER))
                    answers.pop(ended).close()
                ((answer, first_one),) = answers.items()
                first_one.send(PINGREQ)
                self.assertEqual(answer.result(), (0xD0, b""))


class EarlierEdgeTest(EdgeCase):
    """An edge that says `silence` whether or not its client is there."""

    arguments = ("--ban-flaps", "0", "--duel-takeovers", "0", "--log-level", "debug")

    def setUp(self):
        super().setUp()
        self.gateway = self.enterContext(node(self.redis, "home", *self.arguments, lease=60))
        place = self.gateway.command.index("--link-listen") + 1
        self.link_port = int(self.gateway.command[place].split(":")[1])

    def test_it_is_not_asked_about_a_client_without_a_connection(self):
        with FakeEdge(self.link_port) as edge:
            edge.open("ann", 1)
            self.assertEqual([edge.hear()[:2] for _ in range(2)], [(BYTES, 1), (ACCEPTED, 1)])

    def test_its_login_goes_on_with_its_answer(self):
        ann = self.gateway.connect("ann", version=5)
        with FakeEdge(self.link_port) as edge:
            edge.open("ann", 1)
            self.assertEqual(edge.hear(), (ASK, 1, b""))
            ann.ping()
            edge.say(SILENCE, "ann", 1, bytes(4))
            self.assertEqual([edge.hear()[:2] for _ in range(2)], [(BYTES, 1), (ACCEPTED, 1)])
            self.assertEqual([(first, body[0]) for first, body in ann.receive_until_closed()], [(0xE0, TAKEN_OVER)])

    def test_it_is_asked_again_if_another_connection_has_come_meanwhile(self):
        self.gateway.connect("ann", version=5)
        with FakeEdge(self.link_port) as edge:
            edge.open("ann", 1)
            self.assertEqual(edge.hear()[0], ASK)
            second = self.gateway.connect("ann", version=5)
            edge.say(SILENCE, "ann", 1, bytes(4))
            self.assertEqual(edge.hear(), (ASK, 1, b""))
            edge.say(END, "ann", 1, bytes([CONNECTION_LOST, 0]))
            self.gateway.wait_for_log(GONE)
            second.ping()

    def test_its_login_is_dropped_if_it_dies_before_it_answers(self):
        ann = self.gateway.connect("ann", version=5)
        with FakeEdge(self.link_port) as edge:
            edge.open("ann", 1)
            self.assertEqual(edge.hear()[0], ASK)
        self.gateway.wait_for_log("without login: connection_lost: the node with its connection is gone")
        ann.ping()
        self.assertEqual(self.gateway.metric("pulsegate_connections"), 1)


if __name__ == "__main__":
    unittest.main()
