"""A proxy that loses packets, and what tests of sessions with it have in common."""

import socket
import threading
import unittest

from clients import PahoClient
from gateway import Gateway, wait_until
from packets import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL

UP, DOWN = "up", "down"
# Each packet of an exchange is once the one that is lost.
FROM_TALKER = {1: [(UP, PUBLISH), (DOWN, PUBACK)],
               2: [(UP, PUBLISH), (DOWN, PUBREC), (UP, PUBREL), (DOWN, PUBCOMP)]}
TO_LISTENER = {1: [(DOWN, PUBLISH), (UP, PUBACK)],
               2: [(DOWN, PUBLISH), (UP, PUBREC), (DOWN, PUBREL), (UP, PUBCOMP)]}
MESSAGES = [f"message {number}" for number in range(6)]


class Proxy:
    """Passes packets on between clients and the gateway, but loses the third one of a kind in one
    direction, and both connections with it; afterwards it passes on everything."""

    def __init__(self, port, direction, kind):
        self.gateway_port = port
        self.direction, self.kind, self.left = direction, kind, 3
        self.sockets = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def has_cut(self):
        return self.left == 0

    def close(self):
        for one in [self.listener, *self.sockets]:
            self.shut(one)
            one.close()

    @staticmethod
    def shut(one):
        try:
            one.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it is closed already

    def accept(self):
        try:
            while True:
                client, _ = self.listener.accept()
                gateway = socket.create_connection(("127.0.0.1", self.gateway_port))
                self.sockets += [client, gateway]
                for one in (client, gateway):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for pair in ((UP, client, gateway), (DOWN, gateway, client)):
                    threading.Thread(target=self.pass_on, args=pair, daemon=True).start()
        except OSError:
            pass  # closed

    def pass_on(self, direction, source, target):
        try:
            with source.makefile("rb") as stream:
                while packet := self.read(stream):
                    if direction == self.direction and packet[0] >> 4 == self.kind and self.left:
                        self.left -= 1
                        if not self.left:
                            break
                    target.sendall(packet)
        except OSError:
            pass  # the other direction has cut it
        self.shut(source)
        self.shut(target)

    @staticmethod
    def read(stream):
        packet, size, shift = stream.read(1), 0, 0
        while packet:
            digit = stream.read(1)
            if not digit:
                return b""
            packet += digit
            size |= (digit[0] & 127) << shift
            shift += 7
            if digit[0] < 128:
                return packet + stream.read(size)
        return b""


class WithGateway(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.gateway = cls.enterClassContext(Gateway(events=True))

    def client(self, name, version, gateway=None, **options):
        client = PahoClient(gateway or self.gateway, name, version, **options)
        self.addCleanup(client.leave)
        return client

    def proxy(self, direction, kind):
        proxy = Proxy(self.gateway.port, direction, kind)
        self.addCleanup(proxy.close)
        return proxy

    def wait_for_metric(self, value, name, **labels):
        wait_until(lambda: self.gateway.metric(name, **labels) == value, what=f"{name} {value}")

    def judge(self, qos, heard):
        """All messages, in order: at QoS 2 once, at QoS 1 at least once."""
        self.assertEqual(list(dict.fromkeys(heard)), MESSAGES)
        if qos == 2:
            self.assertEqual(heard, MESSAGES)
