"""Small runs of the load generator, and what they have found."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

from gateway import REPORT, binary, let_pass, wait_until

GENERATOR = binary().parent / "pulsegate-loadgen"
SMALL = {"--clients": "200", "--keepalive": "2s", "--duration": "5s", "--messages": "200/s", "--drain": "2s"}
# What a machine that runs other tests meanwhile says of itself.
OWN = {"generator_cpu", "generator_lag", "generator_stalls", "generator_starved", "machine_steal", "machine_others",
       "machine_server_wait"}


def command(port, *scenario, **options):
    """A small run, but for these options: `mqtt_version="5"` is --mqtt-version 5. A list repeats an option."""
    chosen = SMALL | {"--" + name.replace("_", "-"): value for name, value in options.items()}
    words = [word for name, values in chosen.items()
             for value in (values if isinstance(values, list) else [values]) for word in (name, value)]
    servers = [] if "connect" in options else ["--connect", f"mqtt://127.0.0.1:{port}"]
    return [GENERATOR, *scenario, *words, *servers, "--json", "-"]


def generate(port, *scenario, **options):
    """What the load generator found: its exit status and its record."""
    run = subprocess.run(command(port, *scenario, **options), capture_output=True, text=True, timeout=300, check=False)
    assert not REPORT.search(run.stderr), f"a sanitizer reports:\n{run.stderr[-20000:]}"
    try:
        return run.returncode, json.loads(run.stdout)
    except json.JSONDecodeError:
        raise AssertionError(f"status {run.returncode}: {run.stderr}") from None


def stand_still(processes, seconds):
    """Stops the processes for some seconds. Returns when each has run and waited for events twenty times since."""
    def waits(process):
        status = Path(f"/proc/{process}/status").read_text()
        return int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", status, re.M)[1])

    for process in processes:
        os.kill(process, signal.SIGSTOP)
    let_pass(seconds)
    before = {process: waits(process) for process in processes}
    for process in processes:
        os.kill(process, signal.SIGCONT)
    wait_until(lambda: all(waits(each) >= before[each] + 20 for each in processes), what="processes that go on")


def is_refused(record):
    """The machine was too busy for a verdict."""
    return any(check["outcome"] == "refused" for check in record["checks"] if check["name"] in OWN)


def late(record):
    """The promises about time, if the machine was too busy for a verdict: the server may have had to wait as well."""
    if not is_refused(record):
        return set()
    return {"pings_late", "expiry_late", "messages_late", "acknowledged_late", "presence_late", "presence_first"}


def tried_again(counts):
    """Some logins came too late, and were repeated."""
    return bool(counts.get("connect_failed") or counts.get("refused_busy"))


def broken(record):
    """The promises that were not kept, by the facts: on a busy machine the verdict may be refused."""
    return {check["name"] for check in record["checks"]
            if check["outcome"] == "failed" or check["outcome"] == "refused" and check["name"] in facts_against(record)}


def facts_against(record):
    counts = record["totals"]["counts"]
    names = {"protocol": "violations", "false_offline": "false_offline", "expiry_early": "closed_early", "expiry_late": "closed_late",
             "expiry_never": "never_closed", "lost": "messages_lost", "crossed": "messages_lost_crossing",
             "repeated": "messages_repeated",
             "repeated_qos2": "messages_repeated_qos2", "reordered": "messages_reordered",
             "misdirected": "messages_misdirected", "damaged": "messages_damaged", "sender": "messages_forged",
             "pings_late": "pings_late",
             "messages_late": "messages_late", "acknowledged_late": "acknowledged_late",
             "pings_unanswered": "pings_unanswered", "acknowledged": "unacknowledged", "released": "unreleased",
             "session_lost": "session_lost", "returned": "kept_out"}
    presence = ("false_offline", "ghosts", "missing", "late", "unseen", "http_false_offline", "http_ghosts")
    names |= {f"presence_{name}": f"presence_{name}" for name in presence}
    names["presence_first"] = "presence_outdated"
    names["presence_states"] = "presence_contradicted"
    names["presence_http_order"] = "presence_http_out_of_order"
    names["presence_http_answers"] = "presence_unanswered"
    return {name for name, count in names.items() if counts.get(count)}
