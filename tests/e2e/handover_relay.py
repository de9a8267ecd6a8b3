"""A program that takes over from a gateway, and something goes wrong on the way: `program_with_fault`.

It starts the real gateway and passes all messages between the old process and that one. At a chosen message, or after some
time, it kills one of the two, or passes nothing on any more."""

import array
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from pathlib import Path

# As in server/handover/channel.h.
STEPS = ("", "hello", "refused", "lock", "listener", "listeners", "client", "clients", "ready", "go", "serving", "gateway",
         "history")
HEADER = struct.Struct("=IIQ")
CHANNEL = 3


def program_with_fault(folder, binary, **fault):
    """Returns the path of the program, and that of the file in which it says what it has done. A fault `does` "kill new",
    "kill old", "stop old" (with SIGTERM), "reload old" (with SIGHUP) or "hang". It comes with the message `at`, before or, if
    `after`, when it has been passed on; of several clients with the one of this `number`. Or it comes `seconds` after the start.
    "damage" changes that message, and the upgrade goes on."""
    report = Path(folder) / "fault.json"
    report.unlink(missing_ok=True)
    path = Path(folder) / "program"
    here = str(Path(__file__).parent)
    path.write_text(f"#!{sys.executable} -IS\nimport sys\nsys.path.append({here!r})\nimport handover_relay\n"
                    f"handover_relay.start({str(binary)!r}, {str(report)!r}, {fault!r})\n")
    path.chmod(0o755)
    return str(path), report


def start(binary, report, fault):
    """This process becomes the gateway; a child of it is between the gateway and the old process."""
    ours, theirs = socket.socketpair()
    new = os.getpid()
    if os.fork() == 0:
        theirs.close()
        with socket.socket(fileno=CHANNEL) as channel:
            channel.setblocking(True)
            old, *_ = struct.unpack("3i", channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))  # it has made the pair
            Relay(channel, ours, {"kill old": old, "kill new": new}, report, fault).run()
        os._exit(0)
    theirs.setblocking(False)
    os.dup2(theirs.fileno(), CHANNEL, inheritable=True)
    os.execv(binary, [binary, *sys.argv[1:]])


def is_stopped(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "TZX"
    except FileNotFoundError:
        return True


class Relay:
    def __init__(self, old, new, processes, report, fault):
        self.other = {old: new, new: old}
        self.new = new
        self.processes = processes
        self.report = Path(report)
        self.fault = fault
        self.clients = 0
        self.has_served = False
        self.due = time.monotonic() + fault["seconds"] if "seconds" in fault else None

    def run(self):
        while True:
            left = None if self.due is None else max(0, self.due - time.monotonic())
            readable = select.select(list(self.other), [], [], left)[0]
            if self.due is not None and time.monotonic() >= self.due:
                self.due = None
                self.kill_now()
                continue
            for end in readable:
                if not self.pass_on(end):
                    return

    def kill_now(self):
        """But not a process that has said that it serves: that would be no fault of the upgrade."""
        process = self.processes["kill new"]
        os.kill(process, signal.SIGSTOP)
        while not is_stopped(process):
            time.sleep(0.001)  # there is no event for a process that is not a child
        while select.select([self.new], [], [], 0)[0] and self.pass_on(self.new):
            pass
        if self.has_served:
            os.kill(process, signal.SIGCONT)
        else:
            self.act("some time")

    def pass_on(self, end):
        """A message. False: that end is closed, or nothing is passed on any more."""
        try:
            header, ancillary, *_ = end.recvmsg(HEADER.size, socket.CMSG_SPACE(4), socket.MSG_WAITALL)
            if not header:
                return False
            step, _, size = HEADER.unpack(header)
            body = bytearray()
            while len(body) < size:
                body += end.recv(min(size - len(body), 1 << 20))
            return self.pass_message(end, STEPS[step], header + body, ancillary)
        except (BrokenPipeError, ConnectionResetError):
            return False

    def pass_message(self, end, step, message, ancillary):
        self.clients += step == "client"
        is_here = step == self.fault.get("at") and (step != "client" or self.clients == self.fault["number"])
        if is_here and self.fault["does"] == "damage":
            message = message[:-1] + bytes([message[-1] ^ 1])
        elif is_here and not self.fault.get("after"):
            if not self.act(step):
                return False
        if step == "serving":
            self.has_served = True
        sent = self.other[end].sendmsg([message], ancillary)
        self.other[end].sendall(message[sent:])
        for _, _, passed in ancillary:
            os.close(array.array("i", passed)[0])
        return not is_here or not self.fault.get("after") or self.act(step)

    def act(self, step):
        """False: nothing is to be passed on any more."""
        unfinished = self.report.with_suffix(".new")
        unfinished.write_text(json.dumps({"at": step, "new": self.processes["kill new"], "time": time.monotonic()}))
        unfinished.rename(self.report)
        if self.fault["does"] in self.processes:
            os.kill(self.processes[self.fault["does"]], signal.SIGKILL)
            # As if it had died before it sent the message; or what it has sent after it comes as well.
            return self.fault["does"] == "kill old" and self.fault.get("after", False)
        if self.fault["does"] in ("stop old", "reload old"):
            by = signal.SIGTERM if self.fault["does"] == "stop old" else signal.SIGHUP
            os.kill(self.processes["kill old"], by)
            return True
        hang = select.poll()
        for end in self.other:
            hang.register(end, 0)  # until one of them has ended
        hang.poll()
        return False
