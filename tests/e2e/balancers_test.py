"""The examples for HAProxy and nginx in server/deploy/: clients chat through each of their ports."""

import json
import re
import ssl
import subprocess
import tempfile
import unittest
import urllib.request
from pathlib import Path
from queue import Queue

import paho.mqtt.client as paho

from certificates import Certificates
from gateway import REPOSITORY, Gateway, add_users, wait_until
from ports import free_port

DEPLOY = REPOSITORY / "server" / "deploy"
CLIENT = "127.0.0.7"  # where clients come from; the balancers come from 127.0.0.1
LISTENER = re.compile(r'"((?:mqtts?|ws|http)://127\.0\.0\.1:)(\d+)([^"]*)"')


class Balancer:
    """A balancer that runs by an example, with other ports and files; and what the gateway behind it needs."""

    def __init__(self, test, example, listening):
        self.folder = Path(test.enterContext(tempfile.TemporaryDirectory(prefix="pulsegate-balancer-")))
        self.folder.chmod(0o755)  # nginx's workers have a user of their own
        self.test = test
        self.text = (DEPLOY / example).read_text()
        self.ports = {}  # what became of those in the example
        self.take_ports(listening)
        self.take_files(test.certificates.issue("localhost"))

    def take_ports(self, listening):
        """Those of the gateway, as the example's head names its listeners, and those that `listening` finds."""
        def moved(found):
            self.ports[found[2]] = free_port()
            return f"{found[1]}127.0.0.1:{self.ports[found[2]]}"

        self.text = re.sub(listening, moved, self.text)
        head = self.text[:self.text.index("]")]
        self.gateway_arguments = []
        for scheme, port, rest in LISTENER.findall(head):
            self.ports[port] = free_port()
            self.gateway_arguments += ["--listen", f"{scheme}{self.ports[port]}{rest}"]
            self.text = re.sub(rf"(127\.0\.0\.1:|check port ){port}\b", rf"\g<1>{self.ports[port]}", self.text)

    def take_files(self, pair):
        certificate, key = pair
        self.gateway_arguments += ["--tls-cert", certificate, "--tls-key", key]
        (self.folder / "site.pem").write_text(Path(certificate).read_text() + Path(key).read_text())
        files = {"/etc/haproxy/site.pem": self.folder / "site.pem", "/etc/nginx/chain.pem": certificate,
                 "/etc/nginx/key.pem": key, "/run/nginx.pid": self.folder / "pid", "/var/log/nginx": self.folder}
        for usual, file in files.items():
            self.text = self.text.replace(usual, str(file))

    def run(self, *command):
        (self.folder / "settings").write_text(self.text)
        log = self.test.enterContext(open(self.folder / "output", "w"))
        process = subprocess.Popen([*command, str(self.folder / "settings")], cwd=self.folder,
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.test.addCleanup(process.wait, 60)
        self.test.addCleanup(process.terminate)
        self.process = process

    def said(self):
        return "".join(path.read_text() for path in (self.folder / "output", self.folder / "error.log")
                       if path.exists())


class BalancersTest(unittest.TestCase):
    def setUp(self):
        self.certificates = Certificates()
        self.addCleanup(self.certificates.folder.cleanup)

    def serve(self, balancer):
        users = add_users(balancer.folder / "users", phone="secret")
        return self.enterContext(Gateway(*balancer.gateway_arguments, "--password-file", users, "--rooms", "open",
                                         "--log-level", "debug", listen=False))

    def chat(self, balancer, port, *, is_tls=False, is_websocket=False):
        """A client comes by the port that the example calls so, and hears its own message. Returns its client id."""
        name, heard = f"by-{port}", Queue()
        client = paho.Client(client_id=name, transport="websockets" if is_websocket else "tcp")
        client.username_pw_set("phone", "secret")
        if is_tls:
            client.tls_set_context(ssl.create_default_context(cafile=self.certificates.ca))
        client.on_connect = lambda *_: client.subscribe("room/echo", 1)
        client.on_subscribe = lambda *_: client.publish("room/echo", name, 1)
        client.on_message = lambda _, __, message: heard.put(message.payload.decode())

        def connected():
            assert balancer.process.poll() is None, balancer.said()
            try:
                return client.connect("localhost", balancer.ports[port], bind_address=CLIENT) == 0
            except (OSError, paho.WebsocketConnectionError):
                return False  # it does not listen yet, or has not seen that the gateway is well

        wait_until(connected, what=f"port {port} of the balancer")
        client.loop_start()
        self.addCleanup(client.loop_stop)
        self.assertEqual(heard.get(timeout=60), name)
        client.disconnect()
        return name

    def check_ports(self, gateway, balancer, ports):
        for port, kind in ports.items():
            with self.subTest(port=port):
                name = self.chat(balancer, port, **kind)
                gateway.wait_for_log(rf"{re.escape(CLIENT)}:\d+ client '{name}' of user 'phone': login")

    def test_clients_chat_through_haproxy_and_keep_their_addresses(self):
        balancer = Balancer(self, "haproxy.cfg", r"(bind ):(\d+)")
        balancer.text = balancer.text.replace("maxconn 110000", "maxconn 100")
        gateway = self.serve(balancer)
        balancer.run("haproxy", "-db", "-f")
        self.check_ports(gateway, balancer, {
            "1883": {}, "8883": {"is_tls": True}, "8884": {"is_tls": True},
            "443": {"is_tls": True, "is_websocket": True}})

    def test_clients_chat_through_nginx_and_keep_their_addresses_but_beside_a_web_site(self):
        balancer = Balancer(self, "nginx.conf", r"(listen )(\d+)")
        balancer.text = balancer.text.replace("110000;", "100;").replace("220000;", "1000;")
        balancer.text = balancer.text.replace("http {", "http {" + "".join(
            f"{kind}_temp_path {balancer.folder}/{kind};"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")))
        gateway = self.serve(balancer)
        balancer.run("nginx", "-g", "daemon off;", "-c")
        self.check_ports(gateway, balancer, {
            "1883": {}, "8883": {"is_tls": True}, "8884": {"is_tls": True},
            "8084": {"is_tls": True, "is_websocket": True}})
        name = self.chat(balancer, "443", is_tls=True, is_websocket=True)
        gateway.wait_for_log(rf"127\.0\.0\.1:\d+ client '{name}'")
        self.check_readiness(balancer)

    def check_readiness(self, balancer):
        url = f"https://localhost:{balancer.ports['443']}/readyz"
        tls = ssl.create_default_context(cafile=self.certificates.ca)
        with urllib.request.urlopen(url, timeout=60, context=tls) as answer:
            self.assertEqual(json.load(answer)["status"], "ready")


if __name__ == "__main__":
    unittest.main()
