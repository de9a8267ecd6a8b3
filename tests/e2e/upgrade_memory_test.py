"""An upgrade: what the old process has in memory only, besides its clients, the new one goes on with."""

import calendar
import json
import ssl
import time
import unittest
from operator import itemgetter

from certificates import Certificates
from credentials import Folder
from gateway import Client, port_of, wait_until
from history_test import history
from upgradable import gateway_for

BAD_PASSWORD, BANNED = 0x86, 0x8A


def bans(gateway):
    """Each without the time at which it ends, and these times in seconds."""
    all_bans = sorted(gateway.get_json("/api/v1/bans")[1]["bans"], key=json.dumps)
    ends = [calendar.timegm(time.strptime(ban.pop("ends")[:19], "%Y-%m-%dT%H:%M:%S")) for ban in all_bans if "ends" in ban]
    return sorted(all_bans, key=json.dumps), sorted(ends)


def break_off(gateway, user, times):
    """Connections that break, one after the other."""
    def broken():
        return sum(event["event"] == "disconnected" for event in history(gateway, user))

    before = broken()
    for number in range(times):
        gateway.connect("phone", username=user).close()
        wait_until(lambda: broken() == before + number + 1, what="the end of a connection")  # noqa: B023


class UpgradeMemoryTest(Folder):
    def guarded(self, *arguments):
        return gateway_for("--password-file", self.password_file(alice="right"), *arguments)

    def test_an_address_stays_banned(self):
        with self.guarded("--ban-failures", "3") as gateway:
            for number in range(3):
                self.assertEqual(self.code(gateway, "alice", f"wrong {number}"), BAD_PASSWORD)
            before, ends_before = bans(gateway)
            self.assertEqual(before, [{"address": "127.0.0.1", "by": "gateway"}])
            gateway.upgrade()
            self.assertEqual(self.code(gateway, "alice", "right"), BANNED)
            after, ends_after = bans(gateway)
            self.assertEqual(after, before)
            self.assertAlmostEqual(ends_after[0], ends_before[0], delta=10)
            self.assertEqual(gateway.ask("DELETE", "/api/v1/bans?address=127.0.0.1")[0], 200)
            self.assertEqual(self.code(gateway, "alice", "right"), 0)

    def test_wrong_passwords_from_before_count(self):
        with self.guarded("--ban-failures", "3") as gateway:
            for number in range(2):
                self.assertEqual(self.code(gateway, "alice", f"wrong {number}"), BAD_PASSWORD)
            gateway.upgrade()
            # A phone that repeats an old password guesses nothing.
            for password, code in (("wrong 0", BAD_PASSWORD), ("right", 0), ("wrong 2", BAD_PASSWORD), ("right", BANNED)):
                self.assertEqual(self.code(gateway, "alice", password), code, password)

    def test_clients_stay_banned_with_another_number_of_shards_and_broken_connections_count(self):
        with gateway_for("--ban-flaps", "3") as gateway:
            for user, times in (("ann", 3), ("bob", 2), ("cat", 2)):
                break_off(gateway, user, times)
            self.assertEqual(gateway.ask("PUT", "/api/v1/bans?user=dan&reason=spam")[0], 200)
            before, _ = bans(gateway)
            self.assertEqual([(ban["user"], ban["by"]) for ban in before], [("ann", "gateway"), ("dan", "administrator")])
            gateway.settings.write_text("shards = 3\n")
            gateway.upgrade()
            self.assertEqual(bans(gateway)[0], before)
            for user in ("bob", "cat"):
                break_off(gateway, user, 1)
            now_banned = {"ann", "bob", "cat", "dan"}
            self.assertEqual(set(map(itemgetter("user"), bans(gateway)[0])), now_banned)
            gateway.settings.write_text("shards = 1\n")
            gateway.upgrade()
            self.assertEqual(set(map(itemgetter("user"), bans(gateway)[0])), now_banned)

    def test_histories_go_on(self):
        with self.guarded() as gateway:
            self.assertEqual(self.code(gateway, "alice", "right", "phone"), 0)
            users = {"alice": {"login": 1}, "bob": {"login_refused": 0}, "eve": {"login_refused": 0}}
            for shards in (2, 3, 1, 2):
                for user in ("bob", "eve", "eve"):  # users that are never let in, on any shard
                    self.assertEqual(self.code(gateway, user, "guess", "phone"), BAD_PASSWORD)
                    users[user]["login_refused"] += 1
                before = {user: sorted(history(gateway, user), key=json.dumps) for user in users}
                gateway.settings.write_text(f"shards = {shards}\n")
                gateway.upgrade()
                for user, events in users.items():
                    after = history(gateway, user)
                    self.assertEqual(sorted(after, key=json.dumps), before[user])
                    for event, times in events.items():
                        self.assertEqual(sum(one.get("count", 1) for one in after if one["event"] == event), times)
            self.assertEqual(gateway.ask("DELETE", "/api/v1/users/eve")[0], 200)
            self.assertEqual(history(gateway, "eve"), [])

    def test_a_history_of_many_events_goes_on(self):
        with gateway_for("--ban-flaps", "0") as gateway:
            for number in range(1500):
                with Client(gateway.port) as client:
                    client.login("phone", username=f"user{number}").disconnect()
            stays = gateway.connect("tablet", username="user0")
            before = [sorted(history(gateway, f"user{number}"), key=json.dumps) for number in range(0, 1500, 100)]
            gateway.upgrade()
            stays.ping()
            after = [sorted(history(gateway, f"user{number}"), key=json.dumps) for number in range(0, 1500, 100)]
            self.assertEqual(after, before)

    def test_tls_sessions_resume_with_tickets_from_before(self):
        authority = Certificates()
        self.addCleanup(authority.folder.cleanup)
        certificate, key = authority.issue("server", host="localhost")
        with gateway_for("--listen", "mqtts://127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key) as gateway:
            for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                context = ssl.create_default_context(cafile=authority.ca)
                context.minimum_version = context.maximum_version = version
                session = None
                for _ in range(3):
                    with Client(port_of(gateway, "mqtts")) as client:
                        client.socket = context.wrap_socket(client.socket, server_hostname="localhost", session=session)
                        self.assertEqual(client.socket.session_reused, session is not None)
                        client.login("tls")
                        session = client.socket.session
                    gateway.upgrade()


if __name__ == "__main__":
    unittest.main()
