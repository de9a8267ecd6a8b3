// The nodes of a cluster, and the state of its Redis.

import {make, section, table} from './dom.js';
import {number} from './format.js';

/// A node knows its own clients, and the owner those of its edges. Other nodes may be edges or not.
function role(node) {
    const drains = node.draining ? ', is drained' : '';
    if (node.condemned) return 'taken over';
    if (node.owner) return 'owner' + drains;
    if (node.edge) return (node.linked ? 'edge' : 'edge without a link') + drains;
    return node.edge === undefined && node.linked === undefined ? 'stands by, or is an edge' : 'stands by';
}

const clients = node => (node.clients === undefined ? '–' : number(node.clients));

/// `cluster` is the answer of GET /api/v1/cluster.
export function cluster_section(cluster) {
    const {address, reachable, why} = cluster.redis;
    return section(
        'Cluster',
        table(
            'Nodes',
            {
                Node: node => node.name + (node.incarnation === cluster.self ? ' (this one)' : ''),
                Role: role,
                Clients: clients,
                Version: node => node.version,
                'Last heartbeat': node => `${number(node.beat_age_ms)} ms ago`,
            },
            cluster.nodes,
        ),
        make('p', {class: 'hint'}, `Redis ${address}: ${reachable ? 'answers' : (why ?? 'does not answer')}`),
    );
}
