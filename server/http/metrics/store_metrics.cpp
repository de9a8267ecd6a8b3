// The stored data, and whether the store works.
#include "server/http/metrics/metric_groups.h"

namespace pulsegate {

/// All shards share one store, which the first shard reports.
void add_store_metrics(Families& families) {
    const ShardStatus& first = families.shards().front();
    families.counter("pulsegate_store_messages_total",
                     "Messages of QoS 1 and 2 that were stored for a session.",
                     [](const ShardStatus& shard) { return shard.stored; });
    families.counter("pulsegate_store_spared_total",
                     "Messages of QoS 1 that stored sessions acknowledged before they had to be "
                     "stored.",
                     [](const ShardStatus& shard) { return shard.spared; });
    families.gauge("pulsegate_store_refuses",
                   "1: the disk or Redis is in trouble, and nothing is stored.",
                   [](const ShardStatus& shard) { return shard.store_refuses ? 1 : 0; });
    families.gateway_counter(
        "pulsegate_store_left_out_total",
        "Operations that the database rejects, even if the disk works; the log names them.",
        static_cast<double>(first.left_out));
    families.gateway_counter("pulsegate_store_damaged_total",
                             "Pages and rows of the store that were found damaged since the start, "
                             "including corrected ones; the log names them.",
                             static_cast<double>(first.damaged));
    families.gateway_gauge(
        "pulsegate_store_damage_timestamp_seconds",
        "Time at which a start found damaged or missing files of the store, so that acknowledged "
        "data may be lost; 0: never, or the file damage was deleted since.",
        static_cast<double>(first.damage_found));
    families.gateway_gauge("pulsegate_store_bytes", "Bytes that the stored data takes on the disk.",
                           static_cast<double>(first.data_bytes));
    families.gateway_gauge("pulsegate_store_max_bytes",
                           "Bytes that the stored data may take, see max-data-bytes.",
                           static_cast<double>(first.max_data_bytes));
}

}  // namespace pulsegate
