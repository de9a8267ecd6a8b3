"""The load generator with several nodes: clients write to clients of the other nodes, and every check judges the whole."""

import unittest

from cluster_test import ClusterTest, node
from edge_nodes import LONG_LEASE
from gateway import Gateway
from lab import broken, generate, late
from ports import free_port


class LabClusterTest(ClusterTest):
    def test_a_cluster_carries_messages_and_presence_between_its_nodes(self):
        home = self.enterContext(node(self.redis, "home", lease=LONG_LEASE))
        port = free_port()
        edge = node(self.redis, "edge", "--cluster-edge", "--listen", f"mqtt://127.0.0.1:{port}", lease=LONG_LEASE)
        self.addCleanup(edge.kill)
        edge.launch().wait_for_log("linked to node home")
        _, record = generate(home.port, "--cluster", connect=self.urls(home.port, port), silent="5%", qos="1",
                             set="watches=5")
        counts = record["totals"]["counts"]
        self.assertEqual(broken(record) - late(record), set(), record["examples"])
        self.assertAlmostEqual(counts["messages_crossed"], counts["messages_received"] / 2,
                               delta=counts["messages_received"] / 5)
        closed = sum(counts.get(f"closed_{when}", 0) for when in ("in_time", "late", "unclear"))
        self.assertEqual(counts["silent"], closed)

    def test_gateways_that_share_nothing_are_no_cluster(self):
        with Gateway() as one, Gateway() as other:
            status, record = generate(one.port, "--cluster", connect=self.urls(one.port, other.port), silent="0%")
        self.assertNotEqual(status, 0)
        self.assertEqual(broken(record) - late(record), {"crossed", "lost"})
        crossed = next(check for check in record["checks"] if check["name"] == "crossed")
        self.assertIn("the servers do not seem to be nodes of one cluster", crossed["detail"])
        self.assertNotIn("messages_crossed", record["totals"]["counts"])

    @staticmethod
    def urls(*ports):
        return ",".join(f"mqtt://127.0.0.1:{port}" for port in ports)


if __name__ == "__main__":
    unittest.main()
