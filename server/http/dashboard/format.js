// Numbers and times, as people read them.

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

export function bytes(count) {
    let unit = 0;
    for (; count >= 1024 && unit < units.length - 1; ++unit) count /= 1024;
    return `${count.toLocaleString(undefined, {maximumFractionDigits: unit && count < 100 ? 1 : 0})} ${units[unit]}`;
}

export const number = (value, digits = 0) => value.toLocaleString(undefined, {maximumFractionDigits: digits});

/// A number of seconds, by its two largest units.
export function span(seconds) {
    const steps = [
        ['d', 86400],
        ['h', 3600],
        ['min', 60],
        ['s', 1],
    ];
    const first = steps.findIndex(([, size]) => seconds >= size);
    if (first < 0) return `${number(seconds, 1)} s`;
    let rest = Math.round(seconds);
    const parts = [];
    for (const [name, size] of steps.slice(first, first + 2)) {
        const count = Math.floor(rest / size);
        rest -= count * size;
        if (count) parts.push(`${count} ${name}`);
    }
    return parts.join(' ');
}

/// A time of RFC 3339 in the reader's time zone, and how long ago it was.
export function moment(text) {
    if (!text) return null;
    const date = new Date(text);
    const away = (Date.now() - date) / 1000;
    const day = date.toDateString() === new Date().toDateString() ? '' : `${date.toLocaleDateString()} `;
    const when = `${day}${date.toLocaleTimeString()}`;
    if (Math.abs(away) < 1) return `${when}, now`;
    return away > 0 ? `${when}, ${span(away)} ago` : `${when}, in ${span(-away)}`;
}

export const clock = text => new Date(text).toLocaleTimeString();

/// The payload of a message: its text, or its bytes in Base64.
export function payload(message) {
    const text = message.payload ?? (message.payload_base64 ? `base64: ${message.payload_base64}` : '');
    return text.length > 300 ? `${text.slice(0, 300)}…` : text;
}
