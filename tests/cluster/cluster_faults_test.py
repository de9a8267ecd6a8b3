"""Three nodes with clients on each of them, and everything that may happen to the nodes, at random."""

import os
import unittest

from faults import ONE_REDIS, play, restart_all
from gateway import SANITIZED

LONG = bool(os.environ.get("PULSEGATE_LONG"))  # tests/run --long sets it


class FaultsTest(unittest.TestCase):
    def test_nothing_is_lost_and_nobody_is_offline_whatever_happens_to_the_nodes(self):
        self.judge(play(600 if LONG else 1, rate=30 if SANITIZED else 120))

    @unittest.skipUnless(LONG, "it takes minutes")
    def test_nothing_is_lost_and_nobody_is_offline_with_a_redis_that_has_no_replica(self):
        self.judge(play(300, ONE_REDIS, rate=30 if SANITIZED else 120))

    def judge(self, played):
        print(played)
        self.assertEqual(played.faults, [])
        self.assertGreater(played.acknowledged, 100)

    def test_nothing_is_lost_when_all_nodes_are_restarted_in_order(self):
        rounds = 10 if LONG else 1
        other = os.environ.get("OTHER_PULSEGATE")  # another build, for nodes of two versions
        played = restart_all(rounds, [os.environ["PULSEGATE"], other] if other else (), rate=30 if SANITIZED else 120)
        print(played)
        self.assertEqual(played.faults, [])
        self.assertGreater(played.acknowledged, 20)


if __name__ == "__main__":
    unittest.main()
