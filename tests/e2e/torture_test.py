"""`pulsegate torture`: what a broker loses when it is killed, the gateway first of all."""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from gateway import SANITIZED, binary, free_port, wait_until


class Torture:
    """A run against a gateway; `wrapper` goes before the gateway's command. With `clock` it has a wall clock that steps."""

    def __init__(self, folder, data, *options, wrapper=(), clock=False):
        self.port, self.folder = free_port(), Path(folder)
        self.json = self.folder / "results.json"
        http = free_port()
        if clock:
            library, file = self.folder / "faults.so", self.folder / "clock"
            source = Path(__file__).with_name("faults.c")
            subprocess.run(["c++", "-xc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
            options = (*options, "--clock", file)
            wrapper = ("env", f"LD_PRELOAD={library}", f"CLOCK={file}", *wrapper)
        self.command = [str(binary()), "torture", "--port", str(self.port), "--http", str(http), "--json", str(self.json),
                        "--log", str(self.folder / "log"), *map(str, options), "--", *wrapper, str(binary()), "--listen",
                        f"mqtt://127.0.0.1:{self.port}", "--listen", f"http://127.0.0.1:{http}", "--data", str(data)]

    def run(self):
        """The exit status, and what the run says of each kind of traffic."""
        done = subprocess.run(self.command, capture_output=True, text=True, timeout=120 + 5 * 160 * LONG)
        self.said = done.stdout + done.stderr
        results = json.loads(self.json.read_text() or "{}")
        return done.returncode, results, {each["kind"]: each for each in results.get("traffic", [])}


def lives(pid):
    stat = Path(f"/proc/{pid}/stat")
    with contextlib.suppress(OSError):
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def usage(*arguments):
    return subprocess.run([str(binary()), "torture", *arguments], capture_output=True, text=True, timeout=20)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pulsegate-torture-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)


LONG = bool(os.environ.get("PULSEGATE_LONG"))  # tests/run --long sets it
MESSAGES = ("qos1", "qos2", "mixed", "inbox", "rooms", "shared", "delayed", "retained", "wills")
FAULTS = ("lost", "wrongly_repeated", "out_of_order", "early", "outdated", "unwanted")


class GatewayTest(Case):
    def test_it_loses_nothing_with_a_folder_for_data(self):
        ends, seconds = (40, 160) if LONG else (4, 24)
        torture = Torture(self.folder, self.folder / "data", "--kills", ends, "--stops", ends, "--seconds", seconds,
                          clock=not SANITIZED)  # a sanitizer must be loaded first
        status, results, traffic = torture.run()
        self.assertEqual(status, 0, torture.said)
        self.assertTrue(results["passed"])
        self.assertEqual((len(results["kills"]), len(results["stops"])), (ends, ends))
        self.assertEqual(results["bad_stops"], [])
        for kind in MESSAGES:
            self.assertGreater(traffic[kind]["acknowledged"], 20, kind)
            self.assertEqual([traffic[kind][fault] for fault in FAULTS], [0] * len(FAULTS), traffic[kind])
        self.assertGreater(results["presence"]["told"], 100)
        self.assertEqual((results["presence"]["fallen"], results["presence"]["untrue"]), (0, 0), torture.said)
        self.assertIn("verdict: nothing that was acknowledged is lost", torture.said)


@unittest.skipIf(SANITIZED, "it is about the command, not about the gateway")
class CommandTest(Case):
    def test_it_finds_what_a_gateway_without_data_loses(self):
        torture = Torture(self.folder, "none", "--kills", 3, "--seconds", 3, "--seed", 7)
        status, results, traffic = torture.run()
        self.assertEqual(status, 1, torture.said)
        self.assertFalse(results["passed"])
        self.assertEqual(results["seed"], 7)
        for kind in ("qos1", "qos2", "mixed", "inbox", "rooms", "shared", "retained", "wills"):
            self.assertGreater(traffic[kind]["lost"], 0, kind)
        self.assertGreater(results["sessions_lost"], 0)
        self.assertRegex(torture.said, r"fault at [\d.]+ s: lost: QoS \d message \d+ of publisher \d+ to receiver \d+")
        self.assertRegex(torture.said, r"verdict: FAILED: [\d,]+ lost")

    def test_it_finds_versions_that_fall_with_the_clock(self):
        torture = Torture(self.folder, "none", "--kills", 0, "--stops", 8, "--seconds", 8, "--seed", 1, clock=True)
        status, results, _ = torture.run()
        self.assertEqual(status, 1, torture.said)
        self.assertGreater(results["steps_back"], 0)
        self.assertGreater(results["presence"]["fallen"], 0)
        self.assertRegex(torture.said, r"presence: version fell: \S+ was told that \S+ is \w+ at \d+, after \d+")

    def test_a_stop_must_end_in_order(self):
        script = ["/bin/sh", "-c", 'trap "exit 3" TERM; "$@" & wait', "sh"]
        torture = Torture(self.folder, self.folder / "data", "--kills", 0, "--stops", 1, "--seconds", 1, wrapper=script)
        status, results, _ = torture.run()
        self.assertEqual(status, 1, torture.said)
        self.assertEqual(results["bad_stops"], ["exit status 3"])
        self.assertIn("1 stops not in order", torture.said)

    def test_nothing_is_left_behind_by_an_interrupted_or_killed_run(self):
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -signal.SIGKILL)):
            with self.subTest(signal=number):
                torture = Torture(self.folder, "none", "--seconds", 60, "--kills", 0)
                run = subprocess.Popen(torture.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                try:
                    log = self.folder / "log"
                    wait_until(lambda: log.exists() and " ready: " in log.read_text(), what="the gateway")
                    gateways = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
                    self.assertEqual(len(gateways), 1)
                    run.send_signal(number)
                    self.assertEqual(run.wait(10), status)
                    wait_until(lambda: not lives(gateways[0]), what="the gateway's end")
                    log.unlink()
                finally:
                    run.kill()
                    run.wait()

    def test_the_rest_of_a_script_is_killed_as_well(self):
        script = ["/bin/sh", "-c", f'sleep 60 & echo $! >>{self.folder}/pids; "$@"; exit', "sh"]
        torture = Torture(self.folder, self.folder / "data", "--kills", 1, "--seconds", 1, wrapper=script)
        self.assertEqual(torture.run()[0], 0, torture.said)
        sleepers = (self.folder / "pids").read_text().split()
        self.assertEqual(len(sleepers), 2)
        self.assertFalse(any(map(lives, sleepers)))

    def test_a_broker_that_does_not_start_is_told_of(self):
        done = usage("--port", str(free_port()), "--", "false")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("ended with exit status 1 before port", done.stderr)
        done = usage("--port", str(free_port()), "--without", "delayed", "--", "sh", "-c", "exit 3")
        self.assertEqual(done.returncode, 1)
        self.assertIn("ended with exit status 3 before port", done.stderr)

    def test_wrong_usage_has_a_status_of_its_own(self):
        for arguments, words in (([], "COMMAND"), (["--", ], "COMMAND"), (["--kills", "many", "--", "true"], "--kills"),
                                 (["--host", "192.0.2.1", "--", "true"], "loopback"),
                                 (["--without", "qos3", "--", "true"], "qos1,qos2"),
                                 (["--json", "/nowhere/file", "--", "true"], "/nowhere/file")):
            with self.subTest(arguments=arguments):
                done = usage(*arguments)
                self.assertEqual(done.returncode, 2)
                self.assertIn(words, done.stderr)
        self.assertEqual(usage("--help").returncode, 0)


if __name__ == "__main__":
    unittest.main()
