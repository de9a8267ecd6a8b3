"""Tokens, files of users, and what their holders may do."""

import base64
import hashlib
import hmac
import json
import tempfile
import unittest
from pathlib import Path

import paho.mqtt.client as paho

from gateway import add_users, wait_until

SECRET = "a secret of a test, of forty-two characters"


def part(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def token(claims, secret=SECRET, header=None, blanks=""):
    """`blanks` are put around the header's members, where JSON allows them."""
    written = json.dumps(header or {"alg": "HS256", "typ": "JWT"})
    written = blanks + written[0] + blanks + written[1:] + blanks
    signed = part(written.encode()) + b"." + part(json.dumps(claims).encode())
    return (signed + b"." + part(hmac.new(secret.encode(), signed, hashlib.sha256).digest())).decode()


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pulsegate-auth-")
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name)

    def file(self, name, text=""):
        path = self.path / name
        path.write_text(text)
        path.chmod(0o600)
        return str(path)

    def password_file(self, **users):
        return add_users(self.path / "users", **users)

    def client(self, gateway, user=None, password=None, client_id="c", version=paho.MQTTv5):
        """Code of the CONNACK and the client, which is logged in if that is 0."""
        client = paho.Client(client_id=client_id, protocol=version, reconnect_on_failure=False)
        codes = []
        client.on_connect = lambda c, u, flags, rc, *rest: codes.append(int(getattr(rc, "value", rc)))
        if user is not None:
            client.username_pw_set(user, password)
        client.connect("127.0.0.1", gateway.port)
        client.loop_start()
        self.addCleanup(client.loop_stop)
        self.addCleanup(client.disconnect)
        code = wait_until(lambda: codes or None, what="a CONNACK")[0]
        if code != 0:
            client.loop_stop()
        return code, client

    def code(self, *arguments, **options):
        return self.client(*arguments, **options)[0]


def granted(client, *filters):
    """The codes of a SUBACK."""
    codes = []
    client.on_subscribe = lambda c, u, mid, reasons, *rest: codes.append([reason.value for reason in reasons])
    client.subscribe([(each, paho.SubscribeOptions(qos=0)) for each in filters])
    return wait_until(lambda: codes or None, what="a SUBACK")[0]


def published(client, topic, payload="!", retain=False):
    """The code of a PUBACK."""
    log = []
    client.on_log = lambda c, u, level, text: log.append(text)
    codes = []
    client.on_publish = lambda c, u, mid: codes.append(mid)
    client.publish(topic, payload, 1, retain)
    wait_until(lambda: codes, what="a PUBACK")
