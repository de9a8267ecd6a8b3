"""A gateway that other processes take over from."""

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
from pathlib import Path

from certificates import Certificates
from gateway import PATIENCE, Gateway, binary, port_of, wait_until

SUBREAPER = 36  # of prctl(2)
PAUSE = "60"  # seconds: a busy machine is no failure here


class UpgradableGateway(Gateway):
    """A gateway with two shards and a data folder, which may be replaced by another process."""

    def __init__(self, *arguments, settings="shards = 2\n", **options):
        # The new process is ours, because it has lost its parent.
        ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
        super().__init__(*arguments, **options)
        self.data = Path(self.folder.name) / "data"
        self.settings = Path(self.folder.name) / "settings.conf"
        self.settings.write_text(settings)
        at = self.command.index("--data")
        self.command[at + 1] = str(self.data)
        self.command += ["--config", str(self.settings)]
        self.successor = None

    def ctl(self, *words):
        command = [str(binary()), "ctl", "--socket", str(self.data / "admin.sock"), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE)

    def upgrade(self, *words):
        """Returns what the command has said, when the other process serves."""
        old = self.successor or self.pid
        done = self.ctl("upgrade", "--longest-pause", PAUSE, *words)
        assert done.returncode == 0, f"{done.stderr}{self.log[-4000:]}"
        if "--dry-run" in words:
            return done.stdout
        assert self.await_successor(old) == 0
        return done.stdout

    def fail_to_upgrade(self, *words):
        """Returns the reason; the gateway goes on."""
        before = self.get_json("/api/v1/status")[1]["pid"]
        done = self.ctl("upgrade", "--longest-pause", PAUSE, *words)
        assert done.returncode == 1, f"{done.stdout}{done.stderr}"
        assert self.get_json("/api/v1/status")[1]["pid"] == before
        return done.stderr

    def try_to_upgrade(self, program, longest_pause=PAUSE):
        """Whichever process serves afterwards. Returns whether it is the new one, and what the command has said."""
        old = self.successor or self.pid
        done = self.ctl("upgrade", "--longest-pause", longest_pause, program)
        has_moved = self.get_json("/api/v1/status")[1]["pid"] != old
        if has_moved:
            self.await_successor(old)
        return has_moved, done.stdout + done.stderr

    def await_successor(self, old):
        """Returns the exit status of the old process; another one serves."""
        status = self.wait_for_process(old) if self.successor else self.process.wait(PATIENCE)
        self.successor = self.get_json("/api/v1/status")[1]["pid"]
        assert self.successor != old
        return status

    def wait_for_process(self, pid):
        handle = os.pidfd_open(pid)
        try:
            assert select.select([handle], [], [], PATIENCE)[0], f"process {pid} does not end"
        finally:
            os.close(handle)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def stop(self, signal_number=signal.SIGTERM, timeout=PATIENCE / 2):
        if not self.successor:
            return super().stop(signal_number, timeout)
        os.kill(self.successor, signal_number)
        status = self.wait_for_process(self.successor)
        self.successor = None
        self._close_log()
        assert status == 0, f"exit status {status}:\n{self.log[-6000:]}"
        return None

    def kill(self):
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            if self.successor:
                os.kill(self.successor, signal.SIGKILL)
                os.waitpid(self.successor, 0)
        super().kill()


def gateway_for(*arguments, **options):
    return UpgradableGateway("--data", "here", *arguments, **options)


class Load:
    """Clients of all transports that send messages to each other with QoS 1 and 2, by pulsegate-loadgen:
    `with Load(clients, ...) as load`. It has a gateway for them. `counts` ends it; else it ends after an hour."""

    generator = binary().parent / "pulsegate-loadgen"
    shares = {"plain": (34, "tcp", ""), "tls": (33, "tls", "version = 5\nsession = kept\n"), "pages": (16, "ws", ""),
              "tls-pages": (17, "wss", "version = 5\n")}

    def __init__(self, clients, messages, ramp):
        self.messages = messages
        self.clients = 0
        self.scenario = ("about = clients of all transports, while one process takes over from another\n"
                         f"messages = {messages}/s\nto = clients\nduration = 1h\nramp = {ramp}/s\n"
                         "keepalive = 20s\nsilent = 0%\nqos = 1:70% 2:30%\n")
        for name, (percent, transport, more) in self.shares.items():
            self.clients += clients * percent // 100
            self.scenario += f"[group {name}]\nclients = {clients * percent // 100}\ntransport = {transport}\n{more}"

    def __enter__(self):
        """All clients are connected then."""
        self.authority = Certificates()
        certificate, key = self.authority.issue("server", host="localhost")
        listeners = [word for scheme in ("mqtts", "ws", "wss") for word in ("--listen", f"{scheme}://127.0.0.1:0")]
        self.gateway = gateway_for(*listeners, "--tls-cert", certificate, "--tls-key", key, "--websocket-origin", "*",
                                   events=True).start()
        self.folder = Path(self.gateway.folder.name)
        scenario = self.folder / "upgrade.scenario"
        scenario.write_text(self.scenario)
        servers = ",".join(f"{scheme}://localhost:{port_of(self.gateway, scheme)}"
                           f"{'/mqtt' if scheme in ('ws', 'wss') else ''}" for scheme in ("mqtt", "mqtts", "ws", "wss"))
        self.process = subprocess.Popen(
            [str(self.generator), str(scenario), "--connect", servers, "--ca", str(self.authority.ca), "--json",
             str(self.folder / "load.json")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        wait_until(lambda: self.connected() == self.clients, timeout=300, what="all clients")
        return self

    def __exit__(self, *error):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        self.gateway.__exit__(*error)
        self.authority.folder.cleanup()

    def connected(self):
        return self.gateway.get_json("/api/v1/status")[1]["clients"]["connected"]

    def received(self):
        return self.gateway.get_json("/api/v1/status")[1]["messages"]["received"]

    def serve_for_a_while(self, seconds=2):
        """Until the messages of a pause have come, and those of some seconds more."""
        before = self.received()
        wait_until(lambda: self.received() > before + seconds * self.messages, what="messages after a pause")

    def counts(self, prompt=False):
        """What it has counted when all messages under way have come: nobody has noticed anything. `prompt`: each ping was
        answered within a second, too."""
        self.process.send_signal(signal.SIGINT)
        said, _ = self.process.communicate(timeout=300)
        counts = json.loads((self.folder / "load.json").read_text())["totals"]["counts"]
        for what in ("messages_lost", "messages_repeated", "messages_repeated_qos2", "messages_reordered", "messages_damaged",
                     "unacknowledged", "false_offline", "session_lost", "pings_unanswered", "messages_in_doubt",
                     *(["pings_late"] if prompt else [])):
            assert counts.get(what, 0) == 0, f"{what}\n{said}"
        return counts
