// The state of the gateway: numbers, the wheels, and the last hour.

import {get, get_unless, repeat} from './api.js';
import {chart, has_charts} from './charts.js';
import {cluster_section} from './cluster.js';
import {make, section, set_text} from './dom.js';
import {bytes, number} from './format.js';
import {wheel} from './wheel.js';

const MOST_SAMPLES = 720; // an hour

export function show(root, {signal, failed}) {
    const tiles = make('div', {class: 'tiles'});
    const wheels = make('div', {class: 'wheels'});
    const charts = has_charts() ? all_charts() : [];
    const cluster = make('div');
    root.append(
        make('h1', {}, 'Overview'),
        tiles,
        section(
            'Timing wheels',
            make(
                'p',
                {class: 'hint'},
                'A packet moves its connection to another slot. When the hand reaches a slot, the connections in it have been silent for 30 seconds.',
            ),
            wheels,
        ),
        section(
            'The last hour',
            make(
                'div',
                {class: 'charts'},
                charts.map(each => each.element),
            ),
            has_charts() ? null : make('p', {class: 'hint'}, 'This gateway was built without charts.'),
        ),
        cluster,
    );
    signal.addEventListener('abort', () => charts.forEach(each => each.end()));
    const shown_tiles = new Map(),
        shown_wheels = [],
        samples = [];
    repeat(
        1,
        signal,
        async () => {
            const [status, {shards}] = await Promise.all([get('status', {}, signal), get('wheel', {}, signal)]);
            show_tiles(tiles, shown_tiles, status, samples.at(-1));
            show_wheels(wheels, shown_wheels, shards);
        },
        failed,
    );
    repeat(
        5,
        signal,
        async () => {
            await read_samples(samples, signal);
            charts.forEach(each => each.show(samples));
        },
        failed,
    );
    watch_cluster(cluster, signal, failed);
}

/// A node without a cluster never gets one, so it is not asked again.
async function watch_cluster(root, signal, failed) {
    let is_alone = false;
    await repeat(
        5,
        signal,
        async () => {
            if (is_alone) return;
            const cluster = await get_unless([404], 'cluster', {}, signal);
            is_alone = !cluster;
            if (cluster) root.replaceChildren(cluster_section(cluster));
        },
        failed,
    );
}

async function read_samples(samples, signal) {
    const answer = await get('samples', {since: samples.at(-1)?.time}, signal);
    for (const {time, values} of answer.samples)
        samples.push({time, ...Object.fromEntries(answer.fields.map((field, at) => [field, values[at]]))});
    samples.splice(0, samples.length - MOST_SAMPLES);
}

function all_charts() {
    return [
        chart('Clients', {connected: sample => sample.clients}),
        chart('Messages per second', {
            received: sample => sample.messages_in_rate,
            sent: sample => sample.messages_out_rate,
            dropped: sample => sample.dropped_rate,
        }),
        chart('Maximum, in ms', {'delivery, 99 %': sample => sample.delivery_ms, 'loop lag': sample => sample.lag_ms}),
        chart('Logins per second', {
            accepted: sample => sample.logins_rate,
            'timed out': sample => sample.timeouts_rate,
            refused: sample => sample.logins_refused_rate,
        }),
        chart('Memory', {resident: sample => sample.memory_bytes}, bytes),
        chart('Messages that wait', {queued: sample => sample.queued}),
    ];
}

/// A tile: a number, its name, and a figure to compare it with.
function tiles_of(status, sample) {
    const {clients, users, messages, memory, disk, shards} = status;
    const rate = value => (sample ? number(sample[value], 1) : '…');
    return {
        'Clients connected': [
            number(clients.connected),
            `of ${number(clients.capacity)}; ${number(clients.away)} away`,
        ],
        'Users online': [number(users.online), `of ${number(users.known)} known`],
        'Messages in': [`${rate('messages_in_rate')}/s`, `${number(messages.received)} since the start`],
        'Messages out': [`${rate('messages_out_rate')}/s`, `${number(messages.sent)} since the start`],
        Dropped: [`${rate('dropped_rate')}/s`, `${number(messages.dropped)} since the start`],
        Logins: [`${rate('logins_rate')}/s`, `${number(clients.logins_waiting)} wait`],
        Timeouts: [`${rate('timeouts_rate')}/s`, `${number(status.logins.timed_out)} since the start`],
        Queued: [number(messages.queued), `${number(messages.delayed)} delayed, ${number(messages.retained)} retained`],
        'Loop lag': [`${Math.max(...shards.map(shard => shard.lag_ms))} ms`, 'the latest tick of all shards'],
        'Output waiting': [bytes(shards.reduce((sum, shard) => sum + shard.output_bytes, 0)), 'not sent yet'],
        Memory: [bytes(memory.bytes), `budget ${bytes(memory.budget)}`],
        Disk: disk.most ? [bytes(disk.bytes), `at most ${bytes(disk.most)}`] : [bytes(disk.bytes), 'stored'],
    };
}

function show_tiles(root, shown, status, sample) {
    for (const [label, [value, more]] of Object.entries(tiles_of(status, sample))) {
        if (!shown.has(label)) {
            const parts = {value: make('strong'), more: make('small')};
            shown.set(label, parts);
            root.append(make('div', {class: 'tile'}, make('span', {}, label), parts.value, parts.more));
        }
        set_text(shown.get(label).value, value);
        set_text(shown.get(label).more, more);
    }
}

function show_wheels(root, shown, shards) {
    while (shown.length < shards.length) {
        shown.push(wheel());
        root.append(shown.at(-1).element);
    }
    shards.forEach((shard, at) => shown[at].show(shard));
}
