"""Clients that behave, and must not notice what others do."""

import collections
import socket

import packets
from gateway import PATIENCE, Client
from packets import CONNACK, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, FromServer


class Calm(Client):
    """A client that does everything right."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.waiting = collections.deque()  # messages that came in between

    def next(self):
        found = self.receive()
        assert found, "closed"
        return FromServer(*found, self.version)

    def expect(self, kind, packet_id):
        message = self.next()
        while message.type == PUBLISH:
            self.waiting.append(message)
            message = self.next()
        assert (message.type, message.packet_id, message.reason) == (kind, packet_id, 0), message

    def say(self, kind, packet_id):
        self.send(packets.answer(self.version, kind, packet_id))

    def tell(self, topic, payload, qos):
        self.send(packets.publish(self.version, topic, payload, qos=qos, packet_id=7))
        if qos == 1:
            self.expect(PUBACK, 7)
        if qos == 2:
            self.expect(PUBREC, 7)
            self.say(PUBREL, 7)
            self.expect(PUBCOMP, 7)

    def hear(self, acknowledge=True):
        """Payload, QoS and DUP of the next message."""
        message = self.waiting.popleft() if self.waiting else self.next()
        assert message.type == PUBLISH, message
        if acknowledge and message.qos == 1:
            self.say(PUBACK, message.packet_id)
        if acknowledge and message.qos == 2:
            self.say(PUBREC, message.packet_id)
            self.expect(PUBREL, message.packet_id)
            self.say(PUBCOMP, message.packet_id)
        return message.payload, message.qos, message.dup


class Calmness:
    """Clients beside all the disorder. They get each message once, in order."""

    def __init__(self, port):
        self.port = port
        self.unacknowledged = {4: [], 5: []}
        for version in (4, 5):
            sleeper, _ = self.arrive(version, f"sleeper{version}", keep=True)
            sleeper.subscribe(f"calm/sleep/{version}", qos=2)
            sleeper.close()

    def arrive(self, version, name, keep=False):
        client = Calm(self.port, timeout=PATIENCE)
        client.version = version
        client.send(packets.connect(version, name, clean=not keep, props=[(0x11, 3600)] if keep else []))
        message = client.next()
        assert (message.type, message.reason) == (CONNACK, 0), message
        return client, message.session_present

    def check(self, number):
        for here, there in ((4, 5), (5, 4)):
            talker, _ = self.arrive(here, "talker")
            listener, _ = self.arrive(there, "listener")
            topic = f"calm/{number}/{here}"
            listener.subscribe(topic, qos=2)
            said = [(f"{number} {qos}".encode(), qos, False) for qos in (0, 1, 2, 2, 1, 0)]
            for payload, qos, _ in said:
                talker.tell(topic, payload, qos)
                if there == 5:  # for the other it may pile up
                    assert listener.hear() == (payload, qos, False)
            if there == 4:
                assert [listener.hear() for _ in said] == said
            for qos in (1, 2, 1 + number % 2):
                talker.tell(f"calm/sleep/{there}", f"{number} {qos}".encode(), qos)
            listener.disconnect()
            talker.disconnect()
            self.wake(there, [(f"{number} {qos}".encode(), qos) for qos in (1, 2, 1 + number % 2)])

    def wake(self, version, said):
        """The sleeper gets what it did not acknowledge, then the news; the last it leaves for next time."""
        sleeper, present = self.arrive(version, f"sleeper{version}", keep=True)
        assert present, "the session was lost"
        awaited = self.unacknowledged[version] + [(*message, False) for message in said]
        for at, message in enumerate(awaited):
            heard = sleeper.hear(acknowledge=at < len(awaited) - 1)
            assert heard == message, f"{heard} instead of {message}"
        self.unacknowledged[version] = [(*said[-1], True)]
        sleeper.ping()  # what it acknowledged has arrived
        sleeper.close()
