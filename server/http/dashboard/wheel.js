// The timing wheel of a shard, drawn: 30 slots, one for each second in which a client may go silent. The hand is at the
// slot that the shard looks at; a bar is as long as the number of connections in its slot.

import {make, set_text, svg} from './dom.js';

const SLOTS = 30;
const INNER = 34,
    OUTER = 94;

/// The point at this share of a turn and distance from the middle, clockwise from the top.
function point(turn, distance) {
    const angle = turn * 2 * Math.PI;
    return `${(100 + distance * Math.sin(angle)).toFixed(2)} ${(100 - distance * Math.cos(angle)).toFixed(2)}`;
}

function wedge(slot, distance) {
    const from = (slot + 0.08) / SLOTS,
        to = (slot + 0.92) / SLOTS;
    return (
        `M ${point(from, INNER)} L ${point(from, distance)} A ${distance} ${distance} 0 0 1 ${point(to, distance)} ` +
        `L ${point(to, INNER)} A ${INNER} ${INNER} 0 0 0 ${point(from, INNER)} Z`
    );
}

/// {element, show(wheel)}: `show` takes one of the shards that GET /api/v1/wheel answers.
export function wheel() {
    const slots = Array.from({length: SLOTS}, (_, slot) =>
        svg(
            'g',
            {},
            svg('path', {class: 'room', d: wedge(slot, OUTER)}),
            svg('path', {class: 'bar', d: wedge(slot, INNER)}),
        ),
    );
    const count = svg('text', {x: 100, y: 101, class: 'count'});
    const label = svg('text', {x: 100, y: 117, class: 'label'});
    const picture = svg('svg', {viewBox: '0 0 200 200', role: 'img', class: 'wheel'}, ...slots, count, label);
    const caption = make('figcaption');
    const show = ({shard, current, connections, slots: counts}) => {
        const most = Math.max(1, ...counts);
        counts.forEach((number, slot) => {
            slots[slot].classList.toggle('now', slot === current);
            slots[slot].lastChild.setAttribute('d', wedge(slot, INNER + ((OUTER - INNER) * number) / most));
        });
        set_text(count, connections.toLocaleString());
        set_text(label, 'connections');
        set_text(caption, `Shard ${shard}, up to ${most.toLocaleString()} in a slot`);
        picture.setAttribute('aria-label', `Wheel of shard ${shard}: ${connections} connections in ${SLOTS} slots`);
    };
    return {element: make('figure', {}, picture, caption), show};
}
