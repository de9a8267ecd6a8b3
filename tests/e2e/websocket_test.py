"""WebSocket, with other people's clients and with raw sockets."""

import base64
import hashlib
import json
import socket
import ssl
import struct
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from certificates import Certificates
from clients import chat_with_mqtt_js
from gateway import Gateway, add_users, port_of, wait_until
from streams import CONNACK, CONNECT, KEY, PING, PONG, WebSocket, frame


class WebSocketTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.gateway = cls.enterClassContext(Gateway("--listen", "ws://127.0.0.1:0")) \
            if hasattr(cls, "enterClassContext") else Gateway("--listen", "ws://127.0.0.1:0").start()
        if not hasattr(cls, "enterClassContext"):
            cls.addClassCleanup(cls.gateway.__exit__, None, None, None)
        cls.port = port_of(cls.gateway, "ws")

    def client(self, *arguments, **headers):
        client = WebSocket(self.port, *arguments, **headers)
        self.addCleanup(client.socket.close)
        return client

    def test_the_upgrade_is_answered_as_rfc_6455_says(self):
        answer = self.client().answer.decode()
        accept = base64.b64encode(hashlib.sha1((KEY + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
        self.assertTrue(answer.startswith("HTTP/1.1 101 "))
        self.assertIn(f"Sec-WebSocket-Accept: {accept}\r\n", answer)
        self.assertIn("Sec-WebSocket-Protocol: mqtt\r\n", answer)

    def test_mqtt_3_1_has_a_sub_protocol_of_its_own(self):
        client = self.client(Sec_WebSocket_Protocol="mqttv3.1")
        self.assertIn(b"Sec-WebSocket-Protocol: mqttv3.1\r\n", client.answer)
        client.send(frame(b"\x10\x0f\x00\x06MQIsdp\x03\x02\x00\x0a\x00\x01o"))
        self.assertEqual(client.next(), (2, CONNACK))

    def test_the_sub_protocol_is_answered_as_it_was_offered(self):
        for offered, answered in (("MQTT", "MQTT"), ("chat,Mqtt , mqttv3.1", "Mqtt"), ("MQTTv3.1", "MQTTv3.1"),
                                  ("chat\r\nSec-WebSocket-Protocol: mqtt", "mqtt")):
            with self.subTest(offered=offered):
                client = self.client(Sec_WebSocket_Protocol=offered)
                self.assertIn(f"Sec-WebSocket-Protocol: {answered}\r\n".encode(), client.answer)

    def test_pongs_that_wait_travel_with_the_login(self):
        with Gateway("--shards", "2", "--listen", "ws://127.0.0.1:0/mqtt") as gateway:
            for number in range(20):  # of these, half are at home on the other shard
                client = WebSocket(port_of(gateway, "ws"))
                self.addCleanup(client.socket.close)
                client.send(frame(b"first", 9) + frame(CONNECT % bytes([97 + number])))
                self.assertEqual([client.next(), client.next()], [(10, b"first"), (2, CONNACK)])

    def test_packets_may_span_frames_and_frames_hold_packets(self):
        client = self.client().log_in()
        client.send(frame(b"\x82\x06\x00"), frame(b"\x01\x00\x01x"), frame(b"\x00" + PING + PING))
        self.assertEqual([client.next() for _ in range(3)], [(2, b"\x90\x03\x00\x01\x00"), (2, PONG), (2, PONG)])
        message = b"\x30\xc3\x13\x00\x01x" + b"m" * 2496
        client.send(*(frame(message[i:i + 1], 2 if i == 0 else 0, i + 1 == len(message)) for i in range(len(message))))
        self.assertEqual(client.next(), (2, message))

    def test_pings_are_answered_in_the_middle_of_a_message(self):
        client = self.client().log_in()
        client.send(frame(PING[:1], 2, False), frame(b"are you there?", 9), frame(b"", 10), frame(PING[1:], 0))
        self.assertEqual(client.next(), (10, b"are you there?"))
        self.assertEqual(client.next(), (2, PONG))

    def test_a_close_is_answered_after_what_came_before_it(self):
        client = self.client().log_in()
        client.send(frame(PING), frame(struct.pack(">H", 1000) + b"bye", 8))
        self.assertEqual(client.next(), (2, PONG))
        opcode, body = client.next()
        self.assertEqual((opcode, body[:2]), (8, struct.pack(">H", 1000)))
        self.assertIsNone(client.next())

    def test_a_client_that_closes_makes_room_at_once(self):
        room = self.gateway.metric("pulsegate_open_files_headroom")
        started = time.monotonic()
        for _ in range(10):
            client = self.client().log_in()
            client.send(frame(struct.pack(">H", 1001), 8))
            self.assertEqual(client.next()[0], 8)
            client.socket.close()
            wait_until(lambda: self.gateway.metric("pulsegate_open_files_headroom") >= room, what="room")
        self.assertLess(time.monotonic() - started, 15)  # twice as long, if each stayed for its linger

    def test_a_client_that_disconnects_is_sent_a_close(self):
        client = self.client().log_in()
        client.send(frame(b"\xe0\x00"))
        self.assertEqual(client.next(), (8, struct.pack(">H", 1000)))
        self.assertIsNone(client.next())

    def test_what_is_wrong_gets_its_close_code(self):
        wrong = {1002: [b"\x82\x02\xc0\x00", frame(b"x", 3), frame(b"x", 9, False), frame(b"x", 0),
                        b"\xc2\x80\x00\x00\x00\x00", frame(b"x" * 126, 9)],
                 1003: [frame(b"text", 1)]}
        for code, frames in wrong.items():
            for bad in frames:
                with self.subTest(bad=bad[:8].hex()):
                    client = self.client().log_in()
                    client.send(bad)
                    opcode, body = client.next()
                    self.assertEqual((opcode, struct.unpack(">H", body[:2])[0]), (8, code))

    def test_a_bad_upgrade_is_refused_in_http_with_json(self):
        for status, arguments, headers in ((404, ["/other"], {}), (426, [], {"Upgrade": None}),
                                           (426, [], {"Sec_WebSocket_Version": "8"}),
                                           (400, [], {"Sec_WebSocket_Key": "short"}),
                                           (400, [], {"Sec_WebSocket_Protocol": "chat"}),
                                           (400, [], {"Sec_WebSocket_Protocol": None}),
                                           (400, [], {"Host": None}), (400, [], {"Host": "x\r\nHost: x"}),
                                           (400, [], {"Host": ""}), (400, [], {"Host": "a b"}),
                                           (431, [], {"X_Bomb": "x" * 9000})):
            with self.subTest(status=status, headers=headers):
                client = self.client(*arguments, **headers)
                self.assertTrue(client.answer.startswith(f"HTTP/1.1 {status} ".encode()), client.answer[:40])
                self.assertRegex(client.answer, rb"\r\nDate: \w{3}, .* GMT\r\n")
                if status == 426:
                    for field in (b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Version: 13"):
                        self.assertIn(b"\r\n" + field + b"\r\n", client.answer)
                body = b""
                while more := client.socket.recv(1000):
                    body += more
                self.assertIn("error", json.loads(body))

    def test_the_target_of_an_upgrade_may_be_a_whole_url(self):
        for url in ("http://x/mqtt", "HTTPS://[::1]:8083/mqtt?token=1"):
            self.client(url).log_in()
        self.assertTrue(self.client("http:///mqtt").answer.startswith(b"HTTP/1.1 400 "))

    def test_a_web_page_of_another_host_is_refused(self):
        chat = ("--websocket-origin", "https://chat.example")
        for origin, arguments, status in (("https://evil.example", (), 403), ("null", (), 403),
                                          ("http://127.0.0.1:3000", (), 101), (None, (), 101),
                                          ("https://chat.example", chat, 101), ("http://127.0.0.1:3000", chat, 403),
                                          ("https://evil.example", ("--websocket-origin", "*"), 101)):
            with self.subTest(origin=origin, arguments=arguments), \
                    Gateway("--listen", "ws://127.0.0.1:0", *arguments) as gateway:
                port = port_of(gateway, "ws")
                client = WebSocket(port, Host=f"127.0.0.1:{port}", Origin=origin)
                self.addCleanup(client.socket.close)
                self.assertTrue(client.answer.startswith(f"HTTP/1.1 {status} ".encode()), client.answer[:40])
                if status == 403:
                    wait_until(lambda: "websocket-origin" in gateway.log, what="a line in the log")

    def test_a_page_with_a_rebound_host_name_is_refused_if_anybody_may_log_in(self):
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="pulsegate-users-"))
        users = add_users(Path(folder) / "users", alice="secret")
        for arguments, status in (((), 403), (("--websocket-origin", "http://evil.example"), 101),
                                  (("--password-file", users), 101)):
            with self.subTest(arguments=arguments), Gateway("--listen", "ws://127.0.0.1:0", *arguments) as gateway:
                client = WebSocket(port_of(gateway, "ws"), Host="evil.example:8083", Origin="http://evil.example")
                self.addCleanup(client.socket.close)
                self.assertTrue(client.answer.startswith(f"HTTP/1.1 {status} ".encode()), client.answer[:40])

    def test_an_upgrade_may_come_byte_by_byte_and_with_the_first_packets(self):
        request = (f"GET /mqtt?token=1 HTTP/1.1\r\nHost: x\r\nUpgrade: WebSocket\r\nConnection: upgrade\r\n"
                   f"Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n")
        stream = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        self.addCleanup(stream.close)
        for byte in request[:-1].encode():
            stream.sendall(bytes([byte]))
        stream.sendall(request[-1:].encode() + frame(CONNECT % b"e") + frame(PING))
        answer = b""
        while not answer.endswith(b"\x82\x02" + PONG):
            more = stream.recv(1000)
            self.assertTrue(more, answer)
            answer += more
        self.assertIn(b"\r\n\r\n\x82\x04" + CONNACK, answer)

    def test_a_close_right_behind_connect_is_handled_on_each_shard(self):
        with Gateway("--listen", "ws://127.0.0.1:0", "--shards", "4", events=True) as gateway:
            port = port_of(gateway, "ws")
            names = [b"%c" % (ord("a") + i) for i in range(20)]
            for name in names:
                client = WebSocket(port)
                self.addCleanup(client.socket.close)
                client.send(frame(CONNECT % name) + frame(b"\x30\x05\x00\x01xhi") + frame(struct.pack(">H", 1000), 8))
                self.assertEqual(client.next(), (2, CONNACK))
                self.assertEqual(client.next(), (8, struct.pack(">H", 1000)))
            wait_until(lambda: len(gateway.events()) == 2 * len(names), what="everybody offline")
            self.assertEqual(gateway.metric("pulsegate_packets_received_total", type="publish"), len(names))

    def test_a_disconnect_between_connect_and_close_is_handled_too(self):
        with Gateway("--listen", "ws://127.0.0.1:0", "--shards", "4", events=True) as gateway:
            for name in (b"%c" % (ord("a") + i) for i in range(10)):
                client = WebSocket(port_of(gateway, "ws"))
                self.addCleanup(client.socket.close)
                client.send(frame(CONNECT % name) + frame(b"\xe0\x00") + frame(b"", 8))
                self.assertEqual(client.next(), (2, CONNACK))
                wait_until(lambda: [event["cause"] for event in gateway.events(name.decode())] == ["login", "logout"],
                           what="the logout")

    def test_what_comes_in_one_tls_record_with_the_upgrade_is_read_at_once(self):
        authority = Certificates()
        self.addCleanup(authority.folder.cleanup)
        certificate, key = authority.issue("localhost")
        context = ssl.create_default_context(cafile=authority.ca)
        upgrade = (f"GET /mqtt HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                   f"Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n")
        connect = b"\x00\x04MQTT\x04\x06\x00\x0a\x00\x01p" + b"\x00\x01w" + struct.pack(">H", 12_000) + bytes(12_000)
        packet = b"\x10" + bytes([len(connect) % 128 | 0x80, len(connect) // 128]) + connect
        with Gateway("--listen", "wss://127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key) as gateway:
            plain = socket.create_connection(("127.0.0.1", port_of(gateway, "wss")), timeout=60)
            with context.wrap_socket(plain, server_hostname="localhost") as stream:
                stream.sendall(upgrade.encode() + frame(packet))  # one record: less than 16 KiB
                answer = b""
                while not answer.endswith(b"\x82\x04" + CONNACK):
                    more = stream.recv(1000)
                    self.assertTrue(more, answer)
                    answer += more

    def test_a_flood_of_tiny_fragments_harms_nobody(self):
        client = self.client().log_in(b"f")
        client.send(frame(b"\x30\xff\xff\x03", 2, False), *[frame(b"x", 0, False)] * 60_000)
        other = self.client().log_in(b"g")
        other.send(frame(PING))
        self.assertEqual(other.next(), (2, PONG))


def curl(*arguments):
    """Status, type and body of what curl is answered."""
    done = subprocess.run(["curl", "-sS", "-m", "10", "-w", "\n%{http_code} %{content_type}", *arguments],
                          capture_output=True, text=True, timeout=60)
    body, _, about = done.stdout.rpartition("\n")
    status, kind = about.split(" ", 1)
    return int(status), kind, body


class CurlTest(unittest.TestCase):
    def test_a_client_that_speaks_no_websocket_is_told_so_and_takes_one_line_of_the_log(self):
        with Gateway("--listen", "ws://127.0.0.1:0") as gateway:
            url = f"http://127.0.0.1:{port_of(gateway, 'ws')}"
            requests = [[], ["-H", "Connection: Upgrade"], ["-H", "Connection: Upgrade", "-H", "Upgrade: websocket"],
                        ["--http1.0"], ["--http2"], ["-d", "a body"], ["-X", "OPTIONS"]]
            for options in requests:
                with self.subTest(options=options):
                    status, kind, body = curl(*options, url + "/mqtt")
                    self.assertEqual((status, kind, list(json.loads(body))), (426, "application/json", ["error"]))
            self.assertEqual(curl(url)[0], 404)
            gateway.stop()
            self.assertEqual(gateway.log.count("warning"), len(requests) + 1, gateway.log)

    def test_wss_is_https_to_curl(self):
        authority = Certificates()
        self.addCleanup(authority.folder.cleanup)
        certificate, key = authority.issue("localhost")
        with Gateway("--listen", "wss://127.0.0.1:0/chat", "--tls-cert", certificate, "--tls-key", key) as gateway:
            url = f"https://localhost:{port_of(gateway, 'wss')}/chat"
            self.assertEqual(curl("--cacert", authority.ca, url)[:2], (426, "application/json"))

    def test_the_admin_api_answers_curl(self):
        with Gateway() as gateway:
            gateway.connect("alice-phone", username="alice")
            url = f"http://127.0.0.1:{gateway.http_port}"
            status, kind, body = curl(url + "/api/v1/users/alice")
            self.assertEqual((status, kind, json.loads(body)["state"]), (200, "application/json", "online"))
            self.assertEqual(curl(url + "/api/v1/users/nobody")[:2], (404, "application/json"))
            self.assertEqual(curl("-X", "DELETE", url + "/healthz")[:2], (405, "application/json"))
            self.assertEqual(curl("-I", url + "/healthz")[0], 200)
            two = subprocess.run(["curl", "-sS", "-w", "%{num_connects} ", "-o", "/dev/null", "-o", "/dev/null",
                                  url + "/healthz", url + "/metrics"], capture_output=True, text=True, timeout=60)
            self.assertEqual(two.stdout, "1 0 ")  # the second on the first one's connection


class MqttJsTest(unittest.TestCase):
    def test_mqtt_js_chats_and_comes_back_over_ws_wss_and_mqtts(self):
        authority = Certificates()
        self.addCleanup(authority.folder.cleanup)
        certificate, key = authority.issue("localhost")
        users = add_users(authority.path / "users", fleet="right")
        with Gateway("--listen", "ws://127.0.0.1:0", "--listen", "wss://127.0.0.1:0/chat", "--listen",
                     "mqtts://127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key, "--password-file",
                     users) as gateway:
            for scheme, path in (("ws", "/mqtt"), ("wss", "/chat"), ("mqtts", "")):
                for version in (4, 5):
                    with self.subTest(scheme=scheme, version=version):
                        url = f"{scheme}://localhost:{port_of(gateway, scheme)}{path}"
                        seen = chat_with_mqtt_js(url, version, "fleet", "right", authority.ca)
                        self.assertEqual(seen["granted"], [2])
                        self.assertEqual(seen["heard"], [["room/0", 100_000, 0], ["room/1", 100_000, 1],
                                                         ["room/2", 100_000, 2], ["room/back", 7, 2]])
                        self.assertEqual(seen.get("told"), 0x95 if version == 5 else None)
                        self.assertEqual((seen["session_at_first"], seen["session_when_back"]), (False, True))


if __name__ == "__main__":
    unittest.main()
