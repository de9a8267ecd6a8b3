"""What Paho, MQTT.js and mosquitto's clients see of one node, they see of an edge that is never home."""

import importlib
import unittest

import behind_edge


def load_tests(loader, *_):
    behind_edge.stand_in()
    modules = [importlib.import_module(name) for name in ("clients_test", "mosquitto_test")]
    return unittest.TestSuite(loader.loadTestsFromModule(module) for module in modules)


if __name__ == "__main__":
    unittest.main()
