"""Tokens of the HTTP API: their roles, their files, and what the log says of changes."""

import http.client
import json
import re
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from gateway import Gateway, binary

ROLES = ["read", "publish", "operate"]
PLAIN = "0123456789abcdef0123456789abcdef"


def make_token(name, role):
    """The token, and its line."""
    made = subprocess.run([str(binary()), "token", name, role], capture_output=True, text=True, timeout=60)
    assert made.returncode == 0, made.stderr
    return made.stdout.splitlines()


class TokenTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.plain = self.folder / "token"
        self.plain.write_text(PLAIN + "\n")
        self.file = self.folder / "tokens"
        self.tokens, lines = {}, ["# the roles of tokens", ""]
        for role in ROLES:
            self.tokens[role], line = make_token(f"the-{role}", role)
            lines.append(line)
        self.write(lines)
        self.plain.chmod(0o600)

    def write(self, lines):
        self.file.write_text("\n".join(lines) + "\n")
        self.file.chmod(0o600)

    def start(self):
        return self.enterContext(Gateway("--admin-token-file", self.plain, "--admin-tokens-file", self.file))

    def ask(self, gateway, method, path, token=None, body=None, **fields):
        connection = http.client.HTTPConnection("127.0.0.1", gateway.http_port, timeout=60)
        try:
            if token:
                fields["Authorization"] = f"Bearer {token}"
            connection.request(method, path, body=body, headers=fields)
            answer = connection.getresponse()
            text = answer.read().decode()
            is_json = answer.headers["Content-Type"] == "application/json"
            return answer.status, json.loads(text) if is_json and text else text
        finally:
            connection.close()

    def test_the_word_bearer_may_have_any_case(self):
        gateway = self.start()
        for word, status in (("bearer", 200), ("BEARER", 200), ("Basic", 401), ("Bearer2", 401)):
            fields = {"Authorization": f"{word} {self.tokens['read']}"}
            self.assertEqual(self.ask(gateway, "GET", "/api/v1/status", **fields)[0], status, word)

    def test_each_route_with_each_role(self):
        gateway = self.start()
        _, index = self.ask(gateway, "GET", "/api/v1", self.tokens["read"])
        asked = 0
        for resource in index["resources"]:
            for method, needed in resource.get("roles", {}).items():
                # No name or number that this could change anything of.
                path = re.sub(r"{\w+}", "%00", resource["path"]) + "?nonsense=1"
                for role in [*ROLES, "admin", None, "wrong"]:
                    with self.subTest(f"{role}: {method} {path}"):
                        token = PLAIN if role == "admin" else "x" * 64 if role == "wrong" else self.tokens.get(role)
                        status, said = self.ask(gateway, method, path, token)
                        if role in (None, "wrong"):
                            self.assertEqual((status, said["code"]), (401, "bad_token"))
                        elif role == "admin" or ROLES.index(role) >= ROLES.index(needed):
                            self.assertNotIn(status, (401, 403), said)
                        else:
                            self.assertEqual((status, said["code"], said["role"]), (403, "role_needed", needed))
                            self.assertIn(needed, said["error"])
                        asked += 1
        self.assertGreater(asked, 200)
        is_free = {one["path"] for one in index["resources"] if "roles" not in one}
        self.assertEqual(is_free, {"/healthz", "/readyz", "/", "/reference", "/dashboard/{file}", "/chat",
                                   "/chat/{file}"})

    def test_what_is_no_get_needs_more_than_read(self):
        gateway = self.start()
        _, index = self.ask(gateway, "GET", "/api/v1", self.tokens["read"])
        for resource in index["resources"]:
            for method, needed in resource.get("roles", {}).items():
                with self.subTest(f"{method} {resource['path']}"):
                    publishes = resource["path"].startswith(("/api/v1/publish", "/api/v1/delayed"))
                    reads = method == "GET" and resource["path"] != "/api/v1/trace"  # which shows a user's traffic
                    expected = "read" if reads else "publish" if publishes else "operate"
                    self.assertEqual(needed, expected)

    def test_tokens_are_changed_without_a_restart(self):
        gateway = self.start()
        new, line = make_token("new", "read")
        self.assertEqual(self.ask(gateway, "GET", "/api/v1/users", new)[0], 401)
        self.write([line])
        self.plain.write_text("fedcba9876543210\n")
        gateway.process.send_signal(signal.SIGHUP)
        gateway.wait_for_log("admin tokens reloaded")
        self.assertEqual(self.ask(gateway, "GET", "/api/v1/users", new)[0], 200)
        self.assertEqual(self.ask(gateway, "GET", "/api/v1/users", "fedcba9876543210")[0], 200)
        for old in (PLAIN, *self.tokens.values()):
            self.assertEqual(self.ask(gateway, "GET", "/api/v1/users", old)[0], 401)

    def test_a_stream_ends_with_its_token(self):
        gateway = self.start()
        stream = http.client.HTTPConnection("127.0.0.1", gateway.http_port, timeout=60)
        self.addCleanup(stream.close)
        stream.request("GET", "/api/v1/trace?user=ann", headers={"Authorization": f"Bearer {self.tokens['operate']}"})
        answer = stream.getresponse()
        self.assertEqual(answer.status, 200)
        self.write([make_token("new", "read")[1]])
        gateway.process.send_signal(signal.SIGHUP)
        gateway.wait_for_log("admin tokens reloaded")
        gateway.connect("ann").disconnect()  # which the stream would tell
        self.assertNotIn(b"event: trace", answer.read())

    def test_a_question_that_waits_is_refused_when_its_token_ends(self):
        gateway = self.enterContext(Gateway("--admin-tokens-file", self.file, "--presence-feed", "on", "--data",
                                            self.folder / "data"))
        fields = {"Authorization": f"Bearer {self.tokens['read']}"}
        cursor = self.ask(gateway, "GET", "/api/v1/presence/changes", **fields)[1]["cursor"]
        poll = http.client.HTTPConnection("127.0.0.1", gateway.http_port, timeout=60)
        self.addCleanup(poll.close)
        poll.request("GET", f"/api/v1/presence/changes?after={cursor}&wait=60", headers=fields)
        self.assertEqual(self.ask(gateway, "GET", "/api/v1/status", **fields)[0], 200)  # the request before this one has been read
        self.write([make_token("new", "read")[1]])
        gateway.process.send_signal(signal.SIGHUP)
        gateway.wait_for_log("admin tokens reloaded")
        gateway.connect("phone", username="ann")
        self.assertEqual(poll.getresponse().status, 401)

    def test_a_mistake_in_the_file_keeps_the_tokens_and_is_named_with_its_line(self):
        gateway = self.start()
        digest = "0" * 64
        for line, words in (("shop", "NAME:ROLE:HASH"), ("shop:operate", "NAME:ROLE:HASH"),
                            (f"sh op:read:{digest}", "the name"), (f"shop:write:{digest}", "read, publish or operate"),
                            (f"shop:read:{digest}0", "64 hexadecimal"), (f"shop:read:{'G' * 64}", "64 hexadecimal"),
                            (":read:", "the name"), (":", "NAME:ROLE:HASH"), ("# nothing", "has no token")):
            with self.subTest(line):
                self.write([line])
                seen = len(gateway.log)
                gateway.process.send_signal(signal.SIGHUP)
                found = gateway.wait_for_log(r"(?s).{%d}.*admin tokens not reloaded: ([^\n]+)" % seen)[1]
                self.assertIn(words, found)
                self.assertIn("tokens:1" if "no token" not in words else "tokens: has no token", found)
                self.assertNotIn(digest, found)
                self.assertEqual(self.ask(gateway, "GET", "/api/v1/users", self.tokens["read"])[0], 200)
                self.write([line])
                with self.assertRaises(AssertionError) as refused:
                    Gateway("--admin-tokens-file", self.file).start()
                self.assertIn(words, str(refused.exception))

    def test_the_command_refuses_what_is_no_name_or_role(self):
        for arguments in (["shop", "write"], ["sh:op", "read"], ["", "read"], ["x" * 65, "read"], ["shop"]):
            made = subprocess.run([str(binary()), "token", *arguments], capture_output=True, text=True, timeout=60)
            self.assertEqual((made.returncode, made.stdout), (1, ""), arguments)
        first, second = make_token("shop", "read"), make_token("shop", "read")
        self.assertNotEqual(first[0], second[0])
        self.assertRegex(first[0], "^[0-9a-f]{64}$")
        self.assertNotIn(first[0], first[1])

    def test_the_log_names_the_author_of_each_change(self):
        gateway = self.start()
        secret = "what nobody is to read"
        message = json.dumps({"topic": "room/x", "payload": secret})
        self.ask(gateway, "POST", "/api/v1/publish", self.tokens["publish"], message)
        self.ask(gateway, "PUT", "/api/v1/bans?user=eve%0Aforged", self.tokens["operate"])
        self.ask(gateway, "PUT", "/api/v1/bans?user=eve", self.tokens["read"])
        self.ask(gateway, "DELETE", "/api/v1/bans?user=nobody", PLAIN)
        self.ask(gateway, "PUT", "/api/v1/bans?user=eve", "wrong")
        self.ask(gateway, "PUT", "/api/v1/bans?user=eve%27" + "x" * 2000, self.tokens["operate"])
        gateway.wait_for_log("x'\\.\\.\\. -> ")
        lines = re.findall(r"info audit: (.*)", gateway.log)
        self.assertEqual(lines[:5], [
            "the-publish POST '/api/v1/publish' -> 200 from 127.0.0.1",
            "the-operate PUT '/api/v1/bans?user=eve%0Aforged' -> 200 from 127.0.0.1",
            "the-read PUT '/api/v1/bans?user=eve' -> 403 from 127.0.0.1",
            "admin DELETE '/api/v1/bans?user=nobody' -> 404 from 127.0.0.1",
            "- PUT '/api/v1/bans?user=eve' -> 401 from 127.0.0.1"])
        self.assertEqual(len(lines), 6)
        self.assertLess(len(lines[5]), 1100)
        self.assertNotIn(secret, gateway.log)
        self.ask(gateway, "GET", "/api/v1/users", self.tokens["read"])
        self.assertEqual(len(re.findall("audit: ", gateway.log)), 6)

    def test_a_large_body_needs_a_token_that_may_send_one(self):
        gateway = self.start()
        body = json.dumps({"topic": "room/x", "payload": "x" * 100_000})
        for role, expected in (("publish", 200), ("read", 413), ("wrong", 413)):
            token = self.tokens.get(role, "wrong")
            self.assertEqual(self.ask(gateway, "POST", "/api/v1/publish", token, body)[0], expected, role)

    def test_another_sites_page_can_do_nothing(self):
        gateway = self.enterContext(Gateway())  # without tokens
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        for fields in ({"Host": "evil.example"}, {"Host": f"evil.example:{gateway.http_port}"}, {"Origin": "null"},
                       {"Origin": "http://evil.example"}, {"Origin": "null", **form},
                       {"Origin": "http://localhost:1", **form}, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "image"},
                       {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "iframe"}, {"Sec-Fetch-Site": "cross-site"}):
            for method, path, body in (("POST", "/api/v1/publish", '{"topic":"kept","retain":true}'),
                                       ("PUT", "/api/v1/bans?user=eve", None), ("GET", "/api/v1/users", None),
                                       ("GET", "/metrics", None)):
                with self.subTest(f"{method} {path} {fields}"):
                    status, said = self.ask(gateway, method, path, None, body, **fields)
                    self.assertEqual(status, 403, said)
                    self.assertIn(said["code"], ("foreign_host", "foreign_origin"))
        for site, kind in (("cross-site", "document"), ("same-origin", "empty"), ("same-site", "empty"), ("none", "document")):
            fields = {"Sec-Fetch-Site": site, "Sec-Fetch-Dest": kind}
            self.assertEqual(self.ask(gateway, "GET", "/api/v1/bans", None, None, **fields)[0], 200, fields)
        self.assertEqual(gateway.ask("GET", "/api/v1/bans")[1], {"bans": []})
        self.assertEqual(gateway.ask("GET", "/api/v1/retained")[1], {"retained": []})


if __name__ == "__main__":
    unittest.main()
