// A small MQTT 5.0 client over WebSocket. It sends at QoS 1, receives at any QoS, and knows user properties and the
// keepalive. One object is one connection; make a new object to connect again. It is enough for this page; an app
// should use a library (see server/clients.md).

const CONNECT = 1,
    CONNACK = 2,
    PUBLISH = 3,
    PUBACK = 4,
    PUBREC = 5,
    PUBREL = 6,
    PUBCOMP = 7,
    SUBSCRIBE = 8,
    SUBACK = 9,
    PINGREQ = 12,
    PINGRESP = 13,
    DISCONNECT = 14;

/// The sizes in bytes of properties that are numbers, by their identifiers in MQTT 5.0, table 2-4.
const SIZES = {
    0x01: 1,
    0x02: 4,
    0x11: 4,
    0x13: 2,
    0x17: 1,
    0x19: 1,
    0x21: 2,
    0x22: 2,
    0x23: 2,
    0x24: 1,
    0x25: 1,
    0x27: 4,
    0x28: 1,
    0x29: 1,
    0x2a: 1,
};
const SUBSCRIPTION_IDENTIFIER = 0x0b,
    SESSION_EXPIRY = 0x11,
    SERVER_KEEP_ALIVE = 0x13,
    REASON_STRING = 0x1f,
    USER_PROPERTY = 0x26;

export class Mqtt {
    /// Calls `on.open({reason, sessionPresent})` when the login is answered, `on.message({topic, text, properties})`
    /// for each message, and always `on.close({reason, text})` at the end, with the server's reason if it gave one.
    constructor(url, {clientId, user, password, keepalive = 60, sessionExpiry = 0}, on) {
        this.on = on;
        this.keepalive = keepalive;
        this.ending = {};
        this.waiting = new Map(); // packets that wait for an acknowledgement, by packet identifier
        this.lastId = 0;
        this.unreleased = new Set(); // identifiers at QoS 2: repetitions of these messages are not shown
        this.unread = new Uint8Array();
        this.socket = new WebSocket(url, 'mqtt');
        this.socket.binaryType = 'arraybuffer';
        this.socket.onopen = () =>
            this.send(
                CONNECT << 4,
                text('MQTT'),
                [5, 0x80 | (password ? 0x40 : 0)],
                u16(keepalive),
                properties([SESSION_EXPIRY, ...u32(sessionExpiry)]),
                text(clientId),
                text(user),
                password ? text(password) : [],
            );
        this.socket.onmessage = event => this.receive(new Uint8Array(event.data));
        this.socket.onclose = () => this.ended();
    }

    /// Resolves with the reason code of each filter: {filter, qos, noLocal}.
    subscribe(filters) {
        const topics = filters.flatMap(({filter, qos = 1, noLocal}) => [...text(filter), qos | (noLocal ? 4 : 0)]);
        return this.ask((SUBSCRIBE << 4) | 2, id => [u16(id), properties(), topics]);
    }

    /// At QoS 1. Resolves with the reason code; rejects if the connection ends before.
    publish(topic, payload, userProperties = {}) {
        const user = Object.entries(userProperties).flatMap(([name, value]) => [
            USER_PROPERTY,
            ...text(name),
            ...text(value),
        ]);
        return this.ask((PUBLISH << 4) | (1 << 1), id => [text(topic), u16(id), properties(user), utf8(payload)]);
    }

    /// Disconnects in order. A kept session ends as well.
    close() {
        if (this.socket.readyState === WebSocket.OPEN)
            this.send(DISCONNECT << 4, [0], properties([SESSION_EXPIRY, ...u32(0)]));
        this.socket.close();
    }

    ask(head, parts) {
        return new Promise((resolve, reject) => {
            do this.lastId = (this.lastId % 65535) + 1;
            while (this.waiting.has(this.lastId));
            this.waiting.set(this.lastId, {resolve, reject});
            this.send(head, ...parts(this.lastId));
        });
    }

    send(head, ...parts) {
        const body = parts.flatMap(part => [...part]);
        if (this.socket.readyState === WebSocket.OPEN)
            this.socket.send(new Uint8Array([head, ...varint(body.length), ...body]));
    }

    receive(bytes) {
        const all = new Uint8Array(this.unread.length + bytes.length);
        all.set(this.unread);
        all.set(bytes, this.unread.length);
        this.unread = all;
        for (let packet; (packet = first_packet(this.unread));) {
            this.unread = this.unread.subarray(packet.end);
            this.take(packet.head, new Reader(packet.body));
        }
    }

    take(head, body) {
        switch (head >> 4) {
            case CONNACK:
                return this.take_connack(body);
            case PUBLISH:
                return this.take_publish((head >> 1) & 3, body);
            case PUBACK:
                return this.settle(body.u16(), () => (body.done() ? 0 : body.u8()));
            case PUBREL:
                return this.take_pubrel(body.u16());
            case SUBACK:
                return this.settle(body.u16(), () => (body.properties(), [...body.rest()]));
            case PINGRESP:
                this.silent = false;
                return;
            case DISCONNECT:
                this.ending = {reason: body.done() ? 0 : body.u8(), ...(body.done() ? {} : said(body))};
        }
    }

    take_connack(body) {
        const sessionPresent = body.u8() === 1,
            reason = body.u8(),
            found = body.properties();
        if (reason) return void (this.ending = {reason, text: found.get(REASON_STRING)});
        this.keepalive = found.get(SERVER_KEEP_ALIVE) ?? this.keepalive;
        this.pinging = setInterval(() => this.ping(), this.keepalive * 500);
        this.on.open({sessionPresent});
    }

    /// A message is acknowledged after it has been shown. A message that is lost before that comes again.
    take_publish(qos, body) {
        const topic = body.text(),
            id = qos ? body.u16() : 0,
            found = body.properties();
        if (!this.unreleased.has(id)) this.on.message({topic, text: decoded(body.rest()), properties: found.user});
        if (qos === 1) this.send(PUBACK << 4, u16(id));
        if (qos < 2) return;
        this.unreleased.add(id);
        this.send(PUBREC << 4, u16(id));
    }

    take_pubrel(id) {
        this.unreleased.delete(id);
        this.send(PUBCOMP << 4, u16(id));
    }

    settle(id, result) {
        this.waiting.get(id)?.resolve(result());
        this.waiting.delete(id);
    }

    /// Ends the connection if the last ping was not answered: then the connection is broken. Otherwise sends a ping.
    ping() {
        if (this.silent) return this.ended();
        this.silent = true;
        this.send(PINGREQ << 4);
    }

    ended() {
        clearInterval(this.pinging);
        this.socket.onclose = this.socket.onmessage = null;
        this.socket.close();
        for (const {reject} of this.waiting.values()) reject(new Error('the connection has ended'));
        this.waiting.clear();
        this.on.close(this.ending);
    }
}

// -- packets

const utf8 = value => new TextEncoder().encode(value);
const decoded = bytes => new TextDecoder().decode(bytes);
const u16 = value => [value >> 8, value & 255];
const u32 = value => [...u16(value >>> 16), ...u16(value & 0xffff)];
const text = value => [...u16(utf8(value).length), ...utf8(value)];
const varint = value => (value < 128 ? [value] : [(value & 127) | 128, ...varint(value >> 7)]);
const properties = (bytes = []) => [...varint(bytes.length), ...bytes];
const said = body => ({text: body.properties().get(REASON_STRING)});

/// {head, body, end} of the packet that these bytes begin with; undefined if it is not complete.
function first_packet(bytes) {
    let size = 0,
        at = 1,
        shift = 0;
    do {
        if (at >= bytes.length) return undefined;
        size |= (bytes[at] & 127) << shift;
        shift += 7;
    } while (bytes[at++] & 128);
    return at + size <= bytes.length
        ? {head: bytes[0], body: bytes.subarray(at, at + size), end: at + size}
        : undefined;
}

class Reader {
    constructor(bytes) {
        this.bytes = bytes;
        this.at = 0;
    }

    done() {
        return this.at >= this.bytes.length;
    }
    u8() {
        return this.bytes[this.at++];
    }
    u16() {
        return this.number(2);
    }
    number(size) {
        return size ? this.u8() * 256 ** (size - 1) + this.number(size - 1) : 0;
    }
    varint() {
        const digit = this.u8();
        return digit < 128 ? digit : (digit & 127) + 128 * this.varint();
    }
    take(size) {
        return this.bytes.subarray(this.at, (this.at += size));
    }
    text() {
        return decoded(this.take(this.u16()));
    }
    rest() {
        return this.bytes.subarray(this.at);
    }

    /// A map by identifier, with the user properties as `user`. That object has no prototype, because clients choose
    /// its names.
    properties() {
        const found = new Map();
        found.user = Object.create(null);
        const size = this.varint(),
            end = this.at + size;
        while (this.at < end) {
            const id = this.u8();
            if (id === USER_PROPERTY) found.user[this.text()] = this.text();
            else if (id === SUBSCRIPTION_IDENTIFIER) found.set(id, this.varint());
            else found.set(id, id in SIZES ? this.number(SIZES[id]) : this.text()); // texts and bytes have a length
        }
        return found;
    }
}
