// The plots of the report, and the formats of the numbers on their axes. report.js draws them.
'use strict';

/* exported number, plots, time */

const plain = new Intl.NumberFormat('en', {maximumSignificantDigits: 4});

function number(value) {
    return plain.format(value);
}

function time(value) {
    if (value === 0) return '0';
    const units = [
        [1, 's'],
        [1e-3, 'ms'],
        [1e-6, 'µs'],
        [1e-9, 'ns'],
    ];
    const [size, unit] = units.find(([size]) => Math.abs(value) >= size * 0.9999) ?? units.at(-1);
    return plain.format(value / size) + ' ' + unit;
}

function megabytes(value) {
    return plain.format(value / 1e6);
}
function percent(value) {
    return plain.format(value * 100);
}

// `of` names lists or histograms of a run. A comparison of runs shows only the
// first of them.

const plots = [
    {
        title: 'Connections',
        y: 'clients',
        of: {
            clients_open: 'open',
            clients_silent: 'silent',
            clients_away: 'away',
            clients_waiting: 'waiting to try again',
            server_connections: 'as the server counts',
        },
        note: 'How many clients the server held at a time: what you buy must hold your busiest moment, not your average.',
    },
    {
        title: 'Packets',
        y: 'packets a second',
        of: {packets_received: 'received', packets_sent: 'sent'},
        note: 'All MQTT packets, pings included: where the lines part, the server takes more than it answers or delivers.',
    },
    {
        title: 'Messages',
        y: 'messages a second',
        of: {messages_received: 'received', messages_sent: 'sent'},
        note: 'What your users would send and get: a gap in the received ones that does not fill up again is loss.',
    },
    {
        title: 'Message latency',
        y: 'time, logarithmic',
        log: true,
        format: time,
        of: {message_p99: 'p99', message_p50: 'p50', message_max: 'max'},
        note: 'From the planned moment to the arrival: one message in a hundred took longer than p99; if it climbs while the load stays level, the server is full.',
    },
    {
        title: 'Ping answers',
        y: 'time, logarithmic',
        log: true,
        format: time,
        of: {ping_p99: 'p99', ping_p50: 'p50', ping_max: 'max'},
        note: 'How soon the server answers when it has nothing else to do for a client: a measure of its load without that of the receivers.',
    },
    {
        title: 'Acknowledgements',
        y: 'time, logarithmic',
        log: true,
        format: time,
        of: {acknowledgement_p99: 'p99', acknowledgement_p50: 'p50', acknowledgement_max: 'max'},
        note: 'How long a sender waits until the server has taken charge of a message of QoS 1 or 2: with storage, the speed of the disk.',
    },
    {
        title: 'How long things took',
        kind: 'histogram',
        x: 'time, logarithmic',
        y: '% of all',
        format: time,
        of: {message: 'messages', acknowledgement: 'acknowledgements', ping: 'ping answers', login: 'logins'},
        note: 'A single narrow hill is a server at ease; a second hill far to the right is what some of your users will complain about.',
    },
    {
        title: 'Expiry of silent clients',
        kind: 'expiry',
        x: 'seconds of silence',
        y: 'clients closed',
        of: {expiry: 'closed', detection: 'shown offline'},
        note: 'When the server gave up clients that fell silent: all should lie between the limit and one second later, as early ones were wronged and late ones are ghosts.',
    },
    {
        title: 'Logins',
        y: 'a second',
        of: {connected: 'succeeded', refused_busy: 'refused as busy', connect_failed: 'failed'},
        note: 'How fast the server takes clients in: after an outage all of yours come at once, and the rate here says how long they wait.',
    },
    {
        title: 'Login time',
        y: 'time, logarithmic',
        log: true,
        format: time,
        of: {login_p99: 'p99', login_p50: 'p50', login_max: 'max'},
        note: 'From the connect to the confirmed subscription: what a user waits when the app is opened.',
    },
    {
        title: 'Coming back after the storm',
        kind: 'histogram',
        x: 'time, logarithmic',
        y: '% of all',
        format: time,
        of: {back_again: 'clients'},
        note: 'How long clients were away that all lost their connection at once: the right end is your outage after the outage.',
    },
    {
        title: 'Server CPU',
        y: 'cores',
        of: {server_cpu: 'server'},
        note: 'Cores in use: plan to stay below half of what you buy, for storms take the other half.',
    },
    {
        title: 'Server memory',
        y: 'MB',
        scale: megabytes,
        of: {server_memory: 'resident'},
        note: 'Divided by the clients above it is the price of one more; a line that goes on climbing at a level load is a leak.',
    },
    {
        title: 'Server loop lag',
        y: 'time',
        format: time,
        of: {server_loop_lag: 'worst event loop'},
        note: "How late the server's own clocks ran: above some milliseconds it has more to do than it can.",
    },
    {
        title: 'Nothing heard from the server',
        y: 'time',
        format: time,
        of: {server_silence: 'longest silence'},
        note: 'The longest time in which no client heard anything: a peak of a second or more is a server that stood still.',
    },
    {
        title: 'Generator CPU',
        y: 'cores',
        of: {worker_cpu: 'all processes', worker_cpu_max: 'the busiest process'},
        note: "What the measuring itself cost: with a process near one core the figures on this page would be the generator's, not the server's.",
    },
    {
        title: 'Generator lag',
        y: 'time, logarithmic',
        log: true,
        format: time,
        of: {send_lag_p99: 'messages sent late, p99', loop_lag_max: 'event loop, worst'},
        note: 'How late the generator was itself: it is part of every latency above, and must be small beside it.',
    },
    {
        title: 'Machine',
        y: '% of all cores',
        scale: percent,
        of: {machine_busy: 'in use', machine_steal: 'taken by other machines'},
        note: "The generator's machine: at 100 %, or with much taken by others, the run says little about the server.",
    },
];
