"""What an idle client costs in the gateway's own memory; the kernel's part of a socket comes on top."""

import resource
import socket
import ssl
import unittest
from pathlib import Path

from certificates import Certificates
from gateway import DISCONNECT, Gateway, SANITIZED, connect_packet, port_of, subscribe_packet

CLIENTS = 10_000
WARM_UP = 300
FILES = CLIENTS + WARM_UP + 500
TLS_CLIENTS = 500  # a handshake costs a millisecond or two
LIMIT = 750  # bytes per client

IP_BIND_ADDRESS_NO_PORT = 24  # socket has it from Python 3.12 on


class Plain:
    """What is between one client's MQTT and its socket."""

    def __init__(self, sock):
        self.socket = sock

    def send(self, data):
        self.socket.sendall(data)

    def receive(self, size):
        """As many bytes, or what comes before the end."""
        data = b""
        while len(data) < size and (more := self.socket.recv(size - len(data))):
            data += more
        return data


class Tls(Plain):
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE

    def __init__(self, sock):
        super().__init__(self.context.wrap_socket(sock))


class WebSocket(Plain):
    request = (b"GET /mqtt HTTP/1.1\r\nHost: gateway\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
               b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
               b"Sec-WebSocket-Protocol: mqtt\r\n\r\n")

    def __init__(self, sock):
        super().__init__(sock)
        sock.sendall(self.request)
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            more = sock.recv(1000)
            assert more, f"no upgrade: {answer}"
            answer += more
        assert answer.startswith(b"HTTP/1.1 101 "), answer
        self.unread = b""

    def send(self, data):
        assert len(data) < 126
        super().send(bytes([0x82, 0x80 | len(data)]) + bytes(4) + data)  # masked with zeros

    def receive(self, size):
        while len(self.unread) < size:
            kind, length = super().receive(2)
            if kind == 0x88:
                assert super().receive(length + 1) == b"\x03\xe8", "the close is not a normal one"
                return b""
            assert kind == 0x82 and length < 126, f"a frame of kind {kind:#x} and {length} bytes"
            self.unread += super().receive(length)
        data, self.unread = self.unread[:size], self.unread[size:]
        return data


class Crowd:
    """Clients that log in, subscribe to one topic each, if any, and are idle from then on."""

    def __init__(self, port, size, first=0, topic="inbox/{client}", version=4, way=Plain):
        self.clients = []
        for number in range(first, first + size):
            name = f"client-{number:06}"
            sock = socket.socket()
            sock.settimeout(60)
            # One address has too few ports for everybody.
            sock.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
            sock.bind((f"127.0.{1 + number // 5000}.1", 0))
            sock.connect(("127.0.0.1", port))
            client = way(sock)
            self.clients.append(client)
            connect = connect_packet(name, version=version, keepalive=600)
            client.send(connect + (subscribe_packet(topic.format(client=name), version=version) if topic else b""))
            connack = self._packet(client)
            assert connack[0] == 0x20 and connack[3] == 0, f"{name} is refused: {connack}"
            if not topic:
                continue
            suback = self._packet(client)
            assert suback[0] == 0x90 and suback[-1] == 0, f"{name} may not subscribe: {suback}"

    @staticmethod
    def _packet(client):
        header = client.receive(2)
        assert len(header) == 2 and header[1] < 128, f"no short packet: {header}"
        return header + client.receive(header[1])

    def leave(self):
        for client in self.clients:
            client.send(DISCONNECT)
        for client in self.clients:
            assert client.receive(1) == b"", "the gateway has something to say after DISCONNECT"
            client.socket.close()


def own_memory(gateway):
    """Resident bytes that are no pages of files, once a tick has gone by."""
    gateway.await_tick()
    for line in Path(f"/proc/{gateway.pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no RssAnon")


def idle_cost(*listener, scheme="mqtt", size=CLIENTS, **crowd):
    """Bytes for each idle client that comes by that listener."""
    with Gateway(*listener) as gateway:
        port = port_of(gateway, scheme)
        early = Crowd(port, WARM_UP, **crowd)  # they stay, so that the next clients find no free memory
        before = own_memory(gateway)
        clients = Crowd(port, size, first=WARM_UP, **crowd)
        each = (own_memory(gateway) - before) / size
        early.leave()
        clients.leave()
    return each


def websocket_cost(size=CLIENTS // 2):
    return idle_cost("--listen", "ws://127.0.0.1:0", scheme="ws", size=size, way=WebSocket)


def tls_cost(version, idle, size=TLS_CLIENTS):
    authority = Certificates()
    certificate, key = authority.issue("localhost")
    Tls.context.minimum_version = Tls.context.maximum_version = version
    try:
        return idle_cost("--listen", "mqtts://127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key,
                         "--tls-idle", idle, scheme="mqtts", size=size, way=Tls)
    finally:
        authority.folder.cleanup()


@unittest.skipIf(SANITIZED, "sanitizers have a memory of their own")
class MemoryTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < FILES:
            raise unittest.SkipTest(f"needs {FILES} open files (ulimit -Hn): {hard} are allowed")
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    def check(self, who, each, limit=LIMIT):
        print(f"{each:.0f} bytes for an idle client of {who}", flush=True)
        self.assertLessEqual(each, limit)

    def test_an_idle_client_costs_less_than_600_bytes(self):
        self.check("MQTT 3.1.1", idle_cost(topic=""), limit=600)

    def test_an_idle_client_with_its_inbox_costs_less_than_750_bytes(self):
        self.check("MQTT 3.1.1 with its inbox", idle_cost())

    def test_an_idle_client_in_a_room_costs_less_than_750_bytes(self):
        self.check("MQTT 3.1.1 in a room with all others", idle_cost(topic="rooms/lobby"))

    def test_an_idle_client_of_mqtt_5_costs_less_than_750_bytes(self):
        self.check("MQTT 5.0 with its inbox", idle_cost(version=5))

    def test_an_idle_client_of_websocket_costs_less_than_850_bytes(self):
        self.check("MQTT 3.1.1 over WebSocket", websocket_cost(), limit=850)

    def test_an_idle_client_of_tls_costs_less_than_16000_bytes(self):
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with self.subTest(version=version):
                self.check(f"MQTT 3.1.1 over {version.name}", tls_cost(version, "openssl"), limit=16_000)

    def test_an_idle_client_of_tls_costs_less_than_1200_bytes_if_only_its_keys_are_kept(self):
        self.check("MQTT 3.1.1 over TLSv1_3, keys only", tls_cost(ssl.TLSVersion.TLSv1_3, "small", size=2 * TLS_CLIENTS),
                   limit=1200)

    def test_clients_that_come_again_cost_nothing_more(self):
        with Gateway() as gateway:
            levels = []
            for _ in range(4):
                clients = Crowd(gateway.port, CLIENTS // 2)
                levels.append(own_memory(gateway))
                clients.leave()
        print("all in, four times:", ", ".join(f"{level >> 10} KiB" for level in levels), flush=True)
        self.assertLess(levels[3] - levels[1], 50 * CLIENTS // 2)


if __name__ == "__main__":
    unittest.main()
