"""The Debian package in a fresh Debian: installed, upgraded, run by systemd, removed and purged. Part of ./tests/run --long.

DEBIAN_ROOT may name the folder of a Debian 12 with systemd and logrotate, which is copied; otherwise debootstrap makes one."""

import contextlib
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from gateway import DISCONNECT, REPOSITORY, SANITIZED, Client, binary, wait_until
from ports import free_port

MIRROR = os.environ.get("DEBIAN_MIRROR", "http://deb.debian.org/debian")
SETTINGS = "etc/pulsegate/pulsegate.conf"
BOOT = """
mount --make-rprivate /
mount --bind "$0" "$0"
cd "$0"
mount -t proc proc proc
mount -t sysfs sys sys
mount -t cgroup2 cgroup sys/fs/cgroup
for folder in run tmp dev; do mount -t tmpfs -o mode=1777 "$folder" "$folder"; done
for device in null zero full random urandom tty; do
    touch "dev/$device"
    mount --bind "/dev/$device" "dev/$device"
done
mkdir -p before dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
pivot_root . before
umount -l before
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=basic.target
"""
IN_ROOT = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'


def run(*command, timeout=600, **options):
    done = subprocess.run([*map(str, command)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=timeout, **options)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


class DebianRoot:
    """The folder of a Debian without anything of ours."""

    def __init__(self, folder):
        self.path = folder / "root"
        if "DEBIAN_ROOT" in os.environ:
            run("cp", "-a", os.environ["DEBIAN_ROOT"], self.path)
        else:
            run("debootstrap", "--variant=minbase", "--include=systemd,logrotate", "bookworm", self.path, MIRROR,
                timeout=1800)
        run("cp", "--remove-destination", "-L", "/etc/resolv.conf", self.path / "etc" / "resolv.conf")

    def command(self, *command):
        return ["unshare", "--mount", "--", "sh", "-c", IN_ROOT, str(self.path), *map(str, command)]

    def run(self, *command):
        return run(*self.command("env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8", *command))

    def apt(self, *arguments):
        return self.run("apt-get", "-y", "-q", "--no-install-recommends", "-o", "Dpkg::Options::=--force-confold",
                        *arguments)

    def install(self, package):
        run("cp", package, self.path / "tmp" / "pulsegate.deb")
        self.apt("install", "/tmp/pulsegate.deb")


class BootedRoot:
    """The same folder, with systemd as the first process. The network is the machine's."""

    def __init__(self, root):
        self.root = root

    def __enter__(self):
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
        groups = next((where for _, where, kind, *_ in mounts if kind == "cgroup2"), None)
        if not groups:
            raise unittest.SkipTest("systemd needs control groups of version 2")
        self.group = Path(groups) / f"pulsegate-test-{os.getpid()}"
        self.group.mkdir()
        self.process = subprocess.Popen(
            ["sh", "-c", 'echo $$ >"$1/cgroup.procs" && exec unshare -m -p -f -u -i -C sh -ec "$2" "$3"', "-", self.group, BOOT,
             self.root.path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        self.first = wait_until(lambda: children.read_text().split(), what="the first process")[0]
        wait_until(lambda: "active" in self.say("systemctl", "is-active", "basic.target").split(), what="the boot")
        return self

    def __exit__(self, *_):
        (self.group / "cgroup.kill").write_text("1")
        self.process.wait(60)
        wait_until(lambda: "populated 0" in (self.group / "cgroup.events").read_text(), what="the end of all processes")
        for folder in sorted((each for each in self.group.rglob("*") if each.is_dir()), reverse=True):
            folder.rmdir()
        self.group.rmdir()

    def command(self, *command):
        return ["nsenter", "-t", self.first, "-m", "-p", "-u", "-i", "-C", "env", "LC_ALL=C.UTF-8", *command]

    def say(self, *command):
        return subprocess.run(self.command(*command), stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout

    def run(self, *command):
        try:
            return run(*self.command(*command))
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.say('journalctl', '--no-pager', '-n', '50')}") from None

    def property(self, name):
        return self.run("systemctl", "show", "-P", name, "pulsegate").strip()


def upgraded(package, folder):
    """The same package with a higher version, and with other settings for a new installation."""
    run("dpkg-deb", "-R", package, folder / "newer")
    control = folder / "newer" / "DEBIAN" / "control"
    control.write_text(re.sub(r"(?m)^Version: .*$", "Version: 99.0", control.read_text()))
    with open(folder / "newer" / SETTINGS, "a") as settings:
        settings.write("\n# said by the newer package\n")
    run("dpkg-deb", "-Zgzip", "-z1", "-b", folder / "newer", folder / "newer.deb")
    return folder / "newer.deb"


class PackageVersionTest(unittest.TestCase):
    def test_a_package_replaces_the_one_before_if_there_is_one(self):
        with tempfile.TemporaryDirectory(prefix="pulsegate-package-") as folder:
            version, packages = Path(folder) / "version.cmake", Path(folder) / "packages"
            packages.mkdir()
            run("cmake", "-D", "RELEASE=1.2", "-D", f"SOURCE={folder}", "-D", f"OUTPUT={folder}/version.cpp", "-D",
                f"PACKAGE={version}", "-P", REPOSITORY / ".ci" / "version.cmake")
            for earlier in ((), ("pulsegate_1.1_amd64.deb", "pulsegate-dbgsym_1.1_amd64.ddeb")):
                for name in (*earlier, "other.deb"):
                    (packages / name).touch()
                run("cmake", "-D", f"CPACK_PACKAGE_DIRECTORY={packages}", "-P", version)
                self.assertEqual([each.name for each in packages.iterdir()], ["other.deb"])


@unittest.skipUnless(os.environ.get("PULSEGATE_LONG"), "takes minutes: ./tests/run --long")
@unittest.skipIf(SANITIZED or os.geteuid() != 0, "needs root, and the release")
class PackageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="pulsegate-package-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        run("cpack", "-B", cls.folder / "packages", cwd=binary().parent, timeout=1800)
        cls.package = next((cls.folder / "packages").glob("*.deb"))
        cls.root = DebianRoot(cls.folder)
        cls.root.apt("update")

    def file(self, name):
        return self.root.path / name

    def test_the_package_through_its_life(self):
        self.root.install(self.package)
        self.check_files()
        self.check_service()
        self.change_settings()
        self.check_that_it_serves()
        self.root.install(upgraded(self.package, self.folder))
        self.assertEqual(self.root.run("dpkg-query", "-W", "-f", "${Version}", "pulsegate"), "99.0")
        self.assertIn("# ours", self.file(SETTINGS).read_text())
        self.assertIn("newer package", self.file(SETTINGS + ".dpkg-dist").read_text())
        self.check_that_it_serves()
        self.check_under_systemd()
        self.root.apt("remove", "pulsegate")
        self.assertFalse(self.file("usr/bin/pulsegate").exists())
        self.assertTrue(self.file(SETTINGS).exists())
        self.assertTrue(self.file("var/lib/pulsegate/pulsegate.db").exists())
        self.root.apt("purge", "pulsegate")
        for name in ("etc/pulsegate", "var/lib/pulsegate", "var/log/pulsegate", "etc/logrotate.d/pulsegate"):
            self.assertFalse(self.file(name).exists(), name)
        self.assertNotIn("pulsegate", self.file("etc/passwd").read_text())

    def check_files(self):
        self.root.run("getent", "passwd", "pulsegate")
        self.assertEqual(self.root.run("stat", "-c", "%U %a", "/var/lib/pulsegate"), "pulsegate 750\n")
        for program in ("pulsegate", "pulsegate-loadgen"):
            self.assertNotIn(".debug_info", run("readelf", "-SW", self.file(f"usr/bin/{program}")))
        self.assertIn("_pulsegate", self.file("usr/share/bash-completion/completions/pulsegate").read_text())
        listed = run("dpkg-deb", "-c", self.package)
        for page in ("man1/pulsegate.1.gz", "man1/pulsegate-loadgen.1.gz", "man5/pulsegate.conf.5.gz"):
            self.assertIn(f"usr/share/man/{page}\n", listed)
        for page in ("README.md", "server/accounts.md", "server/clients.md", "server/docs/runbook.md",
                     "server/deploy/alerts.yml", "server/http/operation/openapi.json"):
            self.assertIn(f"usr/share/doc/pulsegate/{page}\n", listed)

    def check_service(self):
        self.root.run("systemd-analyze", "verify", "--man=no", "pulsegate.service", "pulsegate.socket")
        self.root.run("logrotate", "--debug", "/etc/logrotate.d/pulsegate")

    def change_settings(self):
        """Only the ports, because the network is the machine's."""
        self.port = free_port()
        text = self.file(SETTINGS).read_text().replace(":1883", f":{self.port}").replace(":8080", f":{free_port()}")
        text = re.sub(r"(?m)^drain-.*\n", "", text)
        self.file(SETTINGS).write_text(text + "\n# ours\n")

    def check_that_it_serves(self):
        command = self.root.command("setpriv", "--reuid=pulsegate", "--regid=pulsegate", "--init-groups",
                                    "/usr/bin/pulsegate", "--config", f"/{SETTINGS}")
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as gateway:
            try:
                self.assertTrue(any(" ready: " in line for line in gateway.stderr))
                self.assertIn("ready", self.root.run("pulsegate", "ctl", "status"))
                with Client(self.port) as client:
                    client.login("phone").ping()
            finally:
                gateway.terminate()
            gateway.stderr.read()
        self.assertEqual(gateway.returncode, 0)

    def check_under_systemd(self):
        """A client stays during an upgrade, and is asked to leave when the service stops afterwards."""
        with open(self.file(SETTINGS), "a") as settings:
            settings.write('drain-time = "1s"\n')
        with BootedRoot(self.root) as booted, contextlib.ExitStack() as stack:
            booted.run("systemctl", "start", "pulsegate")
            self.assertEqual(booted.property("StatusText"), "serving")
            client = stack.enter_context(Client(self.port)).login("phone", version=5)
            process = booted.property("MainPID")
            self.assertIn("1 clients moved", booted.run("pulsegate", "ctl", "upgrade"))
            self.assertNotEqual(booted.property("MainPID"), process)
            client.ping()
            booted.run("systemctl", "reload", "pulsegate")
            booted.run("systemctl", "stop", "pulsegate")
            self.assertEqual(booted.property("Result"), "success")
            self.assertEqual([(first, body[0]) for first, body in client.receive_until_closed()], [(DISCONNECT[0], 0x8B)])

    def test_the_symbols_are_in_a_package_of_their_own(self):
        symbols = next((self.folder / "packages").glob("pulsegate-dbgsym_*.ddeb"))
        self.assertRegex(run("dpkg-deb", "-c", symbols), r"usr/lib/debug/\.build-id/[0-9a-f]{2}/[0-9a-f]+\.debug")


if __name__ == "__main__":
    unittest.main()
