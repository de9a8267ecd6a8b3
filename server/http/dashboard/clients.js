// The list of clients, and the search for a user, a client or an address.

import {get, get_unless, part, segment} from './api.js';
import {button, choice, field, form, link, make, section, table, user_link} from './dom.js';
import {moment, number, span} from './format.js';

const is_address = text => /^[0-9a-f:.]+(\/\d+)?$/i.test(text) && /[.:]/.test(text);

export const client_columns = {
    User: client => user_link(client.user),
    Client: client => client.client,
    State: client => make('span', {class: `state ${client.state}`}, client.state),
    Since: client => (client.connected_since ? moment(client.connected_since) : moment(client.last_packet)),
    Address: client => client.address ?? '',
    Listener: client => client.listener ?? '',
    'Silent for': client =>
        client.silence === undefined ? '' : `${span(client.silence)} of ${span(client.silence_limit)}`,
    Queued: client => client.queued ?? 0,
};

/// A list that grows page by page. `path` is the path in the API, and `name` the name of the list in its answer.
export function pages(path, parameters, name, draw, {signal, failed}) {
    const list = make('div'),
        more = button('More', () => add(), {hidden: true});
    const rows = [];
    let after = null;
    async function add() {
        more.disabled = true; // or a second click would fetch the same page
        try {
            const answer = await get(path, {...parameters, after, limit: 100}, signal);
            rows.push(...answer[name]);
            after = answer.next;
            more.hidden = !after;
            list.replaceChildren(rows.length ? draw(rows) : make('p', {class: 'hint'}, 'There are none.'));
        } catch (error) {
            if (!signal.aborted) failed(error);
        }
        more.disabled = false;
    }
    add();
    return make('div', {}, list, more);
}

export function show(root, {parameters, signal, failed, go}) {
    const filters = form(
        filled => go('clients', filled),
        'Show',
        field('User', 'user', {value: parameters.user}),
        field('Client id begins with', 'client', {value: parameters.client}),
        field('Address or network', 'address', {value: parameters.address, placeholder: '10.0.0.0/8'}),
        field('Listener', 'listener', {value: parameters.listener}),
        choice('State', 'state', [
            ['', 'any'],
            ['connected', 'connected'],
            ['away', 'away'],
        ]),
    );
    filters.elements.state.value = parameters.state ?? '';
    root.append(
        make('h1', {}, 'Clients'),
        filters,
        pages('clients', {limit: 100, ...parameters}, 'clients', rows => table('Clients', client_columns, rows), {
            signal,
            failed,
        }),
    );
}

/// The text may be a user, the beginning of a client id, or an address.
export async function search(root, {parameters: {q}, signal, go}) {
    root.append(make('h1', {}, `Search for ${q}`));
    const [user, clients, at_address] = await Promise.all([
        get_unless([404, 400], `users/${segment(q)}`, {}, signal),
        get_unless([400], 'clients', {client: q, limit: 50}, signal),
        is_address(q) ? get_unless([400], 'clients', {address: q, limit: 50}, signal) : undefined,
    ]);
    const found = [...(clients?.clients ?? [])];
    if (user && !found.length && !at_address) return go(`user/${part(q)}`);
    root.append(
        section(
            'User',
            user
                ? make(
                      'p',
                      {},
                      user_link(q),
                      ` is ${user.state}${user.devices?.length ? `, with ${number(user.devices.length)} devices` : ''}`,
                  )
                : make(
                      'p',
                      {},
                      `The gateway knows no user ${q}. `,
                      link(`#/user/${part(q)}`, 'Refused logins with this name'),
                  ),
        ),
    );
    root.append(
        section(
            'Clients with an id that begins with this text',
            found.length
                ? table('Clients found by their ids', client_columns, found)
                : make('p', {class: 'hint'}, 'There are none.'),
        ),
    );
    if (at_address)
        root.append(
            section(
                'Clients at this address',
                at_address.clients.length
                    ? table('Clients found by their address', client_columns, at_address.clients)
                    : make('p', {class: 'hint'}, 'There are none.'),
            ),
        );
}
