// The HTTP API, as the pages use it.

let token = sessionStorage.getItem('token') ?? '';

/// A refusal of the gateway. `code` is one of the codes in the documentation, and `status` is the HTTP status.
export class Refused extends Error {
    constructor(status, {error, code}) {
        super(error ?? `the gateway answered ${status}`);
        this.status = status;
        this.code = code;
    }
}

export function use_token(text) {
    token = text;
    if (token) sessionStorage.setItem('token', token);
    else sessionStorage.removeItem('token');
}
export const has_token = () => token !== '';

function url_of(path, parameters) {
    const given = Object.entries(parameters).filter(([, value]) => value != null && value !== '');
    // URLSearchParams writes a space as +, which is a plus for the API.
    const query = `${new URLSearchParams(given)}`.replaceAll('+', '%20');
    return `api/v1/${path}${query && `?${query}`}`;
}

async function ask(method, path, parameters, {body, accept, after, signal} = {}) {
    const headers = {};
    if (after !== undefined) headers['Last-Event-ID'] = after;
    if (token) headers.Authorization = `Bearer ${token}`;
    if (accept) headers.Accept = accept;
    if (body !== undefined) headers['Content-Type'] = 'application/json';
    const answer = await fetch(url_of(path, parameters), {
        method,
        headers,
        signal,
        body: body === undefined ? undefined : JSON.stringify(body),
    });
    if (!answer.ok) throw new Refused(answer.status, await answer.json().catch(() => ({})));
    return answer;
}

export const get = async (path, parameters = {}, signal) => (await ask('GET', path, parameters, {signal})).json();
export const post = async (path, body = {}, parameters = {}) => (await ask('POST', path, parameters, {body})).json();
export const put = async (path, parameters = {}) => (await ask('PUT', path, parameters)).json();
export const remove = async (path, parameters = {}) => (await ask('DELETE', path, parameters)).json();

/// A part of an address, but not a segment of a path.
export const part = name => encodeURIComponent(name);

/// A segment of a path. The browser would take "." and ".." out of the path, also as %2E.
export const segment = name => (name === '.' || name === '..' ? `${name};` : encodeURIComponent(name));

/// Like `get`, but returns undefined if the request is refused with one of these statuses.
export async function get_unless(statuses, path, parameters, signal) {
    try {
        return await get(path, parameters, signal);
    } catch (error) {
        if (statuses.includes(error.status)) return undefined;
        throw error;
    }
}

/// Server-sent events: calls `heard(name, data, id)` for each until the stream or the page ends. `after` is the id of the
/// last event before; `opened` is called when the stream has begun. EventSource would not send the token.
export async function listen(path, parameters, signal, heard, {after, opened} = {}) {
    const answer = await ask('GET', path, parameters, {accept: 'text/event-stream', after, signal});
    opened?.();
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    for (;;) {
        const {done, value} = await reader.read();
        if (done) return;
        text += value;
        const events = text.split('\n\n');
        text = events.pop();
        for (const event of events) {
            const fields = Object.fromEntries(event.split('\n').map(line => line.split(/: ?(.*)/s)));
            // An event without data only states the place in the stream.
            if (fields.data === undefined) heard('position', undefined, fields.id);
            else heard(fields.event ?? 'message', JSON.parse(fields.data), fields.id);
        }
    }
}

/// Calls `act` at once, and again `seconds` after each call has ended, while the page is visible. Passes its errors to
/// `failed`, and goes on.
export async function repeat(seconds, signal, act, failed) {
    while (!signal.aborted) {
        if (!document.hidden) {
            try {
                await act();
                failed(null);
            } catch (error) {
                if (signal.aborted) return;
                failed(error);
            }
        }
        await new Promise(resolve => setTimeout(resolve, seconds * 1000));
    }
}
