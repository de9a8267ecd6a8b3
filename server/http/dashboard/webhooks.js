// Events that the webhook did not take, the dead letters: deliver them again, or drop them.

import {get, post, remove} from './api.js';
import {button, confirmed, make, table} from './dom.js';
import {moment, number} from './format.js';

export async function show(root, {signal, reload, done}) {
    root.append(make('h1', {}, 'Webhooks'));
    const {dead, total} = await get('webhooks/dead', {}, signal);
    root.append(
        make('p', {}, total ? `The webhook refused ${number(total)} events.` : 'The webhook refused no events.'),
    );
    if (!dead.length) return;
    root.append(
        make(
            'div',
            {class: 'row'},
            button('Deliver all again', () =>
                done(
                    async () => `${(await post('webhooks/dead/replay')).to_replay} events will be delivered again`,
                    reload,
                ),
            ),
            button(
                'Drop all',
                () =>
                    done(
                        async () =>
                            (await confirmed(`Drop ${number(total)} events permanently?`, 'Drop')) &&
                            `${(await remove('webhooks/dead', {all: 'true'})).dropped} dropped`,
                        reload,
                    ),
                {class: 'danger'},
            ),
        ),
        table(
            'Refused events',
            {
                Failed: letter => moment(letter.failed),
                Why: letter => letter.why,
                Event: letter => make('code', {}, JSON.stringify(letter.event)),
                '': letter =>
                    make(
                        'div',
                        {class: 'row'},
                        letter.to_replay
                            ? 'is being delivered'
                            : button(
                                  'Deliver',
                                  () =>
                                      done(
                                          async () =>
                                              `${(await post('webhooks/dead/replay', {}, {id: letter.id})).to_replay} will be delivered again`,
                                          reload,
                                      ),
                                  {'aria-label': `Deliver event ${letter.id} again`},
                              ),
                        button(
                            'Drop',
                            () =>
                                done(
                                    async () => `${(await remove('webhooks/dead', {id: letter.id})).dropped} dropped`,
                                    reload,
                                ),
                            {'aria-label': `Drop event ${letter.id}`},
                        ),
                    ),
            },
            dead,
        ),
    );
}
