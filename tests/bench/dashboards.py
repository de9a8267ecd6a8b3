#!/usr/bin/env python3
"""What open dashboards cost the clients: the p99 of messages with and without them, in windows that alternate.

    .ci/build build pulsegate pulsegate-loadgen
    tests/bench/dashboards.py                     # 15,000 clients, 3,000 packets a second, 3 dashboards: four minutes

A dashboard is played by a thread that asks what the page asks, as often as the page does, and reads all of the answers: a
browser on the same machine would take the CPU that is to be measured. `pulsegate-loadgen` says how long messages took in each
second.
"""

import argparse
import http.client
import json
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SETTLING = 2  # s at the beginning of each window that are not judged
SCENARIO = """about = messages beside open dashboards
clients = {clients}
packets = {packets}/s
duration = {duration}s
ramp = 2000/s
keepalive = 20s
version = 5
messages = fill
qos = 0:50% 1:50%
"""
# What server/http/dashboard/ asks while its overview is shown: s between an answer and the next question.
QUESTIONS = ((1, ("status", "wheel")), (5, ("samples",)), (2, ("status",)))


class Dashboard(threading.Thread):
    """The overview, while it is shown."""

    def __init__(self, port, every, names):
        super().__init__(daemon=True)
        self.port, self.every, self.names = port, every, names
        self.is_shown, self.asked = threading.Event(), 0

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        since = ""
        while True:
            if not self.is_shown.is_set():
                connection.close()  # or the gateway does: it is asked nothing for a while
                self.is_shown.wait()
            for name in self.names:
                connection.request("GET", f"/api/v1/{name}{since}")
                answer = connection.getresponse()
                said = json.loads(answer.read())
                assert answer.status == 200, (name, said)
                if samples := said.get("samples"):
                    since = f"?since={samples[-1]['time']}"
                self.asked += 1
            time.sleep(self.every)  # the page's own pause


def start_gateway(binary, folder):
    process = subprocess.Popen([str(binary), "--listen", "mqtt://127.0.0.1:0", "--listen", "http://127.0.0.1:0", "--data",
                                str(folder / "data")], stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    for line in process.stderr:
        if "ready: " in line:
            ports = [int(word.rpartition(":")[2].rstrip(",")) for word in line.split() if "://127.0.0.1:" in word]
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return process, *ports[:2]
    raise SystemExit("the gateway did not start")


def value_of(bucket):
    """The greatest value, in ns, of a bucket of the generator's histograms (loadgen/measure/histogram.cpp)."""
    if bucket < 256:
        return bucket
    shift = bucket // 128 - 1
    return ((bucket - shift * 128 + 1) << shift) - 1


def percentile(histograms, fraction):
    """Of several histograms together, in ms."""
    counts = {}
    for histogram in histograms:
        pairs = iter(histogram["buckets"])
        for bucket, count in zip(pairs, pairs, strict=True):
            counts[bucket] = counts.get(bucket, 0) + count
    rank, below = fraction * sum(counts.values()), 0
    for bucket in sorted(counts):
        below += counts[bucket]
        if below >= rank:
            return value_of(bucket) / 1e6
    return 0


def connected(http_port):
    with urllib.request.urlopen(f"http://127.0.0.1:{http_port}/api/v1/status", timeout=60) as answer:
        return json.loads(answer.read())["clients"]["connected"]


def run_load(options, folder, port, http_port, dashboards):
    """The record of the generator, and the windows: (begin, end, are dashboards open) in Unix time."""
    windows = []
    scenario = folder / "dashboards.scenario"
    scenario.write_text(SCENARIO.format(clients=options.clients, packets=options.packets,
                                        duration=2 * options.rounds * options.window + 5))
    result = folder / "load.json"
    load = subprocess.Popen([str(options.build / "pulsegate-loadgen"), str(scenario), "--connect", f"mqtt://127.0.0.1:{port}",
                             "--json", str(result)], stdout=subprocess.DEVNULL)
    while connected(http_port) < options.clients:  # the ramp
        assert load.poll() is None, "the generator ended before all clients had come"
        time.sleep(0.2)  # before it looks again
    for turn in range(2 * options.rounds):
        is_open = (turn + turn // 2) % 2 == 1  # off, on; on, off; ...: a trend hits both alike
        for dashboard in dashboards:
            dashboard.is_shown.set() if is_open else dashboard.is_shown.clear()
        begin = time.time()
        time.sleep(options.window)
        windows.append((begin, time.time(), is_open))
    for dashboard in dashboards:
        dashboard.is_shown.clear()
    load.wait(120)
    return json.loads(result.read_text()), windows


def median_of(values):
    return statistics.median(values) if values else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--clients", type=int, default=15_000)
    parser.add_argument("--packets", type=int, default=3_000)
    parser.add_argument("--dashboards", type=int, default=3)
    parser.add_argument("--window", type=int, default=15, help="seconds")
    parser.add_argument("--rounds", type=int, default=6, help="of two windows each")
    parser.add_argument("--build", type=Path, default=REPOSITORY / "build")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dashboards-") as name:
        folder = Path(name)
        gateway, mqtt, http_port = start_gateway(options.build / "pulsegate", folder)
        try:
            dashboards = [Dashboard(http_port, every, names) for _ in range(options.dashboards) for every, names in QUESTIONS]
            for dashboard in dashboards:
                dashboard.start()
            record, windows = run_load(options, folder, mqtt, http_port, dashboards)
        finally:
            gateway.terminate()
            gateway.wait(60)
    least = 1.5 * options.rounds * options.window * options.dashboards
    assert sum(dashboard.asked for dashboard in dashboards) > least, "the dashboards have asked too little"
    found = {False: [], True: []}
    for begin, end, is_open in windows:
        seconds = [each["timings"]["message"] for each in record["series"] if "message" in each["timings"] and
                   begin + SETTLING <= record["started"] + each["second"] <= end - 1]
        if seconds:
            found[is_open].append((percentile(seconds, 0.5), percentile(seconds, 0.99)))
    print(f"{options.clients} clients, {options.packets} packets/s, {options.dashboards} dashboards that asked "
          f"{sum(dashboard.asked for dashboard in dashboards)} times; generator: {record['verdict']}")
    for is_open, what in ((False, "without"), (True, "with")):
        print(f"{what:8} p50 {median_of([half for half, _ in found[is_open]]):6.3f} ms  p99 "
              f"{median_of([most for _, most in found[is_open]]):6.3f} ms  (of windows: "
              + ", ".join(f"{most:.2f}" for _, most in found[is_open]) + ")")
    ratios = [on[1] / off[1] for off, on in zip(found[False], found[True], strict=False) if off[1]]
    print(f"p99 with / without: {median_of(ratios):.3f} (median of pairs; {min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
