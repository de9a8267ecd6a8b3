// The dashboard: chooses the page to show, asks for the token, and shows whether the gateway answers.

import {Refused, get, has_token, repeat, use_token} from './api.js';
import {find, make, set_text, tell} from './dom.js';
import {span} from './format.js';
import * as bans from './bans.js';
import * as clients from './clients.js';
import * as messages from './messages.js';
import * as overview from './overview.js';
import * as presence from './presence.js';
import * as user from './user.js';
import * as webhooks from './webhooks.js';

const pages = {
    '': overview.show,
    clients: clients.show,
    find: clients.search,
    user: user.show,
    messages: messages.show,
    bans: bans.show,
    webhooks: webhooks.show,
    presence: presence.show,
    trace: presence.trace,
};

let shown = new AbortController();
let is_asking = false;

// -- the pages

function go(page, parameters = {}) {
    const query = new URLSearchParams(parameters).toString();
    const hash = `#/${page}${query ? `?${query}` : ''}`;
    if (location.hash === hash) show_page();
    else location.hash = hash;
}

/// A link that was cut or written by hand may not be valid UTF-8. Then it is returned as it is.
function decoded(text) {
    try {
        return decodeURIComponent(text);
    } catch {
        return text;
    }
}

async function show_page(keeps_place = false) {
    shown.abort();
    shown = new AbortController();
    failure(null);
    const {signal} = shown;
    const [path, query] = location.hash.replace(/^#\/?/, '').split(/\?(.*)/s);
    const [page, name] = path.split('/').map(decoded);
    const parameters = Object.fromEntries(new URLSearchParams(query));
    for (const entry of document.querySelectorAll('nav a')) {
        if (entry.hash === `#/${page}`) entry.setAttribute('aria-current', 'page');
        else entry.removeAttribute('aria-current');
    }
    const root = make('div');
    const context = {name, parameters, signal, go, failed: failure, reload: () => show_page(true), done};
    try {
        const built = (pages[page] ?? no_page)(root, context);
        if (!keeps_place) put(root);
        await built;
        if (keeps_place && !signal.aborted) put(root, scrollY);
    } catch (error) {
        if (signal.aborted) return;
        put(root);
        failure(error);
    }
}

function put(root, place = 0) {
    if (root.isConnected) return;
    find('page').replaceChildren(root);
    scrollTo(0, place);
    if (document.activeElement === document.body) find('page').focus({preventScroll: true});
}

function no_page(root) {
    root.append(make('h1', {}, 'There is no such page'));
}

/// Calls `run`, shows the text that it returns, and draws the page again. `run` returns nothing if it did nothing.
async function done(run, reload) {
    try {
        const told = await run();
        if (!told) return;
        tell(told);
        reload();
    } catch (error) {
        failure(error) || tell(error.message, true);
    }
}

// -- what fails

/// Shows a failure at the top of the page, or asks for the token. Null: success. Returns false if the caller must show
/// the error itself.
function failure(error) {
    if (error instanceof Refused && error.status === 401) return ask_for_token();
    const is_away = error instanceof TypeError || (error instanceof Refused && error.status === 503);
    set_text(
        find('trouble'),
        !error ? '' : error instanceof TypeError ? 'The gateway does not answer. Trying again…' : error.message,
    );
    find('trouble').hidden = !error;
    return is_away;
}

function ask_for_token() {
    if (is_asking) return true;
    is_asking = true;
    set_text(find('token-refusal'), has_token() ? 'The gateway does not accept this token.' : '');
    find('token-dialog').showModal();
    return true;
}

find('token-dialog').addEventListener('cancel', event => event.preventDefault());
find('token-form').addEventListener('submit', () => {
    use_token(find('token').value.trim());
    find('token').value = '';
    is_asking = false;
    show_page();
});
find('forget').addEventListener('click', () => {
    use_token('');
    location.reload();
});

// -- the header

let is_away = false; // the header has said so

repeat(
    2,
    new AbortController().signal,
    async () => {
        if (is_asking) return;
        const status = await get('status');
        const pill = find('ready');
        const state = status.drain !== 'none' ? 'draining' : status.ready ? 'ready' : 'not ready';
        set_text(pill, state === 'not ready' ? `not ready: ${status.why}` : state);
        pill.dataset.state = state;
        set_text(find('about'), `${status.version}, up ${span(status.uptime)}`);
        find('forget').hidden = !has_token();
    },
    error => {
        if (error) find('ready').dataset.state = 'not ready';
        if (error instanceof TypeError) set_text(find('ready'), 'no answer');
        if (error || is_away) failure(error);
        is_away = error !== null;
    },
);

find('find-form').addEventListener('submit', event => {
    event.preventDefault();
    const q = find('find').value.trim();
    if (q) go('find', {q});
});
addEventListener('keydown', event => {
    if (event.key !== '/' || /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) return;
    event.preventDefault();
    find('find').focus();
});
addEventListener('hashchange', () => show_page());
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => show_page(true));
show_page();
