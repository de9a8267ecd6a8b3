"""Backends are told of events at least once and in order, even if processes die. Clients don't wait for backends."""

import base64
import email.utils
import hashlib
import hmac
import json
import re
import signal
import ssl
import tempfile
import threading
import time
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from certificates import Certificates
from gateway import REPOSITORY, SANITIZED, Client, Gateway, connect_packet, wait_until
from ports import free_port
from readme_test import shape_of

SECRET = "0123456789abcdef0123456789abcdef"


class Receiver:
    """A backend that answers with the status `answer(events)`. `batches` are those that it has taken."""

    def __init__(self, answer=lambda events: 200, port=0, fields=None, tls=None):
        self.answer = answer
        self.requests, self.batches = [], []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                batch = json.loads(body)
                receiver.requests.append((dict(self.headers), body))
                status = receiver.answer(batch["events"])
                if status == 200:
                    receiver.batches.append(batch)
                self.send_response(status)
                self.send_header("Content-Length", "0")
                for name, value in (fields or {}).items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, *_):
                pass

            def handle_one_request(self):
                try:
                    super().handle_one_request()
                except OSError:
                    self.close_connection = True  # the gateway lost its patience

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, request, client_address):
                pass  # a handshake that failed

        self.server = Server(("127.0.0.1", port), Handler)
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}/events"
        threading.Thread(target=lambda: self.server.serve_forever(0.01), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    @property
    def events(self):
        return [event for batch in list(self.batches) for event in batch["events"]]

    def of(self, kind, **fields):
        return [event for event in self.events if event["type"] == kind and
                all(event.get(key) == value for key, value in fields.items())]

    def wait_for(self, kind, count=1, timeout=60, **fields):
        wait_until(lambda: len(self.of(kind, **fields)) >= count, timeout, f"{count} x {kind} {fields}")
        return self.of(kind, **fields)


class WebhookTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name)

    def file(self, name, content):
        path = self.path / name
        path.write_text(content)
        path.chmod(0o600)
        return path

    def gateway(self, receiver, *arguments):
        return Gateway("--shards", "2", "--data", self.path / "data", "--webhook", receiver.url, *arguments)

    def test_a_backend_is_told_of_presence_logins_refusals_and_messages_to_disconnected_users(self):
        with Receiver() as receiver, self.gateway(receiver, "--webhook-payload", "on") as gateway:
            ann = gateway.connect("ann-phone", username="ann")
            login = receiver.wait_for("login", user="ann")[0]
            self.assertEqual((login["client"], login["protocol"], login["session_present"]),
                             ("ann-phone", "3.1.1", False))
            self.assertRegex(login["address"], r"^127\.0\.0\.1:\d+$")
            online = receiver.wait_for("presence", user="ann")[0]
            self.assertEqual((online["state"], online["cause"], online["client"]), ("online", "login", "ann-phone"))
            ann.publish("inbox/bob", b"are you there?", qos=1)
            self.assertEqual(ann.receive()[0], 0x40)
            waiting = receiver.wait_for("message_waiting")[0]
            self.assertEqual((waiting["to"], waiting["from"], waiting["topic"], waiting["payload"]),
                             ("bob", "ann", "inbox/bob", "are you there?"))
            self.assertEqual((waiting["waiting"], waiting["qos"]), (1, 1))
            ann.publish("inbox/bob", b"\xff\x00", qos=1)
            self.assertEqual(ann.receive()[0], 0x40)
            second = receiver.wait_for("message_waiting", 2)[1]
            self.assertEqual((base64.b64decode(second["payload_base64"]), second["waiting"]), (b"\xff\x00", 2))
            ann.disconnect()
            offline = receiver.wait_for("presence", user="ann", state="offline")[0]
            self.assertGreater(offline["version"], online["version"])
            ids = [event["id"] for event in receiver.events]
            self.assertTrue(len(ids) == len(set(ids)), "an id came twice")
            self.assertTrue(not any(batch["repeat"] for batch in receiver.batches), "nothing was repeated")

    def test_events_have_the_members_that_are_shown_to_backends(self):
        page = (REPOSITORY / "server" / "docs" / "backend.md").read_text()
        shown = json.loads(re.search(r"^```json\n(.*?)^```$", page, re.M | re.S)[1])
        with Receiver() as receiver, self.gateway(receiver, "--webhook-payload", "on") as gateway:
            eve = self.enterContext(Client(gateway.port))
            eve.send(connect_packet("", clean=False))  # is refused
            ann = gateway.connect("ann-phone", username="ann")
            ann.publish("inbox/bob", b"are you there?", qos=1)
            for kind in ("presence", "login", "login_refused", "message_waiting"):
                with self.subTest(kind=kind):
                    told = receiver.wait_for(kind)[0]
                    example = next(event for event in shown["events"] if event["type"] == kind)
                    self.assertEqual(shape_of(told), shape_of(example))
            self.assertEqual(set(shown), set(receiver.batches[0]))

    def test_it_is_told_of_each_disconnected_member_of_a_room(self):
        with Receiver() as receiver, self.gateway(receiver) as gateway:
            gateway.ask("POST", "/api/v1/rooms/team/members", {"add": ["ann", "bob", "carl"]})
            gateway.connect("bob-phone", username="bob")
            gateway.connect("ann-phone", username="ann").publish("room/team", b"hi", qos=1)
            told = receiver.wait_for("message_waiting", topic="room/team", to="carl")
            self.assertEqual([(one["from"], one["waiting"]) for one in told], [("ann", 1)])
            gateway.ask("POST", "/api/v1/publish", {"inbox": "bob"})
            gateway.ask("POST", "/api/v1/publish", {"inbox": "dave"})
            receiver.wait_for("message_waiting", to="dave")
            self.assertEqual({one["to"] for one in receiver.of("message_waiting")}, {"carl", "dave"})

    def test_a_refused_login_is_told_with_its_reason_and_a_flood_is_bounded(self):
        with Receiver() as receiver, self.gateway(receiver, "--max-connections-per-user", "1") as gateway:
            gateway.connect("one", username="ann")
            crowd = [Client(gateway.port) for _ in range(200)]
            with gateway.standing_still():  # so that all come at once
                for i, client in enumerate(crowd):
                    client.send(connect_packet(f"other-{i}", username="ann"))
            for client in crowd:
                self.assertEqual(client.receive()[0], 0x20)
                client.close()
            refused = receiver.wait_for("login_refused", user="ann")[0]
            self.assertEqual(refused["reason"], "quota exceeded")
            self.assertRegex(refused["client"], r"^other-\d+$")
            self.assertIn("max-connections-per-user", refused["why"])
            self.assertGreater(gateway.metric("pulsegate_events_withheld_total"), 50)
            gateway.connect("two", username="bob")
            receiver.wait_for("login", user="bob")  # later than all of them
            self.assertEqual(len(receiver.of("login_refused")) + gateway.metric("pulsegate_events_withheld_total"), 200)

    def test_messages_to_connected_users_or_of_qos_0_cause_no_event(self):
        with Receiver() as receiver, self.gateway(receiver, "--webhook-events", "message_waiting") as gateway:
            ann = gateway.connect("ann")
            bob = gateway.connect("bob")
            ann.publish("inbox/bob", b"here", qos=1)
            self.assertEqual(bob.receive_publish(), ("inbox/bob", b"here"))
            ann.receive()
            ann.publish("inbox/carl", b"qos 0")
            ann.publish("inbox/carl", b"qos 1", qos=1)
            ann.receive()
            events = receiver.wait_for("message_waiting")
            self.assertEqual([event["to"] for event in events], ["carl"])
            self.assertNotIn("payload", events[0])
            self.assertEqual(len(receiver.events), 1)

    def test_a_user_with_only_disconnected_sessions_is_away_too(self):
        with Receiver() as receiver, self.gateway(receiver) as gateway:
            bob = gateway.connect("bob-phone", username="bob", clean=False)
            bob.disconnect()
            wait_until(lambda: gateway.get_json("/api/v1/users/bob")[1]["state"] == "offline")
            status, _ = gateway.ask("POST", "/api/v1/publish", {"topic": "inbox/bob", "payload": "hi", "qos": 1})
            self.assertEqual(status, 200)
            waiting = receiver.wait_for("message_waiting", to="bob")[0]
            self.assertEqual(waiting["payload_bytes"], 2)

    def test_requests_are_signed_and_carry_the_token(self):
        with Receiver() as receiver, \
                self.gateway(receiver, "--webhook-secret-file", self.file("secret", SECRET + "\n"),
                             "--webhook-token-file", self.file("token", "letmein\n")) as gateway:
            before = int(time.time())
            gateway.connect("ann")
            receiver.wait_for("presence")
            after = time.time()
            headers, body = receiver.requests[0]
            parts = dict(part.split("=") for part in headers["Pulsegate-Signature"].split(","))
            signed = hmac.new(SECRET.encode(), parts["t"].encode() + b"." + body, hashlib.sha256).hexdigest()
            self.assertEqual(parts["v1"], signed)
            self.assertTrue(before <= int(parts["t"]) <= after, parts["t"])
            self.assertEqual(headers["Authorization"], "Bearer letmein")
            self.assertEqual(headers["Content-Type"], "application/json")

    def test_secret_and_token_are_read_again_at_sighup_unless_they_are_wrong(self):
        with Receiver() as receiver:
            secret, token = self.file("secret", SECRET + "\n"), self.file("token", "old\n")
            with self.gateway(receiver, "--webhook-secret-file", secret, "--webhook-token-file", token) as gateway:
                self.file("token", "new\n")
                for number in 1, 2:  # the second is obeyed when the first one has been
                    gateway.process.send_signal(signal.SIGHUP)
                    wait_until(lambda: gateway.log.count("SIGHUP: reloading") == number, what="a reload")
                gateway.connect("ann")
                receiver.wait_for("presence", user="ann")
                self.assertEqual(receiver.requests[-1][0]["Authorization"], "Bearer new")
                self.file("secret", "short\n")
                gateway.process.send_signal(signal.SIGHUP)
                gateway.wait_for_log("webhook's files not reloaded: webhook-secret-file")
                gateway.connect("bob")
                receiver.wait_for("presence", user="bob")

    def test_a_backend_with_tls_must_show_a_certificate_of_the_named_authority(self):
        authority = Certificates()
        with Receiver(tls=authority.issue("backend")) as receiver:
            with self.gateway(receiver, "--webhook-ca-file", authority.ca) as gateway:
                gateway.connect("ann")
                receiver.wait_for("presence", user="ann")
            with self.gateway(receiver) as gateway:
                gateway.connect("bob")
                gateway.wait_for_log("webhook: .*TLS: ")
                self.assertFalse(receiver.of("presence", user="bob"))

    def test_a_slow_backend_slows_nobody(self):
        may_answer = threading.Event()
        self.addCleanup(may_answer.set)

        def answer_late(events):
            may_answer.wait(60)
            return 200
        with Receiver(answer_late) as receiver, self.gateway(receiver, "--webhook-timeout", "60s") as gateway:
            ann, bob = gateway.connect("ann"), gateway.connect("bob")
            wait_until(lambda: receiver.requests, what="a request")
            for i in range(100 if SANITIZED else 300):  # one that waited for the backend would wait until the end of this
                ann.publish("inbox/bob", b"x", qos=1)
                bob.receive_publish()
                ann.receive()
                with Client(gateway.port) as other:
                    other.login(f"other-{i}")
            wait_until(lambda: gateway.metric("pulsegate_webhook_events_waiting") > 100, what="events")
            self.assertEqual((len(receiver.requests), receiver.batches), (1, []))
            may_answer.set()

    def test_nothing_is_lost_while_the_backend_is_down_and_the_gateway_is_killed(self):
        port = free_port()
        receiver = Receiver(port=port)
        url = receiver.url
        receiver.__exit__()
        arguments = ["--shards", "2", "--data", self.path / "data", "--webhook", url]
        sent = {}
        gateway = Gateway(*arguments).start()
        dora = gateway.connect("dora", keepalive=6)
        for i in range(60):
            to = f"away-{i % 3}"
            dora.publish(f"inbox/{to}", str(i).encode(), qos=1, packet_id=i + 1)
            self.assertEqual(dora.receive()[0], 0x40)  # PUBACK: the event is stored, too
            sent.setdefault(to, []).append(i // 3 + 1)
        for user in ("ann", "bob", "carl"):  # as late as this, because they are silent
            gateway.connect(f"{user}-phone", username=user, keepalive=6)
        gateway.await_store()
        wait_until(lambda: gateway.metric("pulsegate_webhook_requests_total", result="failed") > 0)
        gateway.kill()
        gateway.folder.cleanup()
        with Receiver(port=port) as receiver:
            with Gateway(*arguments) as gateway:
                receiver.wait_for("message_waiting", 60, timeout=60)
                for user in ("ann", "bob", "carl", "dora"):
                    receiver.wait_for("presence", user=user, state="offline", cause="node_lost", timeout=60)
                    versions = [event["version"] for event in receiver.of("presence", user=user)]
                    self.assertTrue(versions == sorted(versions), f"{user}: {versions}")
                for to, counts in sent.items():
                    told = [event["waiting"] for event in receiver.of("message_waiting", to=to)]
                    self.assertTrue(told == counts, f"{to}: {told}")
                self.assertTrue(receiver.batches[0]["repeat"], "the first batch may be a repetition")
                wait_until(lambda: gateway.metric("pulsegate_webhook_events_waiting") == 0)
            with Gateway(*arguments) as gateway:
                gateway.connect("eve")
                receiver.wait_for("presence", user="eve")
                self.assertEqual(len(receiver.of("presence", user="ann", state="offline")), 1)

    def test_a_killed_gateway_repeats_what_it_is_not_sure_of_and_marks_it(self):
        with Receiver() as receiver:
            arguments = ["--shards", "2", "--data", self.path / "data", "--webhook", receiver.url]
            seen = []
            for round in range(4):
                gateway = Gateway(*arguments).start()
                before = len(receiver.events)
                for i in range(20):
                    gateway.connect(f"user-{round}-{i}").publish("inbox/away", b"x", qos=1)
                wait_until(lambda: len(receiver.events) >= before + 15 * round, what="events")
                gateway.kill()
                gateway.folder.cleanup()
            with Gateway(*arguments) as gateway:
                gateway.connect("last")
                receiver.wait_for("presence", user="last", timeout=60)
            for batch in receiver.batches:
                repeated = [event["id"] for event in batch["events"] if event["id"] in seen]
                self.assertTrue(not repeated or batch["repeat"], f"not marked: {repeated[:3]}")
                seen += [event["id"] for event in batch["events"]]
            numbers = {int(id.split("-")[1]) for id in seen}
            self.assertTrue(numbers == set(range(1, max(numbers) + 1)), "numbers are missing")

    def test_what_the_backend_refuses_becomes_a_dead_letter_that_can_be_replayed(self):
        poison, all_are_here = threading.Event(), threading.Event()
        poison.set()

        def refuse_mallory(events):
            all_are_here.wait(60)
            return 422 if poison.is_set() and any(event["user"] == "mallory" for event in events) else 200

        with Receiver(refuse_mallory) as receiver, \
                self.gateway(receiver, "--webhook-events", "presence") as gateway:
            for user in ["a", "b", "c", "mallory", "d", "e", "f", "g"]:
                gateway.connect(user)
            all_are_here.set()
            receiver.wait_for("presence", 7)
            dead = wait_until(lambda: gateway.get_json("/api/v1/webhooks/dead")[1]["dead"])
            self.assertEqual(len(dead), 1)
            self.assertEqual((dead[0]["event"]["user"], dead[0]["why"]), ("mallory", "status 422"))
            self.assertEqual(gateway.metric("pulsegate_webhook_dead_letters"), 1)
            users = [event["user"] for event in receiver.events]
            self.assertNotIn("mallory", users)

            id = dead[0]["id"]
            refusals = gateway.metric("pulsegate_webhook_requests_total", result="refused")
            self.assertEqual(gateway.ask("POST", f"/api/v1/webhooks/dead/replay?id={id}"), (200, {"to_replay": 1}))
            wait_until(lambda: gateway.metric("pulsegate_webhook_requests_total", result="refused") > refusals)
            wait_until(lambda: not gateway.get_json("/api/v1/webhooks/dead")[1]["dead"][0]["to_replay"])
            poison.clear()
            self.assertEqual(gateway.ask("POST", "/api/v1/webhooks/dead/replay"), (200, {"to_replay": 1}))
            replayed = receiver.wait_for("presence", user="mallory")[0]
            self.assertEqual(replayed["id"], id)
            self.assertTrue(receiver.batches[-1]["repeat"])
            wait_until(lambda: gateway.get_json("/api/v1/webhooks/dead")[1]["total"] == 0)

    def test_a_backend_that_refuses_everything_is_asked_less_often_and_loses_nothing(self):
        refuses = threading.Event()
        refuses.set()
        with Receiver(lambda events: 400 if refuses.is_set() else 200) as receiver, \
                self.gateway(receiver, "--webhook-events", "presence") as gateway:
            users = [f"user{i}" for i in range(200)]
            for user in users:
                gateway.connect(user)
            gateway.wait_for_log(r"webhook: .*: status 400; the next attempt is in \d+ ms, and 190 events wait")
            self.assertEqual(gateway.metric("pulsegate_webhook_dead_letters"), 10)
            self.assertEqual(gateway.metric("pulsegate_webhook_events_waiting"), 190)
            self.assertLess(len(receiver.requests), 100)
            self.assertEqual(len(json.loads(receiver.requests[-1][1])["events"]), 1)
            refuses.clear()
            receiver.wait_for("presence", 190)
            gateway.ask("POST", "/api/v1/webhooks/dead/replay")
            receiver.wait_for("presence", 200)
            self.assertEqual({event["user"] for event in receiver.events}, set(users))

    def test_a_dead_letter_that_is_dropped_while_it_is_replayed_stays_away_and_nobody_waits_for_it(self):
        replayed, dropped = threading.Event(), threading.Event()

        def refuse_mallory(events):
            if all(event["user"] != "mallory" for event in events):
                return 200
            if len(events) == 1 and gateway.get_json("/api/v1/webhooks/dead")[1]["total"] == 1:
                replayed.set()
                dropped.wait(60)
            return 422

        with Receiver(refuse_mallory) as receiver, \
                self.gateway(receiver, "--webhook-events", "presence") as gateway:
            gateway.connect("mallory")
            wait_until(lambda: gateway.metric("pulsegate_webhook_dead_letters") == 1)
            self.assertEqual(gateway.ask("POST", "/api/v1/webhooks/dead/replay"), (200, {"to_replay": 1}))
            self.assertTrue(replayed.wait(60))
            gateway.connect("bob")
            receiver.wait_for("presence", user="bob")
            self.assertEqual(gateway.ask("DELETE", "/api/v1/webhooks/dead?all=true"), (200, {"dropped": 1}))
            refused = gateway.metric("pulsegate_webhook_requests_total", result="refused")
            dropped.set()
            wait_until(lambda: gateway.metric("pulsegate_webhook_requests_total", result="refused") > refused)
            gateway.connect("carol")  # is stored later than what became of the replay
            receiver.wait_for("presence", user="carol")
            self.assertEqual(gateway.get_json("/api/v1/webhooks/dead")[1], {"dead": [], "total": 0})

    def test_dead_letters_are_dropped_one_by_one_or_all(self):
        with Receiver(lambda events: 400) as receiver, \
                self.gateway(receiver, "--webhook-events", "presence") as gateway:
            for user in "abcd":
                gateway.connect(user)
            wait_until(lambda: gateway.get_json("/api/v1/webhooks/dead")[1]["total"] == 4)
            ids = [letter["id"] for letter in gateway.get_json("/api/v1/webhooks/dead")[1]["dead"]]
            self.assertEqual([letter["id"] for letter in
                              gateway.get_json(f"/api/v1/webhooks/dead?after={ids[1]}")[1]["dead"]], ids[2:])
            self.assertEqual(gateway.ask("DELETE", f"/api/v1/webhooks/dead?id={ids[0]}"), (200, {"dropped": 1}))
            self.assertEqual(gateway.ask("DELETE", f"/api/v1/webhooks/dead?id={ids[0]}")[0], 404)
            self.assertEqual(gateway.ask("DELETE", "/api/v1/webhooks/dead")[0], 400)
            self.assertEqual(gateway.ask("DELETE", "/api/v1/webhooks/dead?id=nonsense")[0], 400)
            self.assertEqual(gateway.ask("DELETE", "/api/v1/webhooks/dead?all=true"), (200, {"dropped": 3}))

    def test_a_wrong_url_or_a_busy_backend_makes_no_dead_letters(self):
        status = [404]
        with Receiver(lambda events: status[0], fields={"Retry-After": "1"}) as receiver, \
                self.gateway(receiver) as gateway:
            gateway.connect("ann")
            wait_until(lambda: len(receiver.requests) >= 2)
            status[0] = 429
            count = len(receiver.requests)
            wait_until(lambda: len(receiver.requests) > count)
            status[0] = 200
            receiver.wait_for("presence", user="ann")
            self.assertTrue(receiver.batches[0]["repeat"])
            self.assertEqual(gateway.get_json("/api/v1/webhooks/dead")[1]["total"], 0)
            gateway.wait_for_log("webhook: ")

    def test_a_backend_may_say_at_which_date_it_is_asked_again(self):
        date = email.utils.formatdate(time.time() + 1800, usegmt=True)
        with Receiver(lambda events: 503, fields={"Retry-After": date}) as receiver, self.gateway(receiver) as gateway:
            gateway.connect("ann")
            pause = int(gateway.wait_for_log(r"the next attempt is in (\d+) ms")[1])
            self.assertTrue(1_000_000 < pause <= 1_800_000, pause)

    def test_a_backend_that_does_not_answer_is_asked_again_after_the_timeout(self):
        first, has_repeated = threading.Event(), threading.Event()
        self.addCleanup(has_repeated.set)

        def hang_once(events):
            if not first.is_set():
                first.set()
                has_repeated.wait(60)
            return 200
        with Receiver(hang_once) as receiver, self.gateway(receiver, "--webhook-timeout", "1s") as gateway:
            gateway.connect("ann")
            gateway.wait_for_log("no answer within webhook-timeout, 1000 ms")
            receiver.wait_for("presence", user="ann")

    def test_what_was_deleted_before_the_backend_had_it_is_counted_and_logged(self):
        port = free_port()
        with Gateway("--webhook", f"http://127.0.0.1:{port}/", "--event-log-bytes", "65536") as gateway:
            for _ in range(60):
                for client in [gateway.connect(f"c{i}", username="ann") for i in range(10)]:
                    client.disconnect()
            wait_until(lambda: gateway.metric("pulsegate_webhook_events_lost_total") > 100)
            self.assertLessEqual(gateway.metric("pulsegate_event_log_bytes"), 65536)
            gateway.wait_for_log("deleted before the webhook received them")

    def test_a_sender_that_floods_an_inbox_causes_a_bounded_number_of_events(self):
        with Receiver() as receiver, self.gateway(receiver, "--webhook-events", "message_waiting") as gateway:
            ann = gateway.connect("ann")
            for i in range(1000):
                ann.publish("inbox/bob", b"x", qos=1, packet_id=i + 1)
            for _ in range(1000):
                self.assertEqual(ann.receive()[0], 0x40)
            receiver.wait_for("message_waiting", 600)
            self.assertGreater(gateway.metric("pulsegate_events_withheld_total"), 300)
            eve = gateway.connect("eve")
            eve.publish("inbox/bob", b"y", qos=1)
            self.assertGreater(receiver.wait_for("message_waiting", 601)[-1]["waiting"], 1000)

    def test_mistakes_in_the_settings_are_named(self):
        for arguments, words in ((["--webhook", "nonsense"], "webhook: "),
                                 (["--webhook-secret-file", "x"], "name its URL with --webhook"),
                                 (["--webhook", "http://h/", "--webhook-ca-file", "x"], "https://"),
                                 (["--webhook", "http://h/", "--webhook-secret-file", self.file("short", "a\n")],
                                  "16 characters"),
                                 (["--webhook", "http://h/", "--webhook-events", "presence,gossip"], "gossip")):
            with self.assertRaises(AssertionError) as failed:
                Gateway(*arguments).start()
            self.assertIn(words, str(failed.exception))


if __name__ == "__main__":
    unittest.main()
