"""Clients that people use: mosquitto's, Paho, MQTT.js; MQTT 3.1, 3.1.1 and 5.0, QoS 0 and 1."""

import json
import os
import queue
import subprocess
import unittest

import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from clients import PahoClient, install_mqtt_js
from gateway import Gateway, wait_until


class WithGateway(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.gateway = cls.enterClassContext(Gateway(events=True))


class MosquittoTest(WithGateway):
    def subscribe(self, *arguments, count=1):
        """A mosquitto_sub that is subscribed; it ends by itself after `count` messages."""
        before = self.gateway.metric("pulsegate_packets_sent_total", type="suback")
        process = subprocess.Popen(
            ["mosquitto_sub", "-h", "127.0.0.1", "-p", str(self.gateway.port), "-C", str(count),
             "-W", "60", *arguments], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        wait_until(lambda: self.gateway.metric("pulsegate_packets_sent_total", type="suback") > before,
                   what="SUBACK")
        return process

    def publish(self, *arguments):
        subprocess.run(["mosquitto_pub", "-h", "127.0.0.1", "-p", str(self.gateway.port), *arguments],
                       check=True, timeout=60, stdin=subprocess.DEVNULL)

    def test_every_version_and_qos_gets_a_message_through(self):
        for version in ("mqttv31", "mqttv311", "mqttv5"):
            for qos in ("0", "1"):
                with self.subTest(version=version, qos=qos):
                    topic = f"room/{version}/{qos}"
                    sub = self.subscribe("-V", version, "-q", qos, "-t", "room/+/" + qos, "-v")
                    self.publish("-V", version, "-q", qos, "-t", topic, "-m", "hello")
                    self.assertEqual(sub.communicate(timeout=60)[0], f"{topic} hello\n")
                    self.assertEqual(sub.returncode, 0)

    def test_versions_talk_to_each_other(self):
        for here, there in (("mqttv311", "mqttv5"), ("mqttv5", "mqttv311")):
            with self.subTest(here=here, there=there):
                sub = self.subscribe("-V", there, "-q", "1", "-t", "a/#", "-v")
                self.publish("-V", here, "-q", "1", "-t", "a/b/c", "-m", "across")
                self.assertEqual(sub.communicate(timeout=60)[0], "a/b/c across\n")

    def test_a_thousand_lines_arrive_in_order(self):
        sub = self.subscribe("-q", "1", "-t", "lines", count=1000)
        lines = "".join(f"line {i}\n" for i in range(1000))
        subprocess.run(["mosquitto_pub", "-p", str(self.gateway.port), "-q", "1", "-t", "lines", "-l"],
                       input=lines, text=True, check=True, timeout=60)
        self.assertEqual(sub.communicate(timeout=60)[0], lines)

    def test_properties_travel_to_a_subscriber_of_version_5(self):
        sub = self.subscribe("-V", "5", "-t", "with/properties", "-F", "%p %C %P")
        self.publish("-V", "5", "-t", "with/properties", "-m", "x",
                     "-D", "publish", "content-type", "text/plain",
                     "-D", "publish", "user-property", "color", "blue")
        self.assertEqual(sub.communicate(timeout=60)[0], "x text/plain color:blue\n")


class PahoTest(WithGateway):
    versions = {"3.1.1": paho.MQTTv311, "5.0": paho.MQTTv5}

    def client(self, name, version, **options):
        client = PahoClient(self.gateway, name, version, **options)
        self.addCleanup(client.leave)
        return client

    def test_wildcards_select_what_the_standard_says(self):
        for name, version in self.versions.items():
            with self.subTest(version=name):
                one = self.client("one" + name, version)
                one.subscribe([("room/+/chat", 1), ("news/#", 0)] if version == paho.MQTTv311 else
                              [("room/+/chat", SubscribeOptions(1)), ("news/#", SubscribeOptions(0))])
                other = self.client("other" + name, version)
                for topic in ("room/1/chat", "room/1/2/chat", "news", "news/a/b", "newsroom", "$news/x",
                              "room/2/chat"):
                    other.mqtt.publish(topic, topic.encode(), qos=1)
                got = [one.next() for _ in range(4)]
                self.assertEqual([message.topic for message in got],
                                 ["room/1/chat", "news", "news/a/b", "room/2/chat"])
                self.assertEqual([message.qos for message in got], [1, 0, 0, 1])
                self.assertTrue(one.messages.empty())

    def test_unsubscribing_ends_it(self):
        for name, version in self.versions.items():
            with self.subTest(version=name):
                client = self.client("un" + name, version)
                client.subscribe("first", 1)
                client.subscribe("second", 1)
                gone = queue.Queue()
                client.mqtt.on_unsubscribe = lambda *arguments: gone.put(True)
                client.mqtt.unsubscribe("first")
                gone.get(timeout=60)
                client.mqtt.publish("first", b"x", qos=1)
                client.mqtt.publish("second", b"y", qos=1)
                self.assertEqual(client.next().topic, "second")

    def test_a_will_is_sent_for_a_lost_client_and_not_after_a_disconnect(self):
        for name, version in self.versions.items():
            with self.subTest(version=name):
                watcher = self.client("watcher" + name, version)
                watcher.subscribe("will/#", 1)
                leaver = PahoClient(self.gateway, "leaver" + name, version, will=("will/leaver", b"no", 1))
                leaver.leave()
                self.gateway.wait_for_event(user="leaver" + name, cause="logout")
                PahoClient(self.gateway, "lost" + name, version, will=("will/lost", b"gone", 1)).vanish()
                message = watcher.next()
                self.assertEqual((message.topic, message.payload), ("will/lost", b"gone"))
                self.gateway.wait_for_event(user="lost" + name, cause="connection_lost")

    def test_properties_travel_and_the_server_states_its_limits(self):
        receiver = self.client("receiver", paho.MQTTv5)
        receiver.subscribe("p/#", options=SubscribeOptions(qos=1))
        properties = Properties(PacketTypes.PUBLISH)
        properties.UserProperty = [("a", "1"), ("b", "2"), ("a", "3")]
        properties.ContentType = "text/plain"
        properties.ResponseTopic = "p/answer"
        properties.CorrelationData = b"\0\1"
        receiver.mqtt.publish("p/1", "x", 1, properties=properties)
        got = receiver.next().properties
        self.assertEqual(got.UserProperty, [("a", "1"), ("b", "2"), ("a", "3")])
        self.assertEqual((got.ContentType, got.ResponseTopic, got.CorrelationData),
                         ("text/plain", "p/answer", b"\0\1"))

    def test_no_local_excludes_the_senders_own_messages(self):
        client = self.client("nolocal", paho.MQTTv5)
        client.subscribe("own", options=SubscribeOptions(qos=1, noLocal=True))
        client.subscribe("mark", options=SubscribeOptions(qos=1))
        client.mqtt.publish("own", b"x", qos=1)
        client.mqtt.publish("mark", b"y", qos=1)
        self.assertEqual(client.next().topic, "mark")

    def test_a_large_message_arrives_whole(self):
        client = self.client("large", paho.MQTTv311)
        client.subscribe("large", 1)
        payload = os.urandom(200_000)
        client.mqtt.publish("large", payload, qos=1)
        self.assertEqual(client.next().payload, payload)

    def test_a_takeover_closes_the_first_with_its_reason(self):
        first = self.client("same", paho.MQTTv5)
        first.mqtt.reconnect_delay_set(60, 60)
        second = self.client("same", paho.MQTTv5)
        self.assertEqual(first.closed.get(timeout=60), 0x8E)
        second.subscribe("alive", 1)
        second.mqtt.publish("alive", b"x", qos=1)
        self.assertEqual(second.next().topic, "alive")


MQTT_JS = """
const mqtt = require('mqtt');
const url = 'mqtt://127.0.0.1:' + process.argv[1];
const protocolVersion = Number(process.argv[2]);
const once = (target, name, where) => new Promise((done, fail) => {
    const timer = setTimeout(() => fail(new Error('no ' + name + ' ' + where)), 50000);
    target.once(name, (...what) => { clearTimeout(timer); done(what); });
});
const open = (clientId, more) =>
    mqtt.connect(url, { clientId, protocolVersion, clean: true, reconnectPeriod: 0, ...more });

(async () => {
    const seen = {};
    const a = open('js-a' + protocolVersion);
    seen.sessionPresent = (await once(a, 'connect', 'a'))[0].sessionPresent;
    const grants = await a.subscribeAsync({ 'js/+': { qos: 1 }, 'zero': { qos: 0 } });
    seen.granted = grants.map(g => g.qos);
    let message = once(a, 'message', 'qos 1');
    const properties = protocolVersion === 5 ? { userProperties: { color: 'blue' } } : undefined;
    await a.publishAsync('js/one', 'first', { qos: 1, properties });
    let [topic, payload, packet] = await message;
    seen.first = [topic, payload.toString(), packet.qos];
    seen.properties = packet.properties ? { ...packet.properties.userProperties } : null;
    message = once(a, 'message', 'qos 0');
    await a.publishAsync('zero', 'second');
    seen.second = (await message)[1].toString();

    // A clean reconnect: the client comes back by itself and subscribes anew.
    const b = open('js-b' + protocolVersion, { reconnectPeriod: 50 });
    await once(b, 'connect', 'b');
    await b.subscribeAsync('again', { qos: 1 });
    const back = once(b, 'connect', 'b again');
    b.stream.destroy();
    await back;
    const resubscribed = once(b, 'message', 'after the reconnect');
    const nag = setInterval(() => a.publish('again', 'back'), 50);
    seen.reconnected = (await resubscribed)[1].toString();
    clearInterval(nag);

    // A takeover: the second one with the id of the first closes the first.
    const closed = once(a, 'close', 'takeover');
    const told = protocolVersion === 5 ? once(a, 'disconnect', '0x8E') : null;
    const c = open('js-a' + protocolVersion);
    await once(c, 'connect', 'c');
    await closed;
    seen.told = told ? (await told)[0].reasonCode : null;
    await Promise.all([b.endAsync(), c.endAsync()]);
    console.log(JSON.stringify(seen));
    process.exit(0);
})().catch(error => { console.error(error); process.exit(1); });
"""


class MqttJsTest(WithGateway):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = install_mqtt_js()

    def converse(self, version):
        done = subprocess.run(
            ["node", "-e", MQTT_JS, str(self.gateway.port), str(version)], cwd=self.folder,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        seen = json.loads(done.stdout)
        self.assertEqual(seen["sessionPresent"], False)
        self.assertEqual(seen["granted"], [1, 0])
        self.assertEqual(seen["first"], ["js/one", "first", 1])
        self.assertEqual(seen["second"], "second")
        self.assertEqual(seen["reconnected"], "back")
        self.gateway.wait_for_event(user=f"js-a{version}", cause="taken_over", state="online")
        self.gateway.wait_for_event(user=f"js-b{version}", cause="connection_lost")
        self.gateway.wait_for_event(user=f"js-b{version}", cause="logout")
        return seen

    def test_mqtt_js_speaks_3_1_1(self):
        self.converse(4)

    def test_mqtt_js_speaks_5_0(self):
        seen = self.converse(5)
        self.assertEqual(seen["properties"], {"color": "blue"})
        self.assertEqual(seen["told"], 0x8E)


if __name__ == "__main__":
    unittest.main()
