// One user: online or offline and why, devices, inbox, rooms, the last events, and actions.

import {get_unless, part, post, put, remove, segment} from './api.js';
import {button, confirmed, facts, field, form, link, make, section, table} from './dom.js';
import {bytes, moment, number, payload, span} from './format.js';
import {client_columns} from './clients.js';

export async function show(root, {name, signal, reload, done}) {
    const path = `users/${segment(name)}`;
    const about = (rest, parameters) => get_unless([404], `${path}${rest}`, parameters, signal);
    const [user, clients, inbox, history, rooms, bans] = await Promise.all([
        about('', {}),
        get_unless([404], 'clients', {user: name}, signal),
        about('/inbox', {limit: 20}),
        about('/history', {limit: 100}),
        about('/rooms', {}),
        get_unless([], 'bans', {user: name}, signal),
    ]);
    const banned = bans.bans;
    root.append(
        make('h1', {}, name),
        state_of(user, history, banned),
        actions({name, path, banned, reload, done}),
        devices(name, clients?.clients ?? [], done, reload),
        inbox_of(name, path, inbox, done, reload),
        section('Rooms', rooms?.rooms.length ? make('p', {}, rooms.rooms.join(', ')) : none()),
        events(history),
    );
}

const none = () => make('p', {class: 'hint'}, 'There are none.');

/// The answer to "why is this user offline?" in one place.
function state_of(user, history, banned) {
    const last = history?.history.find(event => event.event !== 'messages_dropped');
    return make(
        'div',
        {class: 'panel'},
        make(
            'p',
            {class: `state ${user?.state ?? 'unknown'}`},
            user ? user.state : 'unknown: no login of this user has succeeded yet',
        ),
        facts({
            Since: moment(user?.since),
            'Last packet': moment(user?.last_seen),
            Cause: user?.cause,
            'Last event': last && `${last.event}: ${why(last)}`.replace(/: $/, ''),
            Banned: banned
                .map(
                    ban =>
                        `${ban.reason ? `${ban.reason}, ` : ''}${ban.ends ? `until ${moment(ban.ends)}` : 'permanent'}`,
                )
                .join('; '),
        }),
    );
}

function actions({name, path, banned, reload, done}) {
    const act = (label, run, danger) => button(label, () => done(run, reload), {class: danger ? 'danger' : null});
    return make(
        'div',
        {class: 'row'},
        act('Disconnect', async () => `${(await remove('clients', {user: name})).disconnected} clients disconnected`),
        banned.length
            ? act('Lift the ban', async () => `${(await remove('bans', {user: name})).lifted} bans lifted`)
            : act(
                  'Ban for an hour',
                  async () =>
                      (await confirmed(`Ban ${name} for an hour, and disconnect all clients?`, 'Ban')) &&
                      `banned; ${(await put('bans', {user: name, seconds: 3600})).disconnected} clients disconnected`,
              ),
        act(
            'Revoke logins',
            async () =>
                (await confirmed(
                    `End all logins of ${name} by tokens and passwords that were issued before now?`,
                    'Revoke',
                )) && `revoked; ${(await post(`${path}/revoke`, {})).disconnected} clients disconnected`,
        ),
        act(
            'Erase this user',
            async () =>
                (await confirmed(
                    `Erase ${name}: sessions, inbox, rooms, retained and delayed messages, presence and events? This cannot be undone.`,
                    'Erase',
                    name,
                )) && erased(await remove(path)),
            true,
        ),
        link('#/trace?user=' + part(name), 'Follow live'),
    );
}

const erased = ({sessions, inbox, rooms, delayed, retained}) =>
    `erased: ${sessions} sessions, ${inbox} messages of the inbox, ${rooms} rooms, ${delayed} delayed and ${retained} retained messages`;

function devices(name, clients, done, reload) {
    if (!clients.length) return section('Devices and sessions', none());
    const {User, ...columns} = client_columns;
    return section(
        'Devices and sessions',
        table(
            'Devices and sessions',
            {
                ...columns,
                'In flight': client => client.in_flight ?? 0,
                Subscriptions: client => client.subscriptions ?? 0,
                Keepalive: client => (client.keepalive === undefined ? '' : span(client.keepalive)),
                Session: client =>
                    client.session_expiry ? `kept ${span(client.session_expiry)}` : 'ends with the connection',
                '': client =>
                    button(
                        'End',
                        () =>
                            done(
                                async () =>
                                    (await confirmed(
                                        `Disconnect ${client.client} and end its session? Messages that wait in it are lost.`,
                                        'End the session',
                                    )) &&
                                    `${(await remove('clients', {user: name, client: client.client, sessions: 'end'})).ended} sessions ended`,
                                reload,
                            ),
                        {'aria-label': `End the session of ${client.client}`},
                    ),
            },
            clients,
        ),
    );
}

function inbox_of(name, path, inbox, done, reload) {
    const waiting = inbox?.messages ?? [];
    return section(
        'Inbox',
        facts({
            Messages: number(inbox?.count ?? 0),
            Size: bytes(inbox?.bytes ?? 0),
            Oldest: moment(inbox?.oldest),
            Expires: moment(inbox?.expires),
        }),
        waiting.length
            ? table(
                  'Messages in the inbox',
                  {
                      Time: message => moment(message.time),
                      Topic: message => message.topic,
                      From: message => message.from ?? '',
                      QoS: message => message.qos,
                      Payload: message => make('code', {}, payload(message)),
                  },
                  waiting,
              )
            : null,
        waiting.length
            ? button(
                  'Empty the inbox',
                  () =>
                      done(
                          async () =>
                              (await confirmed(`Delete ${inbox.count} messages that wait for ${name}?`, 'Delete')) &&
                              `${(await remove(`${path}/inbox`)).removed} messages deleted`,
                          reload,
                      ),
                  {class: 'danger'},
              )
            : null,
        form(
            (filled, sent) =>
                done(async () => {
                    await post('publish', {inbox: name, payload: filled.payload, qos: 1});
                    sent.reset();
                    return `sent to ${name}`;
                }, reload),
            'Send',
            field('Send a message to this user', 'payload', {required: true, autocomplete: 'off'}),
        ),
    );
}

function events(history) {
    if (!history) return section('Last events', make('p', {class: 'hint'}, 'No events are kept: history-bytes is 0.'));
    return section(
        'Last events',
        history.history.length
            ? table(
                  'Last events',
                  {
                      Time: event => moment(event.time),
                      Event: event => event.event,
                      Why: why,
                      Client: event => event.client ?? '',
                      Address: event => event.address ?? '',
                      Listener: event => event.listener ?? '',
                      Times: event => event.count ?? 1,
                  },
                  history.history,
              )
            : none(),
    );
}

/// The details of an event besides its name.
function why(event) {
    const silence = event.silence ? `${span(event.silence)} without a packet` : '';
    const code = event.code === undefined ? '' : ` (0x${event.code.toString(16).padStart(2, '0')})`;
    return [event.cause, event.why, event.reason && event.reason + code, silence].filter(Boolean).join(', ');
}
