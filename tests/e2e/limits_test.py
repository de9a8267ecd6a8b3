"""Limits, turns and bans protect the gateway from overload, and other clients don't notice them."""

import json
import re
import socket
import ssl
import struct
import threading
import time
import unittest
import urllib.error
import urllib.request

import packets
from credentials import Folder
from certificates import Certificates
from gateway import Client, DISCONNECT, Gateway, PINGREQ, port_of, seconds_until, wait_until
from streams import WebSocket, frame

BUSY, BANNED, QUOTA, TAKEN_OVER = 0x89, 0x8A, 0x97, 0x8E
OLD_BUSY, OLD_NOT_AUTHORIZED = 3, 5


class Scene(unittest.TestCase):
    def gateway(self, *arguments, **options):
        gateway = Gateway(*arguments, **options)
        self.enterContext(gateway)
        return gateway

    def open(self, gateway, source=None):
        client = Client(gateway.port, source=source)
        self.addCleanup(client.close)
        return client

    def ask(self, gateway, name, version=5, source=None, username=None, password=None):
        """A client that has sent its CONNECT."""
        client = self.open(gateway, source)
        client.version = version
        client.send(packets.connect(version, name, username=username, password=password))
        return client

    @staticmethod
    def code(client):
        """The code of the CONNACK, or None if the connection was closed without one. A refused client disconnects."""
        answer = client.receive()
        assert answer is None or answer[0] == 0x20, f"no CONNACK: {answer}"
        code = answer and answer[1][1]
        if code != 0:
            client.close()
        return code

    def login(self, gateway, name, **options):
        client = self.ask(gateway, name, **options)
        self.assertEqual(self.code(client), 0)
        return client


class RoomTest(Scene):
    def test_beyond_max_connections_new_clients_are_refused_and_the_others_stay(self):
        gateway = self.gateway("--max-connections", 2)
        gateway.wait_for_log(r"room for 2 connections \(max-connections\)")
        first, second = self.login(gateway, "a"), self.login(gateway, "b")
        self.assertEqual(self.code(self.ask(gateway, "c")), BUSY)
        self.assertEqual(self.code(self.ask(gateway, "c", version=4)), OLD_BUSY)
        gateway.wait_for_log("client 'c' of user 'c': login refused: max-connections, or the limit on open files, is reached")
        first.ping()
        second.disconnect()
        wait_until(lambda: gateway.metric("pulsegate_open_files_headroom") == 1, what="room again")
        self.login(gateway, "c")

    def test_beyond_the_memory_budget_new_clients_are_refused(self):
        gateway = self.gateway("--memory-budget", "1MiB")
        gateway.wait_for_log("memory-budget is 1 MiB: new clients are refused")
        self.assertEqual(self.code(self.ask(gateway, "c")), BUSY)
        gateway.wait_for_log("client 'c' of user 'c': login refused: memory-budget is used up")
        self.assertGreater(gateway.metric("pulsegate_memory_bytes"), gateway.metric("pulsegate_memory_budget_bytes"))

    def test_one_address_may_have_so_many_connections(self):
        gateway = self.gateway("--max-connections-per-address", 2)
        crowd = [self.login(gateway, f"c{i}", source="127.0.0.2") for i in range(2)]
        self.assertEqual(self.code(self.ask(gateway, "c", source="127.0.0.2")), QUOTA)
        gateway.wait_for_log("its address has max-connections-per-address already")
        self.login(gateway, "elsewhere", source="127.0.0.3")
        crowd.pop().disconnect()
        wait_until(lambda: self.code(self.ask(gateway, "c", source="127.0.0.2")) == 0, what="a place")
        # Connections that send nothing are closed, and don't fill up the gateway.
        for _ in range(100):
            self.open(gateway, source="127.0.0.2")
        gateway.wait_for_log("127.0.0.2 rejected: its address is banned or has too many connections")

    def test_the_address_is_the_one_that_the_proxy_says(self):
        gateway = self.gateway("--max-connections-per-address", 1, "--allow-anonymous", "--listen",
                               "mqtt://127.0.0.1:0?proxy-protocol")

        def stand_there(address):
            client = Client(int(re.search(r":(\d+)\?proxy-protocol", gateway.log)[1]))
            self.addCleanup(client.close)
            client.send(f"PROXY TCP4 {address} 10.0.0.1 5000 1883\r\n".encode())
            return client

        def through_proxy(address, name):
            client = stand_there(address)
            client.version = 5
            client.send(packets.connect(5, name))
            return client

        first = through_proxy("10.0.0.7", "a")
        self.assertEqual(self.code(first), 0)
        self.assertEqual(self.code(through_proxy("10.0.0.7", "b")), QUOTA)
        self.assertEqual(self.code(through_proxy("10.0.0.8", "b")), 0)
        first.disconnect()
        wait_until(lambda: self.code(through_proxy("10.0.0.7", "b")) == 0, what="a place")
        # Connections that send nothing are closed here, too.
        for _ in range(100):
            stand_there("10.0.0.7")
        gateway.wait_for_log("10.0.0.7:5000.* rejected: its address is banned or has too many")

    def test_one_user_may_have_so_many_clients(self):
        gateway = self.gateway("--max-connections-per-user", 2)
        first = self.login(gateway, "phone", username="alice")
        self.login(gateway, "tablet", username="alice")
        self.assertEqual(self.code(self.ask(gateway, "watch", username="alice")), QUOTA)
        gateway.wait_for_log("client 'watch' of user 'alice': login refused: its user has max-connections-per-user already")
        self.login(gateway, "tablet", username="alice")  # takes its own place
        self.login(gateway, "watch", username="bob")
        first.disconnect()
        wait_until(lambda: self.code(self.ask(gateway, "watch", username="alice")) == 0, what="a place")


class TurnTest(Scene):
    def test_logins_wait_for_their_turn_and_addresses_take_turns(self):
        gateway = self.gateway("--login-rate", 20, "--login-wait", "30s", "--shards", 1, events=True)
        established = self.login(gateway, "established")
        started = time.monotonic()
        with gateway.standing_still():
            crowd = [self.ask(gateway, f"c{i}", source="127.0.0.2") for i in range(40)]
            single = self.ask(gateway, "single", source="127.0.0.3")
        established.ping()
        self.assertEqual([self.code(client) for client in (single, *crowd)], [0] * 41)
        self.assertGreater(time.monotonic() - started, 1.5)
        wait_until(lambda: len(gateway.events()) == 42, what="all of them")
        self.assertLess([event["user"] for event in gateway.events()].index("single"), 20)

    def test_a_login_that_waited_too_long_is_refused_with_a_reason(self):
        gateway = self.gateway("--login-rate", 1, "--login-wait", "1s", "--shards", 1)
        with gateway.standing_still():
            crowd = [self.ask(gateway, f"c{i}") for i in range(20)]
        codes = [self.code(client) for client in crowd]
        self.assertEqual(codes[0], 0)
        self.assertEqual(set(codes), {0, BUSY})
        self.assertLess(codes.count(0), 5)
        self.assertEqual(gateway.metric("pulsegate_limit_hits_total", limit="login-wait"), codes.count(BUSY))
        gateway.wait_for_log("its turn did not come within login-wait")

    def test_a_login_that_waits_for_its_turn_is_not_closed_for_a_missing_connect(self):
        gateway = self.gateway("--login-rate", 1, "--login-wait", "3s", "--login-timeout", "1s", "--shards", 1)
        with gateway.standing_still():
            crowd = [self.ask(gateway, f"c{i}") for i in range(10)]
        self.assertEqual({self.code(client) for client in crowd}, {0, BUSY})
        self.assertEqual(gateway.metric("pulsegate_login_timeouts_total"), 0)

    def test_a_client_that_left_the_queue_is_not_logged_in(self):
        gateway = self.gateway("--login-rate", 1, "--login-wait", "60s", "--shards", 1, events=True)
        self.login(gateway, "first")
        with gateway.standing_still():
            leavers = [self.ask(gateway, f"leaver{i}") for i in range(20)]
            last = self.ask(gateway, "last")
        wait_until(lambda: gateway.metric("pulsegate_logins_waiting") + gateway.metric("pulsegate_logins_total") >= 22,
                   what="a queue")
        for client in leavers:
            client.close()
        self.assertEqual(self.code(last), 0)
        gateway.wait_for_event(user="last")
        came = {event["user"] for event in gateway.events()}
        self.assertLess(len(came), 15)


class LagTest(Scene):
    def busy_gateway(self, *arguments):
        """A gateway with a loop that is late all the time: each of many SUBSCRIBEs takes some ms, even on a fast machine."""
        gateway = self.gateway("--shards", 1, "--max-subscriptions", 20000, "--max-packet-size", "1MiB",
                               "--max-client-memory", "15MiB", *arguments)
        clients = [self.login(gateway, f"busy{number}") for number in range(4)]
        subscribe = packets.subscribe(5, 1, [(f"room/{number}", 0) for number in range(20000)])
        stop = threading.Event()

        def keep_busy():
            while not stop.is_set():
                for client in clients:
                    client.send(subscribe)
                for client in clients:
                    self.assertEqual(client.receive(), (0x90, b"\0\1\0" + bytes(20000)))
        thread = threading.Thread(target=keep_busy)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(stop.set)
        return gateway

    def waits(self, gateway):
        self.code(self.ask(gateway, "newcomer"))
        return gateway.metric("pulsegate_limit_hits_total", limit="max-loop-lag")

    def test_logins_wait_while_the_loop_is_late(self):
        gateway = self.busy_gateway("--max-loop-lag", "1ms", "--duel-takeovers", 0)
        wait_until(lambda: self.waits(gateway), what="a login that waits")

    def test_with_more_patience_they_don_t(self):
        gateway = self.busy_gateway("--max-loop-lag", "60s", "--duel-takeovers", 0)
        self.assertFalse(any(self.waits(gateway) for _ in range(20)))


class RateTest(Scene):
    def flood(self, gateway, count, payload, version=4):
        """Seconds until all of the messages have arrived."""
        receiver = self.login(gateway, "receiver", version=version)
        receiver.subscribe("flood")
        sender = self.login(gateway, "sender", version=version)
        started = time.monotonic()
        sender.socket.settimeout(60)
        sender.send(b"".join(packets.publish(version, "flood", str(i).encode() + b" " + payload)
                             for i in range(count)) + PINGREQ)
        bystander = self.login(gateway, "bystander")
        bystander.ping()
        arrived = [receiver.receive_publish()[1] for _ in range(count)]
        self.assertEqual([int(message.split(b" ")[0]) for message in arrived], list(range(count)))
        self.assertEqual(sender.receive(), (0xD0, b""))
        return time.monotonic() - started

    def test_a_client_that_sends_too_many_messages_is_read_more_slowly_and_loses_none(self):
        gateway = self.gateway("--max-message-rate", 200)
        # A second's worth comes at once, the others in their time.
        self.assertGreater(self.flood(gateway, 600, b""), 1.9)
        self.assertGreater(gateway.metric("pulsegate_limit_hits_total", limit="max-message-rate"), 0)
        gateway.wait_for_log("client 'sender' of user 'sender' slowed: it sends more than max-message-rate or max-byte-rate")

    def test_a_client_that_sends_too_many_bytes_is_read_more_slowly_and_loses_none(self):
        gateway = self.gateway("--max-byte-rate", "100KiB")
        self.assertGreater(self.flood(gateway, 300, b"x" * 1000), 1.8)
        self.assertGreater(gateway.metric("pulsegate_limit_hits_total", limit="max-byte-rate"), 0)

    def test_pings_of_a_websocket_are_bytes_too(self):
        gateway = self.gateway("--max-byte-rate", "100KiB", "--listen", "ws://127.0.0.1:0")
        client = WebSocket(port_of(gateway, "ws"))
        self.addCleanup(client.socket.close)
        client.send(frame(packets.connect(4, "pinger", keepalive=60)))
        client.next()
        started = time.monotonic()
        client.send(frame(b"x" * 94, 10) * 3000)  # three seconds' worth of pongs, of which one may come at once
        client.send(frame(PINGREQ))
        self.assertEqual(client.next(), (2, b"\xd0\x00"))
        self.assertGreater(time.monotonic() - started, 1.5)
        self.assertGreater(gateway.metric("pulsegate_limit_hits_total", limit="max-byte-rate"), 0)

    def test_a_slowed_client_does_not_count_as_silent(self):
        gateway = self.gateway("--max-message-rate", 10, "--idle-timeout", "1s")
        client = self.open(gateway)
        client.send(packets.connect(4, "busy", keepalive=1))
        self.assertEqual(self.code(client), 0)
        client.send(PINGREQ * 50)  # four seconds' worth
        for _ in range(50):
            self.assertEqual(client.receive(), (0xD0, b""))

    def test_a_slowed_client_may_be_taken_over(self):
        gateway = self.gateway("--max-message-rate", 10)
        slowed = self.login(gateway, "c")
        slowed.send(PINGREQ * 30)
        wait_until(lambda: gateway.metric("pulsegate_limit_hits_total", limit="max-message-rate"), what="a slowed client")
        rival = self.login(gateway, "c")
        said = slowed.receive_until_closed()  # what it still had to say is nobody's any more
        self.assertEqual((said[-1][0], said[-1][1][0]), (0xE0, TAKEN_OVER))
        slowed.close()
        wait_until(lambda: gateway.metric("pulsegate_connections") == 1, what="the end of the old connection")
        rival.ping()

    def test_a_slowed_client_that_resets_is_offline_in_time(self):
        gateway = self.gateway("--max-message-rate", 10, events=True)
        client = self.open(gateway)
        client.send(packets.connect(4, "c", keepalive=1))
        self.assertEqual(self.code(client), 0)
        client.send(PINGREQ * 10_000)
        wait_until(lambda: gateway.metric("pulsegate_limit_hits_total", limit="max-message-rate"), what="a slowed client")
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        gateway.wait_for_event(user="c", state="offline", cause="connection_lost")

    def test_acknowledgements_are_free(self):
        gateway = self.gateway("--max-message-rate", 100)
        receiver = self.login(gateway, "receiver", version=4)
        receiver.subscribe("x", qos=1)
        senders = [self.login(gateway, f"sender{i}", version=4) for i in range(5)]
        for sender in senders:
            for i in range(90):
                sender.send(packets.publish(4, "x", b"", qos=1, packet_id=i + 1))
        for _ in range(450):
            receiver.receive_publish()
        receiver.ping()
        self.assertEqual(gateway.metric("pulsegate_limit_hits_total", limit="max-message-rate"), 0)

    def test_messages_one_by_one_are_counted_whatever_was_read_before_them(self):
        gateway = self.gateway("--max-message-rate", 2, "--shards", 1)
        client = self.login(gateway, "sender", version=4)
        client.publish("x", b"P" * 1000)  # 'P' at the beginning of a packet would be a PUBCOMP

        def is_slowed_by_one_more():
            client.publish("x", b"m", qos=1)
            client.receive()
            return gateway.metric("pulsegate_limit_hits_total", limit="max-message-rate") > 0
        wait_until(is_slowed_by_one_more, what="slowness")

    def test_a_slowed_client_ends_when_it_is_taken_over(self):
        gateway = self.gateway("--max-message-rate", 10)
        slow = self.login(gateway, "twin", version=4)
        slow.send(b"".join(packets.publish(4, "x", b"m") for _ in range(200)))
        wait_until(lambda: gateway.metric("pulsegate_limit_hits_total", limit="max-message-rate") > 0, what="slowness")
        successor = self.login(gateway, "twin", version=4)
        slow.receive_until_closed()
        wait_until(lambda: gateway.metric("pulsegate_connections") == 1, what="its end")
        successor.ping()

    def test_the_gateway_stops_in_order_while_a_client_is_slowed(self):
        gateway = self.gateway("--max-message-rate", 10)
        slow = self.login(gateway, "slow", version=4)
        slow.send(b"".join(packets.publish(4, "x", b"m") for _ in range(1000)))  # for 100 s
        wait_until(lambda: gateway.metric("pulsegate_limit_hits_total", limit="max-message-rate") > 0, what="slowness")
        gateway.stop()


class OutputTest(Scene):
    def test_all_clients_that_do_not_read_get_no_more_than_the_budget_together(self):
        gateway = self.gateway("--total-output-budget", "2MiB", "--shards", 1)
        deaf = []
        for i in range(40):
            client = Client(gateway.port, receive_buffer=4096)
            self.addCleanup(client.close)
            deaf.append(client.login(f"deaf{i}", version=5))
            client.subscribe("flood")
        reader = self.login(gateway, "reader")
        reader.subscribe("flood")
        sender = self.login(gateway, "sender", version=4)
        for i in range(400):
            sender.publish("flood", bytes(20_000), qos=1)
            sender.receive()
            self.assertEqual(len(reader.receive_publish()[1]), 20_000)
            self.assertLessEqual(gateway.metric("pulsegate_output_waiting_bytes") if i % 40 == 0 else 0,
                                 3 * 1024 * 1024)
        gateway.wait_for_log("slow consumer: total output budget exceeded")
        self.assertGreater(gateway.metric("pulsegate_limit_hits_total", limit="total-output-budget"), 0)


class BanTest(Scene, Folder):
    def guarded(self, *arguments, **options):
        users = self.password_file(alice="right")
        return self.gateway("--password-file", users, "--ban-failures", 5, *arguments, **options)

    def attempt(self, gateway, password, source="127.0.0.2", version=5):
        return self.code(self.ask(gateway, "c", version, source, "alice", password))

    def request(self, gateway, method, query=""):
        url = f"http://127.0.0.1:{gateway.http_port}/api/v1/bans{query}"
        try:
            with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=60) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def test_only_the_address_that_guesses_is_banned(self):
        gateway = self.guarded("--ban-time", "1h")
        established = self.login(gateway, "here before", source="127.0.0.2", username="alice", password="right")
        for i in range(5):
            self.assertEqual(self.attempt(gateway, f"wrong {i}"), 0x86)
        gateway.wait_for_log("127.0.0.2 banned for ban-time: too many wrong passwords from there .*"
                             "DELETE /api/v1/bans.address=127.0.0.2 lifts the ban")
        self.assertEqual(self.attempt(gateway, "right"), BANNED)
        self.assertEqual(self.attempt(gateway, "right", version=4), OLD_NOT_AUTHORIZED)
        self.assertEqual(self.attempt(gateway, "right", source="127.0.0.3"), 0)
        established.ping()
        self.assertEqual(gateway.metric("pulsegate_limit_hits_total", limit="ban-failures"), 2)

        status, listed = self.request(gateway, "GET")
        self.assertEqual((status, [ban["address"] for ban in listed["bans"]]), (200, ["127.0.0.2"]))
        self.assertLessEqual(seconds_until(listed["bans"][0]["ends"]), 3600)
        self.assertEqual(self.request(gateway, "DELETE", "?address=127.0.0.9")[0], 404)
        self.assertEqual(self.request(gateway, "DELETE", "?address=nonsense")[0], 400)
        self.assertEqual(self.request(gateway, "DELETE")[0], 400)
        self.assertEqual(self.request(gateway, "DELETE", "?address=127.0.0.2")[0], 200)
        self.assertEqual(self.attempt(gateway, "right"), 0)

    def test_a_ban_holds_for_clients_that_had_connected_before_it(self):
        gateway = self.guarded("--ban-time", "1h")
        early = [self.open(gateway, source="127.0.0.2") for _ in range(3)]
        for i in range(5):
            self.attempt(gateway, f"wrong {i}")
        for client in early:
            client.version = 5
            client.send(packets.connect(5, "c", username="alice", password="right"))
            self.assertEqual(self.code(client), BANNED)

    def test_a_ban_ends(self):
        gateway = self.guarded("--ban-time", "5s")
        for i in range(5):
            self.attempt(gateway, f"wrong {i}")
        self.assertEqual(self.attempt(gateway, "right"), BANNED)
        wait_until(lambda: self.attempt(gateway, "right") == 0, what="the end of the ban")

    def test_banned_addresses_get_no_handshake(self):
        certificates = Certificates()
        self.addCleanup(certificates.folder.cleanup)
        cert, key = certificates.issue("server", "localhost")
        gateway = self.guarded("--ban-time", "1h", "--listen", "mqtts://127.0.0.1:0", "--tls-cert", cert,
                               "--tls-key", key)
        for i in range(5):
            self.attempt(gateway, f"wrong {i}")
        with socket.create_connection(("127.0.0.1", port_of(gateway, "mqtts")), 60, ("127.0.0.2", 0)) as plain:
            with self.assertRaises((ssl.SSLError, ConnectionError)):
                ssl._create_unverified_context().wrap_socket(plain)
        gateway.wait_for_log("127.0.0.2:.* without login: kicked: rejected: its address is banned or has too many connections")

    def test_a_client_that_only_comes_and_says_goodbye_is_banned_after_ten_times_as_many(self):
        gateway = self.gateway("--ban-flaps", 2)
        for _ in range(20):
            client = self.login(gateway, "polite")
            client.send(DISCONNECT)
            self.assertEqual(client.receive_until_closed(), [])  # the gateway has counted it
        self.assertEqual(self.code(self.ask(gateway, "polite")), BANNED)
        self.login(gateway, "other")

    def test_a_client_that_breaks_off_all_the_time_is_banned_and_one_that_says_goodbye_is_not(self):
        gateway = self.gateway("--ban-flaps", 5, "--ban-time", "1h")
        for _ in range(20):
            self.login(gateway, "polite").send(DISCONNECT)
        for i in range(5):
            self.login(gateway, "flapping").close()
            wait_until(lambda: gateway.get_json("/api/v1/users/flapping")[1]["state"] == "offline", what="offline")
        gateway.wait_for_log("client 'flapping' of user 'flapping' banned for ban-time: it reconnects too often")
        self.assertEqual(self.code(self.ask(gateway, "flapping")), BANNED)
        self.login(gateway, "polite")
        self.assertEqual(gateway.metric("pulsegate_limit_hits_total", limit="ban-flaps"), 1)
        listed = self.request(gateway, "GET")[1]["bans"]
        self.assertEqual([(ban["user"], ban["client"]) for ban in listed], [("flapping", "flapping")])
        self.assertEqual(self.request(gateway, "DELETE", "?user=flapping&client=other")[0], 404)
        self.assertEqual(self.request(gateway, "DELETE", "?user=flapping&client=flapping")[0], 200)
        self.login(gateway, "flapping")


class DuelTest(Scene):
    def test_two_devices_with_one_client_id_are_slowed_down_and_named(self):
        gateway = self.gateway("--duel-takeovers", 3, events=True)
        holder = self.login(gateway, "twin")
        for _ in range(3):
            rival = self.login(gateway, "twin")
            said = holder.receive_until_closed()
            self.assertEqual((said[0][0], said[0][1][0]), (0xE0, TAKEN_OVER))
            holder = rival
        asked = time.monotonic()
        rival = self.ask(gateway, "twin")
        gateway.wait_for_log("client 'twin' of user 'twin': taken over again and again, now by 127.0.0.1:.*: two "
                             "devices seem to use this client id. The new connection must wait for 1000 ms")
        self.assertEqual(self.code(rival), 0)
        self.assertGreaterEqual(time.monotonic() - asked, 1)  # nothing has happened to the holder for so long
        self.assertEqual(holder.receive_until_closed()[0][1][0], TAKEN_OVER)
        self.assertEqual(gateway.metric("pulsegate_limit_hits_total", limit="duel-takeovers"), 1)
        self.assertEqual({event["state"] for event in gateway.events("twin")}, {"online"})

    def test_a_client_that_leaves_before_its_takeover_takes_nothing_over(self):
        gateway = self.gateway("--duel-takeovers", 1, "--log-level", "debug")
        self.login(gateway, "twin")
        holder = self.login(gateway, "twin")
        rival = self.ask(gateway, "twin")
        rival.close()  # as soon as it has asked
        gateway.wait_for_log("The new connection must wait for 1000 ms")
        gateway.wait_for_log("without login: connection_lost: gone before its turn")
        holder.ping()


class WebSocketPingTest(Scene):
    def test_a_quiet_websocket_is_pinged_and_its_pongs_do_not_keep_it_alive(self):
        gateway = self.gateway("--listen", "ws://127.0.0.1:0", "--websocket-ping", "1s", "--idle-timeout", "4s",
                               events=True)
        client = WebSocket(port_of(gateway, "ws"))
        self.addCleanup(client.socket.close)
        client.log_in()
        pings = 0
        while True:
            opcode, body = client.next()
            if opcode != 9:
                break
            self.assertEqual(body, b"")
            pings += 1
            client.send(bytes([0x8A, 0x80, 0, 0, 0, 0]))
        self.assertEqual(opcode, 8)
        self.assertGreaterEqual(pings, 2)
        event = gateway.wait_for_event(user="w", state="offline")
        self.assertEqual(event["cause"], "timeout")
        self.assertGreaterEqual(event["silent_ms"], 4000)


if __name__ == "__main__":
    unittest.main()
