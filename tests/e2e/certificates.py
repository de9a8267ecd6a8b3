"""Certificates for tests, made with openssl."""

import os
import subprocess
import tempfile
from pathlib import Path


def openssl(*arguments, folder):
    return subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=30).stdout


class Certificates:
    """A certificate authority in a temporary folder."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="pulsegate-tls-")
        self.path = Path(self.folder.name)
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "ca.key",
                "-out", "ca.crt", "-subj", "/CN=a test's authority", "-days", "2", folder=self.path)
        self.ca = str(self.path / "ca.crt")

    def issue(self, name, host=None, subject=None):
        """Files of a certificate for a server or client of that name, and of its key."""
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key",
                "-out", f"{name}.csr", "-subj", subject or f"/CN={name}", folder=self.path)
        (self.path / "names").write_text(f"subjectAltName=DNS:{host or name},IP:127.0.0.1\n")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-out",
                f"{name}.crt", "-days", "2", "-extfile", "names", folder=self.path)
        os.chmod(self.path / f"{name}.key", 0o600)
        return str(self.path / f"{name}.crt"), str(self.path / f"{name}.key")
