"""How often the gateway asks the kernel for something when one client pings a quiet server."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from gateway import Gateway, SANITIZED

PINGS = 1_000
LIMIT = 4  # wait, read, write, and Asio's re-arming


class Strace:
    """Counts the system calls of all threads of a process while it is entered."""

    def __init__(self, pid):
        self.pid = pid
        self.calls = {}

    def __enter__(self):
        handle, self.file = tempfile.mkstemp(prefix="pulsegate-strace-")
        os.close(handle)
        self.process = subprocess.Popen(
            ["strace", "-f", "-c", "-o", self.file, "-p", str(self.pid)],
            stderr=subprocess.PIPE, text=True)
        said = self.process.stderr.readline()
        if "attached" not in said:
            self._close()
            raise unittest.SkipTest(f"may not trace another process: {said.strip()}")
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        self._close()

    def _close(self):
        self.process.communicate(timeout=20)
        # % time, seconds, usecs/call, calls, errors if any, name
        row = re.compile(r"\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)(?:\s+\d+)?\s+(\w+)")
        for line in Path(self.file).read_text().splitlines():
            found = row.fullmatch(line)
            if found and found[2] != "total":
                self.calls[found[2]] = int(found[1])
        os.unlink(self.file)


@unittest.skipIf(SANITIZED, "sanitizers make calls of their own")
@unittest.skipUnless(shutil.which("strace"), "needs strace")
class SystemCallsTest(unittest.TestCase):
    def test_a_ping_to_a_quiet_server_takes_four_system_calls(self):
        with Gateway() as gateway, gateway.connect("pinger") as client:
            with Strace(gateway.pid) as strace:
                for _ in range(PINGS):
                    client.ping()
        total = sum(strace.calls.values()) / PINGS
        common = {name: count / PINGS for name, count in strace.calls.items() if count > PINGS / 50}
        print(f"{total:.2f} system calls for a PINGREQ:",
              ", ".join(f"{count:.2f} {name}" for name, count in common.items()), flush=True)
        # The ticks of the seconds that it takes, and strace's coming and going, are a few more.
        self.assertLessEqual(total, LIMIT + 0.1)
        self.assertGreaterEqual(common.get("sendto", 0), 0.99, "no answers were counted")


if __name__ == "__main__":
    unittest.main()
