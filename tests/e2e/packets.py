"""Packets of MQTT 3.1.1 and 5.0, strictly read as a server may send them, and put together for both."""

import struct

from gateway import packet, text, varint

(CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK,
 PINGREQ, PINGRESP, DISCONNECT, AUTH) = range(1, 16)
NAMES = ("0 CONNECT CONNACK PUBLISH PUBACK PUBREC PUBREL PUBCOMP SUBSCRIBE SUBACK UNSUBSCRIBE UNSUBACK "
         "PINGREQ PINGRESP DISCONNECT AUTH").split()

# Kinds of properties (MQTT 5.0, table 2-4): how they are written.
BYTE, TWO, FOUR, NUMBER, TEXT, DATA, PAIR = "byte", "two", "four", "number", "text", "data", "pair"
KINDS = {
    0x01: BYTE, 0x02: FOUR, 0x03: TEXT, 0x08: TEXT, 0x09: DATA, 0x0B: NUMBER, 0x11: FOUR, 0x12: TEXT,
    0x13: TWO, 0x15: TEXT, 0x16: DATA, 0x17: BYTE, 0x18: FOUR, 0x19: BYTE, 0x1A: TEXT, 0x1C: TEXT,
    0x1F: TEXT, 0x21: TWO, 0x22: TWO, 0x23: TWO, 0x24: BYTE, 0x25: BYTE, 0x26: PAIR, 0x27: FOUR,
    0x28: BYTE, 0x29: BYTE, 0x2A: BYTE,
}
# What a server may put into each packet.
ALLOWED = {
    CONNACK: {0x11, 0x12, 0x13, 0x15, 0x16, 0x1A, 0x1C, 0x1F, 0x21, 0x22, 0x24, 0x25, 0x26, 0x27, 0x28,
              0x29, 0x2A},
    PUBLISH: {0x01, 0x02, 0x03, 0x08, 0x09, 0x0B, 0x23, 0x26},
    PUBACK: {0x1F, 0x26}, PUBREC: {0x1F, 0x26}, PUBREL: {0x1F, 0x26}, PUBCOMP: {0x1F, 0x26},
    SUBACK: {0x1F, 0x26}, UNSUBACK: {0x1F, 0x26}, DISCONNECT: {0x1C, 0x1F, 0x26},
}
REASONS = {
    CONNACK: {0, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F},
    PUBACK: {0, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99},
    PUBREC: {0, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99},
    PUBREL: {0, 0x92}, PUBCOMP: {0, 0x92},
    SUBACK: {0, 1, 2, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2},
    UNSUBACK: {0, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91},
    DISCONNECT: {0, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, 0x8D, 0x8E, 0x8F, 0x90, *range(0x93, 0x9A),
                 0x9A, 0x9B, 0x9C, 0x9D, 0x9E, 0x9F, 0xA0, 0xA1, 0xA2},
}


class Malformed(AssertionError):
    pass


def demand(condition, why):
    if not condition:
        raise Malformed(why)


class Fields:
    """Reads a packet's bytes from front to back."""

    def __init__(self, data):
        self.data = data

    def take(self, size):
        demand(len(self.data) >= size, f"{size} bytes are missing")
        taken, self.data = self.data[:size], self.data[size:]
        return taken

    def byte(self):
        return self.take(1)[0]

    def two(self):
        return struct.unpack(">H", self.take(2))[0]

    def four(self):
        return struct.unpack(">I", self.take(4))[0]

    def number(self):
        value = 0
        for shift in range(0, 28, 7):
            digit = self.byte()
            value |= (digit & 0x7F) << shift
            if digit < 0x80:
                demand(digit or not shift, "a number is longer than it need be")
                return value
        raise Malformed("a number has five bytes")

    def binary(self):
        return self.take(self.two())

    def text(self):
        value = self.binary().decode()  # strict
        demand("\0" not in value, "U+0000 in a text")
        return value

    def properties(self, packet_type):
        """Each property's values, in order."""
        fields, found = Fields(self.take(self.number())), {}
        while fields.data:
            kind = fields.byte()
            demand(kind in ALLOWED[packet_type], f"property {kind:#x} in {NAMES[packet_type]}")
            value = fields.value(KINDS[kind])
            several = kind == 0x26 or (kind == 0x0B and packet_type == PUBLISH)
            demand(several or kind not in found, f"property {kind:#x} twice")
            found.setdefault(kind, []).append(value)
        return found

    def value(self, kind):
        return {BYTE: self.byte, TWO: self.two, FOUR: self.four, NUMBER: self.number, TEXT: self.text,
                DATA: self.binary, PAIR: lambda: (self.text(), self.text())}[kind]()


class FromServer:
    """A packet that a server sent: `type`, `size`, and what is in it. Malformed if it must not be sent."""

    def __init__(self, first, body, version):
        self.type, self.flags, self.version = first >> 4, first & 15, version
        self.size = len(packet(first, body))
        self.packet_id, self.reason, self.properties = 0, 0, {}
        fields = Fields(body)
        read = {CONNACK: self.connack, PUBLISH: self.publish, PUBACK: self.answer, PUBREC: self.answer,
                PUBREL: self.answer, PUBCOMP: self.answer, SUBACK: self.grants, UNSUBACK: self.grants,
                PINGRESP: lambda _: None, DISCONNECT: self.disconnect}.get(self.type)
        demand(read, f"a server sent {NAMES[self.type]}")
        if self.type != PUBLISH:
            demand(self.flags == (2 if self.type == PUBREL else 0), f"flags {self.flags}")
        read(fields)
        demand(not fields.data, f"{len(fields.data)} bytes too many in {NAMES[self.type]}")

    def __repr__(self):
        known = {key: value for key, value in vars(self).items() if key not in ("type", "version")}
        return f"{NAMES[self.type]} {known}"

    def connack(self, fields):
        flags = fields.byte()
        demand(flags < 2, f"CONNACK's flags are {flags}")
        self.session_present, self.reason = bool(flags), fields.byte()
        demand(not (self.session_present and self.reason), "session present in a refusal")
        if self.version == 5:
            demand(self.reason in REASONS[CONNACK], f"reason {self.reason:#x}")
            self.properties = fields.properties(CONNACK)
            demand(self.properties.get(0x21) != [0] and self.properties.get(0x27) != [0], "a limit is 0")
        else:
            demand(self.reason < 6, f"return code {self.reason}")

    def publish(self, fields):
        self.qos, self.dup, self.retain = self.flags >> 1 & 3, bool(self.flags & 8), bool(self.flags & 1)
        demand(self.qos < 3, "QoS 3")
        demand(self.qos or not self.dup, "DUP at QoS 0")
        self.topic = fields.text()
        demand("+" not in self.topic and "#" not in self.topic, f"wildcards in {self.topic}")
        if self.qos:
            self.packet_id = self.identifier(fields)
        if self.version == 5:
            self.properties = fields.properties(PUBLISH)
            demand(self.properties.get(0x23) != [0], "topic alias 0")
            demand(0 not in self.properties.get(0x0B, []), "subscription identifier 0")
        demand(self.topic or 0x23 in self.properties, "neither topic nor alias")
        self.payload = fields.take(len(fields.data))

    def answer(self, fields):
        self.packet_id = self.identifier(fields)
        if self.version == 5 and fields.data:
            self.reason = fields.byte()
            demand(self.reason in REASONS[self.type], f"reason {self.reason:#x} in {NAMES[self.type]}")
            if fields.data:
                self.properties = fields.properties(self.type)

    def grants(self, fields):
        self.packet_id = self.identifier(fields)
        if self.version == 5:
            self.properties = fields.properties(self.type)
        self.reasons = list(fields.take(len(fields.data)))
        known = REASONS[self.type] if self.version == 5 else {0, 1, 2, 0x80}
        demand(set(self.reasons) <= known, f"reasons {self.reasons}")
        demand(self.reasons or (self.type == UNSUBACK and self.version == 4), "no reasons")

    def disconnect(self, fields):
        demand(self.version == 5, "DISCONNECT from a server of 3.1.1")
        if fields.data:
            self.reason = fields.byte()
            demand(self.reason in REASONS[DISCONNECT], f"reason {self.reason:#x}")
            if fields.data:
                self.properties = fields.properties(DISCONNECT)

    @staticmethod
    def identifier(fields):
        value = fields.two()
        demand(value, "packet identifier 0")
        return value


# -- to the server

def properties(*pairs):
    """A property list from (identifier, value) pairs, with its length."""
    out = b""
    for kind, value in pairs:
        out += bytes([kind]) + {
            BYTE: lambda v: bytes([v]), TWO: lambda v: struct.pack(">H", v),
            FOUR: lambda v: struct.pack(">I", v), NUMBER: varint, TEXT: text, DATA: text,
            PAIR: lambda v: text(v[0]) + text(v[1])}[KINDS[kind]](value)
    return varint(len(out)) + out


def connect(version, client, *, clean=True, keepalive=60, username=None, password=None, will=None, props=()):
    """`will` is (topic, payload, QoS, retain, properties)."""
    flags = 2 * clean
    body = text(client)
    if will:
        topic, payload, qos, retain, more = will
        flags |= 4 | qos << 3 | retain << 5
        body += (properties(*more) if version == 5 else b"") + text(topic) + text(payload)
    for value, flag in ((username, 0x80), (password, 0x40)):
        if value is not None:
            flags |= flag
            body += text(value)
    head = text("MQTT") + bytes([version, flags]) + struct.pack(">H", keepalive)
    return packet(0x10, head + (properties(*props) if version == 5 else b"") + body)


def publish(version, topic, payload=b"", *, qos=0, packet_id=0, dup=False, retain=False, props=()):
    body = text(topic) + (struct.pack(">H", packet_id) if qos else b"")
    body += properties(*props) if version == 5 else b""
    return packet(0x30 | dup << 3 | qos << 1 | retain, body + payload)


def answer(version, packet_type, packet_id, reason=None, props=()):
    """PUBACK, PUBREC, PUBREL or PUBCOMP; without a reason, the short form."""
    body = struct.pack(">H", packet_id)
    if version == 5 and reason is not None:
        body += bytes([reason]) + (properties(*props) if props else b"")
    return packet(packet_type << 4 | (2 if packet_type == PUBREL else 0), body)


def subscribe(version, packet_id, filters, props=()):
    """`filters` are (filter, options)."""
    body = struct.pack(">H", packet_id) + (properties(*props) if version == 5 else b"")
    for name, options in filters:
        body += text(name) + bytes([options])
    return packet(0x82, body)


def unsubscribe(version, packet_id, filters, props=()):
    body = struct.pack(">H", packet_id) + (properties(*props) if version == 5 else b"")
    return packet(0xA2, body + b"".join(map(text, filters)))


def disconnect(version, reason=None, props=()):
    body = b""
    if version == 5 and reason is not None:
        body = bytes([reason]) + (properties(*props) if props else b"")
    return packet(0xE0, body)
