// node chat.js URL VERSION USER PASSWORD CA: hears itself at each QoS, has the gateway cut it, and comes back to its
// session. Prints what it saw.

const fs = require('fs'),
    mqtt = require('mqtt'),
    {once} = require('events');
const [url, version, username, password, ca] = process.argv.slice(2);
const protocolVersion = Number(version);
const too_large = 'x'.repeat(300 * 1024);

function open(clientId) {
    return mqtt.connect(url, {
        username,
        password,
        clientId,
        protocolVersion,
        ca: fs.readFileSync(ca),
        clean: false,
        reconnectPeriod: 20,
        properties: protocolVersion === 5 ? {sessionExpiryInterval: 60} : undefined,
    });
}

async function heard(client) {
    const [topic, payload, packet] = await once(client, 'message');
    return [topic, payload.length, packet.qos];
}

async function main() {
    const seen = {heard: []};
    const alice = open('alice-' + process.pid),
        bob = open('bob-' + process.pid);
    const [[first]] = await Promise.all([once(alice, 'connect'), once(bob, 'connect')]);
    seen.session_at_first = first.sessionPresent;
    seen.granted = (await alice.subscribeAsync('room/+', {qos: 2})).map(grant => grant.qos);
    for (const qos of [0, 1, 2]) {
        const hears = heard(alice);
        await bob.publishAsync('room/' + qos, 'x'.repeat(100_000), {qos});
        seen.heard.push(await hears);
    }

    const told = protocolVersion === 5 ? once(alice, 'disconnect') : [{}];
    const closed = once(alice, 'close'),
        back = once(alice, 'connect');
    alice.publish('room/0', too_large);
    seen.told = (await told)[0].reasonCode;
    await closed;
    seen.session_when_back = (await back)[0].sessionPresent;
    const hears = heard(alice);
    await bob.publishAsync('room/back', 'welcome', {qos: 2});
    seen.heard.push(await hears);

    await Promise.all([alice.endAsync(), bob.endAsync()]);
    console.log(JSON.stringify(seen));
}

main().catch(error => {
    console.error(error);
    process.exit(1);
});
