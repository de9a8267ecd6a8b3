// Packets, messages and bytes.
#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <utility>

#include "server/http/metrics/metric_groups.h"

namespace pulsegate {

namespace {

std::string in_lower_case(std::string_view text) {
    std::string out(text);
    std::ranges::transform(out, out.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return out;
}

/// A counter for each packet type.
void add_packet_families(Families& families, const char* name, const char* help,
                         Counters::PerPacket Counters::*counts) {
    auto& packets = families.counters(name, help);
    for (std::size_t shard = 0; shard < families.shards().size(); ++shard)
        for (auto type = PacketType::connect; type <= PacketType::auth;
             type = static_cast<PacketType>(static_cast<int>(type) + 1))
            Families::add(
                packets,
                {Families::shard_label(shard), {"type", in_lower_case(pulsegate::name(type))}},
                (families.shards()[shard].counters.*counts)[static_cast<std::size_t>(type)]);
}

void add_drop_families(Families& families) {
    auto& drops = families.counters("pulsegate_messages_dropped_total",
                                    "Messages that a receiver does not get, by reason.");
    for (std::size_t shard = 0; shard < families.shards().size(); ++shard) {
        const Counters& counters = families.shards()[shard].counters;
        const std::pair<const char*, std::uint64_t> reasons[] = {
            {"too_large_for_client", counters.dropped_too_large},
            {"refused", counters.dropped_refused},
            {"expired", counters.dropped_expired},
            {"queue_full", counters.dropped_queue_full},
            {"session_ended", counters.dropped_session_ended},
            {"damaged", counters.dropped_damaged},
            {"no_member", counters.dropped_no_member},
            {"no_inbox", counters.dropped_no_inbox},
            {"no_receiver", counters.dropped_no_receiver},
        };
        for (const auto& [reason, count] : reasons)
            Families::add(drops, {Families::shard_label(shard), {"reason", reason}}, count);
    }
}

void add_delivery_families(Families& families) {
    auto& delivery = families.histograms(
        "pulsegate_delivery_seconds",
        "Time from reading a client's PUBLISH to writing it into the buffer of a connected "
        "subscriber with room. The event loop reads its clock once per batch of packets, so a "
        "delivery within a batch counts as 0. Shared subscriptions are left out.");
    for (std::size_t shard = 0; shard < families.shards().size(); ++shard)
        Families::add(delivery, {Families::shard_label(shard)},
                      families.shards()[shard].counters.delivery);
}

void add_traffic_families(Families& families) {
    add_packet_families(families, "pulsegate_packets_received_total", "MQTT packets received.",
                        &Counters::packets_in);
    add_packet_families(families, "pulsegate_packets_sent_total", "MQTT packets sent.",
                        &Counters::packets_out);
    families.counter("pulsegate_messages_received_total", "Messages published by clients.",
                     count_of(&Counters::messages_in));
    families.counter("pulsegate_messages_sent_total", "Messages sent to clients.",
                     count_of(&Counters::messages_out));
    families.counter("pulsegate_bytes_received_total", "Bytes received from clients.",
                     count_of(&Counters::bytes_in));
    families.counter("pulsegate_bytes_sent_total", "Bytes sent to clients.",
                     count_of(&Counters::bytes_out));
    families.gauge("pulsegate_output_waiting_bytes", "Bytes that wait to be sent to clients.",
                   state_of(&ShardStatus::backlog));
}

/// Each shard has all retained messages, and the first shard reports the delayed ones.
void add_kept_families(Families& families) {
    const ShardStatus& first = families.shards().front();
    families.gateway_gauge("pulsegate_retained_messages", "Retained messages.",
                           static_cast<double>(first.retained));
    families.gateway_gauge("pulsegate_retained_bytes",
                           "Approximate memory of the retained messages.",
                           static_cast<double>(first.retained_bytes));
    families.counter("pulsegate_messages_not_retained_total",
                     "Messages that were delivered, but not retained as they should be, because a "
                     "limit was reached.",
                     count_of(&Counters::not_retained));
    families.gateway_gauge("pulsegate_delayed_messages",
                           "Messages that wait to be published later.",
                           static_cast<double>(first.delayed.messages));
    families.gateway_gauge("pulsegate_delayed_bytes",
                           "Approximate room that delayed messages take.",
                           static_cast<double>(first.delayed.bytes));
    families.counter("pulsegate_delayed_published_total", "Delayed messages that were published.",
                     count_of(&Counters::delayed_published));
}

}  // namespace

void add_message_metrics(Families& families) {
    add_traffic_families(families);
    add_delivery_families(families);
    add_drop_families(families);
    families.gauge("pulsegate_messages_queued", "Messages in the queues of clients.",
                   state_of(&ShardStatus::waiting));
    add_kept_families(families);
}

}  // namespace pulsegate
