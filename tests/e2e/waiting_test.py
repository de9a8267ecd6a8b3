"""Tests wait for events, so they don't depend on the speed of the machine. This finds end-to-end tests that assume that some time is
enough, and unit tests that give up early or never."""

import ast
import re
import unittest
from pathlib import Path

from gateway import PATIENCE

FOLDER = Path(__file__).parent
UNIT_TESTS = FOLDER.parent
# Functions that may sleep. The line says why.
SLEEPERS = {"gateway.py": {"wait_until", "let_pass", "let_pass_meanwhile", "log"}, "handover_relay.py": {"kill_now"},
            "upgrade_test.py": {"test_a_new_process_that_is_killed_on_its_way_harms_nobody"}}
# A sleep in a shell script. HANGING in gateway.py is the one that scripts may have.
SCRIPT = re.compile(r"\bsleep +[\d.]")
CLOCKS = {"monotonic", "time", "perf_counter"}
SHORTEST = 10  # seconds
# What waits for an event, and the place of its timeout.
WAITERS = {"wait_until": 1, "wait_for_log": 1, "await_ready": 0, "wait_for_event": 0}


def is_of(modules, node, names):
    """An attribute of one of these modules: time.monotonic, for example."""
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules and node.attr in names


def number(node):
    try:
        return float(ast.literal_eval(node))
    except (ValueError, TypeError, SyntaxError):
        return None


class Waits(ast.NodeVisitor):
    """The lines of a module that count on time, each with what is wrong."""

    def __init__(self, name, text):
        self.name, self.lines = name, text.splitlines()
        self.functions, self.found = [], []
        tree = ast.parse(text)
        self.durations = set()  # names that stand for one
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and self.is_duration(node.value):
                self.durations |= {ast.unparse(target) for target in node.targets}
        self.visit(tree)

    def is_duration(self, node):
        """Is there a difference of times in this expression?"""
        return any(isinstance(part, ast.BinOp) and isinstance(part.op, ast.Sub) and
                   any(is_of({"time"}, call, CLOCKS) for call in ast.walk(part)) or
                   self.durations and isinstance(part, ast.expr) and ast.unparse(part) in self.durations
                   for part in ast.walk(node))

    def note(self, node, what):
        self.found.append((node.lineno, what))

    def visit_FunctionDef(self, node):
        self.functions.append(node.name)
        self.generic_visit(node)
        self.functions.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ImportFrom(self, node):
        if node.module == "time" or node.module == "asyncio" and "sleep" in (each.name for each in node.names):
            self.note(node, f"names of `{node.module}` are imported: say {node.module}.sleep, so that it is found")

    def check_sleep(self, node):
        if not SLEEPERS.get(self.name, set()) & set(self.functions):
            self.note(node, "sleep: wait for an event; let_pass is for a pause that the test itself makes, HANGING for a process "
                            "that stands still")
        elif "  # " not in self.lines[node.lineno - 1]:
            self.note(node, "sleep without a reason on its line")

    def visit_Attribute(self, node):
        if is_of({"time", "asyncio"}, node, {"sleep"}):
            self.check_sleep(node)
        self.generic_visit(node)

    def visit_Assign(self, node):
        if self.name != "gateway.py" or ast.unparse(node.targets[0]) != "HANGING":
            self.generic_visit(node)

    def visit_Constant(self, node):
        if isinstance(node.value, str) and SCRIPT.search(node.value):
            self.check_sleep(node)

    def visit_JoinedStr(self, node):
        for part, value in zip(node.values, node.values[1:]):
            if isinstance(part, ast.Constant) and part.value.endswith("sleep ") and isinstance(value, ast.FormattedValue):
                self.check_sleep(node)
        self.generic_visit(node)

    def check_sequence(self, parts):
        if parts and isinstance(parts[0], ast.Constant) and parts[0].value == "sleep":
            self.check_sleep(parts[0])
        for option, value in zip(parts, parts[1:]):
            if isinstance(option, ast.Constant) and option.value == "-W" and (number(value) or SHORTEST) < SHORTEST:
                self.note(option, f"-W {number(value):g}: what comes may take longer")

    def visit_List(self, node):
        self.check_sequence(node.elts)
        self.generic_visit(node)

    visit_Tuple = visit_List

    def check_bound(self, node, measured, bound):
        limit = number(bound)
        if limit is not None and limit < SHORTEST and self.is_duration(measured):
            self.note(node, f"an upper bound of {limit:g} s: a busy machine breaks it")

    def check_patience(self, node):
        """The usual patience is what a busy machine needs."""
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        given = [each.value for each in node.keywords if each.arg == "timeout"] + node.args[WAITERS.get(name, 99):]
        if name in WAITERS and given and (number(given[0]) or PATIENCE) < PATIENCE:
            self.note(node, f"{name} for {number(given[0]):g} s: the event may take longer")

    def visit_Call(self, node):
        self.check_sequence(node.args)
        self.check_patience(node)
        if isinstance(node.func, ast.Attribute):
            if node.func.attr in ("assertLess", "assertLessEqual"):
                self.check_bound(node, *node.args[:2])
            if node.func.attr in ("assertGreater", "assertGreaterEqual"):
                self.check_bound(node, *node.args[1::-1])
        self.generic_visit(node)

    def visit_Assert(self, node):
        if isinstance(node.test, ast.Compare) and isinstance(node.test.ops[0], (ast.Lt, ast.LtE)):
            self.check_bound(node, node.test.left, node.test.comparators[0])
        self.generic_visit(node)


# In C++: a pause; a time after which a test gives up; a loop that only waits, without a time of its own.
PAUSE = re.compile(r"\bsleep_(?:for|until)\(")
GIVES_UP = re.compile(r"\bnow\(\) \+ (?:std::chrono::)?(?:seconds\((\d+)\)|(\d+)s\b)")
WAITS = re.compile(r"\b(?:while|for) \((?:[^;{}]|;;)*std::this_thread::yield\(\)")
LEAST_PATIENCE = 60  # seconds


def waits_of_cpp(text):
    """The lines of a C++ file that count on time, or wait for ever."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if PAUSE.search(line):
            found.append((number, "a pause: wait for an event"))
        if any(int(one or other) < LEAST_PATIENCE for one, other in GIVES_UP.findall(line)):
            found.append((number, "gives up early: use test_patience of tests/support/patience.h"))
    for loop in WAITS.finditer(text):
        if "now() <" not in loop[0]:
            found.append((text.count("\n", 0, loop.start()) + 1, "may wait for ever: use comes_true of tests/support/patience.h"))
    return found


class WaitingTest(unittest.TestCase):
    def test_no_unit_test_counts_on_time_or_waits_for_ever(self):
        paths = [path for pattern in ("*.cpp", "conformance/*.cpp", "support/*.cpp", "support/*.h") for path in UNIT_TESTS.glob(pattern)]
        self.assertGreater(len(paths), 200)
        for path in sorted(paths):
            with self.subTest(path.name):
                self.assertEqual(waits_of_cpp(path.read_text()), [])

    def test_a_unit_test_that_counts_on_time_or_waits_for_ever_is_found(self):
        for text in ("std::this_thread::sleep_for(1ms);", "const auto end = Clock::now() + std::chrono::seconds(30);",
                     "while (Clock::now() < begin + 1s || Clock::now() + 20s < end)", "while (!done) std::this_thread::yield();",
                     "while (!file.find(\"x\"))\n    std::this_thread::yield();", "for (;; std::this_thread::yield()) {"):
            with self.subTest(text):
                self.assertEqual(len(waits_of_cpp(text)), 1)
        for text in ("const auto end = Clock::now() + std::chrono::seconds(60);", "const auto end = Clock::now() + test_patience;",
                     "while (boot_now() < end) std::this_thread::yield();", "while (!done) work();\nstd::this_thread::yield();",
                     "for (int i = 0; i < 3; ++i) {\n    std::this_thread::yield();\n}"):
            with self.subTest(text):
                self.assertEqual(waits_of_cpp(text), [])

    def test_no_module_counts_on_time(self):
        for path in sorted([*FOLDER.glob("*.py"), *FOLDER.parent.glob("cluster/*.py")]):
            with self.subTest(path.name):
                self.assertEqual(Waits(path.name, path.read_text()).found, [])

    def test_what_counts_on_time_is_found(self):
        for text in ("time.sleep(1)", "from time import sleep", "async def pause():\n    await asyncio.sleep(1)",
                     "from asyncio import sleep", "run(['mosquitto_sub', '-W', '2'])", "run('-W', 1)",
                     "self.assertLess(time.monotonic() - began, 1)", "took = time.time() - began\nassert took < 9.9",
                     "self.worst = max(self.worst, time.monotonic() - began)\nself.assertLessEqual(self.worst, 5)",
                     "self.assertGreater(3, time.monotonic() - began)", "wait_until(is_there, 20)",
                     "wait_until(is_there, timeout=20)", "gateway.wait_for_log('ready', 30)", "node.await_ready(20)",
                     "subprocess.run(['sleep', '1.5'])", "subprocess.run(('sleep', str(seconds)))", "run('sleep', 1)",
                     "run(['sh', '-c', 'true; sleep' ' 1'])", "run(f'sleep {seconds}; true', shell=True)"):
            with self.subTest(text):
                self.assertEqual(len(Waits("x_test.py", text).found), 1)
        for text in ("let_pass(1)", "run('-W', '60')", "self.assertLess(time.monotonic() - began, 10)",
                     "self.assertGreater(time.monotonic() - began, 1)", "self.assertLess(time.time(), 1)",
                     "wait_until(is_there, 60)", "wait_until(is_there, what='20')", "gateway.wait_for_log('ready')",
                     "run(f'exec {HANGING}', shell=True)", "topic('calm/sleep/5')"):
            with self.subTest(text):
                self.assertEqual(Waits("x_test.py", text).found, [])

    def test_only_helpers_sleep_and_say_why(self):
        for function, line, count in (("let_pass", "time.sleep(1)  # because", 0), ("let_pass", "time.sleep(1)", 1),
                                      ("other", "time.sleep(1)  # because", 1)):
            with self.subTest(function=function, line=line):
                self.assertEqual(len(Waits("gateway.py", f"def {function}():\n    {line}\n").found), count)


if __name__ == "__main__":
    unittest.main()
