"""How often the gateway asks the kernel for something: for a ping, a login and a message, when the server is quiet.

Each step waits for the answer to the one before. What is alone pays for a round of Asio's loop by itself: Asio waits,
the poller looks what there is, and Asio is told to wait again (arm). In a batch, all share it."""

import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

from gateway import Client, Gateway, SANITIZED, add_users, connect_packet

TIMES = 1_000
SLACK = 1.02  # strace comes and goes
ATTEMPTS = 3  # a busy machine divides rounds of the loop, so it can add calls and never save any
A_TICK = 10  # system calls of a shard once a second, and of the main thread


class Strace:
    """Counts the system calls of all threads of a process while it is entered."""

    def __init__(self, pid):
        self.pid = pid
        self.calls = {}

    def __enter__(self):
        handle, self.file = tempfile.mkstemp(prefix="pulsegate-strace-")
        os.close(handle)
        self.process = subprocess.Popen(
            ["strace", "-f", "-c", "-o", self.file, "-p", str(self.pid)],
            stderr=subprocess.PIPE, text=True)
        said = self.process.stderr.readline()
        if "attached" not in said:
            self._close()
            raise unittest.SkipTest(f"may not trace another process: {said.strip()}")
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        self._close()

    def _close(self):
        self.process.communicate(timeout=60)
        # % time, seconds, usecs/call, calls, errors if any, name
        row = re.compile(r"\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)(?:\s+\d+)?\s+(\w+)")
        for line in Path(self.file).read_text().splitlines():
            found = row.fullmatch(line)
            if found and found[2] != "total":
                self.calls[found[2]] = int(found[1])
        os.unlink(self.file)


@unittest.skipIf(SANITIZED, "sanitizers make calls of their own")
@unittest.skipUnless(shutil.which("strace"), "needs strace")
class SystemCallsTest(unittest.TestCase):
    def check(self, what, limit, gateway, step):
        step(0)
        for _ in range(ATTEMPTS):
            total, common = self.count(gateway, step)
            print(f"{total:.2f} system calls for a {what}:",
                  ", ".join(f"{count:.2f} {name}" for name, count in common.items()), flush=True)
            if total <= limit * SLACK:
                break
        self.assertLessEqual(total, limit * SLACK)
        self.assertGreaterEqual(common.get("sendto", 0), 0.99, "no answers were counted")

    def count(self, gateway, step):
        """Calls for each step, and those of the kinds that are not rare."""
        ticks = gateway.metric("pulsegate_loop_lag_seconds_count")
        with Strace(gateway.pid) as strace:
            for number in range(1, TIMES + 1):
                step(number)
        ticks = gateway.metric("pulsegate_loop_lag_seconds_count") - ticks
        total = (sum(strace.calls.values()) - A_TICK * ticks) / TIMES
        return total, {name: count / TIMES for name, count in strace.calls.items() if count > TIMES / 50}

    def test_a_ping_takes_five_system_calls(self):
        with Gateway() as gateway, gateway.connect("pinger") as client:
            self.check("PINGREQ", 5, gateway, lambda _: client.ping())  # wait, look, read, write, arm

    def test_a_login_and_its_loss_take_fifteen_system_calls(self):
        def come_and_go(number):
            client = Client(gateway.port).login(f"guest-{number}")
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # with a reset
            client.close()

        # Wait, accept, watch, arm; wait, look, read, ask for the peer's port (for the history), write, arm;
        # wait, look, read, close, arm.
        with Gateway("--shards", "1") as gateway:
            self.check("login and its loss", 15, gateway, come_and_go)

    def test_the_peer_of_a_refused_login_is_asked_for_once(self):
        def be_refused(_):
            with Client(gateway.port) as client:
                client.send(connect_packet("guest", username="ann"))
                self.assertEqual(client.receive(), (0x20, bytes([0, 4])))
                self.assertIsNone(client.receive())

        with tempfile.TemporaryDirectory() as folder, Gateway("--shards", "1", "--ban-failures", "0", "--password-file",
                                                   add_users(f"{folder}/users", ann="secret")) as gateway:
            be_refused(0)
            with Strace(gateway.pid) as strace:
                for number in range(TIMES):
                    be_refused(number)
            self.assertLessEqual(strace.calls["getpeername"], TIMES)

    def test_a_message_takes_five_system_calls(self):
        def pass_on(_):
            sender.publish("room", b"hello")
            receiver.receive_publish()

        with Gateway("--shards", "1") as gateway, gateway.connect("sender") as sender, \
                gateway.connect("receiver") as receiver:
            receiver.subscribe("room")
            self.check("message of QoS 0", 5, gateway, pass_on)  # wait, look, read, write, arm

    def test_a_message_of_qos_1_takes_ten_system_calls(self):
        def pass_on(_):
            sender.publish("room", b"hello", qos=1)
            receiver.receive_publish()
            self.assertEqual(sender.receive()[0], 0x40)

        # Wait, look, read, write to both, arm; wait, look, read the receiver's PUBACK, arm.
        with Gateway("--shards", "1") as gateway, gateway.connect("sender") as sender, \
                gateway.connect("receiver") as receiver:
            receiver.subscribe("room", qos=1)
            self.check("message of QoS 1", 10, gateway, pass_on)

    def test_a_stored_message_takes_twenty_two_system_calls(self):
        def publish(_):
            sender.publish("room", b"hello", qos=1)
            self.assertEqual(sender.receive()[0], 0x40)

        with tempfile.TemporaryDirectory() as folder, \
                Gateway("--shards", "1", "--data", Path(folder) / "data",
                        "--max-queued-messages", 2 * TIMES) as gateway, \
                gateway.connect("sender") as sender:
            with gateway.connect("receiver", clean=False) as receiver:
                receiver.subscribe("room", qos=1)
            self.check("stored message", 22, gateway, publish)


if __name__ == "__main__":
    unittest.main()
