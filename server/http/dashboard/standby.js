// The page of a node that stands by: shows which node serves, and the dashboard as soon as this node serves.

import {get_unless, repeat} from './api.js';
import {cluster_section} from './cluster.js';
import {find, set_text} from './dom.js';

const TOKEN_NEEDED = [401, 403];

async function show() {
    const {status, why} = await (await fetch('readyz')).json();
    if (status !== 'standby') return location.reload();
    set_text(find('why'), `${why}.`);
    const cluster = await get_unless(TOKEN_NEEDED, 'cluster', {});
    find('cluster').replaceChildren(...(cluster ? [cluster_section(cluster)] : []));
}

const told = trouble => trouble && set_text(find('why'), `This node does not answer: ${trouble.message}.`);
repeat(2, new AbortController().signal, show, told);
