"""Scenarios, hostile clients and transports of the load generator against a real gateway, each small and by count: what was
played has really happened, and the gateway broke no promise. tests/run has the sanitizers' generators play them too."""

import unittest

from certificates import Certificates
from gateway import Gateway, SANITIZED, port_of
from lab import broken, generate, late

CLIENTS = 20 if SANITIZED else 60


class Played(unittest.TestCase):
    def play(self, port, *scenario, **options):
        """What was counted."""
        small = {"clients": str(CLIENTS), "duration": "4s", "messages": "60/s", "keepalive": "4s", "drain": "3s"}
        status, record = generate(port, *scenario, **small | options)
        self.assertIn(status, (0, 1, 2), record["verdict"])  # a busy machine may be late; what is counted is judged
        excused = {"pings_late", "messages_late", "acknowledged_late"} | late(record)
        self.assertEqual(broken(record) - excused, set(), (record["verdict"], record["examples"]))
        counts = record["totals"]["counts"]
        self.assertEqual(counts["entered"], CLIENTS)
        self.assertGreater(counts["messages_received"], 0)
        return counts


class ScenariosTest(Played):
    """The built-in ones, in some seconds: with their keys for hours and minutes replaced."""

    def test_what_one_member_of_a_room_writes_all_read(self):
        with Gateway() as gateway:
            counts = self.play(gateway.port, "room", set="rooms=3", silent="0%")
        self.assertGreater(counts["messages_received"], 5 * counts["messages_sent"])
        self.assertEqual(counts["messages_received"], counts["messages_expected"])

    def test_phones_of_a_chat_come_back_for_what_waits(self):
        with Gateway() as gateway:
            counts = self.play(gateway.port, "chat", set=["phones.online=500ms..1s", "phones.away=500ms..1s"])
            self.assertGreaterEqual(int(gateway.metric("pulsegate_logins_total")), counts["connected"])
        self.assertGreater(counts["naps"], 0)
        self.assertGreater(counts["resumed"], 0)
        self.assertEqual(counts.get("session_lost", 0), 0)

    def test_a_mobile_day_has_arrivals_naps_dead_zones_and_changes_of_network(self):
        day = ["peak=1s..2s x2.5", "early.ramp=100/s", "early.online=500ms..1s", "early.away=500ms..1s", "commuters.starts=500ms",
               "commuters.ramp=100/s", "commuters.online=500ms..1s", "commuters.away=500ms..1s", "evening.starts=2s",
               "evening.ramp=100/s", "evening.online=500ms..1s", "evening.away=500ms..1s"]
        with Gateway() as gateway:
            counts = self.play(gateway.port, "mobile-day", set=day)
            self.assertGreater(int(gateway.metric("pulsegate_takeovers_total")), 0)
        self.assertGreater(counts["naps"], 0)
        self.assertGreater(counts["network_changes"], 0)
        self.assertGreater(counts["resumed"], 0)

    def test_a_soak_of_seconds_has_what_one_of_hours_has(self):
        with Gateway() as gateway:
            counts = self.play(gateway.port, "soak", set=["phones.online=500ms..1s", "phones.away=500ms..1s",
                                                          "phones.network-changes=10/s"])
        self.assertGreater(counts["naps"], 0)
        self.assertGreater(counts["network_changes"], 0)
        self.assertEqual(counts.get("session_lost", 0), 0)


class HostileTest(Played):
    def attack(self, kind):
        """What was counted, and what the gateway's metrics said of it."""
        with Gateway("--login-timeout", "1s") as gateway:
            counts = self.play(gateway.port, hostile=f"{kind}=10", set="hostile-after=1s", silent="0%")
            metrics = {name: int(gateway.metric(f"pulsegate_{name}_total"))
                       for name in ("bad_packets", "login_timeouts", "logins", "messages_sent", "takeovers")}
        self.assertGreaterEqual(counts["hostile_started"], 10)
        return counts, metrics

    def test_half_open_connections_are_closed(self):
        counts, metrics = self.attack("half-open")
        self.assertGreater(metrics["login_timeouts"], 0)  # how many until the end, the machine decides
        self.assertGreater(counts["hostile_closed"], 0)

    def test_a_dribbler_of_bytes_is_closed(self):
        counts, metrics = self.attack("dribbler")
        self.assertGreater(metrics["login_timeouts"], 0)  # how many until the end, the machine decides
        self.assertGreater(counts["hostile_closed"], 0)

    def test_garbage_is_refused(self):
        counts, metrics = self.attack("garbage")
        self.assertGreater(metrics["bad_packets"], 0)
        self.assertGreater(counts["hostile_closed"], 0)

    def test_two_connections_fight_for_one_identifier(self):
        self.assertGreater(self.attack("duel")[1]["takeovers"], 0)

    def test_a_herd_connects_again_and_again(self):
        counts, metrics = self.attack("herd")
        self.assertGreater(counts["hostile_started"], 10)
        self.assertGreater(metrics["logins"], CLIENTS + 10)

    def test_a_subscriber_gets_everything(self):
        counts, metrics = self.attack("subscriber")
        self.assertGreater(metrics["messages_sent"], 2 * counts["messages_received"])

    def test_a_slow_reader_gets_everything_and_holds_up_nobody(self):
        counts, metrics = self.attack("slow-reader")
        self.assertGreater(metrics["messages_sent"], 2 * counts["messages_received"])
        self.assertEqual(counts["messages_received"], counts["messages_expected"])


class TransportsTest(Played):
    def test_load_comes_over_tls_and_over_websockets_in_tls(self):
        certificates = Certificates()
        self.addCleanup(certificates.folder.cleanup)
        certificate, key = certificates.issue("server")
        for scheme, path in (("mqtts", ""), ("wss", "/mqtt")):
            with self.subTest(scheme=scheme), Gateway("--listen", f"{scheme}://127.0.0.1:0", "--tls-cert", certificate,
                                                      "--tls-key", key) as gateway:
                port = port_of(gateway, scheme)
                counts = self.play(None, connect=f"{scheme}://127.0.0.1:{port}{path}", ca=certificates.ca, qos="0:40% 1:40% 2:20%")
                self.assertEqual(counts["messages_received"], counts["messages_expected"])
                self.assertGreaterEqual(int(gateway.metric("pulsegate_logins_total")), counts["connected"])


if __name__ == "__main__":
    unittest.main()
