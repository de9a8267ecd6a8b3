#!/usr/bin/python3
"""What clients over TLS 1.3 cost Pulsegate and mosquitto.

    tests/bench/tls.py [--rounds N] [--clients N] [--pulsegate PATH] [--mosquitto PATH] [--json FILE]

The servers' CPU time, in µs, of a login and logout without a ticket, of a ping and of a message of QoS 0 from one client to
another, in alternating rounds; and the bytes of an idle client. Logins come one after the other. Pings come from 5,000 clients of the
load generator, 5,714 a second, and messages from 2,000, 6,000 a second. The servers are pinned to CPU 0, the clients to CPU 1.
"""

import argparse
import json
import os
import resource
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))

from certificates import Certificates
from gateway import connect_packet
from streams import receive

LOGINS = 300
WINDOW = 5  # seconds in which packets are counted
DISCONNECT = b"\xe0\x00"


class Server:
    """A process with a TLS listener."""

    def __init__(self, name, command, port):
        self.name, self.port = name, port
        self.process = subprocess.Popen(["taskset", "-c", "0", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(100):
            try:
                return socket.create_connection(("127.0.0.1", port)).close()
            except ConnectionRefusedError:
                time.sleep(0.1)
        raise SystemExit(f"{name} does not start: {command}")

    def cpu(self):
        """Its CPU time so far, in µs."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(each.read_text().split()[0]) for each in tasks) / 1000

    def memory(self):
        """Resident bytes that are no pages of files."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("RssAnon:")[1].split()[0]) * 1024

    def stop(self):
        self.process.terminate()
        self.process.wait()


def servers(options, folder):
    """Both, one after the other."""
    certificate, key = Certificates.issue(options.authority, "server", host="localhost")
    pulsegate = [options.pulsegate, "--data", "none", "--shards", "1", "--ban-flaps", "0", "--listen", "mqtts://127.0.0.1:22310",
                 "--listen", "http://127.0.0.1:22311", "--tls-cert", certificate, "--tls-key", key]
    settings = Path(folder) / "mosquitto.conf"
    settings.write_text(f"listener 22320 127.0.0.1\nallow_anonymous true\ncertfile {certificate}\nkeyfile {key}\nuser root\n"
                        "set_tcp_nodelay true\nlog_dest none\n")
    return (("pulsegate", pulsegate, 22310), ("mosquitto", [options.mosquitto, "-c", str(settings)], 22320))


def client(server, context, number):
    """A client that has logged in."""
    plain = socket.socket()
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    plain.bind((f"127.0.{1 + number // 5000}.1", 0))  # one address has too few ports for everybody
    plain.connect(("127.0.0.1", server.port))
    stream = context.wrap_socket(plain, server_hostname="localhost")
    name = f"client-{number:06}"
    stream.sendall(connect_packet(name, keepalive=600))
    assert receive(stream, 4) == b"\x20\x02\x00\x00", f"{name} is refused"
    return stream


def login(server, context):
    before = server.cpu()
    for number in range(LOGINS):
        stream = client(server, context, number)
        stream.sendall(DISCONNECT)
        receive(stream, 1)
        stream.close()
    return (server.cpu() - before) / LOGINS


def load(server, authority, clients, rate, *options):
    """The CPU time of a packet while clients of the load generator send so many a second, each at its planned time."""
    command = ["taskset", "-c", "1", ROOT / "build/pulsegate-loadgen", "--connect", f"mqtts://localhost:{server.port}",
               "--ca", authority.ca, "--clients", str(clients), "--ramp", "1000/s", "--silent", "0%", "--duration", f"{WINDOW + 4}s",
               "--drain", "1s", *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as generator:
        time.sleep(clients / 1000 + 3)  # they have connected
        before, began = server.cpu(), time.monotonic()
        time.sleep(WINDOW)
        result = (server.cpu() - before) / (time.monotonic() - began) / rate
        assert generator.wait() == 0, f"{server.name}: {command} fails"
    return result


def measure(server, context, authority, figures):
    figures["login and logout, µs"][server.name].append(login(server, context))
    # Clients ping after 0.75 to 1.0 of their keepalive.
    figures["ping, µs"][server.name].append(load(server, authority, 5000, 5714, "--keepalive", "1s", "--messages", "0"))
    figures["message, µs"][server.name].append(load(server, authority, 2000, 6000, "--keepalive", "60s", "--messages", "6000"))


def idle(server, context, size, figures):
    early = [client(server, context, number) for number in range(300)]
    before = server.memory()
    crowd = [client(server, context, 300 + number) for number in range(size)]
    time.sleep(2)  # spare buffers go at a tick
    figures["idle client, bytes"][server.name].append((server.memory() - before) / size)
    for stream in early + crowd:
        stream.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--clients", type=int, default=15_000, help="idle ones; 0: their memory is not measured")
    parser.add_argument("--pulsegate", default=str(ROOT / "build/pulsegate"))
    parser.add_argument("--mosquitto", default="/usr/sbin/mosquitto")
    parser.add_argument("--json", help="file for all figures")
    options = parser.parse_args()
    os.sched_setaffinity(0, {1})
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    options.authority = Certificates()
    context = ssl.create_default_context(cafile=options.authority.ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    names = ("login and logout, µs", "ping, µs", "message, µs", "idle client, bytes")
    figures = {name: {"pulsegate": [], "mosquitto": []} for name in names}
    with tempfile.TemporaryDirectory(prefix="pulsegate-bench-") as folder:
        both = servers(options, folder)
        for number in range(options.rounds + (options.clients > 0)):
            for name, command, port in both if number % 2 == 0 else both[::-1]:
                server = Server(name, command, port)
                if number < options.rounds:
                    measure(server, context, options.authority, figures)
                else:
                    idle(server, context, options.clients, figures)
                server.stop()
            print(json.dumps({what: {who: round(each[-1], 1) for who, each in of.items() if each} for what, of in figures.items()}),
                  file=sys.stderr, flush=True)
    for what, of in figures.items():
        if not of["pulsegate"]:
            continue
        ours, theirs = (statistics.median(of[name]) for name in ("pulsegate", "mosquitto"))
        ratios = sorted(a / b for a, b in zip(of["pulsegate"], of["mosquitto"]))
        print(f"{what}: Pulsegate {ours:.1f}, mosquitto {theirs:.1f}, ratio {statistics.median(ratios):.2f} "
              f"({ratios[0]:.2f} to {ratios[-1]:.2f})")
    if options.json:
        Path(options.json).write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
