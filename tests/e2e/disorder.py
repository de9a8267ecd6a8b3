"""Clients that share a few names, do anything in any order, and judge what they are told."""

import collections
import random
import select
import socket
import struct
import time

import packets
from gateway import PATIENCE
from packets import (AUTH, CONNACK, DISCONNECT, PINGRESP, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, SUBACK, UNSUBACK,
                     FromServer, demand)

STEPS = 400
PEERS = 6
# Few, so that they meet each other. Sessions are known by both names.
CLIENTS = ("x", "y", "z")
USERS = (None, None, "u")
TOPICS = ("a", "a/b", "a/b/c", "b", "wills/a", "$a", "presence/u", "", "ü")
FILTERS = ("a", "a/b", "a/#", "+/b", "#", "b", "wills/+", "presence/+", "$a", "a/b/", "a#",
           "$share/g/a/#", "$share/g/+/b", "$share/h/#", "$share/g/a", "$share/g/", "$share/+/a")
MALFORMED = {4: ("a#",), 5: ("a#", "$share/g/", "$share/+/a")}
BAD_FILTER = "a malformed filter"
PAYLOADS = (b"", b"x", b"\xff\0", b"m" * 100, b"l" * 3000)


class Peer:
    """One raw connection: it remembers what it sent, and judges whatever it is told.

    The gateway does one packet of a connection after the other, so its answers come in the order
    of the questions. `doomed` says why the gateway must end the connection.
    """

    def __init__(self, port, chance):
        self.chance = chance
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.outbox, self.inbox = b"", b""
        self.story = collections.deque(maxlen=60)
        self.version = None
        self.name = "nobody"
        self.clean = True
        self.receive_maximum, self.alias_maximum, self.largest = 65_535, 0, 0xFFFF_FFFF
        self.owed = []  # answers: (type, id, number of reasons)
        self.doomed = self.broken = self.refused = self.told = self.closed = False
        self.session_present = None  # until CONNACK
        self.resuming = False  # only PUBRELs came since: of exchanges that were interrupted
        self.in_flight = {}  # id -> QoS, or "released"
        self.acknowledged_blindly = set()
        self.aliases = {}  # that the gateway has set
        self.deaf = chance.random() < 0.1  # reads at the end only

    # -- what it does

    def place_of_owed(self, message):
        """Answers come in order, but a PINGRESP does not wait for a SUBACK that other shards hold up."""
        pings = [place for place, owed in enumerate(self.owed) if owed[0] == PINGRESP]
        is_early = message.type == PINGRESP and pings and self.owed[0][0] == SUBACK
        return pings[0] if is_early else 0

    def queue(self, packet, what):
        if not self.version and packet[0] >> 4 != packets.CONNECT:
            self.doomed = self.doomed or "the first packet is no CONNECT"
        self.outbox += packet
        self.story.append(f"> {what} {packet[:60].hex(' ')}")

    def owe(self, *answer):
        if not self.doomed:
            self.owed.append(answer)

    def doom(self, why):
        self.doomed = self.doomed or why

    def write(self, all_of_it=False):
        size = len(self.outbox) if all_of_it else self.chance.randint(1, len(self.outbox) or 1)
        part, self.outbox = self.outbox[:size], self.outbox[size:]
        try:
            self.socket.sendall(part)
        except ConnectionError:
            self.broken = True  # what it was told may be lost

    def vanish(self):
        how = self.chance.randrange(3)
        self.story.append(f"vanishes, {how}")
        if how == 0:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if how == 1:
            self.write(all_of_it=True)
        self.close()

    def close(self):
        self.closed = True
        self.socket.close()

    # -- what it is told

    def read(self, patience=0.0):
        """Judges what has come; False if nothing has."""
        if not select.select([self.socket], [], [], patience)[0]:
            return False
        try:
            data = self.socket.recv(65536)
        except ConnectionError:
            data, self.broken = b"", True
        self.inbox += data
        while found := self.take():
            message = FromServer(*found, self.version or 4)
            self.story.append(f"< {message}"[:300])
            self.judge(message)
        if not data:
            self.judge_end()
            self.close()
        return True

    def take(self):
        at, size, shift = 1, 0, 0
        while True:
            if at >= len(self.inbox):
                return None
            digit = self.inbox[at]
            size |= (digit & 127) << shift
            at, shift = at + 1, shift + 7
            if digit < 128:
                break
        demand(at < 6, "a length of five bytes")
        if len(self.inbox) < at + size:
            return None
        found = self.inbox[0], self.inbox[at:at + size]
        self.inbox = self.inbox[at + size:]
        return found

    def judge(self, message):
        demand(self.version, "an answer to a client that has not sent CONNECT")
        demand(not self.told, "a packet after DISCONNECT")
        demand(not self.refused, "a packet after a refusal")
        demand(message.size <= self.largest, f"{message.size} bytes for a client that takes {self.largest}")
        first = self.session_present is None
        demand(first == (message.type == CONNACK), "CONNACK is not the first packet and the only one")
        if message.type == PUBLISH:
            self.resuming = False
            return self.judge_publish(message)
        if message.type == DISCONNECT:
            self.told = True
            demand(message.reason not in (0, 0x80, 0x83), "a reason that says nothing, or is not true")
            demand(message.reason != 0x81 or self.doomed == BAD_FILTER, "nothing was malformed")
            demand(message.reason != 0x8B, "the gateway does not stop")
            return None
        if message.type == PUBREL and self.resuming:
            demand(message.packet_id not in self.in_flight, "PUBREL twice")
            if message.packet_id not in self.acknowledged_blindly:
                self.in_flight[message.packet_id] = "released"
            return None
        self.resuming = False
        demand(self.owed, "an answer without a question")
        owed = self.owed.pop(self.place_of_owed(message))
        number = len(getattr(message, "reasons", ()))
        if message.type == UNSUBACK and self.version == 4:
            number = owed[2]
        demand((message.type, message.packet_id, number) == owed, f"owed is {owed}")
        if message.type == CONNACK:
            self.session_present = message.session_present
            self.refused = message.reason != 0
            demand(not (self.clean and message.session_present), "session present after a clean start")
            self.resuming = message.session_present
        return None

    def judge_publish(self, message):
        aliases = message.properties.get(0x23)
        if aliases:
            demand(aliases[0] <= self.alias_maximum, "an alias that is too high")
            if message.topic:
                self.aliases[aliases[0]] = message.topic
            demand(aliases[0] in self.aliases, "an alias that was never set")
        if not message.qos:
            return
        demand(message.packet_id not in self.in_flight, "an identifier that is in use")
        demand(not message.dup or self.session_present, "DUP in a new session")
        if message.packet_id in self.acknowledged_blindly:
            self.acknowledged_blindly.discard(message.packet_id)
            return
        self.in_flight[message.packet_id] = message.qos
        under_way = sum(state != "released" for state in self.in_flight.values())
        demand(under_way <= min(self.receive_maximum, 10), f"{under_way} messages in flight")

    def judge_end(self):
        self.story.append("< end")
        if self.broken or self.doomed or not self.version:
            return
        roomy = self.largest > 64  # else CONNACK may not fit
        demand(self.session_present is not None or not roomy, "closed instead of CONNACK")
        demand(self.refused or self.told or self.version == 4 or not roomy, "closed without a word")

    def finish(self):
        """Everything is sent; a client that is still connected gets every answer."""
        self.story.append("the last words")
        if not self.closed:
            if self.version:
                self.queue(b"\xc0\0", "PINGREQ")
                self.owe(PINGRESP, 0, 0)
            elif not self.doomed:
                self.close()
                return
            self.write(all_of_it=True)
        deadline = time.monotonic() + PATIENCE
        while not self.closed and (self.owed or self.doomed):
            demand(time.monotonic() < deadline, f"doomed ({self.doomed}), owed {self.owed}")
            self.read(0.2)
        self.close()


class Disorder:
    """What peers do, by chance."""

    def __init__(self, port, seed):
        self.port = port
        self.chance = random.Random(seed)
        self.peers = []
        self.known = set()  # (client, user) that logged in

    def odds(self, one_in):
        return self.chance.randrange(one_in) == 0

    def one_of(self, choices):
        return self.chance.choice(choices)

    def some(self, *pairs, one_in=3):
        """Some of these properties; a function makes a value."""
        return [(kind, make()) for kind, make in pairs if self.odds(one_in)]

    def run(self):
        for _ in range(STEPS):
            self.peers = [peer for peer in self.peers if not peer.closed]
            if len(self.peers) < PEERS and (not self.peers or self.odds(4)):
                self.arrive()
                continue
            peer = self.one_of(self.peers)
            if self.odds(40):
                peer.vanish()
                continue
            if peer.doomed and self.odds(2):
                continue
            for _ in range(self.one_of((1, 1, 1, 2, 5))):
                self.say_something(peer)
            peer.write(all_of_it=not self.odds(4))
            for listener in self.peers:
                while not listener.closed and not listener.deaf and listener.read():
                    pass
        for peer in self.peers:
            peer.finish()

    def arrive(self):
        peer = Peer(self.port, self.chance)
        self.peers.append(peer)
        if not self.odds(20):
            self.connect(peer)
            peer.write(all_of_it=not self.odds(4))

    def say_something(self, peer):
        doings = [(30, self.publish), (25, self.acknowledge), (6, self.acknowledge_anything),
                  (6, self.release), (10, self.subscribe), (4, self.unsubscribe), (4, self.ping),
                  (1, self.disconnect), (1, self.misplace)]
        weights, actions = zip(*doings)
        self.chance.choices(actions, weights)[0](peer)

    def connect(self, peer):
        version = self.one_of((4, 5, 5))
        client = self.one_of(CLIENTS) if not self.odds(12) else ""
        user = self.one_of(USERS)
        clean = self.odds(3) or (not client and version == 4 and not self.odds(3))
        will = None
        if self.odds(3):
            will = (self.one_of(("wills/a", "a/b", "a")), self.one_of(PAYLOADS[:4]), self.chance.randrange(3),
                    self.odds(4),
                    self.some((0x18, lambda: self.one_of((0, 1, 3))), (0x02, lambda: self.one_of((1, 100))),
                              (0x01, lambda: 1), (0x03, lambda: "text/plain"), (0x08, lambda: "a/answer"),
                              (0x26, lambda: ("key", "value"))))
        # A session without a client id can't be found again, and must not stay for long.
        expiries = (0, 1, 60, 0xFFFF_FFFF) if client else (0, 1)
        props = self.some((0x11, lambda: self.one_of(expiries)), (0x21, lambda: self.one_of((1, 2, 3, 100))),
                          (0x22, lambda: self.one_of((0, 1, 2, 9))), (0x19, lambda: self.chance.randrange(2)),
                          (0x17, lambda: self.chance.randrange(2)), (0x26, lambda: ("key", "value")), one_in=2)
        props += self.some((0x27, lambda: self.one_of((20, 64, 200, 5000))), one_in=6)
        props += self.some((0x15, lambda: "SCRAM"), one_in=60)
        packet = packets.connect(version, client, clean=clean, keepalive=self.one_of((0, 30, 600)),
                                 username=user, password=b"secret" if user and self.odds(2) else None,
                                 will=will, props=props)
        peer.queue(packet, f"CONNECT v{version} {client!r} of {user!r} clean {clean} will {will} {props}")
        if peer.doomed:
            return
        if peer.version:
            return peer.doom("a second CONNECT")
        peer.version, peer.clean, peer.name = version, clean, client
        if version == 5:
            stated = dict(props)
            peer.receive_maximum = stated.get(0x21, 65_535)
            peer.alias_maximum = stated.get(0x22, 0)
            peer.largest = stated.get(0x27, 0xFFFF_FFFF)
        peer.owe(CONNACK, 0, 0)
        self.ping(peer)  # its answer divides PUBRELs of before from those that answer a PUBREC
        if client:
            self.known.add((client, user))

    def publish(self, peer):
        version = peer.version or 4
        qos = self.chance.randrange(3)
        topic = self.one_of(TOPICS)
        packet_id = self.one_of((1, 2, 3, 4, 5, 6, 7, 65_535))
        props = []
        if version == 5:
            props = self.some((0x01, lambda: 1), (0x02, lambda: self.one_of((0, 1, 100))),
                              (0x03, lambda: "text/plain"), (0x08, lambda: "a/answer"),
                              (0x09, lambda: b"\0\1"), (0x26, lambda: ("key", "value")),
                              (0x23, lambda: self.one_of((1, 2, 3))), one_in=5)
            if 0x23 not in dict(props):
                props += self.some((0x23, lambda: self.one_of((4, 65_535))), one_in=100)
            props += self.some((0x0B, lambda: 5), one_in=200)
        if not topic and not (version == 5 and 0x23 in dict(props)):
            topic = "a"  # else it is not well formed
        peer.queue(packets.publish(version, topic, self.one_of(PAYLOADS), qos=qos, packet_id=packet_id,
                                   dup=qos and self.odds(4), retain=self.odds(6), props=props),
                   f"PUBLISH {topic!r} QoS {qos} id {packet_id} {props}")
        if dict(props).get(0x23, 0) > 3 or 0x0B in dict(props):
            return peer.doom("a property that no client may send")
        if qos:
            peer.owe(PUBACK if qos == 1 else PUBREC, packet_id, 0)

    def acknowledge(self, peer):
        """As is right for something in flight."""
        if not peer.in_flight:
            return
        packet_id = self.one_of(list(peer.in_flight))
        state = peer.in_flight[packet_id]
        reason = None
        if peer.version == 5 and state != "released":
            reason = self.one_of((None, None, 0, 0x10, 0x97))
        self.say_acknowledgement(peer, {1: PUBACK, 2: PUBREC, "released": PUBCOMP}[state], packet_id, reason)

    def acknowledge_anything(self, peer):
        if not self.odds(3):  # mostly what hurts nobody
            return self.acknowledge(peer)
        kind = self.one_of((PUBACK, PUBREC, PUBCOMP))
        self.say_acknowledgement(peer, kind, self.chance.randint(1, 12), None)

    def say_acknowledgement(self, peer, kind, packet_id, reason):
        peer.queue(packets.answer(peer.version or 4, kind, packet_id, reason),
                   f"{packets.NAMES[kind]} {packet_id}")
        if peer.doomed:
            return
        state = peer.in_flight.get(packet_id)
        failed = (reason or 0) >= 0x80
        fits = {PUBACK: (1,), PUBREC: (2, "released"), PUBCOMP: ("released",)}[kind]
        if state is None:
            peer.acknowledged_blindly.add(packet_id)
        elif state not in fits:
            return peer.doom(f"{packets.NAMES[kind]} for a message of state {state}")
        elif kind == PUBREC and not failed:
            peer.in_flight[packet_id] = "released"
        else:
            del peer.in_flight[packet_id]
        if kind == PUBREC and not failed:
            peer.owe(PUBREL, packet_id, 0)

    def release(self, peer):
        packet_id = self.one_of((1, 2, 3, 4, 5, 6, 7, 65_535, 9))
        peer.queue(packets.answer(peer.version or 4, PUBREL, packet_id, self.one_of((None, 0, 0x92))),
                   f"PUBREL {packet_id}")
        peer.owe(PUBCOMP, packet_id, 0)

    def subscribe(self, peer):
        version = peer.version or 4
        filters = [(self.one_of(FILTERS), self.options(version)) for _ in range(self.one_of((1, 1, 2, 4)))]
        packet_id = self.chance.randint(1, 5)
        props = self.some((0x0B, lambda: self.one_of((1, 127, 128, 268_435_455))),
                          (0x26, lambda: ("key", "value")))
        peer.queue(packets.subscribe(version, packet_id, filters, props),
                   f"SUBSCRIBE {packet_id} {filters} {props}")
        if any(name in MALFORMED[version] for name, _ in filters):
            return peer.doom(BAD_FILTER)
        if version == 5 and any(name.startswith("$share/") and options & 4 for name, options in filters):
            return peer.doom("no-local at a shared subscription")
        peer.owe(SUBACK, packet_id, len(filters))

    def options(self, version):
        qos = self.chance.randrange(3)
        if version == 4:
            return qos
        return qos | self.odds(20) << 2 | self.odds(3) << 3 | self.chance.randrange(3) << 4

    def unsubscribe(self, peer):
        filters = [self.one_of(FILTERS) for _ in range(self.one_of((1, 2, 3)))]
        packet_id = self.chance.randint(1, 5)
        peer.queue(packets.unsubscribe(peer.version or 4, packet_id, filters),
                   f"UNSUBSCRIBE {packet_id} {filters}")
        if any(name in MALFORMED[peer.version or 4] for name in filters):
            return peer.doom(BAD_FILTER)
        peer.owe(UNSUBACK, packet_id, len(filters))

    def ping(self, peer):
        peer.queue(b"\xc0\0", "PINGREQ")
        peer.owe(PINGRESP, 0, 0)

    def disconnect(self, peer):
        props = self.some((0x11, lambda: self.one_of((0, 1, 60)) if peer.name else 0),
                          (0x1F, lambda: "enough"))
        reason = self.one_of((None, 0, 4, 0x80, 0x98))
        peer.queue(packets.disconnect(peer.version or 4, reason, props), f"DISCONNECT {reason} {props}")
        peer.doom("DISCONNECT")

    def misplace(self, peer):
        """A packet at the wrong time, or that only servers send."""
        if self.odds(3):
            return self.connect(peer)
        version = peer.version or 4
        tail = b"\0" if version == 5 else b""
        ways = [("CONNACK", packets.packet(0x20, b"\0\0" + tail)),
                ("SUBACK", packets.packet(0x90, b"\0\1" + tail + b"\0")),
                ("UNSUBACK", packets.packet(0xB0, b"\0\1" + tail * 2)), ("PINGRESP", b"\xd0\0")]
        if version == 5:
            ways += [("AUTH", packets.packet(AUTH << 4, b"\x18" + packets.properties((0x15, "SCRAM"))))] * 3
        what, packet = self.one_of(ways)
        peer.queue(packet, what)
        peer.doom(what)
