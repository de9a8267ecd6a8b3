"""The load generator's reconnect storm against a real gateway."""

import json
import subprocess
import unittest

from gateway import Gateway, binary
from lab import tried_again

GENERATOR = binary().parent / "pulsegate-loadgen"
REFUSED = 2  # no verdict on times: the machine that runs the tests may be busy with others


class Storm(unittest.TestCase):
    def test_everybody_comes_back_while_the_others_chat_on(self):
        with Gateway() as gateway:
            # How much slower the others may get is a matter of the machine, and not of this test.
            run = subprocess.run(
                [GENERATOR, "--connect", f"mqtt://127.0.0.1:{gateway.port}", "--clients", "500",
                 "--storm", "400", "--storm-after", "1s", "--storm-factor", "1000000",
                 "--duration", "2s", "--keepalive", "10s", "--silent", "0%", "--messages", "300/s",
                 "--mqtt-version", "5", "--json", "-"],
                capture_output=True, text=True, timeout=120)
            self.assertIn(run.returncode, (0, REFUSED), run.stderr)
            record = json.loads(run.stdout)

            self.assertNotIn("failed", [check["outcome"] for check in record["checks"]], run.stderr)
            counts = record["totals"]["counts"]
            self.assertEqual(counts["vanished"], 400)
            self.assertEqual(counts["entered"], 500)
            marks = [mark["text"] for mark in record["marks"]]
            self.assertIn("storm begins", marks)
            self.assertIn("storm is over", marks)

            # Each of them logged in twice, and neither the others nor anybody else did.
            if not tried_again(counts):
                self.assertEqual((counts["connected"], int(gateway.metric("pulsegate_logins_total"))), (900, 900))


if __name__ == "__main__":
    unittest.main()
