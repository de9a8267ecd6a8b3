"""What Paho, MQTT.js and mosquitto's clients see of one node, they see of an edge that is never home."""

import unittest

import behind_edge  # noqa: F401: before the tests, which then have two nodes
from clients_test import *  # noqa: F401, F403
from mosquitto_test import *  # noqa: F401, F403

if __name__ == "__main__":
    unittest.main()
