"""Clients that send each other numbered messages on any node, and come back when they lose their connection; and the book
in which all that they see is judged."""

import asyncio
import collections
import contextlib
import itertools
import json
import math
import random
import time

import packets
from gateway import PINGREQ, let_pass_meanwhile, seconds_since_1970
from packets import (CONNACK, DISCONNECT, PINGRESP, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, SUBACK, UNSUBACK,
                     FromServer)

KEEPALIVE = 6  # seconds
MILLISECOND = 0.001
MOST_OPEN = 8  # messages of a client that are not acknowledged


class Book:
    """What was promised, and what came. Each fault is one line. Clients are offline after `limit` seconds of silence."""

    def __init__(self, limit):
        self.limit = limit
        self.faults = []
        self.acknowledged, self.received = set(), collections.Counter()
        self.last_acknowledgement = 0.0  # when it came
        self.longest_pause = 0.0  # seconds between two acknowledgements, whatever clients got them
        self.latest = {}  # the last number by sender and receiver
        self.gaps = collections.defaultdict(list)  # by client: from the last answer until the next login
        # By client, by the wall clock: from the end of a login without an answer until the next login.
        self.given_up = collections.defaultdict(list)
        self.versions = {}  # of presence, by watcher and user
        self.offline = []
        self.repeated = self.logins = 0
        self.news = asyncio.Event()  # a client has received something
        self.logins_at_once = asyncio.Semaphore(200)  # with thousands, this process would be too slow to end any of them
        self.longest_gap = 0.0

    def fault(self, what):
        self.faults.append(what)

    def acknowledge(self, key):
        self.acknowledged.add(key)
        now = time.monotonic()
        if self.last_acknowledgement:
            self.longest_pause = max(self.longest_pause, now - self.last_acknowledgement)
        self.last_acknowledgement = now

    def receive(self, sender, receiver, number, qos):
        key = sender, receiver, number
        self.received[key] += 1
        if self.received[key] > 1:
            self.repeated += 1
            if qos == 2:
                self.fault(f"message {number} of {sender} to {receiver} came twice, at QoS 2")
        elif number < self.latest.get((sender, receiver), 0):
            self.fault(f"message {number} of {sender} to {receiver} came after {self.latest[sender, receiver]}")
        else:
            self.latest[sender, receiver] = number

    def missing(self):
        return self.acknowledged - self.received.keys()

    def see(self, watcher, event):
        user, version = event["user"], event["version"]
        if version < self.versions.get((watcher, user), 0):
            self.fault(f"the version of {user} fell from {self.versions[watcher, user]} to {version} for {watcher}")
        self.versions[watcher, user] = version
        if event["state"] == "offline":
            self.offline.append((watcher, user, time.monotonic(), event["cause"], seconds_since_1970(event["since"])))

    def give_up(self, client):
        """The server may have let it in, and then sees that its connection ends."""
        self.given_up[client].append((time.time(), math.inf))

    def come(self, client, last_packet, now):
        self.logins += 1
        self.given_up[client] = [(begin, min(end, time.time())) for begin, end in self.given_up[client]]
        if last_packet:
            self.gaps[client].append((last_packet, now))
            self.longest_gap = max(self.longest_gap, now - last_packet)

    def judge(self, clients):
        """All faults, when the clients have stayed until nothing more comes."""
        lost = [f"message {number} of {sender} to {receiver} is lost" for sender, receiver, number in self.missing()]
        open_gaps = {each.name: each.last_packet for each in clients}
        untrue = []
        for watcher, user, when, cause, since in self.offline:
            if cause == "connection_lost" and any(begin - MILLISECOND < since < end for begin, end in self.given_up[user]):
                continue  # the login was accepted, and its end was noticed before the client was back
            gaps = [*self.gaps[user], (open_gaps.get(user, 0), time.monotonic())]
            if not any(begin < when and end - begin > self.limit - 0.5 for begin, end in gaps):
                untrue.append(f"{user} was offline ({cause}) for {watcher}, and had never been silent for so long")
        return self.faults + lost + untrue


class Lost(Exception):
    """The connection has ended."""


class Chatter:
    """A client with a kept session. It sends messages of QoS 1 and 2 to random others, `rate` a second."""

    def __init__(self, number, book, places, rate, dice, keepalive=KEEPALIVE):
        self.name, self.version = f"c{number}", 5 if number % 2 else 4
        self.book, self.places, self.rate, self.dice, self.keepalive = book, places, rate, dice, keepalive
        self.filters = [f"to/{self.name}"]
        self.peers = []
        self.numbers = collections.Counter()  # the last number by receiver
        self.open = {}  # by packet identifier, in order: (key, qos, has been received)
        self.ids = itertools.cycle(range(1, 60_000))
        self.unreleased = set()  # packet identifiers of QoS 2 messages to it
        self.has_session = False
        self.last_packet = 0.0  # when the last one came: what a frozen node is sent, nobody has seen
        self.writer = None
        self.sends = False  # until all have subscribed: nobody gets what is sent before
        self.awaits_end = False
        self.place = None  # where it is logged in
        self.may_return = asyncio.Event()
        self.may_return.set()

    # -- the connection --

    async def live(self):
        while True:
            await self.may_return.wait()
            try:
                await self.visit(self.dice.choice(self.places))
            except (Lost, OSError, asyncio.IncompleteReadError):
                pass
            finally:
                self.leave()
            await let_pass_meanwhile(self.dice.uniform(0.05, 0.3))

    def leave(self):
        if self.writer:
            self.writer.close()
        self.writer = self.place = None

    async def visit(self, place):
        async with self.book.logins_at_once:
            reader, answer = await self.log_in(place)
        if answer.type != CONNACK or answer.reason:
            raise Lost
        now = time.monotonic()
        self.book.come(self.name, self.last_packet, now)
        self.last_packet = now
        self.place = place
        self.begin(answer.session_present)
        work = [asyncio.create_task(self.ping())]
        if self.rate:
            work.append(asyncio.create_task(self.talk()))
        try:
            while True:
                async with asyncio.timeout(self.book.limit):
                    packet = await self.read(reader)
                self.take(packet)
                self.last_packet = time.monotonic()
                self.book.news.set()
        finally:
            for each in work:
                each.cancel()

    async def log_in(self, place):
        # Not wait_for: Python 3.11 loses the end of a task in it now and then (CPython issue 86296).
        async with asyncio.timeout(2):
            reader, self.writer = await asyncio.open_connection(*place)
        self.writer.write(packets.connect(self.version, self.name, clean=False, keepalive=self.keepalive, props=[(0x11, 3600)]))
        try:
            async with asyncio.timeout(min(10, self.keepalive - 1)):
                return reader, await self.read(reader)
        except TimeoutError:
            self.book.give_up(self.name)
            raise

    async def read(self, reader):
        first = (await reader.readexactly(1))[0]
        size = shift = 0
        while True:
            digit = (await reader.readexactly(1))[0]
            size |= (digit & 127) << shift
            shift += 7
            if digit < 128:
                return FromServer(first, await reader.readexactly(size), self.version)

    def send(self, data):
        if self.writer:
            self.writer.write(data)

    def answer(self, packet_type, packet_id):
        self.send(packets.answer(self.version, packet_type, packet_id))

    async def ping(self):
        while True:
            await let_pass_meanwhile(self.keepalive / 4)
            self.send(PINGREQ)

    # -- its messages --

    def begin(self, session_present):
        if self.has_session and not session_present:
            self.book.fault(f"the session of {self.name} is lost")
        if not session_present:
            self.unreleased.clear()
            self.send(packets.subscribe(self.version, next(self.ids), [(name, 2) for name in self.filters]))
        for packet_id, (key, qos, is_received) in list(self.open.items()):
            if not session_present and qos == 2:
                del self.open[packet_id]  # nobody knows whether it has arrived
            elif is_received:
                self.answer(PUBREL, packet_id)
            else:
                self.publish(packet_id, key, qos, again=session_present)

        if self.awaits_end:
            self.ask_for_end()

    def ask_for_end(self):
        """The answer comes behind all that was sent to this client before."""
        self.awaits_end = True
        self.send(packets.unsubscribe(self.version, next(self.ids), ["none"]))

    def publish(self, packet_id, key, qos, again=False):
        self.send(packets.publish(self.version, f"to/{key[1]}", json.dumps([*key, qos]).encode(), qos=qos, packet_id=packet_id,
                                  dup=again))

    async def talk(self):
        while True:
            await let_pass_meanwhile(self.dice.expovariate(self.rate))
            if not self.sends or not self.has_session or len(self.open) >= MOST_OPEN:
                continue
            receiver = self.dice.choice(self.peers)
            if receiver == self.name:
                continue
            self.numbers[receiver] += 1
            key, qos, packet_id = (self.name, receiver, self.numbers[receiver]), self.dice.choice((1, 2)), next(self.ids)
            self.open[packet_id] = key, qos, False
            self.publish(packet_id, key, qos)

    def take(self, got):
        if got.type == PUBLISH:
            self.take_message(got)
        elif got.type == PUBREL:
            self.unreleased.discard(got.packet_id)
            self.answer(PUBCOMP, got.packet_id)
        elif got.type == SUBACK:
            self.has_session = True
        elif got.type == UNSUBACK:
            self.awaits_end = False
        elif got.type in (PUBACK, PUBREC) and got.packet_id in self.open:
            key, qos, _ = self.open[got.packet_id]
            if got.reason >= 0x80:  # it is refused, and gone
                del self.open[got.packet_id]
                return
            self.book.acknowledge(key)
            if got.type == PUBREC:
                self.open[got.packet_id] = key, qos, True
                self.answer(PUBREL, got.packet_id)
            else:
                del self.open[got.packet_id]
        elif got.type == PUBREC:
            self.answer(PUBREL, got.packet_id)
        elif got.type == PUBCOMP:
            self.open.pop(got.packet_id, None)
        elif got.type == DISCONNECT:
            raise Lost
        else:
            assert got.type == PINGRESP, got.type

    def take_message(self, message):
        is_new = message.qos < 2 or message.packet_id not in self.unreleased
        if message.qos == 2:
            self.unreleased.add(message.packet_id)
        if is_new:
            self.judge(message)
        if message.qos:
            self.answer(PUBREC if message.qos == 2 else PUBACK, message.packet_id)

    def judge(self, message):
        sender, receiver, number, qos = json.loads(message.payload)
        if receiver != self.name or qos != message.qos:
            self.book.fault(f"{message.payload} came to {self.name} at QoS {message.qos}")
        self.book.receive(sender, receiver, number, qos)


class Watcher(Chatter):
    """It sends nothing, and hears of the presence of all."""

    def __init__(self, number, book, places, dice, keepalive):
        super().__init__(number, book, places, 0, dice, keepalive)
        self.name = f"watcher{number}"
        self.filters = ["presence/+"]

    def judge(self, message):
        if message.payload:
            self.book.see(self.name, json.loads(message.payload))


class Crowd:
    """Some clients that write, `quiet` others that only read, and two watchers. The first ones send `rate` messages a second."""

    def __init__(self, places, clients=20, quiet=0, rate=120, seed=None, keepalive=KEEPALIVE):
        self.book = Book(1.5 * keepalive)
        self.dice = random.Random(seed)
        self.clients = [Chatter(number, self.book, places, rate / clients if number < clients else 0, self.dice, keepalive)
                        for number in range(clients + quiet)]
        names = [each.name for each in self.clients]
        for each in self.clients:
            each.peers = names
        self.watchers = [Watcher(number, self.book, places, self.dice, keepalive) for number in range(2)]
        self.all = [*self.watchers, *self.clients]
        self.failed = []  # tasks

    async def __aenter__(self):
        self.tasks = []
        for first in range(0, len(self.all), 100):
            some = self.all[first:first + 100]
            self.tasks += [asyncio.create_task(each.live()) for each in some]
            for each in self.tasks[first:]:
                each.add_done_callback(self.fail)
            assert await self.until(lambda: all(each.has_session for each in some), 60), "not each client could subscribe"
        for each in self.clients:
            each.sends = True
        return self

    async def __aexit__(self, *error):
        for each in self.tasks:
            each.cancel()
        for each in self.tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await each

    def fail(self, task):
        self.failed.append(task)
        self.book.news.set()

    async def until(self, condition, seconds):
        """Looks whenever clients have received something. Says whether it has come true in time."""
        deadline = time.monotonic() + seconds
        while not condition():
            if self.failed:
                await self.failed[0]
            self.book.news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(asyncio.get_running_loop().time() + deadline - time.monotonic()):
                    await self.book.news.wait()
            if time.monotonic() > deadline:
                return False
        return True

    async def finish(self):
        """Until all that was acknowledged has come, and what else was under way. Says what must not have happened."""
        for each in self.clients:
            each.sends = False
        await self.until(lambda: not self.book.missing() and not any(each.open for each in self.clients), 120)
        for each in self.all:
            each.ask_for_end()
        await self.until(lambda: not any(each.awaits_end for each in self.all), 60)
        return self.book.judge(self.clients)
