"""A user is erased: nothing of theirs is left, also after a crash."""

import tempfile
import unittest

from gateway import Gateway, wait_until


class ErasureTest(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def start(self):
        return Gateway("--data", f"{self.folder}/data", "--shards", "2")

    def ask(self, gateway, method, path, body=None, status=200):
        answer = gateway.ask(method, f"/api/v1/{path}", body)
        self.assertIn(answer[0], (status, 201), answer)
        return answer[1]

    def live(self, gateway, user):
        """Everything that can be kept of a user."""
        phone = gateway.connect("phone", username=user, clean=False, will=("will", "gone"))
        phone.subscribe("room/#", qos=1)
        phone.publish(f"room/{user}", b"kept", qos=1, flags=1)
        phone.receive()
        gateway.connect("laptop", username=user, clean=False).close()
        for room in ("red", "blue"):
            self.ask(gateway, "PUT", f"rooms/{room}/members/{user}")
        self.ask(gateway, "PUT", f"users/{user}/watchers/eve")
        self.ask(gateway, "POST", "delayed", [{"topic": "room/x", "in": 1000, "user": user}] * 2)
        wait_until(lambda: len(self.ask(gateway, "GET", f"clients?user={user}&state=away")["clients"]) == 1, what="laptop gone")
        return phone

    def assert_known(self, gateway, user, known):
        self.assertEqual(gateway.ask("GET", f"/api/v1/users/{user}")[0], 200 if known else 404)
        self.assertEqual(gateway.ask("GET", f"/api/v1/clients?user={user}")[0], 200 if known else 404)
        self.assertEqual(bool(self.ask(gateway, "GET", f"users/{user}/rooms")["rooms"]), known)
        self.assertEqual(bool(self.ask(gateway, "GET", f"users/{user}/watchers")["watchers"]), known)
        self.assertEqual(bool(self.ask(gateway, "GET", f"delayed?user={user}")["delayed"]), known)
        self.assertEqual(bool(self.ask(gateway, "GET", f"retained?filter=room/{user}")["retained"]), known)

    def test_nothing_is_left_of_the_user_and_all_of_others(self):
        with self.start() as gateway:
            watch = gateway.connect("watch", username="watch")
            watch.subscribe("will", qos=0)
            phone = self.live(gateway, "ann")
            self.live(gateway, "bob")
            said = self.ask(gateway, "DELETE", "users/ann")
            self.assertEqual(said, {"user": "ann", "disconnected": 1, "sessions": 2, "inbox": 0, "rooms": 2, "watchers": 1,
                                    "retained": 1, "delayed": 2, "presence": True})
            phone.receive_until_closed()
            self.assert_known(gateway, "ann", False)
            self.assertEqual(self.ask(gateway, "GET", "users/ann/history")["history"], [])
            self.assert_known(gateway, "bob", True)
            watch.ping()  # no will has come before the answer
            gateway.process.kill()
            gateway.killed = True
        with self.start() as gateway:
            self.assert_known(gateway, "ann", False)
            self.assert_known(gateway, "bob", True)
            said = self.ask(gateway, "DELETE", "users/ann")
            self.assertEqual(sum(said.pop(name) for name in ("disconnected", "sessions", "inbox", "rooms", "watchers",
                                                             "retained", "delayed")), 0)
            self.assertEqual(said, {"user": "ann", "presence": False})

    def test_erasing_a_user_that_was_never_connected_deletes_the_inbox(self):
        with self.start() as gateway:
            self.ask(gateway, "POST", "publish", {"inbox": "zoe", "payload": "hello"})
            self.assertEqual(self.ask(gateway, "DELETE", "users/zoe")["inbox"], 1)
            self.assertEqual(self.ask(gateway, "GET", "users/zoe/inbox")["count"], 0)
            phone = gateway.connect("phone", username="zoe")
            phone.ping()  # nothing has come before the answer
            self.assertEqual(self.ask(gateway, "GET", "users/zoe")["state"], "online")


if __name__ == "__main__":
    unittest.main()
