"""Clients with a stored session while the store refuses everything."""

import struct

from gateway import Client, packet, publish_packet, subscribe_packet, text

UNSUBSCRIBE, PUBREL = 0xA2, 0x62
SUBACK, UNSUBACK, PUBREC, PUBCOMP = 0x90, 0xB0, 0x50, 0x70


class StoredClient(Client):
    def arrive(self, name, version):
        self.version = version
        self.none = b"\0" if version == 5 else b""
        expiry = b"\x05\x11" + struct.pack(">I", 3600) if version == 5 else b""
        self.send(packet(0x10, text("MQTT") + bytes([version, 0]) + struct.pack(">H", 60) + expiry + text(name)))
        connack = self.receive()
        assert connack and connack[0] == 0x20 and connack[1][1] == 0, f"CONNACK is {connack}"
        return self

    def is_refused_to_subscribe(self, topic, packet_id):
        self.send(subscribe_packet(topic, version=self.version, packet_id=packet_id))
        return self.receive() == (SUBACK, struct.pack(">H", packet_id) + self.none + bytes([0x97 if self.version == 5 else 0x80]))

    def unsubscribe(self, topic, packet_id):
        self.send(packet(UNSUBSCRIBE, struct.pack(">H", packet_id) + self.none + text(topic)))


def judge_trouble(test, port, begin, end):
    """Nobody is disconnected between `begin`, after which the store refuses everything, and `end`."""
    with StoredClient(port).arrive("old", 4) as old, StoredClient(port).arrive("new", 5) as new:
        for client in (old, new):
            client.subscribe("own", qos=1)
        begin()
        for client in (old, new):
            test.assertTrue(client.is_refused_to_subscribe("before it is known", 2))
            test.assertTrue(client.is_refused_to_subscribe("when it is known", 3))
            client.unsubscribe("own", 4)
        test.assertEqual(new.receive(), (UNSUBACK, b"\0\x04\0\x83"))
        new.send(publish_packet("elsewhere", b"hello", version=5, qos=2, packet_id=5))
        test.assertEqual(new.receive(), (PUBREC, b"\0\x05\x97"))
        for client in (old, new):
            client.send(packet(PUBREL, b"\0\x06"))
            client.ping()  # all others wait
        end()
        test.assertEqual(old.receive(), (UNSUBACK, b"\0\x04"))
        test.assertEqual(old.receive(), (PUBCOMP, b"\0\x06"))
        test.assertEqual(new.receive(), (PUBCOMP, b"\0\x06\x92"))
        for client in (old, new):
            client.ping()
