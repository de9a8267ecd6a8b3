"""A real pulsegate process for the end-to-end tests, and just enough raw MQTT to talk to it."""

import asyncio
import contextlib
import datetime
import json
import os
import re
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

# What sanitizers print when they find something.
REPORT = re.compile(r"(ERROR|WARNING|SUMMARY): \w*Sanitizer|runtime error:")


def binary():
    return Path(os.environ.get("PULSEGATE", REPOSITORY / "build" / "pulsegate")).resolve()


# Seconds after which a test fails that waits for something. What it waits for takes milliseconds, and rarely some seconds
# because the gateway counts in them: a machine that is busy with other things may be ten times as slow.
PATIENCE = 60

# The command of a process that does nothing until it is killed.
HANGING = "sleep 600"

# Everything is slower in a sanitizer's build, and memory is another.
SANITIZED = binary().parent.name in ("build-asan", "build-tsan")


def wait_until(condition, timeout=PATIENCE, what="the condition"):
    """Returns the first true value of `condition()`; fails after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {timeout} s")
        time.sleep(0.01)  # before it looks again


def let_pass(seconds):
    """A pause that is part of what the test does: a fault that lasts, or the pace of a sender. Never for what will have
    happened by then."""
    time.sleep(seconds)  # there is no event: the test makes the time pass itself


def seconds_since_1970(moment):
    """Of a time as the API tells it."""
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", moment), moment
    return datetime.datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()


def seconds_until(moment):
    return seconds_since_1970(moment) - time.time()


async def let_pass_meanwhile(seconds):
    """let_pass, while other coroutines go on."""
    await asyncio.sleep(seconds)  # there is no event here either


def lives(pid):
    """False as well if it has ended, and nobody has asked for its status yet."""
    stat = Path(f"/proc/{pid}/stat")
    with contextlib.suppress(OSError):
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    return False


class Gateway:
    """A running pulsegate with listeners on free ports: `with Gateway("--shards", "1") as gateway`.

    `arguments` are added to the command line. `events=True` writes presence changes to a file that
    `events()` reads. `file_limit` is set as the process's hard limit on open files. `prefix` is put
    before the command (strace, taskset), `stdout` is where its standard output goes. Without `--data`
    nothing outlives it, unless it `keeps` what the default says. Leaving the context stops it and checks how it ended.
    """

    def __init__(self, *arguments, events=False, file_limit=None, prefix=(), listen=True,
                 keeps=False, stdout=None):
        self.folder = tempfile.TemporaryDirectory(prefix="pulsegate-")
        self.events_file = Path(self.folder.name) / "events.jsonl"
        self.command = [*map(str, prefix), str(binary())]
        if listen:
            self.command += ["--listen", "mqtt://127.0.0.1:0", "--listen", "http://127.0.0.1:0"]
            if "--rooms" not in arguments:
                self.command += ["--rooms", "open"]  # most tests have no members
        if events:
            self.command += ["--events", str(self.events_file)]
        if not keeps and "--data" not in arguments:
            self.command += ["--data", "none"]
        self.command += map(str, arguments)
        self.file_limit = file_limit
        self.stdout = stdout
        self._clients = []
        self.process = None
        self.host = "127.0.0.1"
        self.port = self.http_port = None
        self.ready_after = None  # seconds from the start of the process to `ready:`
        self._log = []
        self._ready = threading.Event()

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, error, trace):
        try:
            if kind is None and not self.killed:
                self.stop()
            elif kind:
                print(f"--- log of {' '.join(self.command)}\n{self.log[-6000:]}---", flush=True)
        finally:
            self.kill()
            for client in self._clients:
                client.close()
            self.folder.cleanup()

    def start(self, timeout=PATIENCE):
        started = time.monotonic()
        self.launch().await_ready(timeout)
        self.ready_after = time.monotonic() - started
        return self

    def launch(self):
        """Starts it, and does not wait until it serves."""
        self.killed = False
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.DEVNULL, stdout=self.stdout, stderr=subprocess.PIPE,
            preexec_fn=self._limit_files if self.file_limit else None)
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        return self

    def await_ready(self, timeout=PATIENCE):
        if not self._ready.wait(timeout) or self.http_port is None:
            self.kill()
            raise AssertionError(f"pulsegate did not get ready:\n{self.log}")
        return self

    def _limit_files(self):
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (self.file_limit, self.file_limit))

    def _read_log(self):
        for raw in self.process.stderr:
            line = raw.decode(errors="replace")
            self._log.append(line)
            if re.search('[ "]ready: ', line):
                self.port = self._port(line, "mqtt")
                self.http_port = self._port(line, "http")
                self._ready.set()
        self._ready.set()  # it has ended, ready or not

    @staticmethod
    def _port(line, scheme):
        found = re.search(rf"\b{scheme}://\S+?:(\d+),", line)
        return int(found[1]) if found else None

    @property
    def pid(self):
        return self.process.pid

    @property
    def log(self):
        """What it has logged by now: of many lines, the later ones come some milliseconds late."""
        time.sleep(0.02)  # the gateway writes its log from a thread of its own
        return "".join(self._log)

    def stop(self, signal_number=signal.SIGTERM, timeout=PATIENCE / 2):
        """Ends the process with a signal; it must exit with 0 in time, and without a report."""
        if self.process.poll() is None:
            self.process.send_signal(signal_number)
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"not stopped within {timeout} s:\n{self.log[-6000:]}") from None
        self._close_log()
        assert not REPORT.search(self.log), f"a sanitizer reports:\n{self.log[-20000:]}"
        assert status == 0, f"exit status {status}:\n{self.log[-6000:]}"

    def kill(self):
        self.killed = True
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._close_log()

    def _close_log(self):
        self._reader.join(PATIENCE)
        self.process.stderr.close()

    @contextlib.contextmanager
    def standing_still(self):
        """What is sent to it meanwhile comes to it all at once, however long the sending takes."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)  # until all of its threads stand still
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def wait_for_log(self, pattern, timeout=PATIENCE):
        """The first match of `pattern` in the log."""
        try:
            return wait_until(lambda: re.search(pattern, self.log), timeout, f"log line /{pattern}/")
        except AssertionError as error:
            raise AssertionError(f"{error}:\n{self.log[-6000:]}") from None

    def connect(self, client="", **options):
        """A raw client that is logged in; it is closed with the gateway, if not before."""
        self._clients.append(Client(self.port))
        return self._clients[-1].login(client, **options)

    def get(self, path):
        """Status and body of an HTTP request. It is repeated while a shard is so busy that it does not answer within 2 s."""
        def answer():
            status, text = self.get_once(path)
            return (status != 503 or '"shard_stalled"' not in text) and (status, text)

        return wait_until(answer, what=f"an answer to {path} of all shards")

    def get_once(self, path):
        url = f"http://{self.host}:{self.http_port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def ask(self, method, target, body=None, fields=None):
        """Status of an HTTP request with JSON, or with these bytes, and the JSON or text of its answer. `fields` are further
        ones of its header."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        url = f"http://{self.host}:{self.http_port}{target}"
        try:
            answer = urllib.request.urlopen(urllib.request.Request(url, method=method, data=data, headers=fields or {}), timeout=PATIENCE)
        except urllib.error.HTTPError as error:
            answer = error
        with contextlib.closing(answer):
            text = answer.read().decode()
            assert text.endswith("\n"), text
            is_json = answer.headers["Content-Type"] == "application/json"
            return answer.status, json.loads(text) if is_json else text

    def get_json(self, path):
        status, body = self.get(path)
        return status, json.loads(body)

    def metric(self, name, **labels):
        """The sum of a metric over all shards (and over the labels that are not given)."""
        def text():  # a shard that is very busy may not answer in time
            status, text = self.get("/metrics")
            return status == 200 and text

        total, seen = 0.0, False
        for line in wait_until(text, what="metrics").splitlines():
            found = re.fullmatch(rf"{name}(?:{{(.*)}})? (\S+)", line)
            if found and all(f'{key}="{value}"' in (found[1] or "") for key, value in labels.items()):
                total, seen = total + float(found[2]), True
        assert seen, f"no metric {name} {labels}"
        return total

    def await_tick(self):
        """Returns when each shard has done what it does once a second."""
        def ticks():
            status, text = self.get("/metrics")
            assert status == 200, status
            return dict(re.findall(r'pulsegate_loop_lag_seconds_count{shard="(\d+)"} (\d+)', text))
        before = ticks()
        wait_until(lambda: all(int(count) > int(before[shard]) for shard, count in ticks().items()), what="ticks")

    def await_store(self):
        """Returns when all that has happened by now is on disk. What may wait there for a second is committed together with
        what must not."""
        for method in ("PUT", "DELETE"):
            status, said = self.ask(method, "/api/v1/bans?address=192.0.2.1")
            assert status == 200, said

    def events(self, user=None):
        """The changes of presence so far, of all users or of one."""
        lines = self.events_file.read_text().splitlines() if self.events_file.exists() else []
        events = [json.loads(line) for line in lines]
        return [event for event in events if user in (None, event["user"])]

    def wait_for_event(self, timeout=PATIENCE, **fields):
        def find():
            return next((event for event in self.events()
                         if all(event[key] == value for key, value in fields.items())), None)
        return wait_until(find, timeout, f"event {fields}")

    def rss(self):
        """Resident memory in bytes."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS")

    def cpu_seconds(self):
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def add_users(path, **passwords):
    """Writes users into a password file, which is begun if it is not there; hashed cheaply. Returns its path."""
    for user, password in passwords.items():
        new = [] if Path(path).exists() else ["--create"]
        subprocess.run([str(binary()), "passwd", *new, "--iterations", "100", str(path), user], input=password + "\n",
                       text=True, check=True, timeout=PATIENCE, capture_output=True)
    return str(path)


def port_of(gateway, scheme):
    """The port of its first listener of this kind."""
    return int(re.search(rf"\b{scheme}://[^:]+:(\d+)", gateway.log)[1])


# -- raw MQTT

PINGREQ = bytes([0xC0, 0])
PINGRESP = bytes([0xD0, 0])
DISCONNECT = bytes([0xE0, 0])

CONNACK, PUBLISH, PUBACK, SUBACK, PINGRESP_TYPE, DISCONNECT_TYPE = 2, 3, 4, 9, 13, 14


def text(value):
    encoded = value.encode() if isinstance(value, str) else value
    return struct.pack(">H", len(encoded)) + encoded


def varint(value):
    out = bytearray()
    while True:
        value, digit = divmod(value, 128)
        out.append(digit | (0x80 if value else 0))
        if not value:
            return bytes(out)


def packet(first_byte, body=b""):
    return bytes([first_byte]) + varint(len(body)) + body


def connect_packet(client="", *, version=4, keepalive=60, clean=True, username=None, will=None):
    """CONNECT; `version` 4 is MQTT 3.1.1, 5 is 5.0; `will` is (topic, payload)."""
    flags = (0x02 if clean else 0) | (0x04 if will else 0) | (0x80 if username is not None else 0)
    none = b"\0" if version == 5 else b""  # an empty list of properties
    body = text("MQTT") + bytes([version, flags]) + struct.pack(">H", keepalive) + none
    body += text(client)
    if will:
        body += none + text(will[0]) + text(will[1])
    if username is not None:
        body += text(username)
    return packet(0x10, body)


def publish_packet(topic, payload=b"", *, version=4, qos=0, packet_id=1, flags=0):
    body = text(topic) + (struct.pack(">H", packet_id) if qos else b"")
    body += b"\0" if version == 5 else b""
    return packet(0x30 | qos << 1 | flags, body + payload)


def subscribe_packet(*filters, version=4, qos=0, packet_id=1):
    body = struct.pack(">H", packet_id) + (b"\0" if version == 5 else b"")
    for name in filters:
        body += text(name) + bytes([qos])
    return packet(0x82, body)


class Client:
    """A blocking raw client. `receive()` gives (first byte, body), or None when the peer closed."""

    def __init__(self, port, host="127.0.0.1", timeout=PATIENCE, receive_buffer=None, source=None):
        self.socket = socket.socket()
        if source:
            self.socket.bind((source, 0))
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout)
        self.socket.connect((host, port))
        self.version = 4
        self._unread = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def login(self, client="", **options):
        self.version = options.get("version", 4)
        self.send(connect_packet(client, **options))
        connack = self.receive()
        assert connack and connack[0] == 0x20 and connack[1][1] == 0, f"CONNACK is {connack}"
        return self

    def send(self, data):
        self.socket.sendall(data)

    def publish(self, topic, payload=b"", **options):
        self.send(publish_packet(topic, payload, version=self.version, **options))

    def subscribe(self, *filters, **options):
        self.send(subscribe_packet(*filters, version=self.version, **options))
        suback = self.receive()
        assert suback and suback[0] == 0x90, f"SUBACK is {suback}"

    def put_back(self, received):
        """`receive()` gives packets of these bytes first."""
        self._unread = received + self._unread

    def ping(self):
        self.send(PINGREQ)
        answer = self.receive()
        assert answer == (0xD0, b""), f"PINGRESP is {answer}"

    def disconnect(self):
        """Leaves, and waits until the gateway knows: it closes the connection then."""
        self.send(DISCONNECT)
        with contextlib.suppress(ConnectionError):
            while self.socket.recv(1 << 16):
                pass
        self.close()

    def close(self):
        self.socket.close()

    def _take(self):
        """One whole packet of what was read, or None."""
        size, shift, at = 0, 0, 1
        while True:
            if at >= len(self._unread):
                return None
            digit = self._unread[at]
            size |= (digit & 0x7F) << shift
            shift += 7
            at += 1
            if digit < 0x80:
                break
        if len(self._unread) < at + size:
            return None
        first, body = self._unread[0], self._unread[at:at + size]
        self._unread = self._unread[at + size:]
        return first, body

    def receive(self):
        while True:
            found = self._take()
            if found:
                return found
            try:
                data = self.socket.recv(65536)
            except ConnectionResetError:
                data = b""
            if not data:
                return None
            self._unread += data

    def receive_publish(self):
        """Topic and payload of the next PUBLISH."""
        while True:
            got = self.receive()
            assert got, "closed instead of a PUBLISH"
            first, body = got
            if first >> 4 != PUBLISH:
                continue
            size = struct.unpack(">H", body[:2])[0]
            topic, rest = body[2:2 + size].decode(), body[2 + size:]
            if first & 0x06:
                packet_id, rest = rest[:2], rest[2:]
                self.send(packet(0x40, packet_id))
            if self.version == 5:
                assert rest[0] < 128, "long properties"
                rest = rest[1 + rest[0]:]
            return topic, rest

    def receive_until_closed(self):
        """All packets until the peer closes."""
        got = []
        while (one := self.receive()) is not None:
            got.append(one)
        return got
