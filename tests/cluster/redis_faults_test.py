"""What a cluster promises while its Redis stands still, dies, loses its newest writes or is replaced by sentinels, and
while its nodes leave, under a load of all kinds that `pulsegate-loadgen kill` judges. The long runs are those of
`tests/run --long`."""

import contextlib
import json
import re
import signal
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

from cluster_test import ask, leave_a_session, node, reason_of, returned, standby
from gateway import PUBACK, SANITIZED, Client, binary, let_pass, subscribe_packet, wait_until
from kill_test import GENERATOR, LONG, SLOWNESS
from ports import free_port
from redis_pair import Pair
from redis_server import RedisServer
from sentinels import Sentinels
from stored_client import judge_trouble

FAULTS = ("lost", "wrongly_repeated", "out_of_order", "early")
# While Redis is away, wills come late, and the feed, which is read from it, stands still.
NO_WILLS = ("--without", "wills")
NO_WILLS_NO_FEED = ("--without", "presence,wills")

long_only = unittest.skipUnless(LONG, "it takes minutes")


def epochs(redis):
    tokens = redis.ask("MGET", *(f"{{p{number}}}:token" for number in range(128))).splitlines()
    return [int(token.split()[0]) for token in tokens]


def written(redis):
    """Units that Redis has taken, of all nodes."""
    found = redis.ask("INFO", "commandstats")
    calls = re.search(r"cmdstat_fcall:calls=(\d+)", found)
    return int(calls[1]) if calls else 0


class Load:
    """Two nodes, which `pulsegate-loadgen kill` starts, and all kinds of traffic. Beside it there are clients that notice
    when they are disconnected."""

    def __init__(self, url, seconds, *options):
        self.folder = tempfile.TemporaryDirectory(prefix="pulsegate-faults-")
        self.path = Path(self.folder.name)
        self.port, self.http_port = free_port(), free_port()
        self.seconds = seconds
        self.command = [str(GENERATOR), "kill", "--gateway", str(binary()), "--cluster", url, "--kills", "0", "--seconds",
                        str(seconds), "--port", str(self.port), "--http", str(self.http_port), "--json",
                        str(self.path / "results.json"), "--log", str(self.path / "log"), "--slowness", str(SLOWNESS),
                        *(("--rate", "600") if SANITIZED and "--rate" not in options else ()), *map(str, options)]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=(self.path / "said").open("w"),
                                        stderr=subprocess.STDOUT)
        wait_until(lambda: " 0 of 0 kills" in self.said, 60, "load")
        self.begun = time.monotonic()
        return self

    def __exit__(self, kind, error, trace):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait()
        if kind:
            print(f"--- {' '.join(self.command)}\n{self.said[-4000:]}\n--- log\n{self.log[-6000:]}---", flush=True)
        self.folder.cleanup()

    @property
    def said(self):
        return (self.path / "said").read_text()

    @property
    def log(self):
        return (self.path / "log").read_text()

    def nodes(self):
        """Their processes, the one that serves first."""
        found = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [int(each) for each in found]

    def finish(self, patience=240):
        """When all has come that will come: what the generator found."""
        self.process.wait(max(self.seconds - (time.monotonic() - self.begun), 0) + patience)
        return json.loads((self.path / "results.json").read_text())


class Witnesses:
    """Clients that need no Redis: they ping, send themselves messages, and are told which users come and go."""

    def __init__(self, port):
        self.clients = [Client(port, timeout=60).login(f"witness{version}", version=version) for version in (4, 5)]
        for client in self.clients:
            client.subscribe(f"witness/{client.version}", qos=1)
        self.port = port
        Client(port).login("visitor").disconnect()  # a new user must be stored first
        self.watcher = Client(port, timeout=60).login("watcher", keepalive=3600)
        self.watcher.send(subscribe_packet("presence/visitor"))
        self.ends = threading.Event()
        self.slowest = 0.0
        self.rounds = 0
        self.error = None
        self.thread = threading.Thread(target=self._watch)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()
        for client in (*self.clients, self.watcher):
            client.close()

    def _watch(self):
        try:
            while not self.ends.wait(0.1):
                for client in self.clients:
                    began = time.monotonic()
                    client.ping()
                    client.publish(f"witness/{client.version}", b"%d" % self.rounds)
                    assert client.receive_publish() == (f"witness/{client.version}", b"%d" % self.rounds)
                    self.slowest = max(self.slowest, time.monotonic() - began)
                if self.rounds % 50 == 0:  # a client that comes and goes all the time is banned
                    with Client(self.port).login("visitor"):
                        self._await_presence("online")
                    self._await_presence("offline")
                self.rounds += 1
        except Exception as error:
            self.error = error

    def _await_presence(self, state):
        while json.loads(self.watcher.receive_publish()[1])["state"] != state:
            pass


class RedisFaultsTest(unittest.TestCase):
    @contextlib.contextmanager
    def judged(self, redis, seconds, *options):
        """A load during which Redis is in trouble, and what must be true of it at the end."""
        with Load(redis.url, seconds, *options) as load:
            before = epochs(redis)
            with Witnesses(load.port) as witnesses:
                yield load
            self.assertIsNone(witnesses.error)
            self.assertGreater(witnesses.rounds, 5)
            self.assertLess(witnesses.slowest, 20)
            self.assertLess(time.monotonic() - load.begun, seconds, "the load ended before the trouble did")
            self.assertEqual(epochs(redis), before)
            found = load.finish()
            for each in found["traffic"]:
                self.assertEqual([each[fault] for fault in FAULTS], [0] * len(FAULTS), load.said[-4000:])
            self.assertEqual([found["sessions_lost"], found["other_faults"], found["ended_by_itself"],
                              found["presence"]["fallen"]], [0, 0, [], 0], load.said[-4000:])
            print(f"{self.id()}: {found['verdict']}, {sum(each['acknowledged'] for each in found['traffic'])} acknowledged, "
                  f"{sum(each['refused'] for each in found['traffic'])} refused, {witnesses.rounds} rounds, the slowest "
                  f"{witnesses.slowest:.3f} s", flush=True)

    def await_service(self, load, redis):
        """Redis takes units again, and the node says that all is well."""
        taken = wait_until(lambda: written(redis), 60, "Redis")
        wait_until(lambda: written(redis) > taken + 50, 60, "units")
        wait_until(lambda: ask(load.http_port, "/readyz")[0] == 200, 60, "ready again")

    def test_a_redis_that_stands_still_disconnects_nobody_for_a_stored_session(self):
        with RedisServer() as redis, node(redis, "a") as gateway:
            judge_trouble(self, gateway.port, redis.stop, redis.go_on)

    @long_only
    def test_redis_stands_still(self):
        with RedisServer() as redis, self.judged(redis, 300, *NO_WILLS_NO_FEED) as load:
            for seconds in (1, 5, 30, 120):
                redis.stop()
                let_pass(seconds)  # it is the fault that takes so long
                redis.go_on()
                self.await_service(load, redis)

    @long_only
    def test_redis_is_killed_and_restarted_again_and_again(self):
        with RedisServer() as redis, self.judged(redis, 240, *NO_WILLS_NO_FEED) as load:
            for _ in range(20):
                redis.kill()
                redis.start()
                self.await_service(load, redis)

    @long_only
    def test_redis_fails_over_and_has_lost_its_newest_writes(self):
        with Pair() as redis, self.judged(redis, 300, *NO_WILLS) as load:
            for _ in range(20):
                redis.lose_from_now_on()
                lost_from = written(redis)
                wait_until(lambda lost_from=lost_from: written(redis) > lost_from + 200, what="units that will be lost")
                self.assertGreater(redis.fail_over(), 10_000)
                self.await_service(load, redis)

    def test_sentinels_fail_over(self):
        times, seconds, rate = (10, 500, 1500) if LONG else (1, 120, 600)
        with Sentinels(down_after=3_000) as redis, self.judged(redis, seconds, "--rate", rate, *NO_WILLS) as load:
            for _ in range(times):
                for exchange in (redis.fail_over, redis.kill_primary):
                    redis.await_calm()
                    exchange()
                    self.await_service(load, redis)


class LeavingTest(unittest.TestCase):
    def test_everybody_is_back_in_time_when_nodes_leave_under_load(self):
        stops, seconds = (20, 120) if LONG else (2, 12)
        # A Redis that waits for its disk must not be replaced: what is judged is how the nodes leave.
        with Sentinels(down_after=10_000) as redis, tempfile.TemporaryDirectory(prefix="pulsegate-leaving-") as folder:
            results, log = Path(folder) / "results.json", Path(folder) / "log"
            done = subprocess.run(
                [str(GENERATOR), "kill", "--gateway", str(binary()), "--cluster", redis.url, "--kills", "0", "--stops", str(stops),
                 "--seconds", str(seconds), "--port", str(free_port()), "--http", str(free_port()), "--slowness", str(SLOWNESS),
                 *(("--rate", "600") if SANITIZED else ()), "--json", str(results), "--log", str(log)],
                capture_output=True, text=True, timeout=240 + 4 * seconds)
            said = done.stdout + done.stderr
            self.assertEqual(done.returncode, 0, said)
            found = json.loads(results.read_text())
            self.assertEqual((len(found["stops"]), found["bad_stops"], found["sessions_lost"]), (stops, [], 0), said)
            for each in found["traffic"]:
                self.assertEqual([each[fault] for fault in FAULTS], [0] * len(FAULTS), said)
            self.assertEqual([found["presence"][fault] for fault in ("fallen", "untrue", "offline_in_time")], [0, 0, 0], said)
            self.assertNotIn("condemned node", log.read_text())
            print(f"{self.id()}: {found['verdict']}, {sum(each['acknowledged'] for each in found['traffic'])} acknowledged",
                  flush=True)


class Publisher:
    """Publishes numbered messages to sessions of absent clients, and repeats them until they are acknowledged, to
    the node that serves."""

    def __init__(self, name, ports):
        self.name, self.ports = name, ports
        self.acknowledged = set()
        self.waiting = {}  # packet identifier: number
        self.next = 0
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self._publish)
        self.thread.start()

    def end(self):
        self.ends.set()
        self.thread.join()

    def _publish(self):
        left = []  # connections that are given up, and not closed: what was sent there is in the sockets
        while not (self.ends.is_set() and not self.waiting):
            port = self.ports[-1]
            try:
                client = Client(port, timeout=5).login(self.name, version=5)
                left.append(client)
                for packet_id, number in self.waiting.items():
                    self._send(client, packet_id, number)
                while port == self.ports[-1] and (self.waiting or not self.ends.is_set()):
                    self._take_turn(client)
            except (OSError, AssertionError):
                continue
        for client in left:
            client.close()

    def _send(self, client, packet_id, number):
        client.publish(f"stored/{number % 4}", f"{self.name} {number}".encode(), qos=1, packet_id=packet_id)

    def _take_turn(self, client):
        while len(self.waiting) < 50 and not self.ends.is_set():
            self.next += 1
            packet_id = 1 + self.next % 60_000
            self.waiting[packet_id] = self.next
            self._send(client, packet_id, self.next)
        if answer := client.receive():
            if answer[0] >> 4 == PUBACK and reason_of(answer) < 0x80:
                number = self.waiting.pop(int.from_bytes(answer[1][:2], "big"), None)
                self.acknowledged.add(number)
        else:
            raise OSError


class Monitor:
    """What Redis does, in its order: the caller of each function, and which of these calls have changed rows."""

    def __init__(self, redis):
        self.process = subprocess.Popen(["redis-cli", "-p", str(redis.port), "MONITOR"], stdout=subprocess.PIPE, text=True)
        self.units = []  # (incarnation, whether it has changed anything)
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    def end(self):
        self.process.terminate()
        self.thread.join()
        self.process.stdout.close()
        self.process.wait()

    def _read(self):
        for line in self.process.stdout:
            if '"FCALL"' in line[:80] and (found := re.search(r'"\d+ ([^#" ]+#[0-9a-f]+):\d+"', line)):
                self.units.append([found[1], False])
            elif " lua] " in line[:40] and self.units and re.search(r'lua\] "(HSET|HDEL|SET)"', line[:80]):
                self.units[-1][1] = True
            elif '"FCALL"' in line[:80]:
                self.units.append(["", False])  # a beat, which has no token


class StoppedNodeTest(unittest.TestCase):
    def test_a_node_that_is_stopped_under_load_changes_no_row_after_the_claim(self):
        seconds = 60 if LONG else 0
        room = ("--max-queued-messages", "1000000", "--max-queued-bytes", "1GiB")
        with RedisServer() as redis, node(redis, "first", *room) as first:
            for number in range(4):
                leave_a_session(first, f"away{number}", f"stored/{number}")
            second = standby(redis, "second", free_port(), *room)
            self.addCleanup(second.kill)
            ports = [first.port]
            publishers = [Publisher(f"publisher{number}", ports) for number in range(4)]
            monitor = Monitor(redis)
            wait_until(lambda: all(len(each.acknowledged) > 200 for each in publishers), what="load")
            first.process.send_signal(signal.SIGSTOP)
            second.await_ready()
            ports.append(second.port)
            claimed_at = len(monitor.units)
            stopped = next(each for each, _ in monitor.units if each.startswith("first#"))  # beats have no name
            wait_until(lambda: {each for each, changed in monitor.units[claimed_at:] if changed} - {stopped}, what="new units")
            let_pass(seconds)  # it stands still for so long
            first.process.send_signal(signal.SIGCONT)
            first.wait_for_log("standing by")
            before = [len(each.acknowledged) for each in publishers]
            wait_until(lambda: all(len(each.acknowledged) > count + 200 for each, count in zip(publishers, before)))
            for each in publishers:
                each.end()
            monitor.end()
            later = monitor.units[claimed_at:]
            self.assertIn([stopped, True], monitor.units[:claimed_at])
            self.assertNotIn([stopped, True], later)
            self.assertGreater(len(later), 10)
            got = set()
            for number in range(4):
                got |= self.stored(second, number)
            acknowledged = {(each.name, number) for each in publishers for number in each.acknowledged}
            self.assertEqual(acknowledged - got, set())
            print(f"{self.id()}: {len(acknowledged)} acknowledged, {len(later)} units after the claim, "
                  f"{sum(each == stopped for each, _ in later)} of them by the node that was stopped", flush=True)
            second.stop()
            wait_until(lambda: first.log.count(" ready: ") == 2, what="the first node serves again")

    def stored(self, gateway, number):
        got = set()
        with returned(gateway, f"away{number}") as client:
            client.publish(f"stored/{number}", b"the last one", qos=1, packet_id=1)
            while (payload := client.receive_publish()[1]) != b"the last one":
                name, count = payload.decode().split()
                got.add((name, int(count)))
        return got


if __name__ == "__main__":
    unittest.main()
