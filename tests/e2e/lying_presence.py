"""The presence that lying_server.py shows, in topics and by HTTP, and the lies about it."""

import asyncio
import json
import random
import time
import urllib.parse

LATE = 4  # seconds
KNOWN = 2_000  # ms after which other clients have been told a state


class Presence:
    def __init__(self, lies, by_topic, clients):
        self.lies = lies
        self.by_topic = by_topic  # topic -> clients that subscribe to it
        self.clients = clients
        self.users = {}  # name -> what is shown
        self.earlier = {}  # name -> what was shown before
        self.here = {}  # name -> its client
        self.hidden = set()
        self.events = open(lies.values["events"], "a", buffering=1) if lies.has("events") else None

    def comes(self, name, client):
        known = name in self.users
        self.here[name] = client
        if not known and self.lies.tells("hide"):
            self.hidden.add(name)
        if not known or self.users[name]["state"] != "online":
            if known and self.lies.tells("late-online"):
                self.later(LATE, self.show_if_here, name)
            else:
                self.show(name, "online")
        if self.lies.tells("flap"):
            self.later(2, self.flap, name, 0)
        if self.lies.tells("flap-kept"):
            self.later(2, self.flap, name, 1)

    def goes(self, name, client):
        if self.here.get(name) is client:
            del self.here[name]
            if not self.lies.tells("ghosts"):
                self.show(name, "offline")
            if self.lies.tells("revive"):
                self.later(3, self.revive, name)

    @staticmethod
    def later(seconds, function, *arguments):
        asyncio.get_running_loop().call_later(seconds, function, *arguments)

    def show_if_here(self, name):
        if name in self.here and self.users[name]["state"] != "online":
            self.show(name, "online")

    def revive(self, name):
        if name not in self.here:
            self.show(name, "online")
            self.later(2, self.bury, name)

    def bury(self, name):
        if name not in self.here:
            self.show(name, "offline")

    def flap(self, name, retained):
        if name in self.here:
            self.show(name, "offline", retained)
            self.show(name, "online", retained)

    def show(self, name, state, retained=0):
        version = max(self.users.get(name, {"version": 0})["version"] + 1, int(time.time() * 1000))
        is_online = state == "online"
        if name in self.users:
            self.earlier[name] = self.users[name]
        self.users[name] = {"user": name, "state": state, "version": version, "cause": "login" if is_online else "connection_lost",
                            "devices": [{"client": name}] if is_online else []}
        if self.events and name not in self.hidden:
            self.events.write(json.dumps(self.users[name]) + "\n")
        topic = f"presence/{name}".encode()
        watchers = list(self.by_topic.get(topic, ()))
        for watcher in watchers:
            self.tell(watcher, topic, retained)
        others = [one for one in self.clients if one.session.filters and one not in watchers]
        if others and self.lies.tells("tell-others"):
            self.tell(random.choice(others), topic, retained)

    def tell_first(self, watcher, topic):
        """Tells a client the present state of a user whom it has just subscribed to."""
        user = self.users.get(topic.decode().partition("/")[2])
        is_known = user and time.time() * 1000 - user["version"] > KNOWN
        if is_known and self.lies.tells("no-state"):
            return
        self.tell(watcher, topic, 1, is_known and self.lies.tells("old-state"))

    def tell(self, watcher, topic, retained=0, is_old=False):
        name = topic.decode().partition("/")[2]
        if name in self.users and name not in self.hidden:
            told = dict(self.users[name])
            if is_old:
                told |= self.earlier.get(name, {"version": told["version"] - 1})
            if told["state"] == "offline" and watcher.offline_hidden:
                return
            if self.lies.tells("contradict"):
                told |= {"state": "offline", "cause": "timeout", "devices": []} if told["state"] == "online" else \
                        {"state": "online", "cause": "login", "devices": [{"client": name}]}
            self.garble(told)
            watcher.tell_presence(topic, json.dumps(told, separators=(",", ":")).encode(), retained)

    def garble(self, told):
        if self.lies.tells("presence-user"):
            told["user"] += "0"
        if self.lies.tells("presence-cause"):
            told["cause"] = "timeout" if told["state"] == "online" else "login"
        if self.lies.tells("presence-devices"):
            told["devices"] = [{"client": next(name for name in self.users if name != told["user"])}]

    def answer(self, target):
        names = urllib.parse.unquote(target.partition("ids=")[2]).split(",")
        told = [dict(self.users[name]) for name in names if name in self.users and not self.lies.tells("http-omit")]
        for user in told:
            if self.lies.tells("http-offline"):
                user["state"] = "offline"
            if self.lies.tells("http-ghosts"):
                user["state"] = "online"
            if self.lies.tells("http-order"):
                user["version"] -= 3_600_000
        return json.dumps({"users": told, "unknown": [name for name in names if name not in self.users]})
