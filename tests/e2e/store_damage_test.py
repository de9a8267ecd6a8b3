"""The store's files are damaged, cut, deleted or replaced while the gateway uses them: every loss is told."""

import os
import shutil
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from gateway import Gateway, wait_until
from mosquitto import leave_a_session, received

NOT_STORED = 3  # the exit status, see server/docs/operation.md
NAMES = ("lock", "pulsegate.db", "pulsegate.db-wal")


class StoreDamageTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pulsegate-damage-")
        self.addCleanup(folder.cleanup)
        self.data = Path(folder.name) / "data"

    def start(self):
        gateway = Gateway("--shards", "2", "--data", self.data)
        self.addCleanup(gateway.folder.cleanup)
        self.addCleanup(gateway.kill)
        return gateway.start()

    def fill(self, gateway, count, first=0):
        """Has a session wait for messages, which all are acknowledged."""
        leave_a_session(gateway, "-q", "1", "-i", "away", "-t", "chat/away")
        self.publish(gateway, [f"m{i}" for i in range(first, first + count)])

    def publish(self, gateway, texts):
        lines = "".join(text + "\n" for text in texts)
        subprocess.run(["mosquitto_pub", "-p", str(gateway.port), "-q", "1", "-t", "chat/away", "-l"], input=lines,
                       text=True, check=True, timeout=60)

    def received(self, gateway):
        lines = received(gateway, "-c", "-q", "1", "-i", "away", "-t", "chat/away")
        return [line.removeprefix("chat/away ") for line in lines]

    def is_refused(self, gateway, text="refused"):
        """Publishes at QoS 1 with 5.0; True if the PUBACK says 0x97."""
        done = subprocess.run(["mosquitto_pub", "-V", "5", "-p", str(gateway.port), "-q", "1", "-t", "chat/away", "-m",
                               text, "-d"], capture_output=True, text=True, timeout=60)
        return "(Mid: 1, RC:151)" in done.stdout + done.stderr

    def status_of(self, gateway, stops=True):
        """The exit status; the gateway ends by itself, unless it is stopped."""
        if stops:
            gateway.process.send_signal(signal.SIGTERM)
        status = gateway.process.wait(60)
        gateway.kill()  # its log is complete now
        return status

    def await_unready(self, gateway, *words):
        status, answer = wait_until(lambda: (found := gateway.get_json("/readyz"))[0] == 503 and found, what="503")
        for word in words:
            self.assertIn(word, answer["why"])

    def test_files_that_nobody_touches_lose_nothing_and_the_status_is_0(self):
        gateway = self.start()
        self.fill(gateway, 50)
        self.assertEqual(gateway.get_json("/readyz")[0], 200)
        self.assertEqual(self.status_of(gateway), 0)
        self.assertNotIn(" error ", gateway.log)
        self.assertEqual(self.received(self.start()), [f"m{i}" for i in range(50)])

    def test_a_folder_that_is_moved_is_told_and_all_is_well_when_it_comes_back(self):
        gateway = self.start()
        self.fill(gateway, 5)
        elsewhere = self.data.with_name("elsewhere")
        self.data.rename(elsewhere)
        self.await_unready(gateway, "was moved")
        self.assertTrue(self.is_refused(gateway))
        gateway.wait_for_log("was moved")
        elsewhere.rename(self.data)
        wait_until(lambda: gateway.get_json("/readyz")[0] == 200, timeout=60, what="ready")
        self.publish(gateway, ["after"])
        self.assertEqual(self.status_of(gateway), 0)
        self.assertEqual([text for text in self.received(self.start()) if text != "refused"],
                         [f"m{i}" for i in range(5)] + ["after"])

    def test_a_folder_or_file_that_is_deleted_is_told_and_nothing_more_is_acknowledged(self):
        for name in ("", *NAMES):
            with self.subTest(name):
                gateway = self.start()
                self.fill(gateway, 5)
                if name:
                    (self.data / name).unlink()
                else:
                    shutil.rmtree(self.data)
                self.assertTrue(self.is_refused(gateway))
                self.await_unready(gateway, "deleted")
                self.assertEqual(self.status_of(gateway), NOT_STORED)
                self.assertIn("the store was not closed in order", gateway.log)
                self.assertNotIn("the store has failed", gateway.log)  # its patience had not ended: the stop was at once
                shutil.rmtree(self.data, ignore_errors=True)

    def test_a_file_that_is_replaced_is_told_and_nothing_more_is_acknowledged(self):
        for name in NAMES:
            with self.subTest(name):
                gateway = self.start()
                self.fill(gateway, 5)
                path = self.data / name
                shutil.copy(path, self.data / "copy")
                os.replace(self.data / "copy", path)
                self.assertTrue(self.is_refused(gateway))
                self.await_unready(gateway, "another file has its name")
                self.assertEqual(self.status_of(gateway), NOT_STORED)
                shutil.rmtree(self.data)

    def test_a_second_gateway_on_a_folder_made_anew_leaves_the_first_one_refusing(self):
        first = self.start()
        self.fill(first, 5)
        self.data.rename(self.data.with_name("elsewhere"))
        second = self.start()
        self.assertTrue(self.is_refused(first))
        self.fill(second, 5)
        self.assertEqual(self.status_of(second), 0)
        self.assertEqual(self.status_of(first), NOT_STORED)

    def test_a_file_that_is_cut_ends_the_gateway(self):
        for name in NAMES[1:]:
            with self.subTest(name):
                gateway = self.start()
                self.fill(gateway, 50)
                os.truncate(self.data / name, 8192)
                self.assertEqual(self.status_of(gateway, stops=False), NOT_STORED)
                self.assertRegex(gateway.log, f"error the store has failed: .*{name} was cut")
                self.assertTrue((self.data / "pulsegate.db-damaged").exists())
                again = self.start()
                self.assertIn("the last process found the data damaged", again.log)
                self.assertFalse((self.data / "pulsegate.db-damaged").exists())
                self.assertEqual(self.status_of(again), 0)
                shutil.rmtree(self.data)

    def test_a_page_of_the_log_that_is_damaged_while_it_is_in_use_is_not_believed(self):
        gateway = self.start()
        self.fill(gateway, 50)
        wal = self.data / "pulsegate.db-wal"
        with open(wal, "r+b") as file:
            for place in range(32 + 24 + 100, wal.stat().st_size, 24 + 4096):  # each page that it holds
                file.seek(place)
                file.write(b"\x5a\x5a\x5a")
        # The log is copied into the database when it is long enough.
        for i in range(40):
            if gateway.process.poll() is not None:
                break
            subprocess.run(["mosquitto_pub", "-V", "5", "-p", str(gateway.port), "-q", "1", "-t", "chat/away", "-s"],
                           input=b"x" * 200_000, capture_output=True, timeout=60)
        self.assertEqual(self.status_of(gateway, stops=False), NOT_STORED)
        self.assertRegex(gateway.log, "pulsegate.db-wal is damaged")
        self.assertRegex(gateway.log, "error the store has failed")

    def test_one_wrong_bit_anywhere_in_the_database_changes_nothing(self):
        gateway = self.start()
        self.fill(gateway, 50)
        self.assertEqual(gateway.ask("PUT", "/api/v1/bans?user=eve&reason=spam")[0], 200)
        self.assertEqual(self.status_of(gateway), 0)
        database = self.data / "pulsegate.db"
        with open(database, "r+b") as file:
            for page in range(database.stat().st_size // 4096):
                file.seek(page * 4096 + (page * 577 + 20) % 4096)
                byte = file.read(1)[0]
                file.seek(-1, os.SEEK_CUR)
                file.write(bytes([byte ^ 1 << page % 8]))
        gateway = self.start()
        self.assertIn("was wrong, and was corrected", gateway.log)
        self.assertGreater(gateway.metric("pulsegate_store_damaged_total"), 0)
        self.assertEqual(self.received(gateway), [f"m{i}" for i in range(50)])
        self.assertEqual(self.status_of(gateway), 0)


if __name__ == "__main__":
    unittest.main()
