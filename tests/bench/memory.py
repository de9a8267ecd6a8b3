#!/usr/bin/env python3
"""What memory Pulsegate's clients take, and whether it comes back: the slow sister of tests/e2e/memory_test.py.

    tests/bench/memory.py [--pulsegate PATH] [--json FILE]

Bytes of an idle client over WebSocket and TLS; and the process's own memory a minute after crowds and large messages,
in MB, beside what it was before. A quarter of an hour: most of it goes until the gateway has forgotten a crowd's users.
"""

import argparse
import json
import os
import resource
import ssl
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))

from gateway import Gateway, wait_until
from memory_test import Crowd, own_memory, tls_cost, websocket_cost

MEGABYTE = 1 << 20
MINUTE = 60


def settle(gateway):
    """Waits until no offline user is known, and a minute longer."""
    wait_until(lambda: gateway.metric("pulsegate_users_known", shard="0") == gateway.metric("pulsegate_users_online",
                                                                                            shard="0"),
               timeout=20 * MINUTE, what="to be forgotten")
    time.sleep(MINUTE)


def crowds():
    """15,000 come and go, three times, and are forgotten."""
    with Gateway("--shards", "1", "--forget-after", "1s") as gateway:
        yield "before crowds, MB", own_memory(gateway) / MEGABYTE
        for _ in range(3):
            crowd = Crowd(gateway.port, 15_000)
            yield "with a crowd, MB", own_memory(gateway) / MEGABYTE
            crowd.leave()
        settle(gateway)
        yield "after crowds, MB", own_memory(gateway) / MEGABYTE


def large_messages():
    """Each of 1,000 clients that stay gets a message of a megabyte."""
    payload = bytes(MEGABYTE)
    with Gateway("--shards", "1", "--max-packet-size", "2MiB", "--output-budget", "4MiB", "--max-byte-rate",
                 "0") as gateway:
        receivers = Crowd(gateway.port, 1_000)
        publisher = gateway.connect("publisher")
        yield "before large messages, MB", own_memory(gateway) / MEGABYTE
        for number, receiver in enumerate(receivers.clients):
            topic = f"inbox/client-{number:06}"
            publisher.publish(topic, payload)
            size = 1 + 3 + 2 + len(topic) + MEGABYTE  # the length of a packet of 1 MiB takes three bytes
            assert len(receiver.receive(size)) == size, "a message is not complete"
        settle(gateway)
        yield "after large messages, MB", own_memory(gateway) / MEGABYTE
        receivers.leave()


def measure():
    yield "WebSocket, idle bytes", websocket_cost()
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        yield f"{version.name}, idle bytes", tls_cost(version, "openssl", size=2_000)
    yield "TLSv1_3 by its keys, idle bytes", tls_cost(ssl.TLSVersion.TLSv1_3, "small", size=15_000)
    yield from crowds()
    yield from large_messages()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pulsegate", default=str(ROOT / "build/pulsegate"), help="another build")
    parser.add_argument("--json", help="file for all figures")
    options = parser.parse_args()
    os.environ["PULSEGATE"] = options.pulsegate
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    figures = {}
    for what, value in measure():
        print(f"{what}: {value:.2f}", file=sys.stderr, flush=True)
        figures.setdefault(what, {}).setdefault(options.pulsegate, []).append(value)
    if options.json:
        Path(options.json).write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
