"""The operator's pages are complete: each warning and error that the sources can log is in server/docs/log-lines.md, with
its level, each reason for which a client is refused or disconnected is on a page, and what the pages link to, quote and name is there.
Reads files only; no gateway is started."""

import re
import unittest
from dataclasses import dataclass

from cpp_members import sources
from gateway import REPOSITORY
from readme_test import headings_of

SERVER = REPOSITORY / "server"
DOCS = SERVER / "docs"
LOG_LINES = DOCS / "log-lines.md"
PAGES = [DOCS / "runbook.md", LOG_LINES, DOCS / "production.md", DOCS / "changes.md", REPOSITORY / ".github" / "CONTRIBUTING.md"]

CALL = re.compile(r"spdlog::(?:info|warn|error|critical)\(|\blog_(?:limited|line)\(|\bsay_at_once\(|\bnote_(?:damage|loss)\(")
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
LEVELS = {"warn": "warning", "err": "error", "error": "error", "critical": "error", "info": "info", "debug": "debug"}
MUST_BE_THERE = {"warning", "error", "—"}

# Calls that log only what they are given: where they are, and the texts that reach them.
PASSED_ON = {
    "auth/secret_file.cpp": ["{}: {}: others may {} it; chmod 600 {}"],
    "http/audit.cpp": ["audit: {} {} {} -> {} from {}"],
    "server.cpp": ["admin-socket: {}: {}; name a file in a writable folder, or none"],
    "store/files/store_folder.cpp": [],  # note_damage itself
    "store/start/recovery.cpp": [],  # note_loss
    "transport/connections/connection_handshake.cpp": ["{} rejected: its address is banned or has too many connections"],
}


@dataclass(frozen=True)
class Line:
    where: str
    text: str  # as fmt takes it, with {} for what is filled in
    levels: frozenset

    def pattern(self):
        """Of how the catalogue writes it."""
        return re.compile(" ?(?:[A-Z]+,?|read|exits)".join(re.escape(part) for part in re.split(r"\{[^{}]*\}", self.text)))


def arguments_of(text, begin):
    """What stands between the parenthesis that opens before `begin` and the one that closes it, divided at its commas."""
    depth, quoted, found, start, i = 0, False, [], begin, begin
    while depth >= 0:
        c = text[i]
        if quoted:
            i += c == "\\"
            quoted = c != '"'
        elif c == '"':
            quoted = True
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == "," and depth == 0:
            found.append(text[start:i])
            start = i + 1
        i += 1
    return [*found, text[start:i - 1]]


def levels_of(call, first, text):
    """Those that a call can have."""
    if call.startswith("say_at_once"):
        return {"—"}
    if call.startswith("note_"):
        return {"error"}
    if call.startswith("spdlog::"):
        return {LEVELS[call[len("spdlog::"):-1]]}
    chosen = re.findall(r"level::(\w+)", first)
    if not chosen:  # by a variable, or a member
        chosen = re.findall(r"level::(\w+)", "".join(re.findall(rf"\b{re.escape(first.strip())} = ([^;]*);", text)))
    return {LEVELS[each] for each in chosen if each in LEVELS}


def lines_of_sources():
    for path in sources(SERVER):
        text = path.read_text()
        where = str(path.relative_to(SERVER))
        if where == "base/log.h":  # the functions themselves
            continue
        yield from lines_of(where, text)
        for known in PASSED_ON.get(where, []):
            level = "info" if known.startswith("audit:") else "warning"
            yield Line(where, known, frozenset({level}))


def lines_of(where, text):
    for call in CALL.finditer(text):
        arguments = arguments_of(text, call.end())
        levels = levels_of(call[0], arguments[0], text)
        wanted = arguments[1] if call[0].startswith("log_") else arguments[0]
        if formatted := re.match(r"\s*fmt::format\(", wanted):
            wanted = arguments_of(wanted + ")", formatted.end())[0]
        literals = "".join(LITERAL.findall(wanted)) + ("{}" if "+" in LITERAL.sub("", wanted) else "")
        if re.search("[a-z]{3}", re.sub(r"\{[^{}]*\}", "", literals)):
            yield Line(where, literals, frozenset(levels))
        elif levels & MUST_BE_THERE and where not in PASSED_ON and not re.match(r"(const )?std::string", wanted):
            raise AssertionError(f"{where}: {call[0]} logs a text that is made elsewhere; add it to PASSED_ON in this test")


def catalogue():
    """(level, line) of each row."""
    return re.findall(r"^\| (\S+) \| `([^`]+)` \|", LOG_LINES.read_text(), re.M)


class LogLinesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lines = list(lines_of_sources())
        cls.rows = catalogue()

    def test_every_warning_and_error_is_in_the_catalogue(self):
        important = [line for line in self.lines if line.levels & MUST_BE_THERE]
        self.assertGreater(len(important), 80)
        missing = [f"{line.where}: {line.text}" for line in important if not self.rows_of(line)]
        self.assertEqual(missing, [], f"add a row to {LOG_LINES.name}")

    def test_every_row_is_a_line_of_the_sources(self):
        known = [line.pattern() for line in self.lines]
        self.assertEqual([row for _, row in self.rows if not any(line.fullmatch(row) for line in known)], [])

    def test_every_row_has_the_level_that_the_sources_log(self):
        for level, row in self.rows:
            with self.subTest(row=row):
                levels = set().union(*(line.levels for line in self.lines if line.pattern().fullmatch(row)))
                self.assertIn(level, levels)

    def test_every_row_says_what_it_means(self):
        for cells in re.findall(r"^\|(.*)\|$", LOG_LINES.read_text(), re.M):
            cells = [cell.strip() for cell in cells.split("|")]
            self.assertEqual(len(cells), 4, cells)
            self.assertTrue(all(cells[:3]), cells)

    def test_a_new_line_is_found_wherever_it_stands(self):
        found = list(lines_of("new.cpp", """
            const auto level = is_bad ? spdlog::level::warn : spdlog::level::info;
            if (a) spdlog::warn("the {} is (too) hot: "
                                "{} degrees", name(a, "x"), b);
            log_limited(level, "{}: gone", client);
            say_at_once("cold: " + why);
            spdlog::debug("not for operators");
        """))
        self.assertEqual([(line.text, set(line.levels)) for line in found],
                         [("the {} is (too) hot: {} degrees", {"warning"}), ("{}: gone", {"warning", "info"}),
                          ("cold: {}", {"—"})])

    def rows_of(self, line):
        return [row for _, row in self.rows if line.pattern().fullmatch(row)]


# What may follow these is the reason of a refusal, of the end of a connection or session, or of a shorter queue.
REASON = re.compile(r"""\bReason::\w+,|\bwhy = |\bcut\(Limit::\w+,|\b(?:refuse|disown|reject|settle|misplaced)\(
                        |\b(?:end_largest|end_disconnected|halve|drop_some)\(|\breturn\ (?="its?\ )""", re.X)
UNTIL_ITS_END = re.compile(r'(?:[^";{}]|"(?:[^"\\]|\\.)*")*')
CONSTANT = re.compile(r'\bconst char\* (\w+) =\s*((?:"(?:[^"\\]|\\.)*"\s*)+);')
WITH_REASONS = ("auth", "edge", "http/users", "login", "session", "shard", "transport")


def reasons_of(text):
    """The reasons in a source file, up to what is filled in. A word alone is none."""
    constants = dict(CONSTANT.findall(text))
    for begin in REASON.finditer(text):
        given = UNTIL_ITS_END.match(text, begin.end())[0]
        named = [constants[name] for name in re.findall(r"\w+", LITERAL.sub("", given)) if name in constants]
        for joined in re.findall(r'(?:"(?:[^"\\]|\\.)*"\s*)+', " , ".join([given, *named])):
            reason = "".join(LITERAL.findall(joined)).partition("{}")[0].strip()
            if " " in reason and not re.match(r"\d{3} |.*\\r\\n", reason):  # an HTTP status, or fields
                yield reason


def quoted(*pages):
    """All that stands between backquotes."""
    return re.findall("`([^`\n]+)`", re.sub("^```.*?^```", "", "".join(page.read_text() for page in pages), flags=re.M | re.S))


class ReasonsTest(unittest.TestCase):
    def test_every_reason_of_a_refusal_is_on_a_page(self):
        found = {reason: path.name for folder in WITH_REASONS for path in sources(SERVER / folder)
                 for reason in reasons_of(path.read_text())}
        self.assertGreater(len(found), 120)
        known = "\n".join(quoted(DOCS / "runbook.md", LOG_LINES))
        missing = [f"{where}: {reason}" for reason, where in found.items() if reason not in known]
        self.assertEqual(sorted(missing), [], f"add it to {LOG_LINES.name}, or to the refused logins in runbook.md")

    def test_every_reason_of_a_closed_connection_is_in_the_sources(self):
        tables = LOG_LINES.read_text().partition("## Reasons of closed connections")[2]
        texts = "\n".join("".join(LITERAL.findall(joined)) for folder in WITH_REASONS for path in sources(SERVER / folder)
                          for joined in re.findall(r'(?:"(?:[^"\\\n]|\\.)*"\s*)+', path.read_text()))
        rows = [reason for cell in re.findall(r"^\| (`.*?) \| ", tables, re.M) for reason in re.findall("`([^`]*)`", cell)]
        self.assertGreater(len(rows), 80)
        self.assertEqual([reason for reason in rows if re.sub("REASON$", "", reason) not in texts], [])

    def test_reasons_are_found_wherever_they_stand(self):
        self.assertEqual(list(reasons_of("""
            constexpr const char* too_cold = "it is too "
                                             "cold";
            if (a) return Refusal{Reason::quota_exceeded, is_hot ? "it is hot" : "it; is not", Limit::heat};
            if (b) session.disconnect(Reason::protocol_error, too_cold);
            refuse(login, Reason::server_busy, fmt::format("it waits: {}", it), "busy");
            return reject("400 Bad Request", "it is no request");
            const char* words = "no reason at all";
        """)), ["it is hot", "it; is not", "it is too cold", "it waits:", "it waits:", "it is no request"])

    def test_every_reason_of_a_dropped_message_is_in_the_runbook(self):
        metrics = (SERVER / "http" / "metrics" / "message_metrics.cpp").read_text()
        reasons = re.findall(r'\{"(\w+)", counters\.dropped_', metrics)
        self.assertGreater(len(reasons), 5)
        text = (DOCS / "runbook.md").read_text()
        self.assertEqual([reason for reason in reasons if f'`{{reason="{reason}"}}` grows' not in text], [])


def reloads_of(settings, text):
    """The sentences in the cells of its tables that tell to change one of these settings and then to reload."""
    cells = [cell for row in re.findall(r"^\|(.*)\|$", text, re.M) for cell in row.split("|")]
    found = []
    for sentence in re.split(r"[.;] ", "; ".join(cells)):
        changed = re.findall(r"\b(?:set|raise|lower|change) ((?:`[^`]+`(?:,? (?:and|or) |, )?)+)", sentence, re.I)
        if "reload" in sentence and settings & set(re.findall(r"`([a-z-]+)", "".join(changed))):
            found.append(sentence)
    return found


class PagesTest(unittest.TestCase):
    def test_no_change_is_listed_twice(self):  # as when two of its versions are merged
        rows = re.findall(r"^\| \d+ \| (.*?)(?:\. |$)", (DOCS / "changes.md").read_text(), re.M)
        self.assertGreater(len(rows), 50)
        self.assertEqual([row for row in set(rows) if rows.count(row) > 1], [])

    def test_links_lead_somewhere(self):
        for page in PAGES:
            for target in re.findall(r"\]\(([^)]*)\)", page.read_text()):
                with self.subTest(page=page.name, target=target):
                    path, _, anchor = target.partition("#")
                    linked = page.parent / path if path else page
                    self.assertTrue(linked.exists())
                    if anchor:
                        self.assertIn(anchor, headings_of(linked))

    def test_metrics_that_are_named_exist(self):
        known = set(re.findall(r'"(pulsegate_\w+)"', "".join(path.read_text() for path in sources(SERVER / "http"))))
        for page in PAGES:
            if page.name == "changes.md":  # has former names
                continue
            self.assertEqual(set(re.findall(r"`(pulsegate_\w+)", page.read_text())) - known, set(), page.name)

    def test_every_alert_has_a_place_in_the_runbook(self):
        alerts = re.findall(r"alert: (\w+)", (SERVER / "deploy" / "alerts.yml").read_text())
        self.assertGreater(len(alerts), 5)
        text = (DOCS / "runbook.md").read_text()
        self.assertEqual([alert for alert in alerts if f"`{alert}`" not in text], [])

    def test_reasons_of_refused_logins_are_those_of_the_sources(self):
        texts = "".join(text for path in sources(SERVER) for text in LITERAL.findall(path.read_text()))
        table = (DOCS / "runbook.md").read_text().partition("### Logins are refused")[2].partition("### ")[0]
        reasons = [reason for row in re.findall(r"^\| (`.*?`) \| 0x", table, re.M) for reason in re.findall("`([^`]*)`", row)]
        self.assertGreater(len(reasons), 30)
        self.assertEqual([reason for reason in reasons if re.sub("^its token: (?=it|no)|…$", "", reason) not in texts], [])

    def test_settings_that_are_named_exist(self):
        known = set(re.findall(r"^\| `([a-z-]+)` \|", (DOCS / "settings.md").read_text(), re.M))
        for page in (DOCS / "runbook.md", LOG_LINES, DOCS / "production.md"):
            for setting in set(re.findall(r"`((?:max|jwt|tls|auth|webhook|node|link|cluster|persistent|drain|ban)-[a-z-]+)`",
                                          page.read_text())):
                with self.subTest(page=page.name):
                    self.assertIn(setting, known)

    def test_a_reload_is_advised_only_for_live_settings(self):
        rows = re.findall(r"^\| `([a-z-]+)` \|.*?\| (live|live while set|restart) \|", (DOCS / "settings.md").read_text(), re.M)
        need_restart = {setting for setting, change in rows if change == "restart"}
        self.assertIn("auth-hook-ca", need_restart)
        for page in (DOCS / "runbook.md", LOG_LINES, DOCS / "production.md"):
            self.assertEqual([], reloads_of(need_restart, page.read_text()), page.name)

    def test_advice_to_reload_a_setting_that_needs_a_restart_is_found(self):
        for advice, is_wrong in (("renew it, or set `a-file` and reload", True), ("set `a-file`, reload", True),
                                 ("replace its content and reload. If not, set `a-file` and restart", False),
                                 ("lower `b` and reload; set `a-file`", False), ("raise `b` or `a-file`, then reload", True),
                                 ("set `b`", False)):
            with self.subTest(advice=advice):
                self.assertEqual(bool(reloads_of({"a-file"}, f"| a cause | {advice} |\n")), is_wrong)


if __name__ == "__main__":
    unittest.main()
