"""What server/deploy/ has beside the package: manual pages, units, log rotation and the Docker image's file."""

import json
import os
import re
import shlex
import subprocess
import tempfile
import unittest
from functools import cache
from pathlib import Path

from gateway import REPOSITORY, Gateway, binary, wait_until
from upgradable import PAUSE, gateway_for

DEPLOY = REPOSITORY / "server" / "deploy"
GENERATOR = binary().parent / "pulsegate-loadgen"
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
SUMMARY = re.compile(r"^  (?:-\w,)?(--[a-z][a-z-]*)", re.M)  # of an option, where --help lists it
COMMAND = re.compile(r"^  ([a-z]+) {2,}", re.M)


def run(*command, timeout=60, **options):
    return subprocess.run([*map(str, command)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout,
                          **options)


@cache
def help_of(*command):
    done = run(*command, "--help")
    assert done.returncode == 0, done.stderr
    return done.stdout


def rendered(page):
    environment = {**os.environ, "MANWIDTH": "1000", "LC_ALL": "C.UTF-8", "MAN_KEEP_FORMATTING": ""}
    done = run("man", "--warnings", "--no-hyphenation", "-l", DEPLOY / "man" / page, env=environment)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


class ManualPagesTest(unittest.TestCase):
    def test_the_page_of_the_settings_is_made_of_the_reference(self):
        page = run(DEPLOY / "man" / "settings_page.py").stdout
        self.assertEqual(page, (DEPLOY / "man" / "pulsegate.conf.5").read_text(),
                         "server/deploy/man/settings_page.py >server/deploy/man/pulsegate.conf.5")

    def test_the_page_of_the_settings_has_each_option_with_its_default(self):
        page = rendered("pulsegate.conf.5")
        listed = help_of(binary()).partition("\nServing:")[2]
        for option, default in re.findall(r"^  --([a-z-]+)(?: [^\s=]+)?(?:=([\w.]+)(?=\s))?", listed, re.M):
            with self.subTest(option=option):
                self.assertRegex(page, rf"(?m)^ +{option} = \S+\n.*{re.escape(default)}")

    def test_the_gateways_page_has_all_commands_and_options(self):
        page = rendered("pulsegate.1")
        commands = COMMAND.findall(help_of(binary(), "ctl").partition("Subcommands:")[2])
        self.assertIn("status", commands)
        for command in commands:
            item = re.search(rf"(?m)^ {{5}}{command}(?: .*)?$", page)
            self.assertTrue(item, command)
            for option in set(SUMMARY.findall(help_of(binary(), "ctl", command))) - {"--help"}:
                self.assertRegex(item[0], rf"{option}\b")
        own = help_of(binary()).partition("\nServing:")[0]
        others = "".join(help_of(binary(), command) for command in ("passwd", "token", "backup", "ctl"))
        everything = own + others + help_of(binary()) + help_of(binary(), "import") + \
            "".join(help_of(binary(), "ctl", command) for command in commands)
        self.assertLessEqual(set(SUMMARY.findall(own + others)), set(OPTION.findall(page)))
        self.assertLessEqual(set(OPTION.findall(page)), set(SUMMARY.findall(everything)))

    @unittest.skipUnless(GENERATOR.exists(), "no pulsegate-loadgen in this build")
    def test_the_load_generators_page_has_all_commands_and_options(self):
        page = rendered("pulsegate-loadgen.1")
        commands = COMMAND.findall(help_of(GENERATOR).partition("Subcommands:")[2].partition("Examples:")[0])
        self.assertEqual(set(commands), {"capacity", "compare", "plan", "kill"})
        for command in commands:
            self.assertRegex(page, rf"(?m)^ {{5}}{command}\b")
        options = set(SUMMARY.findall("".join(help_of(GENERATOR, *words) for words in ((), ["capacity"], ["compare"], ["plan"]))))
        self.assertEqual(set(OPTION.findall(page)), options)


class PackageVersionTest(unittest.TestCase):
    """apt installs a package only if its version differs from the installed one."""

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="pulsegate-version-")))
        self.git("init", "-q")

    def git(self, *arguments, time="2026-11-28T19:00:00Z"):
        done = run("git", "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments, cwd=self.folder,
                   env={**os.environ, "GIT_AUTHOR_DATE": time, "GIT_COMMITTER_DATE": time})
        self.assertEqual(done.returncode, 0, done.stderr)

    def version(self):
        package = self.folder / ".git" / "package_version.cmake"
        done = run("cmake", "-D", "RELEASE=0.1.0", "-D", f"SOURCE={self.folder}", "-D", f"OUTPUT={self.folder}/.git/version.cpp",
                   "-D", f"PACKAGE={package}", "-P", REPOSITORY / ".ci" / "version.cmake")
        self.assertEqual(done.returncode, 0, done.stderr)
        return re.search(r'CPACK_DEBIAN_PACKAGE_VERSION "(.+)"', package.read_text())[1]

    def test_each_commits_package_is_an_upgrade_of_the_one_before(self):
        versions = []
        for time in ("2026-11-28T19:00:00Z", "2026-11-28T21:00:01+02:00", "2026-11-29T02:00:00Z"):
            self.git("commit", "-q", "--allow-empty", "-m", "a change", time=time)
            versions.append(self.version())
        self.git("tag", "-a", "-m", "the release", "v0.1.0")
        versions.append(self.version())
        self.git("commit", "-q", "--allow-empty", "-m", "a change", time="2026-11-29T03:00:00Z")
        versions.append(self.version())
        self.assertRegex(versions[0], r"^0\.1\.0~20261128\.190000\.[0-9a-f]{7}$")
        self.assertEqual(versions[-2], "0.1.0")
        for older, newer in zip(versions, versions[1:]):
            self.assertEqual(run("dpkg", "--compare-versions", older, "lt", newer).returncode, 0, (older, newer))


PROCESS = "show --property MainPID --value pulsegate.service"


class ServiceTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="pulsegate-deploy-")))

    def test_systemd_has_nothing_to_say_about_the_units(self):
        names = ("pulsegate.service", "pulsegate.socket")
        for name in names:
            text = (DEPLOY / name).read_text()
            (self.folder / name).write_text(text.replace("/usr/bin/pulsegate", str(binary())))
        done = run("systemd-analyze", "verify", "--man=no", *(self.folder / name for name in names))
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_the_settings_of_a_new_installation_are_right(self):
        settings = (DEPLOY / "pulsegate.conf").read_text().replace("/var/lib/pulsegate", str(self.folder / "data"))
        (self.folder / "pulsegate.conf").write_text(settings)
        done = run(binary(), "--config", self.folder / "pulsegate.conf", "--check")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_the_socket_has_addresses_of_the_settings(self):
        addresses = re.findall(r"(?m)^ListenStream=(\S+)", (DEPLOY / "pulsegate.socket").read_text())
        self.assertTrue(addresses)
        for address in addresses:
            self.assertIn(f'"mqtt://{address}"', (DEPLOY / "pulsegate.conf").read_text())

    def test_a_stop_fits_into_the_services_time(self):
        times = dict(re.findall(r'(?m)^(drain-\w+) = "(\d+)s"', (DEPLOY / "pulsegate.conf").read_text()))
        wait = int(re.search(r"`stop-wait` \| `DURATION` \| `(\d+)s`", (REPOSITORY / "server" / "docs" / "settings.md").read_text())[1])
        most = int(re.search(r"TimeoutStopSec=(\d+)", (DEPLOY / "pulsegate.service").read_text())[1])
        self.assertLess(int(times["drain-notice"]) + int(times["drain-time"]) + wait + 10, most)

    def test_a_rotation_has_the_gateway_begin_a_new_file_of_events(self):
        logs, tools = self.folder / "log", self.folder / "bin"
        logs.mkdir(mode=0o750)
        tools.mkdir()
        settings = (DEPLOY / "pulsegate.logrotate").read_text()
        settings = settings.replace("/var/log/pulsegate", str(logs)).replace("    su pulsegate pulsegate\n", "")
        (self.folder / "rotation").write_text(settings)
        with Gateway("--events", logs / "events.jsonl") as gateway:
            gateway.events_file = logs / "events.jsonl"
            (tools / "systemctl").write_text(  # what systemd would do
                '#!/bin/sh\n[ "$*" = "kill --kill-who=main --signal=USR1 pulsegate.service" ] && '
                f"kill -USR1 {gateway.pid}\n")
            (tools / "systemctl").chmod(0o755)
            gateway.connect("a-phone", username="ann")
            gateway.wait_for_event(user="ann")
            done = run("logrotate", "--force", "--state", self.folder / "state", self.folder / "rotation",
                       env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"})
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            wait_until((logs / "events.jsonl").exists, what="a new file")
            gateway.connect("b-phone", username="bob")
            gateway.wait_for_event(user="bob")
            self.assertEqual(gateway.events(user="ann"), [])
            self.assertIn('"ann"', (logs / "events.jsonl.1").read_text())

    def configure(self, was_installed, is_active, pulsegate, says="", restarts=False):
        """What the package does behind its files: which words systemctl has heard. `pulsegate` is what that command runs.
        `restarts`: systemd has another main process each time."""
        tools, heard = self.folder / "bin", self.folder / "heard"
        tools.mkdir(exist_ok=True)
        heard.write_text("")
        process = f"wc -l <{heard}" if restarts else "echo 7"
        scripts = {"systemctl": f'echo "$*" >>{heard}\ncase "$*" in is-active*) exit {0 if is_active else 3} ;; '
                                f"*MainPID*) {process} ;; esac",
                   "getent": "", "install": "", "setpriv": f'[ "$PWD" = {self.folder} ] && shift 5 && exec "$@"',
                   "pulsegate": pulsegate}
        for name, text in scripts.items():
            (tools / name).write_text(f"#!/bin/sh\n{text}\n")
            (tools / name).chmod(0o755)
        script = self.folder / "postinst"
        text = (DEPLOY / "debian" / "postinst").read_text().replace("/run/systemd/system", str(self.folder))
        script.write_text(text.replace("/var/lib/pulsegate", str(self.folder)))
        done = run("sh", script, "configure", *(["0.1.0"] if was_installed else [""]),
                   env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"})
        self.assertEqual(done.returncode, 0)
        self.assertTrue(done.stderr.startswith(says) if says else not done.stderr, done.stderr)
        return heard.read_text().splitlines()

    def test_an_upgrade_of_the_package_disconnects_nobody(self):
        with gateway_for() as gateway:
            client = gateway.connect("phone")
            command = (f'[ "$*" = "ctl upgrade" ] && exec {binary()} ctl --socket {gateway.data}/admin.sock upgrade '
                       f"--longest-pause {PAUSE}")
            self.assertEqual(self.configure(was_installed=True, is_active=True, pulsegate=command),
                             ["daemon-reload", "is-active --quiet pulsegate.service", PROCESS])
            self.assertEqual(gateway.await_successor(gateway.pid), 0)
            client.ping()

    def test_a_package_restarts_a_gateway_that_can_not_be_replaced(self):
        restart = "try-restart pulsegate.service"
        begins = ["daemon-reload", "is-active --quiet pulsegate.service"]
        drop_ins = "show --property DropInPaths --value pulsegate.service"
        refuses, silent = '[ "$1" != ctl ]', '[ "$1" != ctl ] || exit 3'
        self.assertEqual(self.configure(was_installed=True, is_active=True, pulsegate=refuses), [*begins, PROCESS, drop_ins, restart])
        self.assertEqual(self.configure(was_installed=True, is_active=True, pulsegate=silent),
                         [*begins, PROCESS, PROCESS, drop_ins, restart])
        self.assertEqual(self.configure(was_installed=True, is_active=False, pulsegate=refuses), [*begins, drop_ins, restart])
        self.assertEqual(self.configure(was_installed=True, is_active=True, pulsegate="exit 1", says="pulsegate is not restarted"),
                         [*begins, PROCESS, drop_ins])
        self.assertEqual(self.configure(was_installed=False, is_active=False, pulsegate="exit 9"), ["daemon-reload"])

    def test_a_package_does_not_restart_a_gateway_that_ended_during_the_upgrade(self):
        self.assertEqual(self.configure(was_installed=True, is_active=True, pulsegate='[ "$1" != ctl ] || exit 3', restarts=True),
                         ["daemon-reload", "is-active --quiet pulsegate.service", PROCESS, PROCESS])

    def test_bash_completes_commands(self):
        words = run("bash", "-c", f"source <({shlex.quote(str(binary()))} ctl completion)\n"
                    "COMP_WORDS=(pulsegate ctl st) COMP_CWORD=2 && _pulsegate && echo ${COMPREPLY[*]}\n"
                    "COMP_WORDS=(pulsegate '') COMP_CWORD=1 && _pulsegate && echo ${COMPREPLY[*]}")
        self.assertEqual(words.stderr, "")
        self.assertEqual(words.stdout.splitlines()[0], "status")
        for command in ("ctl", "passwd", "token", "backup", "import"):
            self.assertRegex(words.stdout, rf"\b{command}\b")


def instructions_of(dockerfile):
    """Pairs of an instruction's name and its arguments, with continued lines joined."""
    text = re.sub(r"(?m)^#.*\n", "", dockerfile).replace("\\\n", " ")
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]


class ImageTest(unittest.TestCase):
    """Of the Dockerfile, all that can be known without Docker."""

    def setUp(self):
        self.instructions = instructions_of((DEPLOY / "Dockerfile").read_text())
        self.by_name = dict(self.instructions)  # of several, the last one

    def test_what_it_copies_is_there_and_enough_to_configure_the_build(self):
        ignored = (REPOSITORY / ".dockerignore").read_text().splitlines()
        kept = {line[1:] for line in ignored if line.startswith("!")}
        copied = set()
        for name, arguments in self.instructions:
            if name == "COPY" and not arguments.startswith("--from="):
                copied.update(arguments.split()[:-1])
        self.assertEqual(copied, kept)
        for path in copied:
            self.assertTrue((REPOSITORY / path).exists(), path)
        with tempfile.TemporaryDirectory(prefix="pulsegate-image-") as folder:
            run("cp", "-a", *(REPOSITORY / path for path in copied), folder)
            done = run("cmake", "-S", folder, "-B", f"{folder}/build", "-G", "Ninja",
                       "-D", "CMAKE_DISABLE_FIND_PACKAGE_doctest=ON", timeout=600)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_its_stages_and_the_programs_that_it_runs_are_there(self):
        stages = re.findall(r"(?m)^FROM (\S+)(?: AS (\w+))?$", (DEPLOY / "Dockerfile").read_text())
        self.assertEqual(stages, [("debian:12-slim", "build"), ("debian:12-slim", "")])
        taken = re.findall(r"(?m)^COPY --from=(\w+) (\S+)", (DEPLOY / "Dockerfile").read_text())
        self.assertEqual(taken, [("build", "/pulsegate.deb")])
        building = next(arguments for name, arguments in self.instructions if name == "RUN")
        self.assertIn(taken[0][1], building)
        for program in re.findall(r"(?<!\S)\.ci/\w+", building):
            self.assertTrue(os.access(REPOSITORY / program, os.X_OK), program)

    def test_it_serves_as_the_service_does(self):
        command = json.loads(self.by_name["ENTRYPOINT"]) + json.loads(self.by_name["CMD"])
        service = (DEPLOY / "pulsegate.service").read_text()
        self.assertEqual(command, re.search(r"(?m)^ExecStart=(.*)$", service)[1].split())
        self.assertEqual(self.by_name["USER"], re.search(r"(?m)^User=(.*)$", service)[1])
        self.assertIn(f'data = "{self.by_name["VOLUME"]}"', (DEPLOY / "pulsegate.conf").read_text())
        self.assertEqual(self.by_name["STOPSIGNAL"], "SIGTERM")

    def test_its_health_check_finds_out_whether_the_gateway_lives(self):
        check = json.loads(self.by_name["HEALTHCHECK"].partition("CMD ")[2])
        with Gateway() as gateway:
            check = [word.replace("8080", str(gateway.http_port)) for word in check]
            self.assertEqual(run(*check).returncode, 0)
        self.assertNotEqual(run(*check).returncode, 0)


if __name__ == "__main__":
    unittest.main()
