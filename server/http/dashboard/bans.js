// Bans of users, of one client of a user, and of addresses.

import {put, remove} from './api.js';
import {pages} from './clients.js';
import {button, confirmed, field, form, make, section, table, user_link} from './dom.js';
import {moment} from './format.js';

const name_of = ({user, client, address}) => address ?? (client ? `client ${client} of ${user}` : user);

export function show(root, {signal, failed, reload, done}) {
    root.append(
        make('h1', {}, 'Bans'),
        section(
            'Add a ban',
            make('p', {class: 'hint'}, 'Name a user, a user and one of its client ids, or an address.'),
            form(
                terms =>
                    done(
                        async () =>
                            (await confirmed(`Ban ${name_of(terms)}, and disconnect its clients?`, 'Ban')) &&
                            `banned; ${(await put('bans', terms)).disconnected} clients disconnected`,
                        reload,
                    ),
                'Ban',
                field('User', 'user', {autocomplete: 'off'}),
                field('Client id', 'client', {autocomplete: 'off'}),
                field('Address', 'address', {autocomplete: 'off'}),
                field('Seconds', 'seconds', {type: 'number', min: 1, placeholder: 'permanent'}),
                field('Reason', 'reason', {autocomplete: 'off'}),
            ),
        ),
        section(
            'In force',
            pages(
                'bans',
                {},
                'bans',
                bans =>
                    table(
                        'Bans',
                        {
                            User: ban => (ban.user === undefined ? '' : user_link(ban.user)),
                            Client: ban => ban.client ?? '',
                            Address: ban => ban.address ?? '',
                            By: ban => ban.by,
                            Reason: ban => ban.reason ?? '',
                            Ends: ban => moment(ban.ends) ?? 'never',
                            '': ({user, client, address}) =>
                                button(
                                    'Lift',
                                    () =>
                                        done(
                                            async () =>
                                                `${(await remove('bans', {user, client, address})).lifted} lifted`,
                                            reload,
                                        ),
                                    {'aria-label': `Lift the ban of ${name_of({user, client, address})}`},
                                ),
                        },
                        bans,
                    ),
                {signal, failed},
            ),
        ),
    );
}
