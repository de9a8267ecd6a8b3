"""The load generator against a real gateway: its processes, its results and its exit status."""

import json
import os
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from gateway import Gateway, SANITIZED, binary, let_pass, wait_until
from lab import tried_again
from ports import free_port

GENERATOR = binary().parent / "pulsegate-loadgen"
REFUSED = 2  # no verdict: the machine that runs the tests may be busy with others
WORSE = 3
WRONG_USAGE = 64
INTERRUPTED = 130


def ask(*arguments):
    return subprocess.run([GENERATOR, *arguments], capture_output=True, text=True, timeout=60)


def children(process):
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(child) for child in path.read_text().split()]


class Lab(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="lab-")
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return str(Path(self.folder.name) / name)

    def start(self, gateway, *arguments):
        process = subprocess.Popen(
            [GENERATOR, "--connect", f"mqtt://127.0.0.1:{gateway.port}", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        return process

    def finish(self, process, timeout=120):
        out, err = process.communicate(timeout=timeout)
        return process.returncode, out, err

    def write(self, name, record):
        Path(self.path(name)).write_text(json.dumps(record))

    def record(self, name):
        return json.loads(Path(self.path(name)).read_text())

    def outcomes(self, record):
        return {check["name"]: check["outcome"] for check in record["checks"]}

    def test_a_run_of_several_workers_adds_up(self):
        with Gateway() as gateway:
            status, out, err = self.finish(self.start(
                gateway, "--clients", "120", "--workers", "3", "--messages", "200/s", "--duration",
                "3s", "--silent", "0%", "--qos", "0:40% 1:40% 2:20%", "--json", self.path("run.json"),
                "--html", self.path("run.html")))
            self.assertIn(status, (0, REFUSED), out + err)
            logins = int(gateway.metric("pulsegate_logins_total"))
        run = self.record("run.json")
        counts = run["totals"]["counts"]
        self.assertEqual(run["workers"], 3)
        self.assertEqual(counts["entered"], 120)
        if not tried_again(counts):
            self.assertEqual((counts["connected"], logins), (120, 120))
        self.assertGreater(counts["messages_sent"], 0)
        self.assertLess(counts["messages_sent"], 1200)  # each worker sends a third of 600, or a bit more if it ends late
        self.assertEqual(counts["messages_received"], counts["messages_sent"])
        self.assertEqual(counts.get("messages_lost", 0), 0)
        self.assertEqual(sum(stretch.get("counts", {}).get("messages_sent", 0)
                             for stretch in run["series"]), counts["messages_sent"])
        self.assertNotIn("failed", self.outcomes(run).values())
        self.assertIn("</html>", Path(self.path("run.html")).read_text())

        done = ask("compare", self.path("run.json"), self.path("run.json"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("keepalive", done.stdout)
        self.check_comparison(run)

    def check_comparison(self, run):
        """Of this run with itself and with a worse one; each of them has two files."""
        for check in run["checks"]:
            check["outcome"] = "passed"
        self.write("good.json", run)
        run["totals"]["counts"]["messages_lost"] = 7
        self.write("bad.json", run)
        good, bad = self.path("good.json"), self.path("bad.json")
        done = ask("compare", "--repeats", "2", "--worse", "10%", good, good, good, good)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("no run is worse than the first", done.stdout)
        done = ask("compare", "--repeats", "2", "--worse", "10%", good, good, bad, bad)
        self.assertEqual(done.returncode, WORSE, done.stdout + done.stderr)
        self.assertIn("worse: messages lost of keepalive (3): 7 instead of 0", done.stdout)
        run["checks"][0]["outcome"] = "refused"
        self.write("refused.json", run)
        done = ask("compare", "--worse", "10%", good, self.path("refused.json"))
        self.assertEqual(done.returncode, REFUSED, done.stdout + done.stderr)

    def test_runs_that_allow_no_estimate_have_an_exit_status_of_their_own(self):
        for clients, memory in ((1000, 50e6), (2000, 40e6), (3000, 60e6)):
            second = {"second": 0, "length": 1, "counts": {"packets_sent": clients // 10}, "timings": {},
                      "gauges": {"clients_open": clients, "server_memory": memory, "server_cpu": clients / 1e5}}
            self.write(f"{clients}.json", {
                "kind": "a run of pulsegate-loadgen", "name": str(clients), "verdict": "", "series": [second],
                "totals": {"counts": {}, "timings": {}, "gauges": {}}, "marks": [{"at": 0, "text": "measuring begins"}],
                "checks": []})
        done = ask("plan", "1000000", self.path("1000.json"), self.path("2000.json"))
        self.assertEqual(done.returncode, REFUSED, done.stdout + done.stderr)
        self.assertIn("no estimate: the server's memory shrinks as clients are added, by 10.0 kB a client", done.stdout)
        done = ask("plan", "1000000", self.path("1000.json"), self.path("3000.json"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("memory a client", done.stdout)

    def test_a_mistyped_option_has_an_exit_status_of_its_own(self):
        for arguments in (["--clientz", "5"], ["no-such-scenario"], ["compare", "a", "b", "c", "--repeats", "2"]):
            with self.subTest(arguments=arguments):
                done = ask(*arguments)
                self.assertEqual((done.returncode, done.stderr.count("\n")), (WRONG_USAGE, 1), done.stderr)

    def test_a_generator_that_stands_still_in_the_ramp_gives_no_verdict(self):
        with Gateway() as gateway:
            run = self.start(gateway, "--clients", "300", "--ramp", "50/s", "--duration", "1s", "--silent", "0%",
                             "--keepalive", "60s", "--json", self.path("run.json"))
            wait_until(lambda: int(gateway.metric("pulsegate_connections")) > 10)
            workers = children(run)
            for stop in (signal.SIGSTOP, signal.SIGCONT):
                for worker in workers:
                    os.kill(worker, stop)
                let_pass(1.5 if stop == signal.SIGSTOP else 0)
            status, out, err = self.finish(run)
        self.assertEqual(status, REFUSED, out + err)
        self.assertEqual(self.outcomes(self.record("run.json"))["generator_stalls"], "refused")

    def test_a_worker_that_dies_ends_the_run_by_name(self):
        with Gateway() as gateway:
            run = self.start(gateway, "--clients", "60", "--workers", "3", "--duration", "60s")
            workers = wait_until(lambda: len(children(run)) == 3 and children(run))
            os.kill(workers[1], signal.SIGKILL)
            status, out, err = self.finish(run, timeout=60)
            self.assertEqual(status, 1)
            self.assertIn("worker 1 was killed by signal 9", err)
            wait_until(lambda: int(gateway.metric("pulsegate_connections")) == 0)

    def test_an_interrupted_run_reports_what_it_has(self):
        with Gateway() as gateway:
            run = self.start(gateway, "--clients", "50", "--workers", "2", "--duration", "60s",
                             "--json", self.path("run.json"))
            wait_until(lambda: int(gateway.metric("pulsegate_connections")) == 50)
            run.send_signal(signal.SIGINT)
            status, out, err = self.finish(run, timeout=60)
            self.assertEqual(status, INTERRUPTED, err)
        self.assertTrue(self.record("run.json")["interrupted"])

    def test_workers_of_other_machines_show_a_token(self):
        Path(self.path("token")).write_text("a secret of the test\n".replace(" ", "-"))
        Path(self.path("wrong")).write_text("a-secret-of-the-tent\n")
        port = free_port()

        def worker(token):
            return subprocess.Popen(
                [GENERATOR, "--worker", "--coordinator", f"127.0.0.1:{port}", "--token-file",
                 self.path(token)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        with Gateway() as gateway:
            run = self.start(gateway, "--clients", "40", "--duration", "2s", "--silent", "0%",
                             "--coordinator-listen", f"127.0.0.1:{port}", "--workers", "2",
                             "--token-file", self.path("token"), "--json", self.path("run.json"))
            run.stderr.readline()  # waiting for 2 workers
            status, out, err = self.finish(worker("wrong"), timeout=60)
            self.assertEqual(status, 1)
            self.assertIn("token is not the same", err)
            workers = [worker("token"), worker("token")]
            status, out, err = self.finish(run, timeout=60)
            self.assertIn(status, (0, REFUSED), out + err)
            for each in workers:
                self.assertEqual(self.finish(each, timeout=60)[0], 0)
        self.assertEqual(self.record("run.json")["totals"]["counts"]["entered"], 40)

    def test_a_client_closed_without_need_is_false_offline(self):
        with Gateway() as gateway:
            run = self.start(gateway, "--clients", "20", "--duration", "1h", "--silent", "0%",
                             "--user", "u{n}", "--json", self.path("run.json"))
            # Messages are sent in the part of the run that is measured, after all have come.
            wait_until(lambda: int(gateway.metric("pulsegate_messages_received_total")) > 0)
            self.assertEqual(gateway.ask("DELETE", "/api/v1/clients?user=u7")[0], 200)
            wait_until(lambda: int(gateway.metric("pulsegate_logins_total")) > 20, what="its return")
            run.send_signal(signal.SIGINT)
            status, out, err = self.finish(run)
            self.assertEqual(status, INTERRUPTED, out + err)
        record = self.record("run.json")
        self.assertEqual(record["totals"]["counts"]["false_offline"], 1)
        self.assertIn(self.outcomes(record)["false_offline"], ("failed", "refused"))

    @unittest.skipIf(SANITIZED, "a search takes its time")
    def test_the_capacity_of_a_gateway_that_lets_few_in_is_found(self):
        with Gateway("--max-connections", "150") as gateway:
            run = self.start(gateway, "capacity", "--clients", "60", "--messages", "20/s",
                             "--duration", "1s", "--repeats", "1", "--resolution", "50%", "--most",
                             "8", "--json", self.path("search.json"))
            status, out, err = self.finish(run)
        found = self.record("search.json")
        if status == REFUSED:
            self.skipTest("the machine was too busy: " + found["sentence"])
        self.assertEqual(status, 0, out + err)
        self.assertLessEqual(found["holds"] * 60, 150)
        self.assertGreater(found["breaks"] * 60, 150)
        self.assertIn("logins", found["sentence"])

    @unittest.skipIf(SANITIZED, "a search takes its time")
    def test_a_search_that_is_out_of_trials_gives_no_verdict(self):
        with Gateway() as gateway:
            run = self.start(gateway, "capacity", "--clients", "60", "--messages", "20/s", "--duration", "1s", "--trials", "1", "--json",
                             self.path("search.json"))
            status, out, err = self.finish(run)
        self.assertEqual(status, REFUSED, out + err)
        self.assertEqual(self.record("search.json")["verdict"], "unfinished")
        self.assertIn("no verdict: --trials allowed no more", out)

    def search(self, gateway):
        """A search in its second trial."""
        run = self.start(gateway, "capacity", "--clients", "60", "--messages", "20/s", "--duration",
                         "3s", "--json", self.path("search.json"))
        logins = lambda: int(gateway.metric("pulsegate_logins_total"))
        wait_until(lambda: logins() >= 60 + 30, timeout=60)
        return run

    @unittest.skipIf(SANITIZED, "a search takes its time")
    def test_a_search_whose_server_dies_tells_what_it_has_found(self):
        with Gateway() as gateway:
            run = self.search(gateway)
            gateway.kill()
            status, out, err = self.finish(run)
        self.assertEqual(status, 1, out + err)
        found = self.record("search.json")
        self.assertEqual(found["verdict"], "unfinished")
        self.assertIn("no verdict: the server was gone after 2 trials", out)
        self.assertEqual(found["trials"][1]["outcome"], "broke")
        self.assertIn("no longer accepts connections", found["trials"][1]["reason"])

    @unittest.skipIf(SANITIZED, "a search takes its time")
    def test_an_interrupted_search_gives_no_verdict(self):
        with Gateway() as gateway:
            run = self.search(gateway)
            run.send_signal(signal.SIGINT)
            status, out, err = self.finish(run)
        self.assertEqual(status, INTERRUPTED, out + err)
        self.assertIn("no verdict: interrupted after 1 trial", out)
        self.assertTrue(self.record("search.json")["interrupted"])


if __name__ == "__main__":
    unittest.main()
