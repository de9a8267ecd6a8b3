"""Certificates for tests, made with openssl."""

import datetime
import os
import subprocess
import tempfile
from pathlib import Path


def openssl(*arguments, folder):
    return subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=60).stdout


class Certificates:
    """A certificate authority in a temporary folder."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="pulsegate-tls-")
        self.path = Path(self.folder.name)
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "ca.key",
                "-out", "ca.crt", "-subj", "/CN=a test's authority", "-days", "60", folder=self.path)
        self.ca = str(self.path / "ca.crt")

    def issue(self, name, host=None, subject=None, seconds=None, kind="ec"):
        """Files of a certificate for a server or client of that name, and of its key. It is valid for sixty days, or for
        so many seconds. Its key is of this kind, such as "rsa:3072"."""
        curve = ("-pkeyopt", "ec_paramgen_curve:P-256") if kind == "ec" else ()
        openssl("req", "-newkey", kind, *curve, "-nodes", "-keyout", f"{name}.key",
                "-out", f"{name}.csr", "-subj", subject or f"/CN={name}", folder=self.path)
        (self.path / "names").write_text(f"subjectAltName=DNS:{host or name},IP:127.0.0.1\n")
        if seconds is None:
            openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
                    "-out", f"{name}.crt", "-days", "60", "-extfile", "names", folder=self.path)
        else:
            end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
            self._as_authority("-in", f"{name}.csr", "-out", f"{name}.crt", "-enddate", end.strftime("%y%m%d%H%M%SZ"))
        os.chmod(self.path / f"{name}.key", 0o600)
        return str(self.path / f"{name}.crt"), str(self.path / f"{name}.key")

    def revoke(self, *names):
        """The file of the list of all certificates that are revoked, with these."""
        for name in names:
            self._as_authority("-revoke", f"{name}.crt")
        self._as_authority("-gencrl", "-crldays", "60", "-out", "revoked.crl")
        return str(self.path / "revoked.crl")

    def _as_authority(self, *arguments):
        """`openssl ca`, which keeps a list of what it has issued."""
        if not (self.path / "ca.conf").exists():
            (self.path / "issued").touch()
            (self.path / "ca.conf").write_text(
                "[ca]\ndefault_ca = us\n[us]\ndatabase = issued\nnew_certs_dir = .\nrand_serial = yes\n"
                "certificate = ca.crt\nprivate_key = ca.key\ndefault_md = sha256\npolicy = any\n"
                "[any]\ncommonName = supplied\n")
        openssl("ca", "-batch", "-notext", "-config", "ca.conf", *arguments, folder=self.path)
