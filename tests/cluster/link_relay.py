"""A relay for the links of nodes, which can break."""

import contextlib
import socket
import struct
import threading

from ports import free_port


class LinkRelay:
    """Between other nodes and the link port of one. It can cut all connections, or stop passing bytes."""

    def __init__(self, target, host="127.0.0.1"):
        self.target, self.host = target, host
        self.listener = socket.create_server(("127.0.0.1", free_port()))
        self.port = self.listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.pairs = []
        self.passes = threading.Event()
        self.passes.set()
        self.held = b""  # what has come while it passed nothing
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                guest, _ = self.listener.accept()
            except OSError:
                return
            try:
                host = socket.create_connection((self.host, self.target))
            except OSError:
                guest.close()
                continue
            self.pairs.append((guest, host))
            for one, other in ((guest, host), (host, guest)):
                threading.Thread(target=self.pass_on, args=(one, other), daemon=True).start()

    def pass_on(self, one, other):
        try:
            while data := one.recv(1 << 16):
                if not self.passes.is_set():
                    self.held += data
                self.passes.wait()
                other.sendall(data)
        except OSError:
            pass
        for each in (one, other):
            with_shutdown(each)

    def what_waits(self):
        """The bytes of the nodes that have come while it passes nothing."""
        rest = b""
        for guest, _ in list(self.pairs):
            with contextlib.suppress(OSError):
                rest += guest.recv(1 << 16, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        return self.held + rest

    def cut(self):
        pairs, self.pairs = self.pairs, []
        for pair in pairs:
            for each in pair:
                with_shutdown(each)
                each.close()

    def close(self):
        with_shutdown(self.listener)  # else it listens until `accept` returns
        self.listener.close()
        self.passes.set()
        self.cut()


class SlowHomeRelay(LinkRelay):
    """While `tells_all` is not set, it passes only the beginning of what the home sends: enough for a link, and no frames."""

    def __init__(self, target):
        self.tells_all = threading.Event()
        self.tells_all.set()
        super().__init__(target)

    def pass_on(self, one, other):
        if any(one is host for _, host in self.pairs):
            try:
                stream = one.makefile("rb", buffering=0)
                other.sendall(read_line(stream))
                other.sendall(read_all(stream, 12))  # the home's position
            except OSError:
                pass
            self.tells_all.wait()
        super().pass_on(one, other)

    def close(self):
        self.tells_all.set()
        super().close()


class FrameRelay(LinkRelay):
    """It shows each frame of an edge to `alter`, as a bytearray, before it passes it on."""

    def __init__(self, target, alter):
        self.alter = alter
        super().__init__(target)

    def pass_on(self, one, other):
        if any(one is guest for guest, _ in self.pairs):
            self.pass_frames(one, other)
        super().pass_on(one, other)

    def pass_frames(self, one, other):
        stream = one.makefile("rb", buffering=0)
        line = read_line(stream)
        other.sendall(line)
        if not line.startswith(b"pulsegate-edge "):
            return
        while size := read_all(stream, 4):
            frame = bytearray(read_all(stream, struct.unpack("<I", size)[0] or 8))
            if any(size):
                self.alter(frame)
            other.sendall(size + frame)


def read_line(stream):
    line = b""
    while not line.endswith(b"\n") and (byte := stream.read(1)):
        line += byte
    return line


def read_all(stream, size):
    """So many bytes, or fewer at the end of the stream."""
    found = b""
    while len(found) < size and (more := stream.read(size - len(found))):
        found += more
    return found


def with_shutdown(stream):
    try:
        stream.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
