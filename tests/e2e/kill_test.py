"""`pulsegate-loadgen kill`: what a broker loses when it is killed, the gateway first of all."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from gateway import HANGING, PATIENCE, SANITIZED, binary, lives, wait_until
from ports import free_port, free_ports
from redis_server import RedisServer

# The release's: it is the gateway that a sanitizer looks at.
GENERATOR = (binary().parents[1] / "build" if SANITIZED else binary().parent) / "pulsegate-loadgen"
SLOWNESS = 6 if SANITIZED else 3  # the suite compiles meanwhile


class KillRun:
    """A run against a gateway; `wrapper` goes before the gateway's command. With `clock` it has a wall clock that steps."""

    def __init__(self, folder, data, *options, wrapper=(), clock=False, slowness=1):
        self.port, self.folder = free_port(), Path(folder)
        self.json = self.folder / "results.json"
        http = free_port()
        if clock:
            library, file = self.folder / "faults.so", self.folder / "clock"
            source = Path(__file__).with_name("faults.c")
            subprocess.run(["c++", "-xc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
            file.unlink(missing_ok=True)  # an earlier run's
            options = (*options, "--clock", file)
            wrapper = ("env", f"LD_PRELOAD={library}", f"CLOCK={file}", *wrapper)
        self.command = [str(GENERATOR), "kill", "--port", str(self.port), "--http", str(http), "--json", str(self.json),
                        "--log", str(self.folder / "log"), "--slowness", str(slowness), *map(str, options), "--", *wrapper,
                        str(binary()), "--listen", f"mqtt://127.0.0.1:{self.port}", "--listen",
                        f"http://127.0.0.1:{http}", "--data", str(data)]

    def run(self):
        """The exit status, and what the run says of each kind of traffic."""
        done = subprocess.run(self.command, capture_output=True, text=True, timeout=120 + 5 * 160 * LONG)
        self.said = done.stdout + done.stderr
        results = json.loads(self.json.read_text() or "{}")
        return done.returncode, results, {each["kind"]: each for each in results.get("traffic", [])}


def usage(*arguments, environment=None):
    return subprocess.run([str(GENERATOR), "kill", *arguments], capture_output=True, text=True, timeout=2 * PATIENCE,
                          env=os.environ | (environment or {}))


# At the end a run waits for a minute, until the users that were online at a kill are offline. Not in the tests of other things.
NO_PRESENCE = ("--without", "presence")


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pulsegate-kill-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)


LONG = bool(os.environ.get("PULSEGATE_LONG"))  # tests/run --long sets it
MESSAGES = ("qos1", "qos2", "mixed", "inbox", "rooms", "shared", "delayed", "retained", "wills")
FAULTS = ("lost", "wrongly_repeated", "out_of_order", "early", "outdated", "unwanted")


class ClusterTest(Case):
    """Two gateways with one Redis. Each time one ends, the other one takes over, and a new one stands by."""

    def play(self, kills, stops, seconds, *options):
        """The results of a run in which nothing was lost."""
        results = self.folder / "results.json"
        with RedisServer() as redis:
            done = subprocess.run(
                [str(GENERATOR), "kill", "--gateway", str(binary()), "--cluster", redis.url, "--kills", str(kills),
                 "--stops", str(stops), "--seconds", str(seconds), "--port", str(free_ports(2)),
                 "--http", str(free_ports(2)), "--rate", "600" if SANITIZED else "1500", "--slowness", str(SLOWNESS),
                 "--json", str(results), "--log", str(self.folder / "log"), *options],
                capture_output=True, text=True, timeout=180 + 4 * seconds)
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, said)
        found = json.loads(results.read_text())
        traffic = {each["kind"]: each for each in found["traffic"]}
        self.assertEqual((len(found["kills"]), len(found["stops"])), (kills, stops))
        for kind in MESSAGES:
            self.assertEqual([traffic[kind][fault] for fault in FAULTS], [0] * len(FAULTS), traffic[kind])
        return found

    def test_nothing_is_lost_when_clients_connect_through_an_edge(self):
        kills, seconds = (100, 800) if LONG else (4, 40)
        found = self.play(kills, 0, seconds, "--edges")
        self.assertIn(found["edge_kills"], range(1, kills))

    def test_nothing_is_lost_when_a_standby_takes_over(self):
        kills, stops, seconds = (40, 20, 300) if LONG else (3, 2, 30)
        self.play(kills, stops, seconds)
        log = (self.folder / "log").read_text()
        self.assertGreaterEqual(log.count("condemned node"), kills - 1, log[-6000:])


class GatewayTest(Case):
    def test_it_loses_nothing_with_a_folder_for_data(self):
        ends, seconds = (40, 160) if LONG else (4, 24)
        run = KillRun(self.folder, self.folder / "data", "--kills", ends, "--stops", ends, "--seconds", seconds,
                      slowness=SLOWNESS, clock=not SANITIZED)  # a sanitizer must be loaded first
        status, results, traffic = run.run()
        self.assertEqual(status, 0, run.said)
        self.assertTrue(results["passed"])
        self.assertEqual((len(results["kills"]), len(results["stops"])), (ends, ends))
        self.assertEqual(results["bad_stops"], [])
        self.assertEqual({check["outcome"] for check in results["checks"]}, {"passed"}, run.said)
        for kind in MESSAGES:
            self.assertGreater(traffic[kind]["acknowledged"], 0, kind)  # how many, the machine decides
            self.assertEqual([traffic[kind][fault] for fault in FAULTS], [0] * len(FAULTS), traffic[kind])
        self.assertGreater(results["presence"]["told"], 0)
        self.assertEqual([results["presence"][fault] for fault in ("fallen", "untrue", "offline_in_time")], [0, 0, 0],
                         run.said)
        self.assertIn("verdict: nothing that was acknowledged is lost", run.said)


@unittest.skipIf(SANITIZED, "it is about the command, not about the gateway")
class CommandTest(Case):
    def test_it_finds_what_a_gateway_without_data_loses(self):
        run = KillRun(self.folder, "none", "--kills", 3, "--seconds", 3, "--seed", 7, *NO_PRESENCE)
        status, results, traffic = run.run()
        self.assertEqual(status, 1, run.said)
        self.assertFalse(results["passed"])
        self.assertEqual(results["seed"], 7)
        self.assertGreater(results["sessions_lost"], 0)
        outcomes = {check["name"]: check["outcome"] for check in results["checks"]}
        self.assertEqual([outcomes[name] for name in ("acknowledged", "lost", "sessions", "presence_order", "stops")],
                         ["passed", "failed", "failed", "skipped", "skipped"])
        self.assertRegex(run.said, r"(?m)^fail +every acknowledged message arrived: [\d,]+ lost$")
        kinds = ("qos1", "qos2", "mixed", "inbox", "rooms", "shared", "retained", "wills")
        unnoticed = {kind for kind in kinds if traffic[kind]["lost"] == 0}
        for seed in range(8, 16):  # on a busy machine, three seconds are few messages of a kind
            if unnoticed:
                more = KillRun(self.folder, "none", "--kills", 3, "--seconds", 3, "--seed", seed, *NO_PRESENCE).run()[2]
                unnoticed = {kind for kind in unnoticed if more[kind]["lost"] == 0}
        self.assertEqual(unnoticed, set())
        self.assertRegex(run.said, r"fault at [\d.]+ s: lost: QoS \d message \d+ of publisher \d+ to receiver \d+")
        self.assertRegex(run.said, r"verdict: FAILED: [\d,]+ lost")

    def test_it_finds_versions_that_fall_with_the_clock(self):
        for seed in range(1, 9):  # the clients throw the same dice as the clock: in some runs it never steps back
            run = KillRun(self.folder, "none", "--kills", 0, "--stops", 8, "--seconds", 8, "--seed", seed, clock=True)
            status, results, _ = run.run()
            if results["steps_back"] and results["presence"]["fallen"]:
                break
        self.assertEqual(status, 1, run.said)
        self.assertGreater(results["steps_back"], 0)
        self.assertGreater(results["presence"]["fallen"], 0)
        self.assertRegex(run.said, r"presence: version fell: \S+ was told that \S+ is \w+ at \d+, after \w+ at \d+")

    def test_a_stop_must_end_in_order(self):
        script = ["/bin/sh", "-c", 'trap "exit 3" TERM; "$@" & wait', "sh"]
        run = KillRun(self.folder, self.folder / "data", "--kills", 0, "--stops", 1, "--seconds", 1, wrapper=script)
        status, results, _ = run.run()
        self.assertEqual(status, 1, run.said)
        self.assertEqual(results["bad_stops"], ["exit status 3"])
        self.assertIn("1 stops not in order", run.said)

    def test_nothing_is_left_behind_by_an_interrupted_or_killed_run(self):
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -signal.SIGKILL)):
            with self.subTest(signal=number):
                command = KillRun(self.folder, "none", "--seconds", 60, "--kills", 0).command
                run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                try:
                    log = self.folder / "log"
                    wait_until(lambda: log.exists() and " ready: " in log.read_text(), what="the gateway")
                    gateways = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
                    self.assertEqual(len(gateways), 1)
                    run.send_signal(number)
                    self.assertEqual(run.wait(60), status)
                    wait_until(lambda: not lives(gateways[0]), what="the gateway's end")
                    log.unlink()
                finally:
                    run.kill()
                    run.wait()

    def test_the_rest_of_a_script_is_killed_as_well(self):
        script = ["/bin/sh", "-c", f'{HANGING} & echo $! >>{self.folder}/pids; "$@"; exit', "sh"]
        run = KillRun(self.folder, self.folder / "data", "--kills", 1, "--seconds", 1, *NO_PRESENCE, wrapper=script,
                      slowness=SLOWNESS)
        self.assertEqual(run.run()[0], 0, run.said)
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

    def test_without_a_command_it_kills_a_gateway_with_a_temporary_folder(self):
        temporary, results = self.folder / "temporary", self.folder / "results.json"
        temporary.mkdir()
        port, http = free_port(), free_port()
        done = usage("--kills", "1", "--seconds", "1", *NO_PRESENCE, "--slowness", str(SLOWNESS), "--port", str(port), "--http", str(http),
                     "--json", str(results), "--gateway", str(binary()), environment={"TMPDIR": str(temporary)})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        command = json.loads(results.read_text())["command"]
        self.assertEqual(command[:-1], [str(binary()), "--listen", f"mqtt://127.0.0.1:{port}", "--listen",
                                        f"http://127.0.0.1:{http}", "--data"])
        self.assertEqual(Path(command[-1]).parent, temporary)
        self.assertEqual(list(temporary.iterdir()), [])

    def test_the_data_folder_that_is_named_stays(self):
        data = self.folder / "data"
        done = usage("--kills", "0", "--seconds", "1", "--slowness", str(SLOWNESS), "--port", str(free_port()), "--http", "0",
                     "--data", str(data), "--gateway", str(binary()), "--json", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((data / "pulsegate.db").exists())
        self.assertNotIn("http://", " ".join(json.loads(done.stdout)["command"]))
        self.assertIn("verdict: nothing that was acknowledged is lost", done.stderr)

    def test_the_gateway_is_the_one_beside_the_load_generator(self):
        generator = self.folder / "pulsegate-loadgen"
        shutil.copy(GENERATOR, generator)
        done = subprocess.run([str(generator), "kill"], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (64, ""))
        self.assertIn(f"--gateway '{self.folder}/pulsegate': there is no such program", done.stderr)

    def test_the_gateway_says_where_the_command_is_now(self):
        done = subprocess.run([str(binary()), "torture", "--kills", "1"], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertEqual(done.stderr, "pulsegate: torture: pulsegate-loadgen kill does this now\n")

    def test_wrong_usage_is_answered_with_one_line(self):
        for arguments, words in ((["--gateway", "/nowhere/pulsegate"], "/nowhere/pulsegate"),
                                 (["--data", "D", "--", "true"], "COMMAND"), (["--kills", "many", "--", "true"], "--kills"),
                                 (["--host", "192.0.2.1", "--", "true"], "loopback"),
                                 (["--without", "qos3", "--", "true"], "qos1,qos2"),
                                 (["--json", "/nowhere/file", "--", "true"], "/nowhere/file")):
            with self.subTest(arguments=arguments):
                done = usage(*arguments)
                status = 1 if words == "/nowhere/file" else 64
                self.assertEqual((done.returncode, done.stderr.count("\n")), (status, 1), done.stderr)
                self.assertIn(words, done.stderr)
        self.assertEqual(usage("--help").returncode, 0)


if __name__ == "__main__":
    unittest.main()
