"""Well-formed packets in an order that makes no sense. Clients that share a few names send them. The gateway's answers
must be legal, and other clients must get their messages.

DISORDER_SECONDS and DISORDER_SEED make it longer, and different."""

import os
import time
import traceback
import unittest

from calm import Calmness
from disorder import STEPS, Disorder, Peer
from gateway import Client, Gateway, wait_until
from packets import Malformed

SECONDS = float(os.environ.get("DISORDER_SECONDS", 12))
SEED = int(os.environ.get("DISORDER_SEED", 1))
# With these the limits are met now and then.
SETTINGS = ("--receive-maximum", "5", "--max-inflight", "10", "--max-queued-messages", "30",
            "--max-subscriptions", "8", "--max-retained-messages", "4", "--topic-alias-maximum", "3",
            "--max-packet-size", "8KiB", "--shards", "3",
            "--ban-flaps", "0", "--duel-takeovers", "0")  # nobody behaves here


class DisorderTest(unittest.TestCase):
    def setUp(self):
        self.gateway = self.enterContext(Gateway(*SETTINGS))

    def test_what_the_gateway_says_is_legal_and_others_are_served(self):
        calmness = Calmness(self.gateway.port)
        known, number = set(), 0
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            seed = SEED * 1_000_000 + number
            disorder = Disorder(self.gateway.port, seed)
            try:
                disorder.run()
                self.assertEqual(self.gateway.get("/healthz")[0], 200)
                calmness.check(number)
            except (AssertionError, OSError, ValueError) as error:
                self.tell_what_happened(disorder, seed, error)
                raise
            finally:
                for peer in disorder.peers:
                    peer.close()
            known |= disorder.known
            number += 1
        print(f"{number} rounds of {STEPS} steps")
        self.leave_nothing(known)

    def tell_what_happened(self, disorder, seed, error):
        if isinstance(error, Malformed):
            guilty = [peer for peer in disorder.peers if not peer.closed]
            for frame, _ in traceback.walk_tb(error.__traceback__):
                if isinstance(frame.f_locals.get("self"), Peer):
                    guilty = [frame.f_locals["self"]]
            for peer in guilty:
                print(f"\n--- {peer.name!r}, version {peer.version}", *peer.story, sep="\n")
        print(f"--- seed {seed}: DISORDER_SEED={seed // 1_000_000}: {error}", flush=True)

    def leave_nothing(self, known):
        """When every session has been ended, nothing is left of them."""
        for client, user in known | {("sleeper4", None), ("sleeper5", None)}:
            one = Client(self.gateway.port).login(client, username=user)
            one.disconnect()
        for gauge in ("connections", "sessions", "sessions_disconnected", "messages_queued", "subscriptions"):
            wait_until(lambda name=gauge: self.gateway.metric(f"pulsegate_{name}") == 0, what=f"{gauge} 0")


if __name__ == "__main__":
    unittest.main()
