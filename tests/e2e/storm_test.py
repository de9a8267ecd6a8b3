"""The load generator's reconnect storm against a real gateway."""

import json
import subprocess
import unittest

from gateway import Gateway, binary

GENERATOR = binary().parent / "pulsegate-loadgen"


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
            self.assertEqual(run.returncode, 0, run.stderr)
            report = json.loads(run.stdout)

            self.assertEqual({check["name"]: check["outcome"] for check in report["checks"]},
                             {"connected": "pass", "false_offline": "pass", "expiry": "none",
                              "messages": "pass", "storm_back": "pass", "storm_latency": "pass",
                              "generator": "pass"}, run.stderr)
            storm = report["storm"]
            self.assertEqual(storm["vanished"], 400)
            self.assertEqual(storm["back"], 400)
            self.assertEqual(storm["return"]["count"], 400)
            self.assertEqual(storm["attempts"], 400 + storm["busy"] + storm["dropped"])
            self.assertGreaterEqual(storm["took"], storm["last_attempt"]["max"])
            latency = storm["established"]["latency"]
            self.assertGreater(latency["quiet"]["count"], 100)
            if latency["storm"]["count"]:
                self.assertGreater(latency["p99_ratio"], 0)

            # Each of them logged in twice, and neither the others nor anybody else did.
            self.assertEqual(int(gateway.metric("pulsegate_logins_total")), 900)
            self.assertIn("400 vanished", run.stderr)


if __name__ == "__main__":
    unittest.main()
