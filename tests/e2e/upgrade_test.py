"""An upgrade: another process takes over, and the clients keep their connections."""

import contextlib
import http.client
import os
import select
import ssl
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

from certificates import Certificates
from gateway import PATIENCE, Client, Gateway, binary, connect_packet, packet, port_of, publish_packet, text, wait_until
from handover_relay import program_with_fault
from streams import TlsStream, WebSocket, frame
from upgradable import PAUSE, gateway_for


def packet_id_of(publish):
    """Of a PUBLISH with QoS, as bytes."""
    body = publish[1]
    size = 2 + int.from_bytes(body[:2], "big")
    return body[size:size + 2]


class UpgradeTest(unittest.TestCase):
    def test_clients_keep_their_connections_and_what_they_are_in_the_middle_of(self):
        with gateway_for(events=True) as gateway:
            old, new = gateway.connect("old", clean=False), gateway.connect("new", version=5)
            for client in (old, new):
                client.subscribe(f"room/{client.version}", qos=2)
            # QoS 1 and 2 to the client: not acknowledged yet. A PUBLISH of which the end has not come.
            gateway.connect("alice").publish("room/4", b"one", qos=1)
            one = old.receive()
            whole = publish_packet("room/5", b"in two parts", qos=1, packet_id=7)
            old.send(whole[:9])
            # A QoS 2 exchange of the client's own that has got as far as PUBREC.
            new.publish("room/4", b"twice?", qos=2, packet_id=9)
            self.assertEqual(new.receive(), (0x50, b"\x00\x09"))

            gateway.wait_for_event(user="alice")
            events = gateway.events()

            self.assertRegex(gateway.upgrade(), r"^upgraded to \S+: 3 clients moved, none left behind, pause [\d.]+ s\n$")

            two = old.receive()
            self.assertEqual((two[0], two[1][-6:]), (0x34, b"twice?"))  # QoS 2; sent before
            old.send(whole[9:])
            self.assertEqual(old.receive(), (0x40, b"\x00\x07"))  # nothing was sent again
            for first, answered in ((0x40, one), (0x50, two)):
                old.send(packet(first, packet_id_of(answered)))
            self.assertEqual(old.receive(), (0x62, packet_id_of(two)))
            old.send(packet(0x70, packet_id_of(two)))
            parts = new.receive()
            self.assertEqual((parts[0], parts[1][-12:]), (0x32, b"in two parts"))
            new.send(packet(0x40, packet_id_of(parts)))
            new.send(packet(0x62, b"\x00\x09"))
            self.assertEqual(new.receive(), (0x70, b"\x00\x09"))
            for client in (old, new):
                client.ping()
            self.assertEqual(gateway.events(), events)
            online = gateway.get_json("/api/v1/users?state=online")[1]["users"]
            self.assertEqual({user["user"] for user in online}, {"old", "new", "alice"})

    def test_a_session_that_is_not_stored_keeps_subscriptions_will_and_aliases(self):
        with gateway_for() as gateway:
            watcher = gateway.connect("watcher", clean=False)
            watcher.subscribe("will/#", "room/#")
            short = gateway.connect("short", version=5, will=("will/short", b"gone"))
            alias = b"\x03\x23\x00\x01"  # a list of properties: Topic Alias 1
            short.send(packet(0x30, text("room/a") + alias + b"1"))
            self.assertEqual(watcher.receive_publish(), ("room/a", b"1"))
            short.subscribe("room/b")
            gateway.upgrade()
            short.send(packet(0x30, text("") + alias + b"2"))
            self.assertEqual(watcher.receive_publish(), ("room/a", b"2"))
            watcher.publish("room/b", b"to short")
            self.assertEqual(short.receive_publish(), ("room/b", b"to short"))
            self.assertEqual(watcher.receive_publish(), ("room/b", b"to short"))
            short.close()
            self.assertEqual(watcher.receive_publish(), ("will/short", b"gone"))

    def test_with_another_number_of_shards(self):
        with gateway_for() as gateway:
            crowd = [gateway.connect(f"c{i}", clean=i % 2 == 0) for i in range(20)]
            for client in crowd:
                client.subscribe("room/all", qos=1)
            for shards in (3, 1, 2):
                gateway.settings.write_text(f"shards = {shards}\n")
                gateway.upgrade()
                self.assertEqual(len(gateway.get_json("/api/v1/status")[1]["shards"]), shards)
                crowd[0].publish("room/all", b"%d" % shards, qos=1, packet_id=shards)
                for client in crowd[1:]:
                    self.assertEqual(client.receive_publish(), ("room/all", b"%d" % shards))
                answers = {crowd[0].receive()[0] >> 4 for _ in range(2)}
                self.assertEqual(answers, {3, 4})
                for number in range(10):  # of which some would come to the socket of a shard that there is no more
                    gateway.connect(f"new-{number}").close()

    def test_clients_over_tls_and_websocket_move(self):
        authority = Certificates()
        certificate, key = authority.issue("server", host="localhost")
        with gateway_for("--listen", "mqtts://127.0.0.1:0", "--tls-cert", certificate,
                         "--tls-key", key) as gateway:
            context = ssl.create_default_context(cafile=authority.ca)
            client = Client(port_of(gateway, "mqtts"))
            client.socket = context.wrap_socket(client.socket, server_hostname="localhost")
            client.login("tls")
            client.subscribe("room/tls")
            for number in range(3):
                gateway.upgrade()
                client.publish("room/tls", b"%d" % number)
                self.assertEqual(client.receive_publish(), ("room/tls", b"%d" % number))
                client.ping()
            client.close()

    def test_clients_that_cannot_move_are_told_the_reason(self):
        authority = Certificates()
        certificate, key = authority.issue("server", host="localhost")
        with gateway_for("--listen", "mqtts://127.0.0.1:0", "--tls-cert", certificate,
                         "--tls-key", key) as gateway:
            moves = gateway.connect("moves")
            context = ssl.create_default_context(cafile=authority.ca)
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            stays = Client(port_of(gateway, "mqtts"))
            stays.socket = context.wrap_socket(stays.socket, server_hostname="localhost", suppress_ragged_eofs=False)
            stays.login("stays", version=5)
            said = "1 clients moved, 1 left behind (1 TLS kept by OpenSSL), pause "
            self.assertIn(said, gateway.upgrade())
            self.assertIn(said, gateway.log)
            kind, body = stays.receive()
            self.assertEqual((kind, body[0]), (0xE0, 0x8B))  # DISCONNECT: server shutting down
            self.assertEqual(stays.socket.recv(1), b"")  # after a close_notify
            stays.close()
            moves.ping()

    def test_clients_that_the_new_process_refuses_are_told_so_by_the_old_one(self):
        authority = Certificates()
        certificate, key = authority.issue("server", host="localhost")
        with gateway_for("--listen", "mqtts://127.0.0.1:0", "--listen", "ws://127.0.0.1:0", "--tls-cert", certificate,
                         "--tls-key", key) as gateway:

            def upgrade(clients=1):
                wait_until(lambda: gateway.get_json("/api/v1/status")[1]["clients"]["connected"] == clients, what="the clients")
                program, _ = program_with_fault(gateway.folder.name, binary(), does="damage", at="client", number=1)
                has_moved, said = gateway.try_to_upgrade(program)
                self.assertTrue(has_moved, said)
                self.assertIn("1 left behind (1 refused by the new process)", said)

            with self.subTest("one of three"):
                three = [gateway.connect(f"c{number}", version=5) for number in range(3)]
                upgrade(3)
                (refused,) = select.select([each.socket for each in three], [], [], PATIENCE)[0]
                for client in three:
                    if client.socket is refused:
                        kind, body = client.receive()
                        self.assertEqual((kind, body[0]), (0xE0, 0x8B))  # DISCONNECT: server shutting down
                        self.assertEqual(refused.recv(1), b"")
                    else:
                        client.ping()
                    client.close()
            with self.subTest("TLS"):
                context = ssl.create_default_context(cafile=authority.ca)
                client = Client(port_of(gateway, "mqtts"))
                client.socket = context.wrap_socket(client.socket, server_hostname="localhost", suppress_ragged_eofs=False)
                client.login("tls", version=5)
                upgrade()
                kind, body = client.receive()
                self.assertEqual((kind, body[0]), (0xE0, 0x8B))
                self.assertEqual(client.socket.recv(1), b"")  # after a close_notify
                client.close()
            with self.subTest("WebSocket"):
                page = WebSocket(port_of(gateway, "ws"))
                page.log_in()
                upgrade()
                self.assertEqual(page.next(), (8, b"\x03\xe9"))  # a Close frame: going away
                page.socket.close()

    def test_the_last_packets_of_a_client_that_has_closed_tls_or_its_websocket_are_handled(self):
        authority = Certificates()
        certificate, key = authority.issue("server", host="localhost")
        listeners = ("--listen", "mqtts://127.0.0.1:0", "--listen", "ws://127.0.0.1:0", "--tls-cert", certificate,
                     "--tls-key", key)
        messages = [b"%d" % number for number in range(20)]
        packets = b"".join(publish_packet("room/a", message) for message in messages)
        # It is read at once with the end behind it, but the rate lets the gateway handle only a part of it.
        with gateway_for(*listeners, settings="shards = 2\nmax-message-rate = 5\n") as gateway:
            with self.subTest("WebSocket"), gateway.connect("ann") as ann:
                ann.subscribe("room/a")
                page = WebSocket(port_of(gateway, "ws"))
                page.log_in()
                page.send(frame(packets), frame(b"\x03\xe8", opcode=8))
                self.assertEqual(ann.receive_publish(), ("room/a", messages[0]))
                gateway.upgrade()
                self.assertEqual([ann.receive_publish()[1] for _ in messages[1:]], messages[1:])
            with self.subTest("TLS"), gateway.connect("ann") as ann:
                ann.subscribe("room/a")
                client = TlsStream(port_of(gateway, "mqtts"), authority.ca)
                client.send(connect_packet("tls"))
                self.assertEqual(client.receive(4), b"\x20\2\0\0")
                client.send(packets, ends=True)
                self.assertEqual(ann.receive_publish(), ("room/a", messages[0]))
                gateway.upgrade()
                self.assertEqual([ann.receive_publish()[1] for _ in messages[1:]], messages[1:])

    def test_new_clients_wait_and_are_served(self):
        with gateway_for() as gateway:
            gateway.connect("stays")
            stop = threading.Event()
            refused = []

            def come_and_go():
                number = 0
                while not stop.is_set():
                    number += 1
                    try:
                        with Client(gateway.port) as client:
                            client.login(f"n{number}")
                    except (OSError, AssertionError) as error:
                        refused.append(repr(error))

            comer = threading.Thread(target=come_and_go)
            comer.start()
            try:
                for _ in range(3):
                    gateway.upgrade()
            finally:
                stop.set()
                comer.join()
            # A login that is under way when all stands still may be cut off; a connection is never refused.
            self.assertFalse([each for each in refused if "refused" in each.lower()], refused)

    def test_a_request_that_is_repeated_after_it_is_not_carried_out_again(self):
        with gateway_for() as gateway:
            reader = gateway.connect("reader", clean=False)
            reader.subscribe("room/a", qos=1)
            request = ("POST", "/api/v1/publish", {"topic": "room/a", "payload": "once"})
            first = gateway.ask(*request, fields={"Idempotency-Key": "k"})
            self.assertEqual((first[0], reader.receive_publish()), (200, ("room/a", b"once")))
            gateway.upgrade()
            self.assertEqual(gateway.ask(*request, fields={"Idempotency-Key": "k"}), first)
            self.assertEqual(gateway.ask(*request[:2], {"topic": "room/a"}, fields={"Idempotency-Key": "k"})[0], 422)
            gateway.connect("alice").publish("room/a", b"the next one", qos=1)
            self.assertEqual(reader.receive_publish(), ("room/a", b"the next one"))

    def test_a_request_that_is_under_way_is_carried_out_once(self):
        with gateway_for() as gateway, contextlib.ExitStack() as ends:
            reader = gateway.connect("reader", clean=False)
            reader.subscribe("room/a", qos=1)
            reader.disconnect()
            done, over, end = [], threading.Event(), time.monotonic() + 5 * PATIENCE

            def publish(sender):
                number = 0
                while number < 2000 and not over.is_set():  # no more than a queue takes
                    status = 0
                    while status != 200:
                        if time.monotonic() > end:
                            return
                        with contextlib.suppress(OSError, http.client.HTTPException):
                            status = gateway.ask("POST", "/api/v1/publish", {"topic": "room/a"},
                                                 {"Idempotency-Key": f"{sender}-{number}"})[0]
                    number += 1
                done.append(number)

            senders = [threading.Thread(target=publish, args=(sender,)) for sender in range(4)]
            ends.callback(lambda: [sender.join() for sender in senders])
            ends.callback(over.set)
            for sender in senders:
                sender.start()
            for _ in range(3):
                gateway.upgrade()
            ends.close()
            self.assertEqual(len(done), len(senders))
            self.assertEqual(gateway.metric("pulsegate_messages_queued"), sum(done))

    def test_a_rehearsal_changes_nothing(self):
        with gateway_for(events=True) as gateway:
            client = gateway.connect("stays", clean=False)
            client.subscribe("room/a", qos=1)
            before = (gateway.get_json("/api/v1/status")[1]["pid"], gateway.events())
            self.assertRegex(gateway.upgrade("--dry-run"), "^rehearsed the upgrade to .*: 1 clients would move")
            self.assertEqual((gateway.get_json("/api/v1/status")[1]["pid"], gateway.events()), before)
            client.publish("room/a", b"still here", qos=1)
            self.assertEqual({client.receive()[0] >> 4 for _ in range(2)}, {3, 4})
            gateway.upgrade()
            client.ping()


class SlowClientTest(unittest.TestCase):
    def test_the_new_process_writes_nothing_before_it_serves(self):
        """Otherwise the client would get the same bytes from both processes."""
        settings = 'shards = 2\nmax-queued-bytes = "64MiB"\noutput-budget = "40MiB"\nmax-byte-rate = 0\n'
        with gateway_for(settings=settings) as gateway, gateway.connect("ann") as ann:
            ann.publish("inbox/bob", b"before", qos=1)
            self.assertEqual(ann.receive()[0], 0x40)
            bob = Client(gateway.port, receive_buffer=4096)
            bob.version = 5
            bob.send(packet(0x10, text("MQTT") + b"\5\2\0\0" + b"\3\x21\0\x78" + text("bob")))  # Receive Maximum 120
            self.assertEqual(bob.receive()[0], 0x20)
            self.assertEqual(bob.receive_publish(), ("inbox/bob", b"before"))  # his inbox stays while he is connected
            bob.subscribe("room/a", qos=1)
            messages = [b"%03d" % number + bytes(200_000) for number in range(160)]
            for number, message in enumerate(messages):
                ann.publish("room/a", message, qos=1, packet_id=1 + number)
                self.assertEqual(ann.receive()[0], 0x40)
            # Messages are queued, his window has room, and less than a quarter of the budget waits to be written.
            got = [bob.receive_publish()[1] for _ in range(10)]
            unacknowledged = []
            while gateway.metric("pulsegate_output_waiting_bytes") >= 10 << 20:
                unacknowledged.append(bob.receive())
            for _ in range(4):  # the kernel has room for a part of a message then
                unacknowledged.append(bob.receive())
                gateway.upgrade("--dry-run")
            gateway.upgrade()
            for publish in unacknowledged:
                got.append(publish[1][-len(messages[0]):])
                bob.send(packet(0x40, packet_id_of(publish)))
            while len(got) < len(messages):
                got.append(bob.receive_publish()[1])
            self.assertEqual([message[:3] for message in got], [message[:3] for message in messages])
            self.assertEqual(got, messages)
            bob.ping()


class FailedUpgradeTest(unittest.TestCase):
    def script(self, gateway, text):
        path = Path(gateway.folder.name) / "program"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return str(path)

    def test_the_old_process_goes_on(self):
        with gateway_for() as gateway:
            client = gateway.connect("stays", clean=False)
            client.subscribe("room/a", qos=1)
            programs = {
                "/nowhere": "can't start /nowhere",
                "/bin/true": "the other process has ended",
                self.script(gateway, "kill -9 $$"): "the other process has ended",
            }
            for program, why in programs.items():
                self.assertIn(why, gateway.fail_to_upgrade(program))
                client.publish("room/a", b"x", qos=1)
                self.assertEqual({client.receive()[0] >> 4 for _ in range(2)}, {3, 4})

    def test_the_new_process_is_a_child_of_the_service_manager(self):
        """systemd waits for its own children only when a service is to stop."""
        with gateway_for() as gateway:
            told = Path(gateway.folder.name) / "parent"
            gateway.fail_to_upgrade(self.script(gateway, f"echo $PPID >{told}"))
            self.assertNotIn(int(told.read_text()), [gateway.pid, 0])

    def test_wrong_settings_are_named(self):
        with gateway_for() as gateway:
            gateway.settings.write_text("shards = 2\nidle-timeoot = 5\n")
            self.assertIn("idle-timeout", gateway.fail_to_upgrade())
            gateway.settings.write_text("shards = 2\n")
            arguments = f"$(echo \"$@\" | sed s#{gateway.data}#{gateway.data}-2#)"
            moved = self.script(gateway, f"exec {binary()} {arguments}")
            self.assertIn("in another folder", gateway.fail_to_upgrade(moved))
            gateway.connect("new").ping()

    def test_clients_may_rely_on_what_the_connack_has_promised(self):
        with gateway_for() as gateway:
            client = gateway.connect("stays", version=5)
            for setting in ('max-packet-size = "128KiB"', "max-qos = 1", "receive-maximum = 255", "retain-available = false",
                            "shared-subscriptions = false", "topic-alias-maximum = 15", "wildcard-subscriptions = false"):
                with self.subTest(setting=setting):
                    gateway.settings.write_text(f"shards = 2\n{setting}\n")
                    said = gateway.fail_to_upgrade("--dry-run")
                    self.assertIn(f"{setting.split()[0]}: connected clients may rely on more", said)
            client.publish("room/a", b"x", qos=1)
            self.assertEqual(client.receive()[0] >> 4, 4)
            gateway.settings.write_text("shards = 2\nreceive-maximum = 300\n")
            gateway.upgrade()
            client.ping()

    def test_clients_that_logged_in_unchecked_do_not_stay_under_settings_that_check_logins(self):
        with gateway_for() as gateway:
            client = gateway.connect("stays", username="alice")
            users, secret = (Path(gateway.folder.name) / name for name in ("users", "secret"))
            users.touch()
            secret.write_text("s" * 32)
            for setting in (f'password-file = "{users}"', f'jwt-secret = "{secret}"', 'auth-hook = "http://127.0.0.1:1/"'):
                with self.subTest(setting=setting):
                    gateway.settings.write_text(f"shards = 2\n{setting}\n")
                    self.assertIn("the new process check them", gateway.fail_to_upgrade())
            client.ping()
            gateway.settings.write_text("shards = 2\nallow-anonymous = true\n")
            gateway.upgrade()
            client.ping()

    def test_a_new_process_that_is_killed_on_its_way_harms_nobody(self):
        with gateway_for() as gateway:
            client = gateway.connect("stays", clean=False)
            client.subscribe("room/a", qos=1)
            ways = set()
            for tenths in range(0, 12):
                moment = f"0.{tenths:02}"
                killed = self.script(gateway, f"(sleep {moment}; kill -9 $$) & exec {binary()} \"$@\"")  # the moment is the fault
                done = gateway.ctl("upgrade", "--dry-run", "--longest-pause", PAUSE, killed)
                ways.add(done.returncode)
                client.publish("room/a", b"x", qos=1)
                self.assertEqual({client.receive()[0] >> 4 for _ in range(2)}, {3, 4})
            self.assertIn(1, ways)
            gateway.upgrade()
            client.ping()

    def test_it_is_asked_for_by_the_unix_socket_only(self):
        with gateway_for() as gateway:
            status, answer = gateway.ask("POST", "/api/v1/upgrade")
            self.assertEqual((status, answer["code"]), (403, "local_only"))
        with Gateway("--admin-socket", Path(tempfile.gettempdir()) / f"admin-{os.getpid()}") as gateway:
            done = subprocess.run([str(binary()), "ctl", "--socket", gateway.command[-1], "upgrade"],
                                  capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual(done.returncode, 1)
            self.assertIn("data folder", done.stderr)


if __name__ == "__main__":
    unittest.main()
