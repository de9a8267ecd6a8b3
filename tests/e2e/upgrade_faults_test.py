"""Upgrades in which something goes wrong: a process is killed or hangs at some step, or at any moment. Either the old process
goes on, or the new one serves, and the clients do not notice.

With PULSEGATE_LONG (tests/run --long) there are hundreds of moments, and 20 with 15,000 clients:

    cd tests/e2e && PULSEGATE_LONG=1 python3 -m unittest -v upgrade_faults_test
"""

import json
import os
import random
import signal
import subprocess
import tempfile
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import UnixStreamServer
from threading import Event, Thread

from gateway import HANGING, PATIENCE, SANITIZED, Client, Gateway, binary, connect_packet, lives, wait_until
from handover_relay import program_with_fault
from upgradable import PAUSE, Load, gateway_for

LONG = bool(os.environ.get("PULSEGATE_LONG"))
SERVED_AFTER = 1  # seconds after a kill; judged in long runs only, in which nothing else runs
MOMENTS, SECONDS = (400, 900) if LONG else (8, 60)  # whichever is over first
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

    def kill_at_any_moment(self, load, client, times):
        """The new process. Returns the longest time until the old one served the client again."""
        end = time.monotonic() + SECONDS
        began = time.monotonic()
        self.assertTrue(Attempt(load.gateway, does="nothing").has_moved)
        most = time.monotonic() - began  # seconds that an upgrade takes
        moved = moments = longest = 0
        while moments < times and time.monotonic() < end:
            seconds = random.uniform(0, most)
            with self.subTest(seconds=seconds):
                moments += 1
                began = time.monotonic()
                attempt = Attempt(load.gateway, does="kill new", seconds=seconds)
                self.check(client)
                if attempt.has_moved:
                    moved += 1
                    most = time.monotonic() - began
                else:
                    longest = max(longest, time.monotonic() - attempt.report["time"])
        print(f"\n{moved} of {moments} upgrades completed", flush=True)
        return longest

    @unittest.skipIf(SANITIZED, "a sanitizer's gateway is too slow for the load")
    def test_clients_do_not_notice_under_load(self):
        with Load(CLIENTS, CLIENTS, CLIENTS) as load:
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
            self.kill_at_any_moment(load, client, MOMENTS)
            print(f"\nafter a kill {longest:.2f} s until a client was served", flush=True)
            if LONG:  # the time is measured there, on a machine that does nothing else
                self.assertLessEqual(longest, SERVED_AFTER)
            self.assertEqual([event for event in load.gateway.events() if event["state"] == "offline"], [])
            load.counts()
            load.gateway.upgrade()
            self.check(client)

    @unittest.skipUnless(LONG, "takes minutes")
    @unittest.skipIf(SANITIZED, "a sanitizer's gateway is too slow for the load")
    def test_thousands_of_clients_stay_when_the_new_process_dies(self):
        with Load(15_000, 3_000, 1_000) as load:
            client = load.gateway.connect("stays", clean=False)
            client.subscribe("room/a", qos=1)
            longest = self.kill_at_any_moment(load, client, 20)
            self.assertEqual(load.connected(), load.clients + 1)
            self.assertFalse([event for event in load.gateway.events() if event["state"] == "offline"])
            counts = load.counts()
            print(f"after a kill {longest:.2f} s until a client was served; {counts['acknowledged']} messages acknowledged",
                  flush=True)
            self.assertLessEqual(longest, SERVED_AFTER)

    def test_a_new_process_that_never_says_hello_is_ended_and_clients_are_served_meanwhile(self):
        with gateway_for() as gateway:
            client = gateway.connect("stays", clean=False)
            client.subscribe("room/a", qos=1)
            told = Path(gateway.folder.name) / "pid"
            program = Path(gateway.folder.name) / "program"
            program.write_text(f"#!/bin/sh\necho $$ >{told}.new && mv {told}.new {told} && exec {HANGING}\n")
            program.chmod(0o755)
            with ThreadPoolExecutor(1) as threads:
                upgrade = threads.submit(gateway.ctl, "upgrade", str(program))
                wait_until(told.exists, what="the start of the new process")
                while not upgrade.done():
                    client.ping()
            self.assertEqual(upgrade.result().returncode, 1)
            self.assertIn("does not answer in time", upgrade.result().stderr)
            self.assertFalse(lives(int(told.read_text())))
            gateway.upgrade()
            self.check(client)

    def test_clients_wait_for_a_second_by_default_if_the_new_process_hangs(self):
        with gateway_for() as gateway:
            program, _ = program_with_fault(gateway.folder.name, binary(), does="hang", at="lock")
            said = gateway.ctl("upgrade", program)
            self.assertEqual(said.returncode, 1, said.stdout)
            self.assertIn("clients may wait for 1 s (--longest-pause)", said.stderr)
            self.assertGreaterEqual(gateway.get_json("/api/v1/upgrade")[1]["last"]["pause"], 1)
            gateway.connect("c").ping()

    def test_a_stop_during_an_upgrade_is_obeyed_by_the_process_that_serves(self):
        for at, serving in (("ready", "old"), ("serving", "new")):
            with self.subTest(at=at), gateway_for("--drain-notice", "60s") as gateway:
                client = gateway.connect("stays")
                program, report = program_with_fault(gateway.folder.name, binary(), does="stop old", at=at)
                gateway.ctl("upgrade", "--longest-pause", PAUSE, program)
                wait_until(report.exists, what="the stop")  # the new process may serve a moment earlier
                new = json.loads(report.read_text())["new"]
                if serving == "new":
                    self.assertEqual(gateway.process.wait(PATIENCE), 0)
                    gateway.successor = new
                # It drains, and a second signal ends it at once.
                wait_until(lambda: gateway.get_json("/api/v1/drain")[1]["phase"] == "notice", what="the drain")
                client.ping()
                gateway.stop()

    def test_a_reload_during_an_upgrade_is_done_by_the_process_that_serves(self):
        with gateway_for() as gateway:
            program, _ = program_with_fault(gateway.folder.name, binary(), does="reload old", at="serving")
            self.assertTrue(gateway.try_to_upgrade(program)[0])
            wait_until(lambda: "SIGHUP: reloading" in gateway.log, what="the reload")

    def test_a_drain_is_refused_during_an_upgrade(self):
        with gateway_for() as gateway:
            program = Path(gateway.folder.name) / "program"
            program.write_text(f"#!/bin/sh\nexec {HANGING}\n")
            program.chmod(0o755)
            with ThreadPoolExecutor(1) as threads:
                upgrade = threads.submit(gateway.ctl, "upgrade", str(program))
                wait_until(lambda: gateway.get_json("/api/v1/upgrade")[1]["under_way"], what="the upgrade")
                status, answer = gateway.ask("POST", "/api/v1/drain")
                self.assertEqual((status, answer["code"]), (409, "upgrade_under_way"))
            self.assertEqual(upgrade.result().returncode, 1)
            gateway.connect("stays").ping()

    def test_a_new_process_with_less_room_for_events_deletes_none_before_it_serves(self):
        with gateway_for("--webhook", "http://127.0.0.1:1/nobody") as gateway:
            for number in range(300):
                gateway.connect(f"{'long' * 30}-{number}").close()
            wait_until(lambda: gateway.metric("pulsegate_webhook_events_waiting") == 900, what="all events")
            size = gateway.metric("pulsegate_event_log_bytes")
            self.assertGreater(size, 2 * 64 * 1024)
            gateway.settings.write_text('shards = 2\nevent-log-bytes = "64KiB"\n')
            # It has the store for three seconds, and looks every second what it has to do.
            program, _ = program_with_fault(gateway.folder.name, binary(), does="hang", at="ready")
            self.assertFalse(gateway.try_to_upgrade(program, "3")[0])
            self.assertEqual(gateway.metric("pulsegate_webhook_events_waiting"), 900)
            self.assertEqual(gateway.metric("pulsegate_event_log_bytes"), size)
            gateway.upgrade()
            wait_until(lambda: gateway.metric("pulsegate_event_log_bytes") <= 64 * 1024, what="less events")

    def test_an_old_process_that_dies_before_all_clients_have_passed_is_a_crash_of_the_gateway(self):
        for fault in ({"at": "lock"}, {"at": "client", "number": 2}, {"at": "clients"}):
            with self.subTest(fault=fault), gateway_for() as gateway:
                sender, *others = (gateway.connect(f"c{number}", clean=False) for number in range(4))
                for client in others:
                    client.subscribe("room/a", qos=1)
                sender.publish("room/a", b"acknowledged", qos=1)
                self.assertEqual(sender.receive()[0] >> 4, 4)
                program, report = program_with_fault(gateway.folder.name, binary(), does="kill old", **fault)
                said = gateway.ctl("upgrade", "--longest-pause", PAUSE, program)
                self.assertEqual(gateway.process.wait(PATIENCE), -signal.SIGKILL)
                self.assertEqual(said.returncode, 3, said.stdout)
                self.assertIn("the gateway has ended during the upgrade", said.stderr)
                # It serves nobody, and leaves the folder to the next start.
                self.assertEqual(gateway.wait_for_process(json.loads(report.read_text())["new"]), 1)
                for client in (sender, *others):
                    while client.receive():  # the message
                        pass
                gateway.kill()
                with Gateway("--data", gateway.data) as restarted:
                    for number in range(1, 4):
                        again = Client(restarted.port)
                        again.send(connect_packet(f"c{number}", clean=False))
                        self.assertEqual(again.receive(), (0x20, b"\1\0"))  # its session is there
                        self.assertEqual(again.receive_publish(), ("room/a", b"acknowledged"))
                        again.close()

    def said_by_the_command(self, answer, over=lambda: None):
        """What `ctl upgrade` says if `answer()` gives the answers about an upgrade that was begun. `over()` is called behind it."""

        class Pretender(BaseHTTPRequestHandler):
            def reply(self, status, body):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.send_response(status)
                self.send_header("Content-Length", len(body))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self):
                self.reply(202, b"{}")

            def do_GET(self):
                self.reply(200, answer())

            def address_string(self):
                return ""

            def log_message(self, *words):
                pass

        with tempfile.TemporaryDirectory(prefix="pulsegate-upgrade-") as folder:
            with UnixStreamServer(f"{folder}/admin.sock", Pretender) as server:
                server.handle_error = lambda *_: None  # the command does not wait for an answer
                Thread(target=server.serve_forever).start()
                try:
                    said = subprocess.run([str(binary()), "ctl", "--socket", f"{folder}/admin.sock", "upgrade", "--longest-pause",
                                           "0.1"], capture_output=True, text=True, timeout=5 * PATIENCE)
                finally:
                    over()
                    server.shutdown()
        return said

    def test_the_command_says_if_the_gateway_was_started_again_meanwhile(self):
        said = self.said_by_the_command(lambda: b'{"under_way":false}')
        self.assertEqual(said.returncode, 3, said.stdout)
        self.assertIn("has been started again", said.stderr)

    def test_the_command_gives_up_a_gateway_that_hangs(self):
        over = Event()

        def hang():
            over.wait(5 * PATIENCE)
            return b"{}"

        said = self.said_by_the_command(hang, over.set)
        self.assertEqual(said.returncode, 3, said.stdout)
        self.assertIn("does not answer", said.stderr)


if __name__ == "__main__":
    unittest.main()
