"""The READMEs are true: their examples run as they stand and print what is shown, and what they name is there.

In README.md, and in server/README.md with the documents of server/docs, every ```sh block is run, from top to bottom,
both in folders of their own. A block that begins with ./server/run is the first terminal: its gateway replaces the one
before. All others are typed into the second terminal, which is one shell for the whole. Only the numbers of ports are
changed, to free ones.

A block without a language shows what the sh block above it prints, in either terminal. All of its lines must come, in any
order, and the second terminal's standard output may say nothing that its section (##) does not show. An ellipsis (…)
stands for any text.

Comments above a block, which a reader of the page does not see:

    <!-- not run: why -->     it is not run
    <!-- file: NAME -->       it is the content of this file
"""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import unittest
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from gateway import REPOSITORY, Gateway, binary, wait_until

GENERATOR = binary().parent / "pulsegate-loadgen"
DOCS = REPOSITORY / "server" / "docs"
# In the order in which a reader may type what they say.
OPERATORS = [REPOSITORY / "server" / "README.md"] + [
    DOCS / f"{name}.md" for name in ("install", "security", "limits", "messaging", "backend", "durability", "operation")]
DOCUMENTS = sorted([REPOSITORY / "server" / "clients.md", REPOSITORY / "server" / "accounts.md", *DOCS.glob("*.md"),
                    *(REPOSITORY / ".github").glob("*.md")] +
                   [path for path in REPOSITORY.glob("**/README.md")
                    if not path.relative_to(REPOSITORY).parts[0].startswith((".", "build"))])
FENCE = re.compile(r"^(?:<!-- ([^\n]*) -->\n)?```(\w*)\n(.*?)^```$", re.M | re.S)
URL = re.compile(r"((?:mqtts?|wss?|http)://(?:\[[\da-f:]*\]|[\d.]+)):(\d+)")


@dataclass
class Block:
    comment: str  # of HTML, on the line above it
    language: str
    text: str
    section: str
    line: int

    def says(self, key):
        """What its comment says behind this word, or None."""
        return self.comment[len(key) + 2:] if self.comment.startswith(key + ": ") else None


def blocks_of(path):
    document = path.read_text()
    for found in FENCE.finditer(document):
        above = document[:found.start(2)]
        section = (["the beginning"] + re.findall(r"^## (.*)$", above, re.M))[-1]
        yield Block(found[1] or "", found[2], found[3], section, above.count("\n") + 1)


def on_free_ports(text):
    """The same listeners, on loopback and on ports that the kernel chooses."""
    return URL.sub(r"\1:0", text).replace("://0.0.0.0:", "://127.0.0.1:")


class Shell:
    """The second terminal. A command that fails ends it, and the test."""

    def __init__(self, folder):
        self.block, self.done, self.out, self.err = (folder / f".{name}" for name in ("block", "done", "out", "err"))
        self.home = folder / ".home"
        (self.home / ".config").mkdir(parents=True)
        (self.home / ".curlrc").write_text('write-out = "\\n"\n')
        environment = {**os.environ, "HOME": str(self.home)}
        environment.pop("XDG_CONFIG_HOME", None)
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.process = subprocess.Popen(["/bin/bash", "-e"], cwd=folder, stdin=subprocess.PIPE, stdout=out,
                                            stderr=err, env=environment, start_new_session=True)

    def run(self, text):
        self.block.write_text(text)
        self.process.stdin.write(b"source .block </dev/null; touch .done\n")
        self.process.stdin.flush()
        wait_until(lambda: self.done.exists() or self.process.poll() is not None, 60, text)
        if not self.done.exists():
            raise AssertionError(f"failed:\n{text}\n{self.err.read_text()}")
        self.done.unlink()

    def use(self, port):
        """Where mosquitto's clients find the gateway that listens on their usual port."""
        for client in ("mosquitto_pub", "mosquitto_sub"):
            (self.home / ".config" / client).write_text(f"-p {port}\n" if port else "")

    def close(self):
        self.process.stdin.close()
        with contextlib.suppress(ProcessLookupError):  # a command has failed, and there is nobody left
            os.killpg(self.process.pid, signal.SIGKILL)  # with the clients in the background
        self.process.wait()


class Play:
    """A document's examples, run one after the other."""

    def __init__(self, folder):
        self.folder = folder
        self.shell = Shell(folder)
        self.gateway = None
        self.events = folder / ".events"
        self.ports = {}  # of the gateway, by what the document calls them
        self.files = {}  # their text in the document
        self.shown = []  # patterns of the lines that this section shows
        self.seen = set()  # lines that were looked for and found: where they stand
        (folder / "build").mkdir()
        (folder / "build" / "pulsegate").symlink_to(binary())

    def close(self):
        self.shell.close()
        if self.gateway:  # the play was broken off
            self.gateway.__exit__(AssertionError, None, None)

    def run(self, block):
        if block.language == "sh" and block.text.startswith("./server/run"):
            self.serve(block.text)
        elif block.language == "sh":
            self.type(self.with_ports(block.text))
        elif block.says("file"):
            self.files[block.says("file")] = block.text
            (self.folder / block.says("file")).write_text(on_free_ports(block.text))
        elif not block.language:
            self.expect(self.with_ports(block.text))

    def serve(self, command):
        self.stop()
        arguments = shlex.split(command.replace("\\\n", " "))[1:]
        told = " ".join(arguments + [self.files[file] for file in arguments if file in self.files])
        told = re.sub(r"--webhook \S+", "", told)  # no listener
        listeners = URL.findall(told)
        # What the gateway does by itself for a kind of listener that nobody names.
        if not re.search(r"\b(mqtt|ws)s?://", told):
            listeners.append(("mqtt://127.0.0.1", "1883"))
        if "http://" not in told:
            listeners.append(("http://127.0.0.1", "8080"))
        if "--demo" in arguments:
            listeners.append(("ws://127.0.0.1", "8083"))
        if "--data" not in arguments:  # a reader may begin with any section
            shutil.rmtree(self.folder / "data", ignore_errors=True)
        arguments = [on_free_ports(argument) for argument in arguments]
        for url, port in listeners:
            if url not in told:
                arguments += ["--listen", f"{url}:0"]
        with open(self.events, "ab") as events:
            self.gateway = Gateway(*arguments, listen=False, keeps=True, prefix=["env", "-C", self.folder],
                                   stdout=events).start()
        ready = URL.findall(re.search(" ready: (.*)", self.gateway.log)[1])
        self.ports = {}  # one that stands for two listeners is the first's
        for (_, shown), (_, port) in zip(listeners, ready, strict=True):
            self.ports.setdefault(shown, port)
        self.shell.use(self.gateway.port)

    def stop(self):
        if self.gateway:
            self.gateway.__exit__(None, None, None)
            self.gateway = None

    def with_ports(self, text):
        return re.sub(r"(-p |localhost:)(\d+)\b", lambda at: at[1] + self.ports.get(at[2], at[2]), text)

    def type(self, commands):
        """Subscribers in the background have subscribed before the next command, and when this returns."""
        def subacks():
            return self.gateway.metric("pulsegate_packets_sent_total", type="suback") if self.gateway else 0
        for some in re.split(r"(?<= &)\s", commands):
            expected = subacks() + len(re.findall(r"^mosquitto_sub\b", some, re.M))
            self.shell.run(some)
            wait_until(lambda: subacks() >= expected, 60, f"the subscriptions of {some}")

    def lines(self):
        """All lines of both terminals, by where they stand."""
        said = {"out": self.shell.out.read_text(), "err": self.shell.err.read_text(),
                "events": self.events.read_text() if self.events.exists() else "",
                "log": self.gateway.log if self.gateway else ""}
        return {(terminal, number): line for terminal, text in said.items()
                for number, line in enumerate(text.splitlines())}

    def expect(self, text):
        for shown in filter(None, text.splitlines()):
            pattern = re.compile(".*".join(map(re.escape, shown.split("…"))))
            self.shown.append(pattern)

            def find():
                return next((place for place, line in self.lines().items()
                             if place not in self.seen and pattern.fullmatch(line)), None)
            try:
                self.seen.add(wait_until(find))
            except AssertionError:
                said = "\n".join(line for place, line in self.lines().items() if place not in self.seen)
                raise AssertionError(f"did not come: {shown}\nbut:\n{said}") from None

    def end_section(self):
        """Nothing was printed but what is shown."""
        for place, line in self.lines().items():
            if place[0] == "out" and line and place not in self.seen:
                if not any(pattern.fullmatch(line) for pattern in self.shown):
                    raise AssertionError(f"printed, but not shown: {line}")
            self.seen.add(place)
        self.shown = []


class ExamplesTest(unittest.TestCase):
    def play(self, *documents):
        with tempfile.TemporaryDirectory(prefix="pulsegate-readme-") as folder:
            play = Play(Path(folder))
            try:
                for document in documents:
                    self.play_document(play, document)
                play.stop()
            finally:
                play.close()

    def play_document(self, play, document):
        for section, blocks in groupby(blocks_of(document), lambda block: block.section):
            for block in blocks:
                if block.says("not run"):
                    continue
                try:
                    play.run(block)
                except Exception as error:
                    raise AssertionError(f"{document}:{block.line} ({section}): {error}") from error
            play.end_section()

    def test_the_tour(self):
        self.play(REPOSITORY / "README.md")

    def test_the_examples_of_the_gateway(self):
        self.play(*OPERATORS)


def headings_of(path):
    """The anchors that a page's headings get."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.M | re.S)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-")
            for heading in re.findall(r"^#+ (.*)$", text, re.M)}


def routes():
    """The methods of the HTTP API and their paths, as in routes.cpp."""
    table = (REPOSITORY / "server" / "http" / "routes.cpp").read_text()
    table = table.partition("constexpr Route routes[] = {")[2].partition("\n};")[0]
    for path, rest in re.findall(r'\.path = "([^"]*)"(.*?)(?=\.path = |$)', table, re.S):
        for verb in re.findall(r"\bverb::(\w+)", rest):
            yield verb.rstrip("_").upper(), path


def shape_of(value):
    """A JSON value without its numbers and texts."""
    if isinstance(value, dict):
        return {key: shape_of(each) for key, each in value.items()}
    return [shape_of(value[0])] if isinstance(value, list) and value else type(value).__name__


class NamesTest(unittest.TestCase):
    """What the documents name is there, and is called so."""

    def help_of(self, program, *command):
        return subprocess.run([program, *command, "--help"], capture_output=True, text=True, check=True, timeout=60).stdout

    def test_links_lead_somewhere(self):
        for document in DOCUMENTS:
            for target in re.findall(r"\]\(([^)]*)\)", document.read_text()):
                with self.subTest(document=str(document), target=target):
                    self.assertNotIn("://", target, "a link out of the repository needs a check of its own")
                    path, _, anchor = target.partition("#")
                    linked = document.parent / path if path else document
                    self.assertTrue(linked.exists())
                    if anchor:
                        self.assertIn(anchor, headings_of(linked))

    def test_files_that_are_named_exist(self):
        for document in DOCUMENTS:
            for path in re.findall(r"`((?:server|loadgen|protocol|wheel|tests|\.ci)/[\w./-]*)`", document.read_text()):
                with self.subTest(document=str(document), path=path):
                    self.assertTrue((REPOSITORY / path).exists())

    def test_the_source_map_has_every_folder_of_the_server(self):
        source_map = (REPOSITORY / "README.md").read_text().partition("## Source map")[2]
        for folder in (REPOSITORY / "server").iterdir():
            if folder.is_dir():
                self.assertIn(f"`server/{folder.name}/`", source_map)

    def test_options_of_the_load_generator_are_in_its_help(self):
        if not GENERATOR.exists():
            self.skipTest(f"no {GENERATOR.name} in this build")
        known = self.help_of(GENERATOR) + self.help_of(GENERATOR, "capacity")
        text = (REPOSITORY / "loadgen" / "README.md").read_text()
        for option in set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)):
            self.assertRegex(known, rf"{option}\b")

    def test_metrics_are_called_so(self):
        # Which there are is in metrics.md, and metrics_test compares it with a gateway.
        all_of_them = REPOSITORY / "server" / "docs" / "metrics.md"
        known = set(re.findall(r"(?m)^\| `([a-z_]+)", all_of_them.read_text()))
        for document in DOCUMENTS:
            if document.name == "changes.md":  # has former names
                continue
            self.assertLessEqual(set(re.findall(r"\bpulsegate_[a-z_]+", document.read_text())), known, document)

    def test_every_route_is_in_the_page_for_backends(self):
        shown = set(re.findall(r"`([A-Z]+ /[^`?\s]*)", (DOCS / "backend.md").read_text()))
        files_of_pages = {"GET /dashboard/{file}", "GET /chat/{file}"}
        served = {f"{method} {path}" for method, path in routes()}
        self.assertGreater(len(served), 50)
        self.assertEqual(served - shown - files_of_pages, set())

    def test_routes_that_are_named_exist(self):
        served = [re.compile(re.sub(r"{\w+}", "[^/]+", f"{method} {path}")) for method, path in routes()]
        for document in DOCUMENTS:
            if document.name == "changes.md":  # has former ones
                continue
            for named in re.findall(r"`((?:GET|HEAD|PUT|POST|DELETE) /[^`?\s]*)", document.read_text()):
                with self.subTest(document=str(document), named=named):
                    self.assertTrue(any(route.fullmatch(named) for route in served))

    def test_the_default_rules_are_shown_as_they_are(self):
        shown = next(block.text for block in blocks_of(DOCS / "security.md")
                     if block.says("file") == "default.rules")
        code = (REPOSITORY / "server" / "auth" / "access.h").read_text()
        literals = re.search(r"default_rules =\s*(.*?);", code, re.S)[1]
        self.assertEqual(shown.splitlines(), re.findall(r'"(.*)\\n"', literals))

    def test_presence_has_the_fields_that_are_shown(self):
        shown = [shape_of(json.loads(block.text)) for block in blocks_of(DOCS / "messaging.md")
                 if block.language == "json"]
        with Gateway(events=True) as gateway:
            gateway.connect("bob-phone", username="bob").ping()
            self.assertEqual(shown, [shape_of(gateway.get_json("/api/v1/users/bob")[1]),
                                     shape_of(gateway.wait_for_event(user="bob"))])


if __name__ == "__main__":
    unittest.main()
