"""Ports for servers that tests start. No two tests get the same one, even if they run at the same time."""

import random
import socket

# Below the ports that the system gives to outgoing connections: those of other tests don't take it meanwhile.
LOWEST, HIGHEST = 15_000, 32_000

_claims = []  # as long as this process runs


def claim(port):
    """True if nothing listens on the port, and no other test has claimed it: a server that will listen there may need
    seconds to start, or be restarted. A name of a Unix socket without a file belongs to one process, and goes with it."""
    name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        name.bind(f"\0pulsegate-test-port-{port}")
        with socket.create_server(("", port)):
            _claims.append(name)
            return True
    except OSError:
        name.close()
        return False


def free_ports(count):
    """The first of so many in a row."""
    while True:
        first = random.randrange(LOWEST, HIGHEST)
        if all([claim(port) for port in range(first, first + count)]):
            return first


def free_port():
    return free_ports(1)
