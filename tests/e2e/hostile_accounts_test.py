"""Accounts with right passwords that take all they can get: newcomers are let in, an honest pair does not notice, and
the memory stays within memory-budget. Quiet times and attacks alternate. With PULSEGATE_LONG, there is an hour of
all kinds mixed. The attackers run on the same machine, so in a third of this hour they attack another gateway. What the
pair notices then is caused by the machine."""

import os
import statistics
import tempfile
import time
import unittest
from pathlib import Path

from gateway import SANITIZED, Client, Gateway, let_pass
from hostile_accounts import ACCOUNTS, Attack, account, connect, publish, subscribe, write_passwords

BUDGET = 300
SECONDS = 3
ROUNDS = 2
LONG = bool(os.environ.get("PULSEGATE_LONG"))
MIXED = (60, 24) if LONG else (ROUNDS, SECONDS)
# Of a machine on which other tests and the attackers themselves run.
PATIENCE = 3.0
PATIENCE_OF_AN_HOUR = 0.01


class Honest:
    """A pair that talks, and newcomers."""

    def __init__(self, port):
        self.port = port
        self.sender = self.enter("alice")
        self.receiver = self.enter("bob")
        self.receiver.send(subscribe("talk"))
        assert self.receiver.receive()[0] == 0x90
        self.newcomers = 0
        self.refused = 0
        self.slowest_login = 0.0

    def close(self):
        self.sender.close()
        self.receiver.close()

    def enter(self, user):
        one = Client(self.port, timeout=10)
        one.version = 5
        one.send(connect("phone", user))
        answer = one.receive()
        assert answer and answer[0] == 0x20 and answer[1][1] == 0, f"{user} is told {answer}"
        return one

    def welcome(self):
        began = time.monotonic()
        self.newcomers += 1
        try:
            self.enter(f"newcomer{self.newcomers % 1000}").close()
        except (OSError, AssertionError) as why:
            self.refused += 1
            print(f"newcomer {self.newcomers}: {why}", flush=True)
        self.slowest_login = max(self.slowest_login, time.monotonic() - began)

    def talk(self):
        """How long a message takes, in seconds."""
        began = time.monotonic()
        self.sender.send(publish("talk", b"hello"))
        topic, payload = self.receiver.receive_publish()
        assert (topic, payload) == ("talk", b"hello"), topic
        took = time.monotonic() - began
        assert self.sender.receive()[0] == 0x40
        return took

    def live(self, seconds, see):
        """The slowest of a hundred messages, in seconds; a newcomer comes each second. `see` is called in between."""
        times = []
        ends = time.monotonic() + seconds
        next_newcomer = time.monotonic()
        while time.monotonic() < ends:
            times.append(self.talk())
            if time.monotonic() >= next_newcomer:
                next_newcomer += 1
                self.welcome()
            see()
            let_pass(0.02)
        return sorted(times)[len(times) * 99 // 100]


class HostileAccountsTest(unittest.TestCase):
    def start(self):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="pulsegate-hostile-")))
        users = [account(number) for number in range(ACCOUNTS)] + ["alice", "bob"]
        users += [f"newcomer{number}" for number in range(1000)]
        passwords = write_passwords(folder / "users", users)
        return self.enterContext(Gateway(
            "--memory-budget", f"{BUDGET}MiB", "--password-file", passwords, "--data", folder / "data",
            "--shards", "2", "--ban-flaps", "0"))

    def survive(self, kind, rounds=ROUNDS, seconds=SECONDS, *, patience=PATIENCE, other=None):
        """`other` is another gateway. If there is one, each round also has a time in which it is attacked."""
        gateway = self.start()
        honest = Honest(gateway.port)
        self.addCleanup(honest.close)
        most = steps = 0
        slowest = {"quiet": [], "beside": [], "busy": []}

        def see():
            nonlocal most
            most = max(most, gateway.rss())

        for _ in range(rounds):
            slowest["quiet"].append(honest.live(seconds / 2, see))
            if other:
                with Attack(other.port, kind):
                    slowest["beside"].append(honest.live(seconds, see))
            with Attack(gateway.port, kind) as attack:
                slowest["busy"].append(honest.live(seconds, see))
            steps += attack.steps
        see()
        quiet, beside, busy = (statistics.median(times or [0]) for times in slowest.values())
        what = (f"{kind}: {steps} steps, {most >> 20} MiB, p99 {quiet * 1000:.1f} ms quiet, "
                f"{beside * 1000:.1f} ms beside another gateway that is attacked, {busy * 1000:.1f} ms busy, "
                f"{honest.refused} of {honest.newcomers} newcomers refused, "
                f"the slowest let in or refused after {honest.slowest_login * 1000:.0f} ms")
        print(what, flush=True)
        self.assertEqual(honest.refused, 0, what)
        self.assertGreater(steps, rounds * seconds)
        self.assertLessEqual(busy, max(2 * quiet, 2 * beside, patience), what)
        if not SANITIZED:
            self.assertLessEqual(most, BUDGET << 20, what)

    def test_retained_messages(self):
        self.survive("retained")

    def test_wills(self):
        self.survive("wills")

    def test_inboxes_with_long_names(self):
        self.survive("inboxes")

    def test_sessions_of_clients_that_are_away(self):
        self.survive("away")

    def test_delayed_messages(self):
        self.survive("delayed")

    def test_filters(self):
        self.survive("filters")

    def test_topic_aliases(self):
        self.survive("aliases")

    def test_all_mixed(self):
        if LONG:
            self.survive("mix", *MIXED, patience=PATIENCE_OF_AN_HOUR, other=self.start())
        else:
            self.survive("mix", *MIXED)
