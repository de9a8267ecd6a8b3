"""A home and its edge, with a relay between them."""

from cluster_test import node
from edge_nodes import EdgeCase
from link_relay import LinkRelay
from ports import free_port


class RelayedCase(EdgeCase):
    def setUp(self):
        super().setUp()
        self.link_port = free_port()
        self.relay = LinkRelay(self.link_port)
        self.addCleanup(self.relay.close)
        made = node(self.redis, "home", "--link-address", self.relay.address, "--ban-flaps", "0", *self.arguments, lease=60)
        made.command[made.command.index("--link-listen") + 1] = f"127.0.0.1:{self.link_port}"
        self.gateway = self.enterContext(made)
        self.edge_node = self.edge("--ban-flaps", "0", lease=60)
