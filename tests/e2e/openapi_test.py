"""The API as its OpenAPI document describes it: the same resources, and answers of the stated shape."""

import json
import re
import tempfile
import unittest
from pathlib import Path

from gateway import Gateway
from ports import free_port

TYPES = {"number": (int, float), "object": dict, "array": list, "string": str, "integer": int, "boolean": bool}


class OpenApiTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        backend = f"http://127.0.0.1:{free_port()}/"  # nobody is there
        self.gateway = self.enterContext(Gateway("--data", self.folder / "data", "--presence-feed", "on",
                                                 "--webhook", backend))
        self.document = self.gateway.ask("GET", "/api/v1/openapi.json")[1]

    def resolved(self, schema):
        while "$ref" in schema:
            where = self.document
            for step in schema["$ref"].removeprefix("#/").split("/"):
                where = where[step]
            schema = where
        return schema

    def check(self, value, schema, where):
        schema = self.resolved(schema)
        if "oneOf" in schema:  # a message, or a list of them
            schema = self.resolved(schema["oneOf"][isinstance(value, list)])
        self.assertIsInstance(value, TYPES[schema["type"]], where)
        if "enum" in schema:
            self.assertIn(value, schema["enum"], where)
        if schema["type"] == "array":
            for each in value:
                self.check(each, schema["items"], where + "[]")
        if "properties" in schema:
            self.assertLessEqual(set(schema.get("required", ())), set(value), where)
            for name, member in value.items():
                self.assertIn(name, schema["properties"], where)
                self.check(member, schema["properties"][name], f"{where}.{name}")

    def path_of(self, target):
        path = target.partition("?")[0]
        exact = path if path in self.document["paths"] else None
        return exact or next(p for p in self.document["paths"] if re.fullmatch(re.sub(r"{\w+}", "[^/]+", p), path))

    def test_it_describes_all_resources_and_no_others(self):
        status, index = self.gateway.ask("GET", "/api/v1")
        self.assertEqual(status, 200)
        served = {one["path"]: set(one["methods"].lower().split(", ")) - {"head"} for one in index["resources"]}
        self.assertEqual(served, {path: set(methods) for path, methods in self.document["paths"].items()})

    def test_it_states_the_role_of_each_operation(self):
        for resource in self.gateway.ask("GET", "/api/v1")[1]["resources"]:
            described = {method.upper(): operation["x-role"] for method, operation in self.document["paths"][resource["path"]].items()
                         if "x-role" in operation}
            self.assertEqual(described, resource.get("roles", {}), resource["path"])

    def test_references_lead_somewhere(self):
        text = json.dumps(self.document)
        for reference in set(re.findall(r'"\$ref": "([^"]+)"', text)):
            self.resolved({"$ref": reference})

    def test_examples_are_as_it_says(self):
        checked = 0
        for path, methods in self.document["paths"].items():
            for method, operation in methods.items():
                bodies = [self.resolved(answer) for answer in operation["responses"].values()]
                bodies += [self.resolved(operation["requestBody"])] if "requestBody" in operation else []
                for body in bodies:
                    for media in body.get("content", {}).values():
                        if "example" in media and "type" in self.resolved(media["schema"]):
                            self.check(media["example"], media["schema"], f"{method} {path}")
                            checked += 1
        self.assertGreater(checked, 30)

    def test_answers_are_as_it_says(self):
        self.gateway.connect("phone", username="bob", clean=False).subscribe("room/#", qos=1)
        later = {"topic": "room/x", "in": 1000, "payload_base64": "/w==", "user": "bob", "name": "n", "expiry": 5}
        _, said = self.gateway.ask("POST", "/api/v1/delayed", later)
        number = said["delayed"][0]["id"]
        backup = {"file": str(self.folder / "backup.db")}
        cursor = self.gateway.ask("GET", "/api/v1/presence/changes")[1]["cursor"]
        log = cursor.partition("-")[0]
        asked = set()
        for method, target, body, expected in (
                ("GET", "/healthz", None, 200),
                ("GET", "/readyz", None, 200),
                ("GET", "/metrics", None, 200),
                ("GET", "/", None, 200),
                ("GET", "/reference", None, 200),
                ("GET", "/dashboard/app.js", None, 200),
                ("GET", "/dashboard/none.js", None, 404),
                ("GET", "/chat", None, 404),
                ("GET", "/chat/gateway.json", None, 404),
                ("GET", "/api/v1", None, 200),
                ("GET", "/api/v1/openapi.json", None, 200),
                ("GET", "/api/v1/cluster", None, 404),
                ("GET", "/api/v1/wheel", None, 200),
                ("GET", "/api/v1/users?ids=bob,dave", None, 200),
                ("GET", "/api/v1/users?ids=dave", None, 200),
                ("GET", "/api/v1/users?limit=1", None, 200),
                ("GET", "/api/v1/users?limit=x", None, 400),
                ("GET", "/api/v1/users/bob", None, 200),
                ("GET", "/api/v1/users/dave", None, 404),
                ("GET", "/api/v1/users/%FF", None, 400),
                ("DELETE", "/api/v1/users/nobody", None, 200),
                ("GET", "/api/v1/users/zoe/inbox?limit=1", None, 200),
                ("GET", "/api/v1/users/zoe/inbox?after=x", None, 400),
                ("DELETE", "/api/v1/users/zoe/inbox", None, 200),
                ("GET", "/api/v1/users/bob/history", None, 200),
                ("GET", "/api/v1/users/bob/history?since=x", None, 400),
                ("GET", "/api/v1/trace?user=bob&client=phone", None, 400),
                ("POST", "/api/v1/users/eve/revoke", {"before": 1764000000}, 200),
                ("POST", "/api/v1/users/eve/revoke", {"before": "now"}, 400),
                ("GET", "/api/v1/clients?user=bob", None, 200),
                ("GET", "/api/v1/clients?user=bob&client=phone", None, 200),
                ("GET", "/api/v1/clients", None, 200),
                ("GET", "/api/v1/clients?state=connected&limit=1", None, 200),
                ("GET", "/api/v1/clients?state=online", None, 400),
                ("GET", "/api/v1/clients?user=dave", None, 404),
                ("POST", "/api/v1/publish", [{"topic": "room/x"}, {"inbox": "eve"}], 200),
                ("POST", "/api/v1/publish", {"topic": "presence/bob"}, 400),
                ("DELETE", "/api/v1/clients?user=bob&sessions=end", None, 200),
                ("DELETE", "/api/v1/clients?user=bob&clinet=phone", None, 400),
                ("DELETE", "/api/v1/clients?user=dave", None, 404),
                ("PUT", "/api/v1/rooms/lobby/members/bob", None, 201),
                ("PUT", "/api/v1/rooms/lobby/members/bob", None, 200),
                ("PUT", "/api/v1/rooms/lobby/members/%00", None, 400),
                ("PUT", "/api/v1/rooms/%00/members/bob", None, 400),
                ("POST", "/api/v1/rooms/lobby/members", {"add": ["eve", "ann"], "remove": ["dave"]}, 200),
                ("POST", "/api/v1/rooms/lobby/members", {"ad": ["eve"]}, 400),
                ("GET", "/api/v1/rooms/lobby/members?limit=1", None, 200),
                ("GET", "/api/v1/rooms/lobby/members?limit=x", None, 400),
                ("GET", "/api/v1/rooms", None, 200),
                ("GET", "/api/v1/rooms?limt=1", None, 400),
                ("GET", "/api/v1/users/bob/rooms", None, 200),
                ("PUT", "/api/v1/users/bob/watchers/ann", None, 201),
                ("PUT", "/api/v1/users/bob/watchers/ann", None, 200),
                ("PUT", "/api/v1/users/bob/watchers/%00", None, 400),
                ("PUT", "/api/v1/users/%00/watchers/bob", None, 400),
                ("POST", "/api/v1/users/bob/watchers", {"add": ["eve", "dave"], "remove": ["carol"]}, 200),
                ("POST", "/api/v1/users/bob/watchers", {"ad": ["eve"]}, 400),
                ("GET", "/api/v1/users/bob/watchers?limit=1", None, 200),
                ("GET", "/api/v1/users/bob/watchers?limit=x", None, 400),
                ("DELETE", "/api/v1/users/bob/watchers/ann", None, 200),
                ("DELETE", "/api/v1/users/bob/watchers/ann", None, 404),
                ("DELETE", "/api/v1/users/bob/watchers", None, 200),
                ("DELETE", "/api/v1/users/bob/watchers", None, 404),
                ("DELETE", "/api/v1/rooms/lobby/members/bob", None, 200),
                ("DELETE", "/api/v1/rooms/lobby/members/bob", None, 404),
                ("DELETE", "/api/v1/rooms/lobby/members", None, 200),
                ("DELETE", "/api/v1/rooms/lobby/members", None, 404),
                ("PUT", "/api/v1/bans?user=eve&client=phone&reason=x&seconds=9", None, 200),
                ("PUT", "/api/v1/bans?client=phone", None, 400),
                ("GET", "/api/v1/presence/changes", None, 200),
                ("GET", f"/api/v1/presence/changes?after={log}-0", None, 200),
                ("GET", "/api/v1/presence/changes?after=x", None, 400),
                ("GET", "/api/v1/presence/changes?after=1-1", None, 410),
                ("GET", "/api/v1/webhooks/dead", None, 200),
                ("GET", "/api/v1/webhooks/dead?after=x", None, 400),
                ("POST", "/api/v1/webhooks/dead/replay", None, 200),
                ("POST", f"/api/v1/webhooks/dead/replay?id={log}-77", None, 404),
                ("DELETE", "/api/v1/webhooks/dead?all=true", None, 200),
                ("DELETE", "/api/v1/webhooks/dead", None, 400),
                ("DELETE", f"/api/v1/webhooks/dead?id={log}-77", None, 404),
                ("GET", "/api/v1/bans", None, 200),
                ("DELETE", "/api/v1/bans?user=eve&client=phone", None, 200),
                ("DELETE", "/api/v1/bans", None, 400),
                ("DELETE", "/api/v1/bans?address=10.0.0.7", None, 404),
                ("POST", "/api/v1/publish", {"topic": "kept", "retain": True, "payload": "x", "expiry": 9}, 200),
                ("GET", "/api/v1/retained?filter=kept", None, 200),
                ("GET", "/api/v1/retained?filter=%23x", None, 400),
                ("DELETE", "/api/v1/retained?filter=x", None, 200),
                ("DELETE", "/api/v1/retained", None, 400),
                ("GET", f"/api/v1/delayed/{number}", None, 200),
                ("POST", "/api/v1/delayed", later, 200),
                ("POST", "/api/v1/delayed", {"topic": "room/x"}, 400),
                ("GET", "/api/v1/delayed", None, 200),
                ("GET", "/api/v1/delayed?limit=x", None, 400),
                ("GET", f"/api/v1/delayed/{number}", None, 404),  # another one has taken its name
                ("GET", "/api/v1/delayed/x", None, 400),
                ("DELETE", "/api/v1/delayed/1", None, 404),
                ("DELETE", "/api/v1/delayed?user=bob", None, 200),
                ("DELETE", "/api/v1/delayed", None, 400),
                ("GET", "/api/v1/status", None, 200),
                ("GET", "/api/v1/samples", None, 200),
                ("GET", "/api/v1/samples?since=now", None, 400),
                ("GET", "/api/v1/drain", None, 200),
                ("POST", "/api/v1/drain", {"over": "soon"}, 400),
                ("POST", "/api/v1/reload", None, 200),
                ("GET", "/api/v1/upgrade", None, 200),
                ("POST", "/api/v1/upgrade", None, 403),
                ("POST", "/api/v1/backup", backup, 200),
                ("POST", "/api/v1/backup", backup, 409),
                ("POST", "/api/v1/backup", {"file": "here"}, 400)):
            with self.subTest(f"{method} {target}: {expected}"):
                status, said = self.gateway.ask(method, target, body)
                self.assertEqual(status, expected, said)
                path = self.path_of(target)
                asked.add((method.lower(), path))
                answer = self.document["paths"][path][method.lower()]["responses"][str(status)]
                content = self.resolved(answer)["content"]
                kind = next(iter(content)) if isinstance(said, str) else "application/json"
                self.check(said, content[kind]["schema"], target)
                if status >= 400:
                    self.assertIn(said["code"], self.document["components"]["schemas"]["ErrorCode"]["enum"])
        described = {(method, path) for path, methods in self.document["paths"].items() for method in methods}
        self.assertEqual(described - asked, set())

    def test_what_it_says_of_a_request_is_what_is_taken(self):
        message = self.document["components"]["schemas"]["Message"]["properties"]
        values = {"string": "x", "integer": 1, "boolean": False, "array": ["x"], "object": {"x": "y"}}
        body = {name: values[schema["type"]] for name, schema in message.items() if name != "payload_base64"}
        status, said = self.gateway.ask("POST", "/api/v1/publish", body)
        self.assertEqual(status, 200, said)
        self.assertEqual(len(said["published"]), 6)


if __name__ == "__main__":
    unittest.main()
