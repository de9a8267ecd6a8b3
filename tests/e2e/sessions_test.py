"""Sessions with Paho and MQTT.js, when each packet of an exchange is once the one that is lost."""

import json
import subprocess
import unittest

import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from clients import PahoClient, install_mqtt_js
from gateway import PATIENCE, wait_until
from lossy import FROM_TALKER, MESSAGES, TO_LISTENER, WithGateway
from packets import NAMES

VERSIONS = {"3.1.1": paho.MQTTv311, "5.0": paho.MQTTv5}


class PahoTest(WithGateway):
    def each_loss(self, exchanges):
        for name, version in VERSIONS.items():
            for qos, packets in exchanges.items():
                for direction, kind in packets:
                    label = f"{name} {NAMES[kind]} {qos}"
                    with self.subTest(version=name, qos=qos, lost=NAMES[kind]):
                        yield label, version, qos, self.proxy(direction, kind)

    def talk(self, talker, topic, qos):
        for message in MESSAGES:
            talker.mqtt.publish(topic, message, qos)
        for _ in MESSAGES:
            talker.published.get(timeout=60)
        talker.mqtt.publish(topic, "end", qos)

    def hear(self, listener):
        return list(iter(lambda: listener.next().payload.decode(), "end"))

    def subscribe(self, client, version, topic, qos):
        if version == paho.MQTTv5:
            client.subscribe(topic, options=SubscribeOptions(qos))
        else:
            client.subscribe(topic, qos)

    def came_back(self, client, proxy):
        wait_until(lambda: proxy.has_cut, what="the cut")
        code, flags = client.connected.get(timeout=60)
        self.assertEqual((code, flags["session present"]), (0, 1))

    def test_whatever_a_talker_loses_its_messages_arrive(self):
        for label, version, qos, proxy in self.each_loss(FROM_TALKER):
            listener = self.client(f"listener {label}", version)
            self.subscribe(listener, version, label, 2)
            talker = self.client(f"talker {label}", version, gateway=proxy, keep=60)
            self.talk(talker, label, qos)
            self.judge(qos, self.hear(listener))
            self.came_back(talker, proxy)

    def test_whatever_a_listener_loses_it_gets_its_messages(self):
        for label, version, qos, proxy in self.each_loss(TO_LISTENER):
            listener = self.client(f"listener {label}", version, gateway=proxy, keep=60)
            self.subscribe(listener, version, label, 2)
            self.talk(self.client(f"talker {label}", version), label, qos)
            self.judge(qos, self.hear(listener))
            self.came_back(listener, proxy)

    def test_a_session_can_be_gone_on_with_in_the_other_version(self):
        for first, second in (("3.1.1", "5.0"), ("5.0", "3.1.1")):
            with self.subTest(first=first, second=second):
                client = PahoClient(self.gateway, f"from {first}", VERSIONS[first], keep=60)
                self.subscribe(client, VERSIONS[first], "both", 2)
                client.leave()
                talker = self.client("talker", VERSIONS[first])
                for qos in (1, 2):
                    talker.mqtt.publish("both", f"at {qos}", qos)
                    talker.published.get(timeout=60)
                client = self.client(f"from {first}", VERSIONS[second], keep=60)
                self.assertEqual(client.flags["session present"], 1)
                self.assertEqual([(m.payload, m.qos) for m in (client.next(), client.next())],
                                 [(b"at 1", 1), (b"at 2", 2)])

    def test_a_will_that_waits_is_not_sent_when_its_client_comes_back(self):
        watcher = self.client("watcher", paho.MQTTv5)
        watcher.subscribe("wills/#", options=SubscribeOptions(1))
        for name, delay in (("back", 30), ("gone", 1)):
            properties = Properties(PacketTypes.WILLMESSAGE)
            properties.WillDelayInterval = delay
            PahoClient(self.gateway, name, paho.MQTTv5, keep=60,
                       will=(f"wills/{name}", b"gone", 1, False, properties)).vanish()
        self.assertEqual(self.client("back", paho.MQTTv5, keep=60).flags["session present"], 1)
        self.assertEqual(watcher.next().topic, "wills/gone")
        self.assertTrue(watcher.messages.empty())


LOSSES_JS = """
const mqtt = require('mqtt');
const { gateway, messages, scenes } = JSON.parse(process.argv[1]);
const once = (target, name, where) => new Promise((done, fail) => {
    const timer = setTimeout(() => fail(new Error('no ' + name + ' ' + where)), 110000);
    target.once(name, (...what) => { clearTimeout(timer); done(what); });
});

async function open(port, scene, role, keep) {
    const client = mqtt.connect('mqtt://127.0.0.1:' + port, {
        clientId: role + ' ' + scene.label, protocolVersion: scene.version, clean: !keep, reconnectPeriod: 30,
        properties: scene.version === 5 ? { sessionExpiryInterval: keep ? 60 : 0 } : undefined });
    client.presents = [];
    client.on('connect', connack => client.presents.push(connack.sessionPresent));
    await once(client, 'connect', role + ' ' + scene.label);
    return client;
}

async function play(scene) {
    const lossy = role => scene.role === role;
    const listener = await open(lossy('listener') ? scene.port : gateway, scene, 'listener', lossy('listener'));
    const talker = await open(lossy('talker') ? scene.port : gateway, scene, 'talker', lossy('talker'));
    await listener.subscribeAsync(scene.label, { qos: 2 });
    const heard = [];
    const end = new Promise((done, fail) => {
        const timer = setTimeout(() => fail(new Error('no end: ' + scene.label + ' ' + heard)), 110000);
        listener.on('message', (topic, payload) => {
            if (payload.toString() !== 'end') return heard.push(payload.toString());
            clearTimeout(timer);
            done();
        });
    });
    // MQTT.js takes 0x92 for a failure: that what it releases again, having lost the PUBCOMP, is no
    // longer known.
    const isReleased = error => { if (error.code !== 0x92) throw error; };
    await Promise.all(messages.map(
        message => talker.publishAsync(scene.label, message, { qos: scene.qos }).catch(isReleased)));
    await talker.publishAsync(scene.label, 'end', { qos: scene.qos });
    await end;
    const { presents } = lossy('listener') ? listener : talker;
    while (presents.length < 2)  // the test's time limit ends it, too
        await new Promise(done => setTimeout(done, 10));
    await Promise.all([listener.endAsync(true), talker.endAsync(true)]);
    return { ...scene, heard, presents };
}

Promise.all(scenes.map(play)).then(
    played => { console.log(JSON.stringify(played)); process.exit(0); },
    error => { console.error(error); process.exit(1); });
"""
PROPERTIES_JS = """
const mqtt = require('mqtt');
const once = (target, name) => new Promise((done, fail) => {
    const timer = setTimeout(() => fail(new Error('no ' + name)), 110000);
    target.once(name, (...what) => { clearTimeout(timer); done(what); });
});
const open = (clientId, options) => mqtt.connect('mqtt://127.0.0.1:' + process.argv[1],
    { clientId, protocolVersion: 5, clean: false, reconnectPeriod: 0, ...options });
const gather = (client, count) => new Promise((done, fail) => {
    const got = [];
    const timer = setTimeout(() => fail(new Error('only ' + JSON.stringify(got))), 110000);
    client.on('message', (topic, payload, packet) => {
        const p = packet.properties || {};
        got.push({ topic, payload: payload.toString(), qos: packet.qos, retain: packet.retain,
                   alias: p.topicAlias, identifier: p.subscriptionIdentifier, user: { ...p.userProperties },
                   type: p.contentType, expiry: p.messageExpiryInterval, answer: p.responseTopic,
                   correlation: p.correlationData && p.correlationData.toString() });
        if (got.length === count) { clearTimeout(timer); done(got); }
    });
});

(async () => {
    const seen = {};
    const listener = open('js-listener', {
        properties: { sessionExpiryInterval: 60, topicAliasMaximum: 2, receiveMaximum: 3,
                      requestResponseInformation: true } });
    const [connack] = await once(listener, 'connect');
    seen.told = { ...connack.properties };
    await listener.subscribeAsync('js/+', { qos: 2, properties: { subscriptionIdentifier: 5 } });
    await listener.subscribeAsync('js/#', { qos: 1, properties: { subscriptionIdentifier: 6 } });
    const talker = open('js-talker', { autoAssignTopicAlias: true, properties: { topicAliasMaximum: 0 } });
    await once(talker, 'connect');
    const got = gather(listener, 12);
    for (let i = 0; i < 12; ++i)  // not with QoS 2: of such a message MQTT.js forgets what its alias means
        await talker.publishAsync('js/' + i % 4, String(i), { qos: i % 2, properties: {
            messageExpiryInterval: 100, contentType: 'text/plain', responseTopic: 'js/answer',
            correlationData: Buffer.from('abc'), userProperties: { color: 'blue' } } });
    seen.got = await got;
    listener.end();
    await once(listener, 'close');
    await talker.publishAsync('js/0', 'while away', { qos: 2 });
    const again = open('js-listener', { properties: { sessionExpiryInterval: 60 } });
    const waited = gather(again, 1);
    seen.present = (await once(again, 'connect'))[0].sessionPresent;
    seen.waited = (await waited)[0].payload;
    console.log(JSON.stringify(seen));
    process.exit(0);
})().catch(error => { console.error(error); process.exit(1); });
"""


class MqttJsTest(WithGateway):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = install_mqtt_js()

    def run_node(self, script, argument):
        done = subprocess.run(["node", "-e", script, argument], cwd=self.folder, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_whatever_is_lost_messages_arrive(self):
        scenes, proxies = [], []
        for role, exchanges in (("talker", FROM_TALKER), ("listener", TO_LISTENER)):
            for version in (4, 5):
                for qos, packets in exchanges.items():
                    for direction, kind in packets:
                        proxies.append(self.proxy(direction, kind))
                        scenes.append({"role": role, "version": version, "qos": qos, "port": proxies[-1].port,
                                       "label": f"{role} {version} {NAMES[kind]} {qos}"})
        played = self.run_node(LOSSES_JS, json.dumps(
            {"gateway": self.gateway.port, "messages": MESSAGES, "scenes": scenes}))
        self.assertEqual(len(played), len(scenes))
        for scene, proxy in zip(played, proxies):
            with self.subTest(scene["label"]):
                self.assertTrue(proxy.has_cut)
                self.assertEqual(scene["presents"], [False, True])
                self.judge(scene["qos"], scene["heard"])

    def test_properties_of_5_0(self):
        seen = self.run_node(PROPERTIES_JS, str(self.gateway.port))
        self.assertEqual(seen["told"]["responseInformation"], "inbox/js-listener")
        self.assertEqual((seen["told"]["topicAliasMaximum"], seen["told"]["receiveMaximum"]), (16, 256))
        for number, got in enumerate(seen["got"]):
            alias = {0: 1, 1: 2}.get(number % 4)  # for two topics there is an alias
            expected = {"topic": f"js/{number % 4}", "payload": str(number), "qos": number % 2, "retain": False,
                        "user": {"color": "blue"}, "type": "text/plain",
                        "answer": "js/answer", "correlation": "abc"}
            self.assertEqual({key: got[key] for key in expected}, expected)
            self.assertEqual(sorted(got["identifier"]), [5, 6])
            self.assertEqual(got.get("alias"), alias)
            self.assertIn(got["expiry"], range(100 - PATIENCE, 101))
        self.assertEqual((seen["present"], seen["waited"]), (True, "while away"))


if __name__ == "__main__":
    unittest.main()
