// The demo's page: users, a room, and messages between users. All of it is MQTT: presence/+ tells which users are
// online, inbox/{user} reaches a user without a subscription, and room/lobby is for all. The gateway names the sender
// of a message in the user property `from`. Names and messages come from other users, so they are shown as text, never
// as HTML.

import {Mqtt} from './mqtt.js';

const LOBBY = 'room/lobby';
const UNKNOWN = 'inbox/'; // stands for senders that the gateway does not name
/// Advice for logins that are refused permanently: another attempt would be refused as well.
const ADVICE = new Map([
    [0x84, 'The gateway speaks another version of MQTT than this page. Ask its operator.'],
    [0x85, 'The gateway does not accept this name. Choose another one.'],
    [0x86, 'Enter the password or the token that belongs to this name.'],
    [0x87, 'This name is not allowed. Check the password, or ask the gateway\u2019s operator.'],
    [0x8a, 'This name is banned. Choose another one, or ask the gateway\u2019s operator.'],
]);
/// Advice for messages that are refused.
const MESSAGE_ADVICE = new Map([
    [0x87, 'you may not write here'],
    [0x90, 'you cannot write to this name'],
    [0x95, 'the message is too long: make it shorter'],
    [0x97, 'the gateway has no room for the message now: try again later'],
    [0x99, 'the message is not UTF-8 text'],
]);
const BAD_LOGIN = new Set([0x86, 0x87]);
const NO_MATCHING_SUBSCRIBERS = 0x10;
const REFUSAL = 0x80; // reason codes from here on
const LONGEST_PAUSE = 30; // seconds
const MOST_MESSAGES = 500; // a conversation shows no more

const find = id => document.getElementById(id);
const {scheme, port, path, sender_property} = await (await fetch('chat/gateway.json')).json();
const clientId = `chat-${random_id()}`;

const presence = new Map(); // by user: the latest report of the gateway
const talks = new Map(); // by topic: {topic, user, messages, unread}; a room's has no user
let me = '',
    password = '';
let latest = null; // the latest connection, or attempt to connect
let connection = null; // the latest connection, while it is logged in
let attempts = 0,
    retry = 0;
let sees_presence = true; // the gateway's rules may forbid it
let drawing = false;
let messages_made = 0;
let open_talk = talk_of(LOBBY);

// -- the connection

function connect() {
    clearTimeout(retry);
    retry = 0;
    latest?.close();
    const current = (latest = new Mqtt(
        `${scheme}://${location.hostname}:${port}${path}`,
        {clientId, user: me, password, sessionExpiry: 60},
        {
            open: () => {
                if (current === latest) opened(current);
            },
            message: message => {
                if (current === latest) heard(message);
            },
            close: why => {
                if (current === latest) closed(why);
            },
        },
    ));
}

async function opened(current) {
    attempts = 0;
    connection = current;
    presence.clear(); // nobody reports the users that have gone meanwhile
    sessionStorage.setItem('name', me);
    const has_just_come = find('app').hidden;
    find('login').hidden = true;
    find('app').hidden = false;
    draw();
    if (has_just_come) {
        find('say').focus();
        // A narrow window shows the list first.
        if (document.activeElement !== find('say')) find('rooms').querySelector('button').focus();
    }
    for (const talk of talks.values())
        for (const message of talk.messages) if (message.state === 'sending') transmit(talk, message);
    try {
        const [reason] = await current.subscribe([{filter: 'presence/+'}, {filter: LOBBY, noLocal: true}]);
        sees_presence = reason < REFUSAL;
    } catch {
        // The connection has ended, and `closed` handles this.
    }
}

function closed({reason, text}) {
    connection = null;
    if (ADVICE.has(reason)) return refused(reason, text);
    // The pause is random, so that the clients of a restarted gateway do not all come back at the same moment.
    retry = setTimeout(connect, Math.random() * 1000 * Math.min(LONGEST_PAUSE, 2 ** ++attempts));
    find('refusal').textContent = 'The gateway does not answer. Trying again…';
    render();
}

function refused(reason, text) {
    leave();
    if (BAD_LOGIN.has(reason)) find('secret').hidden = false;
    find('refusal').textContent = `Login refused: ${text || `reason 0x${reason.toString(16)}`}. ${ADVICE.get(reason)}`;
    find(BAD_LOGIN.has(reason) ? 'password' : 'name').focus();
}

function leave() {
    latest?.close();
    latest = connection = null;
    me = password = '';
    clearTimeout(retry);
    retry = 0;
    sessionStorage.removeItem('name');
    presence.clear();
    talks.clear();
    show(talk_of(LOBBY));
    find('app').dataset.view = 'list';
    find('app').hidden = true;
    find('login').hidden = false;
}

// -- messages

/// The topic of a user's inbox. Characters with a meaning in topics are percent-encoded.
function inbox_of(user) {
    return 'inbox/' + user.replace(/[%/+#]/g, sign => '%' + sign.charCodeAt(0).toString(16).toUpperCase());
}

function talk_of(topic, user) {
    if (!talks.has(topic)) talks.set(topic, {topic, user, messages: [], unread: 0});
    return talks.get(topic);
}

function heard({topic, text, properties}) {
    if (topic.startsWith('presence/')) return take_presence(text);
    if (topic !== LOBBY && !topic.startsWith('inbox/')) return; // a room that this page does not show
    // Used only if the gateway sets this property itself. Otherwise any client could write it.
    const sender = sender_property && properties[sender_property];
    const from = sender || 'sender unknown';
    const talk = topic === LOBBY ? talk_of(LOBBY) : sender ? talk_of(inbox_of(from), from) : talk_of(UNKNOWN, '');
    const {id} = properties; // at QoS 1 a message may come twice
    if (id && talk.messages.some(message => message.id === id && message.from === from)) return;
    add(talk, {id, from, text, at: time_of(properties.sent)});
    if (talk !== open_talk || !is_visible()) ++talk.unread;
    render();
}

/// When the message was written, because it may have waited for days. Only a time in the past is believed.
function time_of(sent) {
    const now = Date.now(),
        said = Number(sent);
    return new Date(said > 0 && said < now ? said : now);
}

function take_presence(text) {
    if (!text) return;
    const told = JSON.parse(text);
    if (told.version < presence.get(told.user)?.version) return;
    presence.set(told.user, told);
    if (told.state === 'online')
        for (const message of talks.get(inbox_of(told.user))?.messages ?? [])
            if (message.state === 'waits') message.state = 'sent';
    render();
}

function add(talk, message) {
    message.key = ++messages_made;
    talk.messages.push(message);
    talk.messages.splice(0, talk.messages.length - MOST_MESSAGES);
}

function say(text) {
    const message = {id: random_id(), from: me, text, at: new Date(), state: 'sending'};
    add(open_talk, message);
    render();
    if (connection) transmit(open_talk, message);
}

/// A message that is not acknowledged stays in the state 'sending', and is sent again with the next connection.
async function transmit(talk, message) {
    const {id, text, at} = message;
    try {
        const reason = await connection.publish(talk.topic, text, {id, sent: String(at.getTime())});
        message.state = state_by(reason, talk);
        message.reason = reason;
    } catch {
        return; // the connection has ended, and `closed` handles this
    }
    render();
}

function state_by(reason, talk) {
    if (reason === NO_MATCHING_SUBSCRIBERS) return 'unheard';
    if (reason) return 'failed';
    return talk.user !== undefined && is_away(talk.user) ? 'waits' : 'sent';
}

const is_visible = () => !document.hidden && find('messages').offsetParent !== null;
const is_online = user => presence.get(user)?.state === 'online';
const is_away = user => sees_presence && !is_online(user);

// -- what is shown

/// Draws the page once for all changes that happen together.
function render() {
    if (!drawing) queueMicrotask(draw);
    drawing = true;
}

function draw() {
    drawing = false;
    const people = people_to_show();
    set_text(find('my-name'), me);
    dress_avatar(find('my-avatar'), me);
    set_text(find('connection'), connection ? 'online' : 'no connection: trying again…');
    find('connection').dataset.state = connection ? 'online' : 'offline';
    patch(find('rooms'), [talk_of(LOBBY)], talk => talk.topic, entry, update_entry);
    patch(
        find('people'),
        people.map(user => (user ? talk_of(inbox_of(user), user) : talk_of(UNKNOWN, user))),
        talk => talk.topic,
        entry,
        update_entry,
    );
    const online = people.filter(is_online).length;
    set_text(find('online-count'), online ? `· ${online} online` : '');
    find('alone').hidden = people.length > 0;
    draw_talk();
    const unread = [...talks.values()].reduce((sum, talk) => sum + talk.unread, 0);
    document.title = (unread ? `(${unread}) ` : '') + 'Pulsegate chat';
}

/// All other users: online users first, then by name.
function people_to_show() {
    const written = [...talks.values()].filter(talk => talk.user !== undefined).map(talk => talk.user);
    const all = new Set([...presence.keys(), ...written]);
    all.delete(me);
    return [...all].sort((a, b) => is_online(b) - is_online(a) || a.localeCompare(b));
}

/// Makes the list show these items, in their order. Existing entries stay, so that they keep the focus, and a screen
/// reader reads only new entries.
function patch(list, items, key, build, update) {
    const focused = document.activeElement;
    const before = new Map([...list.children].map(child => [child.key, child]));
    let place = list.firstElementChild;
    for (const [at, item] of items.entries()) {
        const shown = before.get(key(item)) ?? Object.assign(build(item), {key: key(item)});
        before.delete(shown.key);
        update(shown, item, items[at - 1]);
        if (shown === place) place = place.nextElementSibling;
        else list.insertBefore(shown, place);
    }
    for (const gone of before.values()) gone.remove();
    if (focused !== document.activeElement && focused.isConnected) focused.focus();
}

function set_text(element, text) {
    if (element.textContent !== text) element.textContent = text;
}

function entry(talk) {
    const button = element(
        'button',
        '',
        avatar(talk),
        element('div', 'titles', element('span'), element('small')),
        element('span', 'unread'),
    );
    // Entries outlive a login, and talks do not.
    button.addEventListener('click', () => show(talk_of(talk.topic, talk.user)));
    return element('li', '', button);
}

function update_entry(shown, talk) {
    const button = shown.firstChild;
    dress_talk(button.querySelector('.avatar'), talk);
    set_text(button.querySelector('.titles span'), title_of(talk));
    set_text(button.querySelector('.titles small'), last_words(talk));
    set_text(button.querySelector('.unread'), talk.unread ? String(talk.unread) : '');
    button.querySelector('.unread').hidden = !talk.unread;
    button.setAttribute('aria-current', String(talk === open_talk));
}

function last_words(talk) {
    const last = talk.messages.at(-1);
    if (last) return (last.from === me ? 'You: ' : talk.user === undefined ? `${last.from}: ` : '') + last.text;
    return state_of(talk);
}

const title_of = talk => (talk.user === '' ? 'Unknown senders' : (talk.user ?? 'Lobby'));

function state_of(talk) {
    if (talk.user === undefined) return 'everybody who is here';
    if (talk.user === '') return 'private messages without a sender';
    const known = presence.get(talk.user);
    if (!known) return sees_presence ? 'not here' : '';
    return known.state === 'online' ? 'online' : `away, last seen ${time_text(new Date(known.last_seen))}`;
}

function show(talk) {
    if (talk !== open_talk) find('messages').ariaLive = 'off'; // earlier messages are not news
    open_talk = talk;
    talk.unread = 0;
    find('app').dataset.view = 'talk';
    render();
    find('say').focus();
}

function draw_talk() {
    const {user, messages} = open_talk;
    const log = find('messages'),
        at_end = log.scrollHeight - log.scrollTop - log.clientHeight < 80;
    find('talk-name').textContent = title_of(open_talk);
    find('talk-state').textContent = state_of(open_talk);
    dress_talk(find('talk-avatar'), open_talk);
    find('say').disabled = user === '';
    find('say').placeholder =
        user === undefined ? 'Write to everybody…' : user === '' ? 'You cannot answer here' : `Write to ${user}…`;
    const empty = {key: `empty ${open_talk.topic}`};
    patch(
        log,
        messages.length ? messages : [empty],
        message => message.key,
        message => (message === empty ? nothing_said(user) : bubble(message)),
        (shown, message, before) => message !== empty && update_bubble(shown, message, before),
    );
    if (at_end || messages.at(-1)?.from === me) log.scrollTop = log.scrollHeight;
    if (log.ariaLive === 'off')
        setTimeout(() => {
            log.ariaLive = 'polite';
        }, 100);
}

const nothing_said = user =>
    element(
        'li',
        'empty',
        user === undefined
            ? 'Say hello. Everybody who is here will read it.'
            : `Only ${user} and you read what is written here.`,
    );

function bubble(message) {
    const by = element(
        'div',
        'by',
        ...(message.from === me ? [] : [element('strong', '', message.from), ' ']),
        time_text(message.at),
    );
    const item = element('li', '', by, element('div', 'words', message.text), element('div'));
    item.classList.toggle('mine', message.from === me);
    return item;
}

function update_bubble(item, message, before) {
    item.classList.toggle('first', message.from !== before?.from || message.at - before.at > 300_000);
    const note = note_on(message) ?? '';
    item.lastChild.className = `note ${message.state}`;
    item.lastChild.hidden = !note;
    set_text(item.lastChild, note);
}

/// The state of the user's own message, as far as it is known.
function note_on(message) {
    const {user} = open_talk;
    switch (message.state) {
        case 'sending':
            return connection ? 'sending…' : 'waiting for a connection';
        case 'sent':
            return '✓ sent';
        case 'waits':
            return `${user} is away: the message waits`;
        case 'unheard':
            return user === undefined
                ? 'nobody else is here'
                : `${user} is not connected, and the message was not kept`;
        case 'failed':
            return `not accepted: ${MESSAGE_ADVICE.get(message.reason) ?? `reason 0x${message.reason.toString(16)}`}`;
    }
}

function avatar(talk) {
    const picture = element('span', 'avatar');
    picture.ariaHidden = 'true';
    dress_talk(picture, talk);
    return picture;
}

function dress_talk(picture, talk) {
    const is_room = !talk.user;
    picture.classList.toggle('room', is_room);
    delete picture.dataset.state;
    if (is_room) return set_text(picture, talk.user === '' ? '?' : '#');
    dress_avatar(picture, talk.user);
    if (sees_presence) picture.dataset.state = is_online(talk.user) ? 'online' : 'away';
}

function dress_avatar(picture, user) {
    const hue = [...user].reduce((sum, sign) => (sum * 31 + sign.codePointAt(0)) % 360, 7);
    picture.style.setProperty('--hue', hue);
    set_text(picture, ([...user][0] ?? '').toUpperCase());
}

function time_text(date) {
    const today = date.toDateString() === new Date().toDateString();
    const time = date.toLocaleTimeString([], {hour: '2-digit', minute: '2-digit'});
    return today ? time : `${date.toLocaleDateString()} ${time}`;
}

function element(tag, className, ...content) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    made.append(...content);
    return made;
}

function random_id() {
    // crypto.randomUUID is for https only
    return [...crypto.getRandomValues(new Uint8Array(12))].map(byte => byte.toString(16).padStart(2, '0')).join('');
}

// -- what the user does

find('login-form').addEventListener('submit', event => {
    event.preventDefault();
    me = find('name').value.trim();
    password = find('password').value;
    find('refusal').textContent = '';
    if (me) connect();
});

find('say-form').addEventListener('submit', event => {
    event.preventDefault();
    const text = find('say').value.trim();
    find('say').value = '';
    if (text) say(text);
});

find('say').addEventListener('keydown', event => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    find('say-form').requestSubmit();
});

find('find-form').addEventListener('submit', event => {
    event.preventDefault();
    const user = find('find').value.trim();
    find('find').value = '';
    if (user && user !== me) show(talk_of(inbox_of(user), user));
});

find('leave').addEventListener('click', leave);
find('back').addEventListener('click', () => {
    find('app').dataset.view = 'list';
});
addEventListener('online', () => {
    if (retry) connect();
});
addEventListener('pagehide', () => connection?.close());
document.addEventListener('visibilitychange', () => {
    if (is_visible()) open_talk.unread = 0;
    render();
});

me = sessionStorage.getItem('name') ?? '';
if (me) connect();
