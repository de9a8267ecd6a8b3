"""A drain and a restart under load: acknowledged messages arrive, users that return were never offline, and no login is refused.

Small by default. With PULSEGATE_LONG (tests/run --long) 15,000 clients send 3,000 packets a second and are drained over 30 s:

    cd tests/e2e && PULSEGATE_LONG=1 python3 -m unittest -v drain_load_test
"""

import contextlib
import datetime
import json
import os
import resource
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

from gateway import Client, SANITIZED, binary, connect_packet, seconds_since_1970, wait_until
from ports import free_port

LONG = bool(os.environ.get("PULSEGATE_LONG"))
CLIENTS, PACKETS, RAMP, NOTICE, OVER = (15_000, 3_000, 2_000, 5, 30) if LONG else (200, 200, 1_000, 3, 6)
KEEPALIVE = 20  # s: the limit of silence is 30
WITNESSES = 40
SERVER_SHUTTING_DOWN = 0x8B
GENERATOR = binary().parent / "pulsegate-loadgen"
SCENARIO = f"""about = phones with kept sessions; their gateway is drained and started again
packets = {PACKETS}/s
duration = 1h
ramp = {RAMP}/s
keepalive = {KEEPALIVE}s
version = 5
session = kept
messages = fill
qos = 1
[group phones]
clients = {CLIENTS}
"""


class Service:
    """The gateway as systemd would run it: its socket is held while it restarts."""

    def __init__(self, folder):
        self.folder, self.http = folder, free_port()
        self.listening = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.port = self.listening.getsockname()[1]
        self.events = folder / "events.jsonl"
        self.log = folder / "log"
        self.process = None

    def start(self):
        def take_socket():
            os.dup2(self.listening.fileno(), 3)
            os.set_inheritable(3, True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                ["sh", "-c", 'export LISTEN_PID=$$; exec "$@"', "sh", str(binary()), "--listen", f"mqtt://127.0.0.1:{self.port}",
                 "--listen", f"http://127.0.0.1:{self.http}", "--data", str(self.folder / "data"), "--events", str(self.events),
                 "--drain-notice", f"{NOTICE}s", "--drain-time", f"{OVER}s"],
                stderr=log, stdin=subprocess.DEVNULL, close_fds=False, preexec_fn=take_socket,
                env={**os.environ, "LISTEN_FDS": "1"})
        wait_until(lambda: self.get("readyz")[0] == 200, what="a gateway that is ready")

    def get(self, path):
        """Status and JSON; (None, {}) if nobody answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/{path}", timeout=5) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())
        except (OSError, ValueError):
            return None, {}

    def connected(self):
        return self.get("api/v1/status")[1].get("clients", {}).get("connected", 0)

    def messages(self):
        return self.get("api/v1/status")[1].get("messages", {}).get("received", 0)

    def offline_between(self, begin, end):
        told = map(json.loads, self.events.read_text().splitlines())
        return [event for event in told
                if event["state"] == "offline" and begin <= seconds_since_1970(event["time"]) <= end]

    def end(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process:
            self.process.wait()
        self.listening.close()


class Watched:
    """Looks again and again: is it ready, how many clients are there, and does its port take connections? One answer that
    comes late holds up no other question."""

    def __init__(self, service):
        self.service, self.is_over = service, threading.Event()
        self.not_ready = None  # when it said so first
        self.fewer = None  # when clients had left for the first time
        self.halved = None  # when half of them had
        self.refused = 0
        self.threads = [threading.Thread(target=self.repeat, args=(look,), daemon=True)
                        for look in (self.connect, self.ask_if_ready, self.count_clients)]
        for thread in self.threads:
            thread.start()

    def repeat(self, look):
        while not self.is_over.wait(0.05):  # the pace at which it looks
            look()

    def connect(self):
        with contextlib.suppress(TimeoutError):
            try:
                socket.create_connection(("127.0.0.1", self.service.port), timeout=5).close()
            except ConnectionRefusedError:
                self.refused += 1

    def ask_if_ready(self):
        if not self.not_ready and self.service.get("readyz")[0] == 503:
            self.not_ready = time.monotonic()

    def count_clients(self):
        clients = self.service.get("api/v1/drain")[1].get("clients")
        if not self.fewer and clients is not None and clients < CLIENTS + WITNESSES:
            self.fewer = time.monotonic()
        if not self.halved and clients is not None and clients < CLIENTS / 2:
            self.halved = time.monotonic()

    def stop(self):
        self.is_over.set()
        for thread in self.threads:
            thread.join()


def last_word(client, left):
    """Notes when a witness is told to leave."""
    first, body = client.receive()
    if (first, body[0]) == (0xE0, SERVER_SHUTTING_DOWN):
        left.append(time.monotonic())


@unittest.skipIf(SANITIZED, "a sanitizer's gateway is too slow for the load")
@unittest.skipIf(resource.getrlimit(resource.RLIMIT_NOFILE)[1] < CLIENTS + 1_000, "needs a file for each client")
class DrainUnderLoadTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="pulsegate-drain-")))
        self.service = Service(self.folder)
        self.addCleanup(self.service.end)

    def load(self):
        scenario = self.folder / "drain.scenario"
        scenario.write_text(SCENARIO)
        process = subprocess.Popen(
            [str(GENERATOR), str(scenario), "--connect", f"mqtt://127.0.0.1:{self.service.port}", "--json",
             str(self.folder / "load.json")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        return process

    def witnesses(self, name):
        made = [Client(self.service.port, timeout=300) for _ in range(WITNESSES // 2)]
        for number, witness in enumerate(made):
            self.addCleanup(witness.close)
            witness.send(connect_packet(f"{name}-{number}", version=5, clean=False))
            self.assertEqual(witness.receive()[1][1], 0)
        return made

    def test_a_drain_and_a_restart_lose_nothing(self):
        service = self.service
        service.start()
        witnesses = self.witnesses("early")  # clients leave in the order in which they have come
        load = self.load()
        wait_until(lambda: service.connected() == CLIENTS + len(witnesses), timeout=300, what="all clients")
        witnesses += self.witnesses("late")
        wait_until(lambda: service.connected() == CLIENTS + WITNESSES, what="all witnesses")
        wait_until(lambda: service.messages() > PACKETS / 4, what="messages are under way")
        watched = Watched(service)
        began, began_at = time.monotonic(), datetime.datetime.now().timestamp()
        service.process.terminate()
        left = []
        readers = [threading.Thread(target=last_word, args=(witness, left)) for witness in witnesses]
        for reader in readers:
            reader.start()
        self.assertEqual(service.process.wait(NOTICE + OVER + 60), 0)
        ended = time.monotonic()
        for reader in readers:
            reader.join()
        service.start()
        started = time.monotonic()
        wait_until(lambda: service.connected() >= CLIENTS, timeout=120, what="all clients are back")
        back, back_at = time.monotonic(), datetime.datetime.now().timestamp()
        watched.stop()
        offline = service.offline_between(began_at, back_at)
        wait_until(lambda: service.messages() > PACKETS, what="messages after the restart")
        load.send_signal(signal.SIGINT)  # it waits for what is under way
        said, _ = load.communicate(timeout=120)
        counts = json.loads((self.folder / "load.json").read_text())["totals"]["counts"]
        self.assertNotIn(None, (watched.not_ready, watched.fewer, watched.halved), "nobody looked in time")
        print(f"\n{CLIENTS} clients, {PACKETS} packets/s: not ready after {watched.not_ready - began:.2f} s, first client left after "
              f"{min(min(left), watched.fewer) - began:.2f} s, half of them after {watched.halved - began:.2f} s, stopped after "
              f"{ended - began:.2f} s, ready again {started - ended:.2f} s later, all back {back - started:.2f} s after that; "
              f"{counts['acknowledged']} messages acknowledged, {counts.get('messages_lost', 0)} lost, "
              f"{len(offline)} shown offline, {watched.refused} connections refused", flush=True)
        self.assertLess(watched.not_ready, min(left))
        self.assertLess(watched.not_ready, watched.fewer)
        self.assertGreaterEqual(min(left) - began, NOTICE)
        self.assertEqual(len(left), WITNESSES)
        self.assertGreater(ended - min(left), 0.8 * OVER)  # else the rest has left at once
        self.assertGreater(watched.halved - watched.fewer, 0.2 * OVER)
        self.assertLess(back - started, 1.5 * KEEPALIVE, "they are late: nothing was judged")
        self.assertEqual(offline, [])
        self.assertEqual(watched.refused, 0)
        self.assertGreater(counts["acknowledged"], PACKETS / 20, said)
        for fault in ("messages_lost", "session_lost", "messages_reordered", "messages_damaged", "messages_misdirected",
                      "messages_repeated"):
            self.assertEqual(counts.get(fault, 0), 0, f"{fault}\n{said}")


if __name__ == "__main__":
    unittest.main()
