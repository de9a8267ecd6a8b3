#!/usr/bin/python3
"""settings_page.py: prints the manual page pulsegate.conf(5), made of ../../docs/settings.md.

`pulsegate --print-reference` prints that page of Markdown, so the three can't differ. To generate the manual page:

    server/deploy/man/settings_page.py >server/deploy/man/pulsegate.conf.5
"""

import re
import textwrap
from pathlib import Path

SETTINGS = Path(__file__).resolve().parents[2] / "docs" / "settings.md"
ROW = re.compile(r"\| `([a-z0-9-]+)` \| `(.*?)`(, repeatable)? \| (.*?) \| (live|live while set|restart) \| (.*) \|")

HEAD = r""".\" Made by settings_page.py from server/docs/settings.md.
.Dd November 27, 2026
.Dt PULSEGATE.CONF 5
.Os
.Sh NAME
.Nm pulsegate.conf
.Nd settings of the chat gateway Pulsegate
.Sh DESCRIPTION
.Xr pulsegate 1
reads its settings from the file that
.Fl -config
names.
The Debian package's service reads
.Pa /etc/pulsegate/pulsegate.conf .
Every setting is also a flag of the command line and an environment variable.
The name of the variable is
.Va PULSEGATE_
and the name of the setting in capitals, with
.Ql _
for
.Ql - .
A flag overrides the variable, and the variable overrides the file.
.Ss Format
The file is UTF-8.
Each line sets one
.Ar name No = Ar value .
Comments begin with
.Ql # .
Values are in quotes,
.Qq ...
or
.Ql '...' ;
only numbers,
.Cm true
and
.Cm false
need no quotes.
In double quotes
.Ql \e\(dq
and
.Ql \e\e
stand for a quote and a backslash.
A repeatable setting takes a list,
.Li [\(dq...\(dq, \(dq...\(dq] ,
which may continue on further lines.
Any other setting may appear only once.
There are no sections.
.Bl -tag -width Ds
.It Ar DURATION
.Li 500ms , 30s , 5m , 24h , 7d
.It Ar SIZE
.Li 65536 , 256KiB , 1MiB , 1GiB
.El
.Ss Changes
.Sy Live
settings change while the gateway runs, on
.Dv SIGHUP
.Pq Ql systemctl reload pulsegate
or
.Ql pulsegate ctl reload .
Changes of other settings need a restart.
If a line is wrong, nothing changes, and the log names the line and the remedy.
Check a changed file with
.Ql pulsegate --config FILE --check
first.
"""

TAIL = r""".Sh FILES
.Bl -tag -width Ds
.It Pa /etc/pulsegate/pulsegate.conf
the settings of the Debian package's service
.El
.Sh EXAMPLES
.Bd -literal -offset indent
listen = ["mqtts://0.0.0.0:8883", "http://127.0.0.1:8080"]
tls-cert = "/etc/pulsegate/chain.pem"
tls-key = "/etc/pulsegate/key.pem"
password-file = "/etc/pulsegate/users"
data = "/var/lib/pulsegate"
idle-timeout = "20s"
.Ed
.Sh SEE ALSO
.Xr pulsegate 1
"""


def roff(text):
    """Text of Markdown with nothing that roff changes."""
    return text.replace("`", "").replace(r"\|", "|").replace("\\", r"\e").replace("-", r"\-")


def lines_of(text):
    """Short lines, each sentence on lines of its own, as manual pages are written; none looks like a command."""
    for sentence in re.split(r"(?<=[.]) (?=[A-Z0-9])", roff(text)):
        for line in textwrap.wrap(sentence, 78, break_long_words=False, break_on_hyphens=False):
            yield r"\&" + line if line.startswith((".", "'")) else line


def setting(name, value, repeatable, default, change, text):
    repeats = "repeatable" if repeatable and "repeatable" not in text else ""
    traits = [f"default: {roff(default)}" if default else "", repeats, change if change != "restart" else ""]
    traits = "; ".join(filter(None, traits))
    lines = [f".It Cm {roff(name)} No = Ar {roff(value)}", *lines_of(text if text.endswith(".") else text + ".")]
    return "\n".join(lines + ([f".Pq {traits}"] if traits else [])) + "\n"


def page(markdown):
    text, is_open = HEAD + ".Sh SETTINGS\n", False
    for line in markdown.splitlines():
        row = ROW.fullmatch(line)
        if line.startswith("## "):
            text += (".El\n" if is_open else "") + f".Ss {line[3:]}\n.Bl -tag -width Ds\n"
            is_open = True
        elif row:
            text += setting(*row.groups(default=""))
        elif line.startswith("| `"):
            raise ValueError(f"{SETTINGS}: not a row of a setting: {line}")
    return text + ".El\n" + TAIL


if __name__ == "__main__":
    print(page(SETTINGS.read_text()), end="")
