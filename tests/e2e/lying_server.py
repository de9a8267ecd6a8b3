"""A small MQTT server, of 3.1.1 and 5.0, that keeps every promise but the ones it is told to break, to see whether the
load generator finds that out. It shows presence, by client identifier, in presence/NAME and by HTTP on the same port, where
it also takes WebSockets and has metrics.

    lying_server.py LIE...    prints its ports; ends with its standard input

No lies:
    nodes=N         it has N ports, as a cluster of N nodes
    certificate=FILE key=FILE   it speaks TLS
    events=FILE     it appends changes of presence to the file

Lies:
    drop=N          every Nth message is acknowledged and delivered to nobody
    drop-crossing=N every Nth delivery from a client of one node to a client of another never happens
    late-messages=N every Nth message is delivered 4 s late
    no-puback=N     every Nth message of QoS 1 is delivered, but not acknowledged
    late-acks=N     every Nth PUBACK or PUBREC comes 4 s late
    swap-acks=N     every Nth PUBACK or PUBREC comes after the next one
    pubrec-again=N  every Nth PUBREC comes again
    no-pubrec=N     every Nth message of QoS 2 is delivered, but not acknowledged
    no-pubcomp=N    every Nth PUBREL has no answer
    repeat=N        every Nth message is delivered twice
    repeat-read=N   every Nth message of QoS 1 comes again, with DUP, when its receiver has acknowledged it and logs in again
    repeat-qos2=N   every Nth delivery at QoS 2 comes again after its PUBCOMP
    other-again=N   every Nth delivery at QoS 2 comes again before its PUBREL, as another message
    no-pubrel=N     every Nth PUBREC has no answer
    swap=N          every Nth message is delivered after the next one for the same receiver
    misdirect=N     every Nth message goes to somebody else
    damage=N        every Nth message is changed on its way
    topic=N         every Nth delivery has another topic
    lower-qos=N     every Nth delivery has QoS 0
    lower-grant     the first filter of each client is granted QoS 0, which is no lie
    retain=N        every Nth delivery has RETAIN set
    dup=N           every Nth delivery at QoS 1 or 2 has DUP set
    property=N      every Nth delivery has a content type, in 5.0
    sender=N        every Nth delivery names mallory as its sender, in 5.0
    identifier=N    every Nth delivery has a subscription identifier, in 5.0
    deaf=N          every Nth client that comes back gets no messages any more
    deaf-for=S      clients that come back get no messages for S seconds
    keep-out=N      every Nth client that comes back is refused from then on
    forget=N        every Nth kept session is gone when its client comes back
    invent-session=N every Nth client is told at its first login that it has a session
    close=N         every Nth client is closed 2 s after its login, although it talks
    no-pong=N       every Nth ping has no answer
    late-pings=MS   pings are answered that much later
    early-pong=N    every Nth CONNACK comes behind a PINGRESP
    wrong-suback=N  every Nth SUBACK has the packet identifier of no SUBSCRIBE
    long-frames=N   every Nth WebSocket frame has a length of more bytes than it needs
    masked-frames=N every Nth WebSocket frame is masked
    never-close     silent clients stay connected
    close-early=S   silent clients are closed after S seconds instead of one and a half keepalives
    close-late=S    silent clients are closed S seconds too late
    delay=MS        everything comes that much later, in both directions, as through a slow proxy
    refuse=N        every Nth presence filter is refused
    late-online=N   every Nth time that a user comes back, this is shown 4 s late
    no-state=N      every Nth time that a client subscribes to a user whose state others know, it is not told the state
    old-state=N     every Nth time, it is told the state before
    presence-qos=N, presence-dup=N, presence-retain=N
                    every Nth time that a client is told of presence, this has QoS 0, has DUP, or lacks RETAIN
    presence-user=N, presence-cause=N, presence-devices=N
                    every Nth time, this names another user, the cause of another state, or a device of another user
    hide=N          the presence of every Nth user is never shown
    ghosts=N        every Nth offline is not shown
    revive=N        every Nth time that a user is gone, the user is shown as online for a while, 3 s later
    hide-offline=N  every Nth client is not told when others go offline
    contradict=N    every Nth time that a client is told of presence, the state is the other one
    tell-others=N   every Nth change of presence is also told to a client that does not watch the user
    flap=N          every Nth user is shown as offline for a moment, 2 s after the login
    flap-kept=N     the same, and these changes are marked as retained messages
    http-offline=N  every Nth user that HTTP is asked for is told to be offline
    http-ghosts=N   every Nth user that HTTP is asked for is told to be online
    http-order=N    every Nth version that HTTP tells is an old one
    http-omit=N     every Nth user that HTTP is asked for is left out
"""

import asyncio
import base64
import hashlib
import itertools
import random
import re
import ssl
import struct
import sys

from lies import Lies
from lying_presence import LATE, Presence

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBSCRIBE, SUBACK = range(1, 10)
UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT = range(10, 15)
NOT_AUTHORIZED = 5
BINARY, CLOSE = 2, 8  # opcodes of WebSocket


class Session:
    """The state of MQTT that outlives a connection, if the client wants that."""

    def __init__(self):
        self.filters = {}
        self.packet_ids = itertools.cycle(range(1, 65536))
        self.received = set()  # QoS 2 packets that wait for their PUBREL
        self.sent = {}  # packet identifier -> first byte and body of a PUBLISH that is not completed
        self.read = []  # the same of QoS 1 that are acknowledged, and come again nevertheless
        self.released = set()  # the packet identifiers of these with a PUBREL
        self.waiting = []  # messages that came while the client was away


class Server:
    def __init__(self, lies):
        self.lies = lies
        self.away = {}  # name -> kept session of a client that is away
        self.kept_out = set()
        self.by_topic = {}  # topic -> clients that subscribe to it
        self.clients = set()
        self.presence = Presence(lies, self.by_topic, self.clients)

    def answer(self, target):
        if target == "/metrics":
            return f"pulsegate_connections {len(self.clients)}\n"
        return self.presence.answer(target)

    def publish(self, topic, payload, qos, node):
        receivers = list(self.by_topic.get(topic, ()))
        if self.lies.tells("drop"):
            return
        if self.lies.tells("damage"):
            payload = payload[:-1] + b"!"
        if self.lies.tells("misdirect") and len(self.clients) > 1:
            receivers = [random.choice([one for one in self.clients if one not in receivers])]
        if self.lies.tells("late-messages"):
            return asyncio.get_running_loop().call_later(LATE, self.pass_on, receivers, topic, payload, qos, node)
        self.pass_on(receivers, topic, payload, qos, node)

    def pass_on(self, receivers, topic, payload, qos, node):
        times = 2 if self.lies.tells("repeat") else 1
        for receiver in receivers:
            if receiver.node != node and self.lies.tells("drop-crossing"):
                continue
            for _ in range(times):
                receiver.deliver(topic, payload, qos)
        for session in self.away.values():
            if min(qos, session.filters.get(topic, 0)) > 0:
                session.waiting.append((topic, payload, qos))


class Client(asyncio.Protocol):
    def __init__(self, server, node):
        self.server, self.lies = server, server.lies
        self.node = node
        self.loop = asyncio.get_running_loop()
        self.transport = None
        self.input = b""
        self.frames = None  # what came of the next frames, if it is a WebSocket
        self.session = Session()
        self.keeps_session = False
        self.name = ""
        self.version = 4
        self.keepalive = 0
        self.last_packet = self.loop.time()
        self.timer = None
        self.offline_hidden = self.lies.tells("hide-offline")
        self.deaf_until = 0
        self.held = None  # a message that is to come after the next one
        self.held_ack = None

    # -- bytes

    def connection_made(self, transport):
        self.transport = transport

    def connection_lost(self, _error):
        self.server.clients.discard(self)
        if self.name:
            self.server.presence.goes(self.name, self)
        for topic in self.session.filters:
            self.server.by_topic.get(topic, set()).discard(self)
        if self.keeps_session:
            self.server.away[self.name] = self.session
        if self.timer:
            self.timer.cancel()

    def data_received(self, data):
        self.later("delay", self.take, data)

    def later(self, lie, function, *arguments):
        if self.lies.has(lie):
            self.loop.call_later(self.lies.number(lie) / 1000, function, *arguments)
        else:
            function(*arguments)

    def take(self, data):
        if self.frames is not None:
            self.frames += data
            self.take_frames()
        else:
            self.input += data
            if self.input.startswith(b"GET "):
                return self.take_request()
        self.take_packets()

    def take_packets(self):
        while (packet := self.next_packet()) is not None:
            first, body = packet
            self.last_packet = self.loop.time()
            self.handle(first >> 4, first & 15, body)

    def take_request(self):
        if b"\r\n\r\n" not in self.input:
            return
        if key := re.search(rb"\r\nSec-WebSocket-Key: *(\S+)", self.input, re.I):
            accept = base64.b64encode(hashlib.sha1(key[1] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()).decode()
            self.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                       f"Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n".encode())
            self.input, self.frames = b"", self.input.partition(b"\r\n\r\n")[2]
            self.take_frames()
            self.take_packets()
        else:
            body = self.server.answer(self.input.split()[1].decode())
            self.write(f"HTTP/1.0 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
            self.transport.close()

    def take_frames(self):
        """Takes the masked frames of a client apart. They carry MQTT, and one of them closes the connection."""
        while len(self.frames) >= 2:
            size, at = self.frames[1] & 127, 2
            if size >= 126:
                at = 4 if size == 126 else 10
                size = int.from_bytes(self.frames[2:at], "big")
            if len(self.frames) < at + 4 + size:
                return
            if self.frames[0] & 15 == CLOSE:
                return self.transport.close()
            mask = itertools.cycle(self.frames[at:at + 4])
            self.input += bytes(byte ^ key for byte, key in zip(self.frames[at + 4:at + 4 + size], mask))
            self.frames = self.frames[at + 4 + size:]

    def framed(self, packet):
        if self.frames is None:
            return packet
        if self.lies.tells("masked-frames"):
            return bytes([0x80 | BINARY, 0x80 | min(len(packet), 125)]) + bytes(4) + packet[:125]
        is_long = len(packet) > 125 or self.lies.tells("long-frames")
        size = b"\x7e" + struct.pack(">H", len(packet)) if is_long else bytes([len(packet)])
        return bytes([0x80 | BINARY]) + size + packet

    def next_packet(self):
        size = shift = 0
        for at, byte in enumerate(self.input[1:5], start=1):
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                end = at + 1 + size
                if len(self.input) < end:
                    return None
                first, body, self.input = self.input[0], self.input[at + 1:end], self.input[end:]
                return first, body
        return None

    def send(self, first, body=b""):
        size, length = len(body), b""
        while True:
            length += bytes([size % 128 | (128 if size >= 128 else 0)])
            size //= 128
            if size == 0:
                break
        packet = bytes([first]) + length + body
        self.later("delay", self.write, self.framed(packet))

    def write(self, packet):
        if not self.transport.is_closing():
            self.transport.write(packet)

    # -- packets

    def handle(self, kind, flags, body):
        if kind == CONNECT:
            self.log_in(body)
        elif kind == PUBLISH:
            self.take_message(flags, body)
        elif kind == PUBREL:
            self.session.received.discard(body[:2])
            if not self.lies.tells("no-pubcomp"):
                self.send(PUBCOMP << 4, body[:2])
        elif kind == PUBACK:
            done = self.session.sent.pop(body[:2], None)
            if done and self.lies.tells("repeat-read"):
                self.session.read.append(done)
        elif kind == PUBREC:
            if self.lies.tells("no-pubrel"):
                return
            self.session.released.add(body[:2])
            self.send(PUBREL << 4 | 2, body[:2])
        elif kind == PUBCOMP:
            self.session.released.discard(body[:2])
            again = self.session.sent.pop(body[:2], None)
            if again and self.lies.tells("repeat-qos2"):
                self.send(PUBLISH << 4 | 4, again[1])
        elif kind == SUBSCRIBE:
            self.subscribe(body)
        elif kind == PINGREQ:
            if not self.lies.tells("no-pong"):
                self.later("late-pings", self.send, PINGRESP << 4)
        elif kind == DISCONNECT:
            self.transport.close()

    def log_in(self, body):
        self.version, flags, self.keepalive = struct.unpack(">BBH", body[6:10])
        at = 10 + self.size_of_properties(body, 10)
        size = struct.unpack(">H", body[at:at + 2])[0]
        self.name = body[at + 2:at + 2 + size].decode()
        comes_back = self.name in self.server.presence.users
        if comes_back and self.lies.tells("keep-out"):
            self.server.kept_out.add(self.name)
        if self.name in self.server.kept_out:
            self.send(CONNACK << 4, bytes([0, NOT_AUTHORIZED]))
            return self.transport.close()
        self.server.clients.add(self)
        if comes_back and self.lies.tells("deaf"):
            self.deaf_until = float("inf")
        elif comes_back and self.lies.has("deaf-for"):
            self.deaf_until = self.loop.time() + self.lies.number("deaf-for")
        self.server.presence.comes(self.name, self)
        has_session = self.find_session(is_clean=flags & 2)
        if self.lies.tells("early-pong"):
            self.send(PINGRESP << 4)
        invented = not comes_back and self.lies.tells("invent-session")
        self.send(CONNACK << 4, bytes([has_session or invented, 0]) + self.properties())
        if has_session:
            self.resume()
        self.look_after()
        if self.lies.tells("close"):
            self.loop.call_later(2, self.transport.close)

    def size_of_properties(self, body, at):
        """With their length, which is below 128."""
        return 1 + body[at] if self.version == 5 else 0

    def properties(self, some=b""):
        return bytes([len(some)]) + some if self.version == 5 else b""

    def find_session(self, is_clean):
        """Whether there is one from an earlier connection."""
        self.keeps_session = not is_clean
        kept = self.server.away.pop(self.name, None)
        if is_clean or kept is None or self.lies.tells("forget"):
            return False
        self.session = kept
        return True

    def resume(self):
        for topic in self.session.filters:
            self.server.by_topic.setdefault(topic, set()).add(self)
        repeated, self.session.read = self.session.read, []
        for first, body in repeated:
            self.send(first | 8, body)
        for packet_id, (first, body) in list(self.session.sent.items()):
            if packet_id in self.session.released:
                self.send(PUBREL << 4 | 2, packet_id)
            else:
                self.send(first | 8, body)
        waiting, self.session.waiting = self.session.waiting, []
        for message in waiting:
            self.deliver(*message)

    def look_after(self):
        """Closes the client when it has been silent for one and a half keepalives."""
        limit = self.lies.number("close-early", self.keepalive * 1.5) + self.lies.number("close-late")
        left = self.last_packet + limit - self.loop.time()
        if left <= 0 and not self.lies.has("never-close"):
            return self.transport.close()
        self.timer = self.loop.call_later(max(left, 0.05), self.look_after)

    def subscribe(self, body):
        reasons, at, topics = b"", 2 + self.size_of_properties(body, 2), []
        while at < len(body):
            size = struct.unpack(">H", body[at:at + 2])[0]
            topic, qos = body[at + 2:at + 2 + size], body[at + 2 + size]
            at += size + 3
            if topic.startswith(b"presence/") and self.lies.tells("refuse"):
                reasons += b"\x80"
                continue
            if self.lies.has("lower-grant") and not self.session.filters:
                qos = 0
            self.session.filters[topic] = qos
            self.server.by_topic.setdefault(topic, set()).add(self)
            topics.append(topic)
            reasons += bytes([qos])
        packet_id = b"\xff\xff" if self.lies.tells("wrong-suback") else body[:2]
        self.send(SUBACK << 4, packet_id + self.properties() + reasons)
        for topic in topics:
            if topic.startswith(b"presence/"):
                self.server.presence.tell_first(self, topic)

    def take_message(self, flags, body):
        qos = flags >> 1 & 3
        size = struct.unpack(">H", body[:2])[0]
        topic, rest = body[2:2 + size], body[2 + size:]
        if qos > 0:
            packet_id, rest = rest[:2], rest[2:]
            if not self.lies.tells("no-puback" if qos == 1 else "no-pubrec"):
                self.acknowledge((PUBACK if qos == 1 else PUBREC) << 4, packet_id)
            if qos == 2:
                if packet_id in self.session.received:
                    return
                self.session.received.add(packet_id)
        self.server.publish(topic, rest[self.size_of_properties(rest, 0):], qos, self.node)

    def acknowledge(self, kind, packet_id):
        if self.lies.tells("late-acks"):
            return self.loop.call_later(LATE, self.send, kind, packet_id)
        if self.held_ack is None and self.lies.tells("swap-acks"):
            self.held_ack = packet_id
            return
        self.send(kind, packet_id)
        if kind == PUBREC << 4 and self.lies.tells("pubrec-again"):
            self.send(kind, packet_id)
        if self.held_ack:
            held, self.held_ack = self.held_ack, None
            self.send(kind, held)

    def tell_presence(self, topic, text, retained):
        qos = min(1, self.session.filters.get(topic, 1))
        if self.lies.tells("presence-qos"):
            qos = 0
        if retained and self.lies.tells("presence-retain"):
            retained = 0
        first = PUBLISH << 4 | qos << 1 | retained | self.lies.tells("presence-dup") << 3
        packet_id = struct.pack(">H", next(self.session.packet_ids)) if qos else b""
        self.send(first, struct.pack(">H", len(topic)) + topic + packet_id + self.properties() + text)

    def deliver(self, topic, payload, qos):
        if self.loop.time() < self.deaf_until:
            return
        if self.held is None and self.lies.tells("swap"):
            self.held = (topic, payload, qos)
            return
        self.deliver_now(topic, payload, qos)
        if self.held:
            held, self.held = self.held, None
            self.deliver_now(*held)

    def deliver_now(self, topic, payload, qos):
        qos = min(qos, self.session.filters.get(topic, qos))
        if self.lies.tells("lower-qos"):
            qos = 0
        if self.lies.tells("topic"):
            topic += b"0"
        body = struct.pack(">H", len(topic)) + topic
        if qos > 0:
            packet_id = struct.pack(">H", next(self.session.packet_ids))
            body += packet_id
        first = PUBLISH << 4 | qos << 1 | self.lies.tells("retain")
        if qos > 0 and self.lies.tells("dup"):
            first |= 8
        some = b""
        if self.version == 5 and self.lies.tells("property"):
            some = b"\x03\x00\x01x"
        if self.version == 5 and self.lies.tells("identifier"):
            some = b"\x0b\x01"
        if self.version == 5 and self.lies.tells("sender"):
            some = b"\x26\0\4from\0\7mallory"
        body += self.properties(some)
        if qos > 0:
            self.session.sent[packet_id] = (first, body + payload)
        self.send(first, body + payload)
        if qos == 2 and self.lies.tells("other-again"):
            self.send(PUBLISH << 4 | 8 | qos << 1, body + payload[:-1] + b"!")


async def main(arguments):
    lies = Lies(arguments)
    server = Server(lies)
    tls = None
    if lies.has("certificate"):
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(lies.values["certificate"], lies.values["key"])
    loop = asyncio.get_running_loop()
    listeners = [await loop.create_server(lambda node=node: Client(server, node), "127.0.0.1", 0, backlog=4096, ssl=tls)
                 for node in range(int(lies.number("nodes", 1)))]
    print(*(listener.sockets[0].getsockname()[1] for listener in listeners), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    for listener in listeners:
        listener.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
