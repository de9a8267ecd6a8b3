"""mosquitto's clients, and all that waits for a session or comes at once."""

import itertools
import subprocess

from gateway import PATIENCE, wait_until

_numbers = itertools.count(1)


def publish(gateway, *arguments):
    subprocess.run(["mosquitto_pub", "-p", str(gateway.port), *arguments], check=True, timeout=PATIENCE)


def leave_a_session(gateway, *arguments):
    """A client that has subscribed, and is gone."""
    subprocess.run(["mosquitto_sub", "-p", str(gateway.port), "-c", "-E", *arguments], check=True, timeout=PATIENCE)


def first_line(gateway, *arguments):
    """What comes first to a client that subscribes so."""
    done = subprocess.run(["mosquitto_sub", "-p", str(gateway.port), "-v", "-C", "1", "-W", str(PATIENCE), *arguments],
                          capture_output=True, text=True, timeout=2 * PATIENCE)
    return done.stdout.rstrip("\n")


def received(gateway, *arguments, least=0):
    """The messages for a client that subscribes so, as lines: all that come before a last message, which is published
    when the client has subscribed. Retained messages may come after that one: it waits until there are `least` lines."""
    subacks = gateway.metric("pulsegate_packets_sent_total", type="suback")
    last = f"end/{next(_numbers)}"
    process = subprocess.Popen(["mosquitto_sub", "-p", str(gateway.port), "-W", str(PATIENCE), "-v", "-t", last, *arguments],
                               stdout=subprocess.PIPE, text=True)
    with process:
        wait_until(lambda: gateway.metric("pulsegate_packets_sent_total", type="suback") > subacks, what="a subscription")
        publish(gateway, "-q", "2", "-t", last, "-m", "last")
        lines = []
        has_ended = False
        for line in process.stdout:
            if line.startswith(last):
                has_ended = True
            else:
                lines.append(line.rstrip("\n"))
            if has_ended and len(lines) >= least:
                process.terminate()
                return lines
    raise AssertionError(f"{last} and {least} lines did not come, but {lines}")
