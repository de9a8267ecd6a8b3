// Changes of presence, and events of a user, a client or an address, as they happen.

import {listen, repeat} from './api.js';
import {choice, field, form, make, user_link} from './dom.js';
import {clock, span} from './format.js';

const MOST_LINES = 500;

/// A log that grows at its top. {element, add(time, ...content)}
function live_log(label) {
    const lines = make('ol', {class: 'log', role: 'log', 'aria-label': label, tabindex: 0});
    return {
        element: lines,
        add: (time, ...content) => {
            lines.prepend(make('li', {}, make('time', {}, clock(time)), ' ', ...content));
            while (lines.childElementCount > MOST_LINES) lines.lastChild.remove();
        },
    };
}

export async function show(root, {signal, failed}) {
    const log = live_log('Changes of presence');
    root.append(
        make('h1', {}, 'Presence'),
        make('p', {class: 'hint'}, 'Changes appear here as they happen.'),
        log.element,
    );
    let after; // the id of the last change, if the gateway keeps changes
    const heard = (name, change, id) => {
        after = name === 'gone' ? undefined : (id ?? after);
        if (name === 'gone') log.add(Date.now(), 'Some changes are missing here');
        if (name !== 'presence') return;
        const silence = change.silent_ms ? ` after ${span(change.silent_ms / 1000)} of silence` : '';
        log.add(
            change.time,
            user_link(change.user),
            ' is ',
            make('span', {class: `state ${change.state}`}, change.state),
            change.cause ? `: ${change.cause}${silence}` : '',
            change.client ? ` (${change.client})` : '',
        );
    };
    // A stream ends with its gateway, also in an upgrade.
    const opened = () => failed(null);
    await repeat(1, signal, () => listen('presence/changes', {}, signal, heard, {after, opened}), failed);
}

export async function trace(root, {parameters, signal, go}) {
    const [kind, name] = ['user', 'client', 'address']
        .map(each => [each, parameters[each]])
        .find(([, value]) => value) ?? ['user', ''];
    const chosen = form(
        filled => go('trace', {[filled.kind]: filled.name}),
        'Follow',
        choice('What', 'kind', [
            ['user', 'user'],
            ['client', 'client id'],
            ['address', 'address'],
        ]),
        field('Name', 'name', {required: true, value: name, autocomplete: 'off'}),
    );
    chosen.elements.kind.value = kind;
    root.append(make('h1', {}, 'Live trace'), chosen);
    if (!name) return;
    const log = live_log(`Events of ${name}`);
    root.append(
        make('p', {class: 'hint'}, `Events of the ${kind} ${name} appear here as they happen. Payloads are not shown.`),
        log.element,
    );
    await listen('trace', {[kind]: name}, signal, (kind_of_event, told) => {
        if (kind_of_event === 'trace') add_traced(log, told);
        if (kind_of_event === 'lost')
            log.add(Date.now(), `${told.lost} events are not shown, because they came too fast`);
        if (kind_of_event === 'end') log.add(Date.now(), 'The trace has ended');
    });
}

function add_traced(log, {time, event, ...told}) {
    const values = Object.entries(told).map(([name, value]) => `${name} ${value}`);
    log.add(time, make('strong', {}, event), ` ${values.join(', ')}`);
}
