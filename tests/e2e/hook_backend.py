"""A backend that is asked about logins, and what its tests have in common."""

import json
import socket
import ssl
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from credentials import Folder
from gateway import Client, packet, text

ALLOW = {"allow": True}
DENY = {"allow": False}


class Backend:
    """An HTTP server that answers with `answer(question)`: an object for 200 with JSON, a status, (status, bytes), or
    `None` to close the connection without a word. `gate` holds the answers back while it is clear."""

    def __init__(self, answer=ALLOW, port=0, tls=None):
        self.answer = answer if callable(answer) else lambda question: answer
        self.gate = threading.Event()
        self.gate.set()
        self.questions, self.headers, self.peers = [], [], set()
        self.open = []
        backend = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # it writes head and body apart

            def setup(self):
                super().setup()
                backend.open.append(self.connection)

            def do_POST(self):
                question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                backend.headers.append((self.path, self.headers))
                backend.peers.add(self.client_address)
                backend.questions.append(question)
                backend.gate.wait(60)
                said = backend.answer(question)
                if said is None:
                    self.close_connection = True
                    return
                if isinstance(said, dict):
                    said = 200, json.dumps(said).encode()
                elif isinstance(said, int):
                    said = said, b""
                status, body = said
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

            def handle_one_request(self):
                try:
                    super().handle_one_request()
                except OSError:
                    self.close_connection = True  # the gateway lost its patience

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 100

            def handle_error(self, request, client_address):
                pass  # a handshake that failed

        self.server = Server(("127.0.0.1", port), Handler)
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}/mqtt/login?v=1"
        self.thread = threading.Thread(target=lambda: self.server.serve_forever(0.01), daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def hang_up(self):
        """Closes the connections that are open, and returns when the gateway has been told."""
        for connection in self.open:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it was closed before
        self.open.clear()

    def stop(self):
        self.gate.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(60)
        self.hang_up()

    @property
    def users(self):
        return [question["user"] for question in self.questions]


def connect_packet(client, user=None, password=None, version=5):
    flags = 0x02 | (0x80 if user is not None else 0) | (0x40 if password is not None else 0)
    no_properties = b"\0" if version == 5 else b""
    parts = [client] + [each for each in (user, password) if each is not None]
    head = text("MQTT") + bytes([version, flags]) + struct.pack(">H", 60) + no_properties
    return packet(0x10, head + b"".join(map(text, parts)))


class HookCase(Folder):
    def backend(self, *arguments, **options):
        backend = Backend(*arguments, **options)
        self.addCleanup(backend.stop)
        return backend

    def begin(self, gateway, user=None, password="x", client_id=None, version=5, source=None):
        """A raw client that has sent its CONNECT."""
        client = Client(gateway.port, timeout=60, source=source)
        self.addCleanup(client.close)
        client.version = version
        client.send(connect_packet(client_id or user or "c", user, password, version))
        return client

    def code(self, gateway, user=None, password=None, client_id="c", version=5):
        """Of the CONNACK. Paho would try again where it is refused."""
        return self.begin(gateway, user, password, client_id, version).receive()[1][1]

    def requests(self, gateway, result):
        return gateway.metric("pulsegate_auth_hook_requests_total", result=result)
