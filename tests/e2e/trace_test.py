"""What a trace shows of a user, a client or an address, live."""

import json
import signal
import subprocess
import time
import unittest
import urllib.error
import urllib.request

from credentials import SECRET, Folder, token
from gateway import DISCONNECT, PATIENCE, Client, Gateway, binary, publish_packet, wait_until


class Trace:
    """The events of one trace, as they come."""

    def __init__(self, gateway, query):
        request = urllib.request.Request(f"http://127.0.0.1:{gateway.http_port}/api/v1/trace?{query}",
                                         headers={"Accept": "text/event-stream"})
        self.answer = urllib.request.urlopen(request, timeout=PATIENCE)
        self.seen = []
        assert self.next()[0] == "begun"

    def next(self, deadline=None):
        """The kind of the next server-sent event, and its data. A quiet stream has a comment now and then."""
        kind = None
        for line in self.answer:
            if deadline and time.monotonic() > deadline:
                break
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name == "event":
                kind = value
            if name == "data":
                return kind, json.loads(value)
        return None, None

    def until(self, **wanted):
        """Reads until an event has these members, and returns it."""
        deadline = time.monotonic() + PATIENCE
        while True:
            kind, event = self.next(deadline)
            assert event is not None, (wanted, self.seen)
            self.seen.append(event)
            if kind == "trace" and all(event.get(name) == value for name, value in wanted.items()):
                return event

    def close(self):
        self.answer.close()


class TraceTest(unittest.TestCase):
    def setUp(self):
        self.gateway = self.enterContext(Gateway("--shards", "2"))

    def trace(self, query):
        trace = Trace(self.gateway, query)
        self.addCleanup(trace.close)
        return trace

    def test_a_users_packets_are_summarized_without_their_content(self):
        trace = self.trace("user=ann")
        ann = self.gateway.connect("phone", username="ann", version=5, keepalive=60)
        connect = trace.until(event="packet_in", packet="CONNECT")
        self.assertEqual((connect["mqtt"], connect["client"], connect["username"], connect["keepalive"], connect["has_password"]),
                         ("5.0", "phone", "ann", 60, False))
        self.assertEqual(trace.until(event="packet_out", packet="CONNACK")["code"], 0)
        login = trace.until(event="login")
        self.assertEqual((login["listener"], login["mqtt"], login["silence_limit"]),
                         (f"mqtt://127.0.0.1:{self.gateway.port}", "5.0", 90))
        ann.subscribe("room/#", qos=1)
        subscribe = trace.until(event="packet_in", packet="SUBSCRIBE")
        self.assertEqual(subscribe["filters"], [{"filter": "room/#", "qos": 1}])
        self.gateway.ask("POST", "/api/v1/publish", {"topic": "room/x", "payload": "secret words", "qos": 1})
        publish = trace.until(event="packet_out", packet="PUBLISH")
        self.assertEqual((publish["topic"], publish["qos"], publish["client"], publish["user"]), ("room/x", 1, "phone", "ann"))
        self.assertGreater(publish["bytes"], 20)
        ann.send(DISCONNECT)
        ended = trace.until(event="disconnected")
        self.assertEqual((ended["cause"], ended["why"]), ("logout", "the client disconnected"))
        self.assertNotIn("secret words", json.dumps(trace.seen))

    def test_others_are_not_shown(self):
        trace = self.trace("client=phone")
        self.gateway.connect("other", username="bob").send(DISCONNECT)
        self.gateway.connect("phone", username="ann")
        trace.until(event="login")
        self.assertEqual({event["client"] for event in trace.seen}, {"phone"})

    def test_an_address_shows_the_connection_from_its_beginning(self):
        trace = self.trace("address=127.0.0.1")
        stranger = Client(self.gateway.port)
        self.addCleanup(stranger.close)
        self.assertEqual(trace.until(event="connected")["listener"], f"mqtt://127.0.0.1:{self.gateway.port}")
        stranger.send(b"\x10\x00")
        ended = trace.until(event="disconnected")
        self.assertEqual((ended["cause"], "user" in ended), ("kicked", False))

    def test_a_takeover_a_kick_and_a_timeout_are_shown(self):
        trace = self.trace("user=ann")
        self.gateway.connect("phone", username="ann", version=5)
        self.gateway.connect("phone", username="ann", version=5)
        trace.until(event="taken_over")
        self.assertEqual(trace.until(event="packet_out", packet="DISCONNECT")["code"], 0x8E)
        self.assertEqual(self.gateway.ask("DELETE", "/api/v1/clients?user=ann")[0], 200)
        kicked = trace.until(event="disconnected", cause="kicked")
        self.assertEqual(kicked["code"], 0x98)
        self.gateway.connect("phone", username="ann", keepalive=1)
        silent = trace.until(event="disconnected", cause="timeout")
        self.assertGreaterEqual(silent["silence"], 1.5)

    def test_messages_that_wait_or_are_dropped_are_shown(self):
        with Gateway("--max-queued-messages", "2", "--shards", "1") as gateway:
            mute = gateway.connect("mute", clean=False)
            mute.subscribe("flood", qos=1)
            mute.send(DISCONNECT)
            wait_until(lambda: gateway.ask("GET", "/api/v1/users/mute")[1]["state"] == "offline", what="mute is away")
            trace = Trace(gateway, "user=mute")
            for _ in range(3):
                gateway.ask("POST", "/api/v1/publish", {"topic": "flood", "payload": "x", "qos": 1})
            waits = trace.until(event="message_queued")
            self.assertEqual((waits["topic"], waits["why"]), ("flood", "the client is away"))
            self.assertEqual(trace.until(event="messages_dropped")["why"], "the queue was full")
            trace.close()

    def test_it_ends_when_its_time_is_up(self):
        trace = self.trace("user=ann&seconds=1")
        self.assertEqual(trace.next()[0], "end")
        self.assertEqual(trace.next(), (None, None))

    def test_there_are_8_at_a_time_and_one_that_ended_makes_room(self):
        traces = [self.trace("user=ann") for _ in range(8)]
        self.assertEqual(self.gateway.ask("GET", "/api/v1/trace?user=ann")[0], 503)
        traces.pop().close()
        ann = self.gateway.connect("phone", username="ann")

        def is_free():
            ann.publish("room/x")  # what is written to a reader that has gone
            try:
                traces.append(self.trace("user=ann"))
            except urllib.error.HTTPError as refused:
                refused.close()
                return False
            return True

        wait_until(is_free, what="room for a trace")

    def test_a_slow_reader_is_told_how_much_it_has_lost(self):
        with Gateway("--max-message-rate", "0", "--max-byte-rate", "0") as gateway:
            trace = Trace(gateway, "user=ann")
            ann = gateway.connect("phone", username="ann")
            for _ in range(40):
                ann.send(publish_packet("room/" + "x" * 200) * 1000)
            ann.ping()
            kind = None
            while kind != "lost":
                kind, event = trace.next()
                self.assertIsNotNone(kind, "the stream has ended")
            self.assertGreater(event["lost"], 0)
            trace.close()

    def test_a_request_that_names_no_target_or_two_is_refused(self):
        for query in ("", "?user=a&client=b", "?address=here", "?user=a&seconds=0", "?user=a&seconds=3601", "?usr=a"):
            self.assertEqual(self.gateway.ask("GET", f"/api/v1/trace{query}")[0], 400, query)

    def test_it_is_in_the_audit_log(self):
        self.trace("user=ann")
        self.gateway.wait_for_log(r"audit: - GET '/api/v1/trace\?user=ann' -> 200")

    def test_ctl_prints_a_line_for_each_event(self):
        url = f"http://127.0.0.1:{self.gateway.http_port}"
        for options in ((), ("--json",)):
            ctl = subprocess.Popen([str(binary()), "ctl", "trace", "--url", url, "--user", "ann", "--for", "60s", *options],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertIn("tracing", ctl.stderr.readline())
            self.gateway.connect("phone", username="ann").send(DISCONNECT)
            lines = []
            while not lines or "disconnected" not in lines[-1]:
                lines.append(ctl.stdout.readline())
                self.assertTrue(lines[-1], lines)
            if options:
                self.assertEqual(json.loads(lines[-1])["cause"], "logout")
            else:
                self.assertRegex(lines[0], r"^\d\d:\d\d:\d\d\.\d{3}Z ann phone 127\.0\.0\.1:\d+ packet_in CONNECT ")
                self.assertIn("cause=logout", lines[-1])
            ctl.send_signal(signal.SIGINT)
            ctl.communicate(timeout=PATIENCE)
        done = subprocess.run([str(binary()), "ctl", "trace", "--url", url], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 2, done)


class RefusalTest(Folder):
    def test_a_client_that_is_never_let_in_is_found_by_user_client_and_address(self):
        with Gateway("--password-file", self.password_file(alice="right"), "--shards", "2") as gateway:
            traces = [Trace(gateway, query) for query in ("user=bob%2F1", "client=phone", "address=127.0.0.1")]
            self.assertEqual(self.code(gateway, "bob/1", "guess", "phone"), 0x86)
            for trace in traces:
                refused = trace.until(event="login_refused")
                self.assertEqual((refused["user"], refused["client"], refused["code"], refused["why"]),
                                 ("bob/1", "phone", 0x86, "user name or password is wrong"))
                self.assertEqual(trace.until(event="packet_out", packet="CONNACK")["code"], 0x86)
                self.assertEqual(trace.until(event="disconnected")["user"], "bob/1")
                connect = next(event for event in trace.seen if event.get("packet") == "CONNECT")
                self.assertTrue(connect["has_password"])
                self.assertNotIn("guess", json.dumps(trace.seen))
                trace.close()

    def test_the_user_of_a_token_is_followed_from_the_connect(self):
        with Gateway("--jwt-secret", self.file("secret", SECRET), "--shards", "2") as gateway:
            for user in ("ann", "bob", "eve", "joe"):  # on both shards
                trace = Trace(gateway, f"user={user}")
                self.assertEqual(self.code(gateway, "token", token({"sub": user, "exp": time.time() + 600}), "phone"), 0)
                trace.until(event="login")
                connect = next(event for event in trace.seen if event.get("packet") == "CONNECT")
                self.assertEqual((connect["user"], connect["username"], connect["client"]), (user, "token", "phone"))
                trace.close()


if __name__ == "__main__":
    unittest.main()
