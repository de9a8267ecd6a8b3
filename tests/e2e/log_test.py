"""The log, as text and as JSON."""

import json
import re
import tempfile
import unittest
from pathlib import Path

from gateway import Client, Gateway, connect_packet, wait_until

BANNED = 0x8A


def objects_in(log):
    """Of a log as JSON; every line must be one."""
    return [json.loads(line) for line in log.splitlines()]


class JsonLogTest(unittest.TestCase):
    def find(self, gateway, message):
        """The object with a message that this expression matches."""
        return wait_until(lambda: next((each for each in objects_in(gateway.log)
                                        if re.search(message, each["message"])), None), what=f"a line {message}")

    def gateway(self, *arguments):
        return self.enterContext(Gateway("--log-format", "json", *arguments))

    def test_every_line_is_an_object_with_time_level_and_message(self):
        gateway = self.gateway("--log-level", "debug")
        gateway.connect("phone").disconnect()
        self.find(gateway, "logout")
        gateway.stop()
        for line in objects_in(gateway.log):
            self.assertRegex(line["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d$")
            self.assertIn(line["level"], ("debug", "info", "warning", "error"))
            self.assertTrue(line["message"])
            self.assertLessEqual(set(line), {"time", "level", "message", "client", "user", "address", "reason"})

    def test_a_refused_login_has_all_fields(self):
        gateway = self.gateway()
        gateway.ask("PUT", "/api/v1/bans?user=eve&reason=spam")
        banned = self.find(gateway, "has banned")
        self.assertEqual((banned["level"], banned["user"], banned["reason"]), ("info", "eve", "spam"))
        with Client(gateway.port) as eve:
            eve.send(connect_packet("phone", version=5, username="eve"))
            self.assertEqual(eve.receive()[1][1], BANNED)
            address = f"127.0.0.1:{eve.socket.getsockname()[1]}"
        refused = self.find(gateway, "login refused")
        self.assertEqual({name: refused[name] for name in ("level", "client", "user", "address", "reason")},
                         {"level": "warning", "client": "phone", "user": "eve", "address": address,
                          "reason": "banned by the HTTP API: 'spam'"})
        self.assertEqual(refused["message"], f"{address} client 'phone' of user 'eve': login refused: {refused['reason']}")

    def test_a_name_with_quotes_is_whole(self):
        gateway = self.gateway("--log-logins")
        name = "it's a \"name\" \\ {}"
        gateway.connect("phone", username=name)
        self.assertEqual(self.find(gateway, ": login$")["user"], name)

    def test_a_line_of_the_audit_log_has_the_address(self):
        gateway = self.gateway()
        self.assertEqual(gateway.ask("PUT", "/api/v1/bans", {"user": "bob"})[0], 200)
        self.assertEqual(self.find(gateway, "^audit: ")["address"], "127.0.0.1")

    def test_a_reload_changes_the_format(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "pulsegate.toml"
            file.write_text('log-format = "text"\n')
            gateway = self.enterContext(Gateway("--config", file))
            file.write_text('log-format = "json"\nlog-logins = true\n')
            self.assertEqual(sorted(each.split(" ")[0] for each in gateway.ask("POST", "/api/v1/reload")[1]["applied"]),
                             ["log-format", "log-logins"])
            gateway.connect("phone", username="bob").disconnect()
            gateway.wait_for_log("logout")
            lines = [json.loads(line) for line in gateway.log.splitlines() if line.startswith("{")]
            login = next(line for line in lines if line["message"].endswith(": login"))
            self.assertEqual((login["level"], login["client"], login["user"]), ("info", "phone", "bob"))
            gateway.stop()


class TextLogTest(unittest.TestCase):
    def test_logins_are_told_only_if_that_is_wanted(self):
        for arguments, count in (([], 0), (["--log-logins"], 1)):
            with self.subTest(arguments), Gateway(*arguments) as gateway:
                gateway.connect("phone", username="bob").disconnect()
                wait_until(lambda: gateway.metric("pulsegate_connections") == 0, what="the end")
                said = r" info 127.0.0.1:\d+ client 'phone' of user 'bob': "
                if count:
                    gateway.wait_for_log(said + "logout")
                self.assertEqual(len(re.findall(said + "login$", gateway.log, re.M)), count)
                self.assertEqual(len(re.findall(said + "logout", gateway.log)), count)


if __name__ == "__main__":
    unittest.main()
