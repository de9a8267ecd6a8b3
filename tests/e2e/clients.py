"""Other people's clients, made ready for tests."""

import fcntl
import json
import os
import shutil
import queue
import subprocess
from pathlib import Path

import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from gateway import REPOSITORY


class PahoClient:
    """Paho with its callbacks turned into queues. `keep` is for how many seconds its session is kept, `login` is a user
    and a password."""

    def __init__(self, gateway, client_id, version, will=None, keep=0, login=None, **connect):
        if version == paho.MQTTv5:
            self.mqtt = paho.Client(client_id=client_id, protocol=version)
            connect.setdefault("properties", Properties(PacketTypes.CONNECT))
            connect["properties"].SessionExpiryInterval = keep
            connect["clean_start"] = not keep
        else:
            self.mqtt = paho.Client(client_id=client_id, protocol=version, clean_session=not keep)
        self.mqtt.reconnect_delay_set(0.02, 1)
        self.connected, self.subscribed, self.published, self.closed = (queue.Queue() for _ in range(4))
        self.messages = queue.Queue()
        self.mqtt.on_connect = lambda c, u, flags, rc, *rest: self.connected.put((int(getattr(rc, "value", rc)), flags))
        self.mqtt.on_subscribe = lambda c, u, mid, *rest: self.subscribed.put(mid)
        self.mqtt.on_publish = lambda c, u, mid: self.published.put(mid)
        self.mqtt.on_message = lambda c, u, message: self.messages.put(message)
        self.mqtt.on_disconnect = lambda c, u, rc, *rest: self.closed.put(int(getattr(rc, "value", rc) or 0))
        if login:
            self.mqtt.username_pw_set(*login)
        if will:
            self.mqtt.will_set(*will)
        self.mqtt.connect("127.0.0.1", gateway.port, **connect)
        self.mqtt.loop_start()
        code, self.flags = self.connected.get(timeout=60)
        assert code == 0, f"refused with {code}"

    def subscribe(self, *arguments, **options):
        self.mqtt.subscribe(*arguments, **options)
        self.subscribed.get(timeout=60)

    def next(self):
        return self.messages.get(timeout=60)

    def leave(self):
        self.mqtt.disconnect()
        self.mqtt.loop_stop()

    def vanish(self):
        """Closes the socket without DISCONNECT."""
        self.mqtt.loop_stop()
        self.mqtt.socket().close()


def install_mqtt_js():
    """The folder to run node in. What is installed there stands in node/package-lock.json."""
    wanted = Path(__file__).with_name("node")
    folder = Path(os.environ.get("PULSEGATE_BUILD_DIR", REPOSITORY)) / "build" / "node"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other parts of the suite may want it now, too
        lock_file = (wanted / "package-lock.json").read_text()
        installed = folder / "installed"
        if not installed.exists() or installed.read_text() != lock_file:
            for file in wanted.iterdir():
                shutil.copy(file, folder)
            subprocess.run(["npm", "ci", "--prefix", str(folder), "--prefer-offline", "--no-audit", "--no-fund",
                            "--loglevel=error"], check=True, timeout=240, stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL)
            installed.write_text(lock_file)
    return folder


def chat_with_mqtt_js(url, version, user, password, ca):
    """What chat.js sees."""
    node = subprocess.run(["node", str(Path(__file__).with_name("chat.js")), url, str(version), user, password, ca],
                          env={**os.environ, "NODE_PATH": str(install_mqtt_js() / "node_modules")},
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert node.returncode == 0, f"chat.js: {node.stderr}"
    return json.loads(node.stdout)
