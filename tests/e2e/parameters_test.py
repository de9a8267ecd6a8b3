"""Every route with each parameter misspelt, doubled, empty and badly encoded: refused, and nothing has changed."""

import json
import re
import tempfile
import unittest

from gateway import Gateway
from ports import free_port

VALUES = {"user": "alice", "client": "phone", "address": "10.0.0.7", "seconds": "60", "reason": "x", "filter": "room/%23",
          "name": "n1", "limit": "5", "state": "online", "ids": "alice,bob", "all": "true", "sessions": "end", "wait": "0"}
SEGMENTS = {"user": "alice", "room": "lobby", "watcher": "bob"}
BODIES = {"/api/v1/publish": {"topic": "room/x", "payload": "changed", "retain": True},
          "/api/v1/delayed": {"topic": "room/x", "in": 1000, "user": "alice", "name": "n1"},
          "/api/v1/rooms/lobby/members": {"remove": ["alice"]},
          "/api/v1/users/alice/watchers": {"remove": ["bob"]}}


def without_spans(state):
    """Times that have passed meanwhile change nothing, nor does the millisecond in which two clocks were read."""
    return re.sub(r'"(ends_in_ms|silence)": [\d.]+|"last_packet": "[^"]+"', "", state)


class ParametersTest(unittest.TestCase):
    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.gateway = self.enterContext(Gateway("--data", f"{folder}/data", "--shards", "2", "--webhook",
                                                 f"http://127.0.0.1:{free_port()}/"))
        self.document = self.ask("GET", "/api/v1/openapi.json")
        for user in ("alice", "bob"):
            publisher = self.gateway.connect(f"{user}-phone", username=user, clean=False)
            publisher.publish(f"room/{user}", b"kept", qos=1, flags=1)
        for user, name in (("alice", "n1"), ("alice", "n2"), ("bob", "n1")):
            body = {"topic": "room/x", "in": 100_000, "user": user, "name": name}
            self.number = self.ask("POST", "/api/v1/delayed", body)["delayed"][0]["id"]
        for path in ("rooms/lobby/members/alice", "rooms/lobby/members/bob", "users/alice/watchers/bob",
                     "bans?user=carol", "bans?user=alice&client=old"):
            self.ask("PUT", f"/api/v1/{path}")

    def ask(self, method, target, body=None):
        status, said = self.gateway.ask(method, target, body)
        self.assertIn(status, (200, 201), said)
        return said

    def state(self):
        """Everything that a request could change."""
        paths = ("retained", "delayed", "bans", "rooms", "rooms/lobby/members", "users/alice/watchers",
                 "clients?user=alice", "clients?user=bob")
        return json.dumps([self.ask("GET", f"/api/v1/{path}") for path in paths])

    def resolved(self, parameter):
        name = parameter.get("$ref", "").rpartition("/")[2]
        return self.document["components"]["parameters"][name] if name else parameter

    def mistakes(self):
        """Method, path and query of requests that must be refused."""
        for path, methods in self.document["paths"].items():
            if not path.startswith("/api/v1"):
                continue
            number = re.sub("{id}", self.number, path)
            target = re.sub(r"{(\w+)}", lambda segment: SEGMENTS[segment[1]], number)
            for method, operation in methods.items():
                yield method.upper(), target, "nonsense=1"
                yield method.upper(), target, "="
                parameters = [self.resolved(one) for one in operation.get("parameters", [])]
                for one in (each["name"] for each in parameters if each["in"] == "query"):
                    value = VALUES.get(one, "1")
                    others = "user=alice" if one not in ("user", "filter", "address", "id", "all", "ids") else ""
                    for wrong in (f"{one[:-2]}{one[-1]}{one[-2]}x={value}", f"{one.capitalize()}={value}", f"{one}={value}&{one}={value}",
                                  f"{one}=", one, f"{one}=%E9", f"{one}={value}%2", f"{one}=%00"):
                        if others and "user" in (each["name"] for each in parameters):
                            yield method.upper(), target, f"{others}&{wrong}"
                            yield method.upper(), target, f"{wrong}&{others}"
                        yield method.upper(), target, wrong

    def test_a_request_with_a_mistake_in_its_parameters_changes_nothing(self):
        before = self.state()
        codes = {"unknown_parameter", "repeated_parameter", "bad_parameter", "missing_parameter", "conflicting_parameters"}
        count = 0
        for method, target, query in self.mistakes():
            with self.subTest(f"{method} {target}?{query}"):
                status, said = self.gateway.ask(method, f"{target}?{query}", BODIES.get(target) if method == "POST" else None)
                self.assertEqual(status, 400, said)
                self.assertTrue(said["error"])
                self.assertIn(said["code"], codes)
                count += 1
        self.assertGreater(count, 300)
        self.assertEqual(without_spans(self.state()), without_spans(before))

    def test_a_body_that_a_request_does_not_take_is_a_mistake(self):
        before = self.state()
        for path, methods in self.document["paths"].items():
            if not path.startswith("/api/v1"):
                continue
            target = re.sub(r"{(\w+)}", lambda segment: SEGMENTS[segment[1]], re.sub("{id}", self.number, path))
            for method, operation in methods.items():
                if "requestBody" in operation:
                    continue
                names = {one["name"] for one in map(self.resolved, operation.get("parameters", [])) if one["in"] == "query"}
                query = "?user=alice" if "user" in names else ""
                with self.subTest(f"{method} {target}"):
                    status, said = self.gateway.ask(method.upper(), target + query, {"name": "n1", "filter": "x"})
                    self.assertEqual((status, said["code"]), (400, "unexpected_body"))
        self.assertEqual(without_spans(self.state()), without_spans(before))
        self.assertEqual(self.gateway.ask("POST", "/api/v1/reload", {})[0], 200)  # an empty object says nothing

    def test_a_health_check_may_have_parameters(self):
        for target in ("/healthz?now=1", "/readyz?x", "/metrics?a=%E9"):
            self.assertEqual(self.gateway.ask("GET", target)[0], 200)

    def test_a_member_of_json_that_is_given_twice_is_a_mistake(self):
        for target, body in (("/api/v1/publish", b'{"topic":"a","topic":"b"}'),
                             ("/api/v1/publish", b'[{"topic":"a","properties":{"x":"1","\\u0078":"2"}}]'),
                             ("/api/v1/delayed", b'{"topic":"a","in":5,"in":6}'),
                             ("/api/v1/rooms/lobby/members", b'{"add":["ann"],"add":["eve"]}'),
                             ("/api/v1/backup", b'{"file":"/tmp/x","file":"/tmp/y"}')):
            with self.subTest(target):
                self.assertEqual(self.gateway.ask("POST", target, body)[0], 400)

    def test_a_mistake_with_a_null_character_is_told_whole(self):
        status, said = self.gateway.ask("POST", "/api/v1/publish", {"topic": "a\0b"})
        self.assertEqual((status, said["error"]), (400, "'a\0b' is not a topic that can be published to"))

    def test_a_user_cannot_be_added_and_removed_by_one_request(self):
        body = {"add": ["ann", "eve"], "remove": ["bob", "eve"]}
        self.assertEqual(self.gateway.ask("POST", "/api/v1/rooms/lobby/members", body)[0], 400)
        members = self.ask("GET", "/api/v1/rooms/lobby/members")["members"]
        self.assertEqual(members, ["alice", "bob"])


class FullRoomTest(unittest.TestCase):
    def test_one_request_replaces_a_member_of_a_full_room(self):
        with Gateway("--max-room-members", "2", "--shards", "1") as gateway:
            self.assertEqual(gateway.ask("POST", "/api/v1/rooms/lobby/members", {"add": ["ann", "bob"]})[0], 200)
            status, said = gateway.ask("POST", "/api/v1/rooms/lobby/members", {"add": ["eve"], "remove": ["ann"]})
            self.assertEqual((status, said["added"], said["removed"]), (200, 1, 1))
            self.assertEqual(gateway.ask("GET", "/api/v1/rooms/lobby/members")[1]["members"], ["bob", "eve"])

    def test_a_member_of_one_shard_leaves_its_place_to_one_of_another(self):
        with Gateway("--max-room-members", "1", "--shards", "4") as gateway:
            self.assertEqual(gateway.ask("PUT", "/api/v1/rooms/lobby/members/user-0")[0], 201)
            for number in range(100):
                change = {"add": [f"user-{number + 1}"], "remove": [f"user-{number}"]}
                status, said = gateway.ask("POST", "/api/v1/rooms/lobby/members", change)
                self.assertEqual((number, status, said), (number, 200, {"added": 1, "removed": 1}))


class RetainTest(unittest.TestCase):
    def test_a_delayed_message_that_cannot_be_retained_is_refused(self):
        with Gateway("--retain-available", "off") as gateway:
            for path, body in (("publish", {"topic": "a", "retain": True}),
                               ("delayed", {"topic": "a", "in": 5, "retain": True})):
                self.assertEqual(gateway.ask("POST", f"/api/v1/{path}", body)[0], 400, path)


if __name__ == "__main__":
    unittest.main()
