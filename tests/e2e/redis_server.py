"""A real redis-server for the end-to-end tests, on a free port of loopback."""

import os
import shutil
import signal
import subprocess
import tempfile

from ports import free_port


class RedisServer:
    """`with RedisServer("--maxmemory", "10mb") as redis`. All that it has taken is in its append-only file."""

    def __init__(self, *settings):
        self.folder = tempfile.TemporaryDirectory(prefix="pulsegate-redis-")
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}"
        self.settings = settings
        self.process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()
        self.folder.cleanup()

    def start(self, empty=False, reads_slowly=False, replica_of=None):
        """With `reads_slowly`, it reads its data until `read_fast` is called, if that is some 100,000 commands. `replica_of`:
        the port of its primary."""
        if empty:
            shutil.rmtree(f"{self.folder.name}/appendonlydir", ignore_errors=True)
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.folder.name, "--save", "",
             "--appendonly", "yes", "--appendfsync", "always", "--logfile", "redis.log",
             "--key-load-delay", "300" if reads_slowly else "0",
             *(("--replicaof", "127.0.0.1", str(replica_of)) if replica_of else ()), *self.settings],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        while not self.ask("PING").startswith("LOADING" if reads_slowly else "PONG"):
            assert self.process.poll() is None, self.process.stdout.read()

    def read_fast(self):
        assert self.ask("CONFIG", "SET", "key-load-delay", "0") == "OK"

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def stop(self):
        """It does not run any more, and keeps its connections."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitpid(self.process.pid, os.WUNTRACED)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def ask(self, *command):
        """What redis-cli prints."""
        done = subprocess.run(["redis-cli", "-p", str(self.port), *map(str, command)], capture_output=True, text=True,
                              timeout=60)
        return done.stdout.strip()

    def rows(self, table):
        """Partition and field of each row of a table."""
        return {(key, field) for key in self.ask("KEYS", f"*:{table}").splitlines()
                for field in self.ask("HKEYS", key).splitlines()}
