"""What was in flight when the gateway ended is sent again: with its packet identifier and DUP (MQTT 5.0, 4.4)."""

import contextlib
import tempfile
import unittest
from pathlib import Path

import packets
from gateway import PINGREQ, Client, Gateway, wait_until

VERSIONS = {"3.1.1": 4, "5.0": 5}
WINDOW = 3  # the receiver's Receive Maximum in 5.0; in 3.1.1 there is none
COUNT = 5


def qos_of(number):
    """They are mixed: of QoS 2 are the second and the fourth."""
    return 2 if number % 2 == 0 else 1


class Receiver:
    """It acknowledges nothing unless it is told to."""

    def __init__(self, gateway, version):
        self.version = version
        self.client = Client(gateway.port)
        self.early = []
        props = ((0x11, 600), (0x21, WINDOW)) if version == 5 else ()
        self.client.send(packets.connect(version, "receiver", clean=False, props=props))
        self.session_present = self.next(packets.CONNACK).session_present

    def next(self, kind):
        """The next packet of this kind; messages may come before answers."""
        if kind == packets.PUBLISH and self.early:
            return self.early.pop(0)
        while True:
            received = self.client.receive()
            assert received, f"closed instead of a {packets.NAMES[kind]}"
            packet = packets.FromServer(*received, self.version)
            if packet.type == kind:
                return packet
            assert packet.type == packets.PUBLISH, f"{packet} instead of a {packets.NAMES[kind]}"
            self.early.append(packet)

    def message(self):
        """Its number, packet identifier and DUP."""
        publish = self.next(packets.PUBLISH)
        number = int(publish.payload)
        assert publish.qos == qos_of(number), publish
        return number, publish.packet_id, publish.dup

    def answer(self, kind, packet_id):
        self.client.send(packets.answer(self.version, kind, packet_id))

    def complete(self, number, packet_id):
        if qos_of(number) == 1:
            return self.answer(packets.PUBACK, packet_id)
        self.answer(packets.PUBREC, packet_id)
        assert self.next(packets.PUBREL).packet_id == packet_id
        self.answer(packets.PUBCOMP, packet_id)

    def subscribe(self):
        self.client.send(packets.subscribe(self.version, 1, [("x", 2)]))
        self.next(packets.SUBACK)

    def has_nothing(self):
        self.client.send(PINGREQ)
        self.next(packets.PINGRESP)
        assert not self.early, self.early


class RedeliveryTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folders = Path(folder.name)

    @contextlib.contextmanager
    def gateway(self, name, killed=False):
        """Ends with SIGTERM, or with SIGKILL."""
        gateway = Gateway("--shards", "2", "--data", self.folders / name).start()
        try:
            yield gateway
            if not killed:
                gateway.stop()
        finally:
            gateway.kill()
            gateway.folder.cleanup()

    def receiver(self, gateway, version):
        receiver = Receiver(gateway, version)
        self.addCleanup(receiver.client.close)
        return receiver

    def publish(self, gateway, number):
        """Until it is answered."""
        with Client(gateway.port) as sender:
            sender.login("sender")
            qos = qos_of(number)
            sender.publish("x", str(number).encode(), qos=qos, packet_id=number)
            self.assertEqual(sender.receive()[0], 0x40 if qos == 1 else 0x50)
            if qos == 2:
                sender.send(packets.answer(4, packets.PUBREL, number))
                self.assertEqual(sender.receive()[0], 0x70)

    def leave_in_flight(self, gateway, version):
        """Publishes all messages to a receiver; returns it, and how many it has got."""
        receiver = self.receiver(gateway, version)
        receiver.subscribe()
        window = WINDOW if version == 5 else COUNT
        for number in range(1, COUNT + 1):
            self.publish(gateway, number)
            if number <= window:
                self.assertEqual(receiver.message(), (number, number, False))
        return receiver, window

    def check_again(self, gateway, version, window, later=(), knows_identifiers=True, waits_for_sure=True):
        """They come again, and then the rest and what was published `later`, when there is room for it."""
        receiver = self.receiver(gateway, version)
        self.assertTrue(receiver.session_present)
        last = COUNT + len(later) if version == 4 else window  # all come at once
        came = sorted(receiver.message() for _ in range(last))
        came, rest = came[:window], came[window:]
        self.assertEqual([(number, dup) for number, _, dup in came],
                         [(number, True) for number in range(1, window + 1)])
        identifiers = [packet_id for _, packet_id, _ in came]
        self.assertEqual(len(set(identifiers)), window)
        if knows_identifiers:
            self.assertEqual(identifiers, list(range(1, window + 1)))
        for number, packet_id, _ in came:
            receiver.complete(number, packet_id)
        for number in [*range(window + 1, COUNT + 1), *later]:
            came, packet_id, dup = rest.pop(0) if rest else receiver.message()
            self.assertEqual(came, number)
            self.assertNotIn(packet_id, identifiers)
            if waits_for_sure or qos_of(number) == 2:
                self.assertFalse(dup)
            receiver.complete(number, packet_id)
        receiver.has_nothing()

    def check_nothing(self, gateway, version):
        receiver = self.receiver(gateway, version)
        self.assertTrue(receiver.session_present)
        receiver.has_nothing()

    def each_version(self):
        for name, version in VERSIONS.items():
            with self.subTest(version=name):
                yield name, version

    def test_after_sigterm_messages_in_flight_have_their_identifiers_and_dup(self):
        for name, version in self.each_version():
            with self.gateway(name) as gateway:
                _, window = self.leave_in_flight(gateway, version)
            with self.gateway(name) as gateway:
                self.check_again(gateway, version, window)
            with self.gateway(name) as gateway:
                self.check_nothing(gateway, version)

    def test_after_sigkill_messages_have_dup_that_may_have_been_sent(self):
        for name, version in self.each_version():
            with self.gateway(name, killed=True) as gateway:
                _, window = self.leave_in_flight(gateway, version)
            # A moment is too short for identifiers. The rest may have been sent meanwhile, for all that is stored.
            with self.gateway(name) as gateway:
                self.check_again(gateway, version, window, knows_identifiers=False, waits_for_sure=False)
            with self.gateway(name) as gateway:
                self.check_nothing(gateway, version)

    def test_a_sigkill_while_the_client_is_away_changes_nothing(self):
        for name, version in self.each_version():
            with self.gateway(name, killed=True) as gateway:
                receiver, window = self.leave_in_flight(gateway, version)
                receiver.client.close()
                wait_until(lambda: gateway.get_json("/api/v1/users/receiver")[1]["state"] == "offline")
                self.publish(gateway, later := COUNT + 2)  # it is stored behind that the client has gone
            with self.gateway(name) as gateway:
                self.check_again(gateway, version, window, [later])


if __name__ == "__main__":
    unittest.main()
