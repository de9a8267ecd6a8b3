"""Files of the data folder that are damaged or missing at a start, and starts that are killed."""

import tempfile
import unittest
from pathlib import Path

from disk_test import Faults
from gateway import Client, Gateway, SANITIZED

MESSAGES = 300


def topic(number):
    return f"room/{number:04}"


class StartDamageTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pulsegate-start-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.data = self.folder / "data"
        self.database = self.data / "pulsegate.db"
        self.log = self.data / "pulsegate.db-wal"

    def start(self, **options):
        return Gateway("--shards", "2", "--data", self.data, "--rooms", "open", **options)

    def fill(self):
        """Retained messages, so that one client finds all; the process is killed."""
        with self.start() as gateway:
            with Client(gateway.port).login("publisher") as client:
                for number in range(MESSAGES):
                    client.publish(topic(number), b"kept" * 20, qos=1, packet_id=number + 1, flags=1)
                for _ in range(MESSAGES):
                    client.receive()
            gateway.kill()

    def kept(self, gateway):
        return gateway.metric("pulsegate_retained_messages")

    def change(self, path, offset, count):
        with open(path, "r+b") as file:
            file.seek(offset)
            old = file.read(count)
            file.seek(offset)
            file.write(bytes(byte ^ 1 for byte in old))

    def assert_told(self, gateway, what):
        self.assertIn(f" error {what}", gateway.log)
        status, ready = gateway.get_json("/readyz")
        self.assertEqual((status, ready["status"]), (200, "ready"))
        self.assertIn(what, ready["damage"]["what"])
        self.assertGreater(gateway.metric("pulsegate_store_damage_timestamp_seconds"), 1.7e9)

    def assert_all_is_well(self, gateway):
        self.assertEqual(gateway.get_json("/readyz"), (200, {"status": "ready"}))
        self.assertEqual(gateway.metric("pulsegate_store_damage_timestamp_seconds"), 0)
        self.assertEqual(self.kept(gateway), MESSAGES)
        self.assertNotIn(" error ", gateway.log)

    def test_without_damage_nothing_is_told(self):
        self.fill()
        for _ in range(2):
            with self.start() as gateway:
                self.assert_all_is_well(gateway)
                gateway.kill()

    def test_a_log_that_was_deleted_is_told_until_the_operator_has_seen_it(self):
        self.fill()
        self.log.unlink()
        for _ in range(2):
            with self.start() as gateway:
                ready = gateway.get_json("/readyz")[1]
                self.assertIn(f"{self.log} is missing or cut", ready["damage"]["what"])
                self.assertGreater(gateway.metric("pulsegate_store_damage_timestamp_seconds"), 1.7e9)
        (self.data / "damage").unlink()
        with self.start() as gateway:
            self.assertEqual(gateway.get_json("/readyz"), (200, {"status": "ready"}))

    def test_a_wrong_bit_of_the_log_costs_nothing(self):
        self.fill()
        frames = (self.log.stat().st_size - 32) // 4120
        self.change(self.log, 32 + frames // 2 * 4120 + 1024, 1)
        with self.start() as gateway:
            self.assertIn("was damaged; all of its", gateway.log)
            self.assertEqual(self.kept(gateway), MESSAGES)
        self.assertEqual(len(list(self.data.glob("pulsegate.db.bad-*-wal"))), 1)

    def check_without_database(self, damage):
        self.fill()
        damage()
        with self.start() as gateway:
            self.assert_told(gateway, f"{self.database} is missing or empty")
            self.assertGreater(self.kept(gateway), 0)

    def test_a_database_that_is_empty_is_told_and_its_log_is_read(self):
        self.check_without_database(lambda: self.database.write_bytes(b""))

    def test_a_database_that_is_gone_is_told_and_its_log_is_read(self):
        self.check_without_database(self.database.unlink)

    def test_a_lost_header_costs_nothing(self):
        self.fill()
        self.change(self.database, 0, 100)
        with self.start() as gateway:
            self.assert_told(gateway, f"{self.database} is damaged")
            self.assertEqual(self.kept(gateway), MESSAGES)

    @unittest.skipIf(SANITIZED, "a sanitizer must be loaded first")
    def test_a_full_disk_keeps_a_damaged_store_from_starting_and_loses_nothing(self):
        self.fill()
        self.change(self.database, 0, 100)
        faults = Faults(self.folder)
        faults.set(is_full=True)
        for _ in range(3):
            with self.assertRaisesRegex(AssertionError, "make room"):
                with self.start(prefix=faults.prefix()):
                    pass
        faults.set()
        with self.start(prefix=faults.prefix()) as gateway:
            self.assertEqual(self.kept(gateway), MESSAGES)

    @unittest.skipIf(SANITIZED, "a sanitizer must be loaded first")
    def test_a_start_on_a_full_disk_says_so_and_loses_nothing(self):
        self.fill()
        faults = Faults(self.folder)
        faults.set(is_full=True)
        with self.assertRaisesRegex(AssertionError, "the disk is full: make room there"):
            with self.start(prefix=faults.prefix()):
                pass
        faults.set()
        with self.start(prefix=faults.prefix()) as gateway:
            self.assertEqual(self.kept(gateway), MESSAGES)
            self.assertEqual(gateway.get_json("/readyz"), (200, {"status": "ready"}))


if __name__ == "__main__":
    unittest.main()
