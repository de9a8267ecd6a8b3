"""HAProxy in front of the gateway: it passes the addresses of its clients on, and checks the gateway's health."""

import csv
import re
import socket
import subprocess
import tempfile
import unittest
from pathlib import Path

from certificates import Certificates
from clients import chat_with_mqtt_js
from gateway import REPOSITORY, Gateway, add_users, wait_until

HAPROXY = "127.0.0.9"  # the address that the gateway sees

SETTINGS = """
global
    stats socket unix@stats
defaults
    mode tcp
    timeout connect 10s
    timeout client 1h
    timeout server 1h
    timeout check 10s
"""


class HaProxy:
    """Each server, a line of HAProxy's from the port on, gets a frontend that listens on a free port: `ports[name]`.
    A frontend ends TLS if its name begins with `tls_`, with the certificate and key in the file `pem`."""

    def __init__(self, servers, pem=None):
        self.folder = tempfile.TemporaryDirectory(prefix="pulsegate-haproxy-")
        self.path = Path(self.folder.name)
        # HAProxy takes no port 0, but sockets that listen already.
        self.sockets = {name: socket.create_server(("127.0.0.1", 0)) for name in servers}
        self.ports = {name: sock.getsockname()[1] for name, sock in self.sockets.items()}
        lines = [SETTINGS]
        for name, server in servers.items():
            tls = f" ssl crt {pem}" if name.startswith("tls_") else ""
            lines.append(f"listen {name}\n    bind fd@{self.sockets[name].fileno()}{tls}\n"
                         f"    server gateway 127.0.0.1:{server} source {HAPROXY}\n")
        (self.path / "haproxy.cfg").write_text("".join(lines))

    def __enter__(self):
        with open(self.path / "log", "w") as log:
            self.process = subprocess.Popen(
                ["haproxy", "-db", "-f", "haproxy.cfg"], cwd=self.path, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, pass_fds=[sock.fileno() for sock in self.sockets.values()])
        for sock in self.sockets.values():
            sock.close()
        wait_until(lambda: (self.path / "stats").exists() or self.process.poll() is not None)
        assert self.process.poll() is None, (self.path / "log").read_text()
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)
        self.folder.cleanup()

    def health(self):
        """What the last checks found, by name; HAProxy marks with an asterisk that the next one is under way."""
        with socket.socket(socket.AF_UNIX) as stats:
            stats.settimeout(60)
            stats.connect(str(self.path / "stats"))
            stats.sendall(b"show stat\n")
            table = stats.makefile().read().lstrip("# ").splitlines()
        return {row["pxname"]: row["check_status"].lstrip("* ") for row in csv.DictReader(table)
                if row["svname"] == "gateway"}


def proxied_port(gateway, scheme):
    return re.search(rf"\b{scheme}://[^:]+:(\d+)[^,]*\?proxy-protocol", gateway.log)[1]


class HaProxyTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.authority = Certificates()
        cls.addClassCleanup(cls.authority.folder.cleanup)
        cls.certificate, cls.key = cls.authority.issue("localhost")
        cls.pem = cls.authority.path / "localhost.pem"
        cls.pem.write_text(Path(cls.certificate).read_text() + Path(cls.key).read_text())

    def gateway(self, *arguments):
        return Gateway(*(word for scheme in ("mqtt", "mqtts", "ws")
                         for word in ("--listen", f"{scheme}://127.0.0.1:0?proxy-protocol")),
                       "--tls-cert", self.certificate, "--tls-key", self.key, "--allow-anonymous", *arguments)

    def test_clients_chat_through_it_and_the_log_shows_their_own_addresses(self):
        users = add_users(self.authority.path / "users", alice="alice's", bob="bob's")
        with self.gateway("--password-file", users, "--log-level", "debug") as gateway:
            mqtt, mqtts = (proxied_port(gateway, scheme) for scheme in ("mqtt", "mqtts"))
            servers = {"v1": f"{mqtt} send-proxy", "v2": f"{mqtt} send-proxy-v2",
                       "tls_ended_here": f"{mqtt} send-proxy-v2-ssl-cn", "passed_through": f"{mqtts} send-proxy-v2"}
            with HaProxy(servers, self.pem) as proxy:
                for name in servers:
                    with self.subTest(name=name):
                        self.chat(gateway, name, proxy.ports[name])
            self.assertNotIn(HAPROXY, gateway.log)

    def chat(self, gateway, name, port):
        options = ["-h", "127.0.0.1", "-p", str(port), "-q", "1", "-t", f"room/{name}"]
        if name in ("tls_ended_here", "passed_through"):
            options += ["--cafile", self.authority.ca]
        before = gateway.metric("pulsegate_packets_sent_total", type="suback")
        listener = subprocess.Popen(["mosquitto_sub", *options, "-A", "127.0.0.7", "-u", "alice", "-P", "alice's",
                                     "-i", f"{name}-a", "-C", "1", "-W", "60"], stdout=subprocess.PIPE)
        wait_until(lambda: gateway.metric("pulsegate_packets_sent_total", type="suback") > before)
        subprocess.run(["mosquitto_pub", *options, "-A", "127.0.0.8", "-u", "bob", "-P", "bob's",
                        "-i", f"{name}-b", "-m", "hello"], check=True, timeout=60)
        self.assertEqual(listener.communicate(timeout=60)[0], b"hello\n")
        gateway.wait_for_log(rf"127\.0\.0\.7:\d+ client '{name}-a' of user 'alice': login")
        gateway.wait_for_log(rf"127\.0\.0\.8:\d+ client '{name}-b' of user 'bob': login")

    def test_it_ends_tls_for_websocket_clients(self):
        with self.gateway("--log-level", "debug") as gateway:
            with HaProxy({"tls_ws": f"{proxied_port(gateway, 'ws')} send-proxy-v2-ssl-cn"}, self.pem) as proxy:
                url = f"wss://127.0.0.1:{proxy.ports['tls_ws']}/mqtt"
                seen = chat_with_mqtt_js(url, 5, "alice", "secret", self.authority.ca)
                self.assertEqual(seen["heard"][-1], ["room/back", 7, 2])
            self.assertNotIn(HAPROXY, gateway.log)

    def test_it_takes_the_configuration_in_the_readme(self):
        settings = re.search(r"```haproxy\n(.*?)```", (REPOSITORY / "server" / "docs" / "install.md").read_text(), re.S)[1]
        (self.authority.path / "haproxy.cfg").write_text(settings)
        (self.authority.path / "site.pem").write_text(self.pem.read_text())
        subprocess.run(["haproxy", "-c", "-f", "haproxy.cfg"], cwd=self.authority.path, check=True, timeout=60,
                       capture_output=True)

    def test_its_health_checks_find_the_gateway_and_leave_no_trace_in_the_log(self):
        with self.gateway("--listen", "mqtts://127.0.0.1:0") as gateway:
            plain_tls = re.search(r"\bmqtts://[^:]+:(\d+),", gateway.log)[1]
            servers = {"bare": str(gateway.port), "bare_tls": plain_tls,
                       "handshake": f"{plain_tls} check-ssl verify none"}
            for scheme in ("mqtt", "mqtts", "ws"):
                port = proxied_port(gateway, scheme)
                servers[f"v1_{scheme}"] = f"{port} send-proxy"
                servers[f"v2_{scheme}"] = f"{port} send-proxy-v2"  # its checks say LOCAL
                servers[f"bare_{scheme}"] = f"{port} port {port} send-proxy-v2"  # these come without a header
            with HaProxy({name: f"{server} check inter 100ms" for name, server in servers.items()}) as proxy:
                wait_until(lambda: gateway.metric("pulsegate_connections_accepted_total") > 10 * len(servers))
                healthy = {name: "L6OK" if name == "handshake" else "L4OK" for name in servers}
                wait_until(lambda: proxy.health() == healthy, what="good health")
            self.assertEqual(gateway.metric("pulsegate_handshakes_refused_total"), 0)
            lines = [line for line in gateway.log.splitlines() if "clients are not authenticated" not in line]
            self.assertEqual(len(lines), 2, gateway.log)  # where the data is, and ready


if __name__ == "__main__":
    unittest.main()
