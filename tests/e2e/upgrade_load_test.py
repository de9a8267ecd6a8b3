"""Upgrades under load: no connection is closed, nothing is lost or repeated, nobody is shown offline.

Small by default. With PULSEGATE_LONG (tests/run --long) 15,000 clients send 3,000 messages a second through 20 upgrades:

    cd tests/e2e && PULSEGATE_LONG=1 python3 -m unittest -v upgrade_load_test

OTHER_PULSEGATE may name the program of another version: then the upgrades go to that one and back.
"""

import os
import resource
import unittest

from gateway import SANITIZED, binary
from upgradable import Load

LONG = bool(os.environ.get("PULSEGATE_LONG"))
PROGRAMS = (os.environ.get("OTHER_PULSEGATE", str(binary())), str(binary()))
CLIENTS, MESSAGES, RAMP, UPGRADES = (15_000, 3_000, 2_000, 20) if LONG else (240, 240, 240, 3)


@unittest.skipIf(SANITIZED, "a sanitizer's gateway is too slow for the load")
@unittest.skipIf(resource.getrlimit(resource.RLIMIT_NOFILE)[1] < CLIENTS + 1_000, "needs a file for each client")
class UpgradeUnderLoadTest(unittest.TestCase):
    def test_nobody_notices(self):
        with Load(CLIENTS, MESSAGES, RAMP) as load:
            pauses = []
            for number in range(UPGRADES):
                load.serve_for_a_while()
                if number % 2 == 1:
                    load.gateway.upgrade("--dry-run", PROGRAMS[number % 2])
                    load.serve_for_a_while()
                said = load.gateway.upgrade(PROGRAMS[number % 2])
                self.assertIn(f": {load.clients} clients moved, none left behind", said)
                pauses.append(float(said.rsplit(" ", 2)[1]))
            load.serve_for_a_while()
            self.assertEqual(load.connected(), load.clients)
            self.assertFalse([event for event in load.gateway.events() if event["state"] == "offline"])
            counts = load.counts(prompt=LONG)
            print(f"\n{load.clients} clients, {MESSAGES} messages/s, {UPGRADES} upgrades: pauses of {min(pauses)} to "
                  f"{max(pauses)} s; {counts['acknowledged']} messages acknowledged", flush=True)
            self.assertGreater(counts["acknowledged"], MESSAGES * 5)
            if LONG:  # the time is measured there, on a machine that does nothing else
                self.assertLessEqual(max(pauses), 1)


if __name__ == "__main__":
    unittest.main()
