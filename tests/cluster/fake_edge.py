"""An edge that is played by a test: it speaks to a home as edges of an earlier version do, and falls silent or wrong as the test wants."""

import contextlib
import itertools
import socket
import struct
import threading

from gateway import PATIENCE, connect_packet

OPEN, BYTES, TAKEN, END, ACCEPTED, ASK, SILENCE = range(1, 8)
CONNECTION_LOST = 3
MASK = (1 << 64) - 1
names = itertools.count(1)


def stable_hash(data):
    """SipHash-1-3, as in server/base/hash.cpp."""
    low, high = struct.unpack("<QQ", bytes(range(16)))
    v = [low ^ 0x736F6D6570736575, high ^ 0x646F72616E646F6D, low ^ 0x6C7967656E657261, high ^ 0x7465646279746573]

    def rotated(number, bits):
        return (number << bits | number >> 64 - bits) & MASK

    def mix():
        v[0] = v[0] + v[1] & MASK
        v[1] = rotated(v[1], 13) ^ v[0]
        v[0] = rotated(v[0], 32)
        v[2] = v[2] + v[3] & MASK
        v[3] = rotated(v[3], 16) ^ v[2]
        v[0] = v[0] + v[3] & MASK
        v[3] = rotated(v[3], 21) ^ v[0]
        v[2] = v[2] + v[1] & MASK
        v[1] = rotated(v[1], 17) ^ v[2]
        v[2] = rotated(v[2], 32)

    size = len(data)
    padded = data + bytes(-(size + 1) % 8) + bytes([size & 0xFF])
    for (word,) in struct.iter_unpack("<Q", padded):
        v[3] ^= word
        mix()
        v[0] ^= word
    v[2] ^= 0xFF
    for _ in range(3):
        mix()
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def field(tag, value):
    return bytes([tag]) + struct.pack("<I", len(value)) + value


class FakeEdge:
    def __init__(self, home, version=1):
        """`home` is the node's link port."""
        self.socket = socket.create_connection(("127.0.0.1", home), timeout=PATIENCE)
        self.stream = self.socket.makefile("rb")
        words = self.stream.readline().split()
        self.shards = int(words[5])
        self.socket.sendall(b"pulsegate-edge %d fake#%d %s 1 7 new\n" % (version, next(names), words[3]))
        self.lock = threading.Lock()
        self.is_over = threading.Event()
        threading.Thread(target=self.stay, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def stay(self):
        """It says that it has received nothing, because a silent edge counts as lost."""
        while not self.is_over.wait(0.5):
            with contextlib.suppress(OSError):  # it was closed meanwhile
                self.send(bytes(12))

    def send(self, data):
        with self.lock:
            self.socket.sendall(data)

    def close(self):
        self.is_over.set()
        self.stream.close()
        with self.lock:
            self.socket.close()

    def say(self, kind, user, number, contents=b""):
        """A frame about the client with this number; its session is on the shard of the user."""
        shard = stable_hash(user.encode()) % self.shards
        self.send(struct.pack("<IBHHI", 9 + len(contents), kind, shard, 0, number) + contents)

    def open(self, user, number):
        login = b"pulsegate forwarded login 1" + field(1, connect_packet(user, version=5)) + field(2, b"127.0.0.1") \
            + field(3, struct.pack("<H", 4711)) + field(4, b"mqtt://127.0.0.1:1883")
        self.say(OPEN, user, number, login + struct.pack("<Q", stable_hash(login)))

    def hear(self):
        """Kind, number and contents of the next frame about a client."""
        while True:
            (size,) = struct.unpack("<I", self.stream.read(4))
            contents = self.stream.read(size or 8)
            if size:
                kind, _, _, number = struct.unpack("<BHHI", contents[:9])
                return kind, number, contents[9:]
