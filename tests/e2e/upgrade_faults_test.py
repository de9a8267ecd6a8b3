"""Upgrades in which something goes wrong: a process is killed or hangs at some step, or at any moment. Either the old process
goes on, or the new one serves, and the clients do not notice.

With PULSEGATE_LONG (tests/run --long) there are hundreds of moments:

    cd tests/e2e && PULSEGATE_LONG=1 python3 -m unittest -v upgrade_faults_test
"""

import json
import os
import random
import time
import unittest

from gateway import SANITIZED, binary
from handover_relay import program_with_fault
from upgradable import PAUSE, Load

LONG = bool(os.environ.get("PULSEGATE_LONG"))
MOMENTS, DURATION = (400, 900) if LONG else (8, 25)
CLIENTS = 60  # those of the load, and one

FAILS = (  # docs/upgrade.md: the way back is free until "serving"
    {"does": "kill new", "at": "hello", "after": True},
    {"does": "kill new", "at": "lock"},
    {"does": "kill new", "at": "lock", "after": True},
    {"does": "kill new", "at": "gateway", "after": True},
    {"does": "kill new", "at": "listeners", "after": True},
    {"does": "kill new", "at": "history"},
    {"does": "kill new", "at": "client", "number": 1},
    {"does": "kill new", "at": "client", "number": 40, "after": True},
    {"does": "kill new", "at": "clients", "after": True},
    {"does": "kill new", "at": "ready"},
    {"does": "kill new", "at": "ready", "after": True},
    {"does": "kill new", "at": "go"},
    {"does": "hang", "at": "lock"},
    {"does": "hang", "at": "client", "number": 20},
    {"does": "hang", "at": "go"},
)
SUCCEEDS = (  # the new process has everything then
    {"does": "kill old", "at": "clients", "after": True},
    {"does": "kill old", "at": "ready"},
    {"does": "kill old", "at": "go", "after": True},
)


class Attempt:
    """An upgrade with a fault."""

    def __init__(self, gateway, **fault):
        program, report = program_with_fault(gateway.folder.name, binary(), **fault)
        self.has_moved, self.said = gateway.try_to_upgrade(program, "1" if fault["does"] == "hang" else PAUSE)
        # Not there if the process was ended before.
        self.report = json.loads(report.read_text()) if report.exists() else None


class UpgradeFaultsTest(unittest.TestCase):
    def check(self, client):
        client.publish("room/a", b"x", qos=1)
        self.assertEqual({client.receive()[0] >> 4 for _ in range(2)}, {3, 4})

    @unittest.skipIf(SANITIZED, "a sanitizer's gateway is too slow for the load")
    def test_clients_do_not_notice_under_load(self):
        with Load(CLIENTS, CLIENTS, CLIENTS, DURATION) as load:
            client = load.gateway.connect("stays", clean=False)
            client.subscribe("room/a", qos=1)
            longest = 0
            for fault in FAILS + SUCCEEDS:
                with self.subTest(fault=fault):
                    attempt = Attempt(load.gateway, **fault)
                    self.check(client)
                    self.assertEqual(attempt.has_moved, fault in SUCCEEDS, attempt.said)
                    if fault["does"] == "kill new":
                        longest = max(longest, time.monotonic() - attempt.report["time"])
            moved = moments = 0
            most = 0.6  # seconds that an upgrade takes, by those that were completed
            while moments < MOMENTS and load.process.poll() is None:
                seconds = random.uniform(0, most)
                with self.subTest(seconds=seconds):
                    moments += 1
                    began = time.monotonic()
                    if Attempt(load.gateway, does="kill new", seconds=seconds).has_moved:
                        moved += 1
                        most = time.monotonic() - began
                    self.check(client)
            print(f"\n{moved} of {moments} upgrades completed; after a kill {longest:.2f} s until a client was served", flush=True)
            self.assertEqual([event for event in load.gateway.events() if event["state"] == "offline"], [])
            load.counts()
            load.gateway.upgrade()
            self.check(client)


if __name__ == "__main__":
    unittest.main()
