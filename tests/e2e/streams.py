"""Clients of raw sockets that know just enough of MQTT and WebSocket for the tests of transports."""

import contextlib
import socket
import ssl
import struct

from gateway import PATIENCE

CONNECT = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x0a\x00\x01%c"
CONNACK = b"\x20\x02\x00\x00"
PING, PONG = b"\xc0\x00", b"\xd0\x00"
KEY = "dGhlIHNhbXBsZSBub25jZQ=="


def receive(stream, size):
    data = b""
    while len(data) < size:
        more = stream.recv(size - len(data))
        if not more:
            break
        data += more
    return data


def reset(stream):
    """Closes a connection as if its process had been killed."""
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.close()


def frame(payload, opcode=2, fin=True, mask=b"\x01\x02\x03\x04"):
    head = bytes([(0x80 if fin else 0) | opcode])
    size = len(payload)
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 65536:
        head += bytes([0x80 | 126]) + struct.pack(">H", size)
    else:
        head += bytes([0x80 | 127]) + struct.pack(">Q", size)
    return head + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload))


class TlsStream:
    """TLS of which the test decides what comes in one piece."""

    def __init__(self, port, authority):
        self.arrived, self.sealed = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = ssl.create_default_context(cafile=authority).wrap_bio(self.arrived, self.sealed, server_hostname="localhost")
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self.repeat(self.tls.do_handshake)

    def repeat(self, step):
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                self.socket.sendall(self.sealed.read())
                self.arrived.write(self.socket.recv(1 << 16))

    def receive(self, size):
        return self.repeat(lambda: self.tls.read(size))

    def send(self, data, ends=False):
        self.tls.write(data)
        if ends:
            with contextlib.suppress(ssl.SSLWantReadError):
                self.tls.unwrap()
        self.socket.sendall(self.sealed.read())


class WebSocket:
    """A raw client of RFC 6455."""

    def __init__(self, port, path="/mqtt", **headers):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        fields = {"Host": "x", "Upgrade": "websocket", "Connection": "keep-alive, Upgrade", "Sec-WebSocket-Key": KEY,
                  "Sec-WebSocket-Version": "13", "Sec-WebSocket-Protocol": "mqttv3.1, mqtt"}
        fields.update({name.replace("_", "-"): value for name, value in headers.items()})
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value is not None)
        self.socket.sendall(f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode())
        self.answer = b""
        while b"\r\n\r\n" not in self.answer:
            more = self.socket.recv(1)
            if not more:
                break
            self.answer += more

    def send(self, *frames):
        self.socket.sendall(b"".join(frames))

    def next(self):
        """Opcode and payload of the next frame, or None at the end."""
        head = receive(self.socket, 2)
        if len(head) < 2:
            return None
        size = head[1]
        if size == 126:
            size, = struct.unpack(">H", receive(self.socket, 2))
        elif size == 127:
            size, = struct.unpack(">Q", receive(self.socket, 8))
        return head[0] & 15, receive(self.socket, size)

    def log_in(self, name=b"w"):
        self.send(frame(CONNECT % name))
        assert self.next() == (2, CONNACK)
        return self
