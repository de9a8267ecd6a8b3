"""What an idle client costs in the gateway's own memory; the kernel's part of a socket comes on top."""

import resource
import socket
import time
import unittest
from pathlib import Path

from gateway import DISCONNECT, Gateway, SANITIZED, connect_packet, subscribe_packet

CLIENTS = 10_000
FILES = CLIENTS + 500
WARM_UP = 300
LIMIT = 1_000  # bytes per client

IP_BIND_ADDRESS_NO_PORT = 24  # socket has it from Python 3.12 on


class Crowd:
    """Clients that log in, subscribe to one topic each and are idle from then on."""

    def __init__(self, port, size, topic="inbox/{client}", version=4):
        self.sockets = []
        for number in range(size):
            client = f"client-{number:06}"
            sock = socket.socket()
            self.sockets.append(sock)
            sock.settimeout(20)
            # One address has too few ports for everybody.
            sock.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
            sock.bind((f"127.0.{1 + number // 5000}.1", 0))
            sock.connect(("127.0.0.1", port))
            sock.sendall(connect_packet(client, version=version, keepalive=600) +
                         subscribe_packet(topic.format(client=client), version=version))
            connack, suback = self._packet(sock), self._packet(sock)
            assert connack[0] == 0x20 and connack[3] == 0, f"{client} is refused: {connack}"
            assert suback[0] == 0x90 and suback[-1] == 0, f"{client} may not subscribe: {suback}"

    @staticmethod
    def _packet(sock):
        header = sock.recv(2, socket.MSG_WAITALL)
        assert len(header) == 2 and header[1] < 128, f"no short packet: {header}"
        return header + sock.recv(header[1], socket.MSG_WAITALL)

    def leave(self):
        for sock in self.sockets:
            sock.sendall(DISCONNECT)
        for sock in self.sockets:
            assert sock.recv(1) == b"", "the gateway has something to say after DISCONNECT"
            sock.close()


def own_memory(gateway):
    """Resident bytes that are no pages of files, once a tick has gone by."""
    time.sleep(1.2)
    for line in Path(f"/proc/{gateway.pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no RssAnon")


@unittest.skipIf(SANITIZED, "sanitizers have a memory of their own")
class MemoryTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < FILES:
            raise unittest.SkipTest(f"needs {FILES} open files (ulimit -Hn): {hard} are allowed")
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    def check_cost(self, who, **crowd):
        with Gateway() as gateway:
            Crowd(gateway.port, WARM_UP, **crowd).leave()
            before = own_memory(gateway)
            clients = Crowd(gateway.port, CLIENTS, **crowd)
            each = (own_memory(gateway) - before) / CLIENTS
            print(f"{each:.0f} bytes for an idle client of {who}", flush=True)
            clients.leave()
        self.assertLessEqual(each, LIMIT)

    def test_an_idle_client_with_its_inbox_costs_less_than_1000_bytes(self):
        self.check_cost("MQTT 3.1.1 with its inbox")

    def test_an_idle_client_in_a_room_costs_less_than_1000_bytes(self):
        self.check_cost("MQTT 3.1.1 in a room with all others", topic="rooms/lobby")

    def test_an_idle_client_of_mqtt_5_costs_less_than_1000_bytes(self):
        self.check_cost("MQTT 5.0 with its inbox", version=5)

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
