"""Online backups: `pulsegate backup` and POST /api/v1/backup, and what a gateway makes of the copy."""

import contextlib
import json
import shutil
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

import paho.mqtt.client as paho

from gateway import Gateway, binary, wait_until


class BackupTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.copy = self.folder / "copy.db"

    def start(self, *arguments, data="data"):
        return Gateway("--shards", "2", "--max-queued-bytes", "64MiB", "--data", self.folder / data, *arguments)

    def command(self, gateway, *arguments):
        """Runs `pulsegate backup` in the test's folder."""
        return self.run_command("--admin", f"http://127.0.0.1:{gateway.http_port}", *arguments)

    def run_command(self, *arguments):
        return subprocess.run([str(binary()), "backup", *arguments], cwd=self.folder, capture_output=True, text=True,
                              timeout=60)

    def post(self, gateway, body, method="POST"):
        """Status and JSON of a request for a backup."""
        request = urllib.request.Request(f"http://127.0.0.1:{gateway.http_port}/api/v1/backup", method=method,
                                         data=body if isinstance(body, bytes) else json.dumps(body).encode())
        with contextlib.closing(self.open(request)) as answer:
            return answer.status, json.load(answer)

    @staticmethod
    def open(request):
        try:
            return urllib.request.urlopen(request, timeout=60)
        except urllib.error.HTTPError as error:
            return error

    def receiver(self, gateway, got):
        """A client with a session, which subscribes to everything."""
        client = paho.Client("receiver", clean_session=False)
        client.on_message = lambda _client, _data, message: got.append(int(message.payload[:8]))
        subscribed = threading.Event()
        client.on_subscribe = lambda *_: subscribed.set()
        client.connect("127.0.0.1", gateway.port)
        client.loop_start()
        client.subscribe("#", 1)
        self.assertTrue(subscribed.wait(60))
        return client

    def leave(self, client):
        client.disconnect()
        client.loop_stop()

    def test_all_that_was_acknowledged_before_is_in_a_backup_under_load(self):
        with self.start() as gateway:
            self.leave(self.receiver(gateway, []))
            acknowledged = []
            publisher = paho.Client("publisher")
            publisher.on_publish = lambda _client, _data, packet_id: acknowledged.append(packet_id)
            publisher.connect("127.0.0.1", gateway.port)
            publisher.loop_start()
            ended = threading.Event()

            def publish():
                number = 0
                while not ended.wait(0.0005):
                    number += 1
                    publisher.publish("topic", b"%08d" % number + bytes(8000), 1)

            publishing = threading.Thread(target=publish)
            publishing.start()
            try:
                wait_until(lambda: len(acknowledged) > 300)
                before = len(acknowledged)
                done = self.command(gateway, "copy.db")
                after = len(acknowledged)
            finally:
                ended.set()
                publishing.join()
                self.leave(publisher)
            self.assertEqual(done.stderr, "")
            self.assertRegex(done.stdout, rf"\A{self.copy}: {self.copy.stat().st_size} bytes in \d+\.\d\d s\n\Z")
            self.assertGreater(after, before)  # nobody waited for the backup
            gateway.wait_for_log(rf"backup: {self.copy}: \d+ bytes in \d+ ms")

        self.assertEqual(sorted(each.name for each in self.folder.iterdir()), ["copy.db", "data"])
        (self.folder / "restored").mkdir()
        shutil.copy(self.copy, self.folder / "restored" / "pulsegate.db")
        with self.start(data="restored") as gateway:
            got = []
            receiver = self.receiver(gateway, got)
            wait_until(lambda: len(got) >= before, what="every message that was acknowledged before")
            self.leave(receiver)
            self.assertEqual(sorted(set(got)), list(range(1, len(set(got)) + 1)))

    def test_what_can_not_be_backed_up_is_refused_with_the_reason(self):
        with self.start() as gateway:
            began = time.monotonic()
            written = self.post(gateway, {"file": str(self.copy)})
            took = time.monotonic() - began
            self.assertEqual(written[0], 200, written)
            self.assertEqual(written[1]["file"], str(self.copy))
            self.assertEqual(written[1]["bytes"], self.copy.stat().st_size)
            self.assertLessEqual(written[1]["seconds"], took)
            nowhere = self.folder / "nowhere" / "copy.db"
            for status, error, body in (
                    (409, "exists already", {"file": str(self.copy)}),
                    (400, "absolute", {"file": "copy.db"}),
                    (400, "data folder", {"file": str(self.folder / "data" / "copy.db")}),
                    (500, f"can't write {nowhere}.part: No such file or directory", {"file": str(nowhere)}),
                    (400, "no file is named", {"path": "/tmp/copy.db"}),
                    (400, "no file is named", {"file": str(self.copy), "overwrite": "yes"}),
                    (400, "no file is named", b"copy.db")):
                with self.subTest(body=body):
                    answer = self.post(gateway, body)
                    self.assertEqual(answer[0], status, answer)
                    self.assertIn(error, answer[1]["error"])
            self.assertEqual(self.post(gateway, {"file": str(self.copy), "overwrite": True})[0], 200)
            for name in "other.db", "new.db.part":
                (self.folder / name).write_text("somebody's")
                answer = self.post(gateway, {"file": str(self.folder / name.removesuffix(".part")), "overwrite": True})
                self.assertIn("is not a backup", answer[1]["error"])
                self.assertEqual((self.folder / name).read_text(), "somebody's")
            self.assertEqual(gateway.get("/api/v1/backup")[0], 405)
        with Gateway() as gateway:
            answer = self.post(gateway, {"file": str(self.folder / "nothing.db")})
            self.assertEqual(answer[0], 409, answer)
            self.assertIn("nothing is stored", answer[1]["error"])

    def test_the_command_says_in_one_line_what_went_wrong(self):
        token = self.folder / "token"
        token.write_text("0123456789abcdef\n")
        token.chmod(0o600)
        with self.start("--admin-token-file", token) as gateway:
            shows = ("--admin-token-file", token)
            for error, arguments in (
                    ("token missing or wrong", ("copy.db",)),
                    ("No such file or directory", (*shows, "nowhere/copy.db")),
                    ("exists already", (*shows, "token")),
                    ("FILE is required", shows)):
                with self.subTest(error=error):
                    done = self.command(gateway, *arguments)
                    self.assertEqual((done.returncode, done.stdout), (1, ""))
                    self.assertRegex(done.stderr, rf"\Apulsegate backup: .*{error}.*\n\Z")
            self.assertEqual(self.command(gateway, *shows, "--overwrite", "copy.db").returncode, 0)
        self.assertIn("Connection refused", self.command(gateway, "late.db").stderr)
        self.assertIn("is not a URL", self.run_command("--admin", "127.0.0.1:8080", "late.db").stderr)


if __name__ == "__main__":
    unittest.main()
