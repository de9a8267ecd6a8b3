// The nodes of a cluster, and the state of its Redis.

import {make, section, table} from './dom.js';
import {number} from './format.js';

const role = node => (node.condemned ? 'taken over' : node.owner ? 'serves' : 'stands by');

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
                Version: node => node.version,
                'Last heartbeat': node => `${number(node.beat_age_ms)} ms ago`,
            },
            cluster.nodes,
        ),
        make('p', {class: 'hint'}, `Redis ${address}: ${reachable ? 'answers' : (why ?? 'does not answer')}`),
    );
}
