"""Which lies a server tells, and how often: its arguments are NAME, NAME=VALUE or NAME=N for every Nth time."""

import itertools


class Lies:
    def __init__(self, arguments):
        self.values = dict((argument.split("=") + ["1"])[:2] for argument in arguments)
        self.counters = {name: itertools.count(1) for name in self.values}

    def tells(self, name):
        """Is this time, of all the times that it is asked, one of those to lie?"""
        return name in self.values and next(self.counters[name]) % int(self.values[name]) == 0

    def has(self, name):
        return name in self.values

    def number(self, name, otherwise=0.0):
        return float(self.values.get(name, otherwise))
