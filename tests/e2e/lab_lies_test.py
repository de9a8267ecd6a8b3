"""The load generator against servers with one fault each. It must find this fault and no other."""

import json
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from certificates import Certificates
from gateway import Gateway, let_pass, wait_until
from lab import OWN, broken, command, generate, is_refused, late, stand_still
from ports import free_port

LIAR = Path(__file__).with_name("lying_server.py")
MOSQUITTO = Path("/usr/sbin/mosquitto")


class Liar:
    def __init__(self, *lies):
        self.process = subprocess.Popen([sys.executable, LIAR, *lies], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        self.ports = [int(port) for port in self.process.stdout.readline().split()]
        self.port = self.ports[0]
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


def hear(lies, *scenario, scheme="mqtt", cluster=False, metrics=False, **options):
    """What the generator finds out about a server that tells these lies: its exit status and its record."""
    with Liar(*lies.split()) as liar:
        if metrics:
            options["metrics"] = f"http://127.0.0.1:{liar.port}/metrics"
        connect = ",".join(f"{scheme}://127.0.0.1:{port}" for port in liar.ports)
        return generate(liar.port, *scenario, *["--cluster"] * cluster, connect=connect, **options)


NAPS = {"silent": "0%", "set": ["online=1s..2s", "away=1s..2s"]}
KEPT = {"silent": "0%", "set": ["online=1s..2s", "away=1s..2s", "session=kept"], "qos": "1"}


# What comes 4 s late is late, and still comes before the end.
LATE = {"drain": "6s"}


class LiesTest(unittest.TestCase):
    lies = {  # lie -> further arguments, the promises that it breaks
        "": ({}, set()),
        "drop=100": ({}, {"lost"}),
        "nodes=2": ({"cluster": True, **KEPT}, set()),
        "nodes=2 drop-crossing=50": ({"cluster": True}, {"lost", "crossed"}),
        "no-puback=50": ({"qos": "1"}, {"acknowledged"}),
        "no-pubrec=50": ({"qos": "2"}, {"acknowledged"}),
        "no-pubcomp=50": ({"qos": "2"}, {"acknowledged"}),
        "late-messages=40": (LATE, {"messages_late"}),
        "late-acks=40": ({"qos": "1", **LATE}, {"acknowledged_late"}),
        "swap-acks=20": ({"qos": "1", "clients": "50", "metrics": True}, {"acknowledged_order"}),
        "repeat=100": ({}, {"repeated_qos2"}),
        "repeat=50": ({"qos": "1"}, {"repeated"}),
        "repeat-read=5": (KEPT, {"repeated"}),
        "repeat-qos2=10": ({"qos": "2"}, {"repeated_qos2"}),
        "other-again=10": ({"qos": "2"}, {"damaged"}),
        "no-pubrel=10": ({"qos": "2"}, {"released"}),
        "swap=50": ({}, {"reordered"}),
        "misdirect=100": ({}, {"misdirected", "lost"}),
        "damage=100": ({}, {"damaged"}),
        "topic=50": ({}, {"damaged"}),
        "lower-qos=50": ({"qos": "1"}, {"damaged"}),
        "retain=50": ({}, {"damaged"}),
        "dup=50": ({"qos": "1"}, {"damaged"}),
        "property=50": ({"mqtt_version": "5"}, {"damaged"}),
        "sender=50": ({"mqtt_version": "5", "metrics": True}, {"sender"}),
        "identifier=50": ({"mqtt_version": "5"}, {"damaged"}),
        "deaf-for=1": ({"silent": "0%", "duration": "8s", "set": ["online=3s..4s", "away=1s..2s"]}, {"lost"}),
        "long-frames=50": ({"scheme": "ws"}, {"protocol"}),
        "masked-frames=50": ({"scheme": "ws"}, {"protocol"}),
        "close=50": ({"silent": "0%"}, {"false_offline"}),
        "forget=5": (KEPT, {"session_lost", "lost"}),
        "invent-session=50": ({}, {"protocol"}),
        "keep-out=20": ({"duration": "8s", **NAPS}, {"returned"}),
        "late-pings=1500": ({}, {"pings_late"}),
        "no-pong=50": ({"silent": "0%", "duration": "8s"}, {"pings_unanswered"}),
        "early-pong=50": ({}, {"protocol"}),
        "wrong-suback=50": ({}, {"protocol"}),
        "never-close": ({}, {"expiry_never"}),
        "close-late=2.5": ({"metrics": True}, {"expiry_late"}),
        "close-early=2": ({"keepalive": "4s", "silent": "10%"}, {"expiry_early"}),
        "delay=30": ({}, {"delay"}),
    }
    # What a lie may bring with it: a swapped message or answer at the end waits for the next for ever, later messages
    # overtake one that is late, pings that
    # are answered late are still to come at the end, and clients that ping after two seconds are closed as well.
    besides = {"swap=50": {"lost"}, "swap-acks=20": {"acknowledged"}, "late-messages=40": {"reordered"},
               "late-pings=1500": {"pings_unanswered", "delay"}, "close-early=2": {"false_offline"},
               "masked-frames=50": {"returned"}}

    def test_each_is_found_and_no_other_one(self):
        def told(lie):
            return hear(lie, **self.lies[lie][0])

        with ThreadPoolExecutor(7) as pool:
            found = dict(zip(self.lies, pool.map(told, self.lies)))

        def seen(lie, record):
            expected = self.lies[lie][1]
            delayed = {check["name"] for check in record["checks"]
                       if check["outcome"] == "refused" and check["name"] == "delay" and check["value"] >= 0.02}
            return broken(record) - (late(record) - expected) - self.besides.get(lie, set()) | delayed & expected

        for lie in self.lies:
            with self.subTest(lie=lie or "none"):
                expected = self.lies[lie][1]
                status, record = self.told_alone(told, lie, found[lie], lambda now, lie=lie: seen(lie, now[1]) == self.lies[lie][1])
                self.assertEqual(seen(lie, record), expected, (record["verdict"], record["examples"]))
                self.assertIn(status, ([1, 2] if expected else [0, 2]) if is_refused(record) else [1 if expected else 0])

    def told_alone(self, told, lie, found, is_right):
        """What is found in the end: a generator that was too slow has missed something, and hears the lie once more, alone."""
        for _ in range(3):
            if is_right(found) or not is_refused(found[1]):
                break
            found = told(lie)
        return found

    def check(self, lies, expected, *scenario, **options):
        """A server that tells these lies breaks these promises, and no others. Returns the record."""
        def told(lies):
            return hear(lies, *scenario, **options)

        def seen(record):
            return broken(record) - (late(record) - expected)

        _, record = self.told_alone(told, lies, told(lies), lambda now: seen(now[1]) == expected)
        self.assertEqual(seen(record), expected, (record["verdict"], record["examples"]))
        return record

    def test_lies_about_presence_are_found(self):
        lies = {"": set(), "refuse=100": {"subscribed"}, "hide=20": {"presence_unseen"}, "ghosts=2": {"presence_ghosts"},
                "revive=3": {"presence_ghosts"},
                "presence-qos=50": {"damaged"}, "presence-dup=50": {"damaged"}, "presence-user=50": {"damaged"},
                "presence-cause=50": {"damaged"}, "presence-devices=50": {"damaged"},
                "hide-offline=2": {"presence_missing"}, "contradict=500": {"presence_states"},
                "tell-others=20": {"misdirected"}, "flap=20": {"presence_false_offline"}, "flap-kept=20": {"presence_false_offline"},
                "http-offline=50": {"presence_http_false_offline"},
                "http-ghosts=3": {"presence_http_ghosts"}, "http-omit=20": {"presence_http_answers"},
                # Not always the same users of all that are asked for in turn.
                "http-order=53": {"presence_http_order"}}

        def told(lie):
            with Liar(*[lie] if lie else []) as liar:
                return generate(liar.port, "presence", mqtt_version="3.1.1", duration="8s",
                                http=f"http://127.0.0.1:{liar.port}")

        with ThreadPoolExecutor(4) as pool:
            found = dict(zip(lies, pool.map(told, lies)))

        def seen(lie, status, record):
            besides = set()
            if lie == "hide-offline=2":  # on a busy machine the others are told late
                besides = {"presence_ghosts"}
            if lie == "contradict=500":  # the first watcher that is told may be told the other state
                besides = {"presence_false_offline", "presence_missing"}
            if lie in ("ghosts=2", "revive=3"):  # those are told by HTTP as well
                besides = {"presence_http_ghosts"}
            return broken(record) - besides - late(record)

        for lie in lies:
            with self.subTest(lie=lie or "none"):
                status, record = self.told_alone(told, lie, found[lie], lambda now, lie=lie: seen(lie, *now) == lies[lie])
                self.assertEqual(seen(lie, status, record), lies[lie], (record["verdict"], record["examples"]))
                self.assertGreater(record["totals"]["counts"]["presence_asked"], 0 if is_refused(record) else 1000)

    def test_an_offline_that_is_hidden_during_a_short_nap_is_found(self):
        naps = ["watchers.watched=nappers", "nappers.online=1s..2s", "nappers.away=3s..4s"]
        self.check("ghosts=2", {"presence_ghosts"}, "presence", mqtt_version="3.1.1", keepalive="10s", duration="8s", set=naps)

    def test_a_login_that_is_shown_late_to_all_is_found(self):
        naps = ["watchers.watched=nappers", "nappers.online=6s..7s", "nappers.away=1s..2s", "users.silent=0%"]
        self.check("late-online=2", {"presence_late"}, "presence", mqtt_version="3.1.1", keepalive="10s", duration="14s", set=naps)

    def test_presence_in_an_events_file_is_judged(self):
        with tempfile.TemporaryDirectory() as folder, Gateway(events=True) as gateway, ThreadPoolExecutor(2) as pool:
            events = Path(folder) / "events.jsonl"
            lie = pool.submit(self.check, f"ghosts=2 events={events}", {"presence_ghosts"}, presence=f"events={events}", **NAPS)
            _, record = generate(gateway.port, presence=f"events={gateway.events_file}", **NAPS)
            self.assertEqual(broken(record) - late(record), set(), (record["verdict"], record["examples"]))
            self.assertGreater(record["totals"]["counts"]["presence_changes"], 200)
            lie.result()

    def test_a_watcher_that_comes_late_must_be_told_the_present_state(self):
        late_watchers = ["nap-watchers.watched=users", "nap-watchers.starts=4s"]
        lies = {"": set(), "no-state=20": {"presence_first"}, "old-state=20": {"presence_first"}}
        with ThreadPoolExecutor(3) as pool:
            heard = {lie: pool.submit(self.check, lie, broken_ones, "presence", mqtt_version="3.1.1", duration="8s", set=late_watchers)
                     for lie, broken_ones in lies.items()}
            for lie, checked in heard.items():
                with self.subTest(lie=lie or "none"):
                    checked.result()

    def test_an_old_state_without_retain_is_found(self):
        naps = [f"watchers.{key}" for key in ("online=2s..3s", "away=2s..3s")]
        self.check("presence-retain=50", {"damaged"}, "presence", mqtt_version="3.1.1", duration="8s", set=naps)

    def test_a_second_pubrec_is_named(self):
        record = self.check("pubrec-again=50", {"protocol"}, qos="2", silent="0%")
        self.assertIn("PUBREC for packet identifier", "".join(record["examples"]))

    def test_a_server_that_forgets_returned_clients_is_found(self):
        for lies, expected in (("", set()), ("deaf", {"lost"})):
            with self.subTest(lies=lies):
                self.check(lies, expected, silent="0%", duration="20s", set=["online=8s..10s", "away=1s..2s"])

    def test_each_subscription_is_judged_by_its_own_qos(self):
        for lies, expected in (("lower-grant", set()), ("lower-grant lower-qos=50", {"damaged"})):
            with self.subTest(lies=lies):
                self.check(lies, expected, "room", qos="1", silent="0%")

    def test_lies_are_found_over_tls_and_websocket(self):
        certificates = Certificates()
        self.addCleanup(certificates.folder.cleanup)
        certificate, key = certificates.issue("localhost")

        def told(scheme):
            lies, options = "drop=50 repeat=60 damage=70 no-puback=80", {}
            if scheme != "ws":
                lies += f" certificate={certificate} key={key}"
                options["ca"] = certificates.ca
            self.check(lies, {"lost", "repeated", "damaged", "acknowledged"}, scheme=scheme, qos="1", silent="0%",
                       duration="3s", **options)

        with ThreadPoolExecutor(3) as pool:
            for scheme, checked in [(scheme, pool.submit(told, scheme)) for scheme in ("mqtts", "ws", "wss")]:
                with self.subTest(scheme=scheme):
                    checked.result()

    def test_a_server_that_stands_still_is_found(self):
        with Liar() as liar:
            generator = subprocess.Popen(command(liar.port), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for line in generator.stderr:
                if line.startswith("running"):
                    break
            let_pass(1)
            stand_still([liar.process.pid], 1.5)
            out, _ = generator.communicate(timeout=60)
        stalled = {check["name"]: check for check in json.loads(out)["checks"]}["server_stalled"]
        self.assertIn(stalled["outcome"], ("failed", "refused"))
        self.assertGreater(stalled["value"], 0)

    def test_a_generator_that_stands_still_gives_no_verdict(self):
        for phase, lies, rightly in (("running", (), set()), ("draining", ("drop=100",), {"lost"})):
            with self.subTest(phase), Liar(*lies) as liar:
                generator = subprocess.Popen(command(liar.port), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                for line in generator.stderr:
                    if line.startswith(phase):
                        break
                children = subprocess.run(["pgrep", "-P", str(generator.pid)], capture_output=True, text=True, check=True).stdout
                workers = [int(child) for child in children.split()]
                for _ in range(2):
                    stand_still(workers, 1.5)
                out, _ = generator.communicate(timeout=60)
                record = json.loads(out)
                self.assertLessEqual({check["name"] for check in record["checks"] if check["outcome"] == "failed"}, rightly)
                self.assertIn("refused", {check["outcome"] for check in record["checks"] if check["name"] in OWN})
                if not rightly:
                    self.assertEqual(generator.returncode, 2, record["verdict"])


class HonestTest(unittest.TestCase):
    """Scenarios against the gateway, and against mosquitto where it is installed."""

    def check(self, port, *scenario, **options):
        _, record = generate(port, *scenario, **options)
        self.assertEqual(broken(record) - late(record), set(), (record["verdict"], record["examples"]))
        skipped = {check["name"]: check["detail"] for check in record["checks"] if check["outcome"] == "skipped"}
        self.assertNotIn("", skipped.values())
        return record["totals"]["counts"], skipped

    def test_workers_share_the_clients(self):
        with Gateway() as gateway:
            counts, skipped = self.check(gateway.port, workers="3", clients="300")
            self.assertNotIn("expiry_late", skipped)
            self.assertEqual(counts["entered"], 300)
            self.assertEqual(counts["messages_received"], counts["messages_sent"])
            self.assertGreater(sum(counts.get(f"closed_{when}", 0) for when in ("in_time", "late", "unclear")), 0)

    def test_everybody_comes_back_after_a_storm(self):
        with Gateway() as gateway:
            counts, _ = self.check(gateway.port, "storm", clients="500", duration="4s", storm="400", storm_after="1s",
                                   storm_factor="1000000", keepalive="10s", silent="0%")
            self.assertEqual(counts["vanished"], 400)
            self.assertGreaterEqual(int(gateway.metric("pulsegate_logins_total")), counts["connected"])  # or it has not heard of it

    def test_a_session_that_ends_as_agreed_is_not_lost(self):
        with Gateway("--max-session-expiry", "1s") as gateway:
            counts, _ = self.check(gateway.port, mqtt_version="5", qos="1", silent="0%", duration="10s", clients="100",
                                   set=["session=kept", "online=1s..2s", "away=3s..4s"])
            self.assertGreater(counts["naps"], 0)
            self.assertGreater(counts["messages_missed_away"], 0)

    @unittest.skipUnless(MOSQUITTO.exists(), "mosquitto is not installed")
    def test_mosquitto_is_judged_as_fairly(self):
        port = free_port()
        with subprocess.Popen([MOSQUITTO, "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            try:
                wait_until(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0)
                for options in ({}, {"qos": "1", "mqtt_version": "5"}, {"qos": "2"}):
                    with self.subTest(options=options):
                        _, skipped = self.check(port, **options)
                        self.assertIn("only Pulsegate promises this", skipped["expiry_late"])
            finally:
                server.terminate()


if __name__ == "__main__":
    unittest.main()
