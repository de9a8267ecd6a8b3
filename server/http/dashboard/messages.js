// Publishes messages, and lists delayed and retained messages.

import {post, remove} from './api.js';
import {button, choice, confirmed, field, form, make, section, table} from './dom.js';
import {moment, payload, span} from './format.js';
import {pages} from './clients.js';

export function show(root, {parameters, signal, failed, reload, done, go}) {
    root.append(
        make('h1', {}, 'Messages'),
        section(
            'Publish',
            form(
                (filled, sent) =>
                    done(
                        () => publish(filled, sent),
                        () => {},
                    ),
                'Publish',
                choice('To', 'kind', [
                    ['topic', 'a topic'],
                    ['inbox', 'a user'],
                    ['room', 'a room'],
                ]),
                field('Name', 'to', {required: true, autocomplete: 'off'}),
                field('Payload', 'payload', {rows: 2}, 'textarea'),
                choice('QoS', 'qos', [
                    ['1', '1'],
                    ['0', '0'],
                    ['2', '2'],
                ]),
                choice('Retain', 'retain', [
                    ['', 'no'],
                    ['yes', 'yes'],
                ]),
                field('Delay in seconds', 'in', {type: 'number', min: 1}),
            ),
        ),
        section(
            'Delayed',
            pages(
                'delayed',
                {},
                'delayed',
                rows =>
                    table(
                        'Delayed messages',
                        {
                            Due: message => moment(message.due),
                            Topic: message => message.topic,
                            User: message => message.user ?? '',
                            Name: message => message.name ?? '',
                            QoS: message => message.qos,
                            Payload: message => make('code', {}, payload(message)),
                            '': message =>
                                button(
                                    'Cancel',
                                    () =>
                                        done(
                                            async () =>
                                                `${(await remove(`delayed/${message.id}`)).cancelled} cancelled`,
                                            reload,
                                        ),
                                    {'aria-label': `Cancel message ${message.id}`},
                                ),
                        },
                        rows,
                    ),
                {signal, failed},
            ),
        ),
        section(
            'Retained',
            form(
                filled => go('messages', filled),
                'Show',
                field('Topic filter', 'filter', {value: parameters.filter ?? '', placeholder: '#'}),
            ),
            pages(
                'retained',
                {filter: parameters.filter},
                'retained',
                rows =>
                    table(
                        'Retained messages',
                        {
                            Topic: message => message.topic,
                            QoS: message => message.qos,
                            Bytes: message => message.bytes,
                            Expires: message => (message.expiry === undefined ? '' : `in ${span(message.expiry)}`),
                            Payload: message => make('code', {}, payload(message)),
                            '': message =>
                                button(
                                    'Delete',
                                    () =>
                                        done(
                                            async () =>
                                                (await confirmed(
                                                    `Delete the retained message of ${message.topic}?`,
                                                    'Delete',
                                                )) &&
                                                `${(await remove('retained', {filter: message.topic})).deleted} deleted`,
                                            reload,
                                        ),
                                    {'aria-label': `Delete the retained message of ${message.topic}`},
                                ),
                        },
                        rows,
                    ),
                {signal, failed},
            ),
        ),
    );
}

async function publish({kind, to, payload: text = '', qos, retain, in: delay}, sent) {
    const message = {[kind]: to, payload: text, qos: Number(qos)};
    if (retain) message.retain = true;
    if (delay) {
        const {
            delayed: [{due}],
        } = await post('delayed', {...message, in: Number(delay)});
        sent.elements.payload.value = '';
        return `published at ${moment(due)}`;
    }
    const {
        published: [result],
    } = await post('publish', message);
    if (result.error) throw new Error(result.error);
    sent.elements.payload.value = '';
    return `published: ${result.sent} sent, ${result.queued} queued, ${result.dropped ?? 0} dropped`;
}
