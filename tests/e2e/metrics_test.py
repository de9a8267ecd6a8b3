"""What Prometheus is told, and what operators make of it: the table of all metrics, the alert rules and the board."""

import json
import re
import time
import unittest
from pathlib import Path

import yaml

from certificates import Certificates
from gateway import PATIENCE, REPOSITORY, Client, Gateway, connect_packet, wait_until
from hook_backend import Backend
from ports import free_port
from redis_server import RedisServer

DEPLOY = REPOSITORY / "server" / "deploy"
DOCUMENT = REPOSITORY / "server" / "docs" / "metrics.md"
NAME = re.compile(r"\b(?:pulsegate|process)_[a-z_]+\b")
OF_HISTOGRAMS = ("_bucket", "_sum", "_count")
TWO_WEEKS = 14 * 86_400


def types_in(text):
    """The type of each metric in an answer of /metrics."""
    return dict(re.findall(r"(?m)^# TYPE (\S+) (\S+)$", text))


def samples_of(text, name):
    """Labels and value of each sample of a metric."""
    for labels, value in re.findall(rf"(?m)^{name}(?:{{(.*)}})? (\S+)$", text):
        yield dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels)), float(value)


def documented():
    """Type and labels, besides `shard`, of each metric in the document."""
    rows = re.findall(r"(?m)^\| `([a-z_]+)(?:\{([a-z,]+)\})?` \| (\w+) \|", DOCUMENT.read_text())
    return {name: (kind, set(filter(None, labels.split(",")))) for name, labels, kind in rows}


def rules():
    return [rule for group in yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"] for rule in group["rules"]]


def expressions_of_board():
    board = json.loads((DEPLOY / "grafana.json").read_text())
    found = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    found += [each["expr"] for each in board["annotations"]["list"]]
    return found + [each["definition"] for each in board["templating"]["list"] if "definition" in each]


def names_in(expression):
    """Of the metrics; a histogram is named by its family."""
    for name in NAME.findall(re.sub(r'"[^"]*"', "", expression)):
        yield next((name.removesuffix(end) for end in OF_HISTOGRAMS if name.endswith(f"_seconds{end}")), name)


# Only a standby has these; edge_test looks at them.
OF_EDGES = {"pulsegate_edge_linked", "pulsegate_edge_connections"}


class EverythingTest(unittest.TestCase):
    """A gateway that has all that metrics are about: a cluster, backends and TLS."""

    @classmethod
    def setUpClass(cls):
        redis = cls.enterClassContext(RedisServer())
        authority = Certificates()
        cls.addClassCleanup(authority.folder.cleanup)
        cls.certificate, key = authority.issue("localhost")
        gateway = cls.enterClassContext(Gateway(
            "--cluster", redis.url, "--node-name", "first", "--link-listen", f"127.0.0.1:{free_port()}",
            "--link-cert", cls.certificate, "--link-key", key, "--link-ca", authority.ca,
            "--auth-hook", "http://127.0.0.1:9", "--jwt-jwks-url", "http://127.0.0.1:9",
            "--webhook", "http://127.0.0.1:9", "--listen", "mqtts://127.0.0.1:0",
            "--tls-cert", cls.certificate, "--tls-key", key, keeps=True))
        gateway.get("/api/v1/status")
        cls.text = gateway.get("/metrics")[1]
        cls.types = types_in(cls.text)

    def test_the_document_names_every_metric_with_its_type(self):
        self.assertEqual({name: kind for name, (kind, _) in documented().items() if name not in OF_EDGES}, self.types)

    def test_the_document_names_every_label(self):
        for name, (kind, labels) in documented().items():
            sample = name + ("_count" if kind == "histogram" else "")
            seen = {label for found, _ in samples_of(self.text, sample) for label in found}
            self.assertEqual(seen - {"shard"}, labels, name)

    def test_names_follow_the_practice(self):
        for name, kind in self.types.items():
            with self.subTest(name):
                self.assertEqual(name.endswith("_total"), kind == "counter")
                self.assertNotRegex(name, r"_(ms|millis|milliseconds|kb|mb|minutes)(_|$)")

    def test_alerts_and_board_use_metrics_that_are_there(self):
        for expression in [rule["expr"] for rule in rules()] + expressions_of_board():
            names = list(names_in(expression))
            self.assertTrue(names or expression.startswith("up{"), expression)
            for name in names:
                self.assertIn(name, self.types.keys() | OF_EDGES, expression)

    def test_every_alert_says_what_to_do(self):
        for rule in rules():
            self.assertEqual(set(rule["annotations"]), {"summary", "action"}, rule["alert"])
            self.assertIn(rule["labels"]["severity"], ("page", "warning"), rule["alert"])

    def test_a_certificate_tells_when_it_ends(self):
        (labels, end), = samples_of(self.text, "pulsegate_certificate_expiry_timestamp_seconds")
        self.assertEqual(labels, {"file": self.certificate})
        self.assertGreater(end, time.time())


class CountsTest(unittest.TestCase):
    def setUp(self):
        self.gateway = self.enterContext(Gateway("--shards", "2", "--listen", "ws://127.0.0.1:0"))

    def text(self):
        return self.gateway.get("/metrics")[1]

    def test_what_the_gateway_has_once_is_told_once(self):
        text = self.text()
        for name in ("retained_messages", "retained_bytes", "delayed_messages", "delayed_bytes", "store_bytes",
                     "store_max_bytes", "store_damage_timestamp_seconds"):
            self.assertEqual([labels for labels, _ in samples_of(text, f"pulsegate_{name}")], [{}], name)

    def test_connections_are_told_by_listener(self):
        clients = [self.gateway.connect(f"c{i}") for i in range(4)]
        of_mqtt = f"mqtt://127.0.0.1:{self.gateway.port}"
        self.assertEqual(self.gateway.metric("pulsegate_connections", listener=of_mqtt), 4)
        self.assertEqual(self.gateway.metric("pulsegate_connections"), 4)
        listeners = {labels["listener"] for labels, _ in samples_of(self.text(), "pulsegate_connections")}
        self.assertEqual({each.partition(":")[0] for each in listeners}, {"mqtt", "ws"})
        clients.pop().disconnect()
        wait_until(lambda: self.gateway.metric("pulsegate_connections", listener=of_mqtt) == 3)

    def test_refused_logins_are_told_by_reason(self):
        self.gateway.ask("PUT", "/api/v1/bans?user=eve")
        for _ in range(2):
            with Client(self.gateway.port) as eve:
                eve.send(connect_packet("phone", version=5, username="eve"))
                self.assertEqual(eve.receive()[1][1], 0x8A)
        self.assertEqual(self.gateway.metric("pulsegate_logins_refused_total", reason="banned"), 2)
        self.assertEqual(self.gateway.metric("pulsegate_logins_refused_total"), 2)
        self.assertEqual(self.gateway.metric("pulsegate_logins_refused_total", reason="server_busy"), 0)

    def test_requests_are_told_by_route_method_and_status(self):
        for target, status in (("/api/v1/users/bob", 404), ("/api/v1/users/ann", 404), ("/api/v1/wheel", 200),
                               ("/nowhere", 404), ("/api/v1/users?limit=x", 400)):
            self.assertEqual(self.gateway.get(target)[0], status)
        self.assertEqual(self.gateway.ask("POST", "/api/v1/wheel")[0], 405)
        counted = {(labels["route"], labels["method"], labels["code"]): value
                   for labels, value in samples_of(self.text(), "pulsegate_api_requests_total")}
        self.assertEqual(counted, {("/api/v1/users/{user}", "GET", "404"): 2, ("/api/v1/wheel", "GET", "200"): 1,
                                   ("none", "other", "404"): 1, ("/api/v1/users", "GET", "400"): 1,
                                   ("/api/v1/wheel", "other", "405"): 1})
        self.assertEqual(self.gateway.metric("pulsegate_api_requests_total", route="/metrics", code="200"), 1)

    def test_each_delivery_to_a_client_that_is_there_is_measured(self):
        receivers = [self.gateway.connect(f"receiver{i}") for i in range(3)]
        for receiver in receivers:
            receiver.subscribe("news")
        sender = self.gateway.connect("sender")
        for _ in range(5):
            sender.publish("news", b"x")
        for receiver in receivers:
            for _ in range(5):
                receiver.receive_publish()
        self.assertEqual(self.gateway.metric("pulsegate_delivery_seconds_count"), 15)
        self.assertEqual(self.gateway.metric("pulsegate_delivery_seconds_bucket", le="+Inf"), 15)
        self.assertLess(self.gateway.metric("pulsegate_delivery_seconds_sum"), 15 * PATIENCE)
        # A message that was retained before is none that is under way.
        sender.publish("kept", b"x", flags=1)
        sender.ping()
        receivers[0].subscribe("kept")
        receivers[0].receive_publish()
        self.assertEqual(self.gateway.metric("pulsegate_delivery_seconds_count"), 15)

    def test_the_process_is_as_the_kernel_says(self):
        pid = self.gateway.pid
        self.assertAlmostEqual(self.gateway.metric("process_cpu_seconds_total"), self.gateway.cpu_seconds(), delta=1)
        self.assertAlmostEqual(self.gateway.metric("process_resident_memory_bytes"), self.gateway.rss(), delta=16 << 20)
        self.assertGreater(self.gateway.metric("process_virtual_memory_bytes"), self.gateway.rss())
        threads = len(list(Path(f"/proc/{pid}/task").iterdir()))
        self.assertAlmostEqual(self.gateway.metric("process_threads"), threads, delta=2)
        files = self.gateway.metric("process_open_fds")
        self.assertAlmostEqual(files, len(list(Path(f"/proc/{pid}/fd").iterdir())), delta=2)
        limit = re.search(r"Max open files\s+(\d+)", Path(f"/proc/{pid}/limits").read_text())
        self.assertEqual(self.gateway.metric("process_max_fds"), int(limit[1]))
        self.assertAlmostEqual(self.gateway.metric("process_start_time_seconds"), time.time(), delta=60)
        (labels, value), = samples_of(self.text(), "pulsegate_build_info")
        self.assertEqual((labels, value), ({"version": self.gateway.get_json("/api/v1/status")[1]["version"]}, 1))

    def test_logins_for_which_the_hook_has_no_room_are_no_requests(self):
        with Backend({"allow": False}) as backend, Gateway("--auth-hook", backend.url) as gateway:
            results = {labels["result"] for labels, _ in samples_of(gateway.get("/metrics")[1],
                                                                    "pulsegate_auth_hook_requests_total")}
            self.assertEqual(results, {"allowed", "denied", "failed", "revoked"})
            self.assertEqual(gateway.metric("pulsegate_auth_hook_busy_total"), 0)


class CertificateWarningTest(unittest.TestCase):
    def test_the_log_warns_at_the_start_and_after_a_reload(self):
        authority = Certificates()
        self.addCleanup(authority.folder.cleanup)
        soon, key = authority.issue("soon", host="localhost", seconds=TWO_WEEKS - 3600)
        late, late_key = authority.issue("late", host="localhost", seconds=TWO_WEEKS + 86_400)
        with Gateway("--listen", "mqtts://127.0.0.1:0", "--tls-cert", soon, "--tls-key", key,
                     "--tls-cert", late, "--tls-key", late_key) as gateway:
            warning = rf" warning tls-cert: {re.escape(soon)} is valid until \S+, for 13 more days; renew it"
            gateway.wait_for_log(warning)
            self.assertNotIn(f"tls-cert: {late}", gateway.log)
            self.assertEqual(gateway.ask("POST", "/api/v1/reload")[0], 200)
            wait_until(lambda: len(re.findall(warning, gateway.log)) == 2, what="a second warning")

    def test_the_nodes_of_a_cluster_tell_when_the_certificates_of_their_links_end(self):
        redis = self.enterContext(RedisServer())
        authority = Certificates()
        self.addCleanup(authority.folder.cleanup)
        ends = {"soon": TWO_WEEKS - 3600, "late": TWO_WEEKS + 86_400, "gone": -3600}
        for name, seconds in ends.items():
            certificate, key = authority.issue(name, host="localhost", seconds=seconds)
            http = free_port()
            node = Gateway("--cluster", redis.url, "--node-name", name, "--link-listen", f"127.0.0.1:{free_port()}",
                           "--link-cert", certificate, "--link-key", key, "--link-ca", authority.ca,
                           "--listen", f"mqtt://127.0.0.1:{free_port()}", "--listen", f"http://127.0.0.1:{http}", listen=False,
                           keeps=True)
            self.addCleanup(node.kill)
            node.launch().wait_for_log("ready: " if name == "soon" else "standing by: ")
            node.http_port = http
            told = {labels["file"]: end for labels, end in
                    samples_of(node.get("/metrics")[1], "pulsegate_link_certificate_expiry_timestamp_seconds")}
            self.assertEqual(set(told), {certificate, authority.ca}, name)
            self.assertAlmostEqual(told[certificate], time.time() + seconds, delta=600)
            self.assertGreater(told[authority.ca], time.time() + 30 * 86_400)
            lines = re.findall(r" (\w+) (link-c\w+): \S+ (.*) \d{4}-\S+ (.*)", node.log)
            renew = "renew it, and restart the nodes one after the other"
            self.assertEqual(lines, {
                "soon": [("warning", "link-cert", "is valid until", f"for 13 more days; {renew}")],
                "late": [],
                "gone": [("error", "link-cert", "has not been valid since", f"other nodes refuse it; {renew}")]}[name])


if __name__ == "__main__":
    unittest.main()
