"""Two hundred accounts with right passwords that make the gateway keep as much as they can."""

import base64
import hashlib
import itertools
import os
import random
import struct
import subprocess
import sys
import threading
from pathlib import Path

from gateway import Client, packet, text, varint

ACCOUNTS = 200
THREADS = 8
LONG_NAME = 60_000
LARGE = 100_000
PASSWORD = "right"


def write_passwords(path, users):
    """A password file in which all of them have PASSWORD; hashed cheaply."""
    salt = os.urandom(12)
    digest = hashlib.pbkdf2_hmac("sha512", PASSWORD.encode(), salt, 100)
    line = f"$7$100${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"
    path = Path(path)
    path.write_text("".join(f"{user}:{line}\n" for user in users))
    path.chmod(0o600)
    return str(path)


def account(number):
    return f"hostile{number}"


def connect(client, user, *, lasting=False, will=None):
    """CONNECT of MQTT 5.0 with the right password; `will` is (topic, payload), and comes an hour later."""
    flags = 0xC0 | (0x04 if will else 0) | (0 if lasting else 0x02)
    properties = b"\x11" + struct.pack(">I", 3600) if lasting else b""
    body = text("MQTT") + bytes([5, flags]) + struct.pack(">H", 600) + varint(len(properties)) + properties
    body += text(client)
    if will:
        delay = b"\x18" + struct.pack(">I", 3600) if lasting else b""
        body += varint(len(delay)) + delay + text(will[0]) + text(will[1])
    return packet(0x10, body + text(user) + text(PASSWORD))


def publish(topic, payload, *, retain=False, alias=None):
    """PUBLISH of MQTT 5.0 at QoS 1."""
    properties = b"\x23" + struct.pack(">H", alias) if alias else b""
    body = text(topic) + struct.pack(">H", 1) + varint(len(properties)) + properties + payload
    return packet(0x33 if retain else 0x32, body)


def subscribe(*filters):
    return packet(0x82, struct.pack(">H", 1) + b"\0" + b"".join(text(name) + b"\1" for name in filters))


class Attacker:
    """One account: each kind of attack is a step, which is taken again and again."""

    def __init__(self, port, number):
        self.port = port
        self.user = account(number)
        self.address = f"127.1.{number // 100}.{number % 100 + 1}"
        self.counter = itertools.count(random.getrandbits(40))  # not the names of an earlier attack
        self.one = None
        self.held = []

    def close(self):
        for client in [self.one, *self.held]:
            if client:
                client.close()

    def name(self, size):
        return f"{self.user}/{next(self.counter)}/".ljust(size, "x")

    def enter(self, client, **options):
        """A client that is logged in, or None."""
        one = Client(self.port, timeout=5, source=self.address)
        try:
            one.send(connect(client, self.user, **options))
            answer = one.receive()
        except OSError:
            answer = None
        if answer and answer[0] == 0x20 and answer[1][1] == 0:
            one.version = 5
            return one
        one.close()
        return None

    def ask(self, *packets):
        """Sends them over the account's own connection, and awaits an answer to each."""
        if not self.one:
            self.one = self.enter("own")
        if not self.one:
            return
        try:
            self.one.send(b"".join(packets))
            for _ in packets:
                if self.one.receive() is None:
                    raise ConnectionError
        except OSError:
            self.one.close()
            self.one = None

    def hold(self, client, most, **options):
        """One more connection that stays, or that takes the place of the oldest."""
        if len(self.held) >= most:
            self.held.pop(0).close()
        if one := self.enter(client, **options):
            self.held.append(one)
        return one

    def retained(self):
        self.ask(*(publish(self.name(1000), b"!" * LARGE, retain=True) for _ in range(4)),
                 publish(self.name(LONG_NAME), b"!", retain=True))

    def wills(self):
        number = next(self.counter)
        self.hold(f"will{number}", 20, lasting=number % 2 == 0,
                  will=(self.name(LONG_NAME), b"!" * LONG_NAME))

    def inboxes(self):
        self.ask(*(publish("inbox/" + self.name(1000).replace("/", "-"), b"!") for _ in range(20)))

    def away(self):
        number = next(self.counter)
        if one := self.enter(f"away{number}", lasting=True):
            one.send(subscribe(f"away/{self.user}/{number}"))
            one.receive()
            one.close()
        self.ask(*(publish(f"away/{self.user}/{number}", b"!" * LARGE) for _ in range(5)))

    def delayed(self):
        delay = random.choice((5, 60, 3600))
        self.ask(*(publish(f"$delayed/{delay}/" + self.name(1000), b"!" * LARGE) for _ in range(3)),
                 publish(f"$delayed/{delay}/" + self.name(LONG_NAME), b"!"))

    def filters(self):
        if one := self.hold(f"filters{next(self.counter)}", 5):
            one.send(subscribe(*(self.name(LONG_NAME) for _ in range(4))))
            one.receive()

    def aliases(self):
        if one := self.hold(f"aliases{next(self.counter)}", 5):
            for alias in range(1, 17):
                one.send(publish(self.name(LONG_NAME), b"!", alias=alias))
                if one.receive() is None:
                    return

    def mix(self):
        getattr(self, random.choice(KINDS))()


KINDS = ("retained", "wills", "inboxes", "away", "delayed", "filters", "aliases")


class Attack:
    """All accounts at one kind of attack, or at the `mix`, for as long as the context lasts. They are in a process of their
    own, so that the honest clients don't wait for Python's lock."""

    def __init__(self, port, kind):
        self.command = [sys.executable, "-W", "ignore", __file__, str(port), kind]
        self.steps = 0

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_):
        said, _ = self.process.communicate(timeout=60)
        self.steps = int(said)


def attack(port, kind):
    """Until the end of standard input; then it says how many steps were taken."""
    attackers = [Attacker(port, number) for number in range(ACCOUNTS)]
    ends = threading.Event()
    steps = [0] * THREADS

    def run(thread):
        for attacker in itertools.cycle(attackers[thread::THREADS]):
            if ends.is_set():
                return
            try:
                getattr(attacker, kind)()
            except (OSError, AssertionError):
                pass  # it was refused or cut, and comes again
            steps[thread] += 1

    threads = [threading.Thread(target=run, args=(thread,), daemon=True) for thread in range(THREADS)]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    ends.set()
    for thread in threads:
        thread.join(30)
    for attacker in attackers:
        attacker.close()
    print(sum(steps))


if __name__ == "__main__":
    attack(int(sys.argv[1]), sys.argv[2])
